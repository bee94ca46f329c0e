package broker

import (
	"github.com/sluicemq/sluice/catalog"
	"github.com/sluicemq/sluice/group"
	"github.com/sluicemq/sluice/log/apply"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/batch"
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

// groups applies the entries of groups.
type groups struct{ *group.State }

func (g groups) Load(r entry.Reader, _ apply.Tx) error { return g.State.Load(r) }

func (g groups) Apply(e *entry.Entry, tx apply.Tx) entry.Result { return g.State.Apply(e, tx) }

// producers applies the entries about producer ids, and judges the batches of
// idempotent producers.
type producers struct{ *producer.Machine }

func (p producers) Load(r entry.Reader, _ apply.Tx) error { return p.Machine.Load(r) }

func (p producers) Apply(e *entry.Entry, tx apply.Tx) entry.Result { return p.Machine.Apply(e, tx) }

func (p producers) Judge(partition entry.Partition, head batch.Header, now entry.Time) apply.Verdict {
	v := p.Machine.Judge(partition, producerBatch(head), now)
	return apply.Verdict{Err: v.Err, Duplicate: v.Duplicate, Offset: v.Offset}
}

func (p producers) Appended(partition entry.Partition, head batch.Header, base entry.Offset, e *entry.Entry) {
	p.Machine.Appended(partition, producerBatch(head), base, e.Time, e.Index)
}

func producerBatch(head batch.Header) producer.Batch {
	return producer.Batch{
		ProducerID:      head.ProducerID(),
		ProducerEpoch:   head.ProducerEpoch(),
		BaseSequence:    head.BaseSequence(),
		LastOffsetDelta: head.LastOffsetDelta(),
		Transactional:   head.Attributes().Has(batch.Transactional),
	}
}
