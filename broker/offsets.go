package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/log"
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

type topicPartition struct {
	topic     string
	partition int32
}

// listOffsets answers ListOffsets (L-1 to L-8).
func (b *Broker) listOffsets(_ context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.ListOffsetsRequest)
	response := request.ResponseKind().(*kmsg.ListOffsetsResponse)
	times := map[topicPartition]int{}
	for i := range request.Topics {
		for j := range request.Topics[i].Partitions {
			times[topicPartition{request.Topics[i].Topic, request.Topics[i].Partitions[j].Partition}]++
		}
	}
	for i := range request.Topics {
		topic := &request.Topics[i]
		outTopic := kmsg.NewListOffsetsResponseTopic()
		outTopic.Topic = topic.Topic
		for j := range topic.Partitions {
			in := &topic.Partitions[j]
			out := kmsg.NewListOffsetsResponseTopicPartition()
			out.Partition = in.Partition
			err := error(kerr.New(kerr.InvalidRequest, "the partition occurs more than once"))
			var found log.Found
			if times[topicPartition{topic.Topic, in.Partition}] == 1 {
				found, err = b.listOffset(c.Version, topic.Topic, in)
			}
			if err != nil {
				out.ErrorCode = kerr.Of(err).Int16()
				found = log.Found{Offset: -1, Time: -1}
			}
			out.Offset, out.Timestamp = int64(found.Offset), int64(found.Time)
			if found.Offset >= 0 {
				out.LeaderEpoch = log.LeaderEpoch
			}
			outTopic.Partitions = append(outTopic.Partitions, out)
		}
		response.Topics = append(response.Topics, outTopic)
	}
	return protocol.Answer(response)
}

func (b *Broker) listOffset(version int16, topic string, in *kmsg.ListOffsetsRequestTopicPartition) (log.Found, error) {
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
	none := log.Found{Offset: -1, Time: -1}
	switch in.Timestamp {
	case latestOffset:
		return log.Found{Offset: end, Time: -1}, nil
	case earliestOffset:
		return log.Found{Offset: start, Time: -1}, nil
	case maxTimestampOffset:
		if version >= 7 {
			return b.log.MaxTime(p)
		}
	case earliestLocalOffset:
		if version >= 8 {
			return log.Found{Offset: start, Time: -1}, nil
		}
	case latestTieredOffset:
		if version >= 9 {
			return none, nil // nothing is tiered
		}
	case earliestUploadOffset:
		if version >= 11 {
			return none, nil
		}
	default:
		if in.Timestamp >= 0 {
			return b.log.FindTime(p, entry.Time(in.Timestamp))
		}
	}
	return log.Found{}, kerr.New(kerr.UnsupportedVersion, "timestamp %d is not known to version %d", in.Timestamp, version)
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
			} else if _, end, ok := b.log.Bounds(p); ok && in.LeaderEpoch == log.LeaderEpoch {
				out.LeaderEpoch, out.EndOffset = log.LeaderEpoch, int64(end)
			}
			outTopic.Partitions = append(outTopic.Partitions, out)
		}
		response.Topics = append(response.Topics, outTopic)
	}
	return protocol.Answer(response)
}

// deleteRecords answers DeleteRecords (L-11).
func (b *Broker) deleteRecords(_ context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.DeleteRecordsRequest)
	response := request.ResponseKind().(*kmsg.DeleteRecordsResponse)
	for i := range request.Topics {
		topic := &request.Topics[i]
		outTopic := kmsg.NewDeleteRecordsResponseTopic()
		outTopic.Topic = topic.Topic
		for _, in := range topic.Partitions {
			out := kmsg.NewDeleteRecordsResponseTopicPartition()
			out.Partition, out.LowWatermark = in.Partition, -1
			low, err := b.deleteBefore(topic.Topic, in.Partition, entry.Offset(in.Offset))
			if err != nil {
				out.ErrorCode = kerr.Of(err).Int16()
			} else {
				out.LowWatermark = int64(low)
			}
			outTopic.Partitions = append(outTopic.Partitions, out)
		}
		response.Topics = append(response.Topics, outTopic)
	}
	return protocol.Answer(response)
}

func (b *Broker) deleteBefore(name string, index int32, before entry.Offset) (entry.Offset, error) {
	p, err := b.partitionOf(name, index)
	if err != nil {
		return -1, err
	}
	topic := b.catalog.Topic(name)
	switch {
	case topic == nil:
		return -1, kerr.New(kerr.UnknownTopicOrPartition, "")
	case topic.Internal():
		return -1, kerr.New(kerr.InvalidTopic, "topic %q belongs to the broker", name)
	case !topic.Config().Cleanup.Delete():
		return -1, kerr.New(kerr.PolicyViolation, "cleanup.policy of topic %q does not have delete", name)
	}
	start, end, ok := b.log.Bounds(p)
	if !ok {
		return -1, kerr.New(kerr.UnknownTopicOrPartition, "")
	}
	if before == -1 {
		before = end
	}
	if before < 0 || before > end {
		return -1, kerr.New(kerr.OffsetOutOfRange, "offset %d is not within 0 and %d", before, end)
	}
	if before <= start {
		return start, nil
	}
	return b.log.DeleteRecords(p, before)
}
