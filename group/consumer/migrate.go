package consumer

import (
	"fmt"

	"github.com/sluicemq/sluice/group/assign"
	"github.com/sluicemq/sluice/group/classic"
	"github.com/sluicemq/sluice/group/codec"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// Upgrade returns the machine of a consumer group that a classic group becomes
// when the first heartbeat of a member of the consumer protocol is handed to it:
// the members of m with what they were assigned last. Nothing has happened until
// that heartbeat's entry is applied; if it is not, or there is none, the machine
// is to be dropped (Upgraded says which). The error is a refusal: GROUP_ID_NOT_FOUND
// if the group is not one of consumers.
func Upgrade(id string, settings *Settings, topics Topics, m *classic.Metadata) (*Group, error) {
	if len(m.Members) > 0 && m.ProtocolType != classic.ConsumerType {
		return nil, kerr.New(kerr.GroupIDNotFound, "group %q is a classic group of protocol type %q", id, m.ProtocolType)
	}
	if len(m.Members) > settings.MaxMembers {
		return nil, kerr.New(kerr.GroupIDNotFound, "classic group %q has %d members, too many for a consumer group", id, len(m.Members))
	}
	s := &State{Epoch: m.Generation, TargetEpoch: m.Generation, Since: m.Since}
	taken := make(map[place]bool)
	for i := range m.Members {
		one, err := upgradeMember(&m.Members[i], m, topics)
		if err != nil {
			return nil, kerr.New(kerr.GroupIDNotFound, "classic group %q cannot become a consumer group: member %q: %v", id, m.Members[i].ID, err)
		}
		// What a leader has given to two members, the first keeps.
		one.Current.Assigned = Holding{}.carry(free(one.Current.Assigned.Set, taken), m.Generation)
		one.Target = one.Current.Assigned.Set
		s.Members = append(s.Members, one)
	}
	sortMembers(s.Members)
	share(s.Members)
	g := New(id, settings, topics)
	g.upgraded = s
	return g, nil
}

func upgradeMember(m *classic.Member, group *classic.Metadata, topics Topics) (*Member, error) {
	protocols := preferring(m.Protocols, group.Protocol)
	if len(protocols) == 0 {
		return nil, fmt.Errorf("no protocols")
	}
	sub, err := parseSubscription(protocols[0].Metadata)
	if err != nil {
		return nil, err
	}
	assigned, err := parseAssignment(m.Assignment)
	if err != nil {
		return nil, err
	}
	return &Member{
		ID: m.ID,
		Info: &Info{
			Instance: m.Instance, Rack: sub.rack, ClientID: m.ClientID, ClientHost: m.ClientHost,
			RebalanceTimeout: m.RebalanceTimeout, Topics: sortedNames(sub.topics),
			Classic: &Classic{SessionTimeout: m.SessionTimeout, Protocols: protocols},
		},
		Current: &Current{
			Epoch: group.Generation, Previous: group.Generation,
			Assigned: Holding{Set: byID(assigned, topics)},
		},
	}, nil
}

// preferring returns the protocols with the one that the group has chosen first,
// since members that have joined believe in that one.
func preferring(protocols []classic.Protocol, name string) []classic.Protocol {
	var out []classic.Protocol
	for _, p := range protocols {
		if p.Name == name {
			out = append(out, p)
		}
	}
	for _, p := range protocols {
		if p.Name != name {
			out = append(out, p)
		}
	}
	return out
}

func free(set assign.Assignment, taken map[place]bool) assign.Assignment {
	var out []assign.Topic
	for _, t := range set {
		for _, p := range t.Partitions {
			if at := (place{t.ID, p}); !taken[at] {
				taken[at] = true
				out = append(out, assign.Topic{ID: t.ID, Partitions: []int32{p}})
			}
		}
	}
	return assign.Make(out)
}

// Upgraded reports whether the classic group has become this one, or is about to.
func (g *Group) Upgraded() bool { return g.upgraded == nil || g.inFlight != nil }

// Downgrade is the payload of an entry of type TypeDowngradeGroup: a consumer
// group becomes a classic one.
type Downgrade struct {
	Base  entry.Index // of the state that ends
	Group string
	// Metadata is what the classic group begins with.
	Metadata *classic.Metadata
}

// Admit says whether the state s, which may be nil, is the one that ends.
func (p *Downgrade) Admit(s *State) error {
	if s.index() != p.Base || p.Base == 0 {
		return kerr.New(kerr.CoordinatorNotAvailable, "group %q has changed since entry %d", p.Group, p.Base)
	}
	return nil
}

const downgradeVersion = 1

// Append appends the payload.
func (p *Downgrade) Append(dst []byte) []byte {
	dst = append(dst, downgradeVersion)
	dst = le.AppendUint64(dst, uint64(p.Base))
	return classic.AppendGroup(dst, p.Group, p.Metadata)
}

// DecodeDowngrade reads a payload of Downgrade. Nothing of it is kept.
func DecodeDowngrade(payload []byte) (*Downgrade, error) {
	r := codec.Reader{Left: payload}
	r.Version(downgradeVersion)
	p := &Downgrade{Base: entry.Index(r.Uint64("the base"))}
	if r.Err() != nil {
		return nil, r.Err()
	}
	var err error
	p.Group, p.Metadata, err = classic.DecodeGroup(r.Left)
	return p, err
}

// maybeDowngrade makes the draft one in which the group becomes a classic one, if
// the last member of the consumer protocol is gone and others are left. They keep
// what they have until they have joined again, which the classic group must see
// to.
func (d *draft) maybeDowngrade() bool {
	s := d.g.settings
	if !d.modernGone || !s.Downgrade || d.count == 0 || d.count > d.classic || d.count > s.ClassicMaxMembers || d.base.Index == 0 {
		return false
	}
	members := d.list()
	protocol := d.common(members)
	if protocol == "" {
		return false
	}
	m := &classic.Metadata{
		Generation:   d.base.Epoch,
		ProtocolType: classic.ConsumerType, Protocol: protocol, Leader: members[0].ID,
	}
	for _, one := range members {
		c := one.Info.Classic
		sub, _ := parseSubscription(c.Protocols[0].Metadata)
		m.Members = append(m.Members, classic.Member{
			ID: one.ID, Instance: one.Info.Instance, ClientID: one.Info.ClientID, ClientHost: one.Info.ClientHost,
			SessionTimeout: c.SessionTimeout, RebalanceTimeout: one.Info.RebalanceTimeout, Protocols: c.Protocols,
			Assignment: appendAssignment(nil, sub.version, one.Current.Assigned.Set, d.g.topics.Name),
		})
	}
	for i := range d.steps {
		s := &d.steps[i]
		if s.err != nil || s.id == "" {
			continue
		}
		switch s.request.(type) {
		case *classic.Join:
			s.err = kerr.New(kerr.RebalanceInProgress, "the group has become a classic one; join again")
		case *Heartbeat:
			s.err = kerr.New(kerr.UnknownMemberID, "member %q has left", s.id)
		}
	}
	d.downgrade = &Downgrade{Base: d.base.Index, Group: d.g.id, Metadata: m}
	return true
}

// common returns a protocol that all the members support, as the first prefers.
func (d *draft) common(members []*Member) string {
	for _, p := range members[0].Info.Classic.Protocols {
		all := true
		for _, m := range members {
			all = all && m.Info.Classic.supports(p.Name)
		}
		if all {
			return p.Name
		}
	}
	return ""
}
