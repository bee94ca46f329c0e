package consumer

import (
	"cmp"
	"slices"
	"time"

	"github.com/sluicemq/sluice/group/assign"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// Check says whether the request can be one of Kafka's protocol, whatever the
// group. modern says that the member must have brought an id (version 1).
func (h *Heartbeat) Check(modern bool, assignors []string) error {
	switch {
	case h.Instance != nil && *h.Instance == "":
		return kerr.New(kerr.InvalidRequest, "instance id is empty")
	case h.Rack != nil && *h.Rack == "":
		return kerr.New(kerr.InvalidRequest, "rack id is empty")
	case h.MemberID == "" && (modern || h.Epoch != 0):
		return kerr.New(kerr.InvalidRequest, "member id is empty")
	case h.Epoch < leftForNow:
		return kerr.New(kerr.InvalidRequest, "member epoch %d", h.Epoch)
	case h.Epoch == leftForNow && h.Instance == nil:
		return kerr.New(kerr.InvalidRequest, "member epoch -2 without an instance id")
	case h.Epoch == 0 && h.RebalanceTimeout < 0:
		return kerr.New(kerr.InvalidRequest, "a member that joins must give its rebalance timeout")
	case h.Epoch == 0 && (h.Owned == nil || len(*h.Owned) > 0):
		return kerr.New(kerr.InvalidRequest, "a member that joins must say that it owns no partitions")
	case h.Epoch == 0 && !h.HasTopics && h.Regex == nil:
		return kerr.New(kerr.InvalidRequest, "a member that joins must give its subscription")
	case h.Assignor != nil && !slices.Contains(assignors, *h.Assignor):
		return kerr.New(kerr.UnsupportedAssignor, "assignor %q; supported are %v", *h.Assignor, assignors)
	case h.Regex != nil:
		return CheckRegex(*h.Regex)
	}
	return nil
}

// full reports whether the member has told everything, and so is to be told
// everything.
func (h *Heartbeat) full() bool {
	return h.Epoch == 0 || h.RebalanceTimeout >= 0 && (h.HasTopics || h.Regex != nil) && h.Owned != nil
}

// Heartbeat handles a heartbeat that Check has found in order. The answer comes
// in this output or in a later one.
func (g *Group) Heartbeat(now time.Time, h *Heartbeat, out *Output) {
	if at := g.quiet(now, h); at != nil {
		g.renew(at, now)
		out.Beaten = append(out.Beaten, BeatenAnswer{h.Ticket, Beaten{
			MemberID: h.MemberID, Epoch: h.Epoch, Interval: g.settings.HeartbeatInterval,
		}})
		return
	}
	g.handle(now, h, out)
}

// quiet returns the member's seat if the heartbeat says nothing that the group
// does not know, and the group has nothing to tell the member. These are nearly
// all heartbeats there are. They are answered also while an entry is on its way:
// the answer is that of a moment before.
func (g *Group) quiet(now time.Time, h *Heartbeat) *seat {
	at := g.seats[h.MemberID]
	s := g.state
	if at == nil || s.Epoch != s.TargetEpoch || h.Epoch != s.TargetEpoch || h.full() || g.stale() {
		return nil
	}
	i := at.member.Info
	switch {
	case g.regexDue(i.Regex, now), !at.member.Current.settledAt(h.Epoch), i.Classic != nil,
		h.Instance != nil && *h.Instance != i.Instance,
		h.Rack != nil && *h.Rack != i.Rack,
		h.RebalanceTimeout >= 0 && h.RebalanceTimeout != i.RebalanceTimeout,
		h.HasTopics, h.Regex != nil && *h.Regex != i.Regex,
		h.Assignor != nil && *h.Assignor != i.Assignor,
		h.ClientID != i.ClientID, h.ClientHost != i.ClientHost:
		return nil
	}
	return at
}

// stale reports whether topics may have changed since the state was compared
// with them.
func (g *Group) stale() bool { return g.unchecked || g.checked != g.topics.Version() }

// heartbeat is the first step of a heartbeat.
func (d *draft) heartbeat(now time.Time, h *Heartbeat) step {
	s := step{request: h, owned: h.Owned, full: h.full()}
	if h.Epoch < 0 {
		s.err = d.leaves(now, h)
		s.beaten = Beaten{MemberID: h.MemberID, Epoch: h.Epoch}
		return s
	}
	m, replaced, err := d.enter(h)
	if err == nil {
		err = d.inform(m, replaced, h.info(m.Info))
	}
	if err != nil {
		s.err = err
		return s
	}
	s.id, s.before = m.ID, m.Current
	d.renew(m.ID, now)
	d.entered = true
	d.ask(d.member(m.ID).Info.Regex, h.Visible, now)
	return s
}

// renew begins a member's session anew, if it has one.
func (d *draft) renew(id string, now time.Time) {
	if at := d.g.seats[id]; at != nil {
		d.g.renew(at, now)
	}
}

// enter returns the member that a heartbeat comes from, which may be a new one,
// or one that is to replace another. It is not in the draft before inform puts it
// there.
func (d *draft) enter(h *Heartbeat) (m, replaced *Member, err error) {
	if h.Epoch != 0 && !d.exists() {
		return nil, nil, kerr.New(kerr.GroupIDNotFound, "there is no consumer group %q", d.g.id)
	}
	known := d.member(h.MemberID)
	if h.Instance != nil {
		static := d.staticMember(*h.Instance)
		switch {
		case static == nil && h.Epoch != 0:
			return nil, nil, kerr.New(kerr.UnknownMemberID, "the group has no instance %q", *h.Instance)
		case static == nil:
		case static.ID == h.MemberID:
			known = static
		case h.Epoch != 0:
			return nil, nil, kerr.New(kerr.FencedInstanceID, "instance %q has another member id by now", *h.Instance)
		case static.Current.Epoch != leftForNow && static.Info.Classic == nil:
			return nil, nil, kerr.New(kerr.UnreleasedInstanceID, "instance %q is in use by member %q", *h.Instance, static.ID)
		case known != nil:
			return nil, nil, kerr.New(kerr.InvalidRequest, "member id %q is in use", h.MemberID)
		default:
			return static.back(cmp.Or(h.MemberID, h.NewID)), static, nil
		}
	}
	switch {
	case known == nil && h.Epoch != 0:
		return nil, nil, kerr.New(kerr.UnknownMemberID, "the group has no member %q", h.MemberID)
	case known == nil:
		m, err := d.newMember(cmp.Or(h.MemberID, h.NewID))
		return m, nil, err
	}
	if err := known.checkEpoch(h.Epoch, h.Owned); err != nil {
		return nil, nil, err
	}
	if known.Current.Epoch == leftForNow {
		return known.back(known.ID), nil, nil
	}
	return known, nil, nil
}

// newMember returns a member that has said nothing yet.
func (d *draft) newMember(id string) (*Member, error) {
	if most := d.g.settings.MaxMembers; d.count >= most {
		return nil, kerr.New(kerr.GroupMaxSizeReached, "the group has %d members and takes no more", d.count)
	}
	return &Member{ID: id, Info: &Info{}, Current: &Current{}}, nil
}

// back returns a static member under a new id, which has what the old one had.
func (m *Member) back(id string) *Member {
	next := *m
	next.ID = id
	current := *m.Current
	current.Epoch, current.Previous = 0, 0
	next.Current = &current
	return &next
}

// checkEpoch says whether a member that says it is in the epoch may be heard.
// One that is an epoch behind has not got the last answer.
func (m *Member) checkEpoch(epoch int32, owned *assign.Assignment) error {
	c := m.Current
	switch {
	case epoch == 0 || epoch == c.Epoch:
		return nil
	case epoch > c.Epoch:
		return kerr.New(kerr.FencedMemberEpoch, "member epoch %d is ahead of %d; join again", epoch, c.Epoch)
	case epoch != c.Previous || owned == nil || !c.Assigned.Set.Contains(*owned):
		return kerr.New(kerr.FencedMemberEpoch, "member epoch %d is behind %d; join again", epoch, c.Epoch)
	}
	return nil
}

// info returns what a member is known to have said, with what this heartbeat
// says.
func (h *Heartbeat) info(before *Info) *Info {
	i := *before
	i.ClientID, i.ClientHost, i.Classic = h.ClientID, h.ClientHost, nil
	if h.Instance != nil {
		i.Instance = *h.Instance
	}
	if h.Rack != nil {
		i.Rack = *h.Rack
	}
	if h.RebalanceTimeout >= 0 {
		i.RebalanceTimeout = h.RebalanceTimeout
	}
	if h.HasTopics {
		i.Topics = sortedNames(h.Topics)
	}
	if h.Regex != nil {
		i.Regex = *h.Regex
	}
	if h.Assignor != nil {
		i.Assignor = *h.Assignor
	}
	return &i
}

// inform puts the member into the draft, with info in place of what it had said
// before. It takes the place of replaced, which may be nil.
func (d *draft) inform(m, replaced *Member, info *Info) error {
	old := d.member(m.ID)
	if old == m && info.equal(m.Info) {
		return nil
	}
	grows := info.size()
	for _, other := range []*Member{old, replaced} {
		if other != nil {
			grows -= other.Info.size()
		}
	}
	if most := d.g.settings.MaxBytes; grows > 0 && d.bytes+grows > most {
		return kerr.New(kerr.GroupMaxSizeReached, "what the members of the group subscribe to takes more than %d bytes", most)
	}
	if replaced != nil {
		bump, resubscribed := d.bump, d.resubscribed
		d.remove(replaced.ID)
		d.bump, d.resubscribed = bump, resubscribed // who replaces it may say the same
	}
	if !slices.Equal(info.Topics, m.Info.Topics) || info.Regex != m.Info.Regex {
		d.bump, d.resubscribed = true, true
		d.repatterned = d.repatterned || info.Regex != m.Info.Regex
	}
	next := *m
	next.Info = info
	d.put(&next)
	return nil
}

// leaves is the first step of a member that leaves, for good or for now.
func (d *draft) leaves(now time.Time, h *Heartbeat) error {
	if !d.exists() {
		return kerr.New(kerr.GroupIDNotFound, "there is no consumer group %q", d.g.id)
	}
	m := d.member(h.MemberID)
	if h.Instance != nil {
		static := d.staticMember(*h.Instance)
		if static != nil && static.ID != h.MemberID {
			return kerr.New(kerr.FencedInstanceID, "instance %q has another member id by now", *h.Instance)
		}
		m = static
	}
	if m == nil {
		return kerr.New(kerr.UnknownMemberID, "the group has no member %q", h.MemberID)
	}
	if h.Epoch != leftForNow {
		d.remove(m.ID)
		return nil
	}
	d.renew(m.ID, now)
	if m.Current.Epoch == leftForNow {
		return nil
	}
	next := *m
	next.Current = &Current{Epoch: leftForNow, Previous: m.Current.Epoch, Assigned: m.Current.Assigned}
	d.put(&next)
	return nil
}

// sortedNames returns the names in order, none twice.
func sortedNames(names []string) []string {
	out := slices.Clone(names)
	slices.Sort(out)
	return slices.Compact(out)
}
