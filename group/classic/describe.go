package classic

import "time"

// Description is a group as an administrator sees it.
type Description struct {
	State        State
	ProtocolType string
	Protocol     string // as it was chosen; empty if none was
	Members      []DescribedMember
}

// DescribedMember is one member of it. Metadata are there in Stable only; the
// Assignment is the last one. Neither may be changed.
type DescribedMember struct {
	ID, Instance, ClientID, ClientHost string
	Metadata, Assignment               []byte
}

// Describe returns the group as it is.
func (g *Group) Describe() Description {
	d := Description{State: g.state, ProtocolType: g.protocolType}
	if g.state == Stable {
		d.Protocol = g.protocol
	}
	for _, m := range g.members {
		one := DescribedMember{ID: m.ID, Instance: m.Instance, ClientID: m.ClientID, ClientHost: m.ClientHost, Assignment: m.Assignment}
		if g.state == Stable {
			one.Metadata = find(m.Protocols, g.protocol)
		}
		d.Members = append(d.Members, one)
	}
	return d
}

// CheckDeleteOffsets says whether offsets of the group may be deleted at all.
func (g *Group) CheckDeleteOffsets() error {
	return checkDeleteOffsets(g.state != Empty, g.protocolType)
}

// Subscribes reports whether the group counts as subscribed to a topic: groups of
// consumers do to every topic as long as it is not known.
func (g *Group) Subscribes(topic string) bool {
	if g.state == Empty {
		return false
	}
	if g.subscribed == nil {
		return g.protocolType == ConsumerType
	}
	return g.subscribed[topic]
}

// Absent reports whether a member is not known to be in the newest generation: it is
// static and has not joined, or nothing was heard of it since the group was taken
// up. heard is when it was last heard of.
func (g *Group) Absent(memberID string) (heard time.Time, absent bool) {
	if m := g.byID[memberID]; m != nil {
		return m.heard, !m.present
	}
	return time.Time{}, false
}

// Generation returns the generation at hand.
func (g *Group) Generation() int32 { return g.generation }

// ProtocolType returns the type of the members' protocols; empty if there never
// were members.
func (g *Group) ProtocolType() string { return g.protocolType }
