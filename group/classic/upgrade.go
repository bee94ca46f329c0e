package classic

import (
	"time"

	"github.com/sluicemq/sluice/protocol/kerr"
)

// Snapshot returns the group as it is, with what its members were last assigned,
// for a group of another kind that is to take its place. Members that were never
// told their ids are left out: they will come under others.
func (g *Group) Snapshot() *Metadata {
	m := &Metadata{Generation: g.generation, ProtocolType: g.protocolType, Protocol: g.protocol, Leader: g.leader}
	if m.Protocol == "" {
		m.Protocol = g.selectProtocol()
	}
	for _, one := range g.members {
		if !one.anonymous {
			m.Members = append(m.Members, one.Member)
		}
	}
	return m
}

// Dissolve has all that wait join again, in the group that has taken the place of
// this one. Nothing else may be asked of the group afterwards.
func (g *Group) Dissolve(out *Output) {
	refusal := kerr.New(kerr.RebalanceInProgress, "the group has become one of the consumer protocol; join again")
	for _, m := range g.members {
		g.answerJoin(m, Joined{Err: refusal, MemberID: m.ID, Generation: -1}, out)
		g.answerSync(m, Synced{Err: refusal}, out)
	}
}

// Rebalance has all members join again. It is asked of a group that has just taken
// the place of one of another kind.
func (g *Group) Rebalance(now time.Time, out *Output) { g.prepareRebalance(now, out) }
