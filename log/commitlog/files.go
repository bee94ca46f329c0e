package commitlog

import (
	"errors"
	"fmt"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/segment"
	"github.com/sluicemq/sluice/log/vfs"
)

// file is the open file of a segment. References are counted: the table holds
// one, and each read one while it lasts, so that no descriptor is closed and no
// file recycled while somebody reads it.
type file struct {
	*vfs.File
	path   string // File.Name is that of before it became a segment
	number uint32
	header segment.Header
	bytes  int64 // size of the file

	ahead ahead

	refs atomic.Int32
	idle chan struct{} // closed with the last reference
}

func (f *file) release() {
	if f.refs.Add(-1) == 0 {
		close(f.idle)
	}
}

// table is the row of segments that can be read, ordered by number. The last one
// is the active one, once its first entry is written.
type table struct {
	mu     sync.RWMutex
	files  []*file // guarded by mu
	closed bool    // guarded by mu
}

// add puts f at the end of the row.
func (t *table) add(f *file) {
	f.refs.Store(1)
	f.idle = make(chan struct{})
	t.mu.Lock()
	t.files = append(t.files, f)
	t.mu.Unlock()
}

// find returns where the segment with the number is, or would be. mu is held.
func (t *table) find(number uint32) (int, bool) {
	i := sort.Search(len(t.files), func(i int) bool { return t.files[i].number >= number })
	return i, i < len(t.files) && t.files[i].number == number
}

// acquire returns the segment's file with a reference.
func (t *table) acquire(number uint32) (*file, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed {
		return nil, ErrClosed
	}
	i, ok := t.find(number)
	if !ok {
		return nil, fmt.Errorf("segment %d: %w", number, ErrGone)
	}
	t.files[i].refs.Add(1)
	return t.files[i], nil
}

// sealed returns the file of a segment that is not the newest.
func (t *table) sealed(number uint32) (*file, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed {
		return nil, ErrClosed
	}
	i, ok := t.find(number)
	if !ok {
		return nil, ErrGone
	}
	if i == len(t.files)-1 {
		return nil, ErrActive
	}
	return t.files[i], nil
}

// remove takes f out of the row. The table's reference goes to the caller.
func (t *table) remove(f *file) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i, ok := t.find(f.number); ok {
		t.files = append(t.files[:i:i], t.files[i+1:]...)
	}
}

// close closes all files when nobody reads them any more.
func (t *table) close() error {
	t.mu.Lock()
	files := t.files
	t.files, t.closed = nil, true
	t.mu.Unlock()
	var errs []error
	for _, f := range files {
		f.release()
		<-f.idle
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// SegmentInfo describes a segment of the log.
type SegmentInfo struct {
	Number     uint32
	FirstIndex entry.Index
	// LastIndex is the index of the newest entry, FirstIndex-1 when there is none.
	// It is 0 where it is not known, which is when the next segment was dropped.
	LastIndex entry.Index
	// LastTime is the time of that entry, where LastIndex is known.
	LastTime entry.Time
	// Bytes is the size of the file.
	Bytes int64
	// Sealed tells that the segment is complete. Only such can be dropped.
	Sealed bool
}

// Segments returns the segments of the log, oldest first. There are gaps where
// segments were dropped.
func (l *Log) Segments() []SegmentInfo {
	l.mu.Lock()
	newest := l.mark
	l.mu.Unlock()
	l.files.mu.RLock()
	defer l.files.mu.RUnlock()
	infos := make([]SegmentInfo, len(l.files.files))
	for i, f := range l.files.files {
		info := SegmentInfo{
			Number:     f.number,
			FirstIndex: f.header.FirstIndex(),
			Bytes:      f.bytes,
			Sealed:     i < len(infos)-1,
		}
		if !info.Sealed {
			info.LastIndex, info.LastTime = f.header.Prev.Index, f.header.Prev.Time
			if newest.file == f {
				info.LastIndex, info.LastTime = newest.tail.Index, newest.tail.Time
			}
		} else if next := l.files.files[i+1]; next.number == f.number+1 {
			info.LastIndex, info.LastTime = next.header.Prev.Index, next.header.Prev.Time
		}
		infos[i] = info
	}
	return infos
}

// SegmentOf returns the number of the segment that holds the entry with the
// index, or would hold it if it is the next one. ok is false when all segments
// begin later, or there are none.
func (l *Log) SegmentOf(index entry.Index) (number uint32, ok bool) {
	l.files.mu.RLock()
	defer l.files.mu.RUnlock()
	files := l.files.files
	i := sort.Search(len(files), func(i int) bool { return files[i].header.FirstIndex() > index })
	if i == 0 {
		return 0, false
	}
	return files[i-1].number, true
}
