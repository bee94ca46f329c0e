package state

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sluicemq/sluice/log/entry"
)

// Batch gathers changes until Checkpoint commits them. It is an entry.Writer,
// and an entry.Reader that sees what it gathered on top of what is committed.
// There is one at a time, and it belongs to one goroutine, the apply loop.
type Batch struct {
	store *Store
	batch *pebble.Batch
	value io.Closer // holds the value that Get gave last
	err   error     // sticky: the first error of a write, returned by Checkpoint
}

// NewBatch returns an empty batch.
func (s *Store) NewBatch() *Batch {
	return &Batch{store: s, batch: s.db.NewIndexedBatch()}
}

// Set stores the value of a key. Both are copied.
func (b *Batch) Set(key, value []byte) { b.keep(b.batch.Set(key, value, nil)) }

// Delete removes a key, if it is there.
func (b *Batch) Delete(key []byte) { b.keep(b.batch.Delete(key, nil)) }

// DeleteRange removes all keys k with from <= k < to.
func (b *Batch) DeleteRange(from, to []byte) { b.keep(b.batch.DeleteRange(from, to, nil)) }

func (b *Batch) keep(err error) {
	if err != nil && b.err == nil {
		b.err = err
	}
}

// Get returns the value of a key, valid until the next call of Get.
func (b *Batch) Get(key []byte) (value []byte, ok bool, err error) {
	b.release()
	value, b.value, err = b.batch.Get(key)
	if err == pebble.ErrNotFound {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read state: %w", damage(err))
	}
	return value, true, nil
}

func (b *Batch) release() {
	if b.value != nil {
		_ = b.value.Close() // gives memory back
		b.value = nil
	}
}

// Scan calls visit for each key k with from <= k < to, in order, until it
// returns false. Visit may write to the batch; Scan does not see that.
func (b *Batch) Scan(from, to []byte, visit func(key, value []byte) bool) error {
	it, err := b.batch.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	return scan(it, err, visit)
}

// Len returns how many bytes of changes the batch holds, 0 for none.
func (b *Batch) Len() int {
	if b.batch.Empty() {
		return 0
	}
	return b.batch.Len()
}

// Checkpoint commits what the batch holds, as the state after the entry with
// index applied, and empties it. All of it becomes visible, and later durable,
// together with the index, or not at all. The log must be durable to applied.
// Applied must not be below that of the checkpoint before. While the disk cannot
// take what is in memory, Checkpoint waits. After an error the batch is as it
// was, unless the store is dead.
func (b *Batch) Checkpoint(applied entry.Index) error {
	s := b.store
	if err := s.usable(); err != nil {
		return err
	}
	if b.err != nil {
		return fmt.Errorf("checkpoint of state at %d: %w", applied, b.err)
	}
	if before := s.Applied(); applied < before {
		return fmt.Errorf("checkpoint of state at %d: it is at %d already", applied, before)
	}
	b.release()
	b.Set(appliedKey, binary.BigEndian.AppendUint64(nil, uint64(applied)))
	if err := b.commit(); err != nil {
		return fmt.Errorf("checkpoint of state at %d: %w", applied, err)
	}
	s.applied.Store(uint64(applied))
	_ = b.batch.Close() // gives memory back
	b.batch = s.db.NewIndexedBatch()
	return nil
}

// commit gives the batch to Pebble. That may wait for a flush, which never comes
// if the store dies meanwhile: so it has a goroutine of its own, which ends with
// the commit, or is given up together with the batch.
func (b *Batch) commit() error {
	s, batch := b.store, b.batch
	done := make(chan error, 1)
	go func() { done <- s.db.Apply(batch, pebble.NoSync) }()
	select {
	case err := <-done:
		return err
	case <-s.died:
		b.batch = s.db.NewIndexedBatch()
		return s.deadError()
	}
}

// Close drops the batch with what it holds.
func (b *Batch) Close() {
	b.release()
	_ = b.batch.Close() // gives memory back
}
