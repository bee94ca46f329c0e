package broker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/catalog"
	"github.com/sluicemq/sluice/catalog/config"
	"github.com/sluicemq/sluice/log"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol"
	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// producing is a Produce request on its way: the answer, and how many batches
// are still in the log's hands.
type producing struct {
	*protocol.Promise
	broker   *Broker
	acks     int16
	version  int16
	response *kmsg.ProduceResponse
	slots    []produceSlot
	waiting  atomic.Int32
	failure  atomic.Pointer[error] // of acks=0: the first one
}

// produceSlot is one partition's batch.
type produceSlot struct {
	proposal log.Proposal
	request  *producing
	answer   *kmsg.ProduceResponseTopicPartition
	located  bool // there is a batch, and the partition it is for is in proposal
	// transactional is set for a batch that is in a transaction, or should be.
	transactional bool
}

// produce appends one record batch to each partition that the request names
// (P-1 to P-25 of Kafka's rules). Stage 1 validates and proposes, in the order
// of the connection; the apply loop resolves the promise.
//
// The request's time-out bounds how long replicas may take, of which there are
// none: as in Kafka, the log itself is waited for however long it takes.
func (b *Broker) produce(_ context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.ProduceRequest)
	topics := partitionsToProduce(request)
	count := 0
	for i := range topics {
		count += len(topics[i].Partitions)
	}
	p := &producing{
		Promise:  protocol.NewPromise(),
		broker:   b,
		acks:     request.Acks,
		version:  c.Version,
		response: request.ResponseKind().(*kmsg.ProduceResponse),
		slots:    make([]produceSlot, count),
	}
	// The answers must not move once proposals point to them.
	p.response.Topics = make([]kmsg.ProduceResponseTopic, len(topics))
	p.waiting.Store(1) // for this function
	next := 0
	now := time.Now().UnixMilli()
	unfit := refuseAll(request)
	for i := range topics {
		topic, answers := &topics[i], &p.response.Topics[i]
		*answers = kmsg.NewProduceResponseTopic()
		answers.Topic, answers.TopicID = topic.Topic, topic.TopicID
		answers.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(topic.Partitions))
		found, missing := b.topicOf(c.Version >= 13, topic.Topic, topic.TopicID)
		for j := range topic.Partitions {
			slot := &p.slots[next]
			next++
			slot.request, slot.answer = p, &answers.Partitions[j]
			*slot.answer = kmsg.NewProduceResponseTopicPartition()
			slot.answer.Partition = topic.Partitions[j].Partition
			slot.answer.BaseOffset = -1
			err := unfit
			if err == nil {
				err = missing
			}
			if err == nil {
				err = b.propose(slot, found, &topic.Partitions[j], request, now)
			}
			if err != nil {
				slot.refuse(err)
			}
		}
	}
	p.done()
	return p
}

// refuseAll returns why no partition of a request can be served: P-23.
func refuseAll(request *kmsg.ProduceRequest) error {
	var first batch.Header
	for i := range request.Topics {
		for j := range request.Topics[i].Partitions {
			h, err := batch.Single(request.Topics[i].Partitions[j].Records)
			switch {
			case err != nil || !h.Attributes().Has(batch.Transactional):
			case request.TransactionID == nil:
				return kerr.New(kerr.TransactionalIDAuthorizationFailed, "a transactional batch comes without a transactional id")
			case first == nil:
				first = h
			case h.ProducerID() != first.ProducerID() || h.ProducerEpoch() != first.ProducerEpoch():
				return kerr.New(kerr.InvalidProducerIDMapping, "the request has transactional batches of two producers")
			}
		}
	}
	return nil
}

// topicOf finds a topic by its id where the version has ids, else by its name.
func (b *Broker) topicOf(byID bool, name string, id [16]byte) (*catalog.Topic, error) {
	if byID {
		if t := b.catalog.TopicByID(id); t != nil {
			return t, nil
		}
		return nil, kerr.New(kerr.UnknownTopicID, "")
	}
	if t := b.catalog.Topic(name); t != nil {
		return t, nil
	}
	return nil, kerr.New(kerr.UnknownTopicOrPartition, "")
}

// propose validates a batch, brings it into the form that the topic asks for,
// and puts it behind all others.
func (b *Broker) propose(slot *produceSlot, topic *catalog.Topic, in *kmsg.ProduceRequestTopicPartition, request *kmsg.ProduceRequest, now int64) error {
	partition, ok := topic.Partition(in.Partition)
	if !ok {
		return kerr.New(kerr.UnknownTopicOrPartition, "topic %q has %d partitions", topic.Name(), topic.Partitions())
	}
	head, err := batch.Single(in.Records)
	switch {
	case err != nil:
		return err
	case request.Acks < -1 || request.Acks > 1:
		return kerr.New(kerr.InvalidRequiredAcks, "acks is %d, expected -1, 0 or 1", request.Acks)
	case topic.Internal():
		return kerr.New(kerr.InvalidTopic, "topic %q belongs to the broker", topic.Name())
	}
	slot.proposal = log.Proposal{Type: entry.TypeProduce, Partition: partition, Waiter: slot}
	slot.located = true
	if slot.transactional = inTransaction(head); slot.transactional {
		if err := b.admitTransactional(slot, head, request); err != nil {
			return err
		}
	}
	c := topic.Config()
	rules := batch.Rules{
		ProduceVersion: request.Version,
		MaxBytes:       int(c.MaxMessageBytes),
		MaxRecordBytes: int(c.MaxDecompressedBytes),
		Now:            now,
		LogAppendTime:  c.Timestamp == config.LogAppendTime,
		BeforeMaxMs:    c.TimestampBeforeMaxMs,
		AfterMaxMs:     c.TimestampAfterMaxMs,
		Compacted:      c.Cleanup.Compact(),
	}
	if head, err = b.prepare(head, c, &rules); err != nil {
		return err
	}
	slot.proposal.Payload = head
	slot.request.waiting.Add(1)
	if err := b.log.Propose(&slot.proposal); err != nil {
		slot.request.waiting.Add(-1) // never the last: produce itself counts
		return err
	}
	return nil
}

// prepare validates a batch and returns it in the form that the topic asks for.
func (b *Broker) prepare(head batch.Header, c *config.Topic, rules *batch.Rules) (batch.Header, error) {
	wanted := head.Codec()
	if c.Compression != config.AsProduced {
		wanted = batch.Codec(c.Compression)
	}
	if head.Codec() != batch.None || wanted != batch.None {
		b.decoders.take()
		defer b.decoders.give()
	}
	summary, err := b.log.Codecs().Validate(head, rules)
	if err != nil {
		return nil, err
	}
	if wanted != head.Codec() {
		packed, err := b.log.Codecs().Recompress(nil, head, wanted, int(c.CompressionLevel()))
		if err != nil {
			return nil, err
		}
		if len(packed) > rules.MaxBytes {
			return nil, kerr.New(kerr.MessageTooLarge, "compressed as the topic asks, the batch has %d bytes; max.message.bytes is %d", len(packed), rules.MaxBytes)
		}
		head = batch.Header(packed)
	}
	head.Stamp(rules.LogAppendTime, summary.MaxTimestamp)
	return head, nil
}

// Done is called by the apply loop.
func (s *produceSlot) Done(_ *log.Proposal, r entry.Result) {
	if r.Err != nil {
		s.refuse(log.Refusal(r.Err))
	} else {
		s.answer.BaseOffset = int64(r.Offset)
		s.answer.LogAppendTime = int64(r.Time)
		s.answer.LogStartOffset = int64(r.LogStart)
	}
	s.request.done()
}

// refuse makes the answer a refusal. As in Kafka a message is told only for
// single records, and for bytes that cannot be a batch.
func (s *produceSlot) refuse(err error) {
	code := kerr.Of(err)
	outside := s.transactional && outsideTransaction(code)
	s.answer.ErrorCode = code.Int16()
	if outside && code == kerr.InvalidTxnState && s.request.version >= 11 {
		s.answer.ErrorCode = kerr.TransactionAbortable.Int16()
	}
	if s.located && toldLogStart(code) && !outside {
		if start, _, ok := s.request.broker.log.Bounds(s.proposal.Partition); ok {
			s.answer.LogStartOffset = int64(start)
		}
	}
	var bad *batch.RecordsError
	if errors.As(err, &bad) {
		for i := range bad.Records {
			record := kmsg.NewProduceResponseTopicPartitionErrorRecord()
			record.RelativeOffset = bad.Records[i].Index
			record.ErrorMessage = &bad.Records[i].Message
			s.answer.ErrorRecords = append(s.answer.ErrorRecords, record)
		}
	}
	told := code == kerr.CorruptMessage && !s.located || code == kerr.InvalidProducerIDMapping && !s.located ||
		outside && code == kerr.InvalidTxnState && s.request.version < 11
	if bad != nil || told {
		message := kerr.Message(err)
		s.answer.ErrorMessage = &message
	}
	if s.request.acks == 0 {
		failure := fmt.Errorf("partition %d with acks=0: %w", s.answer.Partition, err)
		s.request.failure.CompareAndSwap(nil, &failure)
	}
}

// inTransaction reports whether a batch must be in a transaction of its producer.
func inTransaction(head batch.Header) bool {
	return head.Attributes().Has(batch.Transactional) && head.ProducerID() >= 0
}

// admitTransactional refuses a batch of a producer that the transactional id of the
// request does not have, and says how the partition comes into the transaction: from
// version 12 on with the batch. All else is judged when the batch is applied.
func (b *Broker) admitTransactional(slot *produceSlot, head batch.Header, request *kmsg.ProduceRequest) error {
	if has, ok := b.txns.Producer(*request.TransactionID); !ok || has.ID != head.ProducerID() {
		return kerr.New(kerr.InvalidProducerIDMapping, "transactional id %q does not have producer id %d", *request.TransactionID, head.ProducerID())
	}
	if request.Version >= 12 {
		slot.proposal.Flags = entry.ProduceAdds
	}
	return nil
}

// outsideTransaction reports whether the code says that a transactional batch is not
// in an open transaction of its producer.
func outsideTransaction(code kerr.Code) bool {
	return code == kerr.InvalidTxnState || code == kerr.InvalidProducerIDMapping || code == kerr.InvalidProducerEpoch
}

// toldLogStart reports whether a refusal with the code comes with the log start
// offset of its partition.
func toldLogStart(code kerr.Code) bool {
	switch code {
	case kerr.UnknownTopicOrPartition, kerr.NotLeaderOrFollower, kerr.MessageTooLarge, kerr.RecordListTooLarge,
		kerr.CorruptMessage, kerr.KafkaStorageError:
		return false
	}
	return true
}

// done counts one batch less, and answers after the last.
func (p *producing) done() {
	if p.waiting.Add(-1) > 0 {
		return
	}
	switch failure := p.failure.Load(); {
	case p.acks != 0:
		p.Resolve(protocol.Response{Message: p.response})
	case failure != nil:
		p.Resolve(protocol.Response{Close: *failure}) // the only way to tell the client
	default:
		p.Resolve(protocol.Response{None: true})
	}
}
