package conn

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/protocol"
)

// answers is a handler that gives one and the same response to all, so that
// what is measured is the connection.
func answers(response protocol.Response) protocol.Handler {
	pending := protocol.Ready(response)
	return func(context.Context, *protocol.Call) protocol.Pending { return pending }
}

// ping sends a frame and reads the response, n times, with depth requests on
// the way.
func ping(t testing.TB, socket net.Conn, frame []byte, n, depth int) {
	in := bufio.NewReaderSize(socket, 64<<10)
	var ahead []byte
	for range depth {
		ahead = append(ahead, frame...)
	}
	for n > 0 {
		now := min(n, depth)
		if _, err := socket.Write(ahead[:now*len(frame)]); err != nil {
			t.Error(err)
			return
		}
		for range now {
			size, err := in.Peek(4)
			if err == nil {
				_, err = in.Discard(4 + int(binary.BigEndian.Uint32(size)))
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
		n -= now
	}
}

// TestRequestPathAllocatesLittle holds the ceiling: a small number of
// allocations and bytes for each request, whatever its size.
func TestRequestPathAllocatesLittle(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	fetch := kmsg.NewPtrFetchResponse()
	fetch.Version = 12
	s := start(t, Options{},
		routeOf(protocol.Produce, answers(protocol.Response{Message: kmsg.NewPtrProduceResponse()})),
		routeOf(protocol.Fetch, answers(protocol.Response{Frame: net.Buffers{fetch.AppendTo(nil)}})),
		routeOf(protocol.Heartbeat, answers(protocol.Response{Message: kmsg.NewPtrHeartbeatResponse()})),
		versions())
	c := s.dial(t)
	for _, test := range []struct {
		name   string
		req    kmsg.Request
		allocs float64
		bytes  float64
	}{
		{"Heartbeat", of(protocol.Heartbeat, 4), 2, 600},
		{"Fetch", of(protocol.Fetch, 12), 2, 700},
		{"Produce of 100 bytes", produce(9, 100), 4, 800},
		{"Produce of 100 KiB", produce(9, 100<<10), 4, 800},
		{"Produce of 1 MiB", produce(9, 1<<20), 4, 800},
	} {
		frame := request(1, test.req)
		const n = 300
		ping(t, c.c, frame, n, 1) // fills the pools
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		ping(t, c.c, frame, n, 1)
		runtime.ReadMemStats(&after)
		allocs := float64(after.Mallocs-before.Mallocs) / n
		bytes := float64(after.TotalAlloc-before.TotalAlloc) / n
		t.Logf("%s: %.1f allocations, %.0f bytes", test.name, allocs, bytes)
		// The client's own buffer of 64 KiB, and a pooled buffer that a collection took
		// away meanwhile, are in it.
		if allocs > test.allocs+0.5 || bytes > test.bytes+(64<<10+4<<20)/n {
			t.Errorf("%s: %.1f allocations and %.0f bytes for a request", test.name, allocs, bytes)
		}
	}
}

// BenchmarkRoundTrips measures requests over loopback, with the client in the
// same process: depth is how many requests a client sends ahead.
func BenchmarkRoundTrips(b *testing.B) {
	for _, clients := range []int{1, 16, 256} {
		for _, depth := range []int{1, 16} {
			b.Run(fmt.Sprintf("clients=%d/depth=%d", clients, depth), func(b *testing.B) {
				s := start(b, Options{}, routeOf(protocol.Heartbeat, answers(protocol.Response{Message: kmsg.NewPtrHeartbeatResponse()})), versions())
				run(b, s, clients, depth, request(1, of(protocol.Heartbeat, 4)))
			})
		}
	}
}

// BenchmarkPending measures responses that another goroutine resolves, several
// at a time, as a log does that writes in groups.
func BenchmarkPending(b *testing.B) {
	for _, clients := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("clients=%d/depth=5", clients), func(b *testing.B) {
			backlog := make(chan *protocol.Promise, 10_000)
			defer close(backlog)
			go func() {
				for p := range backlog {
					p.Resolve(protocol.Response{Message: kmsg.NewPtrProduceResponse()})
				}
			}()
			s := start(b, Options{}, routeOf(protocol.Produce, func(context.Context, *protocol.Call) protocol.Pending {
				p := protocol.NewPromise()
				backlog <- p
				return p
			}), versions())
			run(b, s, clients, 5, request(1, produce(9, 200)))
		})
	}
}

// BenchmarkProduce measures requests with a payload, answered at once.
func BenchmarkProduce(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, 256 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			s := start(b, Options{}, routeOf(protocol.Produce, answers(protocol.Response{Message: kmsg.NewPtrProduceResponse()})), versions())
			b.SetBytes(int64(size))
			run(b, s, 8, 5, request(1, produce(9, size)))
		})
	}
}

// BenchmarkFetch measures responses with a payload.
func BenchmarkFetch(b *testing.B) {
	for _, size := range []int{16 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			s := start(b, Options{}, routeOf(protocol.Fetch, answers(protocol.Response{Frame: net.Buffers{make([]byte, 60), make([]byte, size)}})), versions())
			b.SetBytes(int64(size))
			run(b, s, 8, 1, request(1, of(protocol.Fetch, 12)))
		})
	}
}

func run(b *testing.B, s *served, clients, depth int, frame []byte) {
	b.ReportAllocs()
	var all sync.WaitGroup
	for i := range clients {
		n := b.N / clients
		if i < b.N%clients {
			n++
		}
		c := s.dial(b)
		all.Go(func() {
			ping(b, c.c, frame, n, depth)
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}
