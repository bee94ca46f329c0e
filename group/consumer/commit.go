package consumer

import (
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// Committer is a member, or somebody else, who may commit offsets.
type Committer struct {
	member *Member // nil: somebody who may commit everything
	epoch  int32
}

// May says whether the commit may contain the partition; a commit with one that it may
// not contain is refused as a whole. A member that has not
// heard of its newest epoch may commit what it has had since the epoch that it
// knows (KIP-1251).
func (c Committer) May(id entry.TopicID, partition int32) error {
	if c.member == nil || c.epoch == c.member.Current.Epoch {
		return nil
	}
	since, ok := c.member.Current.Assigned.Since(id, partition)
	if !ok {
		since, ok = c.member.Current.Revoked.Since(id, partition)
	}
	if !ok || c.epoch < since {
		return stale(c.epoch, c.member)
	}
	return nil
}

func stale(epoch int32, m *Member) error {
	if m.Info.Classic != nil {
		return kerr.New(kerr.IllegalGeneration, "generation %d is not the member's epoch %d", epoch, m.Current.Epoch)
	}
	return kerr.New(kerr.StaleMemberEpoch, "member epoch %d is not %d", epoch, m.Current.Epoch)
}

// AdmitCommit says whether the member may commit offsets. It is asked before the
// commit is proposed and once more when it is applied: the member may have been
// fenced in between. An epoch below 0 is that of somebody who is no member, and
// who may commit while the group has none. Bytes are borrowed.
func (s *State) AdmitCommit(memberID []byte, epoch int32) (Committer, error) {
	if s == nil || epoch < 0 && len(s.Members) == 0 {
		return Committer{}, nil
	}
	m := s.memberOf(memberID)
	if m == nil {
		return Committer{}, kerr.New(kerr.UnknownMemberID, "the group has no member %q", memberID)
	}
	if epoch > m.Current.Epoch || epoch < m.Current.Epoch && m.Info.Classic != nil {
		return Committer{}, stale(epoch, m)
	}
	return Committer{m, epoch}, nil
}

// CheckCommit is AdmitCommit for a request of OffsetCommit, in the version, or of
// TxnOffsetCommit. Members of the consumer protocol must use version 9 of the
// former; a transaction need not name a member.
func (s *State) CheckCommit(memberID string, epoch int32, version int16, transactional bool) (Committer, error) {
	if s != nil && transactional && memberID == "" && epoch < 0 {
		return Committer{}, nil
	}
	if s != nil && !transactional && version < 9 {
		if m := s.Member(memberID); m != nil && m.Info.Classic == nil {
			return Committer{}, kerr.New(kerr.UnsupportedVersion, "members of the consumer protocol need version 9 to commit offsets")
		}
	}
	return s.AdmitCommit([]byte(memberID), epoch)
}

// CheckFetch says whether a member may fetch offsets. Who is no member gives
// neither an id nor an epoch, and may always.
func (s *State) CheckFetch(memberID *string, epoch int32) error {
	if memberID == nil && epoch < 0 || s == nil {
		return nil
	}
	var m *Member
	if memberID != nil {
		m = s.Member(*memberID)
	}
	if m == nil {
		return kerr.New(kerr.UnknownMemberID, "the group has no such member")
	}
	if epoch != m.Current.Epoch {
		return stale(epoch, m)
	}
	return nil
}
