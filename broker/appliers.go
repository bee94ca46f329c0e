package broker

import (
	"fmt"

	"github.com/sluicemq/sluice/catalog"
	"github.com/sluicemq/sluice/group"
	"github.com/sluicemq/sluice/group/offsets"
	"github.com/sluicemq/sluice/log/apply"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/txn/kafka"
	"github.com/sluicemq/sluice/txn/producer"
)

// topics applies the entries of the catalog. What is kept per topic elsewhere goes
// with the topic.
type topics struct {
	*catalog.Catalog
	groups *group.State
}

func (t topics) Load(r entry.Reader, tx apply.Tx) error { return t.Catalog.Load(r, tx) }

func (t topics) Apply(e *entry.Entry, tx apply.Tx) entry.Result {
	result := t.Catalog.Apply(e, tx)
	if change, ok := result.Value.(catalog.Change); ok && change.After == nil && change.Before != nil {
		t.groups.TopicDeleted(change.Before.ID())
	}
	return result
}

// groups applies the entries of groups. Offsets that wait in transactions are told
// of what overtakes them.
type groups struct {
	*group.State
	transactions *kafka.Machine
}

func (g groups) Load(r entry.Reader, _ apply.Tx) error { return g.State.Load(r) }

func (g groups) Apply(e *entry.Entry, tx apply.Tx) entry.Result {
	result := g.State.Apply(e, tx)
	if result.Err != nil {
		return result
	}
	switch e.Type {
	case entry.TypeCommitOffsets:
		c, err := offsets.DecodeCommit(e.Payload)
		if name := string(c.Group); err == nil && g.transactions.HasPending(name) {
			err = c.Each(func(topic entry.TopicID, o offsets.Offset) {
				g.transactions.OffsetsCommitted(name, topic, o.Partition)
			})
		}
		if err != nil {
			return entry.Result{Err: err} // not after State has read it
		}
	case entry.TypeDeleteGroup:
		if name, err := group.DeletedGroup(e.Payload); err == nil {
			g.transactions.DropGroup(name)
		}
	}
	return result
}

// producers applies the entries about producer ids.
type producers struct{ *producer.Machine }

func (p producers) Load(r entry.Reader, _ apply.Tx) error { return p.Machine.Load(r) }

func (p producers) Apply(e *entry.Entry, tx apply.Tx) entry.Result { return p.Machine.Apply(e, tx) }

// judge judges the batches of idempotent and transactional producers.
type judge struct {
	producers    *producer.Machine
	transactions *kafka.Machine
}

func (j judge) Judge(p entry.Partition, head batch.Header, e *entry.Entry) apply.Verdict {
	of := producerBatch(head, e)
	var err error
	if of.Transactional {
		err = j.transactions.Judge(p, of.ProducerID, of.ProducerEpoch, of.FromZero)
	} else {
		err = j.transactions.Plain(p, of.ProducerID)
	}
	if err != nil {
		return apply.Verdict{Err: err}
	}
	v := j.producers.Judge(p, of, e.Time)
	return apply.Verdict{Err: v.Err, Duplicate: v.Duplicate, Offset: v.Offset}
}

func (j judge) Appended(p entry.Partition, head batch.Header, base entry.Offset, e *entry.Entry) {
	of := producerBatch(head, e)
	if of.Transactional {
		j.transactions.Appended(p, of.ProducerID, base, e.Time)
	}
	j.producers.Appended(p, of, base, e.Time, e.Index)
}

func (j judge) LogStart(p entry.Partition, start entry.Offset, w entry.Writer) {
	j.transactions.LogStart(p, start, w)
}

func (j judge) DeletePartition(p entry.Partition, w entry.Writer) {
	j.transactions.DeletePartition(p, w)
	j.producers.DeletePartition(p)
}

func producerBatch(head batch.Header, e *entry.Entry) producer.Batch {
	return producer.Batch{
		ProducerID:      head.ProducerID(),
		ProducerEpoch:   head.ProducerEpoch(),
		BaseSequence:    head.BaseSequence(),
		LastOffsetDelta: head.LastOffsetDelta(),
		Transactional:   head.Attributes().Has(batch.Transactional),
		FromZero:        e.Flags&entry.ProduceAdds != 0,
	}
}

// transactions applies the entries of transactions. It joins them to the partitions,
// to the sequences of producers, and to the offsets of groups.
type transactions struct {
	*kafka.Machine
	producers *producer.Machine
	groups    *group.State
}

func (t transactions) Types() []entry.Type { return append(t.Machine.Types(), entry.TypePendOffsets) }

func (t transactions) Load(r entry.Reader, _ apply.Tx) error { return t.Machine.Load(r) }

func (t transactions) Apply(e *entry.Entry, tx apply.Tx) entry.Result {
	if e.Type == entry.TypePendOffsets {
		return t.pend(e)
	}
	var mark kafka.Marker
	command := *e
	if kafka.HasMarker(e.Type) {
		head, rest, err := batch.Split(e.Payload)
		var found batch.Marker
		if err == nil {
			found, err = batch.ParseMarker(head)
		}
		if err != nil { // without its code: nobody is to be told, the entry cannot be read
			return entry.Result{Err: fmt.Errorf("apply entry %d (%v): %s", e.Index, e.Type, err.Error())}
		}
		mark = kafka.Marker{ProducerID: found.ProducerID, Epoch: found.ProducerEpoch, Commit: found.Commit}
		command.Payload = rest
	}
	return t.Machine.Apply(&command, mark, transaction{Tx: tx, entry: e, mark: mark, parts: t})
}

// pend keeps offsets until their transaction ends. The value is nil, or the ids of
// topics that do not exist any more ([]entry.TopicID).
func (t transactions) pend(e *entry.Entry) entry.Result {
	q, rest, err := kafka.DecodeOffsets(e.Payload)
	var c offsets.Commit
	var all []kafka.PendingOffset
	if err == nil {
		c, err = offsets.DecodeCommit(rest)
	}
	if err == nil {
		err = c.Each(func(topic entry.TopicID, o offsets.Offset) {
			all = append(all, kafka.PendingOffset{
				Topic: topic, Partition: o.Partition, Offset: o.Offset, LeaderEpoch: o.LeaderEpoch, Metadata: o.Metadata,
			})
		})
	}
	if err != nil {
		return entry.Result{Err: fmt.Errorf("apply entry %d (%v): %w", e.Index, e.Type, err)}
	}
	if err := t.JudgeOffsets(&q); err != nil {
		return entry.Result{Err: err}
	}
	if err := t.groups.AdmitTransactional(&c); err != nil {
		return entry.Result{Err: err}
	}
	t.Pend(&q, all, e.Time, e.Index)
	return entry.Result{}
}

// transaction is what applying an entry of transactions may change.
type transaction struct {
	apply.Tx
	entry *entry.Entry
	mark  kafka.Marker
	parts transactions
}

func (t transaction) ProducerID() int64 { return t.parts.producers.TakeID() }

func (t transaction) marker() producer.Marker {
	return producer.Marker{ProducerID: t.mark.ProducerID, Epoch: t.mark.Epoch, Abort: !t.mark.Commit}
}

func (t transaction) CheckMarker(p entry.Partition, newer bool) error {
	return t.parts.producers.CheckMarker(p, t.marker(), newer)
}

func (t transaction) AppendMarker(p entry.Partition) (entry.Offset, bool) {
	at, ok := t.AppendControl(p)
	if ok {
		t.parts.producers.Ended(p, t.marker(), t.entry.Time, t.entry.Index)
	}
	return at, ok
}

func (t transaction) CommitOffsets(group string, all []kafka.PendingOffset) {
	q := offsets.Request{Group: group, Generation: -1, Retention: -1}
	for i := range all {
		o := &all[i]
		if n := len(q.Topics); n == 0 || q.Topics[n-1].ID != o.Topic {
			q.Topics = append(q.Topics, offsets.Topic{ID: o.Topic})
		}
		in := &q.Topics[len(q.Topics)-1]
		in.Offsets = append(in.Offsets, offsets.Offset{Partition: o.Partition, Offset: o.Offset, LeaderEpoch: o.LeaderEpoch, Metadata: o.Metadata})
	}
	// What Append has written Decode reads.
	_ = t.parts.groups.CommitTransactional(&q, t.entry.Time, t)
}
