package conn

import (
	"slices"
	"sync"
)

// budget bounds the bytes that all connections together hold.
//
// A reservation grows as the bytes of its frame arrive. Reserving step by step
// would deadlock where all the holders wait for more, and could never admit
// what is larger than the whole; so one reservation at a time may be past the
// limit: it is not counted and never waits. It is given to the one that has
// waited longest, and as it does not wait for anything but its own client and
// handler it ends, and the next one gets it. A reservation that fits is
// granted beside those that wait, so that small requests are not held up by
// large ones; large ones do not starve, since they will be the oldest. What is
// larger than half of the limit always goes past it, since counted it would
// leave too little for others while its bytes come in.
type budget struct {
	limit int64

	mu      sync.Mutex // guards what follows
	used    int64      // by all but past
	past    *reservation
	waiting []*waiter // oldest first
}

// reservation is a part of a budget. It is used by one goroutine at a time.
type reservation struct {
	held int64 // guarded by budget.mu
}

type waiter struct {
	r       *reservation
	total   int64
	granted chan struct{} // closed when the reservation holds total
}

// reserve makes r hold total bytes, which is more than it holds. It returns
// nil if it does, and otherwise whom to wait for: until granted is closed, or
// until giveUp is called.
func (b *budget) reserve(r *reservation, total int64) *waiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.grant(r, total, len(b.waiting) == 0) {
		return nil
	}
	w := &waiter{r, total, make(chan struct{})}
	b.waiting = append(b.waiting, w)
	return w
}

// grant tries to make r hold total. Only the oldest may go past the limit.
func (b *budget) grant(r *reservation, total int64, oldest bool) bool {
	switch {
	case r == b.past:
	case total <= b.limit/2 && b.used+total-r.held <= b.limit:
		b.used += total - r.held
	case oldest && b.past == nil:
		b.past = r
		b.used -= r.held
	default:
		return false
	}
	r.held = total
	return true
}

// set makes r hold total bytes without waiting, and beyond the limit if it must
// be: to give back, or to correct an estimate.
func (b *budget) set(r *reservation, total int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.held == total {
		return
	}
	if r != b.past {
		b.used += total - r.held
	} else if total == 0 {
		b.past = nil
	}
	r.held = total
	b.wake()
}

// giveUp ends the wait of w. What was granted meanwhile stays with the
// reservation.
func (b *budget) giveUp(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = slices.DeleteFunc(b.waiting, func(other *waiter) bool { return other == w })
	b.wake()
}

// wake grants what can be granted, the oldest first.
func (b *budget) wake() {
	// A grant past the limit frees what was counted, so that another look at
	// those that were passed over is due. That happens once at most.
	for again := true; again; {
		again = false
		oldest := true
		b.waiting = slices.DeleteFunc(b.waiting, func(w *waiter) bool {
			wasPast := b.past
			if !b.grant(w.r, w.total, oldest) {
				oldest = false
				return false
			}
			again = again || b.past != wasPast
			close(w.granted)
			return true
		})
	}
}

func (b *budget) inUse() (counted, past int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.past != nil {
		past = b.past.held
	}
	return b.used, past
}
