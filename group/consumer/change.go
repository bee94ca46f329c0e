package consumer

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sluicemq/sluice/group/assign"
	"github.com/sluicemq/sluice/group/codec"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// Change is the payload of an entry of type TypeConsumerGroup: what becomes
// different in a group.
type Change struct {
	Group string
	// Base is the index of the state that is changed; 0 if there was no consumer
	// group.
	Base entry.Index
	// FromClassic says that a classic group becomes this one. It must not have
	// gone beyond Generation.
	FromClassic bool
	Generation  int32

	Epoch, TargetEpoch int32
	TopicsHash         uint64

	Removed []string       // ids of members that are gone, ascending
	Members []MemberChange // ascending by id
	Regexes []RegexChange  // ascending by pattern
}

// MemberChange is what becomes different for a member, which may be a new one.
type MemberChange struct {
	ID        string
	Info      *Info    // nil: as it was
	Current   *Current // nil: as it was
	HasTarget bool
	Target    assign.Assignment
}

// RegexChange is what becomes different for a pattern.
type RegexChange struct {
	Pattern string
	Gone    bool
	Topics  []string
}

// Apply returns the state that the change makes of s, which is nil if there is
// no such group. A change of another state than s is refused; any other error
// means that the change is none that this package can have made.
func (s *State) Apply(c *Change, index entry.Index, now entry.Time) (*State, error) {
	old := s
	if old == nil {
		old = &State{Since: now}
	}
	if c.Base != old.Index {
		return nil, kerr.New(kerr.CoordinatorNotAvailable, "group %q has changed since entry %d", c.Group, c.Base)
	}
	next := &State{
		Index: index, Since: old.Since,
		Epoch: c.Epoch, TargetEpoch: c.TargetEpoch, TopicsHash: c.TopicsHash,
		Members: old.Members, Regexes: old.Regexes,
	}
	if c.Epoch < old.Epoch || c.TargetEpoch < old.TargetEpoch || c.TargetEpoch > c.Epoch {
		return nil, fmt.Errorf("%w: group %q goes from epochs %d, %d to %d, %d", codec.ErrCorrupt,
			c.Group, old.Epoch, old.TargetEpoch, c.Epoch, c.TargetEpoch)
	}
	if len(c.Removed)+len(c.Members) > 0 {
		members, err := old.changeMembers(c)
		if err != nil {
			return nil, fmt.Errorf("group %q: %w", c.Group, err)
		}
		next.Members = members
	}
	next.Regexes = old.changeRegexes(c)
	if len(next.Members) == 0 && len(old.Members) > 0 {
		next.Since = now
	}
	return next, nil
}

func (s *State) changeMembers(c *Change) ([]*Member, error) {
	out := make([]*Member, 0, len(s.Members)+len(c.Members))
	removed, changed := c.Removed, c.Members
	add := func(m *MemberChange, old *Member) error {
		next, err := m.apply(old)
		out = append(out, next)
		return err
	}
	for _, m := range s.Members {
		for len(changed) > 0 && changed[0].ID < m.ID {
			if err := add(&changed[0], nil); err != nil {
				return nil, err
			}
			changed = changed[1:]
		}
		gone := len(removed) > 0 && removed[0] == m.ID
		if gone {
			removed = removed[1:]
		}
		switch {
		case len(changed) > 0 && changed[0].ID == m.ID:
			if gone {
				return nil, fmt.Errorf("%w: member %q is both removed and changed", codec.ErrCorrupt, m.ID)
			}
			if err := add(&changed[0], m); err != nil {
				return nil, err
			}
			changed = changed[1:]
		case !gone:
			out = append(out, m)
		}
	}
	for i := range changed {
		if err := add(&changed[i], nil); err != nil {
			return nil, err
		}
	}
	if len(removed) > 0 {
		return nil, fmt.Errorf("%w: no member %q to remove", codec.ErrCorrupt, removed[0])
	}
	share(out)
	return out, nil
}

func (c *MemberChange) apply(old *Member) (*Member, error) {
	next := &Member{ID: c.ID, Info: c.Info, Current: c.Current, Target: c.Target}
	if old != nil {
		if c.Info == nil {
			next.Info = old.Info
		}
		if c.Current == nil {
			next.Current = old.Current
		}
		if !c.HasTarget {
			next.Target = old.Target
		}
	}
	if next.Info == nil || next.Current == nil {
		return next, fmt.Errorf("%w: new member %q without its particulars", codec.ErrCorrupt, c.ID)
	}
	return next, nil
}

// share lets neighbours with equal subscriptions have one list of names. Groups
// in which all subscribe to the same topics, as most do, then keep it once, and
// are compared fast.
func share(members []*Member) {
	for i := 1; i < len(members); i++ {
		a, b := members[i-1].Info, members[i].Info
		if len(a.Topics) == 0 || len(a.Topics) != len(b.Topics) || &a.Topics[0] == &b.Topics[0] || !slices.Equal(a.Topics, b.Topics) {
			continue
		}
		m, info := *members[i], *b
		info.Topics = a.Topics
		m.Info = &info
		members[i] = &m
	}
}

func (s *State) changeRegexes(c *Change) []*Regex {
	if len(c.Regexes) == 0 {
		return s.Regexes
	}
	out := slices.Clone(s.Regexes)
	for i := range c.Regexes {
		r := &c.Regexes[i]
		at, ok := slices.BinarySearchFunc(out, r.Pattern, compareRegex)
		switch {
		case r.Gone && ok:
			out = slices.Delete(out, at, at+1)
		case r.Gone:
		case ok:
			out[at] = &Regex{r.Pattern, r.Topics}
		default:
			out = slices.Insert(out, at, &Regex{r.Pattern, r.Topics})
		}
	}
	return out
}

// difference returns what makes next of old, which may be nil.
func difference(group string, old, next *State) *Change {
	if old == nil {
		old = &State{}
	}
	c := &Change{Group: group, Base: old.Index, Epoch: next.Epoch, TargetEpoch: next.TargetEpoch, TopicsHash: next.TopicsHash}
	merge(old.Members, next.Members, func(a, b *Member) int { return cmp.Compare(a.ID, b.ID) }, func(a, b *Member) {
		switch {
		case b == nil:
			c.Removed = append(c.Removed, a.ID)
		case a != b:
			if m := b.since(a); m.Info != nil || m.Current != nil || m.HasTarget {
				c.Members = append(c.Members, m)
			}
		}
	})
	merge(old.Regexes, next.Regexes, func(a, b *Regex) int { return cmp.Compare(a.Pattern, b.Pattern) }, func(a, b *Regex) {
		switch {
		case b == nil:
			c.Regexes = append(c.Regexes, RegexChange{Pattern: a.Pattern, Gone: true})
		case a == nil || a != b && !slices.Equal(a.Topics, b.Topics):
			c.Regexes = append(c.Regexes, RegexChange{Pattern: b.Pattern, Topics: b.Topics})
		}
	})
	return c
}

// since returns what is different in m from old, which may be nil.
func (m *Member) since(old *Member) MemberChange {
	c := MemberChange{ID: m.ID}
	if old == nil || !m.Info.equal(old.Info) {
		c.Info = m.Info
	}
	if old == nil || !m.Current.equal(old.Current) {
		c.Current = m.Current
	}
	if old == nil && len(m.Target) > 0 || old != nil && !m.Target.Equal(old.Target) {
		c.HasTarget, c.Target = true, m.Target
	}
	return c
}

// empty reports whether the change changes nothing of old.
func (c *Change) empty(old *State) bool {
	return old != nil && c.Epoch == old.Epoch && c.TargetEpoch == old.TargetEpoch && c.TopicsHash == old.TopicsHash &&
		len(c.Removed)+len(c.Members)+len(c.Regexes) == 0
}

// merge calls visit for each element of two ordered lists, in order, with the
// zero value where one has none.
func merge[T any](a, b []*T, compare func(x, y *T) int, visit func(x, y *T)) {
	for len(a) > 0 || len(b) > 0 {
		order := 0
		switch {
		case len(a) == 0:
			order = 1
		case len(b) == 0:
			order = -1
		case a[0] != b[0]:
			order = compare(a[0], b[0])
		}
		switch {
		case order < 0:
			visit(a[0], nil)
			a = a[1:]
		case order > 0:
			visit(nil, b[0])
			b = b[1:]
		default:
			visit(a[0], b[0])
			a, b = a[1:], b[1:]
		}
	}
}
