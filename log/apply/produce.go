package apply

import (
	"math"

	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// produce appends a record batch to its partition, or says why not.
//
// The head of the batch is patched in memory, where the tail of the log is
// served from: base offset and leader epoch lie outside the batch's CRC. On
// disk the client's bytes stay, and readers from disk patch their own copy.
func (l *Loop) produce(c *commitlog.Committed) entry.Result {
	queue := l.options.Queues.Get(c.Partition)
	if queue == nil {
		return refuse(kerr.New(kerr.UnknownTopicOrPartition, "the topic was deleted"))
	}
	head := batch.Header(c.Payload)
	if len(head) < batch.HeaderSize || head.Size() != len(head) || head.LastOffsetDelta() < 0 {
		return refuse(kerr.New(kerr.CorruptMessage, "entry %d holds no record batch", c.Index))
	}
	start, base := queue.Bounds()
	count := uint32(head.LastOffsetDelta()) + 1
	if base > math.MaxInt64-entry.Offset(count) {
		return refuse(kerr.New(kerr.InvalidRecord, "the partition has no offsets left for %d records", count))
	}
	idempotent := head.ProducerID() >= 0
	if idempotent {
		verdict := l.options.Judge.Judge(c.Partition, head, &c.Entry)
		if verdict.Err != nil {
			return refuse(verdict.Err)
		}
		if verdict.Duplicate {
			return entry.Result{Offset: verdict.Offset, Time: l.answeredTime(queue, head, verdict.Offset), LogStart: start}
		}
	}
	head.SetBaseOffset(int64(base))
	head.SetLeaderEpoch(l.options.LeaderEpoch)
	if idempotent {
		// Before readers can see the batch: they ask up to where transactions are open
		// when they know the end.
		l.options.Judge.Appended(c.Partition, head, base, &c.Entry)
	}
	queue.Put(c.Pos.Segment(), consumequeue.Entry{
		BaseOffset:   base,
		MaxTimestamp: entry.Time(head.MaxTimestamp()),
		At:           c.Pos.At(),
		Size:         uint32(len(c.Payload)),
		Count:        count,
	})
	l.options.Hub.Notify(c.Partition)
	return entry.Result{Offset: base, Time: appendTime(head), LogStart: start}
}

// appendTime is the time in a produce answer: that of the broker where the
// topic asks for it, else -1.
func appendTime(head batch.Header) entry.Time {
	if head.Attributes().Has(batch.LogAppendTime) {
		return entry.Time(head.MaxTimestamp())
	}
	return -1
}

// answeredTime returns the append time with which the first attempt of a
// repeated batch was answered. The ConsumeQueue remembers it; when retention
// has removed the batch, the time of the repetition is as good as any.
func (l *Loop) answeredTime(queue *consumequeue.Queue, head batch.Header, base entry.Offset) entry.Time {
	if !head.Attributes().Has(batch.LogAppendTime) {
		return -1
	}
	found, err := queue.Find(base, base+1, 1, l.found[:0])
	if err == nil && len(found) == 1 && found[0].BaseOffset == base {
		return found[0].MaxTimestamp
	}
	return entry.Time(head.MaxTimestamp())
}

func refuse(err error) entry.Result {
	return entry.Result{Err: err, Offset: -1, Time: -1, LogStart: -1}
}
