package broker_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/protocol/kerr"
)

func listOffsets(topic string, partition int32, timestamps ...int64) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	for _, ts := range timestamps {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = partition, ts
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = topic
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		partition++
	}
	return req
}

func TestListOffsetsAtEveryVersion(t *testing.T) {
	n := start(t)
	n.topic("a", 2)
	n.produce("a", 1, "x", "y", "z") // at sent, sent+1, sent+2
	n.deleteRecords("a", 1, 1)
	eachVersion(t, 1, 11, func(t *testing.T, version int16) {
		for name, c := range map[string]struct {
			timestamp       int64
			since           int16
			offset, time    int64
			emptyPartitions int64
		}{
			"latest":          {-1, 1, 3, -1, 0},
			"earliest":        {-2, 1, 1, -1, 0},
			"largest time":    {-3, 7, 2, sent + 2, -1},
			"earliest local":  {-4, 8, 1, -1, 0},
			"latest tiered":   {-5, 9, -1, -1, -1},
			"earliest upload": {-6, 11, -1, -1, -1},
			"at a time":       {sent + 2, 1, 2, sent + 2, -1},
			"before the log":  {0, 1, 1, sent + 1, -1},
			"after the log":   {sent + 3, 1, -1, -1, -1},
			"not known":       {-7, 99, -1, -1, -1},
		} {
			for partition, offset := range map[int32]int64{0: c.emptyPartitions, 1: c.offset} {
				p := ask[*kmsg.ListOffsetsResponse](n.client(), version, listOffsets("a", partition, c.timestamp)).Topics[0].Partitions[0]
				code, epoch, at := kerr.None, int32(-1), int64(-1)
				if version < c.since {
					code, offset = kerr.UnsupportedVersion, -1
				}
				if partition == 1 && code == kerr.None {
					at = c.time
				}
				if offset >= 0 && version >= 4 {
					epoch = 0
				}
				if kerr.Code(p.ErrorCode) != code || p.Partition != partition || p.Offset != offset || p.Timestamp != at || p.LeaderEpoch != epoch {
					t.Errorf("%s of partition %d: %s, %+v", name, partition, kerr.Code(p.ErrorCode), p)
				}
			}
		}
	})
}

func TestListOffsetsRefuses(t *testing.T) {
	n := start(t)
	n.topic("a", 2)
	for name, c := range map[string]struct {
		edit func(*kmsg.ListOffsetsRequest)
		code kerr.Code
	}{
		"unknown topic":     {func(r *kmsg.ListOffsetsRequest) { r.Topics[0].Topic = "b" }, kerr.UnknownTopicOrPartition},
		"impossible topic":  {func(r *kmsg.ListOffsetsRequest) { r.Topics[0].Topic = "a b" }, kerr.UnknownTopicOrPartition},
		"unknown partition": {func(r *kmsg.ListOffsetsRequest) { r.Topics[0].Partitions[0].Partition = 2 }, kerr.UnknownTopicOrPartition},
		"newer epoch":       {func(r *kmsg.ListOffsetsRequest) { r.Topics[0].Partitions[0].CurrentLeaderEpoch = 1 }, kerr.UnknownLeaderEpoch},
		"older epoch":       {func(r *kmsg.ListOffsetsRequest) { r.Topics[0].Partitions[0].CurrentLeaderEpoch = -2 }, kerr.FencedLeaderEpoch},
		"isolation":         {func(r *kmsg.ListOffsetsRequest) { r.IsolationLevel = 2 }, kerr.UnknownServerError},
		"twice":             {func(r *kmsg.ListOffsetsRequest) { r.Topics = append(r.Topics, r.Topics[0]) }, kerr.InvalidRequest},
		"nothing wrong":     {func(*kmsg.ListOffsetsRequest) {}, kerr.None},
	} {
		req := listOffsets("a", 0, -1)
		c.edit(req)
		resp := ask[*kmsg.ListOffsetsResponse](n.client(), 6, req)
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
			t.Errorf("%s: %+v", name, resp.Topics)
			continue
		}
		if p := resp.Topics[0].Partitions[0]; kerr.Code(p.ErrorCode) != c.code || (p.Offset == -1) != (c.code != kerr.None) {
			t.Errorf("%s: %s, %+v", name, kerr.Code(p.ErrorCode), p)
		}
	}
}

func TestListOffsetsGathersTheEntriesOfATopic(t *testing.T) {
	n := start(t)
	n.topic("a", 2)
	resp := ask[*kmsg.ListOffsetsResponse](n.client(), 6, listOffsets("a", 0, -1, -2))
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 2 {
		t.Errorf("got %+v", resp.Topics)
	}
}

func TestLargestTimeOfRecordsWithoutTimesIsTheFirst(t *testing.T) {
	n := start(t)
	n.topic("a", 1)
	var b batch.Builder
	b.Add(&batch.Record{Timestamp: batch.NoTimestamp, Value: []byte("x")})
	in, err := b.Build(nil, batch.NewCodecs(batch.Limits{}), batch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ask[*kmsg.ProduceResponse](n.client(), 9, produceRequest(-1, part{topic: "a", records: in}))
	p := ask[*kmsg.ListOffsetsResponse](n.client(), 7, listOffsets("a", 0, -3)).Topics[0].Partitions[0]
	if p.Offset != 0 || p.Timestamp != -1 {
		t.Errorf("got %+v", p)
	}
}

func TestOffsetForLeaderEpochAtEveryVersion(t *testing.T) {
	n := start(t)
	n.topic("a", 1)
	n.produce("a", 0, "x", "y", "z")
	n.deleteRecords("a", 0, 1)
	eachVersion(t, 2, 4, func(t *testing.T, version int16) {
		for name, c := range map[string]struct {
			topic          string
			partition      int32
			current, asked int32
			code           kerr.Code
			epoch          int32
			end            int64
		}{
			"the epoch":         {"a", 0, 0, 0, kerr.None, 0, 3},
			"without current":   {"a", 0, -1, 0, kerr.None, 0, 3},
			"one to come":       {"a", 0, 0, 1, kerr.None, -1, -1},
			"none":              {"a", 0, 0, -1, kerr.None, -1, -1},
			"one before":        {"a", 0, 0, -5, kerr.None, -5, 1},
			"newer current":     {"a", 0, 1, 0, kerr.UnknownLeaderEpoch, -1, -1},
			"older current":     {"a", 0, -2, 0, kerr.FencedLeaderEpoch, -1, -1},
			"unknown topic":     {"b", 0, 0, 0, kerr.UnknownTopicOrPartition, -1, -1},
			"unknown partition": {"a", 1, 0, 0, kerr.UnknownTopicOrPartition, -1, -1},
		} {
			req := kmsg.NewPtrOffsetForLeaderEpochRequest()
			topic := kmsg.NewOffsetForLeaderEpochRequestTopic()
			p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			topic.Topic, p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = c.topic, c.partition, c.current, c.asked
			topic.Partitions = append(topic.Partitions, p)
			req.Topics = append(req.Topics, topic)
			got := ask[*kmsg.OffsetForLeaderEpochResponse](n.client(), version, req).Topics[0].Partitions[0]
			if kerr.Code(got.ErrorCode) != c.code || got.LeaderEpoch != c.epoch || got.EndOffset != c.end {
				t.Errorf("%s: %s, %+v", name, kerr.Code(got.ErrorCode), got)
			}
		}
	})
}

// trim is a partition of a DeleteRecords request.
type trim struct {
	topic     string
	partition int32
	before    int64
}

func deleteRequest(trims ...trim) *kmsg.DeleteRecordsRequest {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 10_000
	for _, d := range trims {
		t := kmsg.NewDeleteRecordsRequestTopic()
		p := kmsg.NewDeleteRecordsRequestTopicPartition()
		t.Topic, p.Partition, p.Offset = d.topic, d.partition, d.before
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	return req
}

func (n *node) deleteRecords(topic string, partition int32, before int64) {
	n.t.Helper()
	p := ask[*kmsg.DeleteRecordsResponse](n.client(), 2, deleteRequest(trim{topic, partition, before})).Topics[0].Partitions[0]
	wantCode(n.t, p.ErrorCode, kerr.None)
}

func TestDeleteRecordsAtEveryVersion(t *testing.T) {
	n := start(t)
	n.topic("a", 3)
	n.topic("kept", 1, "cleanup.policy", "compact")
	for partition := range int32(3) {
		n.produce("a", partition, "1", "2", "3", "4")
	}
	eachVersion(t, 0, 2, func(t *testing.T, version int16) {
		partition := int32(version)
		for _, c := range []struct {
			trim trim
			code kerr.Code
			low  int64
		}{
			{trim{"a", partition, 2}, kerr.None, 2},
			{trim{"a", partition, 1}, kerr.None, 2}, // it never moves back
			{trim{"a", partition, 5}, kerr.OffsetOutOfRange, -1},
			{trim{"a", partition, -2}, kerr.OffsetOutOfRange, -1},
			{trim{"a", partition, -1}, kerr.None, 4},
			{trim{"a", 9, 0}, kerr.UnknownTopicOrPartition, -1},
			{trim{"b", 0, 0}, kerr.UnknownTopicOrPartition, -1},
			{trim{"kept", 0, 0}, kerr.PolicyViolation, -1},
		} {
			p := ask[*kmsg.DeleteRecordsResponse](n.client(), version, deleteRequest(c.trim)).Topics[0].Partitions[0]
			if kerr.Code(p.ErrorCode) != c.code || p.LowWatermark != c.low {
				t.Errorf("%+v: %s, %+v", c.trim, kerr.Code(p.ErrorCode), p)
			}
		}
	})
}

func TestDeleteRecordsOfManyPartitionsAtOnce(t *testing.T) {
	n := start(t)
	n.topic("a", 100)
	n.topic("b", 1)
	req := deleteRequest(trim{"a", 7, 9}) // out of range, and not the last entry for its partition
	for partition := range int32(100) {
		n.produce("a", partition, "x", "y")
		req.Topics = append(req.Topics, deleteRequest(trim{"a", partition, 1}).Topics...)
	}
	req.Topics = append(req.Topics, deleteRequest(trim{"b", 0, 1}).Topics...)
	resp := ask[*kmsg.DeleteRecordsResponse](n.client(), 2, req)
	if len(resp.Topics) != 2 || len(resp.Topics[0].Partitions) != 100 {
		t.Fatalf("got %+v", resp.Topics)
	}
	for _, p := range resp.Topics[0].Partitions {
		if p.ErrorCode != 0 || p.LowWatermark != 1 {
			t.Errorf("got %+v", p)
		}
	}
	wantCode(t, resp.Topics[1].Partitions[0].ErrorCode, kerr.OffsetOutOfRange)
	if got := bases(t, n.fetch("a", 99, 1)); len(got) != 1 {
		t.Errorf("got %v", got)
	}
}
