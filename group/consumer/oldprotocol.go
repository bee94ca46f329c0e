package consumer

import (
	"time"

	"github.com/sluicemq/sluice/group/classic"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// Members that use JoinGroup and its kin inside of a consumer group. Their
// generation is the member epoch; they have no leader, since the group assigns.
// A member that is to revoke, or may get more, is told REBALANCE_IN_PROGRESS by
// its heartbeat and joins again, which counts as a heartbeat with all fields.

// Join handles a JoinGroup request. The answer comes in this output or in a later
// one.
func (g *Group) Join(now time.Time, j *classic.Join, out *Output) { g.handle(now, j, out) }

// Leave handles a LeaveGroup request. The answer comes in this output or in a
// later one.
func (g *Group) Leave(now time.Time, l *Leave, out *Output) { g.handle(now, l, out) }

// join is the first step of a JoinGroup.
func (d *draft) join(now time.Time, j *classic.Join) step {
	s := step{request: j}
	s.joined.MemberID = j.MemberID
	if err := d.supports(j); err != nil {
		s.err = err
		return s
	}
	sub, err := parseSubscription(j.Protocols[0].Metadata)
	if err != nil {
		s.err = kerr.New(kerr.InconsistentGroupProtocol, "protocol %q: %v", j.Protocols[0].Name, err)
		return s
	}
	m, replaced, err := d.enterClassic(j, &s)
	if err == nil {
		err = d.inform(m, replaced, joinInfo(m.Info, j, &sub))
	}
	if err != nil {
		s.err = err
		return s
	}
	owned := byID(sub.owned, d.g.topics)
	s.id, s.before, s.full, s.owned = m.ID, m.Current, true, &owned
	s.joined.MemberID = m.ID
	d.renew(m.ID, now)
	return s
}

// supports says whether the group's classic members and this one have a protocol
// in common.
func (d *draft) supports(j *classic.Join) error {
	if j.ProtocolType != classic.ConsumerType || len(j.Protocols) == 0 {
		return kerr.New(kerr.InconsistentGroupProtocol, "the group takes protocols of type %q only", classic.ConsumerType)
	}
	for _, p := range j.Protocols {
		all := true
		for _, m := range d.list() {
			if c := m.Info.Classic; c != nil && m.ID != j.MemberID && !c.supports(p.Name) {
				all = false
				break
			}
		}
		if all {
			return nil
		}
	}
	return kerr.New(kerr.InconsistentGroupProtocol, "the group's members support none of the protocols")
}

// enterClassic returns the member that a JoinGroup comes from, as enter does.
func (d *draft) enterClassic(j *classic.Join, s *step) (m, replaced *Member, err error) {
	known := d.member(j.MemberID)
	if j.Instance != "" {
		static := d.staticMember(j.Instance)
		switch {
		case j.MemberID == "" && static != nil:
			s.joined.MemberID = j.NewID
			return static.back(j.NewID), static, nil
		case j.MemberID == "":
			m, err := d.newMember(j.NewID)
			return m, nil, err
		case static == nil:
			return nil, nil, kerr.New(kerr.UnknownMemberID, "the group has no instance %q", j.Instance)
		case static.ID != j.MemberID:
			return nil, nil, kerr.New(kerr.FencedInstanceID, "instance %q has another member id by now", j.Instance)
		}
		known = static
	}
	switch {
	case j.MemberID == "" && j.IDRequired:
		s.joined.MemberID = j.NewID
		return nil, nil, kerr.New(kerr.MemberIDRequired, "join again as %q", j.NewID)
	case j.MemberID == "":
		m, err := d.newMember(j.NewID)
		return m, nil, err
	case known == nil:
		// The id was handed out before; nothing was kept of that.
		m, err := d.newMember(j.MemberID)
		return m, nil, err
	}
	return known, nil, nil
}

func joinInfo(before *Info, j *classic.Join, sub *subscription) *Info {
	i := *before
	i.ClientID, i.ClientHost = j.ClientID, j.ClientHost
	i.RebalanceTimeout = j.RebalanceTimeout
	if j.Instance != "" {
		i.Instance = j.Instance
	}
	if sub.rack != "" {
		i.Rack = sub.rack
	}
	i.Topics = sortedNames(sub.topics)
	i.Regex, i.Assignor = "", ""
	i.Classic = &Classic{SessionTimeout: j.SessionTimeout, Protocols: j.Protocols}
	return &i
}

func joinedAs(m *Member) classic.Joined {
	return classic.Joined{
		MemberID: m.ID, Generation: m.Current.Epoch,
		ProtocolType: classic.ConsumerType, Protocol: m.Info.Classic.Protocols[0].Name,
	}
}

// hasJoined notes that a classic member has joined and must sync.
func (g *Group) hasJoined(id string, j *classic.Join, now time.Time) {
	at := g.seats[id]
	if at == nil || at.member.Info.Classic == nil {
		return
	}
	at.join = time.Time{}
	at.sync = now.Add(j.RebalanceTimeout)
	g.wakeBy(at.sync)
}

// classicSeat returns the member that a request of the classic protocol comes
// from, if it is in the generation.
func (g *Group) classicSeat(memberID, instance string, generation int32) (*seat, error) {
	at := g.seats[memberID]
	if instance != "" {
		static := g.static[instance]
		if static == nil {
			return nil, kerr.New(kerr.UnknownMemberID, "the group has no instance %q", instance)
		}
		if static != at {
			return nil, kerr.New(kerr.FencedInstanceID, "instance %q has another member id by now", instance)
		}
	}
	switch {
	case at == nil:
		return nil, kerr.New(kerr.UnknownMemberID, "the group has no member %q", memberID)
	case at.member.Info.Classic == nil:
		return nil, kerr.New(kerr.UnknownMemberID, "member %q does not use the classic protocol", memberID)
	case at.member.Current.Epoch != generation:
		return nil, kerr.New(kerr.IllegalGeneration, "generation %d is not the member's epoch %d", generation, at.member.Current.Epoch)
	}
	return at, nil
}

// Sync answers a SyncGroup request.
func (g *Group) Sync(now time.Time, q *classic.Sync) classic.Synced {
	at, err := g.classicSeat(q.MemberID, q.Instance, q.Generation)
	if err != nil {
		return classic.Synced{Err: err}
	}
	first := at.member.Info.Classic.Protocols[0]
	switch {
	case q.ProtocolType != nil && *q.ProtocolType != classic.ConsumerType, q.Protocol != nil && *q.Protocol != first.Name:
		return classic.Synced{Err: kerr.New(kerr.InconsistentGroupProtocol, "the member has joined with protocol %q of type %q", first.Name, classic.ConsumerType)}
	case g.state.Epoch > q.Generation && at.member.Current.Phase != Revoking:
		// A member that revokes has joined for the epoch already.
		g.awaitJoin(at, now)
		return classic.Synced{Err: kerr.New(kerr.RebalanceInProgress, "the group has gone on to epoch %d", g.state.Epoch)}
	}
	at.sync = time.Time{}
	g.renew(at, now)
	sub, _ := parseSubscription(first.Metadata) // it was in order when the member joined
	return classic.Synced{
		ProtocolType: classic.ConsumerType, Protocol: first.Name,
		Assignment: appendAssignment(nil, sub.version, at.member.Current.Assigned.Set, g.topics.Name),
	}
}

// ClassicHeartbeat answers a Heartbeat request. REBALANCE_IN_PROGRESS asks the
// member to join again.
func (g *Group) ClassicHeartbeat(now time.Time, memberID, instance string, generation int32) error {
	at, err := g.classicSeat(memberID, instance, generation)
	if err != nil {
		return err
	}
	g.renew(at, now)
	c := at.member.Current
	if c.Epoch >= g.state.Epoch && c.Phase != Revoking && (c.Phase != Waiting || g.waits(at.member)) {
		return nil
	}
	g.awaitJoin(at, now)
	return kerr.New(kerr.RebalanceInProgress, "there are other partitions for the member")
}

// waits reports whether somebody else still has what a waiting member is to get.
func (g *Group) waits(m *Member) bool {
	for _, t := range m.Target {
		for _, p := range t.Partitions {
			if g.taken(t.ID, p) && !m.Current.Assigned.Set.Has(t.ID, p) {
				return true
			}
		}
	}
	return false
}

// awaitJoin sets the time by which a member must have joined again.
func (g *Group) awaitJoin(at *seat, now time.Time) {
	if at.join.IsZero() {
		at.join = now.Add(at.member.Info.RebalanceTimeout)
		g.wakeBy(at.join)
	}
}

// leave is the first step of a LeaveGroup, by which administrators, too, remove
// static members.
func (d *draft) leave(l *Leave) step {
	s := step{request: l}
	s.left.Errs = make([]error, len(l.Leavers))
	for i, leaver := range l.Leavers {
		s.left.Errs[i] = d.leaveOne(leaver)
	}
	return s
}

func (d *draft) leaveOne(l classic.Leaver) error {
	m := d.member(l.MemberID)
	if l.Instance != "" {
		static := d.staticMember(l.Instance)
		switch {
		case static == nil:
			return kerr.New(kerr.UnknownMemberID, "the group has no instance %q", l.Instance)
		case l.MemberID != "" && l.MemberID != static.ID:
			return kerr.New(kerr.FencedInstanceID, "instance %q has another member id by now", l.Instance)
		}
		m = static
	}
	switch {
	case m == nil:
		return kerr.New(kerr.UnknownMemberID, "the group has no member %q", l.MemberID)
	case m.Info.Classic == nil:
		return kerr.New(kerr.UnknownMemberID, "member %q does not use the classic protocol", m.ID)
	}
	d.remove(m.ID)
	return nil
}
