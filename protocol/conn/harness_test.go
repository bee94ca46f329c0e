package conn

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/sluicemq/sluice/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served is a server under test with what it logged.
type served struct {
	*Server
	lines *observer.ObservedLogs
}

// start serves the routes at a port the system chooses, until the test ends.
func start(t testing.TB, o Options, routes ...protocol.Route) *served {
	t.Helper()
	s := open(t, o)
	table, err := protocol.NewRoutes(routes)
	if err != nil {
		t.Fatal(err)
	}
	s.Serve(table)
	return s
}

func open(t testing.TB, o Options) *served {
	t.Helper()
	core, lines := observer.New(zap.DebugLevel)
	o.Log = zap.New(core)
	if o.Listeners == nil {
		o.Listeners = []Listener{{Name: "PLAINTEXT", Address: "127.0.0.1:0"}}
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if counted, past := s.QueuedBytes(); counted != 0 || past != 0 {
			t.Errorf("%d bytes and %d past the budget are still reserved", counted, past)
		}
		for k := range protocol.MaxKey + 1 {
			if n := s.Stats().Key(k).InFlight.Load(); n != 0 {
				t.Errorf("%d requests of %v are still in flight", n, k)
			}
		}
	})
	return &served{s, lines}
}

// client is a raw client of a test.
type client struct {
	t  testing.TB
	c  net.Conn
	in *bufio.Reader
}

func (s *served) dial(t testing.TB) *client {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr("PLAINTEXT").String())
	if err != nil {
		t.Fatal(err)
	}
	return newClient(t, c)
}

func newClient(t testing.TB, c net.Conn) *client {
	t.Cleanup(func() { c.Close() })
	return &client{t, c, bufio.NewReader(c)}
}

// request returns the frame of a request.
func request(correlationID int32, req kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, req, correlationID)
}

func (c *client) send(frames ...[]byte) {
	c.t.Helper()
	for _, f := range frames {
		if _, err := c.c.Write(f); err != nil {
			c.t.Fatal(err)
		}
	}
}

// receive reads a response frame and returns its correlation id and what
// follows that.
func (c *client) receive() (correlationID int32, rest []byte) {
	c.t.Helper()
	c.c.SetReadDeadline(time.Now().Add(10 * time.Second))
	size := make([]byte, 4)
	if _, err := io.ReadFull(c.in, size); err != nil {
		c.t.Fatalf("no response: %v", err)
	}
	b := make([]byte, binary.BigEndian.Uint32(size))
	if _, err := io.ReadFull(c.in, b); err != nil {
		c.t.Fatalf("response is cut: %v", err)
	}
	return int32(binary.BigEndian.Uint32(b)), b[4:]
}

// answer reads the response to req, which has the given correlation id.
func (c *client) answer(correlationID int32, req kmsg.Request) kmsg.Response {
	c.t.Helper()
	got, b := c.receive()
	if got != correlationID {
		c.t.Fatalf("response to %d, want %d", got, correlationID)
	}
	resp := req.ResponseKind()
	if resp.IsFlexible() && resp.Key() != int16(protocol.ApiVersions) {
		if len(b) == 0 || b[0] != 0 {
			c.t.Fatalf("flexible response header without tags: % x", b)
		}
		b = b[1:]
	}
	if err := resp.ReadFrom(b); err != nil {
		c.t.Fatalf("response to %d: %v", correlationID, err)
	}
	return resp
}

// closed waits for the server to close the connection.
func (c *client) closed() {
	c.t.Helper()
	c.c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if b, err := io.ReadAll(c.in); err != nil || len(b) > 0 {
		c.t.Fatalf("connection gives % x, %v, want its end", b, err)
	}
}

// pipe connects a client to the server without a socket, so that the clock of a
// bubble goes on while both wait.
func (s *served) pipe(t testing.TB) *client {
	t.Helper()
	ours, theirs := net.Pipe()
	s.admit("PIPE", theirs)
	return newClient(t, ours)
}

// noListeners is for servers that are reached by pipe only.
var noListeners = []Listener{}

// routeOf serves an API in all versions that kmsg has.
func routeOf(k protocol.Key, handle protocol.Handler) protocol.Route {
	return protocol.Route{Key: k, Max: k.NewRequest().MaxVersion(), Pipelined: k == protocol.Produce, Handle: handle}
}

// empty answers a request with an empty response of its kind.
func empty(_ context.Context, c *protocol.Call) protocol.Pending {
	return protocol.Answer(c.Request.ResponseKind())
}

// versions serves ApiVersions 0 to 4.
func versions() protocol.Route {
	return protocol.Route{Key: protocol.ApiVersions, Min: 0, Max: 4, Handle: empty}
}

// of returns an empty request.
func of(k protocol.Key, version int16) kmsg.Request {
	req := k.NewRequest()
	req.SetVersion(version)
	return req
}

// produce returns a Produce request with records of the given size.
func produce(version int16, size int) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks = version, -1
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic, topic.TopicID = "t", [16]byte{1}
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Records = make([]byte, size)
	topic.Partitions = append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	return req
}

// refusals returns the lines about closed connections, as kind and error.
func (s *served) refusals() (lines []string) {
	for _, e := range s.lines.FilterMessage("connection closed").All() {
		f := e.ContextMap()
		lines = append(lines, fmt.Sprint(f["kind"], ": ", f["error"]))
	}
	return lines
}
