package producer

import (
	"cmp"
	"slices"

	"github.com/sluicemq/sluice/log/entry"
)

// The methods of this file may be called by any goroutine.

// Producer describes one producer of a partition.
type Producer struct {
	ID           int64
	Epoch        int16
	LastSequence int32      // -1: none in this epoch
	LastTime     entry.Time // of the entry with its last batch or marker
	Marked       bool       // a transaction of it was ended in the partition
}

// Producers appends what is remembered of partition p to dst, ordered by
// producer id, and returns the extended slice. The apply loop waits while they
// are copied, some 50 ns for each.
func (m *Machine) Producers(p entry.Partition, dst []Producer) []Producer {
	from := len(dst)
	m.mu.Lock()
	for s := m.table.heads[p]; s != none; {
		st := m.table.at(s)
		dst = append(dst, Producer{st.id, st.epoch, st.lastSequence, st.lastTime, st.marked})
		s = st.next
	}
	m.mu.Unlock()
	slices.SortFunc(dst[from:], func(a, b Producer) int { return cmp.Compare(a.ID, b.ID) })
	return dst
}

// Len returns how many producers are remembered, on all partitions together.
func (m *Machine) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table.count
}

// Limits returns the limits in force.
func (m *Machine) Limits() Limits {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.limits
}

// Overdue reports whether an entry of type TypeExpireProducers with the limits
// in force would forget a producer at time now.
func (m *Machine) Overdue(now entry.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.overdue(now)
}
