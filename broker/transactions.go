package broker

import (
	"context"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol"
	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/protocol/kerr"
	"github.com/sluicemq/sluice/txn"
	"github.com/sluicemq/sluice/txn/kafka"
)

// newestEnd is the first version of EndTxn of the newer transaction protocol, in
// which each end of a transaction raises the epoch.
const newestEnd = 5

// appendMarker appends the control batch with which an entry of transactions begins.
func appendMarker(dst []byte, m kafka.Marker, coordinatorEpoch int32) []byte {
	return batch.AppendMarker(dst, batch.Marker{
		Commit: m.Commit, ProducerID: m.ProducerID, ProducerEpoch: m.Epoch,
		CoordinatorEpoch: coordinatorEpoch, Timestamp: time.Now().UnixMilli(),
	})
}

// txnRefusal gives an error the code that the transactional APIs answer. Trouble of
// the broker's own becomes one that makes clients try again: the outcome of an entry
// that was proposed is what a repetition finds.
func txnRefusal(err error) error {
	switch kerr.Of(err) {
	case kerr.KafkaStorageError, kerr.RequestTimedOut, kerr.UnknownServerError, kerr.MessageTooLarge, kerr.RecordListTooLarge:
		return kerr.New(kerr.CoordinatorNotAvailable, "%s", kerr.Message(err))
	}
	return err
}

// fencedCode is the code of an error for a version of a transactional API that knows
// PRODUCER_FENCED from a certain version on.
func fencedCode(err error, version, from int16) int16 {
	if code := kerr.Of(err); code != kerr.ProducerFenced || version >= from {
		return code.Int16()
	}
	return kerr.InvalidProducerEpoch.Int16()
}

func noTransactionalID() error {
	return kerr.New(kerr.InvalidRequest, "the transactional id is empty")
}

// initTries is how often an InitProducerId is proposed again because the transaction
// that it is to abort changed in between.
const initTries = 10

// initTransactions hands out or raises the epoch of a transactional id (T-3 to T-6).
// Unlike Kafka's, the answer comes when the transaction that was open is aborted.
func (b *Broker) initTransactions(ctx context.Context, request *kmsg.InitProducerIDRequest) (kafka.Producer, error) {
	most := b.settings.TransactionMaxTimeout.Milliseconds()
	switch {
	case *request.TransactionalID == "":
		return kafka.Producer{}, noTransactionalID()
	case request.TransactionTimeoutMillis <= 0 || int64(request.TransactionTimeoutMillis) > most:
		return kafka.Producer{}, kerr.New(kerr.InvalidTransactionTimeout, "transaction.timeout.ms is %d, expected 1 to %d (transaction.max.timeout.ms)",
			request.TransactionTimeoutMillis, most)
	}
	q := kafka.Init{ID: *request.TransactionalID, TimeoutMs: request.TransactionTimeoutMillis, ProducerID: -1, Epoch: -1}
	if request.ProducerID >= 0 {
		q.ProducerID, q.Epoch = request.ProducerID, request.ProducerEpoch
	}
	for try := 1; ; try++ {
		has, _ := b.txns.Producer(q.ID)
		payload := appendMarker(nil, kafka.Marker{ProducerID: has.ID, Epoch: has.Epoch + 1}, 0)
		result, err := b.doOne(ctx, entry.TypeInitTransactions, q.Append(payload))
		if kerr.Of(err) == kerr.ConcurrentTransactions && try < initTries {
			continue
		}
		if err != nil {
			return kafka.Producer{}, txnRefusal(err)
		}
		return result.Value.(kafka.Producer), nil
	}
}

// addPartitionsToTxn answers AddPartitionsToTxn (T-8). Up to version 3 it is about one
// transaction and comes from clients; later ones are how Kafka's brokers ask each
// other, of several transactions, and also whether partitions were added.
func (b *Broker) addPartitionsToTxn(ctx context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.AddPartitionsToTxnRequest)
	response := request.ResponseKind().(*kmsg.AddPartitionsToTxnResponse)
	if c.Version < 4 {
		a := b.adding(request.TransactionalID, request.ProducerID, request.ProducerEpoch)
		for i := range request.Topics {
			a.take(request.Topics[i].Topic, request.Topics[i].Partitions)
		}
		b.add(ctx, []*adding{a})
		for i := range a.topics {
			t := kmsg.NewAddPartitionsToTxnResponseTopic()
			t.Topic = a.topics[i].name
			for _, p := range a.topics[i].partitions {
				out := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
				out.Partition, out.ErrorCode = p.index, fencedCode(p.err, c.Version, 2)
				t.Partitions = append(t.Partitions, out)
			}
			response.Topics = append(response.Topics, t)
		}
		return protocol.Answer(response)
	}
	all := make([]*adding, len(request.Transactions))
	for i := range request.Transactions {
		in := &request.Transactions[i]
		all[i] = b.adding(in.TransactionalID, in.ProducerID, in.ProducerEpoch)
		all[i].verify = in.VerifyOnly
		for j := range in.Topics {
			all[i].take(in.Topics[j].Topic, in.Topics[j].Partitions)
		}
	}
	b.add(ctx, all)
	for _, a := range all {
		x := kmsg.NewAddPartitionsToTxnResponseTransaction()
		x.TransactionalID = a.q.ID
		for i := range a.topics {
			t := kmsg.NewAddPartitionsToTxnResponseTransactionTopic()
			t.Topic = a.topics[i].name
			for _, p := range a.topics[i].partitions {
				out := kmsg.NewAddPartitionsToTxnResponseTransactionTopicPartition()
				out.Partition, out.ErrorCode = p.index, kerr.Of(p.err).Int16()
				if a.verify && kerr.Of(p.err) == kerr.InvalidTxnState {
					out.ErrorCode = kerr.TransactionAbortable.Int16()
				}
				t.Partitions = append(t.Partitions, out)
			}
			x.Topics = append(x.Topics, t)
		}
		response.Transactions = append(response.Transactions, x)
	}
	return protocol.Answer(response)
}

// adding is partitions on their way into a transaction, or to be looked for in it.
type adding struct {
	broker *Broker
	q      kafka.Add
	verify bool
	failed bool // a partition does not exist
	topics []addingTopic
}

type addingTopic struct {
	name       string
	partitions []addingPartition
}

type addingPartition struct {
	index  int32
	number entry.Partition
	err    error
}

func (b *Broker) adding(id string, producerID int64, epoch int16) *adding {
	return &adding{broker: b, q: kafka.Add{ID: id, ProducerID: producerID, Epoch: epoch}}
}

// take adds partitions of a topic to the request.
func (a *adding) take(topic string, partitions []int32) {
	t := addingTopic{name: topic, partitions: make([]addingPartition, len(partitions))}
	for i, index := range partitions {
		p := &t.partitions[i]
		p.index = index
		if p.number, p.err = a.broker.partitionOf(topic, index); p.err != nil {
			a.failed = true
		} else {
			a.q.Partitions = append(a.q.Partitions, p.number)
		}
	}
	a.topics = append(a.topics, t)
}

// all sets the error of all partitions that have none.
func (a *adding) all(err error) {
	for i := range a.topics {
		for j := range a.topics[i].partitions {
			if p := &a.topics[i].partitions[j]; p.err == nil {
				p.err = err
			}
		}
	}
}

// add adds or verifies, and fills in the errors.
func (b *Broker) add(ctx context.Context, all []*adding) {
	var commands []*command
	var of []*adding
	for _, a := range all {
		switch {
		case a.q.ID == "":
			a.all(noTransactionalID())
		case a.failed:
			a.all(kerr.New(kerr.OperationNotAttempted, "another partition does not exist"))
		case a.verify:
			for i := range a.topics {
				for j := range a.topics[i].partitions {
					p := &a.topics[i].partitions[j]
					p.err = b.txns.Verify(a.q.ID, kafka.Producer{ID: a.q.ProducerID, Epoch: a.q.Epoch}, p.number)
				}
			}
		default:
			commands = append(commands, &command{kind: entry.TypeAddToTransaction, payload: a.q.Append(nil)})
			of = append(of, a)
		}
	}
	b.do(ctx, 0, commands)
	for i, c := range commands {
		of[i].all(txnRefusal(c.err))
	}
}

// addOffsetsToTxn answers AddOffsetsToTxn (T-9).
func (b *Broker) addOffsetsToTxn(ctx context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.AddOffsetsToTxnRequest)
	response := request.ResponseKind().(*kmsg.AddOffsetsToTxnResponse)
	err := noTransactionalID()
	if request.TransactionalID != "" {
		q := kafka.Add{ID: request.TransactionalID, ProducerID: request.ProducerID, Epoch: request.ProducerEpoch, Groups: []string{request.Group}}
		_, err = b.doOne(ctx, entry.TypeAddToTransaction, q.Append(nil))
	}
	response.ErrorCode = fencedCode(txnRefusal(err), c.Version, 2)
	return protocol.Answer(response)
}

// endTxn answers EndTxn (T-14 to T-17). Unlike Kafka's, the answer comes when the
// transaction is ended in all its partitions.
func (b *Broker) endTxn(ctx context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.EndTxnRequest)
	response := request.ResponseKind().(*kmsg.EndTxnResponse)
	response.ProducerID, response.ProducerEpoch = -1, -1
	producer, err := b.endTransaction(ctx, &kafka.End{
		ID: request.TransactionalID, ProducerID: request.ProducerID, Epoch: request.ProducerEpoch,
		Commit: request.Commit, Newer: c.Version >= newestEnd,
	})
	if err != nil {
		response.ErrorCode = fencedCode(err, c.Version, 2)
	} else if c.Version >= newestEnd {
		response.ProducerID, response.ProducerEpoch = producer.ID, producer.Epoch
	}
	return protocol.Answer(response)
}

func (b *Broker) endTransaction(ctx context.Context, q *kafka.End) (kafka.Producer, error) {
	switch {
	case q.ID == "":
		return kafka.Producer{}, noTransactionalID()
	case q.Epoch == math.MaxInt16: // nobody was given it, and the marker has none above
		return kafka.Producer{}, kerr.New(kerr.ProducerFenced, "no producer has epoch %d", q.Epoch)
	}
	result, err := b.doOne(ctx, entry.TypeEndTransaction, endPayload(q))
	if err != nil {
		return kafka.Producer{}, txnRefusal(err)
	}
	producer, _ := result.Value.(kafka.Producer)
	return producer, nil
}

func endPayload(q *kafka.End) []byte { return q.Append(appendMarker(nil, q.Marker(), 0)) }

// newTransactionKeeper returns what keeps the time for transactions.
func (b *Broker) newTransactionKeeper() *txn.Keeper {
	return txn.New(txn.Options{
		Machine: b.txns,
		Abort: func(ctx context.Context, ends []kafka.End) error {
			commands := make([]*command, len(ends))
			for i := range ends {
				commands[i] = &command{kind: entry.TypeEndTransaction, payload: endPayload(&ends[i])}
			}
			b.do(ctx, 0, commands)
			for i, c := range commands {
				if c.err != nil {
					return c.err
				}
				if c.result.Value != nil { // it did not end in between
					b.reportTimeOut(&ends[i])
				}
			}
			return nil
		},
		Forget: func(ctx context.Context, expire *kafka.Expire) error {
			_, err := b.doOne(ctx, entry.TypeExpireTransactions, expire.Append(nil))
			return err
		},
		Expiration: b.settings.TransactionalIDExpiration,
		Failed: func(err error) {
			b.lines.warn(b.logger, "transactions wait for the log; trying again", because(err))
		},
	})
}
