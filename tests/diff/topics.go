package diff

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// create sends a request and records the answer without the configs that have their defaults: of
// those, CreateTopics/all-configs-told speaks.
func create(s *Script, label string, req *kmsg.CreateTopicsRequest) (*kmsg.CreateTopicsResponse, bool) {
	resp, ok := s.Hidden(label, req).(*kmsg.CreateTopicsResponse)
	if !ok {
		return nil, false
	}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		all := len(t.Configs)
		t.Configs = slices.DeleteFunc(t.Configs, func(c kmsg.CreateTopicsResponseTopicConfig) bool { return c.Source != 1 })
		s.Note(fmt.Sprintf("%s.Topics[%s].tells configs", label, t.Topic), all > 0)
	}
	s.Record(label, resp)
	return resp, true
}

func createTopicsCases() []Case {
	const k = kmsg.CreateTopics
	// one creates one topic under a fresh name, and looks at what became of it.
	one := func(name string, t func(s *Script, name string) kmsg.CreateTopicsRequestTopic) Case {
		return Case{Name: "CreateTopics/" + name, Key: k, Play: func(s *Script) {
			topic := s.Name("")
			s.Adopt(topic)
			resp, ok := create(s, "answer", createTopics(t(s, topic)))
			if ok && len(resp.Topics) == 1 && resp.Topics[0].ErrorCode == 0 {
				s.AwaitTopic(topic, 1)
			}
			s.At(9, "then", metadataOf(topic))
		}}
	}
	counts := func(partitions int32, replication int16, configs ...string) func(*Script, string) kmsg.CreateTopicsRequestTopic {
		return func(_ *Script, name string) kmsg.CreateTopicsRequestTopic {
			return createTopic(name, partitions, replication, configs...)
		}
	}
	assigned := func(partitions int32, replication int16, sets ...[]int32) func(*Script, string) kmsg.CreateTopicsRequestTopic {
		return func(s *Script, name string) kmsg.CreateTopicsRequestTopic {
			t := createTopic(name, partitions, replication)
			for i := 0; i < len(sets); i += 2 {
				a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
				a.Partition = sets[i][0]
				for _, r := range sets[i+1] {
					if r == 0 {
						r = s.nodeID
					}
					a.Replicas = append(a.Replicas, r)
				}
				t.ReplicaAssignment = append(t.ReplicaAssignment, a)
			}
			return t
		}
	}
	named := func(name, topic string) Case {
		return Case{Name: "CreateTopics/" + name, Key: k, Play: func(s *Script) {
			create(s, "answer", createTopics(createTopic(topic, 1, 1)))
		}}
	}
	nullConfig := func(s *Script, name string) kmsg.CreateTopicsRequestTopic {
		t := createTopic(name, 1, 1)
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name = "retention.ms"
		t.Configs = append(t.Configs, c)
		return t
	}
	const self = 0 // in assigned: the broker itself
	return []Case{
		one("ordinary", counts(3, 1)),
		one("partitions-default", counts(-1, 1)),
		one("replication-default", counts(2, -1)),
		one("both-default", counts(-1, -1)),
		one("partitions-zero", counts(0, 1)),
		one("partitions-minus-two", counts(-2, 1)),
		one("replication-zero", counts(1, 0)),
		one("replication-minus-two", counts(1, -2)),
		one("replication-above-brokers", counts(1, 2)),
		one("replication-and-partitions-wrong", counts(0, 5)),
		one("partitions-above-limit", counts(10001, 1)),
		one("configs", counts(1, 1, "retention.ms", "123456", "cleanup.policy", "compact,delete", "max.message.bytes", "2000")),
		one("config-spaces", counts(1, 1, "cleanup.policy", " compact , delete ", "retention.ms", " 77 ")),
		one("config-default-value", counts(1, 1, "retention.ms", "604800000")),
		one("config-unknown", counts(1, 1, "no.such.config", "1")),
		one("config-bad-number", counts(1, 1, "retention.ms", "soon")),
		one("config-below-minimum", counts(1, 1, "retention.ms", "-2")),
		one("config-bad-choice", counts(1, 1, "cleanup.policy", "keep")),
		one("config-bad-bool", counts(1, 1, "preallocate", "yes")),
		one("config-empty-number", counts(1, 1, "retention.ms", "")),
		one("config-empty-list", counts(1, 1, "cleanup.policy", "")),
		one("config-upper-case", counts(1, 1, "compression.type", "GZIP")),
		one("config-number-too-large", counts(1, 1, "retention.ms", "9223372036854775808")),
		one("config-fraction", counts(1, 1, "retention.ms", "1.5")),
		one("config-twice", counts(1, 1, "retention.ms", "1000", "retention.ms", "2000")),
		one("config-null", nullConfig),
		one("config-broker-only", counts(1, 1, "log.retention.ms", "1000")),
		one("config-min-isr-above-replicas", counts(1, 1, "min.insync.replicas", "3")),
		one("config-segment-bytes-too-small", counts(1, 1, "segment.bytes", "1")),
		one("config-compaction-lag-crossed", counts(1, 1, "min.compaction.lag.ms", "10", "max.compaction.lag.ms", "5")),
		one("config-local-retention-crossed", counts(1, 1, "retention.ms", "10", "local.retention.ms", "20")),
		one("config-remote-storage", counts(1, 1, "remote.storage.enable", "true")),
		one("config-throttled-replicas", counts(1, 1, "leader.replication.throttled.replicas", "*")),
		one("config-throttled-replicas-bad", counts(1, 1, "leader.replication.throttled.replicas", "x")),
		one("assigned", assigned(-1, -1, []int32{0}, []int32{self}, []int32{1}, []int32{self})),
		one("assigned-with-counts", assigned(1, 1, []int32{0}, []int32{self})),
		one("assigned-with-partitions", assigned(1, -1, []int32{0}, []int32{self})),
		one("assigned-with-a-gap", assigned(-1, -1, []int32{0}, []int32{self}, []int32{2}, []int32{self})),
		one("assigned-not-from-zero", assigned(-1, -1, []int32{1}, []int32{self})),
		one("assigned-negative", assigned(-1, -1, []int32{-1}, []int32{self})),
		one("assigned-twice-the-same", assigned(-1, -1, []int32{0}, []int32{self}, []int32{0}, []int32{self})),
		one("assigned-to-nobody", assigned(-1, -1, []int32{0}, nil)),
		one("assigned-to-a-stranger", assigned(-1, -1, []int32{0}, []int32{4711})),
		one("assigned-twice-to-one", assigned(-1, -1, []int32{0}, []int32{self, self})),
		one("assigned-unevenly", assigned(-1, -1, []int32{0}, []int32{self}, []int32{1}, []int32{self, 4711})),
		named("name-empty", ""),
		named("name-dot", "."),
		named("name-dots", ".."),
		named("name-with-space", "a b"),
		named("name-with-slash", "a/b"),
		named("name-not-ascii", "größe"),
		named("name-too-long", strings.Repeat("x", 250)),
		{Name: "CreateTopics/name-longest", Key: k, Play: func(s *Script) {
			n := s.Name("-")
			n += strings.Repeat("x", 249-len(n))
			s.topics[0] = n
			s.Adopt(n)
			create(s, "answer", createTopics(createTopic(n, 1, 1)))
		}},
		{Name: "CreateTopics/name-collides", Key: k, Play: func(s *Script) {
			a := s.Name(".a_b")
			b := strings.Replace(a, ".a_b", "_a.b", 1)
			s.topics = append(s.topics, b)
			s.Adopt(a, b)
			create(s, "first", createTopics(createTopic(a, 1, 1)))
			create(s, "second", createTopics(createTopic(b, 1, 1)))
		}},
		{Name: "CreateTopics/name-collides-in-request", Key: k, Play: func(s *Script) {
			a := s.Name(".a_b")
			b := strings.Replace(a, ".a_b", "_a.b", 1)
			s.topics = append(s.topics, b)
			s.Adopt(a, b)
			create(s, "answer", createTopics(createTopic(a, 1, 1), createTopic(b, 1, 1)))
		}},
		{Name: "CreateTopics/exists", Key: k, Play: func(s *Script) {
			name := s.Topic(2)
			create(s, "answer", createTopics(createTopic(name, 1, 1)))
			create(s, "with wrong counts too", createTopics(createTopic(name, 0, 9)))
		}},
		{Name: "CreateTopics/twice-in-request", Key: k, Play: func(s *Script) {
			name, other := s.Name(""), s.Name("")
			s.Adopt(name, other)
			create(s, "answer", createTopics(createTopic(name, 1, 1), createTopic(other, 1, 1), createTopic(name, 1, 1)))
		}},
		{Name: "CreateTopics/some-wrong", Key: k, Play: func(s *Script) {
			a, b, c := s.Name(""), s.Name("!"), s.Name("")
			s.Adopt(a, c)
			create(s, "answer", createTopics(createTopic(a, 1, 1), createTopic(b, 1, 1), createTopic(c, 0, 1)))
		}},
		{Name: "CreateTopics/none", Key: k, Play: func(s *Script) {
			create(s, "answer", createTopics())
		}},
		{Name: "CreateTopics/validate-only", Key: k, Play: func(s *Script) {
			name := s.Name("")
			req := createTopics(createTopic(name, 2, 1, "retention.ms", "1000"))
			req.ValidateOnly = true
			create(s, "answer", req)
			s.At(9, "then", metadataOf(name))
		}},
		{Name: "CreateTopics/validate-only-exists", Key: k, Play: func(s *Script) {
			req := createTopics(createTopic(s.Topic(1), 2, 1))
			req.ValidateOnly = true
			create(s, "answer", req)
		}},
		{Name: "CreateTopics/timeout-zero", Key: k, Play: func(s *Script) {
			name := s.Name("")
			s.Adopt(name)
			req := createTopics(createTopic(name, 1, 1))
			req.TimeoutMillis = 0
			// Whether the time was up before the answer is chance; that there is one topic's answer is not.
			if resp, ok := s.Hidden("answer", req).(*kmsg.CreateTopicsResponse); ok {
				s.Note("answer.topics", len(resp.Topics))
			}
		}},
		{Name: "CreateTopics/all-configs-told", Key: k, Min: 5, Play: func(s *Script) {
			name := s.Name("")
			s.Adopt(name)
			resp, ok := s.Hidden("answer", createTopics(createTopic(name, 1, 1))).(*kmsg.CreateTopicsResponse)
			if !ok || len(resp.Topics) != 1 {
				return
			}
			s.AwaitTopic(name, 1)
			told := make(map[string]string)
			for _, c := range resp.Topics[0].Configs {
				told[c.Name] = deref(c.Value)
			}
			d := s.prepare(4, describe(kmsg.ConfigResourceTypeTopic, name)).(*kmsg.DescribeConfigsResponse)
			for _, c := range d.Resources[0].Configs {
				if told[c.Name] != deref(c.Value) {
					s.Note("told otherwise", c.Name)
				}
			}
			s.Note("as many as described", len(told) == len(d.Resources[0].Configs))
		}},
	}
}

func deref(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

func deleteTopicsCases() []Case {
	const k = kmsg.DeleteTopics
	// request builds a deletion by name for every version.
	request := func(names ...string) *kmsg.DeleteTopicsRequest {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.TimeoutMillis, req.TopicNames = 10000, names
		for _, n := range names {
			t := kmsg.NewDeleteTopicsRequestTopic()
			t.Topic = ptr(n)
			req.Topics = append(req.Topics, t)
		}
		return req
	}
	byID := func(id [16]byte, name *string) *kmsg.DeleteTopicsRequest {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.TimeoutMillis = 10000
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.TopicID, t.Topic = id, name
		req.Topics = append(req.Topics, t)
		return req
	}
	gone := func(s *Script, name string) {
		s.eventually("the topic is gone", func() bool { return s.TopicID(name) == [16]byte{} })
		s.At(9, "then", metadataOf(name))
	}
	return []Case{
		{Name: "DeleteTopics/ordinary", Key: k, Play: func(s *Script) {
			name := s.Topic(2)
			s.Do("answer", request(name))
			gone(s, name)
			s.Do("again", request(name))
		}},
		{Name: "DeleteTopics/unknown", Key: k, Play: func(s *Script) { s.Do("answer", request(s.Name(""))) }},
		{Name: "DeleteTopics/bad-name", Key: k, Play: func(s *Script) {
			s.Do("answer", request(s.Name("!")))
			s.Do("empty", request(""))
		}},
		{Name: "DeleteTopics/twice-in-request", Key: k, Play: func(s *Script) {
			name := s.Topic(1)
			s.Do("answer", request(name, name))
		}},
		{Name: "DeleteTopics/some-unknown", Key: k, Play: func(s *Script) {
			s.Do("answer", request(s.Topic(1), s.Name(""), s.Topic(1)))
		}},
		{Name: "DeleteTopics/none", Key: k, Play: func(s *Script) { s.Do("answer", request()) }},
		{Name: "DeleteTopics/by-id", Key: k, Min: 6, Play: func(s *Script) {
			name := s.Topic(1)
			s.Do("answer", byID(s.TopicID(name), nil))
			gone(s, name)
		}},
		{Name: "DeleteTopics/by-unknown-id", Key: k, Min: 6, Play: func(s *Script) {
			s.Do("answer", byID([16]byte{3: 3}, nil))
		}},
		{Name: "DeleteTopics/by-id-and-name", Key: k, Min: 6, Play: func(s *Script) {
			name := s.Topic(1)
			s.Do("answer", byID(s.TopicID(name), &name))
		}},
		{Name: "DeleteTopics/by-nothing", Key: k, Min: 6, Play: func(s *Script) {
			s.Do("answer", byID([16]byte{}, nil))
		}},
		{Name: "DeleteTopics/by-id-and-by-name", Key: k, Min: 6, Play: func(s *Script) {
			name := s.Topic(1)
			req := byID(s.TopicID(name), nil)
			req.Topics = append(req.Topics, request(name).Topics...)
			s.Do("answer", req)
		}},
		{Name: "DeleteTopics/same-id-twice", Key: k, Min: 6, Play: func(s *Script) {
			id := s.TopicID(s.Topic(1))
			req := byID(id, nil)
			req.Topics = append(req.Topics, byID(id, nil).Topics...)
			s.Do("answer", req)
		}},
	}
}

func createPartitionsCases() []Case {
	const k = kmsg.CreatePartitions
	request := func(name string, count int32, assignment ...[]int32) *kmsg.CreatePartitionsRequest {
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.TimeoutMillis = 10000
		t := kmsg.NewCreatePartitionsRequestTopic()
		t.Topic, t.Count = name, count
		for _, replicas := range assignment {
			a := kmsg.NewCreatePartitionsRequestTopicAssignment()
			a.Replicas = replicas
			t.Assignment = append(t.Assignment, a)
		}
		req.Topics = append(req.Topics, t)
		return req
	}
	simple := func(name string, count int32) Case {
		return Case{Name: "CreatePartitions/" + name, Key: k, Play: func(s *Script) {
			s.Do("answer", request(s.Topic(3), count))
		}}
	}
	return []Case{
		{Name: "CreatePartitions/more", Key: k, Play: func(s *Script) {
			name := s.Topic(2)
			s.Do("answer", request(name, 5))
			s.AwaitTopic(name, 5)
			s.At(9, "then", metadataOf(name))
		}},
		simple("same", 3), simple("fewer", 2), simple("zero", 0), simple("negative", -1),
		simple("above-limit", 20000),
		{Name: "CreatePartitions/unknown-topic", Key: k, Play: func(s *Script) {
			s.Do("answer", request(s.Name(""), 2))
		}},
		{Name: "CreatePartitions/bad-name", Key: k, Play: func(s *Script) { s.Do("answer", request(s.Name("!"), 2)) }},
		{Name: "CreatePartitions/twice-in-request", Key: k, Play: func(s *Script) {
			name := s.Topic(1)
			req := request(name, 2)
			req.Topics = append(req.Topics, request(name, 3).Topics...)
			s.Do("answer", req)
			s.At(9, "then", metadataOf(name))
		}},
		{Name: "CreatePartitions/none", Key: k, Play: func(s *Script) {
			req := request("x", 1)
			req.Topics = nil
			s.Do("answer", req)
		}},
		{Name: "CreatePartitions/assigned", Key: k, Play: func(s *Script) {
			s.Do("answer", request(s.Topic(1), 3, []int32{s.nodeID}, []int32{s.nodeID}))
		}},
		{Name: "CreatePartitions/assigned-too-few", Key: k, Play: func(s *Script) {
			s.Do("answer", request(s.Topic(1), 3, []int32{s.nodeID}))
		}},
		{Name: "CreatePartitions/assigned-too-many", Key: k, Play: func(s *Script) {
			s.Do("answer", request(s.Topic(1), 2, []int32{s.nodeID}, []int32{s.nodeID}))
		}},
		{Name: "CreatePartitions/assigned-to-a-stranger", Key: k, Play: func(s *Script) {
			s.Do("answer", request(s.Topic(1), 2, []int32{4711}))
		}},
		{Name: "CreatePartitions/assigned-twice-to-one", Key: k, Play: func(s *Script) {
			s.Do("answer", request(s.Topic(1), 2, []int32{s.nodeID, s.nodeID}))
		}},
		{Name: "CreatePartitions/assigned-to-nobody", Key: k, Play: func(s *Script) {
			s.Do("answer", request(s.Topic(1), 2, []int32{}))
		}},
		{Name: "CreatePartitions/validate-only", Key: k, Play: func(s *Script) {
			name := s.Topic(1)
			req := request(name, 4)
			req.ValidateOnly = true
			s.Do("answer", req)
			s.At(9, "then", metadataOf(name))
		}},
	}
}

func deleteRecordsCases() []Case {
	const k = kmsg.DeleteRecords
	request := func(topic string, partition int32, offset int64) *kmsg.DeleteRecordsRequest {
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.TimeoutMillis = 10000
		t := kmsg.NewDeleteRecordsRequestTopic()
		t.Topic = topic
		p := kmsg.NewDeleteRecordsRequestTopicPartition()
		p.Partition, p.Offset = partition, offset
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		return req
	}
	// at deletes before an offset of a partition with two batches of three records.
	at := func(name string, offset int64) Case {
		return Case{Name: "DeleteRecords/" + name, Key: k, Play: func(s *Script) {
			topic := s.Topic(1)
			s.Fill(topic, 0, plain(s.t0, "a", "b", "c"), plain(s.t0, "d", "e", "f"))
			s.Do("answer", request(topic, 0, offset))
			s.Bounds("then", topic, 0)
			s.Look("from 0", topic, 0, 0)
			s.Look("from 2", topic, 0, 2)
			s.Look("from 5", topic, 0, 5)
		}}
	}
	return []Case{
		at("first-batch", 3), at("in-the-middle-of-a-batch", 1), at("all", 6), at("all-by-minus-one", -1),
		at("nothing", 0), at("beyond-the-end", 7), at("minus-two", -2),
		{Name: "DeleteRecords/backwards", Key: k, Play: func(s *Script) {
			topic := s.Topic(1)
			s.Fill(topic, 0, plain(s.t0, "a", "b", "c"), plain(s.t0, "d", "e", "f"))
			s.Do("forward", request(topic, 0, 4))
			s.Do("backward", request(topic, 0, 2))
			s.Bounds("then", topic, 0)
		}},
		{Name: "DeleteRecords/empty-partition", Key: k, Play: func(s *Script) {
			topic := s.Topic(1)
			s.Do("minus one", request(topic, 0, -1))
			s.Do("zero", request(topic, 0, 0))
			s.Do("one", request(topic, 0, 1))
		}},
		{Name: "DeleteRecords/then-produce", Key: k, Play: func(s *Script) {
			topic := s.Topic(1)
			s.Fill(topic, 0, plain(s.t0, "a", "b", "c"))
			s.Do("answer", request(topic, 0, -1))
			s.At(8, "produce", s.ProduceRequest(-1, part{topic, 0, s.wire(plain(s.t0, "d"))}))
			s.Look("look", topic, 0, 3)
		}},
		{Name: "DeleteRecords/unknown-topic", Key: k, Play: func(s *Script) {
			s.Do("answer", request(s.Name(""), 0, 0))
		}},
		{Name: "DeleteRecords/unknown-partition", Key: k, Play: func(s *Script) {
			s.Do("answer", request(s.Topic(1), 7, 0))
			s.Do("negative", request(s.Topic(1), -1, 0))
		}},
		{Name: "DeleteRecords/compacted-topic", Key: k, Play: func(s *Script) {
			topic := s.Topic(1, "cleanup.policy", "compact")
			s.Fill(topic, 0, plain(s.t0, "a"))
			s.Do("answer", request(topic, 0, 1))
		}},
		{Name: "DeleteRecords/compacted-and-deleted-topic", Key: k, Play: func(s *Script) {
			topic := s.Topic(1, "cleanup.policy", "compact,delete")
			s.Fill(topic, 0, plain(s.t0, "a"))
			s.Do("answer", request(topic, 0, 1))
		}},
		{Name: "DeleteRecords/same-partition-twice", Key: k, Play: func(s *Script) {
			topic := s.Topic(1)
			s.Fill(topic, 0, plain(s.t0, "a", "b", "c"))
			req := request(topic, 0, 1)
			p := req.Topics[0].Partitions[0]
			p.Offset = 2
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
			s.Do("answer", req)
		}},
		{Name: "DeleteRecords/some-unknown", Key: k, Play: func(s *Script) {
			topic := s.Topic(2)
			s.Fill(topic, 1, plain(s.t0, "a"))
			req := request(topic, 1, -1)
			req.Topics = append(req.Topics, request(s.Name(""), 0, 0).Topics...)
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, request(topic, 5, 0).Topics[0].Partitions...)
			s.Do("answer", req)
		}},
		{Name: "DeleteRecords/none", Key: k, Play: func(s *Script) {
			req := request("x", 0, 0)
			req.Topics = nil
			s.Do("answer", req)
		}},
	}
}
