package catalog_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/catalog"
	"github.com/sluicemq/sluice/catalog/config"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// memory is a state that is written to and read from directly. Partitions that
// exist are keys that no state has.
type memory map[string]string

func partitionKey(p entry.Partition) string { return fmt.Sprintf("partition %d", p) }

func (m memory) CreatePartition(p entry.Partition) { m[partitionKey(p)] = "" }
func (m memory) DeletePartition(p entry.Partition) { delete(m, partitionKey(p)) }

func (m memory) Set(key, value []byte) { m[string(key)] = string(value) }
func (m memory) Delete(key []byte)     { delete(m, string(key)) }

func (m memory) DeleteRange(from, to []byte) {
	for k := range m {
		if k >= string(from) && k < string(to) {
			delete(m, k)
		}
	}
}

func (m memory) Get(key []byte) ([]byte, bool, error) {
	v, ok := m[string(key)]
	return []byte(v), ok, nil
}

func (m memory) Scan(from, to []byte, visit func(key, value []byte) bool) error {
	var keys []string
	for k := range m {
		if k >= string(from) && k < string(to) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		if !visit([]byte(k), []byte(m[k])) {
			break
		}
	}
	return nil
}

// node is a catalog with the state it writes and a log of its own.
type node struct {
	*catalog.Catalog
	t     testing.TB
	state memory
	index entry.Index
	ids   uint64
}

func newNode(t testing.TB, settings ...string) *node {
	t.Helper()
	values := make(config.Values)
	for i := 0; i < len(settings); i += 2 {
		values[settings[i]] = settings[i+1]
	}
	broker, err := config.NewBroker(values)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{Catalog: catalog.New(broker), t: t, state: make(memory)}
	if err := n.Load(n.state, n.state); err != nil {
		t.Fatal(err)
	}
	return n
}

// id returns an id that was not returned before.
func (n *node) id() (id entry.TopicID) {
	n.ids++
	binary.LittleEndian.PutUint64(id[:], n.ids*0x9e3779b97f4a7c15)
	binary.BigEndian.PutUint64(id[8:], n.ids)
	return id
}

func (n *node) apply(kind entry.Type, payload []byte) entry.Result {
	n.index++
	e := entry.Entry{Type: kind, Term: entry.FirstTerm, Index: n.index, Time: entry.Time(n.index) * 1000, Payload: payload}
	return n.Apply(&e, n.state)
}

// create makes a topic and returns it, or the error of the plan or of Apply.
func (n *node) create(topic catalog.NewTopic) (*catalog.Topic, error) {
	if topic.ID == (entry.TopicID{}) {
		topic.ID = n.id()
	}
	plan := n.PlanCreate([]catalog.NewTopic{topic})[0]
	if plan.Err != nil {
		return nil, plan.Err
	}
	r := n.apply(entry.TypeCreateTopic, plan.Payload)
	if r.Err != nil {
		return nil, r.Err
	}
	return r.Value.(catalog.Change).After, nil
}

func (n *node) mustCreate(name string, partitions int32, configs ...string) *catalog.Topic {
	n.t.Helper()
	topic, err := n.create(catalog.NewTopic{Name: name, Partitions: partitions, ReplicationFactor: 1, Configs: pairs(configs)})
	if err != nil {
		n.t.Fatal(err)
	}
	return topic
}

func (n *node) delete(name string) error {
	plan := n.PlanDelete(n.Topic(name))
	if plan.Err != nil {
		return plan.Err
	}
	return n.apply(entry.TypeDeleteTopic, plan.Payload).Err
}

func (n *node) grow(name string, total int32) error {
	plan := n.PlanCreatePartitions([]catalog.MorePartitions{{Name: name, Total: total}})[0]
	if plan.Err != nil {
		return plan.Err
	}
	return n.apply(entry.TypeCreatePartitions, plan.Payload).Err
}

func (n *node) alter(resource catalog.Resource, name string, changes ...catalog.ConfigChange) error {
	plan := n.PlanIncremental([]catalog.Alter{{Resource: resource, Name: name, Changes: changes}})[0]
	if plan.Err != nil {
		return plan.Err
	}
	return n.apply(entry.TypeAlterConfigs, plan.Payload).Err
}

func (n *node) replace(resource catalog.Resource, name string, changes ...catalog.ConfigChange) error {
	plan := n.PlanReplace([]catalog.Alter{{Resource: resource, Name: name, Changes: changes}})[0]
	if plan.Err != nil {
		return plan.Err
	}
	return n.apply(entry.TypeAlterConfigs, plan.Payload).Err
}

func pairs(texts []string) []catalog.Config {
	var configs []catalog.Config
	for i := 0; i < len(texts); i += 2 {
		configs = append(configs, catalog.Config{Name: texts[i], Value: &texts[i+1]})
	}
	return configs
}

func set(name, value string) catalog.ConfigChange {
	return catalog.ConfigChange{Kind: config.OpSet, Name: name, Value: &value}
}

func unset(name string) catalog.ConfigChange {
	return catalog.ConfigChange{Kind: config.OpDelete, Name: name}
}

func add(name, value string) catalog.ConfigChange {
	return catalog.ConfigChange{Kind: config.OpAppend, Name: name, Value: &value}
}

func subtract(name, value string) catalog.ConfigChange {
	return catalog.ConfigChange{Kind: config.OpSubtract, Name: name, Value: &value}
}

func wantCode(t *testing.T, err error, want kerr.Code) {
	t.Helper()
	if got := kerr.Of(err); got != want {
		t.Errorf("got %v (%v), want %v", got, err, want)
	}
}

func names(c *catalog.Catalog, from string) []string {
	var all []string
	for t := range c.Topics(from) {
		all = append(all, t.Name())
	}
	return all
}

func TestTopicIsFoundByNameIDAndPartition(t *testing.T) {
	n := newNode(t)
	a := n.mustCreate("a", 3)
	b := n.mustCreate("b", 2, "retention.ms", "5")
	if n.Topic("a") != a || n.TopicByID(b.ID()) != b || n.Topic("c") != nil || n.TopicByID(entry.TopicID{1}) != nil {
		t.Error("look-up by name or id is wrong")
	}
	for _, topic := range []*catalog.Topic{a, b} {
		for index, number := range topic.All() {
			if got, ok := topic.Partition(index); !ok || got != number {
				t.Errorf("%s: Partition(%d) = %d, %v; All has %d", topic.Name(), index, got, ok, number)
			}
			if owner, at := n.TopicOf(number); owner != topic || at != index {
				t.Errorf("TopicOf(%d) = %v, %d", number, owner, at)
			}
		}
	}
	if owner, _ := n.TopicOf(6); owner != nil {
		t.Error("a number that was not given has a topic")
	}
	if owner, _ := n.TopicOf(0); owner != nil {
		t.Error("number 0 has a topic")
	}
	if b.Config().RetentionMs != 5 || a.Config().RetentionMs != 604800000 {
		t.Error("configs are not those that were given")
	}
	if a.Created() != 1000 || b.Created() != 2000 {
		t.Error("the time of creation is not the entry's")
	}
	if topics, partitions := n.Count(); topics != 2 || partitions != 5 {
		t.Errorf("Count() = %d, %d", topics, partitions)
	}
}

// dump writes down all that look-ups and the state show.
func (n *node) dump() string {
	var b strings.Builder
	topics, partitions := n.Count()
	fmt.Fprintf(&b, "%d topics, %d partitions\n", topics, partitions)
	for t := range n.Topics("") {
		fmt.Fprintf(&b, "%s %x %d %v %v %+v", t.Name(), t.ID(), t.Created(), t.Internal(), t.Overrides(), *t.Config())
		for index, number := range t.All() {
			owner, at := n.TopicOf(number)
			fmt.Fprintf(&b, " %d:%d", index, number)
			if owner != t || at != index {
				fmt.Fprintf(&b, "(owner wrong)")
			}
		}
		if n.Topic(t.Name()) != t || n.TopicByID(t.ID()) != t {
			b.WriteString(" (look-up wrong)")
		}
		b.WriteString("\n")
	}
	entries, _ := n.DescribeBroker(n.Broker().NodeName(), nil, true)
	for _, e := range entries {
		if e.Source != config.SourceDefault {
			fmt.Fprintf(&b, "%s=%s %d %v\n", e.Name, e.Value, e.Source, e.Synonyms)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(n.state)) {
		fmt.Fprintf(&b, "%q %x\n", k, n.state[k])
	}
	return b.String()
}

// reload returns a node that has read the state of n and nothing else.
func (n *node) reload(broker *config.Broker) *node {
	n.t.Helper()
	again := &node{Catalog: catalog.New(broker), t: n.t, state: make(memory), index: n.index, ids: n.ids}
	for k, v := range n.state {
		if strings.HasPrefix(k, "c") {
			again.state[k] = v
		}
	}
	if err := again.Load(again.state, again.state); err != nil {
		n.t.Fatal(err)
	}
	return again
}
