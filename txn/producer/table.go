package producer

import (
	"cmp"
	"slices"

	"github.com/sluicemq/sluice/log/entry"
)

// batchesKept is how many batches of a producer are remembered: as many as a
// client may have in flight.
const batchesKept = 5

// key names a producer: a producer id has a life of its own in each partition.
type key struct {
	partition entry.Partition
	id        int64
}

// state is what is remembered of one producer. There may be millions, so it
// holds no pointers (the collector never looks inside) and nothing twice: the
// batches of one epoch follow each other without a gap, so the last sequence
// and the lengths give the sequences of all of them.
type state struct {
	partition entry.Partition
	id        int64
	lastEntry entry.Index // with the newest batch or marker; orders producers by silence, also after a restart
	lastTime  entry.Time  // of that entry

	// The batches, newest first; the first count elements are in use.
	offsets [batchesKept]entry.Offset // base offset, or -1 if the batch was given none
	times   [batchesKept]entry.Time   // of the entry
	deltas  [batchesKept]int32        // last sequence minus first

	lastSequence int32 // of the newest batch of the epoch; none yet: noSequence
	first        int32 // open: first sequence of the transaction; rewound: of the one that was aborted
	epoch        int16
	count        uint8 // ≤ batchesKept; 0 after a marker that began the memory anew

	open    bool // a transaction of it is open in the partition; not in the list by silence
	rewound bool // sequences from first on may come again: they were those of an aborted transaction
	marked  bool // a transaction of it was ended in the partition

	unsaved bool // changed since the last checkpoint, and in Machine.unsaved
	saved   bool // the state store has some version of it

	// Neighbours in the list of producers by silence, and in the partition's
	// list. A free slot uses next for the free list.
	older, newer slot
	prev, next   slot
}

// noSequence is the last sequence of an epoch that has no batch.
const noSequence int32 = -1

// slot is the place of a state in a table; none is no place.
type slot uint32

const none slot = 0

// chunkStates is how many states are allocated at a time.
const chunkStates = 256

// table holds the states: found by key, listed by partition, and listed by
// silence. Slots are stable, and chunks are never moved, so that growing copies
// nothing.
type table struct {
	index  map[key]slot
	heads  map[entry.Partition]slot // first of each partition's list
	chunks []*[chunkStates]state
	used   slot // slots 1..used have been handed out at some time
	free   slot // first of the free list
	count  int

	oldest, newest slot // ends of the list by silence
}

func newTable(sizeHint int) table {
	return table{index: make(map[key]slot, sizeHint), heads: make(map[entry.Partition]slot)}
}

// at returns the state in a slot. It must not be kept across remove.
func (t *table) at(s slot) *state {
	return &t.chunks[s/chunkStates][s%chunkStates]
}

// add makes a state for k, which must not be there, as the newest by silence.
func (t *table) add(k key) (slot, *state) {
	s := t.free
	if s != none {
		t.free = t.at(s).next
	} else {
		t.used++
		s = t.used
		if int(s/chunkStates) == len(t.chunks) {
			t.chunks = append(t.chunks, new([chunkStates]state))
		}
	}
	st := t.at(s)
	*st = state{partition: k.partition, id: k.id}
	if head := t.heads[k.partition]; head != none {
		st.next = head
		t.at(head).prev = s
	}
	t.heads[k.partition] = s
	t.index[k] = s
	t.count++
	t.linkNewest(s, st)
	return s, st
}

// remove forgets the state in s and frees the slot.
func (t *table) remove(s slot) {
	st := t.at(s)
	if !st.open {
		t.unlink(st)
	}
	if st.next != none {
		t.at(st.next).prev = st.prev
	}
	switch {
	case st.prev != none:
		t.at(st.prev).next = st.next
	case st.next != none:
		t.heads[st.partition] = st.next
	default:
		delete(t.heads, st.partition)
	}
	delete(t.index, key{st.partition, st.id})
	t.count--
	*st = state{next: t.free}
	t.free = s
}

// touch makes the state the newest by silence, unless a transaction keeps it out
// of the list.
func (t *table) touch(s slot) {
	st := t.at(s)
	if t.newest == s || st.open {
		return
	}
	t.unlink(st)
	t.linkNewest(s, st)
}

// setOpen takes the state out of the list by silence while a transaction is
// open, so that it is not forgotten, and makes it the newest in it afterwards.
func (t *table) setOpen(s slot, open bool) {
	st := t.at(s)
	if st.open == open {
		return
	}
	if st.open = open; open {
		t.unlink(st)
	} else {
		t.linkNewest(s, st)
	}
}

// sortBySilence puts the list by silence in the order of the entries with the
// newest batch or marker, which is the order in which they were appended.
func (t *table) sortBySilence() {
	slots := make([]slot, 0, t.count)
	for s := t.oldest; s != none; s = t.at(s).newer {
		slots = append(slots, s)
	}
	slices.SortStableFunc(slots, func(a, b slot) int {
		return cmp.Compare(t.at(a).lastEntry, t.at(b).lastEntry)
	})
	t.oldest, t.newest = none, none
	for _, s := range slots {
		t.linkNewest(s, t.at(s))
	}
}

func (t *table) linkNewest(s slot, st *state) {
	st.older, st.newer = t.newest, none
	if t.newest != none {
		t.at(t.newest).newer = s
	} else {
		t.oldest = s
	}
	t.newest = s
}

func (t *table) unlink(st *state) {
	if st.older != none {
		t.at(st.older).newer = st.newer
	} else {
		t.oldest = st.newer
	}
	if st.newer != none {
		t.at(st.newer).older = st.older
	} else {
		t.newest = st.older
	}
}
