package conn

import (
	"bufio"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/sluicemq/sluice/protocol"
	"github.com/sluicemq/sluice/protocol/frame"
)

// readBuffer is the size of the buffer through which requests are read. A frame
// that fits is decoded in it; larger ones get a buffer of their own.
const readBuffer = 8 << 10

// longestClientID is how much of a client id a log line shows.
const longestClientID = 128

// connection is one client. See the package documentation for its goroutines.
type connection struct {
	server *Server
	socket net.Conn
	info   protocol.ConnInfo
	out    outbox
	sender sender // belongs to whoever has the right to write

	ctx      context.Context // of its handlers; ends with the connection
	cancel   context.CancelFunc
	draining chan struct{} // closed when no further request is to be read
	drained  sync.Once

	active atomic.Int64 // when bytes were read or written last, Unix nanoseconds

	// What follows belongs to the reader.
	in       *bufio.Reader
	clientID string    // of the request before, to share the string
	before   *exchange // the newest request of a route that is not pipelined
	armed    bool      // the read deadline is one for idleness
	begun    bool      // the read deadline is one for the frame that has begun
}

func newConnection(s *Server, listener string, socket net.Conn) *connection {
	c := &connection{
		server: s,
		socket: socket,
		info: protocol.ConnInfo{
			ID:         s.nextID.Add(1),
			Listener:   listener,
			LocalAddr:  socket.LocalAddr(),
			RemoteAddr: socket.RemoteAddr(),
			Principal:  protocol.Anonymous,
		},
		draining: make(chan struct{}),
	}
	c.out.init(s.options.MaxPending)
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	c.active.Store(time.Now().UnixNano())
	return c
}

// abort ends the connection at once: what is pending will not be sent. It may
// be called from anywhere, and more than once.
func (c *connection) abort() {
	c.cancel()
	c.socket.Close()
}

// drain makes the reader stop behind the request it is at. It may be called
// from anywhere, and more than once.
func (c *connection) drain() {
	c.drained.Do(func() {
		close(c.draining)
		// Wakes a reader that waits for bytes. Should it be about to set a deadline
		// of its own, it looks at draining afterwards.
		c.socket.SetReadDeadline(time.Unix(1, 0))
	})
}

func (c *connection) isDraining() bool {
	select {
	case <-c.draining:
		return true
	default:
		return false
	}
}

// refusal is why a request is not answered and its connection closed.
type refusal struct {
	kind     kind
	header   frame.Header // what is known of it; ClientID is not used
	clientID string
	err      error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// refuse writes the log line of a refusal and counts it.
func (c *connection) refuse(r *refusal) {
	c.server.stats.closed[r.kind].Add(1)
	key := protocol.Key(r.header.Key)
	if key.Known() {
		c.server.stats.Key(key).Errors.Add(1)
	}
	fields := []zap.Field{
		zap.Stringer("peer", c.info.RemoteAddr),
		zap.String("client_id", r.clientID[:min(len(r.clientID), longestClientID)]),
		zap.Stringer("api", key),
		zap.Int16("version", r.header.Version),
		zap.Int32("correlation_id", r.header.CorrelationID),
		zap.String("listener", c.info.Listener),
		zap.Error(r.err),
	}
	if r.kind == kindBug {
		c.server.lines.bug("connection closed", fields...)
		return
	}
	c.server.lines.warn(r.kind, "connection closed", fields...)
}
