package consumequeue

import (
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluicemq/sluice/log/entry"
)

// Set holds the queues of all partitions, and the files that they refer to.
// The zero value is not usable; see NewSet.
type Set struct {
	// pages is replaced, never changed, when a page comes or goes; the slots of
	// a page are changed in place. Partition numbers are given out one by one
	// and not given again, so pages are full until most of their partitions are
	// deleted.
	pages atomic.Pointer[map[uint64]*page]
	files atomic.Pointer[map[uint32]*File] // attached, by segment; replaced, never changed

	attaching sync.Mutex // held by Attach, Detach and Close from beginning to end

	mu       sync.Mutex
	count    int            // guarded by mu: queues in pages
	unsealed []*tailSegment // guarded by mu: segments with tails, oldest first

	current *tailSegment // owned by the apply loop: the newest of unsealed
}

// pageBits is chosen so that a page takes 2 KiB, and the map of 100,000 dense
// partitions has 400 pages: replacing it is cheap and happens 400 times.
const pageBits = 8

type page struct {
	used  int // guarded by Set.mu
	slots [1 << pageBits]atomic.Pointer[Queue]
}

func split(p entry.Partition) (number uint64, slot int) {
	return uint64(p) >> pageBits, int(p & (1<<pageBits - 1))
}

// NewSet returns a Set without queues or files.
func NewSet() *Set {
	s := new(Set)
	s.pages.Store(&map[uint64]*page{})
	s.files.Store(&map[uint32]*File{})
	return s
}

// Create adds an empty queue for partition p and returns it. If there is one
// already, that one is returned unchanged.
func (s *Set) Create(p entry.Partition) *Queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	number, slot := split(p)
	pages := *s.pages.Load()
	pg := pages[number]
	if pg == nil {
		pg = new(page)
		grown := make(map[uint64]*page, len(pages)+1)
		maps.Copy(grown, pages)
		grown[number] = pg
		s.pages.Store(&grown)
	}
	if q := pg.slots[slot].Load(); q != nil {
		return q
	}
	q := &Queue{set: s, partition: p}
	pg.slots[slot].Store(q)
	pg.used++
	s.count++
	return q
}

// Delete takes the queue of partition p out of the set and frees what it holds
// in memory. Whoever still has the queue gets ErrDeleted from its look-ups. It
// does nothing when there is no such queue.
func (s *Set) Delete(p entry.Partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	number, slot := split(p)
	pages := *s.pages.Load()
	pg := pages[number]
	if pg == nil {
		return
	}
	q := pg.slots[slot].Swap(nil)
	if q == nil {
		return
	}
	s.count--
	if pg.used--; pg.used == 0 {
		rest := maps.Clone(pages)
		delete(rest, number)
		s.pages.Store(&rest)
	}
	q.drop()
}

// Get returns the queue of partition p, or nil when there is none. It takes no
// lock and does not allocate.
func (s *Set) Get(p entry.Partition) *Queue {
	number, slot := split(p)
	pg := (*s.pages.Load())[number]
	if pg == nil {
		return nil
	}
	return pg.slots[slot].Load()
}

// Len returns the number of queues.
func (s *Set) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// All yields the queues in the order of their partitions. Queues that come or
// go meanwhile may or may not be among them.
func (s *Set) All() iter.Seq[*Queue] {
	return func(yield func(*Queue) bool) {
		pages := *s.pages.Load()
		for _, number := range slices.Sorted(maps.Keys(pages)) {
			pg := pages[number]
			for i := range pg.slots {
				if q := pg.slots[i].Load(); q != nil && !yield(q) {
					return
				}
			}
		}
	}
}
