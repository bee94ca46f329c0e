package consumer

import (
	"cmp"
	"slices"

	"github.com/sluicemq/sluice/log/entry"
)

// State is the hard state of a group. It does not change once it is made: an
// entry makes a new one, which shares with the old one what stayed. So whoever
// has one may read it at any time.
type State struct {
	// Index is the entry that made the state. An entry names the one that it
	// changes, so that no entry acts on a state that its proposer did not know.
	Index entry.Index
	// Since is when the group lost its last member, or was made; the time of an
	// entry.
	Since entry.Time
	// Epoch grows when members, subscriptions or topics change.
	Epoch int32
	// TargetEpoch is the epoch for which the members' targets were computed.
	TargetEpoch int32
	// TopicsHash stands for the ids and sizes of the topics that the epoch knows.
	TopicsHash uint64
	Members    []*Member // by id
	Regexes    []*Regex  // by pattern
}

// Regex is a pattern with the topics that it was found to match.
type Regex struct {
	Pattern string
	Topics  []string // names, ascending, none twice
}

// Member returns the member with the id, or nil.
func (s *State) Member(id string) *Member {
	if i, ok := s.find(id); ok {
		return s.Members[i]
	}
	return nil
}

func (s *State) find(id string) (int, bool) {
	return slices.BinarySearchFunc(s.Members, id, func(m *Member, id string) int { return cmp.Compare(m.ID, id) })
}

// memberOf is Member for bytes that are borrowed.
func (s *State) memberOf(id []byte) *Member {
	i, ok := slices.BinarySearchFunc(s.Members, id, func(m *Member, id []byte) int { return cmp.Compare(m.ID, string(id)) })
	if !ok {
		return nil
	}
	return s.Members[i]
}

// Regex returns the pattern's topics; nil if it was not resolved.
func (s *State) Regex(pattern string) *Regex {
	i, ok := slices.BinarySearchFunc(s.Regexes, pattern, compareRegex)
	if !ok {
		return nil
	}
	return s.Regexes[i]
}

func compareRegex(r *Regex, pattern string) int { return cmp.Compare(r.Pattern, pattern) }

// Subscribes reports whether a member subscribes to the topic.
func (s *State) Subscribes(topic string) bool {
	for _, m := range s.Members {
		if _, ok := slices.BinarySearch(m.Info.Topics, topic); ok {
			return true
		}
	}
	for _, r := range s.Regexes {
		if _, ok := slices.BinarySearch(r.Topics, topic); ok {
			return true
		}
	}
	return false
}

// Life is where a group is in its life, as clients see it.
func (s *State) Life() string {
	switch {
	case s == nil:
		return "Dead"
	case len(s.Members) == 0:
		return "Empty"
	case s.Epoch > s.TargetEpoch:
		return "Assigning"
	}
	for _, m := range s.Members {
		if !m.Current.settledAt(s.TargetEpoch) {
			return "Reconciling"
		}
	}
	return "Stable"
}
