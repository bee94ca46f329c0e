package group

import (
	"time"

	"github.com/sluicemq/sluice/group/offsets"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// flight is the commits of a group that are on their way.
type flight struct {
	count   int
	waiting []waiting
}

// waiting is who waits for commits: for the next left of them.
type waiting struct {
	left int
	call func()
}

// Commit commits offsets, with the rules of the request's version (8: the last
// that knows no group without record). done is called once, perhaps before Commit
// returns, when the commit is durable: with the topics that do not exist any more,
// or an error for all.
func (c *Coordinator) Commit(q *offsets.Request, version int16, done func(missing []entry.TopicID, err error)) {
	s := c.shard(q.Group)
	s.mu.Lock()
	if err := s.checkCommit(q, version); err != nil {
		s.mu.Unlock()
		c.refused.Add(1)
		done(nil, err)
		return
	}
	f := s.flights[q.Group]
	f.count++
	s.flights[q.Group] = f
	s.outbox = append(s.outbox, proposal{
		kind: entry.TypeCommitOffsets, payload: q.Append(make([]byte, 0, q.Size())),
		done: func(r entry.Result) {
			s.landed(q.Group)
			if r.Err != nil {
				c.refused.Add(1)
				done(nil, commitRefusal(r.Err))
				return
			}
			c.commits.Add(1)
			missing, _ := r.Value.([]entry.TopicID)
			done(missing, nil)
		},
	})
	s.mu.Unlock()
	s.flush()
}

// CheckCommit says what Commit would refuse at once.
func (c *Coordinator) CheckCommit(q *offsets.Request, version int16) error {
	s := c.shard(q.Group)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.checkCommit(q, version)
}

// checkCommit is the check against the group as it is. The lock is held.
func (s *shard) checkCommit(q *offsets.Request, version int16) error {
	if st := s.modern(q.Group); st != nil {
		_, err := st.CheckCommit(q.Member, q.Generation, version, false)
		return err
	}
	if l := s.groups[q.Group]; l != nil {
		return l.classic.CheckCommit(time.Now(), q.Member, q.Instance, q.Generation)
	}
	switch {
	case q.Generation < 0:
		return nil
	case s.coordinator.state.exist(q.Group):
		return noMembers()
	case version >= 9:
		return kerr.New(kerr.GroupIDNotFound, "")
	default:
		return kerr.New(kerr.IllegalGeneration, "the group does not exist")
	}
}

// landed counts a commit that is not on its way any more. It is called by the log.
func (s *shard) landed(name string) {
	var calls []func()
	s.mu.Lock()
	f := s.flights[name]
	f.count--
	still := f.waiting[:0]
	for _, w := range f.waiting {
		if w.left--; w.left == 0 {
			calls = append(calls, w.call)
		} else {
			still = append(still, w)
		}
	}
	f.waiting = still
	if f.count == 0 {
		delete(s.flights, name)
	} else {
		s.flights[name] = f
	}
	s.mu.Unlock()
	for _, call := range calls {
		call()
	}
}

// AfterCommits calls f when the commits of the group that are on their way have
// landed: at once, and then it returns true, or later. f is called by the log then,
// so that it must be quick.
func (c *Coordinator) AfterCommits(name string, f func()) bool {
	s := c.shard(name)
	s.mu.Lock()
	flight := s.flights[name]
	if flight.count == 0 {
		s.mu.Unlock()
		f()
		return true
	}
	flight.waiting = append(flight.waiting, waiting{flight.count, f})
	s.flights[name] = flight
	s.mu.Unlock()
	return false
}

// commitRefusal gives an error of the log the code that OffsetCommit answers.
func commitRefusal(err error) error {
	switch kerr.Of(err) {
	case kerr.MessageTooLarge, kerr.RecordListTooLarge:
		return kerr.New(kerr.InvalidCommitOffsetSize, "%s", kerr.Message(err))
	}
	return Refusal(err)
}
