package kafka

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/sluicemq/sluice/log/entry"
)

// Checkpoint writes to w what changed since the last checkpoint, but for what Apply
// wrote. The state batch must then be committed: the machine takes it for done.
func (m *Machine) Checkpoint(w entry.Writer) {
	for _, id := range m.gone {
		w.Delete(transactionKey(id)) // before the values: an id may be back
	}
	var value []byte
	for _, t := range m.unsaved {
		if !t.unsaved {
			continue // forgotten since
		}
		// saved and unsaved are the apply loop's own, so the lock is not needed.
		t.unsaved, t.saved = false, true
		value = t.appendValue(value[:0])
		w.Set(transactionKey(t.id), value)
	}
	clear(m.unsaved)
	m.unsaved, m.gone = m.unsaved[:0], m.gone[:0]
}

// Load reads the state that checkpoints have written. It must be called on a new
// machine, and before any other method. After an error the machine is not to be
// used.
func (m *Machine) Load(r entry.Reader) error {
	if err := m.load(r); err != nil {
		return fmt.Errorf("load transactions: %w", err)
	}
	return nil
}

func (m *Machine) load(r entry.Reader) error {
	var bad error
	from, to := kindRange(kindTransactions)
	err := r.Scan(from, to, func(k, v []byte) bool {
		bad = m.loadTransaction(k, v)
		return bad == nil
	})
	if err := errors.Join(err, bad); err != nil {
		return err
	}
	for p, in := range m.partitions {
		slices.SortFunc(in.open, func(a, b Open) int { return cmp.Compare(a.First, b.First) })
		for i := 1; i < len(in.open); i++ {
			if in.open[i].First == in.open[i-1].First {
				return fmt.Errorf("%w: two transactions begin at offset %d of partition %d", ErrCorrupt, in.open[i].First, p)
			}
		}
	}
	from, to = kindRange(kindAborted)
	err = r.Scan(from, to, func(k, v []byte) bool {
		bad = m.loadAborted(k, v)
		return bad == nil
	})
	return errors.Join(err, bad)
}

func (m *Machine) loadTransaction(k, v []byte) error {
	t, err := decodeTransaction(string(k[2:]), v)
	if err != nil {
		return err
	}
	if other := m.byProducer[t.producerID]; other != nil {
		return fmt.Errorf("%w: transactional ids %q and %q have producer id %d", ErrCorrupt, other.id, t.id, t.producerID)
	}
	m.byID[t.id], m.byProducer[t.producerID] = t, t
	if t.state != Ongoing {
		return nil
	}
	m.ongoing[t] = struct{}{}
	for p, first := range t.partitions {
		if first != noOffset {
			m.begin(p, t.producerID, first)
		}
	}
	for g, offsets := range t.groups {
		if offsets != nil {
			m.join(t, g)
		}
	}
	return nil
}

// loadAborted takes one key. They come in the order of the markers.
func (m *Machine) loadAborted(k, v []byte) error {
	p, last, err := decodeAbortedKey(k)
	if err != nil {
		return err
	}
	a, err := decodeAborted(last, v)
	if err != nil {
		return fmt.Errorf("partition %d, marker at %d: %w", p, last, err)
	}
	in := m.at(p)
	in.aborted = append(in.aborted, a)
	return nil
}
