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
	acks     int16
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
}

// produce appends one record batch to each partition that the request names
// (P-1 to P-25 of Kafka's rules). Stage 1 validates and proposes, in the order
// of the connection; the apply loop resolves the promise.
func (b *Broker) produce(_ context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.ProduceRequest)
	count := 0
	for i := range request.Topics {
		count += len(request.Topics[i].Partitions)
	}
	p := &producing{
		Promise:  protocol.NewPromise(),
		acks:     request.Acks,
		response: request.ResponseKind().(*kmsg.ProduceResponse),
		slots:    make([]produceSlot, count),
	}
	// The answers must not move once proposals point to them.
	p.response.Topics = make([]kmsg.ProduceResponseTopic, len(request.Topics))
	p.waiting.Store(1) // for this function
	next := 0
	now := time.Now().UnixMilli()
	for i := range request.Topics {
		topic, answers := &request.Topics[i], &p.response.Topics[i]
		*answers = kmsg.NewProduceResponseTopic()
		answers.Topic, answers.TopicID = topic.Topic, topic.TopicID
		answers.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(topic.Partitions))
		found, refusal := b.topicOf(c.Version >= 13, topic.Topic, topic.TopicID)
		if refusal == nil {
			refusal = admitProduce(request, found)
		}
		for j := range topic.Partitions {
			slot := &p.slots[next]
			next++
			slot.request, slot.answer = p, &answers.Partitions[j]
			*slot.answer = kmsg.NewProduceResponseTopicPartition()
			slot.answer.Partition = topic.Partitions[j].Partition
			slot.answer.BaseOffset = -1
			err := refusal
			if err == nil {
				err = b.propose(slot, found, &topic.Partitions[j], c.Version, now)
			}
			if err != nil {
				slot.refuse(err)
			}
		}
	}
	p.done()
	return p
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

// admitProduce refuses what concerns a whole topic.
func admitProduce(request *kmsg.ProduceRequest, topic *catalog.Topic) error {
	switch {
	case request.Acks < -1 || request.Acks > 1:
		return kerr.New(kerr.InvalidRequiredAcks, "acks is %d, expected -1, 0 or 1", request.Acks)
	case request.TransactionID != nil:
		return kerr.New(kerr.TransactionalIDAuthorizationFailed, "transactions are not served by this version")
	case topic.Internal():
		return kerr.New(kerr.InvalidTopic, "topic %q belongs to the broker", topic.Name())
	}
	return nil
}

// propose validates a batch, brings it into the form that the topic asks for,
// and puts it behind all others.
func (b *Broker) propose(slot *produceSlot, topic *catalog.Topic, in *kmsg.ProduceRequestTopicPartition, version int16, now int64) error {
	partition, ok := topic.Partition(in.Partition)
	if !ok {
		return kerr.New(kerr.UnknownTopicOrPartition, "topic %q has %d partitions", topic.Name(), topic.Partitions())
	}
	c := topic.Config()
	rules := batch.Rules{
		ProduceVersion: version,
		MaxBytes:       int(c.MaxMessageBytes),
		Now:            now,
		LogAppendTime:  c.Timestamp == config.LogAppendTime,
		BeforeMaxMs:    c.TimestampBeforeMaxMs,
		AfterMaxMs:     c.TimestampAfterMaxMs,
		Compacted:      c.Cleanup.Compact(),
	}
	payload := in.Records
	summary, err := b.log.Codecs().Validate(payload, &rules)
	if err != nil {
		return err
	}
	head := batch.Header(payload)
	if head.Attributes().Has(batch.Transactional) {
		return kerr.New(kerr.InvalidTxnState, "transactions are not served by this version")
	}
	if c.Compression != config.AsProduced && batch.Codec(c.Compression) != head.Codec() {
		if payload, err = b.log.Codecs().Recompress(nil, payload, batch.Codec(c.Compression), int(c.CompressionLevel())); err != nil {
			return err
		}
		if len(payload) > rules.MaxBytes {
			return kerr.New(kerr.MessageTooLarge, "compressed as the topic asks, the batch has %d bytes; max.message.bytes is %d", len(payload), rules.MaxBytes)
		}
		head = batch.Header(payload)
	}
	head.Stamp(rules.LogAppendTime, summary.MaxTimestamp)
	slot.proposal = log.Proposal{Type: entry.TypeProduce, Partition: partition, Payload: payload, Waiter: slot}
	slot.request.waiting.Add(1)
	if err := b.log.Propose(&slot.proposal); err != nil {
		slot.request.waiting.Add(-1) // never the last: produce itself counts
		return err
	}
	return nil
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

func (s *produceSlot) refuse(err error) {
	s.answer.ErrorCode = kerr.Of(err).Int16()
	message := kerr.Message(err)
	s.answer.ErrorMessage = &message
	var bad *batch.RecordsError
	if errors.As(err, &bad) {
		for i := range bad.Records {
			record := kmsg.NewProduceResponseTopicPartitionErrorRecord()
			record.RelativeOffset = bad.Records[i].Index
			record.ErrorMessage = &bad.Records[i].Message
			s.answer.ErrorRecords = append(s.answer.ErrorRecords, record)
		}
	}
	if s.request.acks == 0 {
		failure := fmt.Errorf("partition %d with acks=0: %w", s.answer.Partition, err)
		s.request.failure.CompareAndSwap(nil, &failure)
	}
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
