package log

import (
	"errors"
	"fmt"

	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/segment"
	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// findAtOnce is how many batches are looked up at a time.
const findAtOnce = 64

// Batches gathers what reads found: whole record batches, with their heads as
// clients expect them. The zero value is empty. It belongs to one goroutine.
type Batches struct {
	// Pieces are the record batches, one or more in each piece, in the order in
	// which they were read. They are valid until Release and must not be written to.
	Pieces [][]byte
	// Bytes is the size of all pieces.
	Bytes int

	log     *Log
	slices  []commitlog.Slice
	buffers []*[]byte
	small   []byte // the used part of the last of buffers, where it holds control batches
	found   [findAtOnce]consumequeue.Located
}

// Release gives the memory of all pieces back.
func (b *Batches) Release() {
	for _, s := range b.slices {
		s.Release()
	}
	for _, buffer := range b.buffers {
		b.log.buffers.put(buffer)
	}
	clear(b.Pieces)
	clear(b.slices)
	clear(b.buffers)
	b.Pieces, b.slices, b.buffers, b.small, b.Bytes = b.Pieces[:0], b.slices[:0], b.buffers[:0], nil, 0
}

// Read adds record batches of a partition to b: from the one that holds the
// offset from, in order, as long as their base offset is below to and they take
// at most maxBytes together. The first batch is added whatever its size if
// whole is set, so that a consumer always gets on. It returns the number of
// bytes added.
//
// The errors carry Kafka's codes: OFFSET_OUT_OF_RANGE below the log start or
// above the end, UNKNOWN_TOPIC_OR_PARTITION for a partition that is gone,
// KAFKA_STORAGE_ERROR for what cannot be read. What was added before an error
// of the last kind stays.
func (l *Log) Read(p entry.Partition, from, to entry.Offset, maxBytes int, whole bool, b *Batches) (int, error) {
	queue := l.queues.Get(p)
	if queue == nil {
		return 0, gone()
	}
	b.log = l
	added := 0
	missed := entry.Offset(-1) // the batch of which the segment was freed while it was looked up
	for maxBytes > 0 || whole {
		found, err := queue.Find(from, to, maxBytes, b.found[:0])
		if err == nil && len(found) == 0 && from < to && l.closed() {
			err = errClosed()
		}
		if len(found) > 0 && !whole && int(found[0].Size) > maxBytes {
			return added, nil
		}
		for rest := found; len(rest) > 0; {
			had := b.Bytes
			var n int
			if n, err = l.readSome(rest, b); err != nil {
				break
			}
			added += b.Bytes - had
			maxBytes -= b.Bytes - had
			from, whole = rest[n-1].End(), false
			rest = rest[n:]
		}
		switch {
		case errors.Is(err, commitlog.ErrGone) && from != missed:
			missed = from // if it is not below the start by now, something is wrong
		case err != nil && added > 0:
			return added, nil
		case err != nil:
			return 0, readRefusal(err)
		case len(found) < cap(b.found):
			return added, nil
		}
	}
	return added, nil
}

// readOne adds one batch, from the tail of the log in memory or from its file.
func (l *Log) readOne(at *consumequeue.Located, b *Batches) error {
	if at.Tags&consumequeue.Control != 0 {
		return l.readControl(at, b)
	}
	if slice, ok := l.cached(at); ok {
		b.addSlice(slice)
		return nil
	}
	buffer := l.buffers.get(int(at.Size))
	if err := l.commits.ReadPayload(at.Pos(), *buffer); err != nil {
		l.buffers.put(buffer)
		return err
	}
	l.patch(*buffer, at)
	b.buffers = append(b.buffers, buffer)
	b.Pieces = append(b.Pieces, *buffer)
	b.Bytes += len(*buffer)
	return nil
}

func (b *Batches) addSlice(slice commitlog.Slice) {
	b.slices = append(b.slices, slice)
	b.Pieces = append(b.Pieces, slice.Bytes)
	b.Bytes += len(slice.Bytes)
}

// readControl adds a control batch: the head of its entry's payload. Partitions
// share it, so that each reader gets a copy, in a buffer for many.
func (l *Log) readControl(at *consumequeue.Located, b *Batches) error {
	var payload []byte
	if slice, ok := l.commits.Cached(at.Pos(), int(at.Size)); ok {
		defer slice.Release()
		payload = slice.Bytes
	} else {
		buffer := l.buffers.get(int(at.Size))
		defer l.buffers.put(buffer)
		if err := l.commits.ReadPayload(at.Pos(), *buffer); err != nil {
			return err
		}
		payload = *buffer
	}
	head, _, err := batch.Split(payload)
	if err != nil {
		return fmt.Errorf("control batch at %v: %w: %v", at.Pos(), segment.ErrCorrupt, err)
	}
	if len(b.small)+len(head) > cap(b.small) {
		buffer := l.buffers.get(max(len(head), 1<<minBufferBits))
		b.buffers = append(b.buffers, buffer)
		b.small = (*buffer)[:0]
	}
	from := len(b.small)
	b.small = append(b.small, head...)
	piece := b.small[from:len(b.small):len(b.small)]
	l.patch(piece, at)
	b.Pieces = append(b.Pieces, piece)
	b.Bytes += len(piece)
	return nil
}

// patch gives a batch that was read from disk the head that apply gave it.
func (l *Log) patch(payload []byte, at *consumequeue.Located) {
	head := batch.Header(payload)
	head.SetBaseOffset(int64(at.BaseOffset))
	head.SetLeaderEpoch(LeaderEpoch)
}

// LeaderEpoch is the leader epoch of every partition: the term of a log that
// never changed leader, counted from 0 as Kafka does.
const LeaderEpoch int32 = 0

func readRefusal(err error) error {
	switch {
	case kerr.Of(err) != kerr.UnknownServerError:
		return err
	case errors.Is(err, consumequeue.ErrOutOfRange):
		return kerr.New(kerr.OffsetOutOfRange, "the offset is outside the partition's log")
	case errors.Is(err, consumequeue.ErrDeleted):
		return gone()
	default:
		return kerr.New(kerr.KafkaStorageError, "%v", err)
	}
}
