package kafka

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/sluicemq/sluice/log/entry"
)

// JudgeOffsets says whether offsets of a group may be committed within the
// transaction of a producer. It changes nothing. Refusals are
// INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED and INVALID_TXN_STATE.
func (m *Machine) JudgeOffsets(q *Offsets) error {
	t := m.byID[q.ID]
	if err := t.check(q.ID, q.ProducerID, q.Epoch); err != nil {
		return err
	}
	if _, ok := t.groups[q.Group]; !ok && !q.Adds { // as when none is open
		return t.notAdded()
	}
	return nil
}

// Pend keeps offsets that JudgeOffsets let pass until the transaction ends. They
// come with the entry of that time and index.
func (m *Machine) Pend(q *Offsets, offsets []PendingOffset, now entry.Time, index entry.Index) {
	t := m.byID[q.ID]
	if t == nil {
		return // refused by JudgeOffsets
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open(t, now)
	in := t.groups[q.Group]
	if in == nil {
		in = make(map[offsetKey]*pending, len(offsets))
		t.groups[q.Group] = in
	}
	for _, o := range offsets {
		in[offsetKey{o.Topic, o.Partition}] = &pending{PendingOffset: o, index: index}
	}
	m.join(t, q.Group)
	t.updated = now
	m.save(t)
}

// join notes that an open transaction has offsets of a group, and leave that it
// ended. The lock is held.
func (m *Machine) join(t *transaction, group string) {
	in := m.byGroup[group]
	if in == nil {
		in = make(map[*transaction]struct{})
		m.byGroup[group] = in
	}
	in[t] = struct{}{}
}

func (m *Machine) leave(t *transaction, group string) {
	in := m.byGroup[group]
	delete(in, t)
	if len(in) == 0 {
		delete(m.byGroup, group)
	}
}

// OffsetsCommitted is told that an offset of a group was committed by itself. Those
// that wait in transactions came before it, and will not be committed over it.
func (m *Machine) OffsetsCommitted(group string, topic entry.TopicID, partition int32) {
	for t := range m.byGroup[group] {
		if o := t.groups[group][offsetKey{topic, partition}]; o != nil && !o.stale {
			o.stale = true // readers do not look at it
			m.save(t)
		}
	}
}

// HasPending reports whether an open transaction has offsets of the group. It is
// the apply loop's; others ask Pending.
func (m *Machine) HasPending(group string) bool { return len(m.byGroup[group]) > 0 }

// DropGroup is told that a group was deleted: offsets that wait are not committed.
func (m *Machine) DropGroup(group string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for t := range m.byGroup[group] {
		t.groups[group] = nil
		m.save(t)
	}
	delete(m.byGroup, group)
}

// commitOffsets commits what a transaction has of a group. Of two transactions
// with an offset for the same partition the one that named it last wins, whichever
// ends first.
func (m *Machine) commitOffsets(group string, of map[offsetKey]*pending, tx Tx) {
	offsets := make([]PendingOffset, 0, len(of))
	for key, o := range of {
		if o.stale {
			continue
		}
		offsets = append(offsets, o.PendingOffset)
		for t := range m.byGroup[group] {
			if other := t.groups[group][key]; other != nil && other.index < o.index && !other.stale {
				other.stale = true
				m.save(t)
			}
		}
	}
	if len(offsets) == 0 {
		return
	}
	slices.SortFunc(offsets, func(a, b PendingOffset) int {
		return cmp.Or(bytes.Compare(a.Topic[:], b.Topic[:]), cmp.Compare(a.Partition, b.Partition))
	})
	tx.CommitOffsets(group, offsets)
}
