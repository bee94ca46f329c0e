package classic

import (
	"slices"
	"time"

	"github.com/sluicemq/sluice/protocol/kerr"
)

// Check refuses a request that is wrong whatever the group.
func (l *Limits) Check(q *Join) error {
	if q.SessionTimeout < l.MinSessionTimeout || q.SessionTimeout > l.MaxSessionTimeout {
		return kerr.New(kerr.InvalidSessionTimeout, "session timeout of %v is not from %v to %v",
			q.SessionTimeout, l.MinSessionTimeout, l.MaxSessionTimeout)
	}
	return nil
}

// Join answers a JoinGroup request that passed Limits.Check, or holds it until the rebalance has come so
// far.
func (g *Group) Join(now time.Time, q *Join, out *Output) {
	refuse := func(memberID string, code kerr.Code, format string, args ...any) {
		out.Joined = append(out.Joined, JoinAnswer{q.Ticket, Joined{Err: kerr.New(code, format, args...), MemberID: memberID, Generation: -1}})
	}
	switch {
	case !g.accepts(q):
		if m := g.byID[q.MemberID]; m != nil {
			g.remove(out, m)
			g.afterRemoval(now, out)
		}
		g.forgetPending(now, q.MemberID, out)
		refuse("", kerr.GroupMaxSizeReached, "the group has %d members and may have %d, of %d bytes together",
			len(g.members), g.limits.MaxMembers, g.limits.MaxBytes/2)
		return
	case !g.supportsOneOf(q):
		refuse(q.MemberID, kerr.InconsistentGroupProtocol, "the group is of type %q, and no protocol is common to all its members and this one",
			g.protocolType)
		return
	}
	if q.MemberID == "" {
		g.joinNew(now, q, out)
		return
	}
	if _, ok := g.pending[q.MemberID]; ok && q.Instance == "" {
		g.addMember(now, q, q.MemberID, out)
		return
	}
	m, err := g.validate(q.MemberID, q.Instance)
	if err != nil {
		out.Joined = append(out.Joined, JoinAnswer{q.Ticket, Joined{Err: err, MemberID: q.MemberID, Generation: -1}})
		return
	}
	g.rejoin(now, q, m, out)
}

// accepts reports whether there is room for the member.
func (g *Group) accepts(q *Join) bool {
	m := g.byID[q.MemberID]
	if m == nil && q.Instance != "" && q.MemberID == "" {
		m = g.static[q.Instance] // it takes the place of the one that is there
	}
	size := g.bytes + (&Member{ID: q.NewID, ClientID: q.ClientID, Protocols: q.Protocols}).size()
	if m != nil {
		size -= m.size()
	}
	if size > g.limits.MaxBytes/2 {
		return false
	}
	switch g.state {
	case Empty:
		return true
	case PreparingRebalance:
		// Who has joined counts, so that a group that is too large, since the limit
		// was lowered, loses those that come last.
		return m != nil && m.join != 0 || g.awaiting < g.limits.MaxMembers
	default:
		return m != nil || len(g.members) < g.limits.MaxMembers
	}
}

// supportsOneOf reports whether the member may take part with what it supports.
func (g *Group) supportsOneOf(q *Join) bool {
	if g.state == Empty {
		return q.ProtocolType != "" && len(q.Protocols) > 0
	}
	return q.ProtocolType == g.protocolType && slices.ContainsFunc(q.Protocols, func(p Protocol) bool {
		return g.supports[p.Name] == len(g.members)
	})
}

func (g *Group) joinNew(now time.Time, q *Join, out *Output) {
	switch m := g.static[q.Instance]; {
	case q.Instance != "" && m != nil:
		g.comeBack(now, q, m, out)
	case q.Instance == "" && q.IDRequired:
		a := Joined{MemberID: q.NewID, Generation: -1, Err: kerr.New(kerr.MemberIDRequired, "join again with the member id")}
		if len(g.pending) >= g.limits.MaxPending {
			a = Joined{Generation: -1, Err: kerr.New(kerr.CoordinatorLoadInProgress, "%d members are about to join", len(g.pending))}
		} else {
			until := now.Add(q.SessionTimeout)
			g.pending[q.NewID] = until
			g.wakeBy(until)
		}
		out.Joined = append(out.Joined, JoinAnswer{q.Ticket, a})
	default:
		g.addMember(now, q, q.NewID, out)
	}
}

// addMember takes in a new member.
func (g *Group) addMember(now time.Time, q *Join, id string, out *Output) {
	delete(g.pending, id)
	m := &member{
		Member: Member{
			ID: id, Instance: q.Instance, ClientID: q.ClientID, ClientHost: q.ClientHost,
			SessionTimeout: q.SessionTimeout, RebalanceTimeout: q.RebalanceTimeout, Protocols: q.Protocols,
		},
		fresh: true, anonymous: q.MemberID == "",
		deadline: now.Add(newMemberLimit),
	}
	g.wakeBy(m.deadline)
	if g.state == PreparingRebalance && g.initial {
		g.newcomers = true
	}
	if len(g.members) == 0 {
		g.protocolType = q.ProtocolType
	}
	g.add(m)
	g.holdJoin(m, q.Ticket, out)
	g.secureID(m, q, g.leader, out)
	g.rebalance(now, out)
}

// rejoin is the JoinGroup of a member that is in the group.
func (g *Group) rejoin(now time.Time, q *Join, m *member, out *Output) {
	same := sameProtocols(m.Protocols, q.Protocols)
	switch {
	case g.state == CompletingRebalance && same, g.state == Stable && same && m.ID != g.leader:
		// It did not get the answer, or joins for no reason.
		g.renew(m, now)
		a := g.joined(m)
		if g.state == Stable {
			a.Members = nil
		}
		out.Joined = append(out.Joined, JoinAnswer{q.Ticket, a})
	default:
		// A leader that joins in Stable has a reason that shows in no metadata, such
		// as new partitions.
		g.update(q, m)
		if m.fresh {
			m.deadline = now.Add(newMemberLimit)
			g.wakeBy(m.deadline)
		}
		g.holdJoin(m, q.Ticket, out)
		g.rebalance(now, out)
	}
}

// update takes over what a member says of itself.
func (g *Group) update(q *Join, m *member) {
	g.count(m, -1)
	m.Protocols = q.Protocols
	m.ClientID, m.ClientHost = q.ClientID, q.ClientHost
	m.SessionTimeout, m.RebalanceTimeout = q.SessionTimeout, q.RebalanceTimeout
	g.count(m, 1)
}

func sameProtocols(a, b []Protocol) bool {
	return slices.EqualFunc(a, b, func(a, b Protocol) bool {
		return a.Name == b.Name && string(a.Metadata) == string(b.Metadata)
	})
}

// comeBack is the JoinGroup of a static member that forgot its member id, as it
// does when it restarts. It gets a new one, and the old one is fenced.
func (g *Group) comeBack(now time.Time, q *Join, m *member, out *Output) {
	leader, oldID := g.leader, m.ID
	fenced := kerr.New(kerr.FencedInstanceID, "instance %q has another member id by now", q.Instance)
	g.answerJoin(m, Joined{Err: fenced, MemberID: oldID, Generation: -1}, out)
	g.answerSync(m, Synced{Err: fenced}, out)
	delete(g.byID, oldID)
	g.bytes += len(q.NewID) - len(oldID)
	m.ID = q.NewID
	g.byID[m.ID] = m
	if g.leader == oldID {
		g.leader = m.ID
	}
	g.update(q, m)
	g.renew(m, now)
	g.holdJoin(m, q.Ticket, out)
	g.secureID(m, q, leader, out)
	switch {
	case g.state == PreparingRebalance:
		g.maybeCompleteJoin(now, out)
	case g.state == Stable && g.selectProtocol() == g.protocol:
		// Nobody else is to notice: only its id has changed.
	default:
		// In CompletingRebalance the leader may be dividing the work for the old id.
		g.prepareRebalance(now, out)
	}
}

// secureID makes sure that a static member is not told an id that a restart of the
// broker would forget: it would be fenced by its old self.
func (g *Group) secureID(m *member, q *Join, leader string, out *Output) {
	if m.Instance == "" {
		return
	}
	if old, ok := g.stateStatic[m.Instance]; ok && old != m.ID {
		changed := m.Member
		changed.Assignment = nil
		g.propose(Entry{Replacement: &Replacement{Group: g.id, Generation: g.generation, OldID: old, Member: changed}},
			stored{kind: storedReplacement}, out)
	}
	if len(g.inFlight) > 0 { // one of them may take the old id away
		m.unstored = g.lastEntry
		g.releases[m.unstored] = append(g.releases[m.unstored],
			release{memberID: m.ID, skipAssignment: q.SkipAssignment, leader: leader})
	}
}

// joined returns what a member is told when it has joined.
func (g *Group) joined(m *member) Joined {
	a := Joined{
		MemberID: m.ID, Generation: g.generation,
		ProtocolType: g.protocolType, Protocol: g.protocol, Leader: g.leader,
	}
	if m.ID == g.leader {
		a.Members = g.subscriptions()
	}
	return a
}

func (g *Group) subscriptions() []Subscription {
	all := make([]Subscription, len(g.members))
	for i, m := range g.members {
		all[i] = Subscription{MemberID: m.ID, Instance: m.Instance, Metadata: find(m.Protocols, g.protocol)}
	}
	return all
}

// selectProtocol returns the protocol that the members vote for: each for the
// first it prefers of those that all support. Among equals the leader decides, as
// the oldest member.
func (g *Group) selectProtocol() string {
	votes := make(map[string]int)
	best := ""
	for _, m := range g.members {
		for i := range m.Protocols {
			if name := m.Protocols[i].Name; g.supports[name] == len(g.members) {
				votes[name]++
				break
			}
		}
	}
	for _, m := range g.members {
		for i := range m.Protocols {
			if name := m.Protocols[i].Name; votes[name] > votes[best] {
				best = name
			}
		}
	}
	return best
}

// subscribe notes which topics the members are subscribed to.
func (g *Group) subscribe() {
	g.subscribed = nil
	if g.protocolType != ConsumerType {
		return
	}
	topics := make(map[string]bool)
	for _, m := range g.members {
		if !addSubscription(topics, find(m.Protocols, g.protocol)) {
			return
		}
	}
	g.subscribed = topics
}
