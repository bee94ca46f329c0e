package classic

import (
	"time"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// Metadata is the hard state of a group. It does not change once it is made. The
// methods are for metadata that were read or replaced.
type Metadata struct {
	Generation   int32
	ProtocolType string     // of the newest members, also when there are none left
	Protocol     string     // empty if there are no members
	Leader       string     // a member's id; empty if there are no members
	Since        entry.Time // when this became the state; the time of its entry
	Members      []Member   // in the order in which they joined

	// Places in Members, where the metadata were read or replaced.
	byID, byInstance map[string]int
}

// Member is a member of a group.
type Member struct {
	ID, Instance         string // Instance is empty but for static members
	ClientID, ClientHost string
	SessionTimeout       time.Duration // whole milliseconds
	RebalanceTimeout     time.Duration
	Protocols            []Protocol // what the member supports, as it prefers
	Assignment           []byte     // opaque; empty for none
}

// Protocol is a way to divide the work that a member supports, with what the
// member wants the leader to know. Both are opaque, except for the subscriptions
// in protocols of type "consumer".
type Protocol struct {
	Name     string
	Metadata []byte
}

// ConsumerType is the type of protocols whose metadata are subscriptions.
const ConsumerType = "consumer"

// Member returns the member with the id, or nil.
func (m *Metadata) Member(id []byte) *Member {
	if at, ok := m.byID[string(id)]; ok {
		return &m.Members[at]
	}
	return nil
}

// Static returns the static member with the instance id, or nil.
func (m *Metadata) Static(instance []byte) *Member {
	if at, ok := m.byInstance[string(instance)]; ok {
		return &m.Members[at]
	}
	return nil
}

// index makes the look-ups work; it reports whether no id occurs twice.
func (m *Metadata) index() bool {
	m.byID, m.byInstance = make(map[string]int, len(m.Members)), make(map[string]int)
	static := 0
	for i := range m.Members {
		m.byID[m.Members[i].ID] = i
		if instance := m.Members[i].Instance; instance != "" {
			m.byInstance[instance] = i
			static++
		}
	}
	return len(m.byID) == len(m.Members) && len(m.byInstance) == static
}

// AdmitCommit says whether a commit that was proposed before may still come into
// effect. m may be nil: the state has no such group.
func (m *Metadata) AdmitCommit(member, instance []byte, generation int32) error {
	switch {
	case m == nil:
		return nil
	case generation < 0 && len(m.Members) == 0:
		return nil
	case generation < 0:
		return kerr.New(kerr.UnknownMemberID, "the group has members, and the commit is none of theirs")
	case generation < m.Generation:
		return kerr.New(kerr.IllegalGeneration, "generation %d is over, %d is current", generation, m.Generation)
	case generation > m.Generation:
		return nil
	}
	if len(instance) > 0 {
		if static := m.Static(instance); static != nil && static.ID != string(member) {
			return kerr.New(kerr.FencedInstanceID, "the instance has another member id by now")
		}
	}
	if m.Member(member) == nil {
		return kerr.New(kerr.UnknownMemberID, "no member of generation %d", generation)
	}
	return nil
}

// Admit says whether next may follow m, which may be nil.
func (m *Metadata) Admit(next *Metadata) error {
	if m != nil && next.Generation <= m.Generation {
		return kerr.New(kerr.IllegalGeneration, "generation %d does not follow %d", next.Generation, m.Generation)
	}
	return nil
}

// Subscribed returns the topics that members of protocol type "consumer" have
// subscribed to; ok is false if it is not known.
func (m *Metadata) Subscribed() (topics map[string]bool, ok bool) {
	if m.ProtocolType != ConsumerType {
		return nil, false
	}
	topics = make(map[string]bool)
	for i := range m.Members {
		if !addSubscription(topics, find(m.Members[i].Protocols, m.Protocol)) {
			return nil, false
		}
	}
	return topics, true
}

// find returns the metadata of a protocol, or nil.
func find(protocols []Protocol, name string) []byte {
	for i := range protocols {
		if protocols[i].Name == name {
			return protocols[i].Metadata
		}
	}
	return nil
}

// CheckDeleteOffsets says whether offsets of the group may be deleted at all. m
// may be nil.
func (m *Metadata) CheckDeleteOffsets() error {
	return checkDeleteOffsets(m != nil && len(m.Members) > 0, m.protocolType())
}

func (m *Metadata) protocolType() string {
	if m == nil {
		return ""
	}
	return m.ProtocolType
}

func checkDeleteOffsets(members bool, protocolType string) error {
	if members && protocolType != ConsumerType {
		return kerr.New(kerr.NonEmptyGroup, "the group has members, of protocol type %q", protocolType)
	}
	return nil
}
