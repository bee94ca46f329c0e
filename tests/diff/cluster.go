package diff

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func clusterCases() []Case {
	const k = kmsg.DescribeCluster
	c := func(name string, lo int16, change func(req *kmsg.DescribeClusterRequest)) Case {
		return Case{Name: "DescribeCluster/" + name, Key: k, Min: lo, Play: func(s *Script) {
			req := kmsg.NewPtrDescribeClusterRequest()
			req.EndpointType = 1
			change(req)
			s.Do("answer", req)
		}}
	}
	return []Case{
		c("ordinary", 0, func(*kmsg.DescribeClusterRequest) {}),
		c("operations-asked", 0, func(r *kmsg.DescribeClusterRequest) { r.IncludeClusterAuthorizedOperations = true }),
		c("controllers", 1, func(r *kmsg.DescribeClusterRequest) { r.EndpointType = 2 }),
		c("unknown-endpoint-type", 1, func(r *kmsg.DescribeClusterRequest) { r.EndpointType = 9 }),
		c("endpoint-type-zero", 1, func(r *kmsg.DescribeClusterRequest) { r.EndpointType = 0 }),
		c("fenced-asked", 2, func(r *kmsg.DescribeClusterRequest) { r.IncludeFencedBrokers = true }),
	}
}

func describeTopicPartitionsCases() []Case {
	const k = kmsg.DescribeTopicPartitions
	request := func(limit int32, names ...string) *kmsg.DescribeTopicPartitionsRequest {
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit = limit
		for _, n := range names {
			t := kmsg.NewDescribeTopicPartitionsRequestTopic()
			t.Topic = n
			req.Topics = append(req.Topics, t)
		}
		return req
	}
	cursor := func(req *kmsg.DescribeTopicPartitionsRequest, topic string, partition int32) *kmsg.DescribeTopicPartitionsRequest {
		c := kmsg.NewDescribeTopicPartitionsRequestCursor()
		c.Topic, c.Partition = topic, partition
		req.Cursor = &c
		return req
	}
	c := func(name string, play func(s *Script)) Case {
		return Case{Name: "DescribeTopicPartitions/" + name, Key: k, Play: play}
	}
	return []Case{
		c("ordinary", func(s *Script) { s.Do("answer", request(2000, s.Topic(2), s.Topic(1))) }),
		c("limit-one", func(s *Script) { s.Do("answer", request(1, s.Topic(3))) }),
		c("limit-zero", func(s *Script) { s.Do("answer", request(0, s.Topic(1))) }),
		c("limit-negative", func(s *Script) { s.Do("answer", request(-1, s.Topic(1))) }),
		c("limit-at-a-topic's-end", func(s *Script) { s.Do("answer", request(2, s.Topic(2), s.Topic(2))) }),
		c("limit-large", func(s *Script) { s.Do("answer", request(1<<30, s.Topic(1))) }),
		c("cursor", func(s *Script) {
			t := s.Topic(3)
			s.Do("answer", cursor(request(2000, t), t, 1))
		}),
		c("cursor-and-limit", func(s *Script) {
			a, b := s.Topic(3), s.Topic(2)
			s.Do("first", request(2, a, b))
			s.Do("second", cursor(request(2, a, b), a, 2))
			s.Do("third", cursor(request(2, a, b), b, 1))
		}),
		c("cursor-past-the-partitions", func(s *Script) {
			t := s.Topic(1)
			s.Do("answer", cursor(request(2000, t), t, 5))
		}),
		c("cursor-negative", func(s *Script) {
			t := s.Topic(1)
			s.Do("answer", cursor(request(2000, t), t, -1))
		}),
		c("cursor-of-another-topic", func(s *Script) { s.Do("answer", cursor(request(2000, s.Topic(1)), s.Name(""), 0)) }),
		c("cursor-of-a-missing-topic", func(s *Script) {
			t, missing := s.Topic(1), s.Name("")
			s.Do("answer", cursor(request(2000, t, missing), missing, 0))
		}),
		c("missing", func(s *Script) { s.Do("answer", request(2000, s.Name(""))) }),
		c("missing-and-present", func(s *Script) { s.Do("answer", request(2000, s.Name(""), s.Topic(1))) }),
		c("bad-name", func(s *Script) { s.Do("answer", request(2000, s.Name("!"))) }),
		c("twice-the-same", func(s *Script) {
			t := s.Topic(1)
			s.Do("answer", request(2000, t, t))
		}),
	}
}

func describeLogDirsCases() []Case {
	const k = kmsg.DescribeLogDirs
	request := func(topic string, partitions ...int32) *kmsg.DescribeLogDirsRequest {
		req := kmsg.NewPtrDescribeLogDirsRequest()
		t := kmsg.NewDescribeLogDirsRequestTopic()
		t.Topic, t.Partitions = topic, partitions
		req.Topics = append(req.Topics, t)
		return req
	}
	// ask records an answer without the topics of others.
	ask := func(s *Script, label string, req *kmsg.DescribeLogDirsRequest) {
		resp, ok := s.Hidden(label, req).(*kmsg.DescribeLogDirsResponse)
		if !ok {
			return
		}
		for i := range resp.Dirs {
			mine := resp.Dirs[i].Topics[:0]
			for _, t := range resp.Dirs[i].Topics {
				if s.rename(t.Topic) != t.Topic {
					mine = append(mine, t)
				}
			}
			resp.Dirs[i].Topics = mine
		}
		s.Record(label, resp)
	}
	c := func(name string, play func(s *Script)) Case {
		return Case{Name: "DescribeLogDirs/" + name, Key: k, Play: play}
	}
	return []Case{
		c("all", func(s *Script) {
			threeBatches(s)
			req := request("")
			req.Topics = nil
			ask(s, "answer", req)
		}),
		c("named", func(s *Script) { ask(s, "answer", request(threeBatches(s), 0)) }),
		c("empty-partition", func(s *Script) { ask(s, "answer", request(s.Topic(1), 0)) }),
		c("no-partitions", func(s *Script) { ask(s, "answer", request(threeBatches(s))) }),
		c("unknown-partition", func(s *Script) { ask(s, "answer", request(s.Topic(1), 7)) }),
		c("unknown-topic", func(s *Script) { ask(s, "answer", request(s.Name(""), 0)) }),
		c("nothing", func(s *Script) {
			req := request("")
			req.Topics = []kmsg.DescribeLogDirsRequestTopic{}
			ask(s, "answer", req)
		}),
	}
}

func initProducerIDCases() []Case {
	const k = kmsg.InitProducerID
	// ready waits until there are producer ids: Kafka fetches a block of them at the first question.
	ready := func(s *Script) {
		s.eventually("there are producer ids", func() bool {
			req := kmsg.NewPtrInitProducerIDRequest()
			req.ProducerID, req.ProducerEpoch = -1, -1
			return s.prepare(3, req).(*kmsg.InitProducerIDResponse).ErrorCode != 14
		})
	}
	c := func(name string, lo int16, change func(req *kmsg.InitProducerIDRequest)) Case {
		return Case{Name: "InitProducerId/" + name, Key: k, Min: lo, Play: func(s *Script) {
			req := kmsg.NewPtrInitProducerIDRequest()
			req.ProducerID, req.ProducerEpoch, req.TransactionTimeoutMillis = -1, -1, 60000
			change(req)
			ready(s)
			s.Do("answer", req)
		}}
	}
	return []Case{
		c("no-transactional-id", 0, func(*kmsg.InitProducerIDRequest) {}),
		c("timeout-zero", 0, func(r *kmsg.InitProducerIDRequest) { r.TransactionTimeoutMillis = 0 }),
		c("timeout-negative", 0, func(r *kmsg.InitProducerIDRequest) { r.TransactionTimeoutMillis = -1 }),
		c("timeout-greatest", 0, func(r *kmsg.InitProducerIDRequest) { r.TransactionTimeoutMillis = 0x7fffffff }),
		c("transactional-id-empty", 0, func(r *kmsg.InitProducerIDRequest) { r.TransactionalID = ptr("") }),
		c("id-and-epoch-given", 3, func(r *kmsg.InitProducerIDRequest) { r.ProducerID, r.ProducerEpoch = 5, 3 }),
		c("id-given", 3, func(r *kmsg.InitProducerIDRequest) { r.ProducerID = 5 }),
		c("epoch-given", 3, func(r *kmsg.InitProducerIDRequest) { r.ProducerEpoch = 3 }),
		{Name: "InitProducerId/twice", Key: k, Play: func(s *Script) {
			ready(s)
			for _, label := range []string{"first", "second"} {
				req := kmsg.NewPtrInitProducerIDRequest()
				req.ProducerID, req.ProducerEpoch = -1, -1
				s.Do(label, req)
			}
		}},
	}
}

func findCoordinatorCases() []Case {
	const k = kmsg.FindCoordinator
	request := func(kind int8, keys ...string) *kmsg.FindCoordinatorRequest {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorType = kind
		if len(keys) > 0 {
			req.CoordinatorKey = keys[0]
		}
		req.CoordinatorKeys = keys
		return req
	}
	// found asks until the broker has what it needs: Kafka makes a topic at the first question.
	found := func(s *Script, kind int8, keys ...string) {
		s.eventually("there are coordinators", func() bool {
			req := request(kind, keys...)
			resp := s.prepare(4, req).(*kmsg.FindCoordinatorResponse)
			for _, c := range resp.Coordinators {
				if c.ErrorCode == 15 {
					return false
				}
			}
			return true
		})
	}
	c := func(name string, lo int16, kind int8, keys ...string) Case {
		return Case{Name: "FindCoordinator/" + name, Key: k, Min: lo, Play: func(s *Script) {
			if kind < 2 {
				found(s, kind, "a")
			}
			s.Do("answer", request(kind, keys...))
		}}
	}
	return []Case{
		c("group", 0, 0, "a-group"), c("transaction", 1, 1, "a-transactional-id"),
		c("empty-key", 0, 0, ""), c("empty-transactional-id", 1, 1, ""),
		c("unknown-kind", 1, 9, "x"), c("negative-kind", 1, -1, "x"),
		c("several", 4, 0, "a", "b", "c"), c("same-twice", 4, 0, "a", "a"), c("none", 4, 0),
		c("share-malformed-key", 4, 2, "a-share-group"),
		c("share-key-of-unknown-topic", 6, 2, "g:AAAAAAAAAAAAAAAAAAAAAQ:0"),
		c("unknown-kind-several", 4, 9, "x", "y"),
		{Name: "FindCoordinator/many-keys", Key: k, Min: 4, Play: func(s *Script) {
			found(s, 0, "a")
			var keys []string
			for i := range 100 {
				keys = append(keys, fmt.Sprintf("group-%d", i))
			}
			if resp, ok := s.Hidden("answer", request(0, keys...)).(*kmsg.FindCoordinatorResponse); ok {
				n := 0
				for _, c := range resp.Coordinators {
					if c.ErrorCode == 0 && c.NodeID == s.nodeID {
						n++
					}
				}
				s.Note("found", n)
			}
		}},
	}
}
