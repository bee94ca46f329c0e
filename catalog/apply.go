package catalog

import (
	"fmt"
	"slices"

	"github.com/sluicemq/sluice/catalog/config"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// Tx is what applying an entry may change beside the catalog itself: the state,
// and the set of partitions that the log keeps. Partitions are created before
// look-ups can see the topic, and deleted after.
type Tx interface {
	entry.Writer
	CreatePartition(p entry.Partition)
	DeletePartition(p entry.Partition)
}

// Types returns the types of entries that Apply applies.
func (c *Catalog) Types() []entry.Type {
	return []entry.Type{entry.TypeCreateTopic, entry.TypeDeleteTopic, entry.TypeCreatePartitions, entry.TypeAlterConfigs}
}

// Checkpoint does nothing: Apply writes all that changed.
func (c *Catalog) Checkpoint(entry.Writer) {}

// Change is the Result.Value of an entry that was applied.
type Change struct {
	// Before is the topic as it was; nil if it was created, or if configs of a
	// broker or a group were altered.
	Before *Topic
	// After is the topic as it is; nil if it was deleted, or if configs of a
	// broker or a group were altered. When partitions were added, those from
	// Before.Partitions() on are the added ones.
	After *Topic
}

// Apply applies an entry of the catalog's types and writes the state. It must be
// called by one goroutine, in the order of the log. A Result with a kerr error
// is a refusal that changed nothing; any other error means that the entry is
// unreadable (it wraps ErrPayload) and that the node must stop.
func (c *Catalog) Apply(e *entry.Entry, tx Tx) entry.Result {
	var change Change
	var err error
	switch e.Type {
	case entry.TypeCreateTopic:
		change, err = c.applyCreate(e, tx)
	case entry.TypeDeleteTopic:
		change, err = c.applyDelete(e, tx)
	case entry.TypeCreatePartitions:
		change, err = c.applyCreatePartitions(e, tx)
	case entry.TypeAlterConfigs:
		change, err = c.applyAlter(e, tx)
	default:
		err = fmt.Errorf("catalog: apply entry %d: %w: type %v is not the catalog's", e.Index, ErrPayload, e.Type)
	}
	if err != nil {
		return entry.Result{Err: err}
	}
	c.version.Add(1)
	return entry.Result{Value: change}
}

// unreadable names the entry in the error.
func unreadable(e *entry.Entry, err error) error {
	return fmt.Errorf("catalog: apply entry %d (%v): %w", e.Index, e.Type, err)
}

func (c *Catalog) applyCreate(e *entry.Entry, tx Tx) (Change, error) {
	create, err := DecodeCreateTopic(e.Payload)
	if err != nil {
		return Change{}, unreadable(e, err)
	}
	if err := c.checkFree(create.Name, create.ID); err != nil {
		return Change{}, err
	}
	t := &Topic{
		name: create.Name, id: create.ID, created: e.Time,
		partitions: create.Partitions, internal: create.Internal,
		runs:    []run{c.take(create.Partitions, tx)},
		configs: c.share(create.Overrides),
	}
	tx.Set(topicKey(t.id), appendTopic(nil, t))
	c.link(t)
	return Change{After: t}, nil
}

// checkFree refuses a name or an id that a topic has, or a name that collides
// with one.
func (c *Catalog) checkFree(name string, id entry.TopicID) error {
	if c.names.findName(name) != nil {
		return kerr.New(kerr.TopicAlreadyExists, "topic %q exists", name)
	}
	if r := c.names.findColliding(name); r != nil {
		return kerr.New(kerr.InvalidTopic, "the topic name %q collides with the existing topic %q: they differ only in '.' and '_'",
			name, r.name)
	}
	if c.ids.findID(id) != nil {
		return kerr.New(kerr.InvalidRequest, "the topic id %x is in use", id)
	}
	return nil
}

// take gives out the next numbers and creates the partitions.
func (c *Catalog) take(count int32, tx Tx) run {
	r := run{first: c.next, count: uint32(count)}
	c.next += entry.Partition(count)
	for p := r.first; p < c.next; p++ {
		tx.CreatePartition(p)
	}
	tx.Set(numbersKey(), appendNumbers(nil, c.next))
	return r
}

func (c *Catalog) applyDelete(e *entry.Entry, tx Tx) (Change, error) {
	del, err := DecodeDeleteTopic(e.Payload)
	if err != nil {
		return Change{}, unreadable(e, err)
	}
	r := c.ids.findID(del.ID)
	t := current(r)
	if t == nil {
		return Change{}, kerr.New(kerr.UnknownTopicOrPartition, "the topic was deleted by another request")
	}
	tx.Delete(topicKey(t.id))
	c.unlink(r, t)
	for _, p := range t.All() {
		tx.DeletePartition(p)
	}
	return Change{Before: t}, nil
}

func (c *Catalog) applyCreatePartitions(e *entry.Entry, tx Tx) (Change, error) {
	create, err := DecodeCreatePartitions(e.Payload)
	if err != nil {
		return Change{}, unreadable(e, err)
	}
	r := c.ids.findID(create.ID)
	t := current(r)
	if t == nil {
		return Change{}, kerr.New(kerr.UnknownTopicOrPartition, "the topic was deleted by another request")
	}
	if err := checkTotal(t, create.Total); err != nil {
		return Change{}, err
	}
	added := c.take(create.Total-t.partitions, tx)
	next := *t
	next.partitions = create.Total
	next.runs = slices.Clone(t.runs)
	if last := &next.runs[len(next.runs)-1]; last.last()+1 == added.first {
		last.count += added.count
	} else {
		next.runs = append(next.runs, added)
	}
	tx.Set(topicKey(t.id), appendTopic(nil, &next))
	c.owners.add(added, t.partitions, r)
	r.current.Store(&next)
	c.partitions.Add(int64(added.count))
	return Change{Before: t, After: &next}, nil
}

func checkTotal(t *Topic, total int32) error {
	switch {
	case total == t.partitions:
		return kerr.New(kerr.InvalidPartitions, "topic %q has %d partitions already", t.name, total)
	case total < t.partitions:
		return kerr.New(kerr.InvalidPartitions, "topic %q has %d partitions, and cannot be cut to %d", t.name, t.partitions, total)
	}
	return nil
}

func (c *Catalog) applyAlter(e *entry.Entry, tx Tx) (Change, error) {
	alter, err := DecodeAlterConfigs(e.Payload)
	if err != nil {
		return Change{}, unreadable(e, err)
	}
	switch alter.Resource {
	case ResourceBroker:
		c.applyAlterBroker(alter, tx)
		return Change{}, nil
	case ResourceGroup:
		c.applyAlterGroup(alter, tx)
		return Change{}, nil
	}
	r := c.ids.findID(alter.ID)
	t := current(r)
	if t == nil {
		return Change{}, kerr.New(kerr.UnknownTopicOrPartition, "the topic was deleted by another request")
	}
	next := *t
	next.configs = c.share(altered(t.configs.overrides, alter.Replace, alter.Ops))
	tx.Set(topicKey(t.id), appendTopic(nil, &next))
	r.current.Store(&next)
	c.release(t.configs)
	return Change{Before: t, After: &next}, nil
}

func altered(overrides config.Overrides, replace bool, ops []config.Op) config.Overrides {
	if replace {
		overrides = nil
	}
	return overrides.Apply(ops)
}

func (c *Catalog) applyAlterBroker(alter *AlterConfigs, tx Tx) {
	overrides := altered((*c.dynamic.Load())[alter.Name], alter.Replace, alter.Ops)
	if len(overrides) == 0 {
		tx.Delete(brokerKey(alter.Name))
	} else {
		tx.Set(brokerKey(alter.Name), appendDynamic(nil, overrides))
	}
	c.setDynamic(alter.Name, overrides)
}
