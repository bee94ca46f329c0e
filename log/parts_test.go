package log_test

import (
	"encoding/binary"
	"fmt"

	"github.com/sluicemq/sluice/log/apply"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/protocol/kerr"
	"github.com/sluicemq/sluice/txn/producer"
)

// partitions is the smallest part that makes and deletes partitions: an entry
// of TypeCreateTopic creates its partition, one of TypeDeleteTopic deletes it.
type partitions struct{ live map[entry.Partition]bool }

func partitionKey(p entry.Partition) []byte {
	return binary.BigEndian.AppendUint64([]byte{'c'}, uint64(p))
}

func (*partitions) Types() []entry.Type {
	return []entry.Type{entry.TypeCreateTopic, entry.TypeDeleteTopic}
}

func (s *partitions) Load(r entry.Reader, tx apply.Tx) error {
	s.live = map[entry.Partition]bool{}
	return r.Scan([]byte{'c'}, []byte{'d'}, func(key, _ []byte) bool {
		p := entry.Partition(binary.BigEndian.Uint64(key[1:]))
		s.live[p] = true
		tx.CreatePartition(p)
		return true
	})
}

func (s *partitions) Apply(e *entry.Entry, tx apply.Tx) entry.Result {
	create := e.Type == entry.TypeCreateTopic
	if len(e.Payload) > 0 {
		return entry.Result{Err: fmt.Errorf("entry %d has a payload", e.Index)} // cannot be read
	}
	if create == s.live[e.Partition] {
		return entry.Result{Err: kerr.New(kerr.InvalidTopic, "partition %d: %v", e.Partition, create)}
	}
	if create {
		s.live[e.Partition] = true
		tx.Set(partitionKey(e.Partition), nil)
		tx.CreatePartition(e.Partition)
	} else {
		delete(s.live, e.Partition)
		tx.Delete(partitionKey(e.Partition))
		tx.DeletePartition(e.Partition)
	}
	return entry.Result{}
}

func (*partitions) Checkpoint(entry.Writer) {}

// producers is the real judge of idempotent producers, as the broker wires it.
type producers struct{ *producer.Machine }

func (p producers) Load(r entry.Reader, _ apply.Tx) error { return p.Machine.Load(r) }

func (p producers) Apply(e *entry.Entry, tx apply.Tx) entry.Result { return p.Machine.Apply(e, tx) }

func (p producers) Judge(partition entry.Partition, head batch.Header, e *entry.Entry) apply.Verdict {
	v := p.Machine.Judge(partition, judged(head), e.Time)
	return apply.Verdict{Err: v.Err, Duplicate: v.Duplicate, Offset: v.Offset}
}

func (p producers) Appended(partition entry.Partition, head batch.Header, base entry.Offset, e *entry.Entry) {
	p.Machine.Appended(partition, judged(head), base, e.Time, e.Index)
}

func (p producers) LogStart(entry.Partition, entry.Offset, entry.Writer) {}

func (p producers) DeletePartition(partition entry.Partition, _ entry.Writer) {
	p.Machine.DeletePartition(partition)
}

func judged(head batch.Header) producer.Batch {
	return producer.Batch{
		ProducerID: head.ProducerID(), ProducerEpoch: head.ProducerEpoch(),
		BaseSequence: head.BaseSequence(), LastOffsetDelta: head.LastOffsetDelta(),
	}
}
