package consumequeue

import (
	"math"
	"runtime/debug"

	"github.com/sluicemq/sluice/log/entry"
)

// Find appends to dst the batches of the partition from the one that holds the
// offset from on (or the first behind it), in order, as long as their base
// offset is below to, the sum of their sizes is at most maxBytes, and dst has
// capacity; one batch is given whatever its size. dst is never grown. From at to or
// the end finds nothing and is no error; below the start or above the end it is
// ErrOutOfRange. Find does not allocate.
//
// Damage in an index file is reported when nothing in front of it was found.
func (q *Queue) Find(from, to entry.Offset, maxBytes int, dst []Located) ([]Located, error) {
	q.mu.Lock()
	if err := q.check(from); err != nil {
		q.mu.Unlock()
		return dst, err
	}
	to = min(to, q.end)
	c := collector{dst: dst, from: from, to: to, room: int64(maxBytes), had: len(dst)}
	for c.from < to && len(c.dst) < cap(c.dst) {
		var src source
		if !q.sourceOf(c.from, &src) {
			break
		}
		q.mu.Unlock()
		more, err := c.collect(&src)
		src.release()
		if err != nil && len(c.dst) == c.had {
			return c.dst, err
		}
		if err != nil || !more {
			return c.dst, nil
		}
		c.from = src.next
		q.mu.Lock()
		if c.from < q.start {
			break // what follows was removed meanwhile; passing over it would look like a hole
		}
	}
	q.mu.Unlock()
	return c.dst, nil
}

// check says whether from can be looked for. Called with mu held.
func (q *Queue) check(from entry.Offset) error {
	if q.deleted {
		return ErrDeleted
	}
	if from < q.start || from > q.end {
		return ErrOutOfRange
	}
	return nil
}

// collector gathers what Find gives.
type collector struct {
	dst      []Located
	from, to entry.Offset
	room     int64 // bytes that dst may still get
	had      int   // entries in dst before
}

// collect takes what fits from one source; more is false when that ends the search.
func (c *collector) collect(src *source) (more bool, err error) {
	defer src.guard(debug.SetPanicOnFault(true), &err)
	if !src.open() {
		return true, nil
	}
	i, err := src.search(c.from)
	if err != nil {
		return false, err
	}
	for ; i < src.count; i++ {
		e, err := src.at(i)
		if err != nil {
			return false, err
		}
		first := len(c.dst) == c.had
		if e.BaseOffset >= c.to || len(c.dst) == cap(c.dst) || !first && int64(e.Size) > c.room {
			return false, nil
		}
		c.dst = append(c.dst, Located{Entry: e, Segment: src.segment})
		c.room -= int64(e.Size)
	}
	return true, nil
}

// FindTime returns the first batch, from the one that holds the offset from on,
// that has a timestamp of at least t. Whether one of its records behind from has
// it, only the batch can tell; if not, the search goes on at the batch's End.
// From below the start is taken for the start. Batches that are not in memory
// are read one after the other, except where a whole segment can be passed over.
func (q *Queue) FindTime(t entry.Time, from entry.Offset) (found Located, ok bool, err error) {
	err = q.sources(from, func(src *source, from entry.Offset) (more bool, err error) {
		if src.max < t {
			return true, nil
		}
		i, err := src.search(from)
		for ; err == nil && i < src.count; i++ {
			var e Entry
			if e, err = src.at(i); err == nil && e.MaxTimestamp >= t {
				found, ok = Located{Entry: e, Segment: src.segment}, true
				return false, nil
			}
		}
		return true, err
	})
	return found, ok, err
}

// MaxTimestamp returns the batch with the largest timestamp, the first of them
// when there are several; ok is false when no batch has a timestamp.
func (q *Queue) MaxTimestamp() (found Located, ok bool, err error) {
	latest := entry.Time(-1)
	start, _ := q.Bounds()
	err = q.sources(start, func(src *source, from entry.Offset) (more bool, err error) {
		if src.max <= latest {
			return true, nil
		}
		if src.first >= from {
			latest = src.max
			return true, nil
		}
		i, err := src.search(from)
		for ; err == nil && i < src.count; i++ {
			var e Entry
			if e, err = src.at(i); err == nil {
				latest = max(latest, e.MaxTimestamp)
			}
		}
		return true, err
	})
	if err != nil || latest < 0 {
		return Located{}, false, err
	}
	return q.FindTime(latest, start)
}

// sources calls visit for each source with batches that may reach above from,
// in order, until it returns false. Visit gets the offset that it should begin
// at: from, or where an earlier source ended. It is called without the lock.
func (q *Queue) sources(from entry.Offset, visit func(src *source, from entry.Offset) (more bool, err error)) error {
	for {
		var src source
		q.mu.Lock()
		if q.deleted {
			q.mu.Unlock()
			return ErrDeleted
		}
		from = max(from, q.start)
		ok := from < q.end && q.sourceOf(from, &src)
		q.mu.Unlock()
		if !ok {
			return nil
		}
		more, err := src.visit(from, visit)
		src.release()
		if err != nil || !more {
			return err
		}
		from = src.next
	}
}

// source is one place that holds batches of a queue: a file or a tail. It is a
// copy, so that it can be searched without the queue's lock.
type source struct {
	segment uint32
	sealed  bool
	slot    uint32       // of sealed ones
	file    *File        // of sealed ones, with a reference; nil when the file went away
	tail    tail         // of the others
	first   entry.Offset // base offset of the first batch
	next    entry.Offset // base offset of the first batch in the next source, or none

	// Set by open.
	begin uint64 // of sealed ones: the first entry in the file
	count int
	end   entry.Offset
	bytes int64
	max   entry.Time
}

// none is above every offset.
const none = entry.Offset(math.MaxInt64)

// sourceOf fills src with the source in which the batch that holds from is: the
// last that begins at or below from, else the first of all. It returns false
// when there is none. Called with mu held; the caller releases the source.
func (q *Queue) sourceOf(from entry.Offset, src *source) bool {
	// Files are in order, so only those around from matter. Tails are few, and
	// lie behind the files, except while an older segment waits for its file.
	i := q.searchSealed(from)
	near := q.sealed[max(i-1, 0):min(i+2, len(q.sealed))]
	best := none
	for _, ref := range near {
		if nearer(ref.first, best, from) {
			best = ref.first
			src.segment, src.sealed, src.slot = ref.segment, true, ref.slot
		}
	}
	for j := range q.tails {
		if first := q.tails[j].base(); nearer(first, best, from) {
			best = first
			src.segment, src.sealed, src.tail = q.tails[j].segment, false, q.tails[j]
		}
	}
	if best == none {
		return false
	}
	src.first, src.next = best, none
	for _, ref := range near {
		if ref.first > best {
			src.next = min(src.next, ref.first)
		}
	}
	for j := range q.tails {
		if first := q.tails[j].base(); first > best {
			src.next = min(src.next, first)
		}
	}
	if src.sealed {
		src.file = q.set.acquire(src.segment)
	}
	return true
}

// nearer reports whether a source that begins at first is a better place to
// look for from than one that begins at best.
func nearer(first, best, from entry.Offset) bool {
	if first <= from {
		return best > from || first > best
	}
	return first < best && best > from
}

// searchSealed returns the place in sealed of the first reference that begins
// behind from.
func (q *Queue) searchSealed(from entry.Offset) int {
	lo, hi := 0, len(q.sealed)
	for lo < hi {
		if mid := int(uint(lo+hi) / 2); q.sealed[mid].first > from {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// open learns what the source holds. It returns false when its file is gone.
// Called under the source's guard.
func (s *source) open() bool {
	if !s.sealed {
		s.count, s.end, s.bytes, s.max = s.tail.len(), s.tail.end(), s.tail.bytes, s.tail.max
		return true
	}
	if s.file == nil {
		return false
	}
	d := s.file.dir(s.slot)
	s.begin, s.count, s.end, s.bytes, s.max = uint64(d.first), int(d.count), d.end, d.bytes, d.max
	return true
}

// visit opens the source and calls visit under a guard.
func (s *source) visit(from entry.Offset, visit func(*source, entry.Offset) (bool, error)) (more bool, err error) {
	defer s.guard(debug.SetPanicOnFault(true), &err)
	if !s.open() {
		return true, nil
	}
	return visit(s, from)
}

// guard is File.guard for a source that may be a tail.
func (s *source) guard(before bool, err *error) {
	if s.file == nil {
		debug.SetPanicOnFault(before)
		return
	}
	s.file.fault(before, recover(), err)
}

func (s *source) release() {
	if s.file != nil {
		s.file.Release()
	}
}

// at returns the i-th batch of an open source.
func (s *source) at(i int) (Entry, error) {
	if s.sealed {
		return s.file.entry(s.begin + uint64(i))
	}
	return *s.tail.at(i), nil
}

// search returns the place in an open source of the first batch that reaches
// above from.
func (s *source) search(from entry.Offset) (int, error) {
	lo, hi := 0, s.count
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		e, err := s.at(mid)
		if err != nil {
			return 0, err
		}
		if e.End() > from {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo, nil
}
