package group

import (
	"time"

	"github.com/sluicemq/sluice/group/classic"
	"github.com/sluicemq/sluice/group/offsets"
	"github.com/sluicemq/sluice/log/entry"
)

// rule says when the offsets of a group expire. A group of members keeps them as
// long as it has members, but for topics to which none of them is subscribed any
// more, and then for the retention from the moment it became empty. Offsets of
// nobody's (an empty record, or none) count from their own commit.
func (s *State) rule(r *record, retention time.Duration) offsets.Rule {
	keep := entry.Time(retention.Milliseconds())
	switch {
	case r == nil:
		return func(_ entry.TopicID, committed entry.Time) (entry.Time, bool) { return committed + keep, true }
	case r.members() == 0:
		since := r.since()
		return func(_ entry.TopicID, committed entry.Time) (entry.Time, bool) {
			return max(committed, since) + keep, true
		}
	}
	subscribes := r.subscribes()
	return func(id entry.TopicID, committed entry.Time) (entry.Time, bool) {
		name, exists := s.topics.TopicName(id)
		return committed + keep, exists && !subscribes(name)
	}
}

// due reports whether an entry would forget something of a group at time now. Any
// goroutine may call it.
func (s *State) due(name string, now entry.Time, retention time.Duration) bool {
	r := s.lookup(name)
	if r != nil && r.members() == 0 && !s.offsets.Has(name) {
		return true
	}
	return s.offsets.Due(name, now, s.rule(r, retention))
}

// forgetAtOnce is how many groups one entry looks at.
const forgetAtOnce = 200

// expireLoop looks for what has expired, until Stop. Started by Start.
func (c *Coordinator) expireLoop() {
	defer c.running.Done()
	ticker := time.NewTicker(c.options.CheckEvery)
	defer ticker.Stop()
	for {
		select {
		case <-c.stopping:
			return
		case <-ticker.C:
			c.expire(time.Now())
		}
	}
}

// expire proposes to forget what has expired, and waits until that is done.
func (c *Coordinator) expire(now time.Time) {
	x := expire{retention: c.options.Retention}
	for _, name := range c.state.names() {
		if !c.state.due(name, entry.TimeOf(now), c.options.Retention) || !c.settled(name) {
			continue
		}
		if x.groups = append(x.groups, name); len(x.groups) == forgetAtOnce {
			if !c.forget(&x) {
				return
			}
			x.groups = nil
		}
	}
	if len(x.groups) > 0 {
		c.forget(&x)
	}
}

// settled reports whether a group is not about to change: offsets of a group in a
// rebalance, or to which members come, are left alone.
func (c *Coordinator) settled(name string) bool {
	s := c.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.groups[name]
	return l == nil || l.consumer != nil || l.classic.Idle() || l.classic.State() == classic.Stable
}

// forget proposes one entry and waits for it. It reports whether to go on.
func (c *Coordinator) forget(x *expire) bool {
	done := make(chan entry.Result, 1)
	err := c.options.Proposer.Propose(entry.TypeExpireOffsets, x.encode(), func(r entry.Result) { done <- r })
	if err == nil {
		select {
		case r := <-done:
			err = r.Err
			if e, ok := r.Value.(Expired); ok {
				c.expired.Add(int64(e.Offsets))
			}
		case <-c.stopping:
			return false
		}
	}
	if err != nil {
		c.options.ExpireFailed(err)
	}
	return err == nil
}
