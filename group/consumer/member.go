package consumer

import (
	"slices"
	"time"

	"github.com/sluicemq/sluice/group/assign"
	"github.com/sluicemq/sluice/group/classic"
	"github.com/sluicemq/sluice/log/entry"
)

// Member is a member of a group as the state has it. It and what it points to
// do not change once they are made; a change makes a new Member that shares what
// stayed.
type Member struct {
	ID      string
	Info    *Info
	Current *Current
	// Target is what the member is to own in the end.
	Target assign.Assignment
}

// Info is what a member has said of itself.
type Info struct {
	Instance             string // empty but for static members
	Rack                 string
	ClientID, ClientHost string
	RebalanceTimeout     time.Duration // whole milliseconds
	Topics               []string      // subscribed by name; ascending, none twice
	Regex                string        // subscribed by pattern; empty for none
	Assignor             string        // that it would like; empty for none
	// Classic is set for members that use JoinGroup and its kin.
	Classic *Classic
}

// Classic is what a member of the classic protocol has said of itself besides.
type Classic struct {
	SessionTimeout time.Duration
	Protocols      []classic.Protocol
}

// Phase is how far a member is on the way to its target.
type Phase uint8

// The phases.
const (
	// Settled members have what the target of their epoch gives them.
	Settled Phase = iota
	// Revoking members have been asked to give up partitions, and stay in their
	// epoch until they say that they have.
	Revoking
	// Waiting members wait for partitions that others still have.
	Waiting
)

// leftForNow is the epoch of a static member that will be back.
const leftForNow int32 = -2

// Current is where a member stands.
type Current struct {
	Phase    Phase
	Epoch    int32 // the member epoch, or -2 for a static member that is away
	Previous int32 // the epoch before
	// Assigned is what the member may use; Revoked is what it was asked to give
	// up and has not yet given up. Nobody else is assigned either.
	Assigned, Revoked Holding
}

// settledAt reports whether nothing is left to do for the target of the epoch.
func (c *Current) settledAt(epoch int32) bool { return c.Phase == Settled && c.Epoch == epoch }

// Holding is a set of partitions that knows since which epoch each was assigned.
type Holding struct {
	Set    assign.Assignment
	Epochs []int32 // of each partition, in the order of Set
}

// Since returns the epoch at which the partition was assigned; ok is false if it
// is not in the set.
func (h Holding) Since(id entry.TopicID, partition int32) (epoch int32, ok bool) {
	at := 0
	for i := range h.Set {
		if h.Set[i].ID != id {
			at += len(h.Set[i].Partitions)
			continue
		}
		j, ok := slices.BinarySearch(h.Set[i].Partitions, partition)
		if !ok {
			return 0, false
		}
		return h.Epochs[at+j], true
	}
	return 0, false
}

// carry returns the set, with the epochs that its partitions have in h, and the
// given one for those that are not in h.
func (h Holding) carry(set assign.Assignment, epoch int32) Holding {
	out := Holding{Set: set}
	if len(set) == 0 {
		return out
	}
	out.Epochs = make([]int32, 0, set.Count())
	i, at := 0, 0 // topic of h, and place of its first partition
	for _, t := range set {
		for i < len(h.Set) && assign.CompareTopics(h.Set[i].ID, t.ID) < 0 {
			at += len(h.Set[i].Partitions)
			i++
		}
		var have []int32
		if i < len(h.Set) && h.Set[i].ID == t.ID {
			have = h.Set[i].Partitions
		}
		j := 0
		for _, p := range t.Partitions {
			for j < len(have) && have[j] < p {
				j++
			}
			if j < len(have) && have[j] == p {
				out.Epochs = append(out.Epochs, h.Epochs[at+j])
			} else {
				out.Epochs = append(out.Epochs, epoch)
			}
		}
	}
	return out
}

func (h Holding) equal(o Holding) bool {
	return h.Set.Equal(o.Set) && slices.Equal(h.Epochs, o.Epochs)
}

func (c *Current) equal(o *Current) bool {
	return c == o || c.Phase == o.Phase && c.Epoch == o.Epoch && c.Previous == o.Previous &&
		c.Assigned.equal(o.Assigned) && c.Revoked.equal(o.Revoked)
}

func (i *Info) equal(o *Info) bool {
	return i == o || i.Instance == o.Instance && i.Rack == o.Rack && i.ClientID == o.ClientID &&
		i.ClientHost == o.ClientHost && i.RebalanceTimeout == o.RebalanceTimeout &&
		slices.Equal(i.Topics, o.Topics) && i.Regex == o.Regex && i.Assignor == o.Assignor && i.Classic.equal(o.Classic)
}

func (c *Classic) equal(o *Classic) bool {
	if c == o || c == nil || o == nil {
		return c == o
	}
	return c.SessionTimeout == o.SessionTimeout && slices.EqualFunc(c.Protocols, o.Protocols, func(a, b classic.Protocol) bool {
		return a.Name == b.Name && string(a.Metadata) == string(b.Metadata)
	})
}

// supports reports whether a classic member names the protocol.
func (c *Classic) supports(protocol string) bool {
	return slices.ContainsFunc(c.Protocols, func(p classic.Protocol) bool { return p.Name == protocol })
}

// size returns about how many bytes the member's own words take.
func (i *Info) size() int {
	n := 64 + len(i.Instance) + len(i.Rack) + len(i.ClientID) + len(i.ClientHost) + len(i.Regex) + len(i.Assignor)
	for _, t := range i.Topics {
		n += 16 + len(t)
	}
	if i.Classic != nil {
		for _, p := range i.Classic.Protocols {
			n += 32 + len(p.Name) + len(p.Metadata)
		}
	}
	return n
}
