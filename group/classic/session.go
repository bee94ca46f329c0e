package classic

import (
	"time"

	"github.com/sluicemq/sluice/protocol/kerr"
)

// Heartbeat renews a member's session. REBALANCE_IN_PROGRESS asks it to join
// again.
func (g *Group) Heartbeat(now time.Time, memberID, instance string, generation int32) error {
	m, err := g.validateGeneration(memberID, instance, generation)
	if err != nil {
		return err
	}
	g.renew(m, now)
	if g.state == PreparingRebalance {
		return kerr.New(kerr.RebalanceInProgress, "the group rebalances")
	}
	return nil
}

// CheckCommit says whether a commit may be proposed, and renews the session of
// the member that commits.
func (g *Group) CheckCommit(now time.Time, memberID, instance string, generation int32) error {
	if generation < 0 && g.state == Empty {
		return nil
	}
	if generation < 0 && memberID == "" && instance == "" {
		return kerr.New(kerr.UnknownMemberID, "the group has members, and the commit is none of theirs")
	}
	m, err := g.validateGeneration(memberID, instance, generation)
	if err != nil {
		return err
	}
	if g.state == CompletingRebalance {
		return kerr.New(kerr.RebalanceInProgress, "the member has no assignment yet")
	}
	g.renew(m, now)
	return nil
}

// CheckGeneration says whether a generation and member that come with offsets of
// a transaction are of this group. A generation below 0 without member always is.
func (g *Group) CheckGeneration(memberID, instance string, generation int32) error {
	if generation < 0 && memberID == "" && instance == "" {
		return nil
	}
	_, err := g.validateGeneration(memberID, instance, generation)
	return err
}

// Leave removes members, and returns an error or nil for each.
func (g *Group) Leave(now time.Time, leavers []Leaver, out *Output) []error {
	errs := make([]error, len(leavers))
	left := false
	for i, l := range leavers {
		if g.forgetPending(now, l.MemberID, out) {
			continue
		}
		memberID := l.MemberID
		if m := g.static[l.Instance]; memberID == "" && l.Instance != "" && m != nil {
			memberID = m.ID // an administrator need not know it
		}
		var m *member
		if m, errs[i] = g.validate(memberID, l.Instance); errs[i] == nil {
			g.remove(out, m)
			left = true
		}
	}
	if left {
		g.afterRemoval(now, out)
	}
	return errs
}

// forgetPending forgets a member id that was handed out, for which the others may
// have waited. It reports whether there was such an id.
func (g *Group) forgetPending(now time.Time, id string, out *Output) bool {
	if _, ok := g.pending[id]; !ok {
		return false
	}
	delete(g.pending, id)
	g.maybeCompleteJoin(now, out)
	return true
}

// Forget forgets the member ids that were handed out in a group that is deleted.
func (g *Group) Forget() { clear(g.pending) }

// Gone says that nobody waits any more for the answer to a request that is held.
// The member counts as silent from now on, and is removed at once if nobody
// knows its id.
func (g *Group) Gone(now time.Time, t Ticket, out *Output) {
	m := g.tickets[t]
	if m == nil {
		return
	}
	if m.sync == t {
		delete(g.tickets, t)
		m.sync = 0
	} else {
		g.releaseJoin(m)
	}
	if m.anonymous {
		g.remove(out, m)
		g.afterRemoval(now, out)
		return
	}
	g.renew(m, now)
}

// Tick does what the time has come for.
func (g *Group) Tick(now time.Time, out *Output) {
	if g.wake.IsZero() || now.Before(g.wake) {
		return
	}
	g.expirePending(now, out)
	g.expireMembers(now, out)
	if due(g.joinUntil, now) {
		g.joinTimeUp(now, out)
	}
	if due(g.syncUntil, now) {
		g.syncTimeUp(now, out)
	}
	if due(g.unsavedEmpty, now) {
		g.saveEmpty(out)
	}
	g.setWake()
}

func due(deadline, now time.Time) bool { return !deadline.IsZero() && !now.Before(deadline) }

// setWake finds the next deadline.
func (g *Group) setWake() {
	g.wake = time.Time{}
	for _, t := range [...]time.Time{g.joinUntil, g.syncUntil, g.unsavedEmpty} {
		if !t.IsZero() {
			g.wakeBy(t)
		}
	}
	for _, t := range g.pending {
		g.wakeBy(t)
	}
	for _, m := range g.members {
		if !m.held() {
			g.wakeBy(m.deadline)
		}
	}
}

// held reports whether the member waits for an answer and so cannot be silent.
func (m *member) held() bool { return m.sync != 0 || m.join != 0 && !m.fresh }

func (g *Group) expirePending(now time.Time, out *Output) {
	gone := false
	for id, until := range g.pending {
		if due(until, now) {
			delete(g.pending, id)
			gone = true
		}
	}
	if gone {
		g.maybeCompleteJoin(now, out)
	}
}

func (g *Group) expireMembers(now time.Time, out *Output) {
	var silent []*member
	for _, m := range g.members {
		if !m.held() && due(m.deadline, now) {
			silent = append(silent, m)
		}
	}
	for _, m := range silent {
		out.expire(m)
	}
	g.remove(out, silent...)
	if len(silent) > 0 {
		g.afterRemoval(now, out)
	}
}

// joinTimeUp ends the join phase, or gives an empty group more time if members
// keep coming.
func (g *Group) joinTimeUp(now time.Time, out *Output) {
	if g.initial && g.newcomers && g.left > 0 {
		g.newcomers = false
		next := min(g.limits.InitialDelay, g.left)
		g.left = max(g.left-g.delay, 0)
		g.delay = next
		g.joinUntil = now.Add(next)
		return
	}
	g.completeJoin(now, out)
}

// syncTimeUp removes members that joined and did not sync.
func (g *Group) syncTimeUp(now time.Time, out *Output) {
	var late []*member
	for _, m := range g.members {
		if m.syncPending {
			late = append(late, m)
		}
	}
	for _, m := range late {
		out.expire(m)
	}
	g.remove(out, late...)
	g.syncUntil = time.Time{}
	if len(late) > 0 {
		g.prepareRebalance(now, out)
	}
}
