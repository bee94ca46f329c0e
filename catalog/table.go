package catalog

import (
	"encoding/binary"
	"hash/maphash"
	"sync/atomic"

	"github.com/sluicemq/sluice/log/entry"
)

// table is a hash table of refs for one writer and any number of readers that
// take no lock: slots are atomic pointers, probed in a row; what is removed
// leaves a mark; to grow, the writer fills other slots and then publishes them.
//
// The hash takes '.' for '_' in names, so that the names that Kafka holds to
// collide are found beside each other.
type table struct {
	slots atomic.Pointer[[]atomic.Pointer[ref]] // length is a power of two
	seed  maphash.Seed
	byID  bool

	// owned by the writer
	live int // refs
	used int // refs and marks
}

// removed marks a slot whose ref was taken out.
var removed = new(ref)

const minSlots = 16

func newTable(byID bool) *table {
	t := &table{seed: maphash.MakeSeed(), byID: byID}
	slots := make([]atomic.Pointer[ref], minSlots)
	t.slots.Store(&slots)
	return t
}

func (t *table) hash(r *ref) uint64 {
	if t.byID {
		return hashID(&r.id)
	}
	return t.hashName(r.name)
}

// hashID needs no seed: ids are random numbers made by the broker.
func hashID(id *entry.TopicID) uint64 { return binary.LittleEndian.Uint64(id[:]) }

func (t *table) hashName(name string) uint64 {
	var b [MaxNameBytes]byte
	n := copy(b[:], name)
	for i := range n {
		if b[i] == '.' {
			b[i] = '_'
		}
	}
	return maphash.Bytes(t.seed, b[:n])
}

func (t *table) findName(name string) *ref {
	slots := *t.slots.Load()
	mask := uint64(len(slots) - 1)
	for i := t.hashName(name) & mask; ; i = (i + 1) & mask {
		r := slots[i].Load()
		if r == nil {
			return nil
		}
		if r != removed && r.name == name {
			return r
		}
	}
}

// findColliding returns a ref whose name is equal to name except for '.' in
// place of '_' or the other way round, but not equal.
func (t *table) findColliding(name string) *ref {
	slots := *t.slots.Load()
	mask := uint64(len(slots) - 1)
	for i := t.hashName(name) & mask; ; i = (i + 1) & mask {
		r := slots[i].Load()
		if r == nil {
			return nil
		}
		if r != removed && r.name != name && collide(r.name, name) {
			return r
		}
	}
}

func (t *table) findID(id entry.TopicID) *ref {
	slots := *t.slots.Load()
	mask := uint64(len(slots) - 1)
	for i := hashID(&id) & mask; ; i = (i + 1) & mask {
		r := slots[i].Load()
		if r == nil {
			return nil
		}
		if r != removed && r.id == id {
			return r
		}
	}
}

// put adds a ref that is not in the table. Only the writer calls it.
func (t *table) put(r *ref) {
	slots := *t.slots.Load()
	if (t.used+1)*4 > len(slots)*3 {
		slots = t.rebuild(slots)
	}
	mask := uint64(len(slots) - 1)
	for i := t.hash(r) & mask; ; i = (i + 1) & mask {
		switch slots[i].Load() {
		case nil:
			t.used++
		case removed:
		default:
			continue
		}
		slots[i].Store(r)
		t.live++
		return
	}
}

// remove takes out a ref. Only the writer calls it.
func (t *table) remove(r *ref) {
	slots := *t.slots.Load()
	mask := uint64(len(slots) - 1)
	for i := t.hash(r) & mask; ; i = (i + 1) & mask {
		switch slots[i].Load() {
		case nil:
			return
		case r:
			slots[i].Store(removed)
			t.live--
			return
		}
	}
}

// rebuild moves the refs to slots of which they fill at most half. Readers see
// the old ones until the new ones are complete.
func (t *table) rebuild(old []atomic.Pointer[ref]) []atomic.Pointer[ref] {
	n := minSlots
	for n < (t.live+1)*2 {
		n *= 2
	}
	slots := make([]atomic.Pointer[ref], n)
	mask := uint64(n - 1)
	for i := range old {
		r := old[i].Load()
		if r == nil || r == removed {
			continue
		}
		at := t.hash(r) & mask
		for slots[at].Load() != nil {
			at = (at + 1) & mask
		}
		slots[at].Store(r)
	}
	t.used = t.live
	t.slots.Store(&slots)
	return slots
}
