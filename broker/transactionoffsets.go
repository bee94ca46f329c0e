package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/catalog"
	"github.com/sluicemq/sluice/group/offsets"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol"
	"github.com/sluicemq/sluice/protocol/kerr"
	"github.com/sluicemq/sluice/txn/kafka"
)

// txnOffsetCommit answers TxnOffsetCommit (T-21): the offsets wait until their
// transaction ends. From version 5 on the group comes into the transaction with them.
func (b *Broker) txnOffsetCommit(ctx context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.TxnOffsetCommitRequest)
	response := request.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
	q := offsets.Request{
		Group: request.Group, Member: request.MemberID, Instance: text(request.InstanceID),
		Generation: request.Generation, Retention: -1,
	}
	known := false // there are partitions for the coordinator
	response.Topics = make([]kmsg.TxnOffsetCommitResponseTopic, len(request.Topics))
	for i := range request.Topics {
		in, out := &request.Topics[i], &response.Topics[i]
		*out = kmsg.NewTxnOffsetCommitResponseTopic()
		out.Topic, out.TopicID = in.Topic, in.TopicID
		topic, refusal := b.topicOf(c.Version >= 6, in.Topic, in.TopicID)
		committed := offsets.Topic{}
		for j := range in.Partitions {
			p := &in.Partitions[j]
			answer := kmsg.NewTxnOffsetCommitResponseTopicPartition()
			answer.Partition = p.Partition
			if answer.ErrorCode = b.checkOffset(topic, refusal, p).Int16(); answer.ErrorCode == 0 {
				committed.Offsets = append(committed.Offsets, offsets.Offset{
					Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: text(p.Metadata),
				})
			}
			known = known || answer.ErrorCode == 0 || answer.ErrorCode == kerr.OffsetMetadataTooLarge.Int16()
			out.Partitions = append(out.Partitions, answer)
		}
		if len(committed.Offsets) > 0 {
			committed.ID = topic.ID()
			q.Topics = append(q.Topics, committed)
		}
	}
	if !known {
		return protocol.Answer(response)
	}
	if err := b.pendOffsets(ctx, request, &q); err != nil {
		code := txnOffsetCode(err, c.Version).Int16()
		for i := range response.Topics {
			for j := range response.Topics[i].Partitions {
				p := &response.Topics[i].Partitions[j]
				if p.ErrorCode == 0 || p.ErrorCode == kerr.OffsetMetadataTooLarge.Int16() {
					p.ErrorCode = code
				}
			}
		}
	}
	return protocol.Answer(response)
}

// checkOffset says what is wrong with an offset by itself.
func (b *Broker) checkOffset(topic *catalog.Topic, refusal error, p *kmsg.TxnOffsetCommitRequestTopicPartition) kerr.Code {
	switch {
	case refusal != nil:
		return kerr.Of(refusal)
	case p.Partition < 0 || p.Partition >= topic.Partitions():
		return kerr.UnknownTopicOrPartition
	case b.tooLong(p.Metadata):
		return kerr.OffsetMetadataTooLarge
	}
	return kerr.None
}

func (b *Broker) pendOffsets(ctx context.Context, request *kmsg.TxnOffsetCommitRequest, q *offsets.Request) error {
	switch {
	case request.TransactionalID == "":
		return noTransactionalID()
	case q.Group == "":
		return kerr.New(kerr.InvalidGroupID, "the group id is empty")
	}
	head := kafka.Offsets{
		ID: request.TransactionalID, ProducerID: request.ProducerID, Epoch: request.ProducerEpoch,
		Group: q.Group, Adds: request.Version >= 5,
	}
	if err := b.groups.CheckTransactional(q, request.Version); err != nil {
		// What is wrong with the producer goes before.
		if fenced := b.txns.CheckProducer(head.ID, kafka.Producer{ID: head.ProducerID, Epoch: head.Epoch}); fenced != nil {
			return fenced
		}
		return err
	}
	_, err := b.doOne(ctx, entry.TypePendOffsets, q.Append(head.Append(make([]byte, 0, 64+len(head.ID)+q.Size()))))
	if code := kerr.Of(err); code == kerr.MessageTooLarge || code == kerr.RecordListTooLarge {
		return kerr.New(kerr.InvalidCommitOffsetSize, "%s", kerr.Message(err))
	}
	return txnRefusal(err)
}

// txnOffsetCode is the code of a refusal that a version knows.
func txnOffsetCode(err error, version int16) kerr.Code {
	switch code := kerr.Of(err); {
	case code == kerr.ProducerFenced:
		return kerr.InvalidProducerEpoch
	case code == kerr.InvalidTxnState && version >= 4:
		return kerr.TransactionAbortable
	case (code == kerr.GroupIDNotFound || code == kerr.StaleMemberEpoch) && version < 6:
		return kerr.IllegalGeneration
	case code == kerr.RebalanceInProgress:
		return kerr.ConcurrentTransactions // which is tried again; the other is not known here
	default:
		return code
	}
}
