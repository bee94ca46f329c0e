package catalog

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/sluicemq/sluice/catalog/config"
	"github.com/sluicemq/sluice/log/entry"
)

// Keys of the state; FORMAT.md describes them and their values.
const (
	keySpace   = 'c'
	keyTopic   = 't' // + topic id
	keyBroker  = 'b' // + name of the resource
	keyGroup   = 'g' // + name of the group
	keyNumbers = 'n'
)

// stateVersion is the first byte of every value.
const stateVersion = 1

func topicKey(id entry.TopicID) []byte { return append([]byte{keySpace, keyTopic}, id[:]...) }

func brokerKey(name string) []byte { return append([]byte{keySpace, keyBroker}, name...) }

func groupKey(name string) []byte { return append([]byte{keySpace, keyGroup}, name...) }

func numbersKey() []byte { return []byte{keySpace, keyNumbers} }

// appendTopic appends the value of a topic's key.
func appendTopic(dst []byte, t *Topic) []byte {
	dst = append(dst, stateVersion, flags(t.internal))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(t.created))
	dst = appendString(dst, t.name)
	dst = binary.AppendUvarint(dst, uint64(len(t.runs)))
	for _, r := range t.runs {
		dst = binary.AppendUvarint(dst, uint64(r.first))
		dst = binary.AppendUvarint(dst, uint64(r.count))
	}
	return appendOverrides(dst, t.configs.overrides)
}

// decodeTopic reads the value of a topic's key, except for the id. The topic has
// no configs yet.
func decodeTopic(value []byte) (*Topic, config.Overrides, error) {
	d := decoder{left: value}
	d.version(stateVersion)
	t := &Topic{internal: d.flags(), created: entry.Time(d.uint64("the time")), name: d.name()}
	total := uint64(0)
	n := d.count("runs", 2)
	if d.err == nil && n == 0 {
		d.fail("the topic has no partitions")
	}
	t.runs = make([]run, 0, n)
	for range n {
		r := run{
			first: entry.Partition(d.uvarint("a partition's number", math.MaxInt64)),
			count: uint32(d.uvarint("a run's length", math.MaxInt32)),
		}
		total += uint64(r.count)
		switch {
		case d.err != nil:
		case r.first == 0 || r.count == 0:
			d.fail("a run of %d partitions from %d", r.count, r.first)
		case total > math.MaxInt32:
			d.fail("more than %d partitions", math.MaxInt32)
		case len(t.runs) > 0 && r.first <= t.runs[len(t.runs)-1].last():
			d.fail("the run from %d is not after the one before", r.first)
		}
		if d.err != nil {
			break
		}
		t.runs = append(t.runs, r)
	}
	t.partitions = int32(total)
	overrides := d.overrides()
	return t, overrides, d.done()
}

func (r run) last() entry.Partition { return r.first + entry.Partition(r.count) - 1 }

func appendDynamic(dst []byte, o config.Overrides) []byte {
	return appendOverrides(append(dst, stateVersion), o)
}

func decodeDynamic(value []byte) (config.Overrides, error) {
	d := decoder{left: value}
	d.version(stateVersion)
	o := d.overrides()
	return o, d.done()
}

func appendNumbers(dst []byte, next entry.Partition) []byte {
	return binary.LittleEndian.AppendUint64(append(dst, stateVersion), uint64(next))
}

func decodeNumbers(value []byte) (entry.Partition, error) {
	d := decoder{left: value}
	d.version(stateVersion)
	next := d.uint64("the next partition number")
	if d.err == nil && (next == 0 || next > math.MaxInt64) {
		d.fail("the next partition number is %d", next)
	}
	return entry.Partition(next), d.done()
}

// Load reads the state and creates the partitions that exist. Call it once, on a new Catalog, before Apply and before
// look-ups. An error means that the state is damaged or of another version, and
// wraps ErrPayload, or that it could not be read.
func (c *Catalog) Load(r entry.Reader, tx Tx) error {
	if err := c.loadNumbers(r); err != nil {
		return err
	}
	if err := c.loadDynamic(r); err != nil {
		return err
	}
	if err := c.loadGroups(r); err != nil {
		return err
	}
	topics, err := c.loadTopics(r)
	if err != nil {
		return err
	}
	if err := c.linkAll(topics); err != nil {
		return err
	}
	for _, w := range c.owners.all {
		for p := w.first; p < w.first+entry.Partition(w.count); p++ {
			tx.CreatePartition(p)
		}
	}
	return nil
}

func (c *Catalog) loadNumbers(r entry.Reader) error {
	value, ok, err := r.Get(numbersKey())
	if err != nil {
		return fmt.Errorf("catalog: load the next partition number: %w", err)
	}
	if !ok {
		return nil
	}
	if c.next, err = decodeNumbers(value); err != nil {
		return fmt.Errorf("catalog: load the next partition number: %w", err)
	}
	return nil
}

func (c *Catalog) loadDynamic(r entry.Reader) error {
	dynamic := make(map[string]config.Overrides)
	var bad error
	err := r.Scan(brokerKey(""), []byte{keySpace, keyBroker + 1}, func(key, value []byte) bool {
		name := string(key[2:])
		overrides, err := decodeDynamic(value)
		if err != nil {
			bad = fmt.Errorf("catalog: load the configs of broker %q: %w", name, err)
			return false
		}
		dynamic[name] = overrides
		return true
	})
	if err == nil {
		err = bad
	} else {
		err = fmt.Errorf("catalog: load the configs of brokers: %w", err)
	}
	if err != nil {
		return err
	}
	c.dynamic.Store(&dynamic)
	c.resolveAgain()
	return nil
}

func (c *Catalog) loadTopics(r entry.Reader) ([]*Topic, error) {
	var topics []*Topic
	var bad error
	err := r.Scan([]byte{keySpace, keyTopic}, []byte{keySpace, keyTopic + 1}, func(key, value []byte) bool {
		t, overrides, err := decodeTopic(value)
		if err == nil && len(key) != 2+len(t.id) {
			err = fmt.Errorf("%w: the key has %d bytes", ErrPayload, len(key))
		}
		if err != nil {
			bad = fmt.Errorf("catalog: load topic with key %x: %w", key, err)
			return false
		}
		copy(t.id[:], key[2:])
		t.configs = c.share(overrides)
		topics = append(topics, t)
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("catalog: load topics: %w", err)
	}
	return topics, bad
}

// linkAll makes all topics visible. Their runs are put in the order of numbers,
// as owners needs them.
func (c *Catalog) linkAll(topics []*Topic) error {
	var all []owner
	partitions := int64(0)
	for _, t := range topics {
		if c.Topic(t.name) != nil {
			return fmt.Errorf("catalog: load topic %q: %w: the name occurs twice", t.name, ErrPayload)
		}
		r := &ref{name: t.name, id: t.id}
		r.current.Store(t)
		c.linkNames(r)
		index := int32(0)
		for _, one := range t.runs {
			all = append(all, owner{first: one.first, count: one.count, index: index, ref: r})
			index += int32(one.count)
		}
		partitions += int64(t.partitions)
	}
	slices.SortFunc(all, func(a, b owner) int {
		if a.first < b.first {
			return -1
		}
		return 1
	})
	end := entry.Partition(1)
	for _, w := range all {
		if w.first < end {
			return fmt.Errorf("catalog: load topic %q: %w: partition number %d is given twice", w.ref.name, ErrPayload, w.first)
		}
		end = w.first + entry.Partition(w.count)
	}
	if end > c.next {
		return fmt.Errorf("catalog: load topics: %w: partition number %d is not below the next one, %d", ErrPayload, end-1, c.next)
	}
	c.owners.all = all
	c.owners.publish()
	c.topics.Store(int64(len(topics)))
	c.partitions.Store(partitions)
	return nil
}
