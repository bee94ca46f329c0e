package conn

import "sync"

// outbox is the queue of exchanges whose response was not written yet, in the
// order of the requests, and the right to write. The reader puts exchanges in;
// whoever has the right to write takes those that are ready from the front.
// The right is with nobody, with the reader, or with the writer.
type outbox struct {
	limit int
	wake  chan struct{} // holds a token when the writer has something to look at
	room  chan struct{} // holds a token when there may be room for the reader

	mu    sync.Mutex // guards what follows
	queue []*exchange
	store []*exchange // for queue to begin anew in when it is empty
	taken int         // exchanges being written, which count as in the queue
	right right
	ended bool // nothing is put any more
}

type right uint8

const (
	nobodys right = iota
	readers
	writers
)

func (o *outbox) init(limit int) {
	o.limit = limit
	o.wake = make(chan struct{}, 1)
	o.room = make(chan struct{}, 1)
	o.store = make([]*exchange, 0, 4)
}

// signal leaves a token in a channel that holds one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// put appends an exchange.
func (o *outbox) put(e *exchange) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		o.queue = o.store
	}
	o.queue = append(o.queue, e)
}

// full reports whether the reader has to wait for room.
func (o *outbox) full() bool { return o.len() >= o.limit }

// len returns the number of exchanges that are not written yet.
func (o *outbox) len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queue) + o.taken
}

// claim gives the reader the right to write, if nobody has it and there is
// something to write.
func (o *outbox) claim() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.right != nobodys || len(o.queue) == 0 || !o.queue[0].isReady() {
		return false
	}
	o.right = readers
	return true
}

// pass gives the right to write to the writer, if nobody has it and there is
// something to write or to wait for.
func (o *outbox) pass() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.right == nobodys && len(o.queue) > 0 {
		o.right = writers
		signal(o.wake)
	}
}

// take moves what is ready from the front of the queue to batch, at most max.
// If nothing is ready, who gives up the right to write: the reader to the
// writer if something is left to wait for; the writer only if nothing is left,
// else it gets the exchange to wait for.
func (o *outbox) take(who right, batch []*exchange, max int) (ready []*exchange, head *exchange) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for n < len(o.queue) && n < max && o.queue[n].isReady() {
		batch = append(batch, o.queue[n])
		o.queue[n] = nil
		n++
	}
	o.queue, o.taken = o.queue[n:], n
	switch {
	case n > 0:
	case len(o.queue) == 0:
		o.right = nobodys
		if o.ended {
			signal(o.wake)
		}
	case who == writers:
		head = o.queue[0]
	default:
		o.right = writers
		signal(o.wake)
	}
	return batch, head
}

// written says that what was taken was written.
func (o *outbox) written() {
	o.mu.Lock()
	o.taken = 0
	o.mu.Unlock()
	signal(o.room)
}

// end says that nothing will be put any more, and leaves the rest to the
// writer.
func (o *outbox) end() {
	o.mu.Lock()
	o.ended = true
	o.mu.Unlock()
	o.pass()
	signal(o.wake)
}

// writerState reports whether the writer has the right to write, and whether
// its work is over for good.
func (o *outbox) writerState() (mine, over bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.right == writers, o.ended && o.right == nobodys && len(o.queue) == 0
}
