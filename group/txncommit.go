package group

import (
	"github.com/sluicemq/sluice/group/offsets"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// Offsets that come within a transaction (KIP-447). They wait with the transaction,
// which is not a group's business; what is asked here is whether the member that
// the producer works for may commit at all. Unlike a plain commit, one without
// member may come at any time, and a rebalance does not hold it up: the codes for
// that are not known to transactional producers.

// CheckTransactional says whether the group as it is would take the offsets.
func (c *Coordinator) CheckTransactional(q *offsets.Request, version int16) error {
	s := c.shard(q.Group)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkTransactional(q, version); err != nil {
		return err
	}
	return c.checkPartitions(q, version)
}

func (s *shard) checkTransactional(q *offsets.Request, version int16) error {
	if st := s.modern(q.Group); st != nil {
		_, err := st.CheckCommit(q.Member, q.Generation, version, true)
		return err
	}
	if l := s.groups[q.Group]; l != nil {
		return l.classic.CheckGeneration(q.Member, q.Instance, q.Generation)
	}
	switch {
	case q.Generation < 0:
		return nil
	case s.coordinator.state.exist(q.Group):
		return noMembers()
	case version >= 6:
		return kerr.New(kerr.GroupIDNotFound, "")
	default:
		return kerr.New(kerr.IllegalGeneration, "the group does not exist")
	}
}

// checkPartitions refuses offsets of partitions that the member does not have, or has
// not had since the epoch that it knows, or has not got the lock of in an ordered
// group.
func (c *Coordinator) checkPartitions(q *offsets.Request, version int16) error {
	st := c.state.lookup(q.Group).modern()
	committer, err := st.CheckCommit(q.Member, q.Generation, version, true)
	if err != nil {
		return err
	}
	ordered := c.options.Ordering.Ordered(q.Group) || c.state.locks.Has(q.Group)
	for i := range q.Topics {
		t := &q.Topics[i]
		for j := range t.Offsets {
			if err := committer.May(t.ID, t.Offsets[j].Partition); err != nil {
				return err
			}
			if ordered && !c.mayCommit(q, t.ID, t.Offsets[j].Partition) {
				return noLock()
			}
		}
	}
	return nil
}

// AdmitTransactional says whether a commit within a transaction that was proposed
// before may still come into effect. It is the apply loop's.
func (s *State) AdmitTransactional(c *offsets.Commit) error {
	if c.Generation < 0 && len(c.Member) == 0 && len(c.Instance) == 0 {
		return nil
	}
	found := s.groups[string(c.Group)]
	if st := found.modern(); st != nil {
		_, err := st.AdmitCommit(c.Member, c.Generation)
		return err
	}
	if found != nil {
		return found.classic.AdmitCommit(c.Member, c.Instance, c.Generation)
	}
	return nil
}

// CommitTransactional commits offsets of a transaction that was committed by the
// entry of that time. Topics that do not exist are left out. It is the apply loop's.
func (s *State) CommitTransactional(q *offsets.Request, now entry.Time, w entry.Writer) error {
	c, err := offsets.DecodeCommit(q.Append(make([]byte, 0, q.Size())))
	if err != nil {
		return err
	}
	if _, err = s.offsets.Commit(&c, now, s.exists); err != nil {
		return err
	}
	if s.offsets.Unsaved() > maxUnsaved {
		s.offsets.Checkpoint(w)
	}
	return nil
}

// DeletedGroup returns the group that the payload of a TypeDeleteGroup entry is about.
func DeletedGroup(payload []byte) (string, error) { return decodeDeleteGroup(payload) }
