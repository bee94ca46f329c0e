package diff

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// txnOffsetCommitCases ask what becomes of offsets that are committed within transactions.
func txnOffsetCommitCases() []Case {
	const k = kmsg.TxnOffsetCommit
	type request = kmsg.TxnOffsetCommitRequest
	c := func(name string, play func(s *Script)) Case {
		return Case{Name: "Transactions/commit-offset-" + name, Key: k, All: true, Play: play}
	}
	endVersion := func(s *Script) int16 {
		if s.V < newerOffsetCommit {
			return olderEnd
		}
		return newerEnd
	}
	commit := func(p *producer, group, topic string, partition int32, offset int64) *request {
		req := kmsg.NewPtrTxnOffsetCommitRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = p.id, p.pid, p.epoch, group
		req.Generation, req.MemberID = -1, ""
		t := kmsg.NewTxnOffsetCommitRequestTopic()
		t.Topic, t.TopicID = topic, p.s.knownID(topic)
		x := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		x.Partition, x.Offset, x.LeaderEpoch, x.Metadata = partition, offset, 0, ptr("m")
		t.Partitions = append(t.Partitions, x)
		req.Topics = append(req.Topics, t)
		return req
	}
	// join adds the group to the transaction where the protocol of the version does.
	join := func(p *producer, group string) {
		if p.s.V >= newerOffsetCommit {
			return
		}
		req := kmsg.NewPtrAddOffsetsToTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = p.id, p.pid, p.epoch, group
		if code := p.s.prepare(3, req).(*kmsg.AddOffsetsToTxnResponse).ErrorCode; code != 0 {
			p.s.fail("prepare: add offsets: %s", codeName(code))
		}
	}
	fetch := func(s *Script, label, group, topic string, stable bool) {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Group, req.RequireStable = group, stable
		t := kmsg.NewOffsetFetchRequestTopic()
		t.Topic, t.Partitions = topic, []int32{0}
		req.Topics = append(req.Topics, t)
		s.At(7, label, req)
	}
	one := func(name string, change func(p *producer, r *request)) Case {
		return c(name, func(s *Script) {
			s.groups()
			p := s.Producer()
			group, topic := s.Name("-g"), s.Topic(1)
			join(p, group)
			req := commit(p, group, topic, 0, 5)
			change(p, req)
			s.Do("answer", req)
			p.tell("then")
		})
	}
	whole := func(name string, committed bool) Case {
		return c(name, func(s *Script) {
			s.groups()
			p := s.Producer()
			group, topic := s.Name("-g"), s.Topic(1)
			join(p, group)
			s.Do("answer", commit(p, group, topic, 0, 5))
			p.tell("open")
			fetch(s, "open", group, topic, false)
			fetch(s, "open, stable", group, topic, true)
			p.end(endVersion(s), committed)
			fetch(s, "ended", group, topic, false)
			fetch(s, "ended, stable", group, topic, true)
		})
	}
	return []Case{
		whole("committed", true), whole("aborted", false),
		one("unknown-transactional-id", func(p *producer, r *request) { r.TransactionalID = p.s.Name("-x") }),
		one("empty-transactional-id", func(_ *producer, r *request) { r.TransactionalID = "" }),
		one("other-producer-id", func(_ *producer, r *request) { r.ProducerID += 1000000 }),
		one("epoch-lower", func(_ *producer, r *request) { r.ProducerEpoch-- }),
		one("epoch-higher", func(_ *producer, r *request) { r.ProducerEpoch++ }),
		one("other-group", func(p *producer, r *request) { r.Group = p.s.Name("-g") }),
		one("empty-group", func(_ *producer, r *request) { r.Group = "" }),
		one("generation-of-no-group", func(_ *producer, r *request) { r.Generation, r.MemberID = 3, "m" }),
		one("generation-without-member", func(_ *producer, r *request) { r.Generation = 3 }),
		one("member-without-generation", func(_ *producer, r *request) { r.MemberID = "m" }),
		one("unknown-topic", func(p *producer, r *request) {
			r.Topics[0].Topic, r.Topics[0].TopicID = p.s.Name(""), [16]byte{1, 2, 3}
		}),
		one("unknown-partition", func(_ *producer, r *request) { r.Topics[0].Partitions[0].Partition = 9 }),
		one("metadata-too-large", func(_ *producer, r *request) { r.Topics[0].Partitions[0].Metadata = ptr(string(make([]byte, 4097))) }),
		one("metadata-null", func(_ *producer, r *request) { r.Topics[0].Partitions[0].Metadata = nil }),
		one("offset-negative", func(_ *producer, r *request) { r.Topics[0].Partitions[0].Offset = -5 }),
		one("nothing", func(_ *producer, r *request) { r.Topics = nil }),
		c("group-not-added", func(s *Script) {
			s.groups()
			p := s.Producer()
			group, topic := s.Name("-g"), s.Topic(1)
			s.Do("answer", commit(p, group, topic, 0, 5))
			p.tell("then")
			fetch(s, "then", group, topic, true)
		}),
		c("over-a-plain-commit", func(s *Script) {
			s.groups()
			p := s.Producer()
			group, topic := s.Name("-g"), s.Topic(1)
			plain := kmsg.NewPtrOffsetCommitRequest()
			plain.Group, plain.Generation = group, -1
			t := kmsg.NewOffsetCommitRequestTopic()
			t.Topic = topic
			x := kmsg.NewOffsetCommitRequestTopicPartition()
			x.Partition, x.Offset = 0, 3
			t.Partitions = append(t.Partitions, x)
			plain.Topics = append(plain.Topics, t)
			s.prepare(7, plain)
			join(p, group)
			s.Do("answer", commit(p, group, topic, 0, 5))
			fetch(s, "open", group, topic, false)
			plain.Topics[0].Partitions[0].Offset = 9
			s.prepare(7, plain)
			fetch(s, "plain again", group, topic, false)
			p.end(endVersion(s), true)
			fetch(s, "ended", group, topic, true)
		}),
		c("of-two-producers", func(s *Script) {
			s.groups()
			p, q := s.Producer(), s.Producer()
			group, topic := s.Name("-g"), s.Topic(1)
			join(p, group)
			join(q, group)
			s.Do("first", commit(p, group, topic, 0, 5))
			s.Do("second", commit(q, group, topic, 0, 7))
			q.end(endVersion(s), true)
			fetch(s, "second ended", group, topic, false)
			fetch(s, "second ended, stable", group, topic, true)
			p.end(endVersion(s), true)
			fetch(s, "both ended", group, topic, true)
		}),
	}
}
