package consumequeue

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"runtime/debug"
	"sort"
	"sync/atomic"
	"unsafe"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/vfs"
)

// File is the index file of one sealed segment, mapped read-only. It is counted:
// whoever has it holds a reference until Release. All methods may be called by
// any goroutine that holds one.
type File struct {
	refs atomic.Int64
	m    *vfs.Map
	name string
	data []byte
	head header
	at   layout

	// checked has a bit for each block of entries whose checksum was found right.
	checked []atomic.Uint32
}

// Open maps the index file of a segment in dir and checks all of it but its
// entries, which are checked block by block when they are read (Verify checks
// them at once). The caller gets one reference. Errors wrap ErrCorrupt or
// ErrVersion, or come from the file system (vfs.NotExist tells a missing file).
func Open(fs *vfs.FS, dir string, segment uint32) (*File, error) {
	name := fs.Join(dir, FileName(segment))
	m, err := fs.Map(name)
	if err != nil {
		return nil, err
	}
	f, err := parseFile(name, m.Bytes())
	if err == nil && f.head.Number != segment {
		err = fmt.Errorf("%w: it is of segment %d", ErrStructure, f.head.Number)
	}
	if err != nil {
		_ = m.Close() // the damage is the news
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f.m = m
	return f, nil
}

// parseFile reads everything but the entries.
func parseFile(name string, data []byte) (f *File, err error) {
	f = &File{name: name, data: data}
	f.refs.Store(1)
	defer f.guard(debug.SetPanicOnFault(true), &err)
	if f.head, err = parseHeader(data); err != nil {
		return nil, err
	}
	var ok bool
	if f.at, ok = f.head.layout(); !ok {
		return nil, fmt.Errorf("%w: %d partitions and %d entries", ErrStructure, f.head.partitions, f.head.entries)
	}
	if uint64(len(data)) != f.at.size {
		return nil, fmt.Errorf("%w: %d bytes, want %d", ErrShort, len(data), f.at.size)
	}
	foot, err := parseFooter(data[f.at.footer:])
	if err != nil {
		return nil, err
	}
	for _, section := range []struct {
		name     string
		from, to uint64
		want     uint32
	}{
		{"term runs", f.at.terms, f.at.marks, foot.terms},
		{"marks", f.at.marks, f.at.dir, foot.marks},
		{"directory", f.at.dir, f.at.entries, foot.dir},
		{"entry checksums", f.at.sums, f.at.footer, foot.sums},
	} {
		if checksum(data[section.from:section.to]) != section.want {
			return nil, fmt.Errorf("%w in %s", ErrChecksum, section.name)
		}
	}
	if err := f.checkIndex(); err != nil {
		return nil, err
	}
	if err := f.checkDirectory(); err != nil {
		return nil, err
	}
	f.checked = make([]atomic.Uint32, (f.at.blocks+31)/32)
	return f, nil
}

// checkIndex looks at the term runs and marks.
func (f *File) checkIndex() error {
	f.head.Terms = make([]TermRun, f.head.terms)
	for i := range f.head.Terms {
		b := f.data[f.at.terms+uint64(i)*termBytes:]
		run := TermRun{
			Term:  entry.Term(binary.LittleEndian.Uint64(b)),
			First: entry.Index(binary.LittleEndian.Uint64(b[8:])),
			At:    binary.LittleEndian.Uint32(b[16:]),
		}
		if i > 0 && (run.Term <= f.head.Terms[i-1].Term || run.First <= f.head.Terms[i-1].First) {
			return fmt.Errorf("%w: term run %d is not behind its predecessor", ErrStructure, i)
		}
		f.head.Terms[i] = run
	}
	for i := 1; i < int(f.head.marks); i++ {
		if a, b := f.mark(i-1), f.mark(i); b.Index <= a.Index || b.At <= a.At {
			return fmt.Errorf("%w: mark %d is not behind its predecessor", ErrStructure, i)
		}
	}
	return nil
}

// checkDirectory makes sure that what the directory says of the places of
// entries can be relied on.
func (f *File) checkDirectory() error {
	var next uint64
	var before entry.Partition
	for i := range uint32(f.head.partitions) {
		d := f.dir(i)
		switch {
		case i > 0 && d.partition <= before:
			return fmt.Errorf("%w: directory entry %d is not behind its predecessor", ErrStructure, i)
		case d.count == 0 || uint64(d.first) != next:
			return fmt.Errorf("%w: partition %d has %d entries from %d, want from %d", ErrStructure, d.partition, d.count, d.first, next)
		case d.base < 0 || d.end <= d.base || d.bytes < 0:
			return fmt.Errorf("%w: partition %d has offsets %d to %d, %d bytes", ErrStructure, d.partition, d.base, d.end, d.bytes)
		}
		next += uint64(d.count)
		before = d.partition
	}
	if next != f.head.entries {
		return fmt.Errorf("%w: directory has %d entries, header %d", ErrStructure, next, f.head.entries)
	}
	return nil
}

// Segment describes the segment that the file belongs to. Terms is shared: the
// caller must not change it. Marks is left out; see Mark.
func (f *File) Segment() Segment { return f.head.Segment }

// Name returns the path of the file.
func (f *File) Name() string { return f.name }

// Counts returns how many partitions and batches the file lists.
func (f *File) Counts() (partitions, batches int) {
	return int(f.head.partitions), int(f.head.entries)
}

// Partitions calls visit for each partition that has batches in the segment, in
// order, with the offsets that they cover, until visit returns false. It fails
// only when the file cannot be read.
func (f *File) Partitions(visit func(p entry.Partition, base, end entry.Offset, bytes int64) bool) error {
	return f.dirs(func(_ uint32, d dirEntry) bool { return visit(d.partition, d.base, d.end, d.bytes) })
}

// Mark returns the last mark at or before an index; ok is false when there is
// none, because the segment begins behind it or has no marks.
func (f *File) Mark(index entry.Index) (m Mark, ok bool, err error) {
	defer f.guard(debug.SetPanicOnFault(true), &err)
	n := sort.Search(int(f.head.marks), func(i int) bool { return f.mark(i).Index > index })
	if n == 0 {
		return Mark{}, false, nil
	}
	return f.mark(n - 1), true, nil
}

func (f *File) mark(i int) Mark {
	b := f.data[f.at.marks+uint64(i)*sparseBytes:]
	return Mark{Index: entry.Index(binary.LittleEndian.Uint64(b)), At: binary.LittleEndian.Uint32(b[8:])}
}

// dir returns the directory entry in a slot. A slot beyond the directory, which
// only a bug can ask for, gives one without entries.
func (f *File) dir(slot uint32) dirEntry {
	if uint64(slot) >= f.head.partitions {
		return dirEntry{}
	}
	return parseDir(f.data[f.at.dir+uint64(slot)*dirBytes:])
}

// dirAt is dir for callers that hold no guard.
func (f *File) dirAt(slot uint32) (d dirEntry, err error) {
	defer f.guard(debug.SetPanicOnFault(true), &err)
	return f.dir(slot), nil
}

// dirs calls visit for each directory entry, until visit returns false. Visit
// runs outside the guard.
func (f *File) dirs(visit func(slot uint32, d dirEntry) bool) error {
	var some [64]dirEntry
	for slot := uint32(0); ; {
		n, err := f.copyDirs(slot, some[:])
		if err != nil || n == 0 {
			return err
		}
		for i := range n {
			if !visit(slot, some[i]) {
				return nil
			}
			slot++
		}
	}
}

// copyDirs reads the directory entries from a slot on into dst and returns how
// many there were.
func (f *File) copyDirs(slot uint32, dst []dirEntry) (n int, err error) {
	defer f.guard(debug.SetPanicOnFault(true), &err)
	for ; n < len(dst) && uint64(slot)+uint64(n) < f.head.partitions; n++ {
		dst[n] = f.dir(slot + uint32(n))
	}
	return n, nil
}

// entry returns the file's i-th entry, after checking the block that it is in.
// Called under a guard; i is below head.entries.
func (f *File) entry(i uint64) (Entry, error) {
	block := i / sumEntries
	if f.checked[block/32].Load()&(1<<(block%32)) == 0 {
		if err := f.checkBlock(block); err != nil {
			return Entry{}, err
		}
	}
	return decodeEntry(f.data[f.at.entries+i*entryBytes:]), nil
}

// checkBlock checks the checksum of a block of entries, and remembers that it
// was right.
func (f *File) checkBlock(block uint64) error {
	from := f.at.entries + block*sumEntries*entryBytes
	to := min(from+sumEntries*entryBytes, f.at.sums)
	want := binary.LittleEndian.Uint32(f.data[f.at.sums+block*sumBytes:])
	if checksum(f.data[from:to]) != want {
		return fmt.Errorf("%s: %w of entries at byte %d", f.name, ErrChecksum, from)
	}
	f.checked[block/32].Or(1 << (block % 32))
	return nil
}

// guard turns a fault while the map is read (a page that the disk cannot give,
// a file that somebody cut) into an error, where it would otherwise end the
// process. It is used as
//
//	defer f.guard(debug.SetPanicOnFault(true), &err)
func (f *File) guard(before bool, err *error) { f.fault(before, recover(), err) }

func (f *File) fault(before bool, r any, err *error) {
	debug.SetPanicOnFault(before)
	if r == nil {
		return
	}
	fault, ok := r.(interface {
		runtime.Error
		Addr() uintptr
	})
	if !ok || !f.contains(fault.Addr()) {
		panic(r) // not ours: an error in the program goes on its way
	}
	*err = fmt.Errorf("%s: %w: memory map cannot be read at %#x", f.name, ErrShort, fault.Addr())
}

// contains reports whether an address is in the map.
func (f *File) contains(address uintptr) bool {
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(f.data)))
	return address >= begin && address-begin < uintptr(len(f.data))
}

// acquire adds a reference, unless the last one is gone.
func (f *File) acquire() bool {
	for {
		n := f.refs.Load()
		if n <= 0 {
			return false
		}
		if f.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release gives a reference up; the last one unmaps the file.
func (f *File) Release() {
	if f.refs.Add(-1) == 0 && f.m != nil {
		_ = f.m.Close() // munmap of a map that we made fails for no reason a caller could act on
	}
}
