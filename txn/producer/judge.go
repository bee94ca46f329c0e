package producer

import (
	"math"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// Batch is what the machine needs to know of a record batch; the fields are
// those of the batch's header.
type Batch struct {
	ProducerID      int64 // below 0: not an idempotent producer
	ProducerEpoch   int16
	BaseSequence    int32
	LastOffsetDelta int32 // last sequence minus base sequence, as well
	Transactional   bool  // whether it may be in a transaction is for txn/kafka to say
	FromZero        bool  // a producer of which nothing is remembered must begin with sequence 0
}

// Verdict is what is to be done with a batch: refuse it with Err, answer it
// with the Offset and Time of the batch that it repeats, or else append it.
type Verdict struct {
	Err       error        // nil or a kerr.Error
	Duplicate bool         // append nothing; Offset and Time are set
	Offset    entry.Offset // base offset that was given before; -1 if none was
	Time      entry.Time   // of the entry that was appended before
}

// Judge says what is to be done with a batch for partition p that is carried by
// an entry of time now. It changes nothing, and allocates only to refuse.
func (m *Machine) Judge(p entry.Partition, b Batch, now entry.Time) Verdict {
	if b.ProducerID < 0 {
		return Verdict{}
	}
	if b.ProducerEpoch < 0 || b.BaseSequence < 0 || b.LastOffsetDelta < 0 {
		return Verdict{Err: kerr.New(kerr.InvalidRecord,
			"producer id %d with epoch %d, base sequence %d and last offset delta %d: none of them may be negative",
			b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.LastOffsetDelta)}
	}
	s := m.find(key{p, b.ProducerID})
	if s == none || m.expired(m.table.at(s), now) {
		if b.FromZero && b.BaseSequence != 0 {
			return Verdict{Err: kerr.New(kerr.OutOfOrderSequenceNumber,
				"producer id %d, of which nothing is known, begins with sequence %d, not 0", b.ProducerID, b.BaseSequence)}
		}
		return Verdict{}
	}
	st := m.table.at(s)
	switch {
	case b.ProducerEpoch < st.epoch:
		return Verdict{Err: kerr.New(kerr.InvalidProducerEpoch,
			"producer id %d has epoch %d, which is older than %d", b.ProducerID, b.ProducerEpoch, st.epoch)}
	case b.ProducerEpoch > st.epoch:
		if b.BaseSequence != 0 {
			return Verdict{Err: kerr.New(kerr.OutOfOrderSequenceNumber,
				"producer id %d begins epoch %d with sequence %d, not 0", b.ProducerID, b.ProducerEpoch, b.BaseSequence)}
		}
	default:
		if i, ok := st.duplicate(b); ok {
			return Verdict{Duplicate: true, Offset: st.offsets[i], Time: st.times[i]}
		}
		if want := addSequence(st.lastSequence, 1); b.BaseSequence != want && !st.again(b.BaseSequence) {
			return Verdict{Err: kerr.New(kerr.OutOfOrderSequenceNumber,
				"producer id %d epoch %d: batch begins with sequence %d, not %d",
				b.ProducerID, b.ProducerEpoch, b.BaseSequence, want)}
		}
	}
	return Verdict{}
}

// again reports whether a sequence is one of the transaction that was aborted
// last, and nothing came since: its client may not know that it was appended, and
// use it for something else.
func (st *state) again(sequence int32) bool {
	return st.rewound && addSequence(sequence, -st.first) <= addSequence(st.lastSequence, -st.first)
}

// Appended remembers a batch that Judge let pass and that was given the base
// offset base (-1 if it was accepted without one), at the time and index of the
// entry that carries it. It allocates nothing for a producer that is known.
func (m *Machine) Appended(p entry.Partition, b Batch, base entry.Offset, at entry.Time, index entry.Index) {
	if b.ProducerID < 0 {
		return
	}
	k := key{p, b.ProducerID}
	s := m.find(k)
	m.mu.Lock()
	defer m.mu.Unlock()
	var st *state
	if s != none {
		st = m.table.at(s)
		if b.ProducerEpoch != st.epoch || m.expired(st, at) {
			st.count = 0
			st.first = b.BaseSequence
		}
		m.table.touch(s)
	} else {
		s, st = m.table.add(k)
		m.last = s // find has set lastKey
	}
	st.push(b, base, at, index)
	st.rewound = false
	if b.Transactional && !st.open {
		st.first = b.BaseSequence
		m.table.setOpen(s, true)
	}
	m.save(s, st)
	// Two at most, so that a limit that was lowered is reached without a pause;
	// never the producer at hand, which is the newest.
	for i := 0; i < 2 && m.table.count > m.limits.Producers; i++ {
		if oldest := m.table.oldest; oldest != none && oldest != s {
			m.forget(oldest)
		}
	}
}

// save makes the next checkpoint write the state.
func (m *Machine) save(s slot, st *state) {
	if !st.unsaved {
		st.unsaved = true
		m.unsaved = append(m.unsaved, s)
	}
}

// duplicate returns which of the remembered batches has the same first and last
// sequence as b, whose epoch is the remembered one.
func (st *state) duplicate(b Batch) (int, bool) {
	last := st.lastSequence
	for i := range int(st.count) {
		first := addSequence(last, -st.deltas[i])
		if b.BaseSequence == first && b.LastOffsetDelta == st.deltas[i] {
			return i, true
		}
		last = addSequence(first, -1)
	}
	return 0, false
}

// push makes b the newest batch, and lets the oldest go if there are too many.
func (st *state) push(b Batch, base entry.Offset, at entry.Time, index entry.Index) {
	copy(st.offsets[1:], st.offsets[:])
	copy(st.times[1:], st.times[:])
	copy(st.deltas[1:], st.deltas[:])
	st.offsets[0], st.times[0], st.deltas[0] = base, at, b.LastOffsetDelta
	st.lastSequence = addSequence(b.BaseSequence, b.LastOffsetDelta)
	st.epoch = b.ProducerEpoch
	st.lastEntry, st.lastTime = index, at
	st.count = min(st.count+1, batchesKept)
}

// addSequence returns the sequence that is delta places after sequence, which
// counts modulo 2^31.
func addSequence(sequence, delta int32) int32 {
	return int32((uint32(sequence) + uint32(delta)) & math.MaxInt32)
}
