package apply

import (
	"encoding/binary"
	"fmt"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/state"
)

// What the state store keeps of a partition beside its batches: where it
// begins, and where it ends even when retention has removed every batch.

const boundsSize = 16

func (l *Loop) saveBounds(p entry.Partition, start, end entry.Offset) {
	var value [boundsSize]byte
	binary.LittleEndian.PutUint64(value[:], uint64(start))
	binary.LittleEndian.PutUint64(value[8:], uint64(end))
	l.batch.Set(queueKey(p), value[:])
}

// SaveBounds stores the bounds of partitions whose batches in a segment are
// about to be removed. It is durable with the next checkpoint and flush.
func (l *Loop) SaveBounds(partitions []entry.Partition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range partitions {
		if queue := l.options.Queues.Get(p); queue != nil {
			start, end := queue.Bounds()
			l.saveBounds(p, start, end)
		}
	}
}

// LoadQueues restores the bounds of the partitions, and the tails of segments
// that have no index file yet. Index files must have been attached before;
// sealed tells which segments have one.
func (l *Loop) LoadQueues(sealed func(segment uint32) bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var failed error
	from, to := all(state.PrefixQueue)
	err := l.batch.Scan(from, to, func(key, value []byte) bool {
		if len(key) != len(queueKey(0)) || len(value) != boundsSize {
			failed = fmt.Errorf("%w: bounds of a partition: key %x has %d bytes", state.ErrCorrupt, key, len(value))
			return false
		}
		p := entry.Partition(binary.BigEndian.Uint64(key[1:]))
		if queue := l.options.Queues.Get(p); queue != nil {
			queue.Restore(entry.Offset(binary.LittleEndian.Uint64(value)), entry.Offset(binary.LittleEndian.Uint64(value[8:])))
		}
		return true
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return err
	}
	from, to = all(state.PrefixTail)
	err = l.batch.Scan(from, to, func(key, value []byte) bool {
		if len(key) != len(tailKey(0, 0)) {
			failed = fmt.Errorf("%w: tail records: key %x", state.ErrCorrupt, key)
			return false
		}
		if segment := binary.BigEndian.Uint32(key[1:]); !sealed(segment) {
			failed = l.options.Queues.RestoreTail(segment, value)
		}
		return failed == nil
	})
	if err == nil {
		err = failed
	}
	return err
}

// saveTail adds the ConsumeQueue entries since the last checkpoint to the state
// batch, so that a restart need not judge again what was judged.
func (l *Loop) saveTail() {
	l.tail = l.options.Queues.DrainNew(l.segment, l.tail[:0])
	if len(l.tail) > 0 {
		l.batch.Set(tailKey(l.segment, l.applied), l.tail)
	}
}

// DropTail forgets the tail records of a segment whose index file is durable.
func (l *Loop) DropTail(segment uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batch.DeleteRange(tailKey(segment, 0), tailKey(segment+1, 0))
}

// Free notes that a segment is gone on purpose, so that a start neither misses
// it nor finds a part of it. It is durable with the next checkpoint and flush.
func (l *Loop) Free(segment uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batch.Set(freedKey(segment), nil)
}

// Freed returns the segments that Free was called for, in order, and forgets
// those below the oldest that is kept: nobody will ask for them.
func (l *Loop) Freed(oldest uint32) ([]uint32, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var segments []uint32
	from, to := all(state.PrefixFreed)
	err := l.batch.Scan(from, to, func(key, _ []byte) bool {
		if len(key) == len(freedKey(0)) {
			segments = append(segments, binary.BigEndian.Uint32(key[1:]))
		}
		return true
	})
	l.batch.DeleteRange(freedKey(0), freedKey(oldest))
	return segments, err
}
