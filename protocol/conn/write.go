package conn

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/sluicemq/sluice/protocol"
)

const (
	// writeBatch is the number of responses, and writeBytes the size, from which on
	// responses are written without waiting for more.
	writeBatch = 64
	writeBytes = 1 << 20
	// writeProgress is what a client must have read within a write timeout.
	writeProgress = 16 << 10
	// linger is how long a connection that Sluice closes is kept to let the client
	// read what was sent: closing it with unread bytes of the client would reset it.
	linger = 500 * time.Millisecond
)

// sender is what the one who has the right to write needs for it.
type sender struct {
	failed bool // nothing can be sent any more
	batch  []*exchange

	group  []sent      // exchanges whose responses are sent together
	head   *[]byte     // their encoded parts
	cuts   []cut       // where Frame buffers belong in between
	pieces net.Buffers // all of it
	left   net.Buffers // what of pieces was not written yet
	bytes  int
}

type sent struct {
	e        *exchange
	response protocol.Response
	bytes    int
}

// cut says that buffers follow byte at of the encoded parts.
type cut struct {
	at      int
	buffers net.Buffers
}

// write waits for pending responses and writes them. It is the connection's
// writer, started by admit, and ends when the reader has ended and everything
// is resolved.
func (c *connection) write() {
	for {
		<-c.out.wake
		mine, over := c.out.writerState()
		if over {
			break
		}
		if mine {
			c.writeReady(writers)
		}
	}
	if !c.sender.failed {
		c.lingerClose()
	}
	c.abort()
}

// flush lets the reader write what is ready, before it waits for something.
func (c *connection) flush() {
	if c.out.claim() {
		c.writeReady(readers)
		return
	}
	c.out.pass()
}

// writeReady writes responses for who has the right to write, until nothing is
// ready (the reader) or nothing is left (the writer).
func (c *connection) writeReady(who right) {
	for {
		batch, head := c.out.take(who, c.sender.batch[:0], writeBatch)
		c.sender.batch = batch
		switch {
		case len(batch) > 0:
			c.send(batch)
			clear(batch)
			c.out.written()
		case head != nil:
			<-head.done
		default:
			return
		}
	}
}

// send writes the responses of a batch, or drops them if that cannot be done
// any more.
func (c *connection) send(batch []*exchange) {
	s := &c.sender
	for _, e := range batch {
		response := e.response()
		if !s.failed {
			c.gather(e, &response)
		} else {
			e.finish(&response, 0, time.Now())
		}
		if s.bytes >= writeBytes {
			c.sendGroup()
		}
	}
	c.sendGroup()
}

// gather adds one response to the group, or closes the connection if it says so
// or is no good.
func (c *connection) gather(e *exchange, r *protocol.Response) {
	s := &c.sender
	if !wellFormed(r) {
		r.Close = e.refusal(kindBug, errors.New("the handler's response is none, or more than one"))
	}
	if r.Close != nil {
		c.sendGroup()
		c.closeFor(e, r.Close)
		e.finish(r, 0, time.Now())
		return
	}
	bytes := 0
	if !r.None {
		if s.head == nil {
			s.head = c.server.pool.get(0)
		}
		start := len(*s.head)
		head, extra, err := e.encode(*s.head, r)
		*s.head = head
		if err != nil {
			r.Close = err
			c.gather(e, r)
			return
		}
		if r.Frame != nil {
			s.cuts = append(s.cuts, cut{len(head), r.Frame})
		}
		bytes = len(head) - start + extra
		s.bytes += bytes
	}
	s.group = append(s.group, sent{e, *r, bytes})
}

// closeFor ends the connection after what was sent, because a response says so.
func (c *connection) closeFor(e *exchange, err error) {
	c.sender.failed = true
	var reason *refusal
	if !errors.As(err, &reason) {
		reason = e.refusal(kindHandler, err)
	}
	c.refuse(reason)
	c.cancel()
	c.lingerClose()
	c.abort()
}

// sendGroup writes the group of responses and finishes its exchanges.
func (c *connection) sendGroup() {
	s := &c.sender
	var err error
	if s.bytes > 0 {
		err = c.writeGroup()
	}
	now := time.Now()
	c.active.Store(now.UnixNano())
	for i := range s.group {
		g := &s.group[i]
		if err != nil {
			g.bytes = 0
		}
		g.e.finish(&g.response, g.bytes, now)
	}
	if err != nil && !s.failed {
		s.failed = true
		c.writeFailed(s.group[0].e, err)
	}
	if s.head != nil {
		*s.head = (*s.head)[:0]
		c.server.pool.put(s.head)
		s.head = nil
	}
	clear(s.group)
	clear(s.cuts)
	s.group, s.cuts, s.bytes = s.group[:0], s.cuts[:0], 0
}

func (c *connection) writeFailed(e *exchange, err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.refuse(e.refusal(kindStalled, fmt.Errorf("the client does not read its responses: %w", err)))
	} else if c.ctx.Err() == nil {
		c.server.log.Debug("connection lost", zap.Stringer("peer", c.info.RemoteAddr), zap.Error(err))
	}
	c.abort()
}

// writeGroup writes the encoded parts and the buffers between them.
func (c *connection) writeGroup() error {
	s := &c.sender
	head, at := *s.head, 0
	s.pieces = s.pieces[:0]
	for _, cut := range s.cuts {
		if cut.at > at {
			s.pieces = append(s.pieces, head[at:cut.at])
			at = cut.at
		}
		s.pieces = append(s.pieces, cut.buffers...)
	}
	if at < len(head) {
		s.pieces = append(s.pieces, head[at:])
	}
	defer clear(s.pieces)
	s.left = s.pieces
	for total := int64(s.bytes); total > 0; {
		if err := c.socket.SetWriteDeadline(time.Now().Add(c.server.options.WriteTimeout)); err != nil {
			return err
		}
		n, err := s.left.WriteTo(c.socket)
		total -= n
		if errors.Is(err, os.ErrDeadlineExceeded) && n >= min(writeProgress, total+n) {
			continue // slow, but it reads
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lingerClose tells the client that nothing more will come, and lets it read
// what did.
func (c *connection) lingerClose() {
	half, ok := c.socket.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	if c.socket.SetReadDeadline(time.Now().Add(linger)) != nil {
		return
	}
	io.Copy(io.Discard, c.socket)
}
