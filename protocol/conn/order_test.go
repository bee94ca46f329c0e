package conn

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/sluicemq/sluice/protocol"
)

// plan says what the handler does with a request: it takes its order from the
// throttle time that the test put into the answer it expects.
type plan struct {
	pipelined bool
	firstMs   int  // how long the first stage takes
	delayMs   int  // how long the response takes; 0 is at once
	none      bool // no response at all
	frame     bool // the handler encodes the body itself
	size      int  // bytes of padding
}

// serve returns the Pending that a plan asks for, and calls resolved when it is.
func (p plan) serve(resp kmsg.Response, released *atomic.Int64, resolved func()) protocol.Pending {
	response := protocol.Response{Message: resp, None: p.none}
	if p.none {
		response.Message = nil
	} else if p.frame {
		body := resp.AppendTo(nil)
		half := len(body) / 2
		response = protocol.Response{Frame: net.Buffers{body[:half], body[half:]}}
	}
	response.Release = func() { released.Add(1) }
	time.Sleep(time.Duration(p.firstMs) * time.Millisecond)
	if p.delayMs == 0 {
		resolved()
		return protocol.Ready(response)
	}
	promise := protocol.NewPromise()
	time.AfterFunc(time.Duration(p.delayMs)*time.Millisecond, func() {
		resolved()
		promise.Resolve(response)
	})
	return promise
}

func TestResponsesLeaveInTheOrderOfRequests(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var plans []plan
		for range rapid.IntRange(1, 100).Draw(rt, "requests") {
			p := plan{
				pipelined: rapid.Bool().Draw(rt, "pipelined"),
				firstMs:   rapid.SampledFrom([]int{0, 0, 0, 3}).Draw(rt, "first"),
				delayMs:   rapid.SampledFrom([]int{0, 0, 1, 5, 20}).Draw(rt, "delay"),
				frame:     rapid.Bool().Draw(rt, "frame"),
				size:      rapid.SampledFrom([]int{0, 10, 10_000}).Draw(rt, "size"),
			}
			if rapid.IntRange(0, 50).Draw(rt, "large") == 50 {
				p.size = 2_000_000
			}
			p.none = p.pipelined && rapid.IntRange(0, 3).Draw(rt, "none") == 0
			plans = append(plans, p)
		}
		maxPending, chunk := rapid.IntRange(1, 70).Draw(rt, "pending"), rapid.IntRange(1, 9000).Draw(rt, "chunk")
		failed := true
		synctest.Test(t, func(t *testing.T) {
			defer func() { failed = t.Failed() }()
			checkOrder(t, plans, maxPending, chunk)
		})
		if failed {
			rt.Fatal("see above")
		}
	})
}

func checkOrder(t *testing.T, plans []plan, maxPending, chunk int) {
	var (
		released atomic.Int64
		pending  atomic.Int64
		alone    atomic.Bool // a request that is not pipelined waits
		handled  int32       // correlation id that is handled next
	)
	handle := func(_ context.Context, c *protocol.Call) protocol.Pending {
		if c.CorrelationID != handled {
			t.Errorf("request %d is handled before %d", c.CorrelationID, handled)
		}
		handled++
		if alone.Load() {
			t.Errorf("request %d is handled while one before it has to be finished first", c.CorrelationID)
		}
		if n := pending.Add(1); n > int64(maxPending)+1 {
			t.Errorf("%d requests are pending, want at most %d", n, maxPending)
		}
		p := plans[c.CorrelationID]
		alone.Store(!p.pipelined)
		resp := c.Request.ResponseKind()
		switch r := resp.(type) {
		case *kmsg.ProduceResponse:
			topic := kmsg.NewProduceResponseTopic()
			topic.Topic = string(make([]byte, min(p.size, 1<<15-1)))
			r.Topics = append(r.Topics, topic)
		case *kmsg.SyncGroupResponse:
			r.MemberAssignment = make([]byte, p.size)
		}
		inner := p.serve(resp, &released, func() { alone.Store(false) })
		return &watched{Pending: inner, taken: func() { pending.Add(-1) }}
	}
	s := open(t, Options{Listeners: noListeners, MaxPending: maxPending})
	routes, err := protocol.NewRoutes([]protocol.Route{
		routeOf(protocol.Produce, handle), routeOf(protocol.SyncGroup, handle), versions()})
	if err != nil {
		t.Fatal(err)
	}
	s.Serve(routes)
	c := s.pipe(t)

	requests := make([]kmsg.Request, len(plans))
	var stream []byte
	for i, p := range plans {
		if p.pipelined {
			requests[i] = produce(3, 10)
		} else {
			requests[i] = of(protocol.SyncGroup, 5)
		}
		stream = append(stream, request(int32(i), requests[i])...)
	}
	go func() {
		for len(stream) > 0 {
			n := min(chunk, len(stream))
			if _, err := c.c.Write(stream[:n]); err != nil {
				return
			}
			stream = stream[n:]
		}
	}()
	for i, p := range plans {
		if !p.none {
			c.answer(int32(i), requests[i])
		}
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	// The last requests may be without a response, and then the server may stop
	// before it has read them.
	if n := released.Load(); n != int64(handled) {
		t.Errorf("%d responses were released, want %d", n, handled)
	}
	if lines := s.refusals(); len(lines) > 0 {
		t.Error(lines)
	}
}

// watched calls taken when its response is taken.
type watched struct {
	protocol.Pending
	taken func()
}

func (w *watched) Response() protocol.Response {
	w.taken()
	return w.Pending.Response()
}

func TestReadyResponsesDoNotWaitForASlowFirstStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		s := start(t, Options{Listeners: noListeners},
			routeOf(protocol.Produce, func(ctx context.Context, c *protocol.Call) protocol.Pending {
				<-stuck
				return empty(ctx, c)
			}), routeOf(protocol.Metadata, empty), versions())
		c := s.pipe(t)
		c.send(append(request(1, of(protocol.Metadata, 9)), request(2, produce(9, 10))...))
		c.answer(1, of(protocol.Metadata, 9))
		close(stuck)
		c.answer(2, produce(9, 10))
	})
}

func TestClientThatGoesAwayCancelsWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cancelled := make(chan error, 1)
		s := start(t, Options{Listeners: noListeners},
			routeOf(protocol.Fetch, func(ctx context.Context, c *protocol.Call) protocol.Pending {
				p := protocol.NewPromise()
				context.AfterFunc(ctx, func() {
					cancelled <- ctx.Err()
					p.Resolve(protocol.Response{Close: ctx.Err()})
				})
				return p
			}), versions())
		c := s.pipe(t)
		c.send(request(1, of(protocol.Fetch, 12)))
		synctest.Wait()
		if n := s.Stats().Key(protocol.Fetch).InFlight.Load(); n != 1 {
			t.Errorf("%d requests in flight, want 1", n)
		}
		c.c.Close()
		if err := <-cancelled; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		synctest.Wait()
		if n := s.Stats().Open.Load(); n != 0 {
			t.Errorf("%d connections are open, want 0", n)
		}
	})
}
