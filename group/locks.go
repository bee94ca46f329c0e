package group

import (
	"time"

	"github.com/sluicemq/sluice/group/assign"
	"github.com/sluicemq/sluice/group/consumer"
	"github.com/sluicemq/sluice/group/offsets"
	"github.com/sluicemq/sluice/group/queuelock"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// Ordering says which groups are ordered, and knows partitions by their numbers.
type Ordering interface {
	// Ordered reports whether the partitions of the group are to be locked.
	Ordered(group string) bool
	// Partition returns the number of a partition of a topic.
	Partition(topic entry.TopicID, index int32) (entry.Partition, bool)
	// Exists reports whether there is a partition with the number.
	Exists(p entry.Partition) bool
}

// unordered is for a Coordinator without ordered groups.
type unordered struct{}

func (unordered) Ordered(string) bool                                        { return false }
func (unordered) Partition(entry.TopicID, int32) (_ entry.Partition, _ bool) { return 0, false }
func (unordered) Exists(entry.Partition) bool                                { return false }

// roll is what is known of the members of a group with locks, so that it can be told
// what became of those that are gone.
type roll struct {
	instances map[string]string // of the members when locks were last looked at
	lost      map[string]entry.Time
	left      map[string]bool
	moved     map[string]string
}

// gate holds back what a step calls until the locks are as they are to be.
type gate struct{ calls []func() }

// lockRetry is how long after locks could not be changed it is tried again.
const lockRetry = time.Second

// lock proposes to bring the locks of a group in line with the state, if they are
// not, and returns what then has to wait for that; or nil. The lock is held.
func (s *shard) lock(name string) *gate {
	c := s.coordinator
	if !c.options.Ordering.Ordered(name) && !c.state.locks.Has(name) {
		delete(s.rolls, name)
		delete(s.leases, name)
		return nil
	}
	now := entry.TimeOf(time.Now())
	r := c.state.lookup(name)
	roll := s.takeRoll(name, r)
	situation := queuelock.Situation{
		Group: name, Now: now, Keep: r.metadata() != nil, Exists: c.options.Ordering.Exists,
		Fate: func(member string) queuelock.Fate { return s.fate(name, roll, member, now) },
	}
	if c.options.Ordering.Ordered(name) {
		situation.Owners = s.owners(r)
	}
	payload := c.state.locks.Plan(&situation)
	s.watchLeases(name)
	if payload == nil {
		return nil
	}
	g := &gate{}
	s.outbox = append(s.outbox, proposal{
		kind: entry.TypeQueueLock, payload: payload,
		done: func(result entry.Result) { s.locked(name, g, result.Err) },
	})
	return g
}

// locked is called by the log when the locks have been changed, or could not be.
func (s *shard) locked(name string, g *gate, err error) {
	s.mu.Lock()
	var next *gate
	if err == nil {
		next = s.lock(name) // the state may have gone on
	} else {
		s.leases[name] = time.Now().Add(lockRetry)
		s.rouse()
	}
	if next != nil {
		next.calls, g.calls = g.calls, nil
	}
	if len(s.outbox) > 0 {
		s.rouse()
	}
	calls := g.calls
	s.mu.Unlock()
	for _, call := range calls {
		call()
	}
}

// close lets the calls of a step wait at the gate, which may be nil. The lock is
// held.
func (g *gate) close(t *step) {
	if g != nil {
		g.calls, t.calls = append(g.calls, t.calls...), nil
	}
}

// takeRoll compares the members with those of the last time.
func (s *shard) takeRoll(name string, r *record) *roll {
	old := s.rolls[name]
	if old == nil {
		old = &roll{lost: make(map[string]entry.Time), left: make(map[string]bool), moved: make(map[string]string)}
		s.rolls[name] = old
	}
	members := r.instances()
	at := make(map[string]string) // member ids by instance
	for id, instance := range members {
		// That it is thrown out may be about to come into effect; so lost stays. If it
		// has been heard of since, that is long over when it leaves.
		delete(old.left, id)
		delete(old.moved, id)
		if instance != "" {
			at[instance] = id
		}
	}
	for id, instance := range old.instances {
		if _, stays := members[id]; stays {
			continue
		}
		if next, ok := at[instance]; ok && instance != "" {
			old.moved[id] = next
		} else if _, lost := old.lost[id]; !lost {
			old.left[id] = true
		}
	}
	old.instances = members
	return old
}

// fate says what became of a member that has a lock.
func (s *shard) fate(name string, r *roll, member string, now entry.Time) queuelock.Fate {
	if _, ok := r.instances[member]; ok {
		if l := s.groups[name]; l != nil && l.classic != nil {
			// What it is not assigned any more it has not given up if it does not know.
			if heard, absent := l.classic.Absent(member); absent {
				return queuelock.Lost(entry.TimeOf(heard) + s.lease())
			}
		}
		return queuelock.Stays()
	}
	if to, ok := r.moved[member]; ok {
		return queuelock.Moved(to)
	}
	if until, ok := r.lost[member]; ok {
		return queuelock.Lost(until)
	}
	if r.left[member] {
		return queuelock.Left()
	}
	return queuelock.Lost(now + s.lease()) // nothing is known of it: the broker has restarted
}

func (s *shard) lease() entry.Time { return entry.Time(s.coordinator.options.Lease.Milliseconds()) }

// lose notes that a member is thrown out that was last heard of at the time. The
// lock is held.
func (s *shard) lose(name, member string, heard time.Time) {
	if r := s.rolls[name]; r != nil {
		r.lost[member] = entry.TimeOf(heard) + s.lease()
	}
}

// owners returns to whom partitions are assigned.
func (s *shard) owners(r *record) []queuelock.Owner {
	var out []queuelock.Owner
	add := func(member string, set assign.Assignment) {
		for _, t := range set {
			for _, index := range t.Partitions {
				if p, ok := s.coordinator.options.Ordering.Partition(t.ID, index); ok {
					out = append(out, queuelock.Owner{Partition: p, Member: member})
				}
			}
		}
	}
	if st := r.modern(); st != nil {
		for _, m := range st.Members {
			add(m.ID, m.Current.Assigned.Set)
			add(m.ID, m.Current.Revoked.Set)
		}
	} else if m := r.metadata(); m != nil && s.coordinator.options.Topics != nil {
		taken := assign.Assignment(nil)
		for i := range m.Members {
			// What a leader has given to two members, the first has.
			set, _ := consumer.Assigned(m.Members[i].Assignment, s.coordinator.options.Topics)
			add(m.Members[i].ID, set.Minus(taken))
			taken = taken.Plus(set)
		}
	}
	return out
}

// instances returns the members with their instance ids, which may be empty.
func (r *record) instances() map[string]string {
	out := make(map[string]string)
	if st := r.modern(); st != nil {
		for _, m := range st.Members {
			out[m.ID] = m.Info.Instance
		}
	} else if m := r.metadata(); m != nil {
		for i := range m.Members {
			out[m.Members[i].ID] = m.Members[i].Instance
		}
	}
	return out
}

// watchLeases sees to it that the locks are looked at when the first lease ends. The
// lock is held.
func (s *shard) watchLeases(name string) {
	if until := s.coordinator.state.locks.Wake(name); until > 0 {
		s.leases[name] = until.Go().Add(time.Millisecond)
		s.rouse()
	} else {
		delete(s.leases, name)
	}
}

// endLeases looks at the locks of groups in which a lease has ended, and returns
// when the next one does. The lock is held.
func (s *shard) endLeases(now time.Time) time.Time {
	var next time.Time
	for name, at := range s.leases {
		if !now.Before(at) {
			s.lock(name) // nobody waits for it
			if again, ok := s.leases[name]; ok && !again.After(now) {
				s.leases[name] = now.Add(lockRetry) // the entry is on its way
			}
			at = s.leases[name]
		}
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// Lock is a lock of an ordered group.
type Lock = queuelock.Lock

// Locks returns the locks of a group, by partition number.
func (c *Coordinator) Locks(name string) []Lock { return c.state.locks.List(name) }

// LockedGroups returns the names of the groups that have locks, sorted.
func (c *Coordinator) LockedGroups() []string { return c.state.locks.Groups() }

// MayFetch reports whether the committed offset of a partition may be told to the
// member, or, if that is empty, to somebody who does not say who it is: in an
// ordered group not before whoever had it has given it up.
func (c *Coordinator) MayFetch(name, member string, topic entry.TopicID, index int32) bool {
	if !c.state.locks.Has(name) {
		return true
	}
	p, ok := c.options.Ordering.Partition(topic, index)
	return !ok || c.state.locks.MayFetch(name, member, p)
}

// Admit takes out of a commit the partitions that its member may not commit, and calls
// refuse for each: in an ordered group those of which it does not have the lock; in a
// group of the consumer protocol all, if there is one that it has not had since the
// epoch that it knows. What is wrong with the commit as a whole, Commit says.
func (c *Coordinator) Admit(q *offsets.Request, version int16, refuse func(topic entry.TopicID, partition int32, err error)) {
	ordered := c.options.Ordering.Ordered(q.Group) || c.state.locks.Has(q.Group)
	st := c.state.lookup(q.Group).modern()
	if !ordered && st == nil || c.CheckCommit(q, version) != nil {
		return
	}
	committer, err := st.CheckCommit(q.Member, q.Generation, version, false)
	if err != nil {
		return
	}
	var stale error
	for i := range q.Topics {
		for _, o := range q.Topics[i].Offsets {
			if err := committer.May(q.Topics[i].ID, o.Partition); err != nil {
				stale = err
			}
		}
	}
	for i := range q.Topics {
		t := &q.Topics[i]
		kept := t.Offsets[:0]
		for _, o := range t.Offsets {
			err := stale
			if err == nil && ordered && !c.mayCommit(q, t.ID, o.Partition) {
				err = noLock()
			}
			if err != nil {
				refuse(t.ID, o.Partition, err)
				continue
			}
			kept = append(kept, o)
		}
		t.Offsets = kept
	}
}

// noLock is what clients try again after.
func noLock() error {
	return kerr.New(kerr.CoordinatorLoadInProgress, "the group is ordered, and the member does not have the lock of the partition yet")
}

func (c *Coordinator) mayCommit(q *offsets.Request, topic entry.TopicID, index int32) bool {
	p, ok := c.options.Ordering.Partition(topic, index)
	if !ok {
		return true // it is gone, which the commit will find out
	}
	member := q.Member
	if q.Generation < 0 {
		member = ""
	}
	return c.state.locks.MayCommit(q.Group, member, p)
}
