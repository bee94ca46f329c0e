package producer

import (
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// Marker is the end of a transaction in one partition, as a control batch says it.
type Marker struct {
	ProducerID int64
	Epoch      int16
	Abort      bool
}

// CheckMarker says whether a marker may be put into partition p: not with an
// epoch that is older than the producer's. With newer set it must be above that
// epoch, unless no transaction is open and the same marker came before.
func (m *Machine) CheckMarker(p entry.Partition, mark Marker, newer bool) error {
	s := m.find(key{p, mark.ProducerID})
	if s == none {
		return nil
	}
	st := m.table.at(s)
	if mark.Epoch < st.epoch || newer && mark.Epoch == st.epoch && (st.open || !st.marked) {
		return kerr.New(kerr.InvalidProducerEpoch,
			"a marker for producer id %d has epoch %d, the producer has %d", mark.ProducerID, mark.Epoch, st.epoch)
	}
	return nil
}

// Ended remembers that a marker, which CheckMarker let pass, was put into
// partition p by the entry of that time and index. A marker with a higher epoch
// fences the epoch before and begins the memory anew, as a batch does. One that
// aborts within the epoch takes the batches of the transaction out of the memory:
// their sequences may come again for other records.
func (m *Machine) Ended(p entry.Partition, mark Marker, at entry.Time, index entry.Index) {
	k := key{p, mark.ProducerID}
	s := m.find(k)
	m.mu.Lock()
	defer m.mu.Unlock()
	var st *state
	if s == none {
		s, st = m.table.add(k)
		m.last = s // find has set lastKey
		st.lastSequence = noSequence
	} else {
		st = m.table.at(s)
	}
	switch {
	case mark.Epoch > st.epoch:
		st.epoch, st.count, st.lastSequence, st.rewound = mark.Epoch, 0, noSequence, false
	case mark.Abort && st.open:
		st.count, st.rewound = 0, true
	}
	if st.open {
		m.table.setOpen(s, false)
	} else {
		m.table.touch(s)
	}
	st.marked = true
	st.lastEntry, st.lastTime = index, at
	m.save(s, st)
}
