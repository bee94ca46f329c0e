package broker

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/log"
	"github.com/sluicemq/sluice/log/apply"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// The special timestamps of ListOffsets, and the first version that has each.
const (
	latestOffset         = -1
	earliestOffset       = -2
	maxTimestampOffset   = -3 // version 7
	earliestLocalOffset  = -4 // version 8
	latestTieredOffset   = -5 // version 9
	earliestUploadOffset = -6 // version 11
)

// checkLeaderEpoch compares the leader epoch that a client believes in, -1 for
// none, with the one there is (F-8).
func checkLeaderEpoch(current int32) error {
	switch {
	case current == -1 || current == log.LeaderEpoch:
		return nil
	case current < log.LeaderEpoch:
		return kerr.New(kerr.FencedLeaderEpoch, "")
	default:
		return kerr.New(kerr.UnknownLeaderEpoch, "")
	}
}

// partitionOf returns the number of a partition.
func (b *Broker) partitionOf(topic string, index int32) (entry.Partition, error) {
	t := b.catalog.Topic(topic)
	if t == nil {
		return 0, kerr.New(kerr.UnknownTopicOrPartition, "")
	}
	p, ok := t.Partition(index)
	if !ok {
		return 0, kerr.New(kerr.UnknownTopicOrPartition, "")
	}
	return p, nil
}

// listOffsets answers ListOffsets (L-1 to L-8). Looking for times reads from
// disk, so a long list ends when nobody waits for it any more.
func (b *Broker) listOffsets(ctx context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.ListOffsetsRequest)
	response := request.ResponseKind().(*kmsg.ListOffsetsResponse)
	var unfit error
	if request.IsolationLevel != readUncommitted && request.IsolationLevel != readCommitted {
		unfit = kerr.New(kerr.UnknownServerError, "isolation level %d is unknown", request.IsolationLevel)
	}
	topics := gather(len(request.Topics),
		func(t int) topicKey { return topicKey{name: request.Topics[t].Topic} },
		func(t int) int { return len(request.Topics[t].Partitions) },
		func(t, p int) int32 { return request.Topics[t].Partitions[p].Partition })
	for _, topic := range topics {
		out := kmsg.NewListOffsetsResponseTopic()
		out.Topic = request.Topics[topic.topic].Topic
		for _, p := range topic.partitions {
			if ctx.Err() != nil {
				break
			}
			found, err := nowhere, unfit
			switch {
			case p.times > 1:
				err = kerr.New(kerr.InvalidRequest, "the partition occurs more than once")
			case err == nil:
				found, err = b.listOffset(request, out.Topic, &request.Topics[p.topic].Partitions[p.partition])
			}
			out.Partitions = append(out.Partitions, listedOffset(p.index, found, err))
		}
		response.Topics = append(response.Topics, out)
	}
	return protocol.Answer(response)
}

func listedOffset(index int32, found log.Found, err error) kmsg.ListOffsetsResponseTopicPartition {
	out := kmsg.NewListOffsetsResponseTopicPartition()
	out.Partition = index
	if err != nil {
		out.ErrorCode = kerr.Of(err).Int16()
		found = nowhere
	}
	out.Offset, out.Timestamp = int64(found.Offset), int64(found.Time)
	if found.Offset >= 0 {
		out.LeaderEpoch = log.LeaderEpoch
	}
	return out
}

// nowhere is what is found where there is nothing.
var nowhere = log.Found{Offset: -1, Time: -1}

func (b *Broker) listOffset(request *kmsg.ListOffsetsRequest, topic string, in *kmsg.ListOffsetsRequestTopicPartition) (log.Found, error) {
	version := request.Version
	p, err := b.partitionOf(topic, in.Partition)
	if err != nil {
		return log.Found{}, err
	}
	if err := checkLeaderEpoch(in.CurrentLeaderEpoch); err != nil {
		return log.Found{}, err
	}
	start, end, ok := b.log.Bounds(p)
	if !ok {
		return log.Found{}, kerr.New(kerr.UnknownTopicOrPartition, "")
	}
	readable := end
	if request.IsolationLevel == readCommitted {
		readable = b.txns.LastStable(p, start, end)
	}
	switch in.Timestamp {
	case latestOffset:
		return log.Found{Offset: readable, Time: -1}, nil
	case earliestOffset:
		return log.Found{Offset: start, Time: -1}, nil
	case maxTimestampOffset:
		if version >= 7 {
			b.decoders.take() // the record is looked for within its batch
			defer b.decoders.give()
			found, err := b.log.MaxTime(p)
			if err == nil && found.Offset < 0 && start < end {
				found.Offset = start // no record has a time, so that the first has the largest
			}
			return below(readable, found), err
		}
	case earliestLocalOffset:
		if version >= 8 {
			return log.Found{Offset: start, Time: -1}, nil
		}
	case latestTieredOffset:
		if version >= 9 {
			return nowhere, nil // nothing is tiered
		}
	case earliestUploadOffset:
		if version >= 11 {
			return nowhere, nil
		}
	default:
		if in.Timestamp >= 0 {
			b.decoders.take() // the record is looked for within its batch
			defer b.decoders.give()
			found, err := b.log.FindTime(p, entry.Time(in.Timestamp))
			return below(readable, found), err
		}
	}
	return log.Found{}, kerr.New(kerr.UnsupportedVersion, "timestamp %d is not known to version %d", in.Timestamp, version)
}

// below is what was found for one who can read up to an offset.
func below(readable entry.Offset, found log.Found) log.Found {
	if found.Offset >= readable {
		return nowhere
	}
	return found
}

// offsetForLeaderEpoch answers OffsetForLeaderEpoch (L-9, L-10): the only epoch
// that ever was ends where the log does.
func (b *Broker) offsetForLeaderEpoch(_ context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.OffsetForLeaderEpochRequest)
	response := request.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	for i := range request.Topics {
		topic := &request.Topics[i]
		outTopic := kmsg.NewOffsetForLeaderEpochResponseTopic()
		outTopic.Topic = topic.Topic
		for j := range topic.Partitions {
			in := &topic.Partitions[j]
			out := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			out.Partition = in.Partition
			out.LeaderEpoch, out.EndOffset = -1, -1
			p, err := b.partitionOf(topic.Topic, in.Partition)
			if err == nil {
				err = checkLeaderEpoch(in.CurrentLeaderEpoch)
			}
			if err != nil {
				out.ErrorCode = kerr.Of(err).Int16()
			} else if start, end, ok := b.log.Bounds(p); ok {
				out.LeaderEpoch, out.EndOffset = endOfEpoch(in.LeaderEpoch, start, end)
			}
			outTopic.Partitions = append(outTopic.Partitions, out)
		}
		response.Topics = append(response.Topics, outTopic)
	}
	return protocol.Answer(response)
}

// endOfEpoch returns the newest leader epoch that is not newer than the one
// asked for, and where it ends. There was one epoch only. Of one before it Kafka
// says that it ended where the first began; that -1 is none, and one to come,
// has no end.
func endOfEpoch(asked int32, start, end entry.Offset) (epoch int32, at int64) {
	switch {
	case asked == log.LeaderEpoch:
		return log.LeaderEpoch, int64(end)
	case asked < log.LeaderEpoch && asked != -1:
		return asked, int64(start)
	}
	return -1, -1
}

// deleteRecords answers DeleteRecords (L-11). All starts move by one entry.
func (b *Broker) deleteRecords(ctx context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.DeleteRecordsRequest)
	response := request.ResponseKind().(*kmsg.DeleteRecordsResponse)
	topics := gather(len(request.Topics),
		func(t int) topicKey { return topicKey{name: request.Topics[t].Topic} },
		func(t int) int { return len(request.Topics[t].Partitions) },
		func(t, p int) int32 { return request.Topics[t].Partitions[p].Partition })
	var moves []apply.LogStart
	var moved []*kmsg.DeleteRecordsResponseTopicPartition
	response.Topics = make([]kmsg.DeleteRecordsResponseTopic, len(topics))
	for i, topic := range topics {
		response.Topics[i].Topic = request.Topics[topic.topic].Topic
		response.Topics[i].Partitions = make([]kmsg.DeleteRecordsResponseTopicPartition, len(topic.partitions))
		for j, p := range topic.partitions {
			out := &response.Topics[i].Partitions[j]
			out.Partition, out.LowWatermark = p.index, -1
			move, start, err := b.planTrim(response.Topics[i].Topic, p.index, entry.Offset(request.Topics[p.topic].Partitions[p.partition].Offset))
			switch {
			case err != nil:
				out.ErrorCode = kerr.Of(err).Int16()
			case move.Offset <= start:
				out.LowWatermark = int64(start) // there already
			default:
				moves, moved = append(moves, move), append(moved, out)
			}
		}
	}
	b.moveStarts(ctx, request.TimeoutMillis, moves, moved)
	return protocol.Answer(response)
}

// movesAtOnce is how many log starts one entry moves.
const movesAtOnce = 10_000

// moveStarts moves log starts forward and answers with where they are then.
func (b *Broker) moveStarts(ctx context.Context, timeoutMs int32, moves []apply.LogStart, answers []*kmsg.DeleteRecordsResponseTopicPartition) {
	var commands []*command
	for some := range slices.Chunk(moves, movesAtOnce) {
		commands = append(commands, &command{kind: entry.TypeLogStart, payload: apply.EncodeLogStarts(some)})
	}
	b.do(ctx, timeoutMs, commands)
	for i, out := range answers {
		if err := commands[i/movesAtOnce].err; err != nil {
			out.ErrorCode = kerr.Of(err).Int16()
			continue
		}
		start, _, ok := b.log.Bounds(moves[i].Partition)
		if !ok {
			out.ErrorCode = kerr.UnknownTopicOrPartition.Int16()
			continue
		}
		out.LowWatermark = int64(start)
	}
	if len(moves) > 0 {
		b.log.Kick() // there may be files to free
	}
}

// planTrim checks what a client wants deleted, and returns also where the
// partition starts.
func (b *Broker) planTrim(name string, index int32, before entry.Offset) (move apply.LogStart, start entry.Offset, err error) {
	p, err := b.partitionOf(name, index)
	if err != nil {
		return move, -1, err
	}
	topic := b.catalog.Topic(name)
	switch {
	case topic == nil:
		return move, -1, kerr.New(kerr.UnknownTopicOrPartition, "")
	case topic.Internal():
		return move, -1, kerr.New(kerr.InvalidTopic, "topic %q belongs to the broker", name)
	case !topic.Config().Cleanup.Delete():
		return move, -1, kerr.New(kerr.PolicyViolation, "cleanup.policy of topic %q does not have delete", name)
	}
	start, end, ok := b.log.Bounds(p)
	if !ok {
		return move, -1, kerr.New(kerr.UnknownTopicOrPartition, "")
	}
	if before == -1 {
		before = end
	}
	if before < 0 || before > end {
		return move, -1, kerr.New(kerr.OffsetOutOfRange, "offset %d is not within 0 and %d", before, end)
	}
	return apply.LogStart{Partition: p, Offset: before}, start, nil
}
