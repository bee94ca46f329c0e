package kafka

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sluicemq/sluice/log/entry"
)

// The methods of this file may be called by any goroutine.

// LastStable returns the last stable offset of a partition that has the given
// bounds: up to there no transaction is open. The bounds must have been asked for
// before.
func (m *Machine) LastStable(p entry.Partition, start, end entry.Offset) entry.Offset {
	if m.unstable.Load() == 0 {
		return end
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if in := m.partitions[p]; in != nil && len(in.open) > 0 {
		// Where records were deleted, nobody is sent below the start.
		return min(max(in.open[0].First, start), end)
	}
	return end
}

// Aborted is a transaction that was aborted, as readers of a partition are told.
type Aborted struct {
	ProducerID int64
	First      entry.Offset
}

// Aborted appends the aborted transactions of a partition that have something from
// one offset to below another, by their first offset. The last stable offset must
// have been asked for before.
func (m *Machine) Aborted(p entry.Partition, from, to entry.Offset, dst []Aborted) []Aborted {
	m.mu.RLock()
	defer m.mu.RUnlock()
	in := m.partitions[p]
	if in == nil || from >= to {
		return dst
	}
	had := len(dst)
	for i := in.from(from); i < len(in.aborted); i++ {
		a := &in.aborted[i]
		if a.first < to {
			dst = append(dst, Aborted{a.producerID, a.first})
		}
		if a.stable >= to {
			break
		}
	}
	slices.SortFunc(dst[had:], func(a, b Aborted) int { return cmp.Compare(a.First, b.First) })
	return dst
}

// Open appends the transactions that are open in a partition, by their first
// offset.
func (m *Machine) Open(p entry.Partition, dst []Open) []Open {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if in := m.partitions[p]; in != nil {
		dst = append(dst, in.open...)
	}
	return dst
}

// Description is what is known of a transactional id.
type Description struct {
	ID        string
	Producer  Producer
	State     State
	TimeoutMs int32
	// Started is when the newest transaction began, -1 if none did.
	Started entry.Time
	// Partitions are those of the open transaction, in order; Groups likewise.
	Partitions []entry.Partition
	Groups     []string
}

// Describe returns what is known of a transactional id.
func (m *Machine) Describe(id string) (Description, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	t := m.byID[id]
	if t == nil {
		return Description{}, false
	}
	d := t.summary()
	d.Partitions, d.Groups = t.sortedPartitions(), t.sortedGroups()
	return d, true
}

func (t *transaction) summary() Description {
	return Description{ID: t.id, Producer: t.producer(), State: t.state, TimeoutMs: t.timeoutMs, Started: t.started}
}

// List returns what is known of all transactional ids, in order, without their
// partitions and groups.
func (m *Machine) List() []Description {
	m.mu.RLock()
	all := make([]Description, 0, len(m.byID))
	for _, t := range m.byID {
		all = append(all, t.summary())
	}
	m.mu.RUnlock()
	slices.SortFunc(all, func(a, b Description) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Producer returns the producer of a transactional id, if it has one.
func (m *Machine) Producer(id string) (Producer, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if t := m.byID[id]; t != nil {
		return t.producer(), true
	}
	return Producer{}, false
}

// CheckProducer says whether a producer is the one in charge of a transactional id.
func (m *Machine) CheckProducer(id string, producer Producer) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.byID[id].check(id, producer.ID, producer.Epoch)
}

// Verify says whether a partition is in the open transaction of a producer.
func (m *Machine) Verify(id string, producer Producer, p entry.Partition) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	t := m.byID[id]
	if err := t.check(id, producer.ID, producer.Epoch); err != nil {
		return err
	}
	if _, ok := t.partitions[p]; !ok || t.state != Ongoing {
		return t.notAdded()
	}
	return nil
}

// Pending reports whether an open transaction has an offset for a partition of a
// group.
func (m *Machine) Pending(group string, topic entry.TopicID, partition int32) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for t := range m.byGroup[group] {
		if t.groups[group][offsetKey{topic, partition}] != nil {
			return true
		}
	}
	return false
}

// PendingOf returns the partitions of a group for which open transactions have
// offsets, in no order.
func (m *Machine) PendingOf(group string) map[entry.TopicID][]int32 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	found := make(map[offsetKey]struct{})
	for t := range m.byGroup[group] {
		for key := range t.groups[group] {
			found[key] = struct{}{}
		}
	}
	all := make(map[entry.TopicID][]int32)
	for key := range found {
		all[key.topic] = append(all[key.topic], key.partition)
	}
	return all
}

// Overdue returns the ends of transactions that have been open for longer than
// their time-out, in the order in which they began.
func (m *Machine) Overdue(now entry.Time) []End {
	m.mu.RLock()
	var all []End
	for t := range m.ongoing {
		if now-t.started >= entry.Time(t.timeoutMs) {
			all = append(all, End{ID: t.id, ProducerID: t.producerID, Epoch: t.epoch, TimedOut: true, Started: t.started})
		}
	}
	m.mu.RUnlock()
	slices.SortFunc(all, func(a, b End) int { return cmp.Or(cmp.Compare(a.Started, b.Started), cmp.Compare(a.ID, b.ID)) })
	return all
}

// Idle returns transactional ids to which nothing happened for the expiration, but
// not more than most.
func (m *Machine) Idle(now entry.Time, expirationMs int64, most int) []string {
	m.mu.RLock()
	var all []string
	for _, t := range m.byID {
		if t.idle(now, expirationMs) {
			all = append(all, t.id)
			if len(all) == most {
				break
			}
		}
	}
	m.mu.RUnlock()
	slices.Sort(all)
	return all
}

// Stats counts.
type Stats struct {
	IDs     int        // transactional ids
	Ongoing int        // open transactions
	Oldest  entry.Time // when the oldest of them began, -1 if there is none
	Aborted int        // aborted transactions that are remembered, once for each partition
}

// Stats returns what there is.
func (m *Machine) Stats() Stats {
	m.mu.RLock()
	defer m.mu.RUnlock()
	s := Stats{IDs: len(m.byID), Ongoing: len(m.ongoing), Oldest: never}
	for t := range m.ongoing {
		if s.Oldest == never || t.started < s.Oldest {
			s.Oldest = t.started
		}
	}
	for in := range maps.Values(m.partitions) {
		s.Aborted += len(in.aborted)
	}
	return s
}
