package conn

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/protocol"
)

// sized puts a size prefix in front of a frame made by hand.
func sized(frame ...byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)
}

func TestRequestsThatCannotBeServedCloseTheConnectionWithOneLine(t *testing.T) {
	inflated := kmsg.NewPtrMetadataRequest() // version 0, with two bytes for each topic
	for range 50_000 {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = new(string)
		inflated.Topics = append(inflated.Topics, topic)
	}
	for name, test := range map[string]struct {
		send []byte
		want string
	}{
		"key that nobody knows":       {sized(0x7f, 0xff, 0, 0, 0, 0, 0, 9, 0, 1, 'x'), "unknown-api: the API is not served"},
		"negative key":                {sized(0xff, 0xff, 0, 0, 0, 0, 0, 9, 0, 1, 'x'), "unknown-api: the API is not served"},
		"key that is not served":      {request(9, of(protocol.Heartbeat, 0)), "unknown-api: the API is not served"},
		"version too new":             {request(9, of(protocol.Fetch, 18)), "unsupported-version: the version is not within 4 and 16"},
		"version too old":             {request(9, of(protocol.Fetch, 3)), "unsupported-version: the version is not within 4 and 16"},
		"client id too long":          {sized(0, 3, 0, 0, 0, 0, 0, 9, 0, 200, 'x'), "malformed-header: malformed request header: client id of length 200, 1 bytes left"},
		"negative client id":          {sized(0, 3, 0, 0, 0, 0, 0, 9, 0xff, 0xfe, 'x'), "malformed-header: malformed request header: client id of length -2"},
		"header without tags":         {sized(0, 3, 0, 9, 0, 0, 0, 9, 0xff, 0xff), "malformed-header: malformed request header: number of tags"},
		"body cut short":              {sized(0, 3, 0, 4, 0, 0, 0, 9, 0xff, 0xff, 0, 0), "malformed-body: malformed request: "},
		"large body cut short":        {sized(append([]byte{0, 3, 0, 4, 0, 0, 0, 9, 0xff, 0xff, 0, 1, 0, 0}, make([]byte, 20_000)...)...), "malformed-body: malformed request: "},
		"body that inflates":          {request(9, inflated), "malformed-body: request inflates when it is decoded: "},
		"negative size":               {[]byte{0xff, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 9, 0, 0}, "frame-size: frame size out of bounds: -16777216 is not within 10 and 104857600"},
		"size too small":              {[]byte{0, 0, 0, 9, 0, 3, 0, 0, 0, 0, 0, 9, 0, 0}, "frame-size: frame size out of bounds: 9 is not within 10 and 104857600"},
		"size above all":              {[]byte{0x06, 0x40, 0, 1, 0, 3, 0, 0, 0, 0, 0, 9, 0, 0}, "frame-size: frame size out of bounds: 104857601 is not within 10 and 104857600"},
		"size above the limit of key": {[]byte{0, 0x10, 0, 1, 0, 3, 0, 0, 0, 0, 0, 9, 0, 0}, "frame-size: frame size out of bounds: 1048577, at most 1048576 for this API"},
		"size above that of route":    {[]byte{0, 0, 0x10, 1, 0, 1, 0, 4, 0, 0, 0, 9, 0, 0}, "frame-size: frame size out of bounds: 4097, at most 4096 for this API"},
		"TLS":                         {[]byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03abcdefghijkl"), "frame-size: the client speaks TLS, and the listener does not"},
		"a web browser":               {[]byte("GET / HTTP/1.1\r\n\r\n"), "frame-size: frame size out of bounds: 1195725856 is not within 10 and 104857600"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, Options{},
				protocol.Route{Key: protocol.Fetch, Min: 4, Max: 16, MaxBytes: 4 << 10, Handle: empty},
				routeOf(protocol.Metadata, empty), versions())
			c := s.dial(t)
			// What was asked before is answered.
			c.send(append(request(1, of(protocol.ApiVersions, 3)), test.send...))
			c.answer(1, of(protocol.ApiVersions, 3))
			c.closed()
			lines := s.refusals()
			if len(lines) != 1 || !strings.HasPrefix(lines[0], test.want) {
				t.Fatalf("lines %q, want %q", lines, test.want)
			}
		})
	}
}

func TestLineOfARefusalNamesWhoAndWhat(t *testing.T) {
	s := start(t, Options{}, versions())
	c := s.dial(t)
	req := produce(9, 10)
	c.send(request(9, req))
	c.closed()
	line := s.lines.FilterMessage("connection closed").All()[0].ContextMap()
	for key, want := range map[string]any{
		"peer": c.c.LocalAddr().String(), "client_id": "test", "api": "Produce", "version": int16(9),
		"correlation_id": int32(9), "listener": "PLAINTEXT", "kind": "unknown-api", "error": "the API is not served",
	} {
		if line[key] != want {
			t.Errorf("%s is %v, want %v", key, line[key], want)
		}
	}
	var counted int64
	s.Stats().Closed(func(kind string, n int64) {
		if kind == "unknown-api" {
			counted = n
		}
	})
	if counted != 1 || s.Stats().Key(protocol.Produce).Errors.Load() != 1 {
		t.Error("the refusal is not counted")
	}
}

// badPending panics in the method named.
type badPending string

func (b badPending) Done() <-chan struct{} {
	if b == "done" {
		panic("no channel")
	}
	done := make(chan struct{})
	close(done)
	return done
}

func (b badPending) Response() protocol.Response {
	if b == "response" {
		panic("no response")
	}
	return protocol.Response{Message: &badMessage{kmsg.NewPtrMetadataResponse(), string(b)}}
}

// badMessage panics in the method named.
type badMessage struct {
	*kmsg.MetadataResponse
	where string
}

func (b *badMessage) AppendTo(dst []byte) []byte {
	if b.where == "append" {
		panic("no bytes")
	}
	return b.MetadataResponse.AppendTo(dst)
}

func TestHandlerThatFailsClosesItsConnectionOnly(t *testing.T) {
	released := make(chan struct{}, 1)
	release := func() { released <- struct{}{} }
	none := func() protocol.Pending { return nil }
	for name, test := range map[string]struct {
		pending func() protocol.Pending
		want    string
		release bool
	}{
		"panics":              {func() protocol.Pending { panic("oh") }, "bug: panic in handler: oh", false},
		"runs out of a slice": {func() protocol.Pending { return make([]protocol.Pending, 1)[len(t.Name())] }, "bug: panic in handler: runtime error: index out of range", false},
		"gives nothing":       {none, "bug: the handler returned no pending", false},
		"panics in Done":      {func() protocol.Pending { return badPending("done") }, "bug: panic in handler: no channel", false},
		"panics in Response":  {func() protocol.Pending { return badPending("response") }, "bug: panic in pending response: no response", false},
		"panics in encoding":  {func() protocol.Pending { return badPending("append") }, "bug: panic in encoding: no bytes", false},
		"answers nothing":     {func() protocol.Pending { return protocol.Ready(protocol.Response{Release: release}) }, "bug: the handler's response is none", true},
		"answers twice": {func() protocol.Pending {
			return protocol.Ready(protocol.Response{None: true, Frame: net.Buffers{}, Release: release})
		}, "bug: the handler's response is none, or more", true},
		"answers something else": {func() protocol.Pending { return protocol.Answer(kmsg.NewPtrFetchResponse()) }, "bug: the response is one of Fetch", false},
		"asks for the connection": {func() protocol.Pending {
			return protocol.Ready(protocol.Response{Close: errors.New("wrong password"), Release: release})
		}, "handler: wrong password", true},
		"panics in Release": {func() protocol.Pending {
			return protocol.Ready(protocol.Response{Message: kmsg.NewPtrMetadataResponse(), Release: func() { panic("no release") }})
		}, "bug: panic in release: no release", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, Options{}, routeOf(protocol.Metadata, func(context.Context, *protocol.Call) protocol.Pending { return test.pending() }),
				versions())
			other, c := s.dial(t), s.dial(t)
			c.send(append(request(1, of(protocol.ApiVersions, 3)), request(2, of(protocol.Metadata, 9))...), request(3, of(protocol.ApiVersions, 3)))
			c.answer(1, of(protocol.ApiVersions, 3))
			if name == "panics in Release" {
				// The answer is on its way by then.
				c.answer(2, of(protocol.Metadata, 9))
				c.in.Peek(1)
			} else {
				c.closed()
			}
			lines := s.refusals()
			if len(lines) != 1 || !strings.HasPrefix(lines[0], test.want) {
				t.Errorf("lines %q, want %q", lines, test.want)
			}
			if strings.Contains(test.want, "panic") && !strings.Contains(lines[0], "refusal_test.go") {
				t.Errorf("no stack in %s", lines[0])
			}
			if test.release {
				<-released
			}
			other.send(request(1, of(protocol.ApiVersions, 3)))
			other.answer(1, of(protocol.ApiVersions, 3))
		})
	}
}

func TestBytesReleasedTwiceAreABug(t *testing.T) {
	s := start(t, Options{}, routeOf(protocol.Produce, func(ctx context.Context, c *protocol.Call) protocol.Pending {
		c.Release()
		return empty(ctx, c)
	}), versions())
	c := s.dial(t)
	c.send(request(1, produce(9, 10)))
	c.in.Peek(1)
	c.c.Close()
	s.Close()
	if lines := s.refusals(); len(lines) != 1 || !strings.HasPrefix(lines[0], "bug: bytes released more often") {
		t.Error(lines)
	}
}

func TestFewConnectionsAreAdmitted(t *testing.T) {
	for name, o := range map[string]Options{
		"max.connections are open":                   {MaxConnections: 3},
		"max.connections.per.ip are open from there": {MaxConnectionsPerIP: 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, o, versions())
			works := func(c *client) {
				c.send(request(1, of(protocol.ApiVersions, 3)))
				c.answer(1, of(protocol.ApiVersions, 3))
			}
			var open []*client
			for range 3 {
				c := s.dial(t)
				works(c)
				open = append(open, c)
			}
			for range 2 {
				c := s.dial(t)
				if _, err := c.in.ReadByte(); err == nil {
					t.Error("one connection too many is not closed")
				}
			}
			lines := s.lines.FilterMessage("connection refused").All()
			if len(lines) != 1 || lines[0].ContextMap()["reason"] != name {
				t.Errorf("lines %+v", lines)
			}
			open[0].c.Close()
			for s.Stats().Open.Load() == 3 {
				runtime.Gosched()
			}
			works(s.dial(t))
			if n := s.Stats().Refused.Load(); n != 2 {
				t.Errorf("%d refused, want 2", n)
			}
		})
	}
}

// brokenListener fails to accept a number of times before it is closed.
type brokenListener struct {
	net.Listener
	left int
}

func (b *brokenListener) Accept() (net.Conn, error) {
	if b.left--; b.left >= 0 {
		return nil, errors.New("too many open files")
	}
	return nil, net.ErrClosed
}

func TestAcceptingGoesOnAfterAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{Listeners: noListeners}, versions())
		began := time.Now()
		s.live.Add(1)
		s.acceptLoop(listener{Listener{Name: "BROKEN"}, &brokenListener{left: 20}})
		// 5, 10, 20 ms and so on, and then a second each.
		if d := time.Since(began); d < 10*time.Second || d > 15*time.Second {
			t.Errorf("20 attempts took %v", d)
		}
		lines := s.lines.FilterMessage("cannot accept connections").All()
		if len(lines) < 10 || len(lines) > 15 {
			t.Errorf("%d lines", len(lines))
		}
	})
}

func TestLongClientIDDoesNotFillTheLog(t *testing.T) {
	s := start(t, Options{}, versions())
	c := s.dial(t)
	id := strings.Repeat("x", 5000)
	c.send(withHeader(of(protocol.Heartbeat, 4), &id, []byte{0}))
	c.closed()
	if got := s.lines.FilterMessage("connection closed").All()[0].ContextMap()["client_id"]; got != id[:longestClientID] {
		t.Errorf("the line shows %v", got)
	}
}

func TestListenersHaveNamesAndAddresses(t *testing.T) {
	seen := make(chan protocol.ConnInfo, 1)
	s := start(t, Options{Listeners: []Listener{{"A", "127.0.0.1:0"}, {"B", "127.0.0.1:0"}}},
		protocol.Route{Key: protocol.ApiVersions, Max: 4, Handle: func(ctx context.Context, c *protocol.Call) protocol.Pending {
			seen <- *c.Conn
			return empty(ctx, c)
		}})
	ids := make(map[uint64]bool)
	for _, name := range []string{"A", "B", "A"} {
		socket, err := net.Dial("tcp", s.Addr(name).String())
		if err != nil {
			t.Fatal(err)
		}
		c := newClient(t, socket)
		c.send(request(1, of(protocol.ApiVersions, 3)))
		c.answer(1, of(protocol.ApiVersions, 3))
		info := <-seen
		if info.Listener != name || info.LocalAddr.String() != s.Addr(name).String() ||
			info.RemoteAddr.String() != socket.LocalAddr().String() || info.Principal != protocol.Anonymous {
			t.Errorf("connection %+v", info)
		}
		ids[info.ID] = true
	}
	if len(ids) != 3 || s.Addr("C") != nil {
		t.Error("ids are not unique, or there is a listener that was not asked for")
	}
}

func TestOptionsAreCheckedTogether(t *testing.T) {
	_, err := Open(Options{
		Listeners:      []Listener{{"A", "127.0.0.1:0"}, {"A", "127.0.0.1:0"}, {"", ""}},
		MaxConnections: -1, IdleTimeout: -1,
	})
	for _, want := range []string{`"A"`, `""`, "MaxConnections is -1", "IdleTimeout is -1ns"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %s", err, want)
		}
	}
	if _, err := Open(Options{Listeners: []Listener{{"A", "127.0.0.1:0"}, {"B", "256.0.0.1:0"}}}); err == nil || !strings.Contains(err.Error(), "256.0.0.1:0 (listener B)") {
		t.Error(err)
	}
}

func TestFrameOfTheHandlerIsSentAsItIs(t *testing.T) {
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = 12
	resp.SessionID = 4711
	body := resp.AppendTo(nil)
	released := make(chan struct{}, 2)
	s := start(t, Options{}, routeOf(protocol.Fetch, func(context.Context, *protocol.Call) protocol.Pending {
		return protocol.Ready(protocol.Response{
			Frame:   net.Buffers{body[:3], nil, body[3:4], body[4:]},
			Release: func() { released <- struct{}{} },
		})
	}), versions())
	c := s.dial(t)
	req := of(protocol.Fetch, 12)
	c.send(append(append(request(1, req), request(2, of(protocol.ApiVersions, 0))...), request(3, req)...))
	for id := range int32(4) {
		switch {
		case id == 2:
			c.answer(2, of(protocol.ApiVersions, 0))
		case id > 0:
			if got := c.answer(id, req).(*kmsg.FetchResponse); got.SessionID != 4711 || !bytes.Equal(got.AppendTo(nil), body) {
				t.Errorf("response %+v", got)
			}
			<-released
		}
	}
}
