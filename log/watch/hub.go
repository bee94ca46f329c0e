package watch

import (
	"sync"
	"sync/atomic"

	"github.com/sluicemq/sluice/log/entry"
)

// Hub brings waiters and notifications together. All methods may be called by
// any goroutine. The zero value is ready to use; it must not be copied.
type Hub struct {
	shards [1 << shardBits]shard
}

// shardBits gives 1,024 shards: with 10,000 partitions watched most of a hundred
// thousand others still share a shard with some of them, but each shard's map
// stays small and its lock uncontended.
const shardBits = 10

// shard holds the waiters of the partitions that hash to it.
type shard struct {
	links atomic.Int32 // how many links the lists hold; Notify looks here first

	mu    sync.Mutex
	lists map[entry.Partition]*link // guarded by mu: first link; a ring in the order of arrival
}

// link ties a waiter to one of its partitions. It is in the partition's list
// until it is notified, and from then until Rearm in the waiter's list of
// notified ones.
type link struct {
	waiter     *Waiter
	partition  entry.Partition
	listed     bool  // guarded by the shard's mu
	prev, next *link // while listed: guarded by the shard's mu; else next is the waiter's list
}

func (h *Hub) shard(p entry.Partition) *shard {
	// Fibonacci hashing: partition numbers are dense, and a topic's are neighbours.
	return &h.shards[uint64(p)*0x9e3779b97f4a7c15>>(64-shardBits)]
}

// Notify wakes everybody who waits for p. It is to be called after what they
// wait for can be read: a batch was appended, or the partition was deleted.
func (h *Hub) Notify(p entry.Partition) {
	s := h.shard(p)
	if s.links.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.lists[p]
	if first == nil {
		return
	}
	delete(s.lists, p)
	for l, n := first, int32(0); ; {
		next := l.next
		l.listed = false
		l.waiter.notify(l)
		if n++; next == first {
			s.links.Add(-n)
			return
		}
		l = next
	}
}

// add puts the link at the end of its partition's list.
func (s *shard) add(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lists == nil {
		s.lists = make(map[entry.Partition]*link)
	}
	l.listed = true
	if first := s.lists[l.partition]; first != nil {
		l.prev, l.next = first.prev, first
		l.prev.next, first.prev = l, l
	} else {
		l.prev, l.next = l, l
		s.lists[l.partition] = l
	}
	s.links.Add(1)
}

// remove takes the link out of its partition's list, if it is in it.
func (s *shard) remove(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !l.listed {
		return
	}
	l.listed = false
	if l.next == l {
		delete(s.lists, l.partition)
	} else {
		if s.lists[l.partition] == l {
			s.lists[l.partition] = l.next
		}
		l.prev.next, l.next.prev = l.next, l.prev
	}
	s.links.Add(-1)
}
