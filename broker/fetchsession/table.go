package fetchsession

import (
	"strings"

	"github.com/sluicemq/sluice/log/entry"
)

// table holds the partitions of a session in an order that can be changed at
// any place, and finds them by topic and number. It takes one allocation for
// many partitions and holds no pointers but those to the topics' names.
type table struct {
	// slots[0] is the head of a circular list through the partitions in order.
	// Free slots form another list through next.
	slots []slot
	free  uint32
	index map[place]uint32

	topics     []topic
	freeTopics []uint32
	topicIndex map[topicKey]uint32
	nameBytes  int
}

// slot is one partition of a session.
type slot struct {
	place
	prev, next uint32

	fetchOffset        entry.Offset
	fetcherLogStart    entry.Offset
	maxBytes           int32
	currentLeaderEpoch int32
	lastFetchedEpoch   int32

	// What the client was told last; -1 before it was told anything, and after an
	// error, so that the next answer is not taken for unchanged.
	highWatermark entry.Offset
	logStart      entry.Offset
}

type place struct {
	topic uint32 // element of table.topics
	index int32
}

type topic struct {
	topicKey
	partitions int
}

// topicKey is a topic's id, or its name in sessions of clients that know no ids.
type topicKey struct {
	id   entry.TopicID
	name string
}

// The memory that a partition and a topic take, with their share of the maps.
const (
	partitionBytes = 96
	topicBytes     = 128
)

func newTable(sizeHint int) *table {
	return &table{
		slots:      make([]slot, 1, sizeHint+1),
		index:      make(map[place]uint32, sizeHint),
		topicIndex: make(map[topicKey]uint32),
	}
}

func (t *table) len() int { return len(t.index) }

// bytes returns about how much memory the table takes.
func (t *table) bytes() int64 {
	return int64(len(t.slots))*partitionBytes + int64(len(t.topics))*topicBytes + int64(t.nameBytes)
}

// put adds the partition at the end of the order, or changes it if it is there.
// A name is copied if it is kept.
func (t *table) put(k topicKey, p *Partition) *slot {
	number, ok := t.topicIndex[k]
	if !ok {
		number = t.addTopic(k)
	}
	at := place{number, p.Index}
	i, ok := t.index[at]
	if !ok {
		i = t.add(at)
	}
	s := &t.slots[i]
	s.fetchOffset = p.FetchOffset
	s.fetcherLogStart = p.LogStart
	s.maxBytes = p.MaxBytes
	s.currentLeaderEpoch = p.CurrentLeaderEpoch
	s.lastFetchedEpoch = p.LastFetchedEpoch
	return s
}

func (t *table) addTopic(k topicKey) uint32 {
	k.name = strings.Clone(k.name)
	var number uint32
	if n := len(t.freeTopics); n > 0 {
		number, t.freeTopics = t.freeTopics[n-1], t.freeTopics[:n-1]
		t.topics[number] = topic{topicKey: k}
	} else {
		number = uint32(len(t.topics))
		t.topics = append(t.topics, topic{topicKey: k})
	}
	t.topicIndex[k] = number
	t.nameBytes += len(k.name)
	return number
}

func (t *table) add(at place) uint32 {
	i := t.free
	if i != 0 {
		t.free = t.slots[i].next
	} else {
		i = uint32(len(t.slots))
		t.slots = append(t.slots, slot{})
	}
	t.slots[i] = slot{place: at, highWatermark: -1, logStart: -1}
	t.index[at] = i
	t.topics[at.topic].partitions++
	t.link(i)
	return i
}

// remove takes a partition out, if it is there.
func (t *table) remove(k topicKey, index int32) {
	number, ok := t.topicIndex[k]
	if !ok {
		return
	}
	at := place{number, index}
	i, ok := t.index[at]
	if !ok {
		return
	}
	t.unlink(i)
	t.slots[i] = slot{next: t.free}
	t.free = i
	delete(t.index, at)
	if tp := &t.topics[number]; tp.partitions > 1 {
		tp.partitions--
	} else {
		t.nameBytes -= len(tp.name)
		delete(t.topicIndex, tp.topicKey)
		*tp = topic{}
		t.freeTopics = append(t.freeTopics, number)
	}
}

// compact returns the table itself, or a smaller one with the same content if
// most of this one is empty: a client that has dropped its partitions must not
// hold on to the memory for them.
func (t *table) compact() *table {
	const small = 256
	if len(t.slots) <= small || t.len() > len(t.slots)/4 {
		return t
	}
	to := newTable(t.len())
	var p Partition
	for i := t.slots[0].next; i != 0; i = t.slots[i].next {
		t.get(i, &p)
		s := to.put(t.topics[t.slots[i].topic].topicKey, &p)
		s.highWatermark, s.logStart = t.slots[i].highWatermark, t.slots[i].logStart
	}
	return to
}

// get sets p to what was put.
func (t *table) get(i uint32, p *Partition) {
	s := &t.slots[i]
	tp := &t.topics[s.topic]
	*p = Partition{
		TopicID:            tp.id,
		Topic:              tp.name,
		Index:              s.index,
		FetchOffset:        s.fetchOffset,
		LogStart:           s.fetcherLogStart,
		MaxBytes:           s.maxBytes,
		CurrentLeaderEpoch: s.currentLeaderEpoch,
		LastFetchedEpoch:   s.lastFetchedEpoch,
	}
}

// toEnd moves a partition to the end of the order.
func (t *table) toEnd(i uint32) {
	t.unlink(i)
	t.link(i)
}

func (t *table) link(i uint32) {
	s, head := &t.slots[i], &t.slots[0]
	s.prev, s.next = head.prev, 0
	t.slots[head.prev].next = i
	head.prev = i
}

func (t *table) unlink(i uint32) {
	s := &t.slots[i]
	t.slots[s.prev].next = s.next
	t.slots[s.next].prev = s.prev
}
