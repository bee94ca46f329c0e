package diff

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The versions at which a client speaks the older of the two transaction protocols, with its
// AddPartitionsToTxn and AddOffsetsToTxn, and the newer one, without.
const (
	olderProduce, newerProduce           = 11, 12
	olderEnd, newerEnd                   = 4, 5
	olderOffsetCommit, newerOffsetCommit = 4, 5
)

// producer is a transactional producer of a script: what a client keeps of itself.
type producer struct {
	s     *Script
	id    string
	pid   int64
	epoch int16
}

// Producer makes a transactional producer with an id of its own, and records nothing.
func (s *Script) Producer() *producer {
	p := &producer{s: s, id: s.Name("-x"), pid: -1, epoch: -1}
	p.init()
	s.nameOfPID(p.pid) // named in the order in which they are made
	return p
}

// initRequest asks for the producer's id and epoch, as a new instance does.
func (p *producer) initRequest() *kmsg.InitProducerIDRequest {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = &p.id, 60000
	req.ProducerID, req.ProducerEpoch = -1, -1
	return req
}

// init makes the producer a new instance, as soon as the coordinator lets it.
func (p *producer) init() {
	p.s.eventually("there is a producer id", func() bool {
		// Kafka makes a topic for the coordinator when it is asked for the first time.
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorKey, find.CoordinatorType = p.id, 1
		if p.s.prepare(3, find).(*kmsg.FindCoordinatorResponse).ErrorCode != 0 {
			return false
		}
		resp := p.s.prepare(3, p.initRequest()).(*kmsg.InitProducerIDResponse)
		switch resp.ErrorCode {
		case 0:
			p.pid, p.epoch = resp.ProducerID, resp.ProducerEpoch
			return true
		case 14, 15, 16, 51:
			return false
		}
		p.s.fail("prepare: init producer id: %s", codeName(resp.ErrorCode))
		return false
	})
}

// settle waits until no transaction of the producer is being ended: Kafka answers before it is.
func (p *producer) settle() {
	p.s.eventually("the transaction is ended", func() bool {
		req := kmsg.NewPtrDescribeTransactionsRequest()
		req.TransactionalIDs = []string{p.id}
		switch p.s.prepare(0, req).(*kmsg.DescribeTransactionsResponse).TransactionStates[0].State {
		case "PrepareCommit", "PrepareAbort", "PrepareEpochFence":
			return false
		}
		return true
	})
}

func (p *producer) addRequest(topic string, partitions ...int32) *kmsg.AddPartitionsToTxnRequest {
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = p.id, p.pid, p.epoch
	t := kmsg.NewAddPartitionsToTxnRequestTopic()
	t.Topic, t.Partitions = topic, partitions
	req.Topics = append(req.Topics, t)
	return req
}

// add adds partitions to the transaction, as the older protocol does.
func (p *producer) add(topic string, partitions ...int32) {
	resp := p.s.prepare(3, p.addRequest(topic, partitions...)).(*kmsg.AddPartitionsToTxnResponse)
	for _, t := range resp.Topics {
		for _, x := range t.Partitions {
			if x.ErrorCode != 0 {
				p.s.fail("prepare: add partition %d: %s", x.Partition, codeName(x.ErrorCode))
			}
		}
	}
}

// batch returns a transactional batch of the producer.
func (p *producer) batch(seq int32, values ...string) batch {
	b := plain(p.s.t0, values...).of(p.pid, p.epoch, seq)
	b.attributes = attrTransactional
	return b
}

func (p *producer) produceRequest(topic string, partition int32, b batch) *kmsg.ProduceRequest {
	req := p.s.ProduceRequest(-1, part{topic, partition, p.s.wire(b)})
	req.TransactionID = &p.id
	return req
}

// write produces values in the transaction, by the newer protocol: the partition is added.
func (p *producer) write(topic string, partition, seq int32, values ...string) {
	p.s.accepted(newerProduce, p.produceRequest(topic, partition, p.batch(seq, values...)))
}

// writeAdded produces values in the transaction, by the older protocol.
func (p *producer) writeAdded(topic string, partition, seq int32, values ...string) {
	p.s.accepted(olderProduce, p.produceRequest(topic, partition, p.batch(seq, values...)))
}

// accepted sends a produce request that must be taken. Kafka may have to end something first.
func (s *Script) accepted(version int16, req *kmsg.ProduceRequest) {
	s.eventually("the records are taken", func() bool {
		code := s.prepare(version, req).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode
		if code != 0 && code != 51 && code != 19 {
			s.fail("prepare: produce: %s", codeName(code))
		}
		return code == 0
	})
}

// outcome sends a produce request at a version and records the error and the offset alone.
func (s *Script) outcome(version int16, label string, req *kmsg.ProduceRequest) {
	req.SetVersion(version)
	resp, ok := s.exchange(label, req, header{}).(*kmsg.ProduceResponse)
	if !ok {
		return
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			s.Note(label, codeName(p.ErrorCode))
			s.Note(label+".BaseOffset", p.BaseOffset)
		}
	}
}

func (p *producer) endRequest(commit bool) *kmsg.EndTxnRequest {
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = p.id, p.pid, p.epoch, commit
	return req
}

// end ends the transaction at a version, waits until it is ended, and takes over a new epoch.
func (p *producer) end(version int16, commit bool) {
	resp := p.s.prepare(version, p.endRequest(commit)).(*kmsg.EndTxnResponse)
	if resp.ErrorCode != 0 {
		p.s.fail("prepare: end transaction: %s", codeName(resp.ErrorCode))
	}
	if version >= newerEnd {
		p.pid, p.epoch = resp.ProducerID, resp.ProducerEpoch
	}
	p.settle()
}

// tell records what is known of the producer's transaction.
func (p *producer) tell(label string) {
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{p.id}
	resp := p.s.prepare(0, req).(*kmsg.DescribeTransactionsResponse)
	x := resp.TransactionStates[0]
	p.s.Note(label, fmt.Sprintf("%s, producer %s, epoch %d", x.State, p.s.nameOfPID(x.ProducerID), x.ProducerEpoch))
}

// stale is the producer as of an epoch that is off by so much.
func (p *producer) stale(by int16) *producer {
	old := *p
	old.epoch += by
	return &old
}

// stable records what a reader of committed records gets of a partition.
func (s *Script) stable(label, topic string, partition int32, offset int64) {
	req := s.FetchRequest(topic, partition, offset)
	req.IsolationLevel = 1
	s.At(11, label, req)
}

// ends records the latest offset for both kinds of readers.
func (s *Script) ends(label, topic string, partition int32) {
	for level, name := range []string{"uncommitted", "committed"} {
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID, req.IsolationLevel = -1, int8(level)
		req.Topics = []kmsg.ListOffsetsRequestTopic{listTopic(topic, partition, -1)}
		resp := s.prepare(4, req).(*kmsg.ListOffsetsResponse)
		s.Note(label+"."+name, resp.Topics[0].Partitions[0].Offset)
	}
}

func transactionalInitCases() []Case {
	const k = kmsg.InitProducerID
	c := func(name string, lo int16, play func(s *Script)) Case {
		return Case{Name: "Transactions/init-" + name, Key: k, Min: lo, All: true, Play: play}
	}
	// fresh is a producer that never asked for an id, once the coordinator is there.
	fresh := func(s *Script) *producer {
		s.Producer()
		return &producer{s: s, id: s.Name("-x"), pid: -1, epoch: -1}
	}
	timeout := func(name string, ms int32) Case {
		return c(name, 0, func(s *Script) {
			req := fresh(s).initRequest()
			req.TransactionTimeoutMillis = ms
			s.Do("answer", req)
		})
	}
	// own asks again with an id and an epoch.
	own := func(p *producer, pid int64, epoch int16) *kmsg.InitProducerIDRequest {
		req := p.initRequest()
		req.ProducerID, req.ProducerEpoch = pid, epoch
		return req
	}
	// until asks until the coordinator does not put it off any more, and records the last answer.
	until := func(s *Script, label string, req *kmsg.InitProducerIDRequest) {
		s.eventually("the transaction is ended", func() bool {
			resp, ok := s.Hidden(label, req).(*kmsg.InitProducerIDResponse)
			if !ok || resp.ErrorCode == 51 {
				return !ok
			}
			s.Record(label, resp)
			return true
		})
	}
	return []Case{
		timeout("timeout-zero", 0), timeout("timeout-negative", -1), timeout("timeout-greatest", 900000),
		timeout("timeout-too-great", 900001),
		c("new", 0, func(s *Script) {
			p := fresh(s)
			s.Do("first", p.initRequest())
			s.Do("second", p.initRequest())
			p.tell("then")
		}),
		c("new-with-an-id-of-its-own", 3, func(s *Script) {
			p := fresh(s)
			s.Do("answer", own(p, 5, 3))
			p.tell("then")
		}),
		c("resumed", 3, func(s *Script) {
			p := s.Producer()
			s.Do("answer", own(p, p.pid, p.epoch))
			s.Do("again", own(p, p.pid, p.epoch))
			s.Do("next", own(p, p.pid, p.epoch+1))
			s.Do("too old", own(p, p.pid, p.epoch))
			p.tell("then")
		}),
		c("resumed-after-a-new-instance", 3, func(s *Script) {
			p := s.Producer()
			old := *p
			p.init()
			s.Do("answer", own(&old, old.pid, old.epoch))
			s.Do("too new", own(p, p.pid, p.epoch+1))
			s.Do("other id", own(p, p.pid+1000000, p.epoch))
			p.tell("then")
		}),
		c("over-an-open-transaction", 0, func(s *Script) {
			p := s.Producer()
			topic := s.Topic(1)
			p.add(topic, 0)
			p.writeAdded(topic, 0, 0, "a", "b")
			until(s, "answer", p.initRequest())
			p.tell("then")
			s.stable("look", topic, 0, 0)
		}),
		c("over-an-open-transaction-of-the-newer-protocol", 0, func(s *Script) {
			p := s.Producer()
			topic := s.Topic(1)
			p.write(topic, 0, 0, "a", "b")
			until(s, "answer", p.initRequest())
			p.tell("then")
			s.stable("look", topic, 0, 0)
		}),
		c("resumed-over-an-open-transaction", 3, func(s *Script) {
			p := s.Producer()
			topic := s.Topic(1)
			p.write(topic, 0, 0, "a", "b")
			until(s, "answer", own(p, p.pid, p.epoch))
			p.tell("then")
		}),
		c("after-a-commit", 0, func(s *Script) {
			p := s.Producer()
			topic := s.Topic(1)
			p.write(topic, 0, 0, "a")
			p.end(newerEnd, true)
			p.tell("before")
			s.Do("answer", p.initRequest())
			p.tell("then")
		}),
		c("resumed-after-a-commit", 3, func(s *Script) {
			p := s.Producer()
			topic := s.Topic(1)
			p.write(topic, 0, 0, "a")
			old := *p
			p.end(newerEnd, true)
			s.Do("epoch before the commit", own(&old, old.pid, old.epoch))
			s.Do("epoch after it", own(p, p.pid, p.epoch))
			p.tell("then")
		}),
	}
}

func addPartitionsCases() []Case {
	const k = kmsg.AddPartitionsToTxn
	c := func(name string, play func(s *Script)) Case {
		return Case{Name: "Transactions/add-" + name, Key: k, Max: 3, All: true, Play: play}
	}
	// one changes a good request about partition 0 of a topic with two.
	one := func(name string, change func(p *producer, r *kmsg.AddPartitionsToTxnRequest)) Case {
		return c(name, func(s *Script) {
			p := s.Producer()
			req := p.addRequest(s.Topic(2), 0)
			change(p, req)
			s.Do("answer", req)
			p.tell("then")
		})
	}
	type request = kmsg.AddPartitionsToTxnRequest
	// many is the form in which brokers ask each other.
	many := func(p *producer, verify bool, topic string, partitions ...int32) *request {
		req := kmsg.NewPtrAddPartitionsToTxnRequest()
		x := kmsg.NewAddPartitionsToTxnRequestTransaction()
		x.TransactionalID, x.ProducerID, x.ProducerEpoch, x.VerifyOnly = p.id, p.pid, p.epoch, verify
		t := kmsg.NewAddPartitionsToTxnRequestTransactionTopic()
		t.Topic, t.Partitions = topic, partitions
		x.Topics = append(x.Topics, t)
		req.Transactions = append(req.Transactions, x)
		return req
	}
	return []Case{
		one("one", func(*producer, *request) {}),
		one("two", func(_ *producer, r *request) { r.Topics[0].Partitions = []int32{0, 1} }),
		one("same-twice", func(_ *producer, r *request) { r.Topics[0].Partitions = []int32{0, 0} }),
		one("nothing", func(_ *producer, r *request) { r.Topics = nil }),
		one("no-partitions", func(_ *producer, r *request) { r.Topics[0].Partitions = nil }),
		one("unknown-transactional-id", func(p *producer, r *request) { r.TransactionalID = p.s.Name("-x") }),
		one("empty-transactional-id", func(_ *producer, r *request) { r.TransactionalID = "" }),
		one("other-producer-id", func(_ *producer, r *request) { r.ProducerID += 1000000 }),
		one("epoch-lower", func(_ *producer, r *request) { r.ProducerEpoch-- }),
		one("epoch-higher", func(_ *producer, r *request) { r.ProducerEpoch++ }),
		one("unknown-partition", func(_ *producer, r *request) { r.Topics[0].Partitions = []int32{0, 9} }),
		one("unknown-topic", func(p *producer, r *request) {
			t := kmsg.NewAddPartitionsToTxnRequestTopic()
			t.Topic, t.Partitions = p.s.Name(""), []int32{0}
			r.Topics = append(r.Topics, t)
		}),
		one("unknown-topic-and-epoch-lower", func(p *producer, r *request) {
			r.Topics[0].Topic, r.ProducerEpoch = p.s.Name(""), r.ProducerEpoch-1
		}),
		c("again", func(s *Script) {
			p := s.Producer()
			topic := s.Topic(2)
			p.add(topic, 0)
			s.Do("same", p.addRequest(topic, 0))
			s.Do("more", p.addRequest(topic, 0, 1))
			s.Do("epoch lower", p.stale(-1).addRequest(topic, 0))
			p.tell("then")
		}),
		c("after-a-commit", func(s *Script) {
			p := s.Producer()
			topic := s.Topic(1)
			p.add(topic, 0)
			p.end(olderEnd, true)
			s.Do("answer", p.addRequest(topic, 0))
			p.tell("then")
		}),
		{Name: "Transactions/add-many", Key: k, Min: 4, All: true, Play: func(s *Script) {
			p := s.Producer()
			topic := s.Topic(2)
			s.Do("verify nothing open", many(p, true, topic, 0))
			s.Do("add", many(p, false, topic, 0))
			s.Do("verify", many(p, true, topic, 0))
			s.Do("verify other", many(p, true, topic, 0, 1))
			s.Do("verify epoch lower", many(p.stale(-1), true, topic, 0))
			s.Do("add epoch lower", many(p.stale(-1), false, topic, 0))
			s.Do("add unknown topic", many(p, false, s.Name(""), 0))
			other := *p
			other.id = s.Name("-x")
			s.Do("verify unknown id", many(&other, true, topic, 0))
			p.tell("then")
		}},
	}
}

func addOffsetsCases() []Case {
	const k = kmsg.AddOffsetsToTxn
	type request = kmsg.AddOffsetsToTxnRequest
	one := func(name string, change func(p *producer, r *request)) Case {
		return Case{Name: "Transactions/offsets-" + name, Key: k, All: true, Play: func(s *Script) {
			p := s.Producer()
			s.groups()
			req := kmsg.NewPtrAddOffsetsToTxnRequest()
			req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = p.id, p.pid, p.epoch, s.Name("-g")
			change(p, req)
			s.Do("answer", req)
			s.Do("again", req)
			p.tell("then")
		}}
	}
	return []Case{
		one("added", func(*producer, *request) {}),
		one("empty-group", func(_ *producer, r *request) { r.Group = "" }),
		one("unknown-transactional-id", func(p *producer, r *request) { r.TransactionalID = p.s.Name("-x") }),
		one("empty-transactional-id", func(_ *producer, r *request) { r.TransactionalID = "" }),
		one("other-producer-id", func(_ *producer, r *request) { r.ProducerID += 1000000 }),
		one("epoch-lower", func(_ *producer, r *request) { r.ProducerEpoch-- }),
		one("epoch-higher", func(_ *producer, r *request) { r.ProducerEpoch++ }),
	}
}

// groups waits until there is a coordinator for groups: Kafka makes a topic at the first question.
func (s *Script) groups() {
	s.eventually("there is a group coordinator", func() bool {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKey = "a"
		if s.prepare(3, req).(*kmsg.FindCoordinatorResponse).ErrorCode != 0 {
			return false
		}
		fetch := kmsg.NewPtrOffsetFetchRequest()
		fetch.Group = "a"
		code := s.prepare(7, fetch).(*kmsg.OffsetFetchResponse).ErrorCode
		return code == 0
	})
}

func endCases() []Case {
	const k = kmsg.EndTxn
	c := func(name string, play func(s *Script)) Case {
		return Case{Name: "Transactions/end-" + name, Key: k, All: true, Play: play}
	}
	name := func(commit bool) string {
		if commit {
			return "commit"
		}
		return "abort"
	}
	// begin opens a transaction by the protocol of the version under test.
	begin := func(p *producer, topic string) {
		if p.s.V < newerEnd {
			p.add(topic, 0)
			p.writeAdded(topic, 0, 0, "a", "b")
			return
		}
		p.write(topic, 0, 0, "a", "b")
	}
	var cases []Case
	type request = kmsg.EndTxnRequest
	for _, commit := range []bool{true, false} {
		cases = append(cases,
			c(name(commit)+"-empty", func(s *Script) {
				p := s.Producer()
				s.Do("answer", p.endRequest(commit))
				p.settle()
				p.tell("then")
			}),
			c(name(commit)+"-empty-with-the-epoch-before", func(s *Script) {
				p := s.Producer()
				p.init()
				s.Do("answer", p.stale(-1).endRequest(commit))
				p.tell("then")
			}),
			c(name(commit), func(s *Script) {
				p := s.Producer()
				topic := s.Topic(1)
				begin(p, topic)
				s.ends("open", topic, 0)
				s.Do("answer", p.endRequest(commit))
				p.settle()
				p.tell("then")
				s.stable("look", topic, 0, 0)
				s.Do("again", p.endRequest(commit))
				s.Do("otherwise", p.endRequest(!commit))
				p.tell("at last")
				s.ends("at last", topic, 0)
			}),
			c(name(commit)+"-with-the-epoch-after-it", func(s *Script) {
				p := s.Producer()
				topic := s.Topic(1)
				begin(p, topic)
				p.end(s.V, commit)
				s.Do("commit", p.endRequest(true))
				p.settle()
				p.tell("then")
				s.Do("abort", p.endRequest(false))
				p.settle()
				p.tell("at last")
				s.ends("at last", topic, 0)
			}),
			c(name(commit)+"-open-with-the-epoch-before", func(s *Script) {
				p := s.Producer()
				p.init()
				begin(p, s.Topic(1))
				s.Do("answer", p.stale(-1).endRequest(commit))
				p.tell("then")
			}),
			c(name(commit)+"-open-with-the-epoch-after", func(s *Script) {
				p := s.Producer()
				begin(p, s.Topic(1))
				s.Do("answer", p.stale(1).endRequest(commit))
				p.tell("then")
			}),
			c(name(commit)+"-without-records", func(s *Script) {
				p := s.Producer()
				topic := s.Topic(2)
				p.add(topic, 0, 1)
				s.Do("answer", p.endRequest(commit))
				p.settle()
				p.tell("then")
				s.Look("look", topic, 1, 0)
				s.stable("look committed", topic, 0, 0)
			}),
		)
	}
	one := func(name string, change func(p *producer, r *request)) Case {
		return c(name, func(s *Script) {
			p := s.Producer()
			begin(p, s.Topic(1))
			req := p.endRequest(true)
			change(p, req)
			s.Do("answer", req)
			p.tell("then")
		})
	}
	return append(cases,
		one("unknown-transactional-id", func(p *producer, r *request) { r.TransactionalID = p.s.Name("-x") }),
		one("empty-transactional-id", func(_ *producer, r *request) { r.TransactionalID = "" }),
		one("other-producer-id", func(_ *producer, r *request) { r.ProducerID += 1000000 }),
		one("epoch-negative", func(_ *producer, r *request) { r.ProducerEpoch = -1 }),
		c("topic-deleted", func(s *Script) {
			p := s.Producer()
			gone, kept := s.Topic(1), s.Topic(1)
			if s.V < newerEnd {
				p.add(gone, 0)
				p.add(kept, 0)
				p.writeAdded(gone, 0, 0, "a")
				p.writeAdded(kept, 0, 0, "a")
			} else {
				p.write(gone, 0, 0, "a")
				p.write(kept, 0, 0, "a")
			}
			del := kmsg.NewPtrDeleteTopicsRequest()
			del.TopicNames, del.TimeoutMillis = []string{gone}, 10000
			s.prepare(5, del)
			s.eventually("the topic is gone", func() bool { return s.TopicID(gone) == [16]byte{} })
			s.Do("answer", p.endRequest(true))
			p.settle()
			p.tell("then")
			s.stable("look", kept, 0, 0)
		}),
	)
}
