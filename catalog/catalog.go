package catalog

import (
	"iter"
	"sync"
	"sync/atomic"

	"github.com/tidwall/btree"

	"github.com/sluicemq/sluice/catalog/config"
	"github.com/sluicemq/sluice/log/entry"
)

// Catalog is the machine. Make it with New, then call Load once.
type Catalog struct {
	started *config.Broker // as given at the start
	broker  atomic.Pointer[config.Broker]

	names  *table
	ids    *table
	owners *owners

	topics     atomic.Int64
	partitions atomic.Int64

	orderMu sync.Mutex
	order   *btree.BTreeG[*ref] // by name; guarded by orderMu

	// dynamic holds the broker configs altered while the broker ran, by the name
	// of the resource: "" for the whole cluster, else a node's id. The map is
	// replaced, never changed.
	dynamic atomic.Pointer[map[string]config.Overrides]

	groups  atomic.Pointer[groupConfigs]
	version atomic.Uint64 // how many changes of topics there were

	// owned by the applier
	next entry.Partition // the number of the next partition to be made
	sets map[string]*configSet
}

// New returns an empty catalog of a node with the settings given at its start.
func New(started *config.Broker) *Catalog {
	c := &Catalog{
		started: started,
		names:   newTable(false),
		ids:     newTable(true),
		owners:  newOwners(),
		order: btree.NewBTreeGOptions(func(a, b *ref) bool { return a.name < b.name },
			btree.Options{NoLocks: true}),
		next: 1,
		sets: make(map[string]*configSet),
	}
	c.broker.Store(started)
	c.dynamic.Store(&map[string]config.Overrides{})
	c.groups.Store(&groupConfigs{others: started.Group(nil)})
	return c
}

// Topic returns the topic with the name, or nil.
func (c *Catalog) Topic(name string) *Topic {
	if len(name) > MaxNameBytes {
		return nil
	}
	return current(c.names.findName(name))
}

// TopicByID returns the topic with the id, or nil.
func (c *Catalog) TopicByID(id entry.TopicID) *Topic {
	return current(c.ids.findID(id))
}

// TopicOf returns the topic that has the partition with the number, and the
// partition's index in it; or nil.
func (c *Catalog) TopicOf(number entry.Partition) (*Topic, int32) {
	r, index := c.owners.find(number)
	t := current(r)
	if t == nil {
		return nil, 0
	}
	return t, index
}

func current(r *ref) *Topic {
	if r == nil {
		return nil
	}
	return r.current.Load()
}

// Topics yields the topics whose name is not before from, sorted by name, as
// they are when the iteration begins; those deleted meanwhile are left out.
func (c *Catalog) Topics(from string) iter.Seq[*Topic] {
	return func(yield func(*Topic) bool) {
		c.orderMu.Lock()
		order := c.order.Copy()
		c.orderMu.Unlock()
		order.Ascend(&ref{name: from}, func(r *ref) bool {
			t := r.current.Load()
			return t == nil || yield(t)
		})
	}
}

// Count returns how many topics and partitions there are.
func (c *Catalog) Count() (topics, partitions int) {
	return int(c.topics.Load()), int(c.partitions.Load())
}

// Version returns a number that grows with every change of a topic, once the change
// can be seen. Who reads the version, and topics after that, has seen all changes up
// to it.
func (c *Catalog) Version() uint64 { return c.version.Load() }

// Broker returns the broker's settings as they hold at the moment: those given
// at the start with those altered since. The result does not change.
func (c *Catalog) Broker() *config.Broker { return c.broker.Load() }

// link makes a topic visible to look-ups. Only the applier calls it.
func (c *Catalog) link(t *Topic) {
	r := &ref{name: t.name, id: t.id}
	r.current.Store(t)
	index := int32(0)
	for _, one := range t.runs {
		c.owners.add(one, index, r)
		index += int32(one.count)
	}
	c.linkNames(r)
	c.topics.Add(1)
	c.partitions.Add(int64(t.partitions))
}

func (c *Catalog) linkNames(r *ref) {
	c.ids.put(r)
	c.names.put(r)
	c.orderMu.Lock()
	c.order.Set(r)
	c.orderMu.Unlock()
}

// unlink takes a topic away. Only the applier calls it.
func (c *Catalog) unlink(r *ref, t *Topic) {
	r.current.Store(nil)
	c.names.remove(r)
	c.ids.remove(r)
	c.orderMu.Lock()
	c.order.Delete(r)
	c.orderMu.Unlock()
	c.owners.dropped(len(t.runs))
	c.release(t.configs)
	c.topics.Add(-1)
	c.partitions.Add(-int64(t.partitions))
}

// share returns the set of configs for the overrides and counts one more topic
// that has it. Only the applier calls it.
func (c *Catalog) share(overrides config.Overrides) *configSet {
	key := string(appendOverrides(nil, overrides))
	set := c.sets[key]
	if set == nil {
		set = &configSet{key: key, overrides: overrides}
		set.resolved.Store(c.Broker().Topic(overrides))
		c.sets[key] = set
	}
	set.topics++
	return set
}

// release counts one topic less. Only the applier calls it.
func (c *Catalog) release(set *configSet) {
	set.topics--
	if set.topics == 0 {
		delete(c.sets, set.key)
	}
}

// setDynamic publishes altered broker configs and what follows from them for
// the topics. Only the applier calls it.
func (c *Catalog) setDynamic(resource string, overrides config.Overrides) {
	old := *c.dynamic.Load()
	next := make(map[string]config.Overrides, len(old)+1)
	for name, o := range old {
		next[name] = o
	}
	if len(overrides) == 0 {
		delete(next, resource)
	} else {
		next[resource] = overrides
	}
	c.dynamic.Store(&next)
	c.resolveAgain()
}

func (c *Catalog) resolveAgain() {
	dynamic := *c.dynamic.Load()
	broker := c.started.WithDynamic(dynamic[""], dynamic[c.started.NodeName()])
	c.broker.Store(broker)
	for _, set := range c.sets {
		set.resolved.Store(broker.Topic(set.overrides))
	}
	c.setGroups(func(map[string]config.Overrides) {})
}
