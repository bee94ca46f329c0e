package conn

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/protocol"
)

// ends waits for the end of the connection and returns how long that took.
func (c *client) ends() time.Duration {
	c.t.Helper()
	began := time.Now()
	c.c.SetReadDeadline(began.Add(24 * time.Hour))
	if b, err := io.ReadAll(c.in); err != nil || len(b) > 0 {
		c.t.Fatalf("connection gives % x, %v, want its end", b, err)
	}
	return time.Since(began)
}

func TestIdleConnectionIsClosedAfterTheIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{Listeners: noListeners, IdleTimeout: time.Minute}, versions())
		c := s.pipe(t)
		for range 3 {
			time.Sleep(50 * time.Second)
			c.send(request(1, of(protocol.ApiVersions, 3)))
			c.answer(1, of(protocol.ApiVersions, 3))
		}
		if d := c.ends(); d != time.Minute {
			t.Errorf("closed after %v", d)
		}
		if lines := s.refusals(); len(lines) > 0 {
			t.Error(lines)
		}
	})
}

func TestConnectionThatWaitsForItsResponseIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{Listeners: noListeners, IdleTimeout: time.Minute},
			routeOf(protocol.JoinGroup, func(_ context.Context, c *protocol.Call) protocol.Pending {
				p := protocol.NewPromise()
				time.AfterFunc(5*time.Minute, func() { p.Resolve(protocol.Response{Message: c.Request.ResponseKind()}) })
				return p
			}), versions())
		c := s.pipe(t)
		began := time.Now()
		c.send(request(1, of(protocol.JoinGroup, 5)))
		c.c.SetReadDeadline(time.Now().Add(time.Hour))
		if _, err := c.in.Peek(1); err != nil {
			t.Fatal(err)
		}
		c.answer(1, of(protocol.JoinGroup, 5))
		if d := time.Since(began); d != 5*time.Minute {
			t.Errorf("answered after %v", d)
		}
		if d := c.ends(); d != time.Minute {
			t.Errorf("closed after %v", d)
		}
	})
}

func TestFrameThatDoesNotGoOnIsCut(t *testing.T) {
	small := request(1, of(protocol.ApiVersions, 3))
	large := request(1, produce(9, 5<<20))
	for name, test := range map[string]struct {
		frame []byte
		sent  int
	}{
		"size":       {small, 2},
		"header":     {small, 9},
		"body":       {small, len(small) - 1},
		"large":      {large, 9000},
		"very large": {large, 4 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := start(t, Options{Listeners: noListeners, FrameTimeout: time.Second},
					routeOf(protocol.Produce, empty), versions())
				c := s.pipe(t)
				c.send(test.frame[:test.sent])
				if d := c.ends(); d != time.Second {
					t.Errorf("closed after %v", d)
				}
				if lines := s.refusals(); len(lines) != 1 || !strings.HasPrefix(lines[0], "slow-request") {
					t.Error(lines)
				}
			})
		})
	}
}

func TestTricklingAFrameDoesNotKeepTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{Listeners: noListeners, FrameTimeout: time.Second}, versions())
		c := s.pipe(t)
		began := time.Now()
		for _, b := range request(1, of(protocol.ApiVersions, 3)) {
			if _, err := c.c.Write([]byte{b}); err != nil {
				break
			}
			time.Sleep(200 * time.Millisecond)
		}
		if d := time.Since(began); d > 1200*time.Millisecond {
			t.Errorf("closed after %v", d)
		}
		synctest.Wait()
		if n := s.Stats().Open.Load(); n != 0 {
			t.Errorf("%d connections are open", n)
		}
	})
}

func TestLargeFrameMayTakeItsTimeWhileItGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{Listeners: noListeners, FrameTimeout: time.Second},
			routeOf(protocol.Produce, empty), versions())
		c := s.pipe(t)
		req := produce(9, 5<<20)
		frame := request(1, req)
		for len(frame) > 0 {
			n := min(len(frame), 200<<10)
			c.send(frame[:n])
			frame = frame[n:]
			time.Sleep(150 * time.Millisecond)
		}
		c.answer(1, req)
	})
}

// blob serves Fetch with a body of the given size.
func blob(size int, released chan<- struct{}) protocol.Route {
	return routeOf(protocol.Fetch, func(_ context.Context, c *protocol.Call) protocol.Pending {
		body := make([]byte, size)
		return protocol.Ready(protocol.Response{
			Frame:   [][]byte{body[:size/2], body[size/2:]},
			Release: func() { released <- struct{}{} },
		})
	})
}

func TestClientThatDoesNotReadIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		released := make(chan struct{}, 10)
		s := start(t, Options{Listeners: noListeners, WriteTimeout: 7 * time.Second}, blob(1<<20, released), versions())
		c := s.pipe(t)
		began := time.Now()
		c.send(request(1, of(protocol.Fetch, 4)))
		<-released
		if d := time.Since(began); d != 7*time.Second {
			t.Errorf("cut after %v", d)
		}
		synctest.Wait()
		if n := s.Stats().Open.Load(); n != 0 {
			t.Errorf("%d connections are open", n)
		}
		if lines := s.refusals(); len(lines) != 1 || !strings.HasPrefix(lines[0], "slow-reader") {
			t.Error(lines)
		}
	})
}

func TestClientThatReadsSlowlyGetsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		released := make(chan struct{}, 10)
		s := start(t, Options{Listeners: noListeners, WriteTimeout: time.Second}, blob(1<<20, released), versions())
		c := s.pipe(t)
		c.send(request(1, of(protocol.Fetch, 4)))
		buffer, total := make([]byte, 32<<10), 0
		for total < 1<<20+8 {
			n, err := c.c.Read(buffer)
			if err != nil {
				t.Fatalf("after %d bytes: %v", total, err)
			}
			total += n
			time.Sleep(200 * time.Millisecond)
		}
		<-released
	})
}

func TestShutdownLetsPendingRequestsBeAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(_ context.Context, c *protocol.Call) protocol.Pending {
			p := protocol.NewPromise()
			time.AfterFunc(3*time.Second, func() { p.Resolve(protocol.Response{Message: c.Request.ResponseKind()}) })
			return p
		}
		s := start(t, Options{Listeners: noListeners},
			routeOf(protocol.Produce, slow), routeOf(protocol.Fetch, slow), versions())
		waiting, partial, idle := s.pipe(t), s.pipe(t), s.pipe(t)
		// The Fetch is read but must not be handled any more: it has to wait for
		// nothing, but the third one has to wait for the Fetch.
		go waiting.send(request(1, produce(9, 10)), request(2, of(protocol.Fetch, 4)), request(3, of(protocol.Fetch, 4)))
		partial.send(request(1, produce(9, 10))[:20])
		idle.send(request(1, of(protocol.ApiVersions, 0)))
		idle.answer(1, of(protocol.ApiVersions, 0))
		synctest.Wait()

		began := time.Now()
		stopped := make(chan error)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			stopped <- s.Shutdown(ctx)
		}()
		idle.ends()
		partial.ends()
		if d := time.Since(began); d != 0 {
			t.Errorf("connections without requests end after %v", d)
		}
		waiting.answer(1, produce(9, 10))
		waiting.answer(2, of(protocol.Fetch, 4))
		waiting.ends()
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("answered after %v", d)
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}

func TestShutdownCancelsWhatExceedsTheGraceTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{Listeners: noListeners},
			routeOf(protocol.Fetch, func(ctx context.Context, c *protocol.Call) protocol.Pending {
				p := protocol.NewPromise()
				context.AfterFunc(ctx, func() { p.Resolve(protocol.Response{Close: ctx.Err()}) })
				return p
			}),
			// This one does not even return.
			routeOf(protocol.Metadata, func(ctx context.Context, c *protocol.Call) protocol.Pending {
				<-ctx.Done()
				return protocol.Answer(kmsg.NewPtrMetadataResponse())
			}), versions())
		a, b := s.pipe(t), s.pipe(t)
		a.send(request(1, of(protocol.Fetch, 4)))
		b.send(request(1, of(protocol.Metadata, 4)))
		synctest.Wait()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if d := time.Since(began); d != 2*time.Second {
			t.Errorf("stopped after %v", d)
		}
		a.ends()
		b.ends()
	})
}

func TestCloseNamesHandlersThatDoNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := protocol.NewPromise()
		s := start(t, Options{Listeners: noListeners},
			routeOf(protocol.Fetch, func(context.Context, *protocol.Call) protocol.Pending { return p }), versions())
		c := s.pipe(t)
		c.send(request(1, of(protocol.Fetch, 4)))
		synctest.Wait()
		if err := s.Close(); err == nil || !strings.Contains(err.Error(), "1 connections") {
			t.Error(err)
		}
		p.Resolve(protocol.Response{None: true})
	})
}

func TestLogLinesOfOneKindAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{Listeners: noListeners}, versions())
		fail := func(req kmsg.Request) {
			c := s.pipe(t)
			c.send(request(1, req))
			c.ends()
		}
		for range 10 {
			fail(of(protocol.Metadata, 0))
		}
		fail(produce(3, 10))
		if lines := s.refusals(); len(lines) != 1 {
			t.Errorf("%d lines: %v", len(lines), lines)
		}
		time.Sleep(time.Second)
		fail(of(protocol.Metadata, 0))
		all := s.lines.FilterMessage("connection closed").All()
		if len(all) != 2 || all[1].ContextMap()["left_out"] != int64(10) {
			t.Errorf("%+v", all)
		}
	})
}
