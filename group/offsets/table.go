package offsets

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluicemq/sluice/log/entry"
)

// Table is the machine. Make it with New, then call Load once. See the package's
// text for who may call which method.
type Table struct {
	// The fields above mu belong to the apply loop alone.

	next    uint64                                // number of the next group
	renewed bool                                  // next changed since the last checkpoint
	byTopic map[entry.TopicID]map[*group]struct{} // groups that have offsets of the topic
	unsaved []change                              // since the last checkpoint; may name an offset twice
	born    []*group                              // groups whose name is not saved
	gone    []*group                              // saved groups that are gone
	dropped []dropped                             // saved topics that were dropped whole

	mu     sync.RWMutex // taken by the apply loop for changes of groups, by others to read it
	groups map[string]*group

	offsets atomic.Int64 // in all groups
}

// group is the offsets of one group.
type group struct {
	name   string
	number uint64 // names the group in keys; never given twice

	// owned by the apply loop
	saved   bool // the state store has the group's name
	removed bool

	mu     sync.Mutex // taken by the apply loop for changes of topics, by others to read it
	topics map[entry.TopicID]*topic
}

// topic is a group's offsets of one topic, in the order of partitions.
type topic struct{ slots []slot }

type slot struct {
	offset   int64
	time     entry.Time // of the commit
	expires  entry.Time // or forever, where the group's rule decides
	metadata string
	epoch    int32
	index    int32 // of the partition
	unsaved  bool  // in Table.unsaved; owned by the apply loop
	saved    bool  // the state store has a version of it; owned by the apply loop
}

// forever is the time of expiry of an offset that has none of its own.
const forever entry.Time = -1

// change names an offset that was set or deleted.
type change struct {
	group *group
	topic entry.TopicID
	index int32
}

type dropped struct {
	group *group
	topic entry.TopicID
}

// New returns an empty table.
func New() *Table {
	return &Table{
		next:    1,
		byTopic: make(map[entry.TopicID]map[*group]struct{}),
		groups:  make(map[string]*group),
	}
}

// find returns the place of a partition's slot, and whether it is there. Groups
// that have all partitions of a topic, as most do, are found at once.
func (t *topic) find(index int32) (int, bool) {
	if 0 <= index && int(index) < len(t.slots) && t.slots[index].index == index {
		return int(index), true
	}
	return slices.BinarySearchFunc(t.slots, index, func(s slot, index int32) int { return cmp.Compare(s.index, index) })
}

// put returns the group's topic, which it makes if need be. The group's lock is held.
func (t *Table) put(g *group, id entry.TopicID) *topic {
	found := g.topics[id]
	if found == nil {
		found = &topic{}
		g.topics[id] = found
		in := t.byTopic[id]
		if in == nil {
			in = make(map[*group]struct{})
			t.byTopic[id] = in
		}
		in[g] = struct{}{}
	}
	return found
}

// set makes an offset the one of its partition. The group's lock is held.
func (t *Table) set(g *group, id entry.TopicID, in *topic, o one, now, expires entry.Time) {
	at, ok := in.find(o.index)
	if !ok {
		in.slots = slices.Insert(in.slots, at, slot{index: o.index})
		t.offsets.Add(1)
	}
	s := &in.slots[at]
	s.offset, s.epoch, s.time, s.expires = o.offset, o.epoch, now, expires
	if s.metadata != string(o.metadata) {
		s.metadata = string(o.metadata)
	}
	if !s.unsaved {
		s.unsaved = true
		t.unsaved = append(t.unsaved, change{g, id, o.index})
	}
}

// begin returns the group with the name, which it makes if need be.
func (t *Table) begin(name []byte) *group {
	if g := t.groups[string(name)]; g != nil {
		return g
	}
	g := &group{name: string(name), number: t.next, topics: make(map[entry.TopicID]*topic)}
	t.next++
	t.renewed = true
	t.born = append(t.born, g)
	t.mu.Lock()
	t.groups[g.name] = g
	t.mu.Unlock()
	return g
}

// end removes a group that has no offsets left.
func (t *Table) end(g *group) {
	g.removed = true
	if g.saved {
		t.gone = append(t.gone, g)
	}
	t.mu.Lock()
	delete(t.groups, g.name)
	t.mu.Unlock()
}

// dropTopic removes all of a group's offsets of a topic. The group's lock is held.
func (t *Table) dropTopic(g *group, id entry.TopicID) {
	in := g.topics[id]
	t.offsets.Add(-int64(len(in.slots)))
	if slices.ContainsFunc(in.slots, func(s slot) bool { return s.saved }) {
		t.dropped = append(t.dropped, dropped{g, id})
	}
	t.forget(g, id)
}

// forget takes an empty topic out of a group. The group's lock is held.
func (t *Table) forget(g *group, id entry.TopicID) {
	delete(g.topics, id)
	in := t.byTopic[id]
	delete(in, g)
	if len(in) == 0 {
		delete(t.byTopic, id)
	}
}

// remove removes those of a group's offsets of a topic that which names, and
// returns how many. The group's lock is held.
func (t *Table) remove(g *group, id entry.TopicID, which func(*slot) bool) int {
	in := g.topics[id]
	if in == nil {
		return 0
	}
	kept := in.slots[:0]
	for i := range in.slots {
		s := &in.slots[i]
		if !which(s) {
			kept = append(kept, *s)
			continue
		}
		if s.saved && !s.unsaved {
			t.unsaved = append(t.unsaved, change{g, id, s.index})
		}
	}
	n := len(in.slots) - len(kept)
	clear(in.slots[len(kept):])
	in.slots = kept
	t.offsets.Add(-int64(n))
	if len(kept) == 0 {
		t.forget(g, id)
	}
	return n
}
