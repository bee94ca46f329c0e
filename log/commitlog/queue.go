package commitlog

import (
	"errors"
	"sync"
)

// errNotReplayed is what Propose returns before Replay.
var errNotReplayed = errors.New("log was not replayed")

// queue holds the proposals that wait to be appended, in order. Its size in
// bytes is bounded: put blocks while it is over the bound.
type queue struct {
	mu       sync.Mutex
	notEmpty sync.Cond
	notFull  sync.Cond

	// All below is guarded by mu.
	ring  []*Proposal // a ring: n proposals from head on
	head  int
	n     int
	bytes int64 // of proposals that were put and not settled
	limit int64
	err   error // why put refuses; nil while open
	over  bool  // it was shut for good
}

// newQueue returns a queue that is not open yet.
func newQueue(limit int64) *queue {
	q := &queue{limit: limit, ring: make([]*Proposal, 256), err: errNotReplayed}
	q.notEmpty.L = &q.mu
	q.notFull.L = &q.mu
	return q
}

// open makes put take proposals, unless the queue was shut.
func (q *queue) open() {
	q.mu.Lock()
	if !q.over {
		q.err = nil
	}
	q.mu.Unlock()
}

// put adds p at the end. It waits while the queue is full, and returns the reason
// when it is shut.
func (q *queue) put(p *Proposal) error {
	size := p.bytes()
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.err == nil && q.bytes > 0 && q.bytes+size > q.limit {
		q.notFull.Wait()
	}
	if q.err != nil {
		return q.err
	}
	if q.n == len(q.ring) {
		grown := make([]*Proposal, 2*len(q.ring))
		copied := copy(grown, q.ring[q.head:])
		copy(grown[copied:], q.ring[:q.head])
		q.ring, q.head = grown, 0
	}
	q.ring[(q.head+q.n)%len(q.ring)] = p
	q.n++
	q.bytes += size
	if q.n == 1 {
		q.notEmpty.Signal()
	}
	return nil
}

// take appends the oldest proposals to dst: at least one, at most maxEntries, and
// no more than maxBytes unless one alone is larger. It waits while there are
// none, and returns nothing when there are none and the queue is shut.
func (q *queue) take(dst []*Proposal, maxEntries int, maxBytes int64) []*Proposal {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.n == 0 && q.err == nil {
		q.notEmpty.Wait()
	}
	var bytes int64
	for q.n > 0 && len(dst) < maxEntries {
		p := q.ring[q.head]
		if bytes += p.bytes(); bytes > maxBytes && len(dst) > 0 {
			break
		}
		dst = append(dst, p)
		q.ring[q.head] = nil
		q.head = (q.head + 1) % len(q.ring)
		q.n--
	}
	return dst
}

// settle makes room for the bytes of proposals that were taken.
func (q *queue) settle(bytes int64) {
	q.mu.Lock()
	q.bytes -= bytes
	q.mu.Unlock()
	q.notFull.Broadcast()
}

// shut makes put refuse with err. Proposals in the queue stay to be taken. The
// first reason stays.
func (q *queue) shut(err error) {
	q.mu.Lock()
	if !q.over {
		q.err, q.over = err, true
	}
	q.mu.Unlock()
	q.notEmpty.Broadcast()
	q.notFull.Broadcast()
}
