package group

import (
	"time"

	"github.com/sluicemq/sluice/group/classic"
	"github.com/sluicemq/sluice/group/consumer"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// checkName refuses the empty group id.
func checkName(name string) error {
	if name == "" {
		return kerr.New(kerr.InvalidGroupID, "the group id is empty")
	}
	return nil
}

// Join passes on a JoinGroup request, whose Ticket it sets. done is called once,
// perhaps before Join returns. Gone may be called with the ticket in the meantime.
func (c *Coordinator) Join(name string, q *classic.Join, done func(classic.Joined)) classic.Ticket {
	q.Ticket = classic.Ticket(c.ticket.Add(1))
	refuse := func(err error) classic.Ticket {
		done(classic.Joined{Err: err, MemberID: q.MemberID, Generation: -1})
		return q.Ticket
	}
	if err := checkName(name); err != nil {
		return refuse(err)
	}
	if err := c.options.Limits.Check(q); err != nil {
		return refuse(err)
	}
	s := c.shard(name)
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return refuse(stopped())
	}
	l, err := s.openClassic(name, q.MemberID == "")
	if err == nil && l == nil {
		err = kerr.New(kerr.UnknownMemberID, "the group does not exist")
	}
	if err != nil {
		s.mu.Unlock()
		return refuse(err)
	}
	var t step
	s.held[q.Ticket] = held{joined: done}
	if l.consumer != nil {
		out := &consumer.Output{}
		l.consumer.Join(time.Now(), q, out)
		s.settleModern(l, out, &t)
	} else {
		l.classic.Join(time.Now(), q, &t.out)
		s.settle(l, &t, nil)
	}
	s.end(&t)
	return q.Ticket
}

// Sync passes on a SyncGroup request, as Join does.
func (c *Coordinator) Sync(name string, q *classic.Sync, done func(classic.Synced)) classic.Ticket {
	q.Ticket = classic.Ticket(c.ticket.Add(1))
	refuse := func(err error) classic.Ticket {
		done(classic.Synced{Err: err})
		return q.Ticket
	}
	if err := checkName(name); err != nil {
		return refuse(err)
	}
	s := c.shard(name)
	s.mu.Lock()
	l := s.groups[name]
	var err error
	switch {
	case s.stopped:
		err = stopped()
	case l == nil:
		err = noMembers()
	}
	if err != nil {
		s.mu.Unlock()
		return refuse(err)
	}
	if l.consumer != nil {
		a := l.consumer.Sync(time.Now(), q)
		s.wakeModern(l)
		s.mu.Unlock()
		done(a)
		return q.Ticket
	}
	var t step
	s.held[q.Ticket] = held{synced: done}
	l.classic.Sync(time.Now(), q, &t.out)
	s.settle(l, &t, nil)
	s.end(&t)
	return q.Ticket
}

// noMembers refuses the request of a member of a group that has none.
func noMembers() error {
	return kerr.New(kerr.UnknownMemberID, "the group has no members")
}

// Gone says that the client of a request that may be held has gone away. Its done
// is called with an error if it was not called before.
func (c *Coordinator) Gone(name string, ticket classic.Ticket) {
	s := c.shard(name)
	var t step
	s.mu.Lock()
	h, ok := s.held[ticket]
	if !ok {
		s.mu.Unlock()
		return
	}
	delete(s.held, ticket)
	t.call(func() { h.refuse(kerr.New(kerr.NetworkException, "the client has gone away")) })
	if l := s.groups[name]; l != nil && l.classic != nil {
		l.classic.Gone(time.Now(), ticket, &t.out)
		s.settle(l, &t, nil)
	}
	s.end(&t)
}

// Heartbeat renews the session of a member.
func (c *Coordinator) Heartbeat(name, member, instance string, generation int32) error {
	if err := checkName(name); err != nil {
		return err
	}
	s := c.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.groups[name]
	if l == nil {
		return noMembers()
	}
	if l.consumer != nil {
		err := l.consumer.ClassicHeartbeat(time.Now(), member, instance, generation)
		s.wakeModern(l)
		return err
	}
	return l.classic.Heartbeat(time.Now(), member, instance, generation)
}

// Leave removes members. done is called once with an error or nil for each, or
// with an error for all, when what follows from it is durable.
func (c *Coordinator) Leave(name string, leavers []classic.Leaver, done func([]error, error)) {
	if err := checkName(name); err != nil {
		done(nil, err)
		return
	}
	s := c.shard(name)
	s.mu.Lock()
	l := s.groups[name]
	if l == nil {
		s.mu.Unlock()
		errs := make([]error, len(leavers))
		for i := range errs {
			errs[i] = noMembers()
		}
		done(errs, nil)
		return
	}
	var t step
	if l.consumer != nil {
		q := &consumer.Leave{Ticket: classic.Ticket(c.ticket.Add(1)), Leavers: leavers}
		s.held[q.Ticket] = held{left: done}
		out := &consumer.Output{}
		l.consumer.Leave(time.Now(), q, out)
		s.settleModern(l, out, &t)
		s.end(&t)
		return
	}
	errs := l.classic.Leave(time.Now(), leavers, &t.out)
	s.settle(l, &t, func() { done(errs, nil) })
	s.end(&t)
}
