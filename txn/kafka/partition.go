package kafka

import (
	"cmp"
	"slices"

	"github.com/sluicemq/sluice/log/entry"
)

// partition is what is known of a partition with transactional records.
type partition struct {
	open    []Open    // by first offset
	aborted []aborted // by last offset
}

// Open is a transaction that is open in a partition.
type Open struct {
	ProducerID int64
	First      entry.Offset // of its first record
}

// aborted is a transaction that was aborted in a partition: 32 bytes, of which
// there is one for each as long as its records are kept.
type aborted struct {
	producerID int64
	first      entry.Offset // of its first record
	last       entry.Offset // of its marker
	// stable is the last stable offset behind the marker: whatever is aborted later
	// begins there or behind.
	stable entry.Offset
}

// at returns what is known of a partition, which it makes if need be. The lock is
// held.
func (m *Machine) at(p entry.Partition) *partition {
	in := m.partitions[p]
	if in == nil {
		in = &partition{}
		m.partitions[p] = in
	}
	return in
}

// begin notes that records of a producer's transaction begin at an offset, above
// those of all others. The lock is held.
func (m *Machine) begin(p entry.Partition, producerID int64, first entry.Offset) {
	in := m.at(p)
	if len(in.open) == 0 {
		m.unstable.Add(1)
	}
	in.open = append(in.open, Open{producerID, first})
	m.opened++
}

// end notes that a producer's transaction ended in a partition, with a marker at
// an offset. It returns the range if it was aborted. The lock is held.
func (m *Machine) end(p entry.Partition, producerID int64, commit bool, marker entry.Offset) (a aborted, ok bool) {
	in := m.partitions[p]
	if in == nil {
		return aborted{}, false
	}
	i := slices.IndexFunc(in.open, func(o Open) bool { return o.ProducerID == producerID })
	if i < 0 {
		return aborted{}, false
	}
	first := in.open[i].First
	in.open = slices.Delete(in.open, i, i+1)
	m.opened--
	stable := marker + 1
	if len(in.open) == 0 {
		in.open = nil
		m.unstable.Add(-1)
	} else {
		stable = in.open[0].First
	}
	if commit {
		m.tidy(p, in)
		return aborted{}, false
	}
	a = aborted{producerID, first, marker, stable}
	in.aborted = append(in.aborted, a)
	return a, true
}

// tidy forgets a partition of which nothing is known. The lock is held.
func (m *Machine) tidy(p entry.Partition, in *partition) {
	if len(in.open) == 0 && len(in.aborted) == 0 {
		delete(m.partitions, p)
	}
}

// LogStart is told that a partition's log start offset moved: what was aborted
// below it is forgotten.
func (m *Machine) LogStart(p entry.Partition, start entry.Offset, w entry.Writer) {
	in := m.partitions[p]
	if in == nil || len(in.aborted) == 0 || in.aborted[0].last >= start {
		return
	}
	m.mu.Lock()
	n := in.from(start)
	in.aborted = slices.Clone(in.aborted[n:])
	m.tidy(p, in)
	m.mu.Unlock()
	w.DeleteRange(abortedKey(p, 0), abortedKey(p, start))
}

// DeletePartition is told that a partition is deleted: transactions go on without
// it.
func (m *Machine) DeletePartition(p entry.Partition, w entry.Writer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for t := range m.ongoing {
		if _, ok := t.partitions[p]; ok {
			delete(t.partitions, p)
			m.save(t)
		}
	}
	in := m.partitions[p]
	if in == nil {
		return
	}
	if len(in.open) > 0 {
		m.opened -= len(in.open)
		m.unstable.Add(-1)
	}
	if len(in.aborted) > 0 {
		w.DeleteRange(abortedRange(p))
	}
	delete(m.partitions, p)
}

// from returns the place of the first aborted transaction that reaches an offset.
func (in *partition) from(offset entry.Offset) int {
	i, _ := slices.BinarySearchFunc(in.aborted, offset, func(a aborted, o entry.Offset) int { return cmp.Compare(a.last, o) })
	return i
}
