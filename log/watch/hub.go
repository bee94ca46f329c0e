package watch

import (
	"sync"
	"sync/atomic"

	"github.com/sluicemq/sluice/log/entry"
)

// Hub brings waiters and notifications together. All methods may be called by
// any goroutine. The zero value is ready to use; it must not be copied.
type Hub struct {
	// links counts the links in lists, by hash of their partition. Notify looks
	// here first: with 10,000 partitions watched, six of seven others share no
	// counter with any of them.
	links  [1 << linkBits]atomic.Int32
	shards [1 << shardBits]shard
}

const (
	linkBits  = 16 // 256 KiB a hub
	shardBits = 10
)

// shard holds the waiters of the partitions that hash to it.
type shard struct {
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

// place returns the counter and the shard of a partition.
func (h *Hub) place(p entry.Partition) (*atomic.Int32, *shard) {
	// Fibonacci hashing: partition numbers are dense, and a topic's are neighbours.
	hash := uint64(p) * 0x9e3779b97f4a7c15
	return &h.links[hash>>(64-linkBits)], &h.shards[hash>>(64-shardBits)]
}

// Notify wakes everybody who waits for p. It is to be called after what they
// wait for can be read: a batch was appended, or the partition was deleted.
func (h *Hub) Notify(p entry.Partition) {
	links, s := h.place(p)
	if links.Load() == 0 {
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
		l.listed, l.prev = false, nil
		l.waiter.notify(l)
		if n++; next == first {
			links.Add(-n)
			return
		}
		l = next
	}
}

// add puts the link at the end of its partition's list.
func (h *Hub) add(l *link) {
	links, s := h.place(l.partition)
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
	links.Add(1)
}

// remove takes the link out of its partition's list, if it is in it.
func (h *Hub) remove(l *link) {
	links, s := h.place(l.partition)
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
	l.prev, l.next = nil, nil // hold on to no other waiter
	links.Add(-1)
}
