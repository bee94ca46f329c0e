package consumequeue

import (
	"errors"
	"slices"
	"sync"

	"github.com/sluicemq/sluice/log/entry"
)

var (
	// ErrOutOfRange says that an offset is below the start or above the end of
	// its partition.
	ErrOutOfRange = errors.New("offset out of range")
	// ErrDeleted says that the queue was taken out of its Set.
	ErrDeleted = errors.New("partition deleted")
)

// Queue is the list of one partition's batches. See the package for who may
// call what.
type Queue struct {
	set       *Set
	partition entry.Partition

	mu      sync.Mutex
	deleted bool         // guarded by mu, like all below
	start   entry.Offset // log start offset; never goes back; ≤ end
	end     entry.Offset // offset that the next batch gets; never goes back
	bytes   int64        // of all batches in sealed and tails, also those below start
	sealed  []sealedRef  // by first; not below start when they were added
	tails   []tail       // one for each unsealed segment with a batch, oldest first
}

// sealedRef says that a sealed segment holds batches of the queue. It has no
// pointer, so that millions of them cost the garbage collector nothing.
type sealedRef struct {
	first   entry.Offset // base offset of the first batch
	segment uint32
	slot    uint32 // place of the queue in the directory of the segment's file
}

// Partition returns the number of the partition.
func (q *Queue) Partition() entry.Partition { return q.partition }

// Bounds returns the log start offset and the offset that the next batch gets.
// What lies between them can be found.
func (q *Queue) Bounds() (start, end entry.Offset) {
	q.mu.Lock()
	start, end = q.start, q.end
	q.mu.Unlock()
	return start, end
}

// Put adds a batch of the segment behind all others. Its base offset is the end
// of the queue (or above it, which leaves a hole); Count is at least 1. Only the
// apply loop calls it.
func (q *Queue) Put(segment uint32, e Entry) {
	t := q.set.tailSegment(segment)
	if q.put(t, e) {
		t.fresh = appendRecord(t.fresh, q.partition, e)
	}
}

// put adds e to the queue's tail in t, and reports whether the queue still is
// in its set.
func (q *Queue) put(t *tailSegment, e Entry) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		return false
	}
	if n := len(q.tails); n == 0 || q.tails[n-1].segment != t.number {
		q.tails = append(q.tails, newTail(t.number))
		t.queues = append(t.queues, q)
	}
	q.tails[len(q.tails)-1].put(e)
	q.bytes += int64(e.Size)
	q.end = max(q.end, e.End())
	return true
}

// Restore raises start and end to what was stored before a restart. A queue
// whose batches were all removed has no other memory of its end. Files and
// tails may be restored before or after.
func (q *Queue) Restore(start, end entry.Offset) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.start = max(q.start, start)
	q.end = max(q.end, q.start, end)
	q.trim()
}

// SetStart raises the log start offset; it never goes back, nor past the end.
// Batches that lie wholly below it are no longer found or counted; the one that
// holds it still is, as a whole. It returns the start offset that holds now.
func (q *Queue) SetStart(start entry.Offset) entry.Offset {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.start = max(q.start, min(start, q.end))
	q.trim()
	return q.start
}

// trim drops the references to files in which everything is below start. Called
// with mu held.
func (q *Queue) trim() {
	n := 0
	for ; n < len(q.sealed); n++ {
		ref := q.sealed[n]
		if ref.first >= q.start {
			break
		}
		f := q.set.acquire(ref.segment)
		if f == nil {
			continue // detached; its references are about to go
		}
		d, err := f.dirAt(ref.slot)
		f.Release()
		if err != nil || d.end > q.start {
			break // what cannot be read stays, and is an error where it is looked up
		}
		q.bytes -= d.bytes
	}
	if n > 0 {
		q.sealed = slices.Clone(q.sealed[n:])
	}
}

// tailIn returns the place of the segment's tail in q.tails, or -1. Called with
// mu held.
func (q *Queue) tailIn(segment uint32) int {
	return slices.IndexFunc(q.tails, func(t tail) bool { return t.segment == segment })
}

// drop empties a queue that left its set.
func (q *Queue) drop() {
	q.mu.Lock()
	q.deleted = true
	q.bytes, q.sealed, q.tails = 0, nil, nil
	q.mu.Unlock()
}
