package group

import (
	"sync"
	"time"

	"github.com/sluicemq/sluice/group/classic"
	"github.com/sluicemq/sluice/group/consumer"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// maxEmpty bounds the groups of a shard that have nothing but member ids that were
// handed out, which any client can make.
const maxEmpty = 4096

// shard is the groups whose names fall on it.
type shard struct {
	coordinator *Coordinator
	kick        chan struct{} // wakes the shard's goroutine

	// sending is held while entries are proposed, so that they keep their order. It
	// guards spare, and is never taken under mu.
	sending sync.Mutex
	spare   []proposal

	mu      sync.Mutex // guards what follows
	groups  map[string]*live
	wakes   wakes
	planned time.Time // when the shard's goroutine looks again; zero for not
	outbox  []proposal
	held    map[classic.Ticket]held
	flights map[string]flight    // commits on their way, by group
	rolls   map[string]*roll     // of groups with locks
	leases  map[string]time.Time // when locks of a group are to be looked at
	stopped bool

	states  [4]int // how many groups are in which state
	members int
}

// live is a group with soft state. One of the machines is set.
type live struct {
	name     string
	classic  *classic.Group
	consumer *consumer.Group
	gone     bool // another has taken its place

	wake time.Time
	at   int // in wakes, or nowhere

	state   classic.State // as it was counted
	members int
}

// held is who waits for the answer to a request. One of them is set.
type held struct {
	joined func(classic.Joined)
	synced func(classic.Synced)
	beaten func(consumer.Beaten)
	left   func([]error, error)
}

// proposal is an entry to be proposed.
type proposal struct {
	kind    entry.Type
	payload []byte
	done    func(entry.Result)
}

func (s *shard) init(c *Coordinator) {
	s.coordinator = c
	s.kick = make(chan struct{}, 1)
	s.groups = make(map[string]*live)
	s.held = make(map[classic.Ticket]held)
	s.flights = make(map[string]flight)
	s.rolls = make(map[string]*roll)
	s.leases = make(map[string]time.Time)
}

// adopt makes a group live. The lock is held.
func (s *shard) adopt(name string, g *classic.Group) *live {
	l := &live{name: name, classic: g, at: nowhere, state: g.State(), members: g.Members(), wake: g.Wake()}
	s.groups[name] = l
	s.states[l.state]++
	s.members += l.members
	s.wakes.place(l)
	return l
}

// open returns the live group with the name, or the one of the state, or, if make
// is set, one that is new; else nil. The lock is held.
func (s *shard) open(name string, make bool) (*live, error) {
	if l := s.groups[name]; l != nil {
		return l, nil
	}
	r := s.coordinator.state.lookup(name)
	switch {
	case r == nil && !make:
		return nil, nil
	case r.modern() != nil && r.members() > 0:
		return s.adoptModern(name, s.restoreModern(name, r)), nil
	case s.states[classic.Empty] >= maxEmpty:
		return nil, kerr.New(kerr.CoordinatorLoadInProgress, "too many groups have members that are about to join")
	case r.metadata() == nil:
		return s.adopt(name, classic.New(name, &s.coordinator.options.Limits)), nil
	}
	return s.adopt(name, classic.Restore(name, &s.coordinator.options.Limits, r.classic, time.Now())), nil
}

// step collects what is to be done without the lock.
type step struct {
	out   classic.Output
	calls []func()
}

func (t *step) call(f func()) { t.calls = append(t.calls, f) }

// settle carries out what a machine has put into t.out. The lock is held. then, if
// not nil, is called when the last entry is settled, or with the other calls if
// there is none.
func (s *shard) settle(l *live, t *step, then func()) {
	s.answer(t)
	for i := range t.out.Entries {
		after := then
		if i < len(t.out.Entries)-1 {
			after = nil
		}
		s.outbox = append(s.outbox, s.proposalOf(l, &t.out.Entries[i], after))
	}
	if then != nil && len(t.out.Entries) == 0 {
		t.call(then)
	}
	s.tell(l, t)
	s.states[l.state]--
	s.members -= l.members
	l.state, l.members = l.classic.State(), l.classic.Members()
	if l.classic.Idle() && s.groups[l.name] == l {
		delete(s.groups, l.name)
		l.wake = time.Time{}
	} else {
		s.states[l.state]++
		s.members += l.members
		l.wake = l.classic.Wake()
	}
	s.wakes.place(l)
	s.hurry()
}

// answer answers the requests that t.out has answers for. The lock is held.
func (s *shard) answer(t *step) {
	for i := range t.out.Joined {
		a := &t.out.Joined[i]
		if h := s.take(a.Ticket); h.joined != nil {
			t.call(func() { h.joined(a.Joined) })
		}
	}
	for i := range t.out.Synced {
		a := &t.out.Synced[i]
		if h := s.take(a.Ticket); h.synced != nil {
			t.call(func() { h.synced(a.Synced) })
		}
	}
}

// hurry wakes the shard's goroutine if it has planned to look later than the first
// group is to be called. The lock is held.
func (s *shard) hurry() {
	if len(s.wakes) > 0 && (s.planned.IsZero() || s.wakes[0].wake.Before(s.planned)) {
		s.rouse()
	}
}

// tell reports events. The lock is held.
func (s *shard) tell(l *live, t *step) {
	c := s.coordinator
	if n := t.out.Completed; n > 0 {
		c.rebalances.Add(int64(n))
		name, generation, members := l.name, l.classic.Generation(), l.classic.Members()
		t.call(func() { c.options.Rebalanced(name, generation, members) })
	}
	for _, m := range t.out.Expired {
		c.silent.Add(1)
		s.lose(l.name, m.ID, m.Heard)
		t.call(func() { c.options.MemberExpired(l.name, m.ID) })
	}
}

// rouse wakes the shard's goroutine.
func (s *shard) rouse() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// proposalOf returns the proposal of a machine's entry.
func (s *shard) proposalOf(l *live, e *classic.Entry, then func()) proposal {
	p := proposal{done: func(r entry.Result) { s.stored(l, e.Number, r.Err, then) }}
	if e.Metadata != nil {
		p.kind, p.payload = entry.TypeClassicGroup, classic.AppendGroup(nil, l.name, e.Metadata)
	} else {
		p.kind, p.payload = entry.TypeClassicMember, e.Replacement.Append(nil)
	}
	return p
}

// stored tells a machine what became of its entry. It is called by the log, so
// that what comes of it is proposed by the shard's goroutine.
func (s *shard) stored(l *live, number uint64, err error, then func()) {
	var t step
	s.mu.Lock()
	if l.gone {
		s.mu.Unlock()
		if then != nil {
			then()
		}
		return
	}
	l.classic.Stored(time.Now(), number, storeRefusal(err), s.coordinator.state.lookup(l.name).metadata(), &t.out)
	gate := s.lock(l.name)
	s.settle(l, &t, nil)
	if then != nil {
		t.call(then)
	}
	gate.close(&t)
	if len(s.outbox) > 0 {
		s.rouse()
	}
	s.mu.Unlock()
	s.finish(&t)
}

// finish makes the calls of a step. No lock is held.
func (s *shard) finish(t *step) {
	for _, f := range t.calls {
		f()
	}
}

// end unlocks, makes the calls, and proposes what there is.
func (s *shard) end(t *step) {
	pending := len(s.outbox) > 0
	s.mu.Unlock()
	if pending {
		s.flush()
	}
	s.finish(t)
}

// flush proposes what is in the outbox, in order.
func (s *shard) flush() {
	s.sending.Lock()
	defer s.sending.Unlock()
	for {
		s.mu.Lock()
		batch := s.outbox
		s.outbox = s.spare
		s.mu.Unlock()
		if len(batch) == 0 {
			s.spare = batch
			return
		}
		for i := range batch {
			p := &batch[i]
			if err := s.coordinator.options.Proposer.Propose(p.kind, p.payload, p.done); err != nil {
				p.done(entry.Result{Err: err})
			}
		}
		clear(batch)
		s.spare = batch[:0]
	}
}

// run does what time brings and proposes what others left, until Stop. Started by
// Start.
func (s *shard) run() {
	defer s.coordinator.running.Done()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next := s.tick(time.Now())
		wait := time.Hour
		if !next.IsZero() {
			wait = time.Until(next)
		}
		timer.Reset(wait)
		select {
		case <-s.coordinator.stopping:
			return
		case <-timer.C:
		case <-s.kick:
		}
	}
}

// tick calls the groups whose time has come, and returns when the next one's does.
func (s *shard) tick(now time.Time) time.Time {
	var t step
	s.mu.Lock()
	for len(s.wakes) > 0 && !now.Before(s.wakes[0].wake) {
		l := s.wakes[0]
		if l.consumer != nil {
			out := &consumer.Output{}
			l.consumer.Tick(now, out)
			s.settleModern(l, out, &t)
			continue
		}
		t.out = classic.Output{}
		l.classic.Tick(now, &t.out)
		s.settle(l, &t, nil)
	}
	s.planned = time.Time{}
	if len(s.wakes) > 0 {
		s.planned = s.wakes[0].wake
	}
	if ends := s.endLeases(now); !ends.IsZero() && (s.planned.IsZero() || ends.Before(s.planned)) {
		s.planned = ends
	}
	next := s.planned
	s.end(&t)
	return next
}

// stop answers what is held.
func (s *shard) stop() {
	var t step
	refusal := stopped()
	s.mu.Lock()
	s.stopped = true
	for ticket, h := range s.held {
		delete(s.held, ticket)
		t.call(func() { h.refuse(refusal) })
	}
	s.end(&t)
}

func (h held) refuse(err error) {
	switch {
	case h.joined != nil:
		h.joined(classic.Joined{Err: err, Generation: -1})
	case h.synced != nil:
		h.synced(classic.Synced{Err: err})
	case h.beaten != nil:
		h.beaten(consumer.Beaten{Err: err})
	default:
		h.left(nil, err)
	}
}

func stopped() error {
	return kerr.New(kerr.CoordinatorNotAvailable, "the broker stops")
}

// storeRefusal is what members are told when their group could not be stored: to
// try again, unless it never will.
func storeRefusal(err error) error {
	err = Refusal(err)
	if code := kerr.Of(err); err == nil || code == kerr.CoordinatorNotAvailable || code == kerr.UnknownServerError {
		return err
	}
	return kerr.New(kerr.CoordinatorNotAvailable, "%s", kerr.Message(err))
}

// Refusal gives an error of the log the code that members of a group get for it
// (G-23). Others are returned as they are.
func Refusal(err error) error {
	switch code := kerr.Of(err); code {
	case kerr.KafkaStorageError, kerr.RequestTimedOut, kerr.NotEnoughReplicas:
		return kerr.New(kerr.CoordinatorNotAvailable, "%s", kerr.Message(err))
	case kerr.MessageTooLarge, kerr.RecordListTooLarge:
		return kerr.New(kerr.UnknownServerError, "%s", kerr.Message(err))
	case kerr.UnknownServerError:
		return kerr.New(kerr.CoordinatorNotAvailable, "")
	default:
		return err
	}
}
