package consumequeue

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"github.com/sluicemq/sluice/log/vfs"
)

// temporary is what the name of an unfinished index file ends in.
const temporary = ".tmp"

// Seal ends the tails of a segment: no batch of it will be Put any more. The
// Builder writes them to the segment's index file while later segments go on;
// they stay readable until Attach puts the file in their place. Seal takes the
// same short time however many partitions there are. Only the apply loop calls
// it, once for a segment.
func (s *Set) Seal(segment uint32) *Builder {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &Builder{segment: segment}
	for _, t := range s.unsealed {
		if t.number == segment {
			t.sealed = true
			b.queues, t.queues = t.queues, nil
		}
	}
	return b
}

// Builder writes the index file of one segment. Its methods are for one
// goroutine at a time, which need not be the apply loop.
type Builder struct {
	segment uint32
	queues  []*Queue
}

// part is what a file gets of one queue.
type part struct {
	dir  dirEntry
	tail tail
}

// parts returns the tails of the queues that still exist, by partition.
func (b *Builder) parts() (parts []part, entries uint64) {
	parts = make([]part, 0, len(b.queues))
	for _, q := range b.queues {
		q.mu.Lock()
		if i := q.tailIn(b.segment); i >= 0 {
			parts = append(parts, part{dir: dirEntry{partition: q.partition}, tail: q.tails[i]})
		}
		q.mu.Unlock()
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.dir.partition, b.dir.partition) })
	for i := range parts {
		d, t := &parts[i].dir, &parts[i].tail
		d.first, d.count = uint32(entries), uint32(t.len())
		d.base, d.end, d.bytes, d.max = t.base(), t.end(), t.bytes, t.max
		entries += uint64(t.len())
	}
	return parts, entries
}

// Write makes the segment's index file in dir, durable under its name, and
// opens it. After an error there is no file of that name, or a whole one that
// may not be durable, and Write may be called again. The caller gets one
// reference, for Attach.
func (b *Builder) Write(fs *vfs.FS, dir string, segment Segment) (*File, error) {
	if segment.Number != b.segment {
		return nil, fmt.Errorf("write index file: builder is of segment %d, not %d", b.segment, segment.Number)
	}
	parts, entries := b.parts()
	name := fs.Join(dir, FileName(b.segment))
	if err := writeFile(fs, name+temporary, segment, parts, entries); err != nil {
		_ = fs.Remove(name + temporary) // Clean removes it at the next start if this fails
		return nil, fmt.Errorf("write index file of segment %d: %w", b.segment, err)
	}
	if err := fs.Rename(name+temporary, name); err != nil {
		return nil, err
	}
	if err := fs.SyncDir(dir); err != nil {
		return nil, err
	}
	return Open(fs, dir, b.segment)
}

// writeFile writes a whole index file and syncs it.
func writeFile(fs *vfs.FS, name string, segment Segment, parts []part, entries uint64) (err error) {
	f, err := fs.Create(name)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	w := &sectionWriter{f: f, buf: make([]byte, 0, writeBytes)}
	w.write(encodeHeader(segment, parts, entries))
	w.sum() // the header has its own
	writeSections(w, segment, parts, entries)
	if err := w.flush(); err != nil {
		return err
	}
	return f.SyncData()
}

func encodeHeader(segment Segment, parts []part, entries uint64) []byte {
	h := header{
		Segment:    segment,
		terms:      uint32(len(segment.Terms)),
		marks:      uint32(len(segment.Marks)),
		partitions: uint64(len(parts)),
		entries:    entries,
	}
	return h.append(make([]byte, 0, headerBytes))
}

// writeSections writes what follows the header.
func writeSections(w *sectionWriter, segment Segment, parts []part, entries uint64) {
	var foot footer
	var one [dirBytes]byte // any one thing fits
	le := binary.LittleEndian
	for _, run := range segment.Terms {
		b := le.AppendUint64(one[:0], uint64(run.Term))
		b = le.AppendUint64(b, uint64(run.First))
		w.write(le.AppendUint64(b, uint64(run.At)))
	}
	foot.terms = w.sum()
	for _, mark := range segment.Marks {
		b := le.AppendUint64(one[:0], uint64(mark.Index))
		w.write(le.AppendUint64(b, uint64(mark.At)))
	}
	foot.marks = w.sum()
	for i := range parts {
		w.write(parts[i].dir.append(one[:0]))
	}
	foot.dir = w.sum()
	sums := make([]byte, 0, align8((entries+sumEntries-1)/sumEntries*sumBytes))
	n := 0
	for i := range parts {
		t := &parts[i].tail
		for j := range t.len() {
			w.write(appendEntry(one[:0], *t.at(j)))
			if n++; n%sumEntries == 0 {
				sums = le.AppendUint32(sums, w.sum())
			}
		}
	}
	if n%sumEntries != 0 {
		sums = le.AppendUint32(sums, w.sum())
	}
	w.write(sums[:cap(sums)]) // the padding is zero
	foot.sums = w.sum()
	w.write(foot.append(one[:0]))
}

// writeBytes is how much is written to the file at a time.
const writeBytes = 256 << 10

// sectionWriter buffers writes to a file, and keeps the checksum of what was
// written since it was last asked. After an error it does nothing more.
type sectionWriter struct {
	f      *vfs.File
	buf    []byte
	offset int64
	crc    uint32
	from   int // where in buf the bytes begin that crc does not cover yet
	err    error
}

func (w *sectionWriter) write(b []byte) {
	for len(b) > 0 {
		n := min(len(b), cap(w.buf)-len(w.buf))
		w.buf = append(w.buf, b[:n]...)
		b = b[n:]
		if len(w.buf) == cap(w.buf) {
			_ = w.flush() // kept in err
		}
	}
}

func (w *sectionWriter) cover() {
	w.crc = crc32.Update(w.crc, castagnoli, w.buf[w.from:])
	w.from = len(w.buf)
}

// sum returns the checksum of the section that ends here.
func (w *sectionWriter) sum() uint32 {
	w.cover()
	sum := w.crc
	w.crc = 0
	return sum
}

func (w *sectionWriter) flush() error {
	w.cover()
	if w.err == nil && len(w.buf) > 0 {
		_, w.err = w.f.WriteAt(w.buf, w.offset)
		w.offset += int64(len(w.buf))
	}
	w.buf, w.from = w.buf[:0], 0
	return w.err
}

// List returns the segments that have an index file in dir, in order.
func List(fs *vfs.FS, dir string) ([]uint32, error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	var segments []uint32
	for _, name := range names {
		if segment, ok := ParseFileName(name); ok {
			segments = append(segments, segment)
		}
	}
	slices.Sort(segments)
	return segments, nil
}

// Clean removes index files that a crash left unfinished in dir. Nothing may be
// writing one.
func Clean(fs *vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if base, ok := strings.CutSuffix(name, temporary); ok {
			if _, ok := ParseFileName(base); ok {
				if err := fs.Remove(fs.Join(dir, name)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Remove removes the segment's index file from dir, which may still be in use.
// It is not an error when there is none.
func Remove(fs *vfs.FS, dir string, segment uint32) error {
	if err := fs.Remove(fs.Join(dir, FileName(segment))); err != nil && !vfs.NotExist(err) {
		return err
	}
	return fs.SyncDir(dir)
}
