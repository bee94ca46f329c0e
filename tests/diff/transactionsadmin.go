package diff

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// describeTransactionsCases ask what an operator is told of transactions.
func describeTransactionsCases() []Case {
	request := func(ids ...string) *kmsg.DescribeTransactionsRequest {
		req := kmsg.NewPtrDescribeTransactionsRequest()
		req.TransactionalIDs = ids
		return req
	}
	c := func(name string, play func(s *Script)) Case {
		return Case{Name: "Transactions/describe-" + name, Key: kmsg.DescribeTransactions, Play: play}
	}
	// ask records an answer, but for the time at which the transaction began.
	ask := func(s *Script, label string, req *kmsg.DescribeTransactionsRequest) {
		resp, ok := s.Hidden(label, req).(*kmsg.DescribeTransactionsResponse)
		if !ok {
			return
		}
		for i := range resp.TransactionStates {
			x := &resp.TransactionStates[i]
			s.Note(fmt.Sprintf("%s.start[%d]", label, i), s.when(x.StartTimestamp))
			x.StartTimestamp = 0
			for j := range x.Topics {
				slices.Sort(x.Topics[j].Partitions) // in no order
			}
		}
		s.Record(label, resp)
	}
	return []Case{
		c("each-state", func(s *Script) {
			p := s.Producer()
			topic := s.Topic(3)
			ask(s, "empty", request(p.id))
			p.write(topic, 2, 0, "a")
			p.write(topic, 0, 0, "a")
			ask(s, "open", request(p.id))
			p.end(newerEnd, true)
			ask(s, "committed", request(p.id))
			p.write(topic, 0, 0, "a")
			p.end(newerEnd, false)
			ask(s, "aborted", request(p.id))
		}),
		c("unknown", func(s *Script) {
			s.Producer()
			ask(s, "answer", request(s.Name("-x")))
		}),
		c("empty-id", func(s *Script) {
			s.Producer()
			ask(s, "answer", request(""))
		}),
		c("nothing", func(s *Script) { ask(s, "answer", request()) }),
		c("several", func(s *Script) {
			p, q := s.Producer(), s.Producer()
			ask(s, "answer", request(p.id, s.Name("-x"), q.id, p.id))
		}),
		c("two-topics", func(s *Script) {
			p := s.Producer()
			a, b := s.Topic(1), s.Topic(1)
			p.write(a, 0, 0, "a")
			p.write(b, 0, 0, "b")
			ask(s, "answer", request(p.id))
		}),
		c("timed-out", func(s *Script) {
			p := s.Producer()
			topic := s.Topic(1)
			req := p.initRequest()
			req.TransactionTimeoutMillis = 300
			resp := s.prepare(3, req).(*kmsg.InitProducerIDResponse)
			p.pid, p.epoch = resp.ProducerID, resp.ProducerEpoch
			p.write(topic, 0, 0, "a")
			s.eventually("the transaction times out", func() bool {
				states := s.prepare(0, request(p.id)).(*kmsg.DescribeTransactionsResponse).TransactionStates
				return states[0].State == "CompleteAbort"
			})
			ask(s, "answer", request(p.id))
			s.stable("look", topic, 0, 0)
			s.outcome(newerProduce, "produce", p.produceRequest(topic, 0, p.batch(1, "b")))
			s.outcome(olderProduce, "produce by the older protocol", p.produceRequest(topic, 0, p.batch(1, "b")))
			s.At(newerEnd, "end", p.endRequest(true))
			s.At(olderEnd, "end by the older protocol", p.endRequest(false))
			own := p.initRequest()
			own.ProducerID, own.ProducerEpoch = p.pid, p.epoch
			s.At(4, "resume", own)
		}),
	}
}

func listTransactionsCases() []Case {
	const k = kmsg.ListTransactions
	// list records what is listed of the script's own producers.
	list := func(s *Script, label string, own []*producer, req *kmsg.ListTransactionsRequest) {
		resp, ok := s.Hidden(label, req).(*kmsg.ListTransactionsResponse)
		if !ok {
			return
		}
		var mine []kmsg.ListTransactionsResponseTransactionState
		for _, p := range own {
			for _, x := range resp.TransactionStates {
				if x.TransactionalID == p.id {
					mine = append(mine, x)
				}
			}
		}
		resp.TransactionStates = mine
		s.Record(label, resp)
	}
	c := func(name string, lo int16, play func(s *Script, own []*producer)) Case {
		return Case{Name: "Transactions/list-" + name, Key: k, Min: lo, All: true, Play: func(s *Script) {
			empty, open, committed := s.Producer(), s.Producer(), s.Producer()
			topic := s.Topic(1)
			open.write(topic, 0, 0, "a")
			committed.write(topic, 0, 0, "a")
			committed.end(newerEnd, true)
			play(s, []*producer{empty, open, committed})
		}}
	}
	one := func(name string, lo int16, change func(own []*producer, r *kmsg.ListTransactionsRequest)) Case {
		return c(name, lo, func(s *Script, own []*producer) {
			req := kmsg.NewPtrListTransactionsRequest()
			change(own, req)
			list(s, "answer", own, req)
		})
	}
	type request = kmsg.ListTransactionsRequest
	pattern := func(p string) func([]*producer, *request) {
		return func(_ []*producer, r *request) { r.TransactionalIDPattern = &p }
	}
	return []Case{
		one("all", 0, func([]*producer, *request) {}),
		one("by-state", 0, func(_ []*producer, r *request) { r.StateFilters = []string{"Ongoing", "Empty"} }),
		one("by-state-in-other-letters", 0, func(_ []*producer, r *request) { r.StateFilters = []string{"ongoing"} }),
		one("by-unknown-state", 0, func(_ []*producer, r *request) { r.StateFilters = []string{"Nonsense", "Ongoing"} }),
		one("by-unknown-state-alone", 0, func(_ []*producer, r *request) { r.StateFilters = []string{"Nonsense"} }),
		one("by-dead-state", 0, func(_ []*producer, r *request) { r.StateFilters = []string{"Dead", "PrepareEpochFence"} }),
		one("by-producer-id", 0, func(own []*producer, r *request) { r.ProducerIDFilters = []int64{own[2].pid, own[0].pid} }),
		one("by-producer-id-and-state", 0, func(own []*producer, r *request) {
			r.ProducerIDFilters, r.StateFilters = []int64{own[1].pid, own[0].pid}, []string{"Empty"}
		}),
		one("by-duration", 1, func(_ []*producer, r *request) { r.DurationFilterMillis = 600000 }),
		one("by-duration-zero", 1, func(_ []*producer, r *request) { r.DurationFilterMillis = 0 }),
		c("by-small-duration", 1, func(s *Script, own []*producer) {
			<-time.After(20 * time.Millisecond)
			req := kmsg.NewPtrListTransactionsRequest()
			req.DurationFilterMillis = 5
			list(s, "answer", own, req)
		}),
		one("by-pattern", 2, func(own []*producer, r *request) { r.TransactionalIDPattern = ptr(own[0].id[:6] + ".*") }),
		one("by-pattern-of-a-part", 2, func(own []*producer, r *request) { r.TransactionalIDPattern = ptr(own[0].id[2:6]) }),
		one("by-pattern-empty", 2, pattern("")), one("by-pattern-malformed", 2, pattern("(")),
		one("by-pattern-of-none", 2, pattern("no-such-id")),
	}
}

func describeProducersCases() []Case {
	request := func(topic string, partitions ...int32) *kmsg.DescribeProducersRequest {
		req := kmsg.NewPtrDescribeProducersRequest()
		t := kmsg.NewDescribeProducersRequestTopic()
		t.Topic, t.Partitions = topic, partitions
		req.Topics = append(req.Topics, t)
		return req
	}
	c := func(name string, play func(s *Script)) Case {
		return Case{Name: "Transactions/producers-" + name, Key: kmsg.DescribeProducers, Play: play}
	}
	ask := func(s *Script, label string, req *kmsg.DescribeProducersRequest) {
		resp, ok := s.Hidden(label, req).(*kmsg.DescribeProducersResponse)
		if !ok {
			return
		}
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				producers := resp.Topics[i].Partitions[j].ActiveProducers
				for n := range producers {
					s.Note(fmt.Sprintf("%s.time[%d]", label, n), s.when(producers[n].LastTimestamp))
					producers[n].LastTimestamp = 0
				}
			}
		}
		s.Record(label, resp)
	}
	return []Case{
		c("none", func(s *Script) { ask(s, "answer", request(s.Topic(1), 0)) }),
		c("unknown-topic", func(s *Script) { ask(s, "answer", request(s.Name(""), 0)) }),
		c("bad-topic-name", func(s *Script) { ask(s, "answer", request(s.Name("!"), 0)) }),
		c("unknown-partition", func(s *Script) { ask(s, "answer", request(s.Topic(1), 0, 9)) }),
		c("nothing", func(s *Script) {
			req := request("")
			req.Topics = nil
			ask(s, "answer", req)
		}),
		c("idempotent", func(s *Script) {
			topic := s.Topic(1)
			s.Fill(topic, 0, plain(s.t0, "a", "b").of(700000, 2, 0))
			ask(s, "answer", request(topic, 0))
		}),
		c("transactional", func(s *Script) {
			p := s.Producer()
			topic := s.Topic(1)
			s.Fill(topic, 0, plain(s.t0, "x"))
			p.write(topic, 0, 0, "a", "b")
			ask(s, "open", request(topic, 0))
			p.write(topic, 0, 2, "c")
			ask(s, "open further", request(topic, 0))
			p.end(newerEnd, true)
			ask(s, "ended", request(topic, 0))
			p.write(topic, 0, 0, "d")
			ask(s, "open again", request(topic, 0))
		}),
		c("transactional-by-the-older-protocol", func(s *Script) {
			p := s.Producer()
			topic := s.Topic(1)
			p.add(topic, 0)
			ask(s, "added", request(topic, 0))
			p.writeAdded(topic, 0, 0, "a", "b")
			ask(s, "open", request(topic, 0))
			p.end(olderEnd, false)
			ask(s, "ended", request(topic, 0))
		}),
		c("without-records", func(s *Script) {
			p := s.Producer()
			topic := s.Topic(1)
			p.add(topic, 0)
			p.end(olderEnd, true)
			ask(s, "ended", request(topic, 0))
		}),
	}
}

func writeTxnMarkersCases() []Case {
	const k = kmsg.WriteTxnMarkers
	type marker = kmsg.WriteTxnMarkersRequestMarker
	request := func(p *producer, commit bool, topic string, partitions ...int32) *kmsg.WriteTxnMarkersRequest {
		req := kmsg.NewPtrWriteTxnMarkersRequest()
		m := kmsg.NewWriteTxnMarkersRequestMarker()
		m.ProducerID, m.ProducerEpoch, m.Committed = p.pid, p.epoch, commit
		t := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
		t.Topic, t.Partitions = topic, partitions
		m.Topics = append(m.Topics, t)
		req.Markers = append(req.Markers, m)
		return req
	}
	// one changes a good marker for an open transaction.
	one := func(name string, commit bool, change func(p *producer, m *marker)) Case {
		return Case{Name: "Transactions/markers-" + name, Key: k, All: true, Play: func(s *Script) {
			p := s.Producer()
			p.init()
			topic := s.Topic(2)
			s.Fill(topic, 0, plain(s.t0, "x"))
			p.write(topic, 0, 0, "a", "b")
			req := request(p, commit, topic, 0)
			change(p, &req.Markers[0])
			s.Do("answer", req)
			s.stable("look", topic, 0, 0)
			s.ends("then", topic, 0)
			p.tell("then")
		}}
	}
	return []Case{
		one("abort", false, func(*producer, *marker) {}),
		one("commit", true, func(*producer, *marker) {}),
		one("epoch-lower", false, func(_ *producer, m *marker) { m.ProducerEpoch-- }),
		one("epoch-negative", false, func(_ *producer, m *marker) { m.ProducerEpoch = -1 }),
		one("epoch-higher", false, func(_ *producer, m *marker) { m.ProducerEpoch++ }),
		one("newer-protocol", false, func(_ *producer, m *marker) { m.TransactionVersion = 2 }),
		one("newer-protocol-epoch-higher", false, func(_ *producer, m *marker) { m.TransactionVersion, m.ProducerEpoch = 2, m.ProducerEpoch+1 }),
		one("unknown-producer", false, func(_ *producer, m *marker) { m.ProducerID += 1000000 }),
		one("coordinator-epoch", false, func(_ *producer, m *marker) { m.CoordinatorEpoch = 5 }),
		one("coordinator-epoch-negative", false, func(_ *producer, m *marker) { m.CoordinatorEpoch = -1 }),
		one("unknown-topic", false, func(p *producer, m *marker) { m.Topics[0].Topic = p.s.Name("") }),
		one("unknown-partition", false, func(_ *producer, m *marker) { m.Topics[0].Partitions = []int32{0, 9} }),
		one("nothing", false, func(_ *producer, m *marker) { m.Topics = nil }),
		{Name: "Transactions/markers-then-the-end", Key: k, All: true, Play: func(s *Script) {
			p := s.Producer()
			topic := s.Topic(1)
			p.write(topic, 0, 0, "a")
			s.Do("answer", request(p, false, topic, 0))
			s.Do("again", request(p, false, topic, 0))
			s.outcome(newerProduce, "produce", p.produceRequest(topic, 0, p.batch(1, "b")))
			s.ends("open again", topic, 0)
			p.end(newerEnd, true)
			s.stable("look", topic, 0, 0)
		}},
	}
}
