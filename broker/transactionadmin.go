package broker

import (
	"context"
	"regexp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/sluicemq/sluice/catalog"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol"
	"github.com/sluicemq/sluice/protocol/kerr"
	"github.com/sluicemq/sluice/txn/kafka"
	"github.com/sluicemq/sluice/txn/producer"
)

// transactionStates are the states that a filter may name; those between others are
// never seen here.
var transactionStates = []string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"}

// describeTransactions answers DescribeTransactions (T-24).
func (b *Broker) describeTransactions(_ context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.DescribeTransactionsRequest)
	response := request.ResponseKind().(*kmsg.DescribeTransactionsResponse)
	for _, id := range request.TransactionalIDs {
		out := kmsg.NewDescribeTransactionsResponseTransactionState()
		out.TransactionalID = id
		d, ok := b.txns.Describe(id)
		switch {
		case id == "":
			out.ErrorCode = kerr.InvalidRequest.Int16()
		case !ok:
			out.ErrorCode = kerr.TransactionalIDNotFound.Int16()
		default:
			out.State, out.TimeoutMillis, out.StartTimestamp = d.State.String(), d.TimeoutMs, int64(d.Started)
			out.ProducerID, out.ProducerEpoch = d.Producer.ID, d.Producer.Epoch
			out.Topics = b.topicsOf(d.Partitions)
		}
		response.TransactionStates = append(response.TransactionStates, out)
	}
	return protocol.Answer(response)
}

// topicsOf lists partitions by topic, in the order of their numbers.
func (b *Broker) topicsOf(partitions []entry.Partition) []kmsg.DescribeTransactionsResponseTransactionStateTopic {
	var out []kmsg.DescribeTransactionsResponseTransactionStateTopic
	places := make(map[string]int)
	for _, p := range partitions {
		topic, index := b.catalog.TopicOf(p)
		if topic == nil {
			continue // deleted while we look
		}
		at, ok := places[topic.Name()]
		if !ok {
			at = len(out)
			places[topic.Name()] = at
			t := kmsg.NewDescribeTransactionsResponseTransactionStateTopic()
			t.Topic = topic.Name()
			out = append(out, t)
		}
		out[at].Partitions = append(out[at].Partitions, index)
	}
	return out
}

// listTransactions answers ListTransactions (T-24).
func (b *Broker) listTransactions(_ context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.ListTransactionsRequest)
	response := request.ResponseKind().(*kmsg.ListTransactionsResponse)
	var pattern *regexp.Regexp
	if p := request.TransactionalIDPattern; p != nil && *p != "" {
		var err error
		if pattern, err = regexp.Compile(`\A(?:` + *p + `)\z`); err != nil {
			response.ErrorCode = kerr.InvalidRegularExpression.Int16()
			return protocol.Answer(response)
		}
	}
	for _, state := range request.StateFilters {
		if !slices.Contains(transactionStates, state) {
			response.UnknownStateFilters = append(response.UnknownStateFilters, state)
		}
	}
	now := time.Now().UnixMilli()
	for _, d := range b.txns.List() {
		switch {
		case len(request.StateFilters) > 0 && !slices.Contains(request.StateFilters, d.State.String()),
			len(request.ProducerIDFilters) > 0 && !slices.Contains(request.ProducerIDFilters, d.Producer.ID),
			// One that never began counts as open since ever, as in Kafka.
			c.Version >= 1 && request.DurationFilterMillis >= 0 && now-int64(d.Started) < request.DurationFilterMillis,
			pattern != nil && !pattern.MatchString(d.ID):
			continue
		}
		out := kmsg.NewListTransactionsResponseTransactionState()
		out.TransactionalID, out.ProducerID, out.TransactionState = d.ID, d.Producer.ID, d.State.String()
		response.TransactionStates = append(response.TransactionStates, out)
	}
	return protocol.Answer(response)
}

// describeProducers answers DescribeProducers (T-25).
func (b *Broker) describeProducers(_ context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.DescribeProducersRequest)
	response := request.ResponseKind().(*kmsg.DescribeProducersResponse)
	for i := range request.Topics {
		topic := &request.Topics[i]
		outTopic := kmsg.NewDescribeProducersResponseTopic()
		outTopic.Topic = topic.Topic
		for _, index := range topic.Partitions {
			out := kmsg.NewDescribeProducersResponseTopicPartition()
			out.Partition = index
			p, err := b.partitionOf(topic.Topic, index)
			if err == nil {
				out.ActiveProducers = b.producersOf(p)
			} else {
				refuseProducers(&out, topic.Topic, err, b.catalog.Topic(topic.Topic) != nil)
			}
			outTopic.Partitions = append(outTopic.Partitions, out)
		}
		response.Topics = append(response.Topics, outTopic)
	}
	return protocol.Answer(response)
}

func refuseProducers(out *kmsg.DescribeProducersResponseTopicPartition, topic string, err error, exists bool) {
	out.ErrorCode = kerr.Of(err).Int16()
	if exists {
		return // the partition is missing: no message, as in Kafka
	}
	if bad := catalog.CheckName(topic); bad != nil {
		out.ErrorCode, err = kerr.InvalidTopic.Int16(), bad
	}
	message := kerr.Message(err)
	out.ErrorMessage = &message
}

// producersOf describes the producers of a partition.
func (b *Broker) producersOf(p entry.Partition) []kmsg.DescribeProducersResponseTopicPartitionActiveProducer {
	open := make(map[int64]entry.Offset)
	for _, o := range b.txns.Open(p, nil) {
		open[o.ProducerID] = o.First
	}
	var out []kmsg.DescribeProducersResponseTopicPartitionActiveProducer
	for _, found := range b.producers.Producers(p, []producer.Producer(nil)) {
		a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		a.ProducerID, a.ProducerEpoch = found.ID, int32(found.Epoch)
		a.LastSequence, a.LastTimestamp = found.LastSequence, int64(found.LastTime)
		a.CoordinatorEpoch, a.CurrentTxnStartOffset = -1, -1
		if found.Marked {
			a.CoordinatorEpoch = 0 // the only one there is
		}
		if first, ok := open[found.ID]; ok {
			a.CurrentTxnStartOffset = int64(first)
		}
		out = append(out, a)
	}
	return out
}

// writeTxnMarkers answers WriteTxnMarkers: an operator ends what is open of a producer
// in partitions, without its coordinator. In Kafka that is for transactions that the
// coordinator forgot; here none can be.
func (b *Broker) writeTxnMarkers(ctx context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.WriteTxnMarkersRequest)
	response := request.ResponseKind().(*kmsg.WriteTxnMarkersResponse)
	writes := make([]markerWrite, len(request.Markers))
	var commands []*command
	for i := range request.Markers {
		if w := &writes[i]; b.takeMarkers(&request.Markers[i], w, c.Version) {
			commands = append(commands, &w.command)
		}
	}
	b.do(ctx, 0, commands)
	for i := range request.Markers {
		if len(request.Markers[i].Topics) > 0 {
			response.Markers = append(response.Markers, writes[i].answer())
		}
	}
	return protocol.Answer(response)
}

// markerWrite is one marker on its way into partitions.
type markerWrite struct {
	command
	out   kmsg.WriteTxnMarkersResponseMarker
	slots [][2]int // topic and partition in out, in the order of the entry
}

// takeMarkers makes an entry of a marker, if there is something for it to do.
func (b *Broker) takeMarkers(in *kmsg.WriteTxnMarkersRequestMarker, w *markerWrite, version int16) bool {
	w.out = kmsg.NewWriteTxnMarkersResponseMarker()
	w.out.ProducerID = in.ProducerID
	q := kafka.Markers{Newer: version >= 2 && in.TransactionVersion >= 2}
	for i := range in.Topics {
		t := kmsg.NewWriteTxnMarkersResponseMarkerTopic()
		t.Topic = in.Topics[i].Topic
		for _, index := range in.Topics[i].Partitions {
			p := kmsg.NewWriteTxnMarkersResponseMarkerTopicPartition()
			p.Partition = index
			number, err := b.partitionOf(t.Topic, index)
			switch {
			case in.ProducerID < 0 || in.ProducerEpoch < 0:
				p.ErrorCode = kerr.InvalidProducerEpoch.Int16()
			case err != nil:
				p.ErrorCode = kerr.Of(err).Int16()
			default:
				w.slots = append(w.slots, [2]int{i, len(t.Partitions)})
				q.Partitions = append(q.Partitions, number)
			}
			t.Partitions = append(t.Partitions, p)
		}
		w.out.Topics = append(w.out.Topics, t)
	}
	if len(q.Partitions) == 0 {
		return false
	}
	mark := kafka.Marker{ProducerID: in.ProducerID, Epoch: in.ProducerEpoch, Commit: in.Committed}
	w.command = command{kind: entry.TypeWriteMarkers, payload: q.Append(appendMarker(nil, mark, in.CoordinatorEpoch))}
	return true
}

func (w *markerWrite) answer() kmsg.WriteTxnMarkersResponseMarker {
	codes, _ := w.result.Value.([]kerr.Code)
	for i, at := range w.slots {
		code := kerr.Of(txnRefusal(w.err))
		if i < len(codes) {
			code = codes[i]
		}
		w.out.Topics[at[0]].Partitions[at[1]].ErrorCode = code.Int16()
	}
	return w.out
}

// reportTimeOut tells that a transaction took too long.
func (b *Broker) reportTimeOut(q *kafka.End) {
	b.timedOut.Add(1)
	b.logger.Info("transaction aborted: it was open for longer than its time-out", zap.String("transactional_id", q.ID),
		zap.Int64("producer_id", q.ProducerID), zap.Int16("epoch", q.Epoch), zap.Time("begun", q.Started.Go()))
}
