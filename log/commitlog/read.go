package commitlog

import (
	"errors"
	"fmt"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/segment"
)

// Cached returns the payload, of size bytes, of the entry at pos, if it is among
// the newest that are kept in memory. The entry must have been handed out by Next.
// The caller releases the slice.
func (l *Log) Cached(pos entry.Pos, size int) (Slice, bool) { return l.tail.get(pos, size) }

// HeldBytes returns how much memory holds entries: the newest ones (Options.TailBytes
// and a little), those on their way to the apply loop, and what readers have not
// released. After Close only the last is left.
func (l *Log) HeldBytes() int64 { return l.blocks.held.Load() }

// ReadPayload reads the payload of the entry at pos, which must be len(dst) bytes
// long, from the disk into dst, and checks it. The bytes are those that were
// proposed; what the apply loop changed in memory is not in them. It allocates
// nothing, and may be called concurrently. The error matches ErrGone when the
// segment was dropped, ErrClosed, or segment.ErrCorrupt.
func (l *Log) ReadPayload(pos entry.Pos, dst []byte) error {
	f, err := l.acquire(pos, segment.EntryHeaderBytes+len(dst))
	if err != nil {
		return err
	}
	defer f.release()
	r, ok := l.reads.Get().(*entryRead)
	if !ok {
		r = new(entryRead)
	}
	defer l.reads.Put(r)
	r.bufs[0], r.bufs[1] = r.header[:], dst
	err = f.ReadV(r.bufs[:], int64(pos.At()))
	r.bufs[1] = nil
	if err == nil {
		_, err = segment.CheckEntry(r.header[:], dst)
	}
	return located(err, f, pos)
}

// ReadRange reads len(dst) bytes of the segment from the entry at pos on, as they
// are on the disk, for who looks at several entries that lie near each other.
// Nothing is checked: segment.CheckEntry does that for each entry. Errors are as
// those of ReadPayload.
func (l *Log) ReadRange(pos entry.Pos, dst []byte) error {
	f, err := l.acquire(pos, len(dst))
	if err != nil {
		return err
	}
	defer f.release()
	_, err = f.ReadAt(dst, int64(pos.At()))
	return err
}

// acquire returns the file that pos is in, with a reference, for a read of that
// many bytes.
func (l *Log) acquire(pos entry.Pos, bytes int) (*file, error) {
	f, err := l.files.acquire(pos.Segment())
	if err != nil {
		return nil, err
	}
	if from, bytes := f.ahead.next(int64(pos.At()), int64(pos.At())+int64(bytes)); bytes > 0 {
		f.WillNeed(from, bytes)
	}
	return f, nil
}

// entryRead is the memory that reading one entry takes.
type entryRead struct {
	header [segment.EntryHeaderBytes]byte
	bufs   [2][]byte
}

// located completes an error of reading the entry at pos with the place.
func located(err error, f *file, pos entry.Pos) error {
	if err == nil {
		return nil
	}
	var damage *segment.DamageError
	if errors.As(err, &damage) {
		damage.File = f.path
		damage.At += int64(pos.At())
		return damage
	}
	return fmt.Errorf("read entry at %v: %w", pos, err)
}
