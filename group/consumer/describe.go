package consumer

import (
	"slices"

	"github.com/sluicemq/sluice/group/assign"
)

// Description is a group as an administrator sees it.
type Description struct {
	Life               string
	Epoch, TargetEpoch int32
	Assignor           string
	Members            []DescribedMember
}

// DescribedMember is one member of it. Nothing of it may be changed.
type DescribedMember struct {
	ID, Instance, Rack, ClientID, ClientHost string
	Epoch                                    int32
	Topics                                   []string
	Regex                                    string
	Assigned, Target                         assign.Assignment // Assigned with what it has yet to give up
	Classic                                  bool
}

// Describe returns the group as it is. Of the assignors, the first is the
// broker's default.
func (s *State) Describe(assignors []string) Description {
	d := Description{Life: s.Life()}
	if s == nil {
		return d
	}
	d.Epoch, d.TargetEpoch = s.Epoch, s.TargetEpoch
	d.Assignor = preferred(s.Members, assignors)
	for _, m := range s.Members {
		d.Members = append(d.Members, DescribedMember{
			ID: m.ID, Instance: m.Info.Instance, Rack: m.Info.Rack,
			ClientID: m.Info.ClientID, ClientHost: m.Info.ClientHost,
			Epoch: m.Current.Epoch, Topics: m.Info.Topics, Regex: m.Info.Regex,
			Assigned: m.Current.Assigned.Set.Plus(m.Current.Revoked.Set), Target: m.Target, Classic: m.Info.Classic != nil,
		})
	}
	return d
}

// preferred returns the assignor that most members would like; the first if none
// says. Of two that are liked alike, the earlier one wins.
func preferred(members []*Member, assignors []string) string {
	best, most := "", -1
	for _, name := range assignors {
		votes := 0
		for _, m := range members {
			if m.Info.Assignor == name {
				votes++
			}
		}
		if votes > most {
			best, most = name, votes
		}
	}
	return best
}

func sortMembers(members []*Member) { slices.SortFunc(members, compareMembers) }
