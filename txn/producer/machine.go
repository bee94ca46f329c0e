package producer

import (
	"fmt"
	"sync"
	"time"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// Limits bound what is remembered. They are part of the durable state.
type Limits struct {
	// Expiration is how long after its last batch a producer is remembered
	// (Kafka's producer.id.expiration.ms), in whole milliseconds.
	Expiration time.Duration
	// Producers is the largest number of (partition, producer id) pairs that
	// are remembered, on all partitions together. Each takes about 230 bytes.
	Producers int
}

// DefaultLimits are in force until an entry sets others.
var DefaultLimits = Limits{Expiration: 24 * time.Hour, Producers: 1_000_000}

// Machine is the memory of idempotent producers. See the package's text for
// who may call which method.
type Machine struct {
	// The fields above mu belong to the apply loop alone.

	unsaved []slot            // slots changed since the last checkpoint; may name a slot twice
	gone    []key             // saved producers that were forgotten since then
	dropped []entry.Partition // partitions deleted since then
	meta    bool              // nextID or limits changed since then

	// last is the slot that find returned for lastKey, so that Appended need not
	// look up what Judge has just looked up. lastOK is false after a change that
	// could make it stale.
	last    slot
	lastKey key
	lastOK  bool

	// mu is taken by the apply loop for changes of what stands below, and by
	// other goroutines to read it.
	mu     sync.Mutex
	nextID int64 // the producer id that is handed out next
	limits Limits
	table  table
}

// New returns a machine that remembers nothing and hands out ids from 0.
func New() *Machine {
	return &Machine{limits: DefaultLimits, table: newTable(0)}
}

// Types lists the entry types that Apply knows.
func (m *Machine) Types() []entry.Type {
	return []entry.Type{entry.TypeAllocateProducerID, entry.TypeExpireProducers}
}

// Apply applies an entry of the types TypeAllocateProducerID, whose result's
// Value is the id as an int64, and TypeExpireProducers, whose result's Value is
// an Expired. It writes nothing to w: what changed is written by Checkpoint.
func (m *Machine) Apply(e *entry.Entry, _ entry.Writer) entry.Result {
	switch e.Type {
	case entry.TypeAllocateProducerID:
		return entry.Result{Value: m.TakeID()}
	case entry.TypeExpireProducers:
		return m.applyExpire(e)
	default:
		return entry.Result{Err: fmt.Errorf("apply entry %d of type %v to producers: not their type", e.Index, e.Type)}
	}
}

// TakeID returns an id that was never returned before. The apply loop calls it,
// for entries that need an id among other things.
func (m *Machine) TakeID() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := m.nextID
	m.nextID++
	m.meta = true
	return id
}

// applyExpire sets the limits that the entry carries and forgets producers that
// are beyond them, as many as the entry allows.
func (m *Machine) applyExpire(e *entry.Entry) entry.Result {
	limits, most, err := decodeExpire(e.Payload)
	if err != nil {
		return entry.Result{Err: kerr.New(kerr.InvalidRequest, "entry %d: %v", e.Index, err)}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.limits != limits {
		m.limits = limits
		m.meta = true
	}
	var done Expired
	for done.Forgotten < most && m.overdue(e.Time) {
		m.forget(m.table.oldest)
		done.Forgotten++
	}
	done.More = m.overdue(e.Time)
	return entry.Result{Value: done}
}

// Expired is what a TypeExpireProducers entry yields.
type Expired struct {
	Forgotten int  // how many producers were forgotten
	More      bool // whether others remain to be forgotten: propose again
}

// DeletePartition forgets all producers of a partition that is deleted.
func (m *Machine) DeletePartition(p entry.Partition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	saved := false
	for s := m.table.heads[p]; s != none; s = m.table.heads[p] {
		saved = saved || m.table.at(s).saved
		m.table.remove(s)
	}
	m.lastOK = false
	if saved {
		m.dropped = append(m.dropped, p)
	}
}

// expired reports whether the producer's last batch or marker is so old at time
// now that it counts as forgotten.
func (m *Machine) expired(st *state, now entry.Time) bool {
	return !st.open && int64(now-st.lastTime) >= m.limits.Expiration.Milliseconds()
}

// overdue reports whether there is a producer to forget at time now. The one
// that has been silent the longest is the first to go for either reason.
func (m *Machine) overdue(now entry.Time) bool {
	oldest := m.table.oldest
	return oldest != none &&
		(m.table.count > m.limits.Producers || m.expired(m.table.at(oldest), now))
}

// forget removes a producer, and remembers to remove it from the state store.
func (m *Machine) forget(s slot) {
	st := m.table.at(s)
	if st.saved {
		m.gone = append(m.gone, key{st.partition, st.id})
	}
	m.table.remove(s)
	m.lastOK = false
}

// find returns the slot of a producer, or none.
func (m *Machine) find(k key) slot {
	if m.lastOK && m.lastKey == k {
		return m.last
	}
	m.last, m.lastKey, m.lastOK = m.table.index[k], k, true
	return m.last
}
