package classic

import (
	"time"

	"github.com/sluicemq/sluice/protocol/kerr"
)

// rebalance begins a rebalance, or looks whether the one at hand has all it needs.
func (g *Group) rebalance(now time.Time, out *Output) {
	if g.state == PreparingRebalance {
		g.maybeCompleteJoin(now, out)
		return
	}
	g.prepareRebalance(now, out)
}

// prepareRebalance begins a join phase. Members that wait for their assignment
// are told to join again.
func (g *Group) prepareRebalance(now time.Time, out *Output) {
	if g.state == CompletingRebalance {
		g.refuseSyncs(now, kerr.New(kerr.RebalanceInProgress, "the group begins another rebalance"), out)
	}
	for _, m := range g.members {
		m.syncPending = false
	}
	g.syncing, g.syncUntil, g.assignmentEntry = 0, time.Time{}, 0
	g.initial = g.state == Empty
	g.newcomers = false
	g.unsavedEmpty = time.Time{}
	g.state = PreparingRebalance
	if g.initial && g.limits.InitialDelay > 0 {
		g.delay = g.limits.InitialDelay
		g.left = max(g.rebalanceTimeout()-g.delay, 0)
		g.joinUntil = now.Add(g.delay)
		g.wakeBy(g.joinUntil)
		return
	}
	if g.allJoined() || g.initial {
		g.completeJoin(now, out)
		return
	}
	g.joinUntil = now.Add(g.rebalanceTimeout())
	g.wakeBy(g.joinUntil)
}

// refuseSyncs answers all members that wait for their assignment, and takes back
// what was assigned.
func (g *Group) refuseSyncs(now time.Time, refusal error, out *Output) {
	for _, m := range g.members {
		m.Assignment = nil
		if m.sync != 0 {
			g.answerSync(m, Synced{Err: refusal}, out)
			g.renew(m, now)
		}
	}
}

func (g *Group) allJoined() bool { return g.awaiting == len(g.members) && len(g.pending) == 0 }

// maybeCompleteJoin ends the join phase if nobody is missing. One that began when
// the group was empty takes its time, unless nobody is left.
func (g *Group) maybeCompleteJoin(now time.Time, out *Output) {
	if g.state == PreparingRebalance && g.allJoined() && (!g.initial || len(g.members) == 0) {
		g.completeJoin(now, out)
	}
}

// afterRemoval goes on after members were removed.
func (g *Group) afterRemoval(now time.Time, out *Output) {
	switch g.state {
	case Stable, CompletingRebalance:
		g.prepareRebalance(now, out)
	case PreparingRebalance:
		g.maybeCompleteJoin(now, out)
	}
}

// completeJoin ends the join phase: dynamic members that have not joined are
// removed, and the others are told the new generation.
func (g *Group) completeJoin(now time.Time, out *Output) {
	g.joinUntil = time.Time{}
	var late []*member
	for _, m := range g.members {
		if m.join == 0 && m.Instance == "" {
			late = append(late, m)
			out.expire(m)
		}
	}
	g.remove(out, late...)
	if len(g.members) == 0 {
		g.becomeEmpty(out)
		return
	}
	if !g.electLeader() {
		// Only static members are left, and none has joined. They may until their
		// sessions end.
		g.joinUntil = now.Add(max(g.rebalanceTimeout(), storeRetry))
		g.wakeBy(g.joinUntil)
		return
	}
	g.initial = false
	g.generation++
	g.protocol = g.selectProtocol()
	g.subscribe()
	g.state = CompletingRebalance
	g.syncUntil = now.Add(g.rebalanceTimeout())
	g.wakeBy(g.syncUntil)
	g.syncing = len(g.members)
	for _, m := range g.members {
		m.syncPending, m.fresh, m.anonymous, m.present = true, false, false, m.join != 0
		if m.join != 0 && m.unstored == 0 {
			g.answerJoin(m, g.joined(m), out)
			g.renew(m, now)
		}
	}
}

// electLeader makes sure that the leader is a member that has joined.
func (g *Group) electLeader() bool {
	if m := g.byID[g.leader]; m != nil && m.join != 0 {
		return true
	}
	for _, m := range g.members {
		if m.join != 0 {
			g.leader = m.ID
			return true
		}
	}
	return false
}

// becomeEmpty begins a generation without members.
func (g *Group) becomeEmpty(out *Output) {
	g.initial = false
	g.generation++
	g.protocol, g.leader = "", ""
	g.state = Empty
	g.subscribed = nil
	if g.protocolType == ConsumerType {
		g.subscribed = map[string]bool{}
	}
	if g.saved {
		g.saveEmpty(out)
	}
}

func (g *Group) saveEmpty(out *Output) {
	g.unsavedEmpty = time.Time{}
	g.propose(Entry{Metadata: &Metadata{Generation: g.generation, ProtocolType: g.protocolType}}, stored{kind: storedEmpty}, out)
}

// Sync answers a SyncGroup request, or holds it until the leader's assignments
// are in the log.
func (g *Group) Sync(now time.Time, q *Sync, out *Output) {
	m, err := g.validateGeneration(q.MemberID, q.Instance, q.Generation)
	if err == nil && (differs(q.ProtocolType, g.protocolType) || differs(q.Protocol, g.protocol)) {
		err = kerr.New(kerr.InconsistentGroupProtocol, "the group's protocol is %q of type %q", g.protocol, g.protocolType)
	}
	if err == nil && g.state == PreparingRebalance {
		err = kerr.New(kerr.RebalanceInProgress, "the group rebalances")
	}
	if err != nil {
		out.Synced = append(out.Synced, SyncAnswer{q.Ticket, Synced{Err: err}})
		return
	}
	g.synced(m)
	g.renew(m, now)
	if g.state == Stable {
		out.Synced = append(out.Synced, SyncAnswer{q.Ticket, g.assigned(m)})
		return
	}
	g.holdSync(m, q.Ticket, out)
	if m.ID == g.leader && g.assignmentEntry == 0 {
		g.assign(now, q, out)
	}
}

func differs(said *string, is string) bool { return said != nil && *said != is }

func (g *Group) assigned(m *member) Synced {
	return Synced{ProtocolType: g.protocolType, Protocol: g.protocol, Assignment: m.Assignment}
}

// assign takes the leader's assignments. They count once they are in the log.
func (g *Group) assign(now time.Time, q *Sync, out *Output) {
	assignments := make(map[string][]byte, len(q.Assignments))
	size := g.bytes
	for i := range q.Assignments {
		assignments[q.Assignments[i].MemberID] = q.Assignments[i].Assignment
		size += len(q.Assignments[i].Assignment)
	}
	if size > g.limits.MaxBytes {
		g.assignFailed(now, kerr.New(kerr.UnknownServerError, "the assignments are too large"), out)
		return
	}
	next := &Metadata{
		Generation: g.generation, ProtocolType: g.protocolType, Protocol: g.protocol, Leader: g.leader,
		Members: make([]Member, len(g.members)),
	}
	for i, m := range g.members {
		next.Members[i] = m.Member
		next.Members[i].Assignment = assignments[m.ID]
	}
	g.propose(Entry{Metadata: next}, stored{kind: storedAssignments, assignments: assignments}, out)
	g.assignmentEntry = g.lastEntry
}

// assignFailed tells all that wait, and has them join again.
func (g *Group) assignFailed(now time.Time, refusal error, out *Output) {
	g.refuseSyncs(now, refusal, out)
	g.prepareRebalance(now, out)
}

// Stored says what became of an entry: it was applied, or refused with an error
// that clients may be told. state is what the state has of the group by now, nil if
// nothing.
func (g *Group) Stored(now time.Time, number uint64, err error, state *Metadata, out *Output) {
	s, ok := g.inFlight[number]
	if !ok {
		return
	}
	delete(g.inFlight, number)
	g.misled = g.misled || err != nil
	if g.misled && len(g.inFlight) == 0 {
		g.misled, g.stateStatic = false, instances(state)
	}
	switch s.kind {
	case storedEmpty:
		if err != nil && g.state == Empty && g.generation == s.generation {
			g.unsavedEmpty = now.Add(storeRetry)
			g.wakeBy(g.unsavedEmpty)
		}
	case storedAssignments:
		g.assignmentsStored(now, number, s.assignments, err, out)
	}
	released := g.releases[number]
	delete(g.releases, number)
	for i := range released {
		g.release(now, number, &released[i], err, out)
	}
}

func (g *Group) assignmentsStored(now time.Time, number uint64, assignments map[string][]byte, err error, out *Output) {
	if g.assignmentEntry != number {
		return // another rebalance has begun
	}
	if err != nil {
		g.assignFailed(now, err, out)
		return
	}
	g.state = Stable
	out.Completed++
	for _, m := range g.members {
		m.Assignment = assignments[m.ID]
		if m.sync != 0 {
			g.answerSync(m, g.assigned(m), out)
			g.renew(m, now)
		}
	}
}

// release tells a static member its id, or that it has to try again.
func (g *Group) release(now time.Time, number uint64, r *release, err error, out *Output) {
	m := g.byID[r.memberID]
	if m == nil || m.unstored != number {
		return // it is gone, or has yet another id
	}
	m.unstored = 0
	switch {
	case err != nil:
		// The state knows the old id. A rebalance makes them agree again.
		if m.join != 0 {
			g.answerJoin(m, Joined{Err: err, Generation: -1}, out)
			g.renew(m, now)
		}
		g.afterRemoval(now, out)
		return
	case m.join == 0 || g.state == PreparingRebalance:
		return
	}
	a := g.joined(m)
	if g.state == Stable {
		if r.skipAssignment {
			a.SkipAssignment = m.ID == g.leader
		} else {
			// An old client that is told that it leads would divide the work anew.
			a.Members, a.Leader = nil, r.leader
		}
	}
	g.answerJoin(m, a, out)
	g.renew(m, now)
}
