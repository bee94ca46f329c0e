package consumequeue

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sluicemq/sluice/log/entry"
)

// Attach puts a segment's file in the place of its tails, for each queue at one
// instant, and takes over the caller's reference. At a start, where there are no
// tails, it adds what the file holds. Partitions without a queue were deleted
// and are passed over.
//
// An error says that the directory could not be read to its end. At a start that
// must end it. Later nothing is lost: queues that were not reached keep their
// tails, and the next start finds the damage.
func (s *Set) Attach(f *File) error {
	number := f.head.Number
	s.attaching.Lock()
	defer s.attaching.Unlock()
	files := *s.files.Load()
	if files[number] != nil {
		return fmt.Errorf("attach index file: segment %d has one already", number)
	}
	more := make(map[uint32]*File, len(files)+1)
	maps.Copy(more, files)
	more[number] = f
	s.files.Store(&more)
	err := f.dirs(func(slot uint32, d dirEntry) bool {
		if q := s.Get(d.partition); q != nil {
			q.attach(number, slot, d)
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("attach index file: %w", err)
	}
	s.mu.Lock()
	s.unsealed = slices.DeleteFunc(s.unsealed, func(t *tailSegment) bool { return t.number == number && t.sealed })
	s.mu.Unlock()
	return nil
}

// attach replaces the queue's tail in the segment, if there is one, with a
// reference to the segment's file.
func (q *Queue) attach(segment, slot uint32, d dirEntry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		return
	}
	if i := q.tailIn(segment); i >= 0 {
		q.bytes -= q.tails[i].bytes
		q.tails = slices.Delete(q.tails, i, i+1)
		if len(q.tails) == 0 {
			q.tails = nil
		}
	}
	q.end = max(q.end, d.end)
	if d.end <= q.start {
		return
	}
	q.bytes += d.bytes
	ref := sealedRef{first: d.base, segment: segment, slot: slot}
	if len(q.sealed) == cap(q.sealed) {
		q.sealed = slices.Grow(q.sealed, 1+len(q.sealed)/4) // doubling wastes too much times 100,000
	}
	q.sealed = slices.Insert(q.sealed, q.searchSealed(d.base), ref) // at the end, unless segments are sealed out of order
}

// Detach takes a segment's file out of all queues, whether or not they still
// need it (see Needed), and gives up the set's reference. It does nothing when
// the segment has no file. Readers that are in the file finish in it.
func (s *Set) Detach(segment uint32) {
	s.attaching.Lock()
	defer s.attaching.Unlock()
	files := *s.files.Load()
	f := files[segment]
	if f == nil {
		return
	}
	err := f.dirs(func(_ uint32, d dirEntry) bool {
		if q := s.Get(d.partition); q != nil {
			q.detach(segment, d.bytes)
		}
		return true
	})
	if err != nil { // the directory cannot be read any more: look everywhere
		for q := range s.All() {
			q.detach(segment, 0)
		}
	}
	rest := maps.Clone(files)
	delete(rest, segment)
	s.files.Store(&rest)
	f.Release()
}

func (q *Queue) detach(segment uint32, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.sealed {
		if q.sealed[i].segment == segment {
			q.sealed = slices.Delete(q.sealed, i, i+1)
			q.bytes -= bytes
			return
		}
	}
}

// Needed reports whether any queue needs the segment's file: whether a partition
// that still exists has batches in it that reach above its start offset. It
// stops at the first. A segment without an attached file is always needed.
func (s *Set) Needed(segment uint32) (bool, error) {
	f := s.acquire(segment)
	if f == nil {
		return true, nil
	}
	defer f.Release()
	needed := false
	err := f.dirs(func(_ uint32, d dirEntry) bool {
		needed = s.needs(d)
		return !needed
	})
	return needed || err != nil, err
}

// TailNeeded reports whether a partition that still exists has batches above its
// start offset in the segment, which has no attached file. It looks at every
// queue.
func (s *Set) TailNeeded(segment uint32) bool {
	for q := range s.All() {
		if q.needsTail(segment) {
			return true
		}
	}
	return false
}

func (q *Queue) needsTail(segment uint32) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := q.tailIn(segment)
	return i >= 0 && q.tails[i].end() > q.start
}

// Holders calls visit for each partition that needs the segment, in order, with
// the bytes of its batches there (whole batches, also those below the start
// offset when others are above it), until visit returns false.
func (s *Set) Holders(segment uint32, visit func(p entry.Partition, bytes int64) bool) error {
	f := s.acquire(segment)
	if f == nil {
		return fmt.Errorf("segment %d has no index file attached", segment)
	}
	defer f.Release()
	return f.dirs(func(_ uint32, d dirEntry) bool {
		return !s.needs(d) || visit(d.partition, d.bytes)
	})
}

func (s *Set) needs(d dirEntry) bool {
	q := s.Get(d.partition)
	if q == nil {
		return false
	}
	start, _ := q.Bounds()
	return start < d.end
}

// File returns the segment's attached file with a reference for the caller, or
// nil when there is none.
func (s *Set) File(segment uint32) *File { return s.acquire(segment) }

func (s *Set) acquire(segment uint32) *File {
	f := (*s.files.Load())[segment]
	if f == nil || !f.acquire() {
		return nil
	}
	return f
}

// Close gives up the set's references to files. Look-ups in files find nothing
// afterwards.
func (s *Set) Close() {
	s.attaching.Lock()
	defer s.attaching.Unlock()
	for _, f := range *s.files.Swap(&map[uint32]*File{}) {
		f.Release()
	}
}
