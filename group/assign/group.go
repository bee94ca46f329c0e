package assign

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/sluicemq/sluice/log/entry"
)

// Member is one member of the group as assignors see it.
type Member struct {
	ID       string
	Instance string // the id of a static member, or ""
	// Topics are those that the member subscribes to and that exist, by their
	// place in Group.Topics, ascending, none twice. Members with the same
	// subscription may share the slice, which saves time.
	Topics []int32
	// Current is what the member was meant to own until now.
	Current Assignment
}

// TopicSize says how many partitions a topic has.
type TopicSize struct {
	ID         entry.TopicID
	Partitions int32
}

// Group is what an assignor works on. It is not changed.
type Group struct {
	Members []Member    // ordered by id, none twice
	Topics  []TopicSize // ordered by id, none twice
}

// Assignor is a way to assign partitions.
type Assignor struct {
	name   string
	assign func(*Group) []Assignment
}

// The assignors, in the order in which Kafka lists them by default.
var assignors = []Assignor{{"uniform", uniform}, {"range", ranges}}

// Names returns the names of all assignors; the first is the default.
func Names() []string {
	var names []string
	for _, a := range assignors {
		names = append(names, a.name)
	}
	return names
}

// Find returns the assignor with the name; ok is false if there is none.
func Find(name string) (a Assignor, ok bool) {
	for _, a := range assignors {
		if a.name == name {
			return a, true
		}
	}
	return Assignor{}, false
}

// Name returns the assignor's name.
func (a Assignor) Name() string { return a.name }

// Assign returns what each member is to own, in the order of g.Members. A
// member whose assignment does not change is given the slice that it had.
func (a Assignor) Assign(g *Group) ([]Assignment, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	out := a.assign(g)
	for i := range out {
		if out[i].Equal(g.Members[i].Current) {
			out[i] = g.Members[i].Current
		}
	}
	return out, nil
}

// check makes sure of what the assignors rely on.
func (g *Group) check() error {
	for i := 1; i < len(g.Topics); i++ {
		if CompareTopics(g.Topics[i-1].ID, g.Topics[i].ID) >= 0 {
			return fmt.Errorf("assign: topics %d and %d are not in order", i-1, i)
		}
	}
	var checked []int32
	for i := range g.Members {
		m := &g.Members[i]
		if i > 0 && g.Members[i-1].ID >= m.ID {
			return fmt.Errorf("assign: members %q and %q are not in order", g.Members[i-1].ID, m.ID)
		}
		if sameSlice(m.Topics, checked) {
			continue
		}
		for j, t := range m.Topics {
			if t < 0 || int(t) >= len(g.Topics) || j > 0 && m.Topics[j-1] >= t {
				return fmt.Errorf("assign: topics of member %q are not in order, or not the group's", m.ID)
			}
		}
		checked = m.Topics
	}
	return nil
}

func sameSlice(a, b []int32) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// topicIndex returns the place of a topic in g.Topics, looking from place from
// on; assignments are ordered as g.Topics, so that a walk along both is cheap.
func (g *Group) topicIndex(id entry.TopicID, from int) (int, bool) {
	if from < len(g.Topics) && g.Topics[from].ID == id {
		return from, true
	}
	i, ok := slices.BinarySearchFunc(g.Topics[from:], id, func(t TopicSize, id entry.TopicID) int {
		return CompareTopics(t.ID, id)
	})
	return from + i, ok
}

// kind is a set of topics that have the same subscribers.
type kind struct {
	topics  []int32 // places in Group.Topics, ascending
	members []int32 // places in Group.Members, ascending
}

// kinds sorts the subscribed topics by who subscribes to them. The result is in
// the order in which topics are best handed out: those with the most partitions
// for each subscriber first, since they leave the least choice; of returns the
// kind of each topic, or -1.
func (g *Group) kinds() (all []kind, of []int32) {
	classes, topics := g.classes()
	subscribers := make([][]byte, len(g.Topics)) // the classes of each topic
	for c := range classes {
		for _, t := range topics[c] {
			subscribers[t] = binary.BigEndian.AppendUint32(subscribers[t], uint32(c))
		}
	}
	byKey := make(map[string]int32)
	of = make([]int32, len(g.Topics))
	for t, key := range subscribers {
		of[t] = -1
		if len(key) == 0 {
			continue
		}
		k, ok := byKey[string(key)]
		if !ok {
			k = int32(len(all))
			byKey[string(key)] = k
			all = append(all, kind{members: membersOf(classes, key)})
		}
		all[k].topics = append(all[k].topics, int32(t))
		of[t] = k
	}
	return g.sortKinds(all, of), of
}

// membersOf returns the members of the classes in a key, ascending.
func membersOf(classes [][]int32, key []byte) []int32 {
	var out []int32
	n := 0
	for ; len(key) > 0; key = key[4:] {
		out = append(out, classes[binary.BigEndian.Uint32(key)]...)
		n++
	}
	if n > 1 {
		slices.Sort(out)
	}
	return out
}

// classes sorts the members by their subscription: the members of each class,
// and its topics.
func (g *Group) classes() (members, topics [][]int32) {
	byKey := make(map[string]int)
	var key []byte
	var last []int32 // the subscription of the member before, and its class
	lastClass := -1
	for i := range g.Members {
		mine := g.Members[i].Topics
		if lastClass < 0 || !sameSlice(mine, last) {
			key = key[:0]
			for _, t := range mine {
				key = binary.BigEndian.AppendUint32(key, uint32(t))
			}
			c, ok := byKey[string(key)]
			if !ok {
				c = len(members)
				byKey[string(key)] = c
				members, topics = append(members, nil), append(topics, mine)
			}
			last, lastClass = mine, c
		}
		members[lastClass] = append(members[lastClass], int32(i))
	}
	return members, topics
}

// sortKinds orders kinds by partitions for each subscriber, most first, then by
// the number of subscribers, then by their first topic; and renumbers of.
func (g *Group) sortKinds(all []kind, of []int32) []kind {
	partitions := make([]int64, len(all))
	order := make([]int32, len(all))
	for k := range all {
		order[k] = int32(k)
		for _, t := range all[k].topics {
			partitions[k] += int64(g.Topics[t].Partitions)
		}
	}
	slices.SortFunc(order, func(a, b int32) int {
		ma, mb := int64(len(all[a].members)), int64(len(all[b].members))
		return cmp.Or(
			cmp.Compare(partitions[b]*ma, partitions[a]*mb),
			cmp.Compare(ma, mb),
			cmp.Compare(all[a].topics[0], all[b].topics[0]),
		)
	})
	sorted := make([]kind, len(all))
	place := make([]int32, len(all))
	for i, k := range order {
		sorted[i] = all[k]
		place[k] = int32(i)
	}
	for t, k := range of {
		if k >= 0 {
			of[t] = place[k]
		}
	}
	return sorted
}
