package classic

import (
	"slices"

	"github.com/sluicemq/sluice/protocol/kerr"
)

// Replace returns the metadata in which the static member has its new id and
// keeps its assignment, or a refusal. m may be nil.
func (m *Metadata) Replace(p *Replacement) (*Metadata, error) {
	if m == nil || m.Generation > p.Generation {
		return nil, kerr.New(kerr.IllegalGeneration, "generation %d is over", p.Generation)
	}
	at := slices.IndexFunc(m.Members, func(member Member) bool { return member.Instance == p.Member.Instance })
	if at < 0 || m.Members[at].ID != p.OldID {
		return nil, kerr.New(kerr.FencedInstanceID, "instance %q has another member id by now", p.Member.Instance)
	}
	if m.Member([]byte(p.Member.ID)) != nil {
		return nil, kerr.New(kerr.InvalidRequest, "member id %q is in use", p.Member.ID)
	}
	next := *m
	next.Members = slices.Clone(m.Members)
	member := p.Member
	member.Assignment = m.Members[at].Assignment
	if !slices.ContainsFunc(member.Protocols, func(p Protocol) bool { return p.Name == m.Protocol }) {
		member.Protocols = m.Members[at].Protocols // the new ones are for a generation to come
	}
	next.Members[at] = member
	if m.Leader == p.OldID {
		next.Leader = member.ID
	}
	next.index()
	return &next, nil
}
