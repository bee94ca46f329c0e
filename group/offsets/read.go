package offsets

import (
	"bytes"
	"maps"
	"slices"

	"github.com/sluicemq/sluice/log/entry"
)

// The methods of this file may be called by any goroutine.

// Committed is an offset as it was committed.
type Committed struct {
	Offset
	Time entry.Time // of the entry with the commit
}

func (s *slot) committed() Committed {
	return Committed{Offset{Partition: s.index, Offset: s.offset, LeaderEpoch: s.epoch, Metadata: s.metadata}, s.time}
}

func (t *Table) lookup(name string) *group {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.groups[name]
}

// Has reports whether a group has offsets.
func (t *Table) Has(name string) bool { return t.lookup(name) != nil }

// Fetch returns the offset of a partition.
func (t *Table) Fetch(name string, id entry.TopicID, partition int32) (Committed, bool) {
	g := t.lookup(name)
	if g == nil {
		return Committed{}, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	in := g.topics[id]
	if in == nil {
		return Committed{}, false
	}
	at, ok := in.find(partition)
	if !ok {
		return Committed{}, false
	}
	return in.slots[at].committed(), true
}

// All returns all offsets of a group, topic by topic, in the order of ids and
// partitions.
func (t *Table) All(name string) []Topic {
	g := t.lookup(name)
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]Topic, 0, len(g.topics))
	for id, in := range g.topics {
		out := Topic{ID: id, Offsets: make([]Offset, len(in.slots))}
		for i := range in.slots {
			out.Offsets[i] = in.slots[i].committed().Offset
		}
		all = append(all, out)
	}
	slices.SortFunc(all, func(a, b Topic) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return all
}

// Due reports whether Expire would remove something of a group.
func (t *Table) Due(name string, now entry.Time, rule Rule) bool {
	g := t.lookup(name)
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, in := range g.topics {
		for i := range in.slots {
			if expired(id, &in.slots[i], now, rule) {
				return true
			}
		}
	}
	return false
}

// Groups returns the names of all groups that have offsets, in no order.
func (t *Table) Groups() []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Collect(maps.Keys(t.groups))
}

// Count returns how many groups have offsets, and how many offsets they have.
func (t *Table) Count() (groups, offsets int) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.groups), int(t.offsets.Load())
}
