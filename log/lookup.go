package log

import (
	"errors"

	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// Found is a record found by its time; Offset is -1 when there is none.
type Found struct {
	Offset entry.Offset
	Time   entry.Time
}

var nothing = Found{Offset: -1, Time: -1}

// FindTime returns the first record of a partition, in the order of offsets,
// whose timestamp is at or after t.
func (l *Log) FindTime(p entry.Partition, t entry.Time) (Found, error) {
	return l.lookUp(p, func(queue *consumequeue.Queue, start entry.Offset) (Found, error) {
		for from := start; ; {
			at, ok, err := queue.FindTime(t, from)
			if err != nil || !ok {
				return nothing, err
			}
			found := nothing
			err = l.eachRecord(&at, start, func(r Found) bool {
				if r.Time >= t {
					found = r
				}
				return found.Offset < 0
			})
			if err != nil || found.Offset >= 0 {
				return found, err
			}
			from = at.End()
		}
	})
}

// MaxTime returns the record with the largest timestamp of a partition, the
// first of them when there are several.
func (l *Log) MaxTime(p entry.Partition) (Found, error) {
	return l.lookUp(p, func(queue *consumequeue.Queue, start entry.Offset) (Found, error) {
		best := nothing
		at, ok, err := queue.MaxTimestamp()
		// The batch that holds the start may have its largest timestamp before it.
		// Then the rest of it counts, and what comes behind with a larger one.
		for first := true; ok && err == nil; first = false {
			err = l.eachRecord(&at, start, func(r Found) bool {
				if r.Time > best.Time {
					best = r
				}
				return best.Time < at.MaxTimestamp
			})
			if err != nil || first && best.Time >= at.MaxTimestamp {
				break
			}
			at, ok, err = queue.FindTime(best.Time+1, at.End())
		}
		return best, err
	})
}

// lookUp calls look, with the partition's start offset, and again when the start
// was moved and the segment that look was in freed meanwhile.
func (l *Log) lookUp(p entry.Partition, look func(queue *consumequeue.Queue, start entry.Offset) (Found, error)) (Found, error) {
	queue := l.queues.Get(p)
	if queue == nil {
		return nothing, gone()
	}
	for {
		start, _ := queue.Bounds()
		found, err := look(queue, start)
		if err == nil && found.Offset < 0 && l.closed() {
			err = errClosed()
		}
		if err == nil {
			return found, nil
		}
		if again, _ := queue.Bounds(); errors.Is(err, commitlog.ErrGone) && again > start {
			continue
		}
		if kerr.Of(err) == kerr.UnknownServerError {
			err = readRefusal(err)
		}
		return nothing, err
	}
}

// eachRecord reads a batch and calls visit for its records from the offset start
// on, until visit returns false.
func (l *Log) eachRecord(at *consumequeue.Located, start entry.Offset, visit func(Found) bool) error {
	b := Batches{log: l}
	defer b.Release()
	if err := l.readOne(at, &b); err != nil {
		return err
	}
	records := l.codecs.Records(b.Pieces[0])
	defer records.Close()
	for records.Next() {
		r := records.Record()
		offset := at.BaseOffset + entry.Offset(r.OffsetDelta)
		if offset >= start && !visit(Found{Offset: offset, Time: entry.Time(r.Timestamp)}) {
			break
		}
	}
	return records.Err()
}
