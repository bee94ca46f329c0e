package producer

import (
	"errors"
	"fmt"

	"github.com/sluicemq/sluice/log/entry"
)

// Errors that Load wraps.
var (
	// ErrCorrupt says that a key or value of the state store is none that
	// Checkpoint can have written.
	ErrCorrupt = errors.New("producer state is damaged")
	// ErrNewer says that a value was written by a later version of this package.
	ErrNewer = errors.New("producer state is of a newer version")
)

// Unsaved returns about how many keys Checkpoint would write or delete. The
// apply loop may use it to make a checkpoint before that gets out of hand.
func (m *Machine) Unsaved() int {
	return len(m.unsaved) + len(m.gone) + len(m.dropped)
}

// Checkpoint writes to w what changed since the last checkpoint. The state
// batch must then be committed: the machine takes it for done.
func (m *Machine) Checkpoint(w entry.Writer) {
	var kb [producerKeyBytes]byte
	for _, p := range m.dropped {
		from, to := partitionRange(p)
		w.DeleteRange(from, to)
	}
	// Before the values, since a producer may be back after it was forgotten.
	for _, k := range m.gone {
		w.Delete(appendProducerKey(kb[:0], k))
	}
	if m.meta {
		w.Set(metaKey(), encodeMeta(m.nextID, m.limits))
	}
	var vb [maxValueBytes]byte
	for _, s := range m.unsaved {
		st := m.table.at(s)
		if !st.unsaved {
			continue // removed since, or seen before
		}
		// saved and unsaved are read by the apply loop alone, so mu is not needed.
		st.unsaved, st.saved = false, true
		w.Set(appendProducerKey(kb[:0], key{st.partition, st.id}), st.appendValue(vb[:0]))
	}
	m.unsaved = reuse(m.unsaved)
	m.gone = reuse(m.gone)
	m.dropped = reuse(m.dropped)
	m.meta = false
}

// reuse empties a list, and lets go of its memory if it grew unusually long.
func reuse[T any](list []T) []T {
	const keep = 1 << 16
	if cap(list) > keep {
		return nil
	}
	return list[:0]
}

// Load reads the state that checkpoints have written. It must be called on a
// new machine, and before any other method. After an error the machine is not to
// be used.
func (m *Machine) Load(r entry.Reader) error {
	if err := m.loadMeta(r); err != nil {
		return err
	}
	var bad error
	from, to := producersRange()
	err := r.Scan(from, to, func(k, v []byte) bool {
		bad = m.loadProducer(k, v)
		return bad == nil
	})
	if err = errors.Join(err, bad); err != nil {
		return fmt.Errorf("load producers: %w", err)
	}
	// The list must be as it was, since it decides who is forgotten.
	m.table.sortBySilence()
	return nil
}

func (m *Machine) loadProducer(k, v []byte) error {
	id, err := decodeProducerKey(k)
	if err != nil {
		return err
	}
	loaded := state{partition: id.partition, id: id.id, saved: true}
	if err := loaded.decodeValue(v); err != nil {
		return fmt.Errorf("producer id %d of partition %d: %w", id.id, id.partition, err)
	}
	_, st := m.table.add(id)
	if loaded.open {
		m.table.unlink(st)
		st.older, st.newer = none, none
	}
	loaded.older, loaded.newer, loaded.prev, loaded.next = st.older, st.newer, st.prev, st.next
	*st = loaded
	return nil
}

func (m *Machine) loadMeta(r entry.Reader) error {
	v, ok, err := r.Get(metaKey())
	if err == nil && ok {
		m.nextID, m.limits, err = decodeMeta(v)
	}
	if err != nil {
		return fmt.Errorf("load the next producer id: %w", err)
	}
	return nil
}
