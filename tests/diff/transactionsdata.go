package diff

import (
	"cmp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// transactionalProduceCases ask what becomes of batches in and out of transactions.
func transactionalProduceCases() []Case {
	const k = kmsg.Produce
	c := func(name string, play func(s *Script)) Case {
		return Case{Name: "Transactions/produce-" + name, Key: k, All: true, Play: play}
	}
	// opened is a producer with an open transaction that has partition 0 of a topic with two.
	opened := func(s *Script) (*producer, string) {
		p := s.Producer()
		p.init() // so that there is an epoch below its own
		topic := s.Topic(2)
		if s.V < newerProduce {
			p.add(topic, 0)
			p.writeAdded(topic, 0, 0, "a")
		} else {
			p.write(topic, 0, 0, "a")
		}
		return p, topic
	}
	endVersion := func(s *Script) int16 {
		if s.V < newerProduce {
			return olderEnd
		}
		return newerEnd
	}
	type request = kmsg.ProduceRequest
	// one changes a good request that goes on with the transaction.
	one := func(name string, change func(p *producer, b *batch), spoil func(p *producer, r *request)) Case {
		return c(name, func(s *Script) {
			p, topic := opened(s)
			b := p.batch(1, "b", "c")
			if change != nil {
				change(p, &b)
			}
			req := p.produceRequest(topic, 0, b)
			if spoil != nil {
				spoil(p, req)
			}
			s.Do("answer", req)
			p.tell("then")
			s.ends("then", topic, 0)
		})
	}
	return []Case{
		one("open", nil, nil),
		one("retry", func(p *producer, b *batch) { *b = p.batch(0, "a") }, nil),
		one("gap", func(_ *producer, b *batch) { b.seq = 2 }, nil),
		one("epoch-lower", func(_ *producer, b *batch) { b.epoch-- }, nil),
		one("epoch-higher", func(_ *producer, b *batch) { b.epoch++ }, nil),
		one("other-producer-id", func(_ *producer, b *batch) { b.pid += 1000000 }, nil),
		one("unknown-transactional-id", nil, func(p *producer, r *request) { r.TransactionID = ptr(p.s.Name("-x")) }),
		one("no-transactional-id", nil, func(_ *producer, r *request) { r.TransactionID = nil }),
		one("empty-transactional-id", nil, func(_ *producer, r *request) { r.TransactionID = ptr("") }),
		one("plain-batch-of-the-producer", func(_ *producer, b *batch) { b.attributes = 0 }, nil),
		one("plain-batch-of-the-producer-without-transactional-id", func(_ *producer, b *batch) { b.attributes = 0 },
			func(_ *producer, r *request) { r.TransactionID = nil }),
		one("plain-batch-without-producer", func(p *producer, b *batch) { *b = plain(p.s.t0, "x") }, nil),
		one("no-producer-id", func(_ *producer, b *batch) { b.pid, b.epoch, b.seq = -1, -1, -1 }, nil),
		one("without-acks-of-all", nil, func(_ *producer, r *request) { r.Acks = 1 }),
		one("control-batch", func(_ *producer, b *batch) { b.attributes |= attrControl }, nil),
		c("partition-not-added", func(s *Script) {
			p, topic := opened(s)
			s.Do("answer", p.produceRequest(topic, 1, p.batch(0, "b")))
			p.tell("then")
			s.ends("then", topic, 1)
		}),
		c("nothing-open", func(s *Script) {
			p := s.Producer()
			topic := s.Topic(1)
			s.Do("answer", p.produceRequest(topic, 0, p.batch(0, "a")))
			p.tell("then")
			s.ends("then", topic, 0)
		}),
		c("nothing-open-not-from-zero", func(s *Script) {
			p := s.Producer()
			topic := s.Topic(1)
			if s.V < newerProduce {
				p.add(topic, 0)
			}
			s.Do("answer", p.produceRequest(topic, 0, p.batch(3, "a")))
			p.tell("then")
			s.ends("then", topic, 0)
		}),
		c("after-the-abort", func(s *Script) {
			p, topic := opened(s)
			old := *p
			p.end(endVersion(s), false)
			s.Do("late", old.produceRequest(topic, 0, old.batch(1, "b")))
			s.Do("late again", old.produceRequest(topic, 0, old.batch(0, "a")))
			p.tell("then")
			s.ends("then", topic, 0)
		}),
		c("after-the-commit-with-the-new-epoch", func(s *Script) {
			p, topic := opened(s)
			p.end(endVersion(s), true)
			seq := int32(0)
			if s.V < newerProduce {
				p.add(topic, 0)
				seq = 1
			}
			s.Do("answer", p.produceRequest(topic, 0, p.batch(seq, "b")))
			p.tell("then")
			s.ends("then", topic, 0)
		}),
		c("after-a-new-instance", func(s *Script) {
			p, topic := opened(s)
			old := *p
			p.init()
			s.Do("late", old.produceRequest(topic, 0, old.batch(1, "b")))
			s.ends("then", topic, 0)
		}),
		c("two-producers-in-one-request", func(s *Script) {
			p, topic := opened(s)
			other, _ := opened(s)
			req := p.produceRequest(topic, 0, p.batch(1, "b"))
			more := p.produceRequest(topic, 1, other.batch(0, "c"))
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, more.Topics[0].Partitions...)
			s.Do("answer", req)
		}),
		c("plain-and-transactional-in-one-request", func(s *Script) {
			p, topic := opened(s)
			req := p.produceRequest(topic, 0, p.batch(1, "b"))
			more := p.produceRequest(topic, 1, plain(s.t0, "c"))
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, more.Topics[0].Partitions...)
			s.Do("answer", req)
		}),
		{Name: "Transactions/produce-sequence-reused-after-an-abort", Key: k, Max: olderProduce, All: true, Play: func(s *Script) {
			p := s.Producer()
			topic := s.Topic(1)
			p.add(topic, 0)
			s.outcome(s.V, "first", p.produceRequest(topic, 0, p.batch(0, "a")))
			p.end(olderEnd, false)
			p.add(topic, 0)
			s.outcome(s.V, "second", p.produceRequest(topic, 0, p.batch(0, "b")))
			s.outcome(s.V, "next", p.produceRequest(topic, 0, p.batch(1, "c")))
			p.end(olderEnd, true)
			s.stable("look", topic, 0, 0)
		}},
	}
}

// isolationCases ask what readers of both kinds see of transactions.
func isolationCases() []Case {
	const k = kmsg.Fetch
	c := func(name string, play func(s *Script)) Case {
		return Case{Name: "Transactions/read-" + name, Key: k, Play: play}
	}
	read := func(s *Script, label, topic string, level int8, offset int64) {
		req := s.FetchRequest(topic, 0, offset)
		req.IsolationLevel = level
		resp, ok := s.Hidden(label, req).(*kmsg.FetchResponse)
		if !ok {
			return
		}
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions { // any order will do
				slices.SortFunc(resp.Topics[i].Partitions[j].AbortedTransactions, func(a, b kmsg.FetchResponseTopicPartitionAbortedTransaction) int {
					return cmp.Compare(a.FirstOffset, b.FirstOffset)
				})
			}
		}
		s.Record(label, resp)
	}
	both := func(s *Script, topic string, offset int64) {
		read(s, "uncommitted", topic, 0, offset)
		read(s, "committed", topic, 1, offset)
	}
	return []Case{
		c("open", func(s *Script) {
			p := s.Producer()
			topic := s.Topic(1)
			s.Fill(topic, 0, plain(s.t0, "a", "b"))
			p.write(topic, 0, 0, "c")
			s.Fill(topic, 0, plain(s.t0, "d"))
			both(s, topic, 0)
			read(s, "from the transaction on", topic, 1, 2)
			read(s, "behind the stable offset", topic, 1, 3)
			read(s, "at the end", topic, 1, 4)
			read(s, "beyond the end", topic, 1, 5)
			s.ends("then", topic, 0)
		}),
		c("aborted", func(s *Script) {
			p := s.Producer()
			topic := s.Topic(1)
			s.Fill(topic, 0, plain(s.t0, "a", "b"))
			p.write(topic, 0, 0, "c")
			s.Fill(topic, 0, plain(s.t0, "d"))
			p.end(newerEnd, false)
			s.Fill(topic, 0, plain(s.t0, "e"))
			both(s, topic, 0)
			read(s, "at its marker", topic, 1, 4)
			read(s, "behind its marker", topic, 1, 5)
			read(s, "at the end", topic, 1, 6)
			s.ends("then", topic, 0)
		}),
		c("aborted-with-a-small-limit", func(s *Script) {
			p := s.Producer()
			topic := s.Topic(1)
			s.Fill(topic, 0, plain(s.t0, "a", "b"))
			p.write(topic, 0, 0, "c")
			p.end(newerEnd, false)
			req := s.FetchRequest(topic, 0, 0)
			req.IsolationLevel, req.Topics[0].Partitions[0].PartitionMaxBytes = 1, 10
			s.Do("before it", req)
			req = s.FetchRequest(topic, 0, 2)
			req.IsolationLevel, req.Topics[0].Partitions[0].PartitionMaxBytes = 1, 10
			s.Do("at it", req)
		}),
		c("committed", func(s *Script) {
			p := s.Producer()
			topic := s.Topic(1)
			p.write(topic, 0, 0, "a", "b")
			p.end(newerEnd, true)
			both(s, topic, 0)
			s.ends("then", topic, 0)
		}),
		c("interleaved", func(s *Script) {
			topic := s.Topic(1)
			p, q, r := s.Producer(), s.Producer(), s.Producer()
			p.write(topic, 0, 0, "p0")
			q.write(topic, 0, 0, "q0")
			r.write(topic, 0, 0, "r0")
			q.write(topic, 0, 1, "q1")
			q.end(newerEnd, false)
			q.write(topic, 0, 0, "q2")
			read(s, "one open", topic, 1, 0)
			p.end(newerEnd, false)
			read(s, "one ended", topic, 1, 0)
			r.end(newerEnd, true)
			read(s, "two ended", topic, 1, 0)
			q.end(newerEnd, false)
			read(s, "all ended", topic, 1, 0)
			read(s, "from the middle", topic, 1, 5)
			read(s, "from the last", topic, 1, 8)
			s.ends("then", topic, 0)
		}),
		c("open-below-the-log-start", func(s *Script) {
			p := s.Producer()
			topic := s.Topic(1)
			p.write(topic, 0, 0, "a")
			s.Fill(topic, 0, plain(s.t0, "b", "c"))
			del := kmsg.NewPtrDeleteRecordsRequest()
			t := kmsg.NewDeleteRecordsRequestTopic()
			t.Topic = topic
			x := kmsg.NewDeleteRecordsRequestTopicPartition()
			x.Partition, x.Offset = 0, 2
			t.Partitions = append(t.Partitions, x)
			del.Topics, del.TimeoutMillis = append(del.Topics, t), 10000
			s.At(2, "delete", del)
			read(s, "committed", topic, 1, 2)
			s.ends("then", topic, 0)
			p.end(newerEnd, false)
			read(s, "ended", topic, 1, 2)
		}),
		{Name: "Transactions/list-offsets", Key: kmsg.ListOffsets, Min: 2, Play: func(s *Script) {
			topic := s.Topic(1)
			p := s.Producer()
			s.Fill(topic, 0, plain(s.t0, "a"))
			p.write(topic, 0, 0, "b")
			late := plain(s.t0+5000, "c")
			s.Fill(topic, 0, late)
			ask := func(label string, level int8, ts int64) {
				req := kmsg.NewPtrListOffsetsRequest()
				req.ReplicaID, req.IsolationLevel = -1, level
				req.Topics = []kmsg.ListOffsetsRequestTopic{listTopic(topic, 0, ts)}
				s.Do(label, req)
			}
			for level := range int8(2) {
				label := []string{"uncommitted", "committed"}[level]
				ask(label+" latest", level, -1)
				ask(label+" earliest", level, -2)
				if s.V >= 7 {
					ask(label+" greatest time", level, -3)
				}
				ask(label+" time of the first", level, s.t0)
				ask(label+" time behind the stable offset", level, s.t0+5000)
			}
			p.end(newerEnd, true)
			ask("ended, latest", 1, -1)
			ask("ended, time of the marker", 1, time.Now().Add(-time.Minute).UnixMilli())
			if s.V >= 7 {
				ask("ended, greatest time", 1, -3)
			}
		}},
	}
}
