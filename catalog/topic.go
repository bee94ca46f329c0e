package catalog

import (
	"iter"
	"sync/atomic"

	"github.com/sluicemq/sluice/catalog/config"
	"github.com/sluicemq/sluice/log/entry"
)

// Topic is a topic as it was when it was looked up. It never changes, except
// for what Config returns.
type Topic struct {
	name       string
	id         entry.TopicID
	created    entry.Time
	partitions int32
	internal   bool
	runs       []run // in the order of partition indexes
	configs    *configSet
}

// run is a sequence of partitions whose numbers follow each other.
type run struct {
	first entry.Partition
	count uint32
}

// Name returns the topic's name.
func (t *Topic) Name() string { return t.name }

// ID returns the topic's id, which is never zero.
func (t *Topic) ID() entry.TopicID { return t.id }

// Created returns the time of the entry that made the topic.
func (t *Topic) Created() entry.Time { return t.created }

// Internal reports whether the topic belongs to the broker and is shown as
// internal to clients.
func (t *Topic) Internal() bool { return t.internal }

// Partitions returns the number of partitions, which are indexed from 0.
func (t *Topic) Partitions() int32 { return t.partitions }

// Partition returns the number of the partition with the index; ok is false if
// there is no such partition.
func (t *Topic) Partition(index int32) (number entry.Partition, ok bool) {
	if index < 0 || index >= t.partitions {
		return 0, false
	}
	at := uint32(index)
	for i := range t.runs {
		r := &t.runs[i]
		if at < r.count {
			return r.first + entry.Partition(at), true
		}
		at -= r.count
	}
	return 0, false
}

// All yields each partition's index and number, in the order of indexes.
func (t *Topic) All() iter.Seq2[int32, entry.Partition] {
	return func(yield func(int32, entry.Partition) bool) {
		index := int32(0)
		for _, r := range t.runs {
			for i := range r.count {
				if !yield(index, r.first+entry.Partition(i)) {
					return
				}
				index++
			}
		}
	}
}

// Config returns the topic's settings as they hold at the moment. The result
// does not change; take it once per request.
func (t *Topic) Config() *config.Topic { return t.configs.resolved.Load() }

// Overrides returns the settings that were given to the topic itself.
func (t *Topic) Overrides() config.Overrides { return t.configs.overrides }

// configSet is a set of overrides that is shared by all topics that have it,
// with the settings that result from it.
type configSet struct {
	key       string // in Catalog.sets
	overrides config.Overrides
	resolved  atomic.Pointer[config.Topic]
	topics    int // how many have it; owned by the applier
}

// ref is the identity of a topic, which all indexes point to, so that a change
// of the topic is one store.
type ref struct {
	name string
	id   entry.TopicID
	// current is nil once the topic is deleted.
	current atomic.Pointer[Topic]
}
