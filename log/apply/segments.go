package apply

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/state"
)

// What the state store keeps of segments: the ConsumeQueue entries of those
// that have no index file yet (tail records), that the others have one, and
// which are gone on purpose.

// SegmentState is what a start finds of a segment.
type SegmentState uint8

// The states of segments.
const (
	SegmentGone    SegmentState = iota // it is not there
	SegmentOpen                        // it is there, without an index file
	SegmentIndexed                     // its index file is attached
)

// LoadQueues restores the bounds of the partitions, and the tails of segments
// that have no index file. Index files must have been attached before. An error
// that wraps consumequeue.ErrCorrupt or state.ErrCorrupt says what is wrong: an
// index file that was there once and is missing among them.
func (l *Loop) LoadQueues(segments func(number uint32) SegmentState) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.loadBounds(); err != nil {
		return err
	}
	var done []uint32 // with tail records that are not needed any more
	from, to := all(state.PrefixTail)
	err := l.scan(from, to, func(key, value []byte) error {
		if len(key) != tailKeySize {
			return fmt.Errorf("%w: tail records: key %x", state.ErrCorrupt, key)
		}
		number := binary.BigEndian.Uint32(key[1:])
		marker := binary.BigEndian.Uint64(key[5:]) == 0
		switch found := segments(number); {
		case found == SegmentOpen && marker:
			return fmt.Errorf("%w: %s is missing", consumequeue.ErrCorrupt, consumequeue.FileName(number))
		case found == SegmentOpen:
			return l.options.Queues.RestoreTail(number, value)
		case found == SegmentIndexed && marker:
		case len(done) == 0 || done[len(done)-1] != number:
			done = append(done, number) // a crash came before the records were dropped
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, number := range done {
		l.dropTail(number)
		if segments(number) == SegmentIndexed {
			l.batch.Set(sealedKey(number), nil)
		}
	}
	return nil
}

// saveTail adds the ConsumeQueue entries since the last checkpoint to the state
// batch, so that a restart need not judge again what was judged.
func (l *Loop) saveTail() {
	l.tail = l.options.Queues.DrainNew(l.segment, l.tail[:0])
	if len(l.tail) > 0 {
		l.batch.Set(tailKey(l.segment, l.Applied()), l.tail)
	}
}

// Indexed notes that a segment has a durable index file, and forgets its tail
// records. A start without the file will be refused.
func (l *Loop) Indexed(number uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropTail(number)
	l.batch.Set(sealedKey(number), nil)
}

func (l *Loop) dropTail(number uint32) { l.batch.DeleteRange(tailKey(number, 0), behindTail(number)) }

// Free notes that a segment is gone on purpose, so that a start neither misses
// it nor finds a part of it. It is durable with the next checkpoint and flush.
func (l *Loop) Free(number uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropTail(number)
	l.batch.Set(freedKey(number), nil)
}

// Freed are the segments that are gone on purpose: all up to one, and some more.
type Freed struct {
	UpTo uint32 // 0 for none
	More []uint32
}

// Has reports whether a segment is gone on purpose.
func (f *Freed) Has(number uint32) bool {
	_, ok := slices.BinarySearch(f.More, number)
	return ok || number <= f.UpTo
}

// fromFirst is the value of the key that stands for its segment and all before
// it. The value of others is empty.
const fromFirst = 1

// Freed returns the segments that Free was called for. From the oldest on they
// become one key.
func (l *Loop) Freed() (Freed, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var freed Freed
	from, to := all(state.PrefixFreed)
	err := l.scan(from, to, func(key, value []byte) error {
		if len(key) != freedKeySize || len(value) > 1 || len(value) == 1 && value[0] != fromFirst {
			return fmt.Errorf("%w: freed segment: key %x, value %x", state.ErrCorrupt, key, value)
		}
		number := binary.BigEndian.Uint32(key[1:])
		if len(value) == 1 {
			freed.UpTo, freed.More = number, nil
		} else {
			freed.More = append(freed.More, number)
		}
		return nil
	})
	if err != nil {
		return Freed{}, err
	}
	before := freed.UpTo
	for len(freed.More) > 0 && freed.More[0] == freed.UpTo+1 {
		freed.UpTo++
		freed.More = freed.More[1:]
	}
	if freed.UpTo > before {
		l.batch.DeleteRange(freedKey(0), freedKey(freed.UpTo))
		l.batch.Set(freedKey(freed.UpTo), []byte{fromFirst})
	}
	return freed, nil
}
