package watch

import (
	"sync"

	"github.com/sluicemq/sluice/log/entry"
)

// Waiter waits for a set of partitions. It belongs to one goroutine.
type Waiter struct {
	hub   *Hub
	woken chan struct{} // with room for one
	links []link        // one for each partition

	mu       sync.Mutex
	armed    bool  // guarded by mu: the next notification wakes
	notified *link // guarded by mu: links that were notified since the last Rearm, newest first
}

// Watch begins to wait for the partitions. The slice is not kept; a partition
// that is in it twice counts once or twice, as it likes. Cancel must be called
// in the end.
func (h *Hub) Watch(partitions []entry.Partition) *Waiter {
	w := &Waiter{
		hub:   h,
		woken: make(chan struct{}, 1),
		links: make([]link, len(partitions)),
		armed: true,
	}
	for i, p := range partitions {
		l := &w.links[i]
		l.waiter, l.partition = w, p
		h.add(l)
	}
	return w
}

// Woken yields one value when one of the partitions is notified, and no other
// until Rearm.
func (w *Waiter) Woken() <-chan struct{} { return w.woken }

// notify is called with the lock of the link's shard held.
func (w *Waiter) notify(l *link) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.next, w.notified = w.notified, l
	if w.armed {
		w.armed = false
		w.woken <- struct{}{} // has room: armed means that it is empty
	}
}

// Rearm makes the waiter ready to be woken again, and appends to dst the
// partitions that were notified since it was armed before. It may be called
// whether or not it was woken.
func (w *Waiter) Rearm(dst []entry.Partition) []entry.Partition {
	w.mu.Lock()
	l := w.notified
	w.notified = nil
	select {
	case <-w.woken:
	default:
	}
	w.armed = true
	w.mu.Unlock()
	for l != nil {
		next := l.next
		dst = append(dst, l.partition)
		w.hub.add(l)
		l = next
	}
	return dst
}

// Cancel ends the waiting. No notification reaches the waiter afterwards, and
// nothing refers to it any more. It may be called again.
func (w *Waiter) Cancel() {
	for i := range w.links {
		l := &w.links[i]
		w.hub.remove(l)
	}
	w.links = nil
}
