package diff

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func listOffsetsCases() []Case {
	const k = kmsg.ListOffsets
	request := func(topic string, partition int32, ts int64) *kmsg.ListOffsetsRequest {
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID = -1
		req.Topics = append(req.Topics, listTopic(topic, partition, ts))
		return req
	}
	// times gives every special timestamp, and some real ones around the records.
	special := []int64{-1, -2, -3, -4, -5, -6, -7, -100}
	ask := func(s *Script, topic string, times ...int64) {
		for _, ts := range times {
			label := fmt.Sprint(ts)
			if ts >= 0 {
				label = s.when(ts)
			}
			s.Do(label, request(topic, 0, ts))
		}
	}
	over := func(name string, configs []string, fill func(s *Script, topic string), times func(s *Script) []int64) Case {
		return Case{Name: "ListOffsets/" + name, Key: k, Play: func(s *Script) {
			topic := s.Topic(1, configs...)
			if fill != nil {
				fill(s, topic)
			}
			ask(s, topic, times(s)...)
		}}
	}
	offsetsFromT0 := func(ds ...int64) func(s *Script) []int64 {
		return func(s *Script) []int64 {
			var out []int64
			for _, d := range ds {
				out = append(out, s.t0+d)
			}
			return out
		}
	}
	timed := func(s *Script, codec int, ds ...int64) batch {
		b := plain(s.t0, make([]string, len(ds))...)
		b.codec = codec
		for i, d := range ds {
			b.records[i].ts = d
		}
		return b
	}
	trim := func(s *Script, topic string, before int64) {
		del := kmsg.NewPtrDeleteRecordsRequest()
		t := kmsg.NewDeleteRecordsRequestTopic()
		p := kmsg.NewDeleteRecordsRequestTopicPartition()
		t.Topic, p.Offset = topic, before
		t.Partitions = append(t.Partitions, p)
		del.Topics, del.TimeoutMillis = append(del.Topics, t), 10000
		s.prepare(2, del)
	}
	change := func(name string, edit func(req *kmsg.ListOffsetsRequest)) Case {
		return Case{Name: "ListOffsets/" + name, Key: k, Play: func(s *Script) {
			topic := threeBatches(s)
			req := request(topic, 0, -1)
			edit(req)
			s.Do("latest", req)
			req.Topics[0].Partitions[0].Timestamp = s.t0
			s.Do("by time", req)
		}}
	}
	part := func(edit func(p *kmsg.ListOffsetsRequestTopicPartition)) func(req *kmsg.ListOffsetsRequest) {
		return func(req *kmsg.ListOffsetsRequest) { edit(&req.Topics[0].Partitions[0]) }
	}
	return []Case{
		over("special-on-empty", nil, nil, func(*Script) []int64 { return special }),
		over("special-on-data", nil, func(s *Script, topic string) {
			s.Fill(topic, 0, timed(s, 0, 10, 30, 20), timed(s, 0, 5))
		}, func(*Script) []int64 { return special }),
		over("special-after-trim", nil, func(s *Script, topic string) {
			s.Fill(topic, 0, timed(s, 0, 10, 30, 20), timed(s, 0, 5))
			trim(s, topic, 2)
		}, func(*Script) []int64 { return special }),
		over("special-after-trim-of-all", nil, func(s *Script, topic string) {
			s.Fill(topic, 0, timed(s, 0, 10, 30, 20), timed(s, 0, 5))
			trim(s, topic, -1)
		}, func(*Script) []int64 { return special }),
		over("time-on-empty", nil, nil, offsetsFromT0(0)),
		over("time", nil, func(s *Script, topic string) {
			s.Fill(topic, 0, timed(s, 0, 1000), timed(s, 0, 2000), timed(s, 0, 3000))
		}, offsetsFromT0(0, 1000, 1500, 3000, 3001)),
		over("time-inside-a-batch", nil, func(s *Script, topic string) {
			s.Fill(topic, 0, timed(s, 0, 1000, 2000, 3000))
		}, offsetsFromT0(0, 1000, 1001, 2500, 3000, 3001)),
		over("time-inside-a-compressed-batch", nil, func(s *Script, topic string) {
			s.Fill(topic, 0, timed(s, codecZstd, 1000, 2000, 3000), timed(s, codecGzip, 4000, 5000))
		}, offsetsFromT0(0, 1500, 3000, 3001, 4500, 5001)),
		over("time-out-of-order", nil, func(s *Script, topic string) {
			s.Fill(topic, 0, timed(s, 0, 1000), timed(s, 0, 3000), timed(s, 0, 2000))
		}, offsetsFromT0(0, 1500, 2000, 2500, 3000, 3001)),
		over("time-out-of-order-inside", nil, func(s *Script, topic string) {
			s.Fill(topic, 0, timed(s, 0, 1000, 3000, 2000), timed(s, 0, 1500))
		}, offsetsFromT0(1200, 2000, 2500, 3000)),
		over("time-zero", nil, func(s *Script, topic string) {
			s.Fill(topic, 0, timed(s, 0, 1000))
		}, func(*Script) []int64 { return []int64{0, 1 << 62} }),
		over("time-after-trim", nil, func(s *Script, topic string) {
			s.Fill(topic, 0, timed(s, 0, 1000, 2000, 3000), timed(s, 0, 4000))
			trim(s, topic, 2)
		}, offsetsFromT0(0, 1500, 2500, 3500)),
		over("time-header-lies-high", nil, func(s *Script, topic string) {
			b := timed(s, 0, 1000, 2000)
			b.maxTimestamp = ptr(s.t0 + 9000)
			s.Fill(topic, 0, b, timed(s, 0, 3000))
		}, func(s *Script) []int64 { return []int64{s.t0 + 2500, s.t0 + 5000, -3} }),
		over("time-header-lies-low", nil, func(s *Script, topic string) {
			b := timed(s, 0, 1000, 2000)
			b.maxTimestamp = ptr(s.t0)
			s.Fill(topic, 0, b)
		}, func(s *Script) []int64 { return []int64{s.t0 + 500, s.t0 + 1500, -3} }),
		over("max-ties", nil, func(s *Script, topic string) {
			s.Fill(topic, 0, timed(s, 0, 10, 30), timed(s, 0, 30), timed(s, 0, 20))
		}, func(*Script) []int64 { return []int64{-3} }),
		over("max-in-compressed", nil, func(s *Script, topic string) {
			s.Fill(topic, 0, timed(s, codecLZ4, 10, 30, 20), timed(s, 0, 5))
		}, func(*Script) []int64 { return []int64{-3} }),
		over("max-without-timestamps", nil, func(s *Script, topic string) {
			b := plain(-1, "a", "b")
			b.records[1].ts = 0
			s.Fill(topic, 0, b)
		}, func(*Script) []int64 { return []int64{-3, 0, 5} }),
		over("append-time", []string{"message.timestamp.type", "LogAppendTime"}, func(s *Script, topic string) {
			s.Fill(topic, 0, timed(s, 0, 10, 30, 20))
		}, func(s *Script) []int64 { return []int64{-3, s.t0} }),
		change("ordinary", func(*kmsg.ListOffsetsRequest) {}),
		change("isolation-committed", func(r *kmsg.ListOffsetsRequest) { r.IsolationLevel = 1 }),
		change("isolation-two", func(r *kmsg.ListOffsetsRequest) { r.IsolationLevel = 2 }),
		change("replica-minus-two", func(r *kmsg.ListOffsetsRequest) { r.ReplicaID = -2 }),
		change("replica-of-a-stranger", func(r *kmsg.ListOffsetsRequest) { r.ReplicaID = 4711 }),
		change("epoch-right", part(func(p *kmsg.ListOffsetsRequestTopicPartition) { p.CurrentLeaderEpoch = 0 })),
		change("epoch-too-new", part(func(p *kmsg.ListOffsetsRequestTopicPartition) { p.CurrentLeaderEpoch = 3 })),
		change("epoch-minus-two", part(func(p *kmsg.ListOffsetsRequestTopicPartition) { p.CurrentLeaderEpoch = -2 })),
		change("unknown-partition", part(func(p *kmsg.ListOffsetsRequestTopicPartition) { p.Partition = 9 })),
		change("negative-partition", part(func(p *kmsg.ListOffsetsRequestTopicPartition) { p.Partition = -1 })),
		change("same-partition-twice", func(r *kmsg.ListOffsetsRequest) {
			r.Topics[0].Partitions = append(r.Topics[0].Partitions, r.Topics[0].Partitions[0])
		}),
		{Name: "ListOffsets/unknown-topic", Key: k, Play: func(s *Script) {
			topic := s.Name("")
			s.Do("answer", request(topic, 0, -1))
			s.At(9, "then", metadataOf(topic))
		}},
		{Name: "ListOffsets/bad-topic-name", Key: k, Play: func(s *Script) {
			s.Do("answer", request(s.Name("!"), 0, -1))
			s.Do("empty", request("", 0, -1))
		}},
		{Name: "ListOffsets/several", Key: k, Play: func(s *Script) {
			req := request(threeBatches(s), 0, -1)
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, listTopic("", 1, -2).Partitions...)
			req.Topics = append(req.Topics, listTopic(s.Name(""), 0, -1))
			s.Do("answer", req)
		}},
		{Name: "ListOffsets/same-topic-twice", Key: k, Play: func(s *Script) {
			topic := threeBatches(s)
			req := request(topic, 0, -1)
			req.Topics = append(req.Topics, listTopic(topic, 1, -1))
			s.Do("answer", req)
		}},
		{Name: "ListOffsets/same-partition-of-same-topic-twice", Key: k, Play: func(s *Script) {
			topic := threeBatches(s)
			req := request(topic, 0, -1)
			req.Topics = append(req.Topics, listTopic(topic, 0, -2))
			s.Do("answer", req)
		}},
		{Name: "ListOffsets/nothing", Key: k, Play: func(s *Script) {
			req := request("x", 0, -1)
			req.Topics = nil
			s.Do("answer", req)
		}},
	}
}

func offsetForLeaderEpochCases() []Case {
	const k = kmsg.OffsetForLeaderEpoch
	request := func(topic string, partition, current, epoch int32) *kmsg.OffsetForLeaderEpochRequest {
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		req.ReplicaID = -1
		t := kmsg.NewOffsetForLeaderEpochRequestTopic()
		t.Topic = topic
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = partition, current, epoch
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		return req
	}
	at := func(name string, partition, current, epoch int32) Case {
		return Case{Name: "OffsetForLeaderEpoch/" + name, Key: k, Play: func(s *Script) {
			s.Do("answer", request(threeBatches(s), partition, current, epoch))
		}}
	}
	return []Case{
		at("own", 0, -1, 0), at("own-with-current", 0, 0, 0), at("newer", 0, -1, 1), at("far-newer", 0, -1, 1<<30),
		at("negative", 0, -1, -1), at("very-negative", 0, -1, -5), at("current-too-new", 0, 1, 0),
		at("current-minus-two", 0, -2, 0), at("on-empty", 1, -1, 0), at("newer-on-empty", 1, -1, 3),
		at("unknown-partition", 9, -1, 0),
		{Name: "OffsetForLeaderEpoch/unknown-topic", Key: k, Play: func(s *Script) {
			s.Do("answer", request(s.Name(""), 0, -1, 0))
		}},
		{Name: "OffsetForLeaderEpoch/several", Key: k, Play: func(s *Script) {
			topic := threeBatches(s)
			req := request(topic, 0, -1, 0)
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, request("", 1, -1, 0).Topics[0].Partitions...)
			req.Topics = append(req.Topics, request(s.Name(""), 0, -1, 0).Topics...)
			s.Do("answer", req)
		}},
		{Name: "OffsetForLeaderEpoch/replica-minus-two", Key: k, Play: func(s *Script) {
			req := request(threeBatches(s), 0, -1, 0)
			req.ReplicaID = -2
			s.Do("answer", req)
		}},
		{Name: "OffsetForLeaderEpoch/nothing", Key: k, Play: func(s *Script) {
			req := request("x", 0, -1, 0)
			req.Topics = nil
			s.Do("answer", req)
		}},
	}
}
