package log

import (
	"errors"

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
	queue := l.queues.Get(p)
	if queue == nil {
		return nothing, gone()
	}
	start, _ := queue.Bounds()
	for from := start; ; {
		at, ok, err := queue.FindTime(t, from)
		if err != nil || !ok {
			return nothing, lookupRefusal(err)
		}
		found, err := l.inBatch(&at, func(r Found) bool { return r.Offset >= start && r.Time >= t })
		if err != nil || found.Offset >= 0 {
			return found, lookupRefusal(err)
		}
		from = at.End()
	}
}

// MaxTime returns the record with the largest timestamp of a partition, the
// first of them when there are several.
func (l *Log) MaxTime(p entry.Partition) (Found, error) {
	queue := l.queues.Get(p)
	if queue == nil {
		return nothing, gone()
	}
	at, ok, err := queue.MaxTimestamp()
	if err != nil || !ok {
		return nothing, lookupRefusal(err)
	}
	found, err := l.inBatch(&at, func(r Found) bool { return r.Time >= at.MaxTimestamp })
	return found, lookupRefusal(err)
}

// inBatch reads a batch and returns its first record that is wanted.
func (l *Log) inBatch(at *consumequeue.Located, wanted func(Found) bool) (Found, error) {
	b := Batches{log: l}
	defer b.Release()
	if err := l.readOne(at, &b); err != nil {
		return nothing, err
	}
	records := l.codecs.Records(b.Pieces[0])
	defer records.Close()
	for records.Next() {
		r := records.Record()
		found := Found{Offset: at.BaseOffset + entry.Offset(r.OffsetDelta), Time: entry.Time(r.Timestamp)}
		if wanted(found) {
			return found, nil
		}
	}
	return nothing, records.Err()
}

func lookupRefusal(err error) error {
	if err == nil || errors.Is(err, consumequeue.ErrOutOfRange) {
		return nil // the start moved past the place while we looked
	}
	if kerr.Of(err) != kerr.UnknownServerError {
		return err
	}
	return readRefusal(err)
}
