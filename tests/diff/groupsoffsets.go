package diff

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func commitPartition(partition int32, offset int64, metadata string) kmsg.OffsetCommitRequestTopicPartition {
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = partition, offset, 3, &metadata
	return p
}

// commitRequest builds a commit of a group's member, or of nobody's if m has no id.
func (s *Script) commitRequest(m *member, topic string, partitions ...kmsg.OffsetCommitRequestTopicPartition) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.InstanceID, req.Generation = m.group, m.id, m.instance, m.generation
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.TopicID, t.Partitions = topic, s.knownID(topic), partitions
	req.Topics = append(req.Topics, t)
	return req
}

// commit commits offsets of a group without members, of partitions 0 and up.
func (s *Script) commit(group, topic string, offsets ...int64) {
	var partitions []kmsg.OffsetCommitRequestTopicPartition
	for i, offset := range offsets {
		partitions = append(partitions, commitPartition(int32(i), offset, "meta"))
	}
	resp := s.prepare(plainCommit, s.commitRequest(&member{group: group, generation: -1}, topic, partitions...)).(*kmsg.OffsetCommitResponse)
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		s.fail("prepare: commit: %s", codeName(code))
	}
}

// fetchRequest asks for offsets, for every version; without topics for all.
func (s *Script) fetchOffsets(group string, topics ...kmsg.OffsetFetchRequestTopic) *kmsg.OffsetFetchRequest {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group, req.Topics = group, topics
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.MemberEpoch = group, -1
	for _, t := range topics {
		x := kmsg.NewOffsetFetchRequestGroupTopic()
		x.Topic, x.TopicID, x.Partitions = t.Topic, s.knownID(t.Topic), t.Partitions
		g.Topics = append(g.Topics, x)
	}
	req.Groups = append(req.Groups, g)
	return req
}

func offsetsOf(topic string, partitions ...int32) kmsg.OffsetFetchRequestTopic {
	t := kmsg.NewOffsetFetchRequestTopic()
	t.Topic, t.Partitions = topic, partitions
	return t
}

// committed records all offsets of a group.
func (s *Script) committed(label, group string) { s.At(plainFetch, label, s.fetchOffsets(group)) }

func offsetCommitCases() []Case {
	const k = kmsg.OffsetCommit
	c := func(name string, lo int16, play func(s *Script, m *member, topic string)) Case {
		return Case{Name: "OffsetCommit/" + name, Key: k, Min: lo, All: true, Play: func(s *Script) {
			topic := s.Topic(3)
			m := &member{s: s, group: s.Group(), generation: -1}
			play(s, m, topic)
			s.committed("then", m.group)
		}}
	}
	simple := func(name string, change func(r *kmsg.OffsetCommitRequest)) Case {
		return c(name, 0, func(s *Script, m *member, topic string) {
			req := s.commitRequest(m, topic, commitPartition(0, 7, "meta"))
			change(req)
			s.Do("answer", req)
		})
	}
	part := func(change func(p *kmsg.OffsetCommitRequestTopicPartition)) func(r *kmsg.OffsetCommitRequest) {
		return func(r *kmsg.OffsetCommitRequest) { change(&r.Topics[0].Partitions[0]) }
	}
	type partition = kmsg.OffsetCommitRequestTopicPartition
	cases := []Case{
		simple("by-nobody", func(*kmsg.OffsetCommitRequest) {}),
		simple("offset-negative", part(func(p *partition) { p.Offset = -5 })),
		simple("offset-minus-one", part(func(p *partition) { p.Offset = -1 })),
		simple("offset-huge", part(func(p *partition) { p.Offset = 1<<63 - 1 })),
		simple("epoch-negative", part(func(p *partition) { p.LeaderEpoch = -7 })),
		simple("metadata-null", part(func(p *partition) { p.Metadata = nil })),
		simple("metadata-largest", part(func(p *partition) { p.Metadata = ptr(strings.Repeat("m", 4096)) })),
		simple("metadata-too-large", part(func(p *partition) { p.Metadata = ptr(strings.Repeat("m", 4097)) })),
		simple("metadata-two-bytes-a-letter", part(func(p *partition) { p.Metadata = ptr(strings.Repeat("é", 4000)) })),
		simple("unknown-partition", part(func(p *partition) { p.Partition = 9 })),
		simple("negative-partition", part(func(p *partition) { p.Partition = -1 })),
		simple("empty-group-id", func(r *kmsg.OffsetCommitRequest) { r.Group = "" }),
		simple("member-without-generation", func(r *kmsg.OffsetCommitRequest) { r.MemberID = "diff-nobody" }),
		simple("generation-without-member", func(r *kmsg.OffsetCommitRequest) { r.Generation = 1 }),
		simple("generation-very-negative", func(r *kmsg.OffsetCommitRequest) { r.Generation = -7 }),
		simple("instance", func(r *kmsg.OffsetCommitRequest) { r.InstanceID = ptr("i") }),
		simple("no-topics", func(r *kmsg.OffsetCommitRequest) { r.Topics = nil }),
		simple("no-partitions", func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Partitions = nil }),
		simple("several", func(r *kmsg.OffsetCommitRequest) {
			r.Topics[0].Partitions = append(r.Topics[0].Partitions, commitPartition(2, 9, strings.Repeat("m", 5000)), commitPartition(9, 1, ""), commitPartition(1, 8, ""))
		}),
		simple("same-partition-twice", func(r *kmsg.OffsetCommitRequest) {
			r.Topics[0].Partitions = append(r.Topics[0].Partitions, commitPartition(0, 9, "second"))
		}),
		simple("too-large-for-missing-member", func(r *kmsg.OffsetCommitRequest) {
			r.MemberID, r.Generation = "diff-nobody", 1
			r.Topics[0].Partitions[0].Metadata = ptr(strings.Repeat("m", 5000))
		}),
		c("unknown-topic", 0, func(s *Script, m *member, topic string) {
			req := s.commitRequest(m, s.Name(""), commitPartition(0, 7, "meta"))
			req.Topics = append(req.Topics, s.commitRequest(m, topic, commitPartition(1, 8, "meta")).Topics...)
			s.Do("answer", req)
		}),
		c("backwards", 0, func(s *Script, m *member, topic string) {
			s.commit(m.group, topic, 100)
			s.Do("answer", s.commitRequest(m, topic, commitPartition(0, 3, "")))
		}),
		c("wrong-generation", 0, func(s *Script, m *member, topic string) {
			live := s.member(m.group).join().sync()
			for _, generation := range []int32{live.generation - 1, live.generation + 1} {
				live.generation = generation
				s.Do("answer", s.commitRequest(live, topic, commitPartition(0, 7, "")))
			}
		}),
		c("wrong-member", 0, func(s *Script, m *member, topic string) {
			live := s.member(m.group).join().sync()
			live.id = "diff-nobody"
			s.Do("answer", s.commitRequest(live, topic, commitPartition(0, 7, "")))
		}),
		c("simple-on-active", 0, func(s *Script, m *member, topic string) {
			s.member(m.group).join().sync()
			s.Do("answer", s.commitRequest(m, topic, commitPartition(0, 7, "")))
		}),
		c("no-generation-on-active", 0, func(s *Script, m *member, topic string) {
			live := s.member(m.group).join().sync()
			live.generation = -1
			s.Do("answer", s.commitRequest(live, topic, commitPartition(0, 7, "")))
		}),
		c("old-generation", 0, func(s *Script, m *member, topic string) {
			live := s.member(m.group).join().sync()
			old := *live
			live.join().sync()
			s.Do("answer", s.commitRequest(&old, topic, commitPartition(0, 7, "")))
		}),
		c("instance-of-another", 7, func(s *Script, m *member, topic string) {
			live := s.member(m.group)
			live.instance = ptr("i")
			live.join().sync()
			old := *live
			old.id = "diff-nobody"
			s.Do("id", s.commitRequest(&old, topic, commitPartition(0, 7, "")))
			old = *live
			old.instance = ptr("other")
			s.Do("instance", s.commitRequest(&old, topic, commitPartition(0, 7, "")))
			old.instance = nil
			s.Do("none", s.commitRequest(&old, topic, commitPartition(0, 7, "")))
		}),
		c("simple-on-empty", 0, func(s *Script, m *member, topic string) {
			s.member(m.group).join().sync().leave()
			s.Do("answer", s.commitRequest(m, topic, commitPartition(0, 7, "")))
		}),
	}
	return append(cases, inEveryStage("OffsetCommit", k, func(s *Script, m *member) {
		s.Do("answer", s.commitRequest(m, s.Topic(1), commitPartition(0, 7, "meta")))
		s.committed("then", m.group)
	})...)
}

func offsetFetchCases() []Case {
	const k = kmsg.OffsetFetch
	c := func(name string, lo int16, play func(s *Script, group, topic string)) Case {
		return Case{Name: "OffsetFetch/" + name, Key: k, Min: lo, All: true, Play: func(s *Script) {
			topic, group := s.Topic(3), s.Group()
			s.commit(group, topic, 7, 0)
			play(s, group, topic)
		}}
	}
	return []Case{
		c("named", 0, func(s *Script, group, topic string) {
			s.Do("answer", s.fetchOffsets(group, offsetsOf(topic, 1, 0, 2)))
		}),
		c("all", 2, func(s *Script, group, _ string) { s.Do("answer", s.fetchOffsets(group)) }),
		c("all-of-two-topics", 2, func(s *Script, group, _ string) {
			s.commit(group, s.Topic(1), 5)
			s.Do("answer", s.fetchOffsets(group))
		}),
		c("unknown-partition", 0, func(s *Script, group, topic string) {
			s.Do("answer", s.fetchOffsets(group, offsetsOf(topic, 9, -1)))
		}),
		c("unknown-topic", 0, func(s *Script, group, topic string) {
			s.Do("answer", s.fetchOffsets(group, offsetsOf(topic, 0), offsetsOf(s.Name(""), 0)))
		}),
		c("empty-topic-name", 0, func(s *Script, group, _ string) { s.Do("answer", s.fetchOffsets(group, offsetsOf("", 0))) }),
		c("no-topics", 0, func(s *Script, group, _ string) {
			req := s.fetchOffsets(group)
			req.Topics, req.Groups[0].Topics = []kmsg.OffsetFetchRequestTopic{}, []kmsg.OffsetFetchRequestGroupTopic{}
			s.Do("answer", req)
		}),
		c("no-partitions", 0, func(s *Script, group, topic string) { s.Do("answer", s.fetchOffsets(group, offsetsOf(topic))) }),
		c("same-partition-twice", 0, func(s *Script, group, topic string) {
			s.Do("answer", s.fetchOffsets(group, offsetsOf(topic, 0, 0)))
		}),
		c("same-topic-twice", 0, func(s *Script, group, topic string) {
			s.Do("answer", s.fetchOffsets(group, offsetsOf(topic, 0), offsetsOf(topic, 1)))
		}),
		c("unknown-group", 0, func(s *Script, _, topic string) {
			s.Do("answer", s.fetchOffsets(s.Name("-g"), offsetsOf(topic, 0)))
		}),
		c("all-of-unknown-group", 2, func(s *Script, _, _ string) { s.Do("answer", s.fetchOffsets(s.Name("-g"))) }),
		c("stable", 7, func(s *Script, group, topic string) {
			req := s.fetchOffsets(group, offsetsOf(topic, 0, 2))
			req.RequireStable = true
			s.Do("answer", req)
		}),
		c("several-groups", 8, func(s *Script, group, topic string) {
			req := s.fetchOffsets(group, offsetsOf(topic, 0))
			req.Groups = append(req.Groups, s.fetchOffsets(s.Name("-g")).Groups[0], s.fetchOffsets(group).Groups[0])
			s.Do("answer", req)
		}),
		c("no-groups", 8, func(s *Script, group, _ string) {
			req := s.fetchOffsets(group)
			req.Groups = nil
			s.Do("answer", req)
		}),
		c("member-and-epoch", 9, func(s *Script, group, topic string) {
			req := s.fetchOffsets(group, offsetsOf(topic, 0))
			req.Groups[0].MemberID, req.Groups[0].MemberEpoch = ptr("diff-nobody"), 5
			s.Do("answer", req)
		}),
		c("member-of-classic-group", 9, func(s *Script, group, topic string) {
			s.member(group).join().sync()
			req := s.fetchOffsets(group, offsetsOf(topic, 0))
			req.Groups[0].MemberID, req.Groups[0].MemberEpoch = ptr("diff-nobody"), 5
			s.Do("answer", req)
		}),
		c("topic-deleted", 0, func(s *Script, group, topic string) {
			del := kmsg.NewPtrDeleteTopicsRequest()
			del.TopicNames, del.TimeoutMillis = []string{topic}, 10000
			s.prepare(5, del)
			s.eventually("the offsets are gone", func() bool {
				return len(s.prepare(plainFetch, s.fetchOffsets(group)).(*kmsg.OffsetFetchResponse).Topics) == 0
			})
			s.Do("answer", s.fetchOffsets(group, offsetsOf(topic, 0)))
		}),
	}
}

func offsetDeleteCases() []Case {
	const k = kmsg.OffsetDelete
	request := func(group, topic string, partitions ...int32) *kmsg.OffsetDeleteRequest {
		req := kmsg.NewPtrOffsetDeleteRequest()
		req.Group = group
		t := kmsg.NewOffsetDeleteRequestTopic()
		t.Topic = topic
		for _, partition := range partitions {
			p := kmsg.NewOffsetDeleteRequestTopicPartition()
			p.Partition = partition
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
		return req
	}
	c := func(name string, play func(s *Script, group, topic string)) Case {
		return Case{Name: "OffsetDelete/" + name, Key: k, All: true, Play: func(s *Script) {
			topic, group := s.Topic(3), s.Group()
			s.commit(group, topic, 7, 8, 9)
			play(s, group, topic)
			s.committed("then", group)
		}}
	}
	// active has a member that is subscribed to a topic, or to whatever the bytes say.
	active := func(s *Script, group, kind string, metadata []byte) {
		m := s.member(group)
		req := m.joinRequest()
		req.ProtocolType, req.Protocols[0].Metadata = kind, metadata
		m.take(m.prepare(dynamicJoin, req))
		m.sync()
	}
	cases := []Case{
		c("ordinary", func(s *Script, group, topic string) { s.Do("answer", request(group, topic, 0, 2)) }),
		c("all", func(s *Script, group, topic string) {
			s.Do("answer", request(group, topic, 0, 1, 2))
			s.state("group", group)
		}),
		c("not-committed", func(s *Script, group, topic string) {
			s.Do("answer", request(group, topic, 1))
			s.Do("again", request(group, topic, 1))
		}),
		c("unknown-partition", func(s *Script, group, topic string) { s.Do("answer", request(group, topic, 0, 9, -1)) }),
		c("unknown-topic", func(s *Script, group, topic string) {
			req := request(group, s.Name(""), 0)
			req.Topics = append(req.Topics, request(group, topic, 0).Topics...)
			s.Do("answer", req)
		}),
		c("unknown-group", func(s *Script, _, topic string) { s.Do("answer", request(s.Name("-g"), topic, 0)) }),
		c("unknown-topic-of-unknown-group", func(s *Script, _, _ string) { s.Do("answer", request(s.Name("-g"), s.Name(""), 0)) }),
		c("empty-group-id", func(s *Script, _, topic string) { s.Do("answer", request("", topic, 0)) }),
		c("no-topics", func(s *Script, group, _ string) {
			req := request(group, "x")
			req.Topics = nil
			s.Do("answer", req)
		}),
		c("no-partitions", func(s *Script, group, topic string) { s.Do("answer", request(group, topic)) }),
		c("same-partition-twice", func(s *Script, group, topic string) { s.Do("answer", request(group, topic, 0, 0)) }),
		c("subscribed", func(s *Script, group, topic string) {
			active(s, group, "consumer", subscribe(topic))
			s.Do("answer", request(group, topic, 0))
		}),
		c("subscribed-to-another", func(s *Script, group, topic string) {
			active(s, group, "consumer", subscribe("other"))
			s.Do("answer", request(group, topic, 0))
		}),
		c("subscription-unreadable", func(s *Script, group, topic string) {
			active(s, group, "consumer", []byte{1})
			s.Do("answer", request(group, topic, 0))
		}),
		c("active-of-another-type", func(s *Script, group, topic string) {
			active(s, group, "connect", subscribe("other"))
			s.Do("answer", request(group, topic, 0))
		}),
	}
	return cases
}
