package group

import (
	"time"

	"github.com/sluicemq/sluice/group/classic"
	"github.com/sluicemq/sluice/group/consumer"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// Groups of the consumer protocol in the shell.

// saved reports whether the state has the group, or will have.
func (l *live) saved() bool { return l.consumer != nil || l.classic.Saved() }

// empty reports whether the group has no members, and none is about to be one.
func (l *live) empty() bool {
	if l.consumer != nil {
		return l.consumer.Idle()
	}
	return l.classic.State() == classic.Empty
}

// ConsumerHeartbeat passes on a ConsumerGroupHeartbeat request, whose Ticket it
// sets. done is called once, perhaps before ConsumerHeartbeat returns.
func (c *Coordinator) ConsumerHeartbeat(name string, h *consumer.Heartbeat, modern bool, done func(consumer.Beaten)) {
	h.Ticket = classic.Ticket(c.ticket.Add(1))
	err := checkName(name)
	if err != nil {
		err = kerr.New(kerr.InvalidRequest, "the group id is empty")
	} else {
		err = h.Check(modern, c.options.Assignors)
	}
	if err != nil {
		done(consumer.Beaten{Err: err})
		return
	}
	s := c.shard(name)
	s.mu.Lock()
	l, upgrade, err := s.openModern(name, h.Epoch == 0)
	if err == nil && s.stopped {
		err = stopped()
	}
	if err != nil {
		s.mu.Unlock()
		done(consumer.Beaten{Err: err})
		return
	}
	out := &consumer.Output{}
	l.consumer.Heartbeat(time.Now(), h, out)
	if out.Entry == nil && len(out.Beaten) == 1 && out.Job == nil && out.Resolution == nil {
		// The usual one, which changes nothing; or one that is refused.
		if !upgrade {
			s.wakeModern(l)
		}
		s.mu.Unlock()
		done(out.Beaten[0].Beaten)
		return
	}
	var t step
	s.held[h.Ticket] = held{beaten: done}
	if upgrade {
		s.replace(name, l, &t)
	}
	s.settleModern(l, out, &t)
	s.end(&t)
}

// openModern returns the live group with the name, or that of the state. If there
// is none, or a classic one, and somebody joins, it returns one that is to be; it
// takes its place (replace) if the member is let in. The lock is held.
func (s *shard) openModern(name string, joins bool) (l *live, upgrade bool, err error) {
	l = s.groups[name]
	r := s.coordinator.state.lookup(name)
	switch {
	case l != nil && l.consumer != nil:
		return l, false, nil
	case l == nil && r.modern() != nil:
		return s.adoptModern(name, s.restoreModern(name, r)), false, nil
	case !joins:
		return nil, false, kerr.New(kerr.GroupIDNotFound, "there is no consumer group %q", name)
	case s.states[classic.Empty] >= maxEmpty:
		return nil, false, kerr.New(kerr.CoordinatorLoadInProgress, "too many groups have members that are about to join")
	}
	o := &s.coordinator.options
	m := r.metadata()
	if l != nil {
		m = l.classic.Snapshot()
	}
	var g *consumer.Group
	if m == nil {
		g = consumer.New(name, o.Consumer(name), o.Topics)
	} else {
		if len(m.Members) > 0 && !o.Upgrade {
			return nil, false, kerr.New(kerr.GroupIDNotFound, "group %q is a classic group, and group.consumer.migration.policy does not let it become another", name)
		}
		if g, err = consumer.Upgrade(name, o.Consumer(name), o.Topics, m); err != nil {
			return nil, false, err
		}
	}
	return &live{name: name, consumer: g, at: nowhere}, true, nil
}

// openClassic is open for a request of the classic protocol: a group of the
// consumer protocol without members turns into a classic one.
func (s *shard) openClassic(name string, make bool) (*live, error) {
	if l := s.groups[name]; l != nil && l.consumer != nil && l.empty() {
		s.retire(l)
	}
	return s.open(name, make)
}

// replace lets a group take the place of a classic one, whose members that wait are
// told to join again. The lock is held.
func (s *shard) replace(name string, l *live, t *step) {
	if old := s.groups[name]; old != nil {
		t.out = classic.Output{}
		old.classic.Dissolve(&t.out)
		s.answer(t)
		s.retire(old)
	}
	s.enlist(l)
}

// retire takes a group out that another takes the place of. What becomes of its
// entries is of no interest any more. The lock is held.
func (s *shard) retire(l *live) {
	l.gone = true
	s.states[l.state]--
	s.members -= l.members
	delete(s.groups, l.name)
	l.wake = time.Time{}
	s.wakes.place(l)
}

func (s *shard) restoreModern(name string, r *record) *consumer.Group {
	o := &s.coordinator.options
	return consumer.Restore(name, o.Consumer(name), o.Topics, r.consumer, time.Now())
}

// adoptModern makes a group live. The lock is held.
func (s *shard) adoptModern(name string, g *consumer.Group) *live {
	l := &live{name: name, consumer: g, at: nowhere}
	s.enlist(l)
	s.count(l)
	s.wakeModern(l)
	return l
}

// enlist counts in a group without members. The lock is held.
func (s *shard) enlist(l *live) {
	s.groups[l.name] = l
	s.states[classic.Empty]++
}

// count counts a group of the consumer protocol anew. The lock is held.
func (s *shard) count(l *live) {
	s.states[l.state]--
	s.members -= l.members
	l.members, l.state = l.consumer.Members(), classic.Empty
	if l.members > 0 {
		l.state = classic.Stable
	}
	s.states[l.state]++
	s.members += l.members
}

// wakeModern sees to it that the group is called in time. The lock is held.
func (s *shard) wakeModern(l *live) {
	if wake := l.consumer.Wake(); !wake.Equal(l.wake) {
		l.wake = wake
		s.wakes.place(l)
		s.hurry()
	}
}

// settleModern carries out what a machine has put into out. The lock is held.
func (s *shard) settleModern(l *live, out *consumer.Output, t *step) {
	c := s.coordinator
	for i := range out.Beaten {
		a := &out.Beaten[i]
		if h := s.take(a.Ticket); h.beaten != nil {
			t.call(func() { h.beaten(a.Beaten) })
		}
	}
	t.out = classic.Output{Joined: out.Joined}
	s.answer(t)
	for i := range out.Left {
		a := &out.Left[i]
		if h := s.take(a.Ticket); h.left != nil {
			t.call(func() { h.left(a.Errs, a.Err) })
		}
	}
	if e := out.Entry; e != nil {
		p := proposal{done: func(r entry.Result) { s.storedModern(l, r.Err) }}
		if e.Change != nil {
			p.kind, p.payload = entry.TypeConsumerGroup, e.Change.Append(nil)
		} else {
			p.kind, p.payload = entry.TypeDowngradeGroup, e.Downgrade.Append(nil)
		}
		s.outbox = append(s.outbox, p)
	}
	if job := out.Job; job != nil {
		s.work(l, job.Run, func(now time.Time, out *consumer.Output) { l.consumer.Assigned(now, job, out) })
	}
	if r := out.Resolution; r != nil {
		s.work(l, func() { r.Run(c.options.Topics) }, func(now time.Time, out *consumer.Output) { l.consumer.Resolved(now, r, out) })
	}
	for i := range out.Expired {
		c.silent.Add(1)
		member := out.Expired[i].ID
		s.lose(l.name, member, out.Expired[i].Heard)
		t.call(func() { c.options.MemberExpired(l.name, member) })
	}
	if n := out.Rebalances; n > 0 {
		c.rebalances.Add(int64(n))
		members := l.consumer.Members()
		epoch := out.Entry.Change.Epoch
		t.call(func() { c.options.Rebalances(l.name, epoch, members) })
	}
	s.count(l)
	if l.consumer.Idle() && s.groups[l.name] == l {
		s.retire(l)
		return
	}
	s.wakeModern(l)
}

// take returns who waits for an answer, for the last time. The lock is held.
func (s *shard) take(t classic.Ticket) held {
	h := s.held[t]
	delete(s.held, t)
	return h
}

// storedModern tells a machine what became of its entry. It is called by the log, so
// that what comes of it is proposed by the shard's goroutine.
func (s *shard) storedModern(l *live, err error) {
	var t step
	out := &consumer.Output{}
	s.mu.Lock()
	r := s.coordinator.state.lookup(l.name)
	gate := s.lock(l.name)
	l.consumer.Stored(time.Now(), r.modern(), err, out)
	if r.metadata() != nil && err == nil {
		s.downgraded(l, r, out, &t)
	} else {
		s.settleModern(l, out, &t)
	}
	gate.close(&t)
	if len(s.outbox) > 0 {
		s.rouse()
	}
	s.mu.Unlock()
	s.finish(&t)
}

// downgraded puts the classic group that this one has become in its place. Its
// members join again, and what waits is asked of it. The lock is held.
func (s *shard) downgraded(l *live, r *record, out *consumer.Output, t *step) {
	rerouted := out.Rerouted
	out.Rerouted = nil
	s.settleModern(l, out, t)
	if s.groups[l.name] == l {
		s.retire(l)
	}
	if s.groups[l.name] == nil {
		next := s.adopt(l.name, classic.Restore(l.name, &s.coordinator.options.Limits, r.classic, time.Now()))
		t.out = classic.Output{}
		next.classic.Rebalance(time.Now(), &t.out)
		s.settle(next, t, nil)
	}
	c := s.coordinator
	for _, request := range rerouted {
		switch q := request.(type) {
		case *classic.Join:
			h := s.take(q.Ticket)
			t.call(func() { go c.Join(l.name, q, h.joined) }) // not by the log; ends with its answer
		case *consumer.Leave:
			h := s.take(q.Ticket)
			t.call(func() { go c.Leave(l.name, q.Leavers, h.left) })
		case *consumer.Heartbeat:
			h := s.take(q.Ticket)
			t.call(func() { go c.ConsumerHeartbeat(l.name, q, q.MemberID != "", h.beaten) })
		}
	}
}

// work runs what takes long without the lock, and hands in what comes of it. The
// lock is held.
func (s *shard) work(l *live, run func(), hand func(time.Time, *consumer.Output)) {
	if s.stopped {
		return
	}
	s.coordinator.running.Add(1)
	go func() { // ends when the work is done
		defer s.coordinator.running.Done()
		run()
		var t step
		out := &consumer.Output{}
		s.mu.Lock()
		if l.gone {
			s.mu.Unlock()
			return
		}
		hand(time.Now(), out)
		s.settleModern(l, out, &t)
		s.end(&t)
	}()
}

// modern returns the state of a group of the consumer protocol; nil if it is of
// another kind. The lock is held.
func (s *shard) modern(name string) *consumer.State {
	l := s.groups[name]
	if l != nil && l.consumer == nil {
		return nil
	}
	return s.coordinator.state.lookup(name).modern()
}

// DescribeConsumer returns a group of the consumer protocol; ok is false if there is
// none.
func (c *Coordinator) DescribeConsumer(name string) (d consumer.Description, ok bool) {
	st := c.state.lookup(name).modern()
	if st == nil {
		return d, false
	}
	return st.Describe(c.options.Assignors), true
}

func listedModern(name string, st *consumer.State) Listed {
	return Listed{Name: name, Kind: Consumer, ProtocolType: classic.ConsumerType, State: Life(st.Life())}
}

// CheckFetch says whether somebody may fetch committed offsets, who may have said
// that it is a member.
func (c *Coordinator) CheckFetch(name string, memberID *string, epoch int32) error {
	return c.state.lookup(name).modern().CheckFetch(memberID, epoch)
}

// SettingsChanged lets groups of the consumer protocol know that settings are
// others.
func (c *Coordinator) SettingsChanged() {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for _, l := range s.groups {
			if l.consumer != nil {
				l.consumer.SetSettings(c.options.Consumer(l.name))
			}
		}
		s.mu.Unlock()
	}
	for _, name := range c.state.names() {
		c.lock(name) // it may have become ordered, or not
	}
}
