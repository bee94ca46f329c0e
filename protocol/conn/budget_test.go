package conn

import (
	"context"
	"encoding/binary"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/sluicemq/sluice/protocol"
)

// TestBudgetIsKeptAndNobodyStarves runs random requests through a budget, each
// of which grows in steps up to its size and is then given back, and checks
// after every move: the sum is right, the limit is kept by all but one, whoever
// can be granted is, and in the end everybody got everything.
func TestBudgetIsKeptAndNobodyStarves(t *testing.T) {
	type request struct {
		r     reservation
		steps []int64
		wait  *waiter
	}
	rapid.Check(t, func(t *rapid.T) {
		b := &budget{limit: 100}
		var open []*request
		todo := rapid.IntRange(1, 40).Draw(t, "requests")
		check := func() {
			var counted int64
			for _, q := range open {
				if &q.r != b.past {
					counted += q.r.held
					if q.r.held > b.limit/2 {
						t.Fatalf("%d is counted", q.r.held)
					}
				}
			}
			if counted != b.used || counted > b.limit {
				t.Fatalf("%d is used, %d counted, limit %d", counted, b.used, b.limit)
			}
			if len(b.waiting) > 0 && b.past == nil {
				t.Fatal("the oldest waits, and nobody is past the limit")
			}
			for _, w := range b.waiting {
				if w.total <= b.limit/2 && b.used+w.total-w.r.held <= b.limit {
					t.Fatalf("%d of %d waits with %d in use", w.total, w.r.held, b.used)
				}
			}
		}
		for todo > 0 || len(open) > 0 {
			if todo > 0 && (len(open) == 0 || rapid.Bool().Draw(t, "new")) {
				todo--
				q := &request{}
				var total int64
				for range rapid.IntRange(1, 4).Draw(t, "steps") {
					total += rapid.Int64Range(1, 90).Draw(t, "step")
					q.steps = append(q.steps, total)
				}
				open = append(open, q)
				continue
			}
			// One that does not wait goes on. There is one, or there is a deadlock.
			var ready []int
			for i, q := range open {
				if q.wait == nil {
					ready = append(ready, i)
					continue
				}
				select {
				case <-q.wait.granted:
					ready = append(ready, i)
				default:
				}
			}
			if len(ready) == 0 {
				t.Fatal("all wait")
			}
			i := rapid.SampledFrom(ready).Draw(t, "who")
			q := open[i]
			if q.wait != nil {
				if q.r.held != q.wait.total {
					t.Fatalf("granted %d, want %d", q.r.held, q.wait.total)
				}
				q.wait = nil
			}
			switch {
			case len(q.steps) > 0 && rapid.IntRange(0, 9).Draw(t, "goes on") > 0:
				q.wait = b.reserve(&q.r, q.steps[0])
				q.steps = q.steps[1:]
				if q.wait != nil && rapid.IntRange(0, 9).Draw(t, "gives up") == 0 {
					b.giveUp(q.wait)
					q.wait, q.steps = nil, nil
				}
			default:
				b.set(&q.r, 0)
				open = append(open[:i], open[i+1:]...)
			}
			check()
		}
		if b.used != 0 || b.past != nil || len(b.waiting) != 0 {
			t.Fatalf("%d are used in the end", b.used)
		}
	})
}

func TestAnnouncingALargeFrameCostsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{Listeners: noListeners}, routeOf(protocol.Produce, empty), versions())
		frame := request(1, produce(9, 40<<20))
		for _, test := range []struct{ sent, most int }{
			{100, 0},
			{9_000, firstBuffer},
			{300_000, 1 << 20},
			{5 << 20, 16 << 20},
		} {
			c := s.pipe(t)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			c.send(frame[:test.sent])
			synctest.Wait()
			runtime.ReadMemStats(&after)
			counted, past := s.QueuedBytes()
			if held := counted + past; held > int64(test.most) {
				t.Errorf("%d bytes are reserved after %d arrived, want %d at most", held, test.sent, test.most)
			}
			// All buffers on the way and the read buffer.
			if got, most := int(after.TotalAlloc-before.TotalAlloc), 4*test.most/3+64<<10; got > most {
				t.Errorf("%d bytes are allocated after %d arrived, want %d at most", got, test.sent, most)
			}
			c.c.Close()
			synctest.Wait()
			if counted, past := s.QueuedBytes(); counted+past != 0 {
				t.Errorf("%d bytes stay reserved", counted+past)
			}
		}
	})
}

func TestConnectionsWaitForTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, mayWait = 8, 6
		handled := make(chan *protocol.Promise, clients)
		s := start(t, Options{Listeners: noListeners, QueuedBytes: 1 << 20},
			routeOf(protocol.Produce, func(context.Context, *protocol.Call) protocol.Pending {
				p := protocol.NewPromise()
				handled <- p
				return p
			}), versions())
		req := produce(9, 300<<10)
		var open []*client
		for range clients {
			c := s.pipe(t)
			go c.c.Write(request(1, req))
			open = append(open, c)
		}
		synctest.Wait()
		// Some fit, and one is past the limit; of the others there are first parts.
		if n := len(handled); n < 2 || n > clients-mayWait+2 {
			t.Errorf("%d are handled", n)
		}
		// A connection without large requests does not notice.
		c := s.pipe(t)
		c.send(request(1, of(protocol.ApiVersions, 3)))
		c.answer(1, of(protocol.ApiVersions, 3))
		// One that waits, and one that is handled, may go away.
		open[clients-1].c.Close()
		open[0].c.Close()
		synctest.Wait()
		go func() {
			for p := range handled {
				p.Resolve(protocol.Response{Message: kmsg.NewPtrProduceResponse()})
			}
		}()
		for _, c := range open[1 : clients-1] {
			c.answer(1, req)
		}
		synctest.Wait()
		close(handled)
	})
}

func TestBytesOfAProduceLiveUntilTheyAreReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var call *protocol.Call
		s := start(t, Options{Listeners: noListeners},
			routeOf(protocol.Produce, func(ctx context.Context, c *protocol.Call) protocol.Pending {
				if call == nil {
					call = c
					c.Retain()
				}
				return empty(ctx, c)
			}), versions())
		c := s.pipe(t)
		first := produce(9, 5000)
		copy(first.Topics[0].Partitions[0].Records, "keep me")
		c.send(request(1, first))
		c.answer(1, first)
		for id := range int32(10) {
			c.send(request(id, produce(9, 5000)))
			c.answer(id, first)
		}
		synctest.Wait()
		got := call.Request.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records
		if string(got[:7]) != "keep me" {
			t.Error("bytes that are retained were used again")
		}
		if n, _ := s.QueuedBytes(); n < 5000 {
			t.Errorf("%d bytes are reserved", n)
		}
		call.Release()
		if n, _ := s.QueuedBytes(); n != 0 {
			t.Errorf("%d bytes are reserved", n)
		}
	})
}

func TestBytesOfOtherRequestsStayWithTheHandler(t *testing.T) {
	for _, size := range []int{100, 50_000} {
		synctest.Test(t, func(t *testing.T) {
			var kept [][]byte
			s := start(t, Options{Listeners: noListeners},
				routeOf(protocol.SyncGroup, func(ctx context.Context, c *protocol.Call) protocol.Pending {
					kept = append(kept, c.Request.(*kmsg.SyncGroupRequest).GroupAssignment[0].MemberAssignment)
					return empty(ctx, c)
				}), versions())
			c := s.pipe(t)
			for id := range int32(10) {
				req := kmsg.NewPtrSyncGroupRequest()
				assignment := kmsg.NewSyncGroupRequestGroupAssignment()
				assignment.MemberAssignment = make([]byte, size)
				binary.BigEndian.PutUint32(assignment.MemberAssignment, uint32(id))
				req.GroupAssignment = append(req.GroupAssignment, assignment)
				c.send(request(id, req))
				c.answer(id, req)
			}
			for i, b := range kept {
				if binary.BigEndian.Uint32(b) != uint32(i) {
					t.Errorf("bytes of request %d were used again", i)
				}
			}
		})
	}
}

func TestLargeRequestsCountWhileTheyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := protocol.NewPromise()
		s := start(t, Options{Listeners: noListeners},
			routeOf(protocol.Fetch, func(context.Context, *protocol.Call) protocol.Pending { return p }), versions())
		req := kmsg.NewPtrFetchRequest()
		req.Version = 12
		topic := kmsg.NewFetchRequestTopic()
		topic.Topic = "topic"
		for range 50_000 {
			topic.Partitions = append(topic.Partitions, kmsg.NewFetchRequestTopicPartition())
		}
		req.Topics = append(req.Topics, topic)
		frame := request(1, req)
		c := s.pipe(t)
		c.send(frame)
		synctest.Wait()
		n, _ := s.QueuedBytes()
		if n < int64(len(frame)) || n > int64(4*len(frame)) {
			t.Errorf("%d bytes are reserved for a frame of %d", n, len(frame))
		}
		p.Resolve(protocol.Response{Message: req.ResponseKind()})
		c.answer(1, req)
	})
}
