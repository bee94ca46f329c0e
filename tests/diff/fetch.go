package diff

import (
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// threeBatches makes a topic whose partition 0 holds batches of offsets 0-2, 3-4 and 5.
func threeBatches(s *Script) string {
	topic := s.Topic(2)
	s.Fill(topic, 0, plain(s.t0, "a", "b", "c"), plain(s.t0+10, "d", "e"), plain(s.t0+20, "f"))
	return topic
}

func fetchCases() []Case {
	const k = kmsg.Fetch
	at := func(name string, offset int64, change ...func(req *kmsg.FetchRequest)) Case {
		return Case{Name: "Fetch/" + name, Key: k, Play: func(s *Script) {
			req := s.FetchRequest(threeBatches(s), 0, offset)
			for _, c := range change {
				c(req)
			}
			s.Do("answer", req)
		}}
	}
	partition := func(change func(p *kmsg.FetchRequestTopicPartition)) func(req *kmsg.FetchRequest) {
		return func(req *kmsg.FetchRequest) { change(&req.Topics[0].Partitions[0]) }
	}
	epoch := func(e int32) func(req *kmsg.FetchRequest) {
		return partition(func(p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch = e })
	}
	lastEpoch := func(e int32) func(req *kmsg.FetchRequest) {
		return partition(func(p *kmsg.FetchRequestTopicPartition) { p.LastFetchedEpoch = e })
	}
	limit := func(n int32) func(req *kmsg.FetchRequest) {
		return partition(func(p *kmsg.FetchRequestTopicPartition) { p.PartitionMaxBytes = n })
	}
	maxBytes := func(n int32) func(req *kmsg.FetchRequest) {
		return func(req *kmsg.FetchRequest) { req.MaxBytes = n }
	}
	isolation := func(n int8) func(req *kmsg.FetchRequest) {
		return func(req *kmsg.FetchRequest) { req.IsolationLevel = n }
	}
	// asReplica asks as a broker would: the id moved into a tag in version 15.
	asReplica := func(name string, id int32) Case {
		return Case{Name: "Fetch/" + name, Key: k, Play: func(s *Script) {
			req := s.FetchRequest(threeBatches(s), 0, 0)
			if s.V < 15 {
				req.ReplicaID = id
			} else {
				req.ReplicaState.ID = id
			}
			s.Do("answer", req)
		}}
	}
	// timed records whether the answer came at once or after the wait.
	timed := func(s *Script, label string, req *kmsg.FetchRequest) {
		before := time.Now()
		s.Do(label, req)
		s.Note(label+".waited", time.Since(before) >= 300*time.Millisecond)
	}
	return []Case{
		at("from-the-start", 0), at("in-the-middle-of-a-batch", 1), at("last-of-a-batch", 2), at("second-batch", 3),
		at("last", 5), at("at-the-end", 6), at("beyond-the-end", 7), at("far-beyond-the-end", 1<<40),
		at("offset-minus-one", -1), at("offset-minus-two", -2),
		at("partition-limit-zero", 0, limit(0)), at("partition-limit-one", 0, limit(1)), at("partition-limit-of-one-batch", 0, limit(100)),
		at("partition-limit-of-a-batch-and-a-half", 0, limit(130)), at("partition-limit-negative", 0, limit(-1)),
		at("limit-zero", 0, maxBytes(0)), at("limit-one", 0, maxBytes(1)), at("limit-negative", 0, maxBytes(-1)),
		at("limit-of-one-batch", 3, maxBytes(100)),
		at("min-bytes-zero-at-the-end", 6, func(r *kmsg.FetchRequest) { r.MinBytes, r.MaxWaitMillis = 0, 5000 }),
		at("min-bytes-negative-at-the-end", 6, func(r *kmsg.FetchRequest) { r.MinBytes, r.MaxWaitMillis = -5, 5000 }),
		at("isolation-committed", 0, isolation(1)), at("isolation-committed-at-the-end", 6, isolation(1)),
		at("isolation-two", 0, isolation(2)), at("isolation-negative", 0, isolation(-1)),
		at("epoch-right", 0, epoch(0)), at("epoch-too-new", 0, epoch(1)), at("epoch-minus-two", 0, epoch(-2)),
		at("last-fetched-epoch-right", 3, lastEpoch(0)), at("last-fetched-epoch-right-at-the-end", 6, lastEpoch(0)),
		at("last-fetched-epoch-right-beyond-the-end", 7, lastEpoch(0)),
		at("last-fetched-epoch-too-new", 3, lastEpoch(1)), at("last-fetched-epoch-negative", 3, lastEpoch(-2)),
		at("rack", 0, func(r *kmsg.FetchRequest) { r.Rack = "rack-1" }),
		at("log-start-offset-set", 0, partition(func(p *kmsg.FetchRequestTopicPartition) { p.LogStartOffset = 2 })),
		at("unknown-partition", 0, partition(func(p *kmsg.FetchRequestTopicPartition) { p.Partition = 9 })),
		at("negative-partition", 0, partition(func(p *kmsg.FetchRequestTopicPartition) { p.Partition = -1 })),
		at("cluster-id-of-another", 0, func(r *kmsg.FetchRequest) { r.ClusterID = ptr("another") }),
		asReplica("replica-minus-two", -2), asReplica("replica-of-a-stranger", 4711),
		{Name: "Fetch/empty-partition", Key: k, All: true, Play: func(s *Script) {
			topic := s.Topic(1)
			s.Do("zero", s.FetchRequest(topic, 0, 0))
			s.Do("one", s.FetchRequest(topic, 0, 1))
		}},
		{Name: "Fetch/unknown-topic", Key: k, All: true, Play: func(s *Script) {
			topic := s.Name("")
			s.Do("answer", s.FetchRequest(topic, 0, 0))
			s.At(9, "then", metadataOf(topic))
		}},
		{Name: "Fetch/bad-topic-name", Key: k, Max: 12, Play: func(s *Script) {
			s.Do("answer", s.FetchRequest(s.Name("!"), 0, 0))
			s.Do("empty", s.FetchRequest("", 0, 0))
		}},
		{Name: "Fetch/zero-topic-id", Key: k, Min: 13, Play: func(s *Script) {
			req := s.FetchRequest(s.Name(""), 0, 0)
			req.Topics[0].TopicID = [16]byte{}
			s.Do("answer", req)
		}},
		{Name: "Fetch/known-and-unknown", Key: k, Play: func(s *Script) {
			req := s.FetchRequest(threeBatches(s), 0, 0)
			req.Topics = append(req.Topics, s.fetchTopic(s.Name(""), 0, 0))
			s.Do("answer", req)
		}},
		{Name: "Fetch/nothing", Key: k, Play: func(s *Script) {
			req := s.FetchRequest("x", 0, 0)
			req.Topics = nil
			req.MaxWaitMillis = 5000
			timed(s, "answer", req)
		}},
		{Name: "Fetch/no-partitions", Key: k, Play: func(s *Script) {
			req := s.FetchRequest(s.Topic(1), 0, 0)
			req.Topics[0].Partitions = nil
			s.Do("answer", req)
		}},
		{Name: "Fetch/same-partition-twice", Key: k, Play: func(s *Script) {
			req := s.FetchRequest(threeBatches(s), 0, 0)
			p := req.Topics[0].Partitions[0]
			p.FetchOffset = 3
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
			s.Do("answer", req)
		}},
		{Name: "Fetch/same-topic-twice", Key: k, Play: func(s *Script) {
			topic := threeBatches(s)
			req := s.FetchRequest(topic, 0, 0)
			req.Topics = append(req.Topics, s.fetchTopic(topic, 1, 0))
			s.Do("answer", req)
		}},
		{Name: "Fetch/first-partition-may-exceed", Key: k, Play: func(s *Script) {
			// The first partition with data gives a batch whatever the limit; the next one does not.
			topic := s.Topic(3)
			s.Fill(topic, 1, plain(s.t0, strings.Repeat("x", 500)))
			s.Fill(topic, 2, plain(s.t0, strings.Repeat("y", 500)))
			req := s.FetchRequest(topic, 0, 0)
			req.MaxBytes = 10
			for i := range int32(2) {
				p := req.Topics[0].Partitions[0]
				p.Partition, p.PartitionMaxBytes = i+1, 10
				req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
			}
			s.Do("answer", req)
		}},
		{Name: "Fetch/order-of-the-request-decides", Key: k, Play: func(s *Script) {
			topic := s.Topic(2)
			s.Fill(topic, 0, plain(s.t0, strings.Repeat("x", 500)))
			s.Fill(topic, 1, plain(s.t0, strings.Repeat("y", 500)))
			req := s.FetchRequest(topic, 1, 0)
			req.MaxBytes = 10
			p := req.Topics[0].Partitions[0]
			p.Partition = 0
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
			s.Do("answer", req)
		}},
		{Name: "Fetch/rest-of-the-limit-goes-to-the-next", Key: k, Play: func(s *Script) {
			topic := s.Topic(2)
			s.Fill(topic, 0, plain(s.t0, strings.Repeat("x", 100)))
			s.Fill(topic, 1, plain(s.t0, strings.Repeat("y", 100)), plain(s.t0, strings.Repeat("z", 100)))
			req := s.FetchRequest(topic, 0, 0)
			req.MaxBytes = 450
			p := req.Topics[0].Partitions[0]
			p.Partition = 1
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
			s.Do("answer", req)
		}},
		{Name: "Fetch/waits-for-data", Key: k, Play: func(s *Script) {
			req := s.FetchRequest(s.Topic(1), 0, 0)
			req.MaxWaitMillis = 400
			timed(s, "answer", req)
		}},
		{Name: "Fetch/error-does-not-wait", Key: k, Play: func(s *Script) {
			req := s.FetchRequest(s.Topic(1), 0, 0)
			req.Topics = append(req.Topics, s.fetchTopic(s.Name(""), 0, 0))
			req.MaxWaitMillis = 1000
			timed(s, "unknown topic", req)
			req = s.FetchRequest(s.Topic(1), 0, 5)
			req.MaxWaitMillis = 1000
			timed(s, "out of range", req)
		}},
		{Name: "Fetch/min-bytes-not-reached", Key: k, Play: func(s *Script) {
			req := s.FetchRequest(threeBatches(s), 0, 5)
			req.MaxWaitMillis, req.MinBytes = 400, 100000
			timed(s, "answer", req)
		}},
		{Name: "Fetch/min-bytes-above-max-bytes", Key: k, Play: func(s *Script) {
			req := s.FetchRequest(threeBatches(s), 0, 0)
			req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 400, 1<<30, 50
			timed(s, "answer", req)
		}},
		{Name: "Fetch/woken-by-data", Key: k, Play: func(s *Script) {
			topic := s.Topic(1)
			req := s.FetchRequest(topic, 0, 0)
			req.MaxWaitMillis = 8000
			req.SetVersion(s.V)
			if err := s.conn().send(header{}.encode(req, 500)); err != nil {
				s.fail("send: %v", err)
			}
			waiting := s.c
			s.c = nil
			s.Fill(topic, 0, plain(s.t0, "a"))
			before := time.Now()
			frame, err := waiting.receive(answerLimit)
			waiting.Close()
			if err != nil {
				s.Note("answer", err)
				return
			}
			resp, err := decode(req, 500, frame)
			if err != nil {
				s.Note("answer", err)
				return
			}
			s.Record("answer", resp)
			s.Note("soon", time.Since(before) < 2*time.Second)
		}},
		{Name: "Fetch/later-request-waits-its-turn", Key: k, Play: func(s *Script) {
			// A held fetch holds what comes after it on the same connection.
			req := s.FetchRequest(s.Topic(1), 0, 0)
			req.MaxWaitMillis = 400
			req.SetVersion(s.V)
			av := kmsg.NewPtrApiVersionsRequest()
			before := time.Now()
			if s.conn().send(header{}.encode(req, 500)) != nil || s.conn().send(header{}.encode(av, 501)) != nil {
				s.fail("send failed")
			}
			first, err := s.conn().receive(answerLimit)
			s.Note("first is the fetch", err == nil && len(first) > 4 && first[3] == 500&0xff)
			s.Note("waited", time.Since(before) >= 300*time.Millisecond)
			second, err := s.conn().receive(answerLimit)
			s.Note("second is the other", err == nil && len(second) > 4 && second[3] == 501&0xff)
		}},
		{Name: "Fetch/after-delete-records", Key: k, Play: func(s *Script) {
			topic := threeBatches(s)
			del := kmsg.NewPtrDeleteRecordsRequest()
			t := kmsg.NewDeleteRecordsRequestTopic()
			p := kmsg.NewDeleteRecordsRequestTopicPartition()
			t.Topic, p.Offset = topic, 4
			t.Partitions = append(t.Partitions, p)
			del.Topics, del.TimeoutMillis = append(del.Topics, t), 10000
			s.prepare(2, del)
			s.Do("before the start", s.FetchRequest(topic, 0, 3))
			s.Do("at the start", s.FetchRequest(topic, 0, 4))
		}},
		{Name: "Fetch/codecs", Key: k, All: true, Play: func(s *Script) {
			topic := s.Topic(1)
			for c := codecNone; c <= codecZstd; c++ {
				b := plain(s.t0, "a", "b")
				b.codec = c
				s.Fill(topic, 0, b)
			}
			s.Do("answer", s.FetchRequest(topic, 0, 0))
		}},
		{Name: "Fetch/by-id-of-another-topic", Key: k, Min: 13, Play: func(s *Script) {
			name := threeBatches(s)
			req := s.FetchRequest(name, 0, 0)
			del := kmsg.NewPtrDeleteTopicsRequest()
			del.TopicNames, del.TimeoutMillis = []string{name}, 10000
			s.prepare(5, del)
			s.eventually("the topic is gone", func() bool { return s.TopicID(name) == [16]byte{} })
			s.prepare(7, createTopics(createTopic(name, 1, 1)))
			s.AwaitTopic(name, 1)
			s.Do("answer", req)
		}},
	}
}

func fetchSessionCases() []Case {
	const k = kmsg.Fetch
	c := func(name string, play func(s *Script)) Case {
		return Case{Name: "FetchSession/" + name, Key: k, Min: 7, Play: play}
	}
	// open starts a session over the partitions of a topic and returns its id.
	open := func(s *Script, label, topic string, partitions ...int32) int32 {
		req := s.FetchRequest(topic, 0, 0)
		req.SessionID, req.SessionEpoch = 0, 0
		req.Topics[0].Partitions = nil
		for _, p := range partitions {
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, s.fetchTopic(topic, p, 0).Partitions...)
		}
		if len(partitions) == 0 {
			req.Topics = nil
		}
		if resp, ok := s.Do(label, req).(*kmsg.FetchResponse); ok {
			return resp.SessionID
		}
		return 0
	}
	// next asks again in a session, for what is given in addition.
	next := func(s *Script, label string, id, epoch int32, topics ...kmsg.FetchRequestTopic) {
		req := s.FetchRequest("x", 0, 0)
		req.SessionID, req.SessionEpoch, req.Topics = id, epoch, topics
		s.Do(label, req)
	}
	forget := func(s *Script, label string, id, epoch int32, topic string, partitions ...int32) {
		req := s.FetchRequest("x", 0, 0)
		req.SessionID, req.SessionEpoch, req.Topics = id, epoch, nil
		f := kmsg.NewFetchRequestForgottenTopic()
		f.Topic, f.TopicID, f.Partitions = topic, s.knownID(topic), partitions
		req.ForgottenTopics = append(req.ForgottenTopics, f)
		s.Do(label, req)
	}
	return []Case{
		c("none-wanted", func(s *Script) { s.Do("answer", s.FetchRequest(s.Topic(1), 0, 0)) }),
		c("opened", func(s *Script) { open(s, "open", s.Topic(2), 0, 1) }),
		c("opened-over-nothing", func(s *Script) { open(s, "open", "") }),
		c("incremental", func(s *Script) {
			topic := s.Topic(3)
			s.Fill(topic, 0, plain(s.t0, "a"))
			id := open(s, "open", topic, 0, 1, 2)
			next(s, "same data again", id, 1)
			next(s, "past the data", id, 2, s.fetchTopic(topic, 0, 1))
			next(s, "nothing new", id, 3)
			s.Fill(topic, 1, plain(s.t0, "b"))
			next(s, "data in another", id, 4)
			next(s, "past that", id, 5, s.fetchTopic(topic, 1, 1))
			next(s, "nothing new again", id, 6)
		}),
		c("waits-when-nothing-is-new", func(s *Script) {
			topic := s.Topic(1)
			id := open(s, "open", topic, 0)
			req := s.FetchRequest("x", 0, 0)
			req.SessionID, req.SessionEpoch, req.Topics, req.MaxWaitMillis = id, 1, nil, 400
			before := time.Now()
			s.Do("answer", req)
			s.Note("waited", time.Since(before) >= 300*time.Millisecond)
		}),
		c("partition-added", func(s *Script) {
			topic := s.Topic(2)
			s.Fill(topic, 1, plain(s.t0, "a"))
			id := open(s, "open", topic, 0)
			next(s, "add", id, 1, s.fetchTopic(topic, 1, 0))
			next(s, "again", id, 2)
		}),
		c("partition-forgotten", func(s *Script) {
			topic := s.Topic(2)
			s.Fill(topic, 0, plain(s.t0, "a"))
			s.Fill(topic, 1, plain(s.t0, "b"))
			id := open(s, "open", topic, 0, 1)
			forget(s, "forget 0", id, 1, topic, 0)
			next(s, "again", id, 2)
		}),
		c("last-partition-forgotten", func(s *Script) {
			topic := s.Topic(1)
			id := open(s, "open", topic, 0)
			forget(s, "forget", id, 1, topic, 0)
			next(s, "again", id, 2)
		}),
		c("stranger-forgotten", func(s *Script) {
			topic := s.Topic(1)
			id := open(s, "open", topic, 0)
			forget(s, "forget", id, 1, s.Topic(1), 0)
			next(s, "again", id, 2)
		}),
		c("unknown-id", func(s *Script) { next(s, "answer", 987654, 1) }),
		c("unknown-id-epoch-zero", func(s *Script) { next(s, "answer", 987654, 0, s.fetchTopic(s.Topic(1), 0, 0)) }),
		c("unknown-id-closed", func(s *Script) { next(s, "answer", 987654, -1, s.fetchTopic(s.Topic(1), 0, 0)) }),
		c("zero-id-epoch-one", func(s *Script) { next(s, "answer", 0, 1, s.fetchTopic(s.Topic(1), 0, 0)) }),
		c("epoch-wrong", func(s *Script) {
			id := open(s, "open", s.Topic(1), 0)
			next(s, "too new", id, 2)
			next(s, "right after all", id, 1)
			next(s, "repeated", id, 1)
			next(s, "right", id, 2)
		}),
		c("epoch-negative", func(s *Script) {
			id := open(s, "open", s.Topic(1), 0)
			next(s, "minus two", id, -2)
		}),
		c("closed", func(s *Script) {
			topic := s.Topic(1)
			id := open(s, "open", topic, 0)
			next(s, "close", id, -1, s.fetchTopic(topic, 0, 0))
			next(s, "again", id, 1)
		}),
		c("opened-anew", func(s *Script) {
			topic := s.Topic(1)
			id := open(s, "open", topic, 0)
			req := s.FetchRequest(topic, 0, 0)
			req.SessionID, req.SessionEpoch = id, 0
			resp, ok := s.Do("open anew", req).(*kmsg.FetchResponse)
			s.Note("another id", ok && resp.SessionID != id)
			next(s, "old one", id, 1)
		}),
		c("used-from-another-connection", func(s *Script) {
			topic := s.Topic(1)
			id := open(s, "open", topic, 0)
			s.Hangup()
			next(s, "answer", id, 1)
		}),
		c("unknown-topic-in-session", func(s *Script) {
			topic, missing := s.Topic(1), s.Name("")
			id := open(s, "open", topic, 0)
			next(s, "add", id, 1, s.fetchTopic(missing, 0, 0))
			next(s, "again", id, 2)
		}),
		c("error-then-recovery", func(s *Script) {
			topic := s.Topic(1)
			id := open(s, "open", topic, 0)
			next(s, "out of range", id, 1, s.fetchTopic(topic, 0, 9))
			next(s, "still", id, 2)
			next(s, "back", id, 3, s.fetchTopic(topic, 0, 0))
			next(s, "quiet", id, 4)
		}),
		c("log-start-moves", func(s *Script) {
			topic := s.Topic(1)
			s.Fill(topic, 0, plain(s.t0, "a", "b"))
			id := open(s, "open", topic, 0)
			next(s, "past the data", id, 1, s.fetchTopic(topic, 0, 2))
			del := kmsg.NewPtrDeleteRecordsRequest()
			t := kmsg.NewDeleteRecordsRequestTopic()
			p := kmsg.NewDeleteRecordsRequestTopicPartition()
			t.Topic, p.Offset = topic, 1
			t.Partitions = append(t.Partitions, p)
			del.Topics, del.TimeoutMillis = append(del.Topics, t), 10000
			s.prepare(2, del)
			next(s, "moved", id, 2)
			next(s, "quiet", id, 3)
		}),
		c("topic-deleted", func(s *Script) {
			name := s.Topic(1)
			id := open(s, "open", name, 0)
			del := kmsg.NewPtrDeleteTopicsRequest()
			del.TopicNames, del.TimeoutMillis = []string{name}, 10000
			s.prepare(5, del)
			s.eventually("the topic is gone", func() bool { return s.TopicID(name) == [16]byte{} })
			next(s, "gone", id, 1)
		}),
		{Name: "FetchSession/continued-with-names", Key: k, Min: 13, Play: func(s *Script) {
			topic := s.Topic(1)
			id := open(s, "open", topic, 0)
			req := s.FetchRequest("x", 0, 0)
			req.SessionID, req.SessionEpoch, req.Topics = id, 1, nil
			s.At(12, "by names", req)
		}},
		{Name: "FetchSession/continued-with-ids", Key: k, Min: 7, Max: 12, Play: func(s *Script) {
			topic := s.Topic(1)
			id := open(s, "open", topic, 0)
			req := s.FetchRequest("x", 0, 0)
			req.SessionID, req.SessionEpoch, req.Topics = id, 1, nil
			s.At(13, "by ids", req)
		}},
	}
}
