package apply

import (
	"encoding/binary"
	"fmt"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/state"
)

// What the state store keeps of a partition beside its batches: where it
// begins, and where it ended when that was set. It is written when the start
// moves, and that is enough: as long as start and end differ, the batches
// between them tell the end, and from the moment they are equal until the next
// batch they are what the last move stored, even when every batch is gone.

const boundsSize = 16

func (l *Loop) saveBounds(p entry.Partition, start, end entry.Offset) {
	var value [boundsSize]byte
	binary.LittleEndian.PutUint64(value[:], uint64(start))
	binary.LittleEndian.PutUint64(value[8:], uint64(end))
	l.batch.Set(queueKey(p), value[:])
}

// loadBounds restores the bounds of the partitions.
func (l *Loop) loadBounds() error {
	from, to := all(state.PrefixQueue)
	return l.scan(from, to, func(key, value []byte) error {
		if len(key) != queueKeySize || len(value) != boundsSize {
			return fmt.Errorf("%w: bounds of a partition: key %x has %d bytes", state.ErrCorrupt, key, len(value))
		}
		p := entry.Partition(binary.BigEndian.Uint64(key[1:]))
		start := entry.Offset(binary.LittleEndian.Uint64(value))
		end := entry.Offset(binary.LittleEndian.Uint64(value[8:]))
		if start < 0 || end < start {
			return fmt.Errorf("%w: partition %d has bounds %d and %d", state.ErrCorrupt, p, start, end)
		}
		if queue := l.options.Queues.Get(p); queue != nil {
			queue.Restore(start, end)
		}
		return nil
	})
}

// scan is Scan for a function that can fail.
func (l *Loop) scan(from, to []byte, visit func(key, value []byte) error) error {
	var failed error
	err := l.batch.Scan(from, to, func(key, value []byte) bool {
		failed = visit(key, value)
		return failed == nil
	})
	if err == nil {
		err = failed
	}
	return err
}
