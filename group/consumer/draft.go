package consumer

import (
	"slices"
	"time"

	"github.com/sluicemq/sluice/group/assign"
	"github.com/sluicemq/sluice/group/classic"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// draft is what a group is to become by one entry: the changes that a batch of
// requests makes to the state as it is applied. Nothing of it is visible before
// the entry is. A batch is handled in three steps:
//
//	take      each request: is it in order, what does it say of its member
//	complete  the group, once: patterns, group epoch, target; then each request's
//	          member: what it is to give up and what it gets
//	propose   the difference to the state, as an entry; without one the answers
//	          go out at once
type draft struct {
	g    *Group
	base *State

	epoch, targetEpoch int32
	hash               uint64
	members            map[string]*Member // that are different; nil: gone
	regexes            map[string]*Regex  // that are different; nil: gone
	owners             map[place]bool     // partitions that become taken, or free
	static             map[string]string  // instance ids that change hands: the member, or ""
	count, classic     int                // members; those of the classic protocol
	bytes              int                // of the members' Info
	modernGone         bool               // a member of the consumer protocol is gone

	bump         bool        // the group epoch is to grow
	resubscribed bool        // members or subscriptions are different
	entered      bool        // a member of the consumer protocol was heard of
	repatterned  bool        // patterns that members subscribe to are different
	asked        *Resolution // patterns that members who were heard of wait for
	sorted       []*Member   // as list returns them; nil: to be made anew
	sizes        *sizes      // as topics returns them; nil: to be made anew

	job       *Job // that it has set off
	steps     []step
	expired   []Expired
	downgrade *Downgrade
}

// place is a partition.
type place struct {
	topic     entry.TopicID
	partition int32
}

// step is a request of the batch with its answer in the making.
type step struct {
	request any // *Heartbeat, *classic.Join or *Leave
	at      time.Time
	err     error
	id      string   // of the member, if it is to be moved on and told of it
	before  *Current // where it stood
	full    bool     // it is to be told its assignment in any case
	owned   *assign.Assignment
	beaten  Beaten
	joined  classic.Joined
	left    Left
}

func (g *Group) draft() *draft {
	base := g.base()
	d := &draft{
		g: g, base: base,
		epoch: max(base.Epoch, firstEpoch), targetEpoch: max(base.TargetEpoch, firstEpoch), hash: base.TopicsHash,
		count: len(g.seats), classic: g.classic, bytes: g.bytes,
	}
	if g.upgraded != nil {
		for _, m := range base.Members {
			d.count++
			d.classic++
			d.bytes += m.Info.size()
			d.hold(m.Current, true)
		}
	}
	return d
}

// exists reports whether there is such a group, or will be.
func (d *draft) exists() bool { return d.base.Epoch > 0 || d.count > 0 }

// member returns the member with the id, or nil.
func (d *draft) member(id string) *Member {
	if m, ok := d.members[id]; ok {
		return m
	}
	if d.g.upgraded != nil {
		return d.base.Member(id)
	}
	if at := d.g.seats[id]; at != nil {
		return at.member
	}
	return nil
}

// staticMember returns the member with the instance id, or nil.
func (d *draft) staticMember(instance string) *Member {
	if id, ok := d.static[instance]; ok {
		return d.member(id)
	}
	if d.g.upgraded != nil {
		for _, m := range d.base.Members {
			if m.Info.Instance == instance {
				return d.member(m.ID)
			}
		}
		return nil
	}
	if at := d.g.static[instance]; at != nil {
		return d.member(at.member.ID)
	}
	return nil
}

// put makes m the member with its id.
func (d *draft) put(m *Member) {
	old := d.member(m.ID)
	d.members = orMake(d.members)
	d.members[m.ID] = m
	d.sorted = nil
	if old == nil {
		d.enroll(m, 1)
		d.hold(m.Current, true)
		return
	}
	if old.Info != m.Info {
		d.enroll(old, -1)
		d.enroll(m, 1)
	}
	if old.Current != m.Current {
		d.hold(old.Current, false)
		d.hold(m.Current, true)
	}
}

// remove takes a member out. What it had is free.
func (d *draft) remove(id string) {
	m := d.member(id)
	if m == nil {
		return
	}
	d.members = orMake(d.members)
	d.members[id] = nil
	d.sorted = nil
	d.enroll(m, -1)
	d.hold(m.Current, false)
	d.bump, d.resubscribed = true, true
	d.repatterned = d.repatterned || m.Info.Regex != ""
	d.modernGone = d.modernGone || m.Info.Classic == nil
}

func orMake[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return make(map[K]V)
	}
	return m
}

// enroll counts what a member says of itself in (1) or out (-1).
func (d *draft) enroll(m *Member, sign int) {
	d.count += sign
	d.bytes += sign * m.Info.size()
	if m.Info.Classic != nil {
		d.classic += sign
	}
	if m.Info.Instance != "" {
		d.static = orMake(d.static)
		d.static[m.Info.Instance] = ""
		if sign > 0 {
			d.static[m.Info.Instance] = m.ID
		}
	}
}

// hold notes that what c has is taken, or free.
func (d *draft) hold(c *Current, taken bool) {
	for _, held := range [...]Holding{c.Assigned, c.Revoked} {
		for _, t := range held.Set {
			d.owners = orMake(d.owners)
			for _, p := range t.Partitions {
				d.owners[place{t.ID, p}] = taken
			}
		}
	}
}

// taken reports whether somebody has the partition.
func (d *draft) taken(id entry.TopicID, partition int32) bool {
	if len(d.owners) > 0 {
		if taken, ok := d.owners[place{id, partition}]; ok {
			return taken
		}
	}
	return d.g.taken(id, partition)
}

// regex returns a pattern with its topics; nil if it is not resolved.
func (d *draft) regex(pattern string) *Regex {
	if r, ok := d.regexes[pattern]; ok {
		return r
	}
	return d.base.Regex(pattern)
}

func (d *draft) setRegex(pattern string, r *Regex) {
	d.regexes = orMake(d.regexes)
	d.regexes[pattern] = r
}

// list returns the members, by id.
func (d *draft) list() []*Member {
	if d.sorted != nil {
		return d.sorted
	}
	if len(d.members) == 0 {
		return d.base.Members
	}
	out := make([]*Member, 0, d.count)
	for _, m := range d.base.Members {
		if _, changed := d.members[m.ID]; !changed {
			out = append(out, m)
		}
	}
	for _, m := range d.members {
		if m != nil {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, compareMembers)
	d.sorted = out
	return out
}

// next returns the state that the draft makes of its base.
func (d *draft) next() *State {
	s := &State{Epoch: d.epoch, TargetEpoch: d.targetEpoch, TopicsHash: d.hash, Members: d.list(), Regexes: d.base.Regexes}
	if len(d.regexes) == 0 {
		return s
	}
	s.Regexes = nil
	for _, r := range d.base.Regexes {
		if _, changed := d.regexes[r.Pattern]; !changed {
			s.Regexes = append(s.Regexes, r)
		}
	}
	for _, r := range d.regexes {
		if r != nil {
			s.Regexes = append(s.Regexes, r)
		}
	}
	slices.SortFunc(s.Regexes, func(a, b *Regex) int { return compareRegex(a, b.Pattern) })
	return s
}

// propose puts the entry into out, if the draft changes anything.
func (d *draft) propose(out *Output) bool {
	if d.downgrade != nil {
		out.Entry = &Entry{Downgrade: d.downgrade}
		return true
	}
	var base *State
	if d.base.Index != 0 || d.g.upgraded != nil {
		base = d.base
	}
	next := d.next()
	if base == nil && len(next.Members) == 0 {
		return false
	}
	c := difference(d.g.id, base, next)
	if c.empty(base) {
		return false
	}
	if d.g.upgraded != nil {
		if !d.entered {
			return false // nobody has come for whom it would be done
		}
		c = difference(d.g.id, nil, next)
		c.FromClassic, c.Generation = true, d.base.Epoch
	}
	out.Entry = &Entry{Change: c}
	if d.epoch > d.base.Epoch {
		out.Rebalances++
	}
	return true
}

// take handles the first step of a request.
func (d *draft) take(p parked, now time.Time) {
	var s step
	switch r := p.request.(type) {
	case *Job:
		d.useTarget(r)
		return
	case *Resolution:
		d.useResolution(now, r)
		return
	case *Heartbeat:
		d.expireSlow(r.MemberID, p.at)
		s = d.heartbeat(now, r)
	case *classic.Join:
		d.expireSlow(r.MemberID, p.at)
		s = d.join(now, r)
	case *Leave:
		s = d.leave(r)
	}
	s.at = p.at
	d.steps = append(d.steps, s)
}

// complete handles the second step of the batch.
func (d *draft) complete(now time.Time, out *Output) {
	out.Expired = append(out.Expired, d.expired...)
	if d.maybeDowngrade() {
		return
	}
	d.resolve(now, out)
	d.group(now, out)
	for i := range d.steps {
		if s := &d.steps[i]; s.err == nil && s.id != "" {
			d.moveOn(s)
		}
	}
}

// group raises the group epoch if it must be, and sees to it that there is a
// target for it.
func (d *draft) group(now time.Time, out *Output) {
	if d.count > 0 && (d.resubscribed || d.g.stale()) {
		if hash := d.topics().hash(); hash != d.hash {
			d.hash = hash
			d.bump = true
		}
	}
	if d.bump && d.exists() {
		d.epoch++
	}
	switch {
	case d.count == 0:
		d.targetEpoch = d.epoch // that nobody gets anything
	case d.epoch > d.targetEpoch:
		d.assign(now, out)
	}
}

// firstEpoch is the epoch of a group before it has members, with a target that gives
// nobody anything: members that join before there is another are in it.
const firstEpoch = 1

// moveOn moves a member on, and writes its answer.
func (d *draft) moveOn(s *step) {
	m := d.member(s.id)
	if m == nil {
		// Another request of the batch has removed it.
		s.err = kerr.New(kerr.UnknownMemberID, "member %q has left", s.id)
		return
	}
	r := reconciliation{
		current: m.Current, target: m.Target, epoch: d.targetEpoch, owned: s.owned,
		subscribed: func(id entry.TopicID) bool { return d.subscribes(m.Info, id) },
		taken:      d.taken,
	}
	if next := r.next(); next != m.Current {
		moved := *m
		moved.Current = next
		m = &moved
		d.put(m)
	}
	switch s.request.(type) {
	case *Heartbeat:
		s.beaten = Beaten{MemberID: m.ID, Epoch: m.Current.Epoch, Interval: d.interval(m)}
		if s.full || !m.Current.Assigned.Set.Equal(s.before.Assigned.Set) {
			set := m.Current.Assigned.Set
			s.beaten.Assigned = &set
		}
	case *classic.Join:
		s.joined = joinedAs(m)
	}
}

// interval returns when a member is to come again: sooner if it waits for
// something.
func (d *draft) interval(m *Member) time.Duration {
	i := d.g.settings.HeartbeatInterval
	if m.Current.Phase == Waiting || d.epoch > d.targetEpoch || m.Info.Regex != "" && d.regex(m.Info.Regex) == nil {
		i = min(i, soon)
	}
	return i
}

// subscribes reports whether a member subscribes to the topic with the id.
func (d *draft) subscribes(i *Info, id entry.TopicID) bool {
	name, ok := d.g.topics.Name(id)
	if !ok {
		return false
	}
	if _, ok := slices.BinarySearch(i.Topics, name); ok || i.Regex == "" {
		return ok
	}
	r := d.regex(i.Regex)
	if r == nil {
		return false
	}
	_, ok = slices.BinarySearch(r.Topics, name)
	return ok
}

// requests returns the requests of the batch, to be handled again.
func (d *draft) requests() []parked {
	out := make([]parked, 0, len(d.steps))
	for i := range d.steps {
		out = append(out, parked{d.steps[i].request, d.steps[i].at})
	}
	return out
}

// release answers the requests of a batch that has come into effect.
func (d *draft) release(now time.Time, out *Output) {
	if d.sizes != nil {
		d.g.checked, d.g.unchecked = d.sizes.version, false
	}
	for i := range d.steps {
		s := &d.steps[i]
		s.answer(out)
		d.forgive(s, now)
		if join, ok := s.request.(*classic.Join); ok && s.err == nil {
			d.g.hasJoined(s.joined.MemberID, join, now)
		}
	}
}

// forgive begins the session of a member that is answered anew, and does not
// count the time that it waited: it could say nothing meanwhile.
func (d *draft) forgive(s *step, now time.Time) {
	id := s.id
	switch r := s.request.(type) {
	case *Heartbeat:
		id = r.MemberID
	case *classic.Join:
		id = r.MemberID
	}
	if s.id != "" {
		id = s.id
	}
	at := d.g.seats[id]
	if at == nil {
		return
	}
	d.g.renew(at, now)
	for _, deadline := range []*time.Time{&at.revoke, &at.join, &at.sync} {
		if !deadline.IsZero() {
			*deadline = deadline.Add(now.Sub(s.at))
		}
	}
}

func (s *step) answer(out *Output) {
	switch r := s.request.(type) {
	case *Heartbeat:
		if s.err != nil {
			s.beaten = Beaten{Err: s.err, MemberID: r.MemberID, Epoch: r.Epoch}
		}
		out.Beaten = append(out.Beaten, BeatenAnswer{r.Ticket, s.beaten})
	case *classic.Join:
		if s.err != nil {
			s.joined = classic.Joined{Err: s.err, MemberID: s.joined.MemberID, Generation: -1}
		}
		out.Joined = append(out.Joined, classic.JoinAnswer{Ticket: r.Ticket, Joined: s.joined})
	case *Leave:
		if s.err != nil {
			s.left = Left{Err: s.err}
		}
		out.Left = append(out.Left, LeftAnswer{r.Ticket, s.left})
	}
}
