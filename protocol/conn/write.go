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
	ended  bool // nothing is to be sent any more
	linger bool // and that was our decision
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
	if c.sender.linger || !c.sender.ended {
		awaitEnd(c.socket)
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
		switch {
		case len(batch) > 0:
			c.send(batch)
			clear(batch)
			c.sender.batch = batch // not in the other cases: they may have given up the right
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
		switch {
		case s.ended:
			e.finish(&response, 0, time.Now())
		case !wellFormed(&response):
			c.closeAt(e, &response, e.refusal(kindBug, errNotOne))
		case response.Close != nil:
			c.closeAt(e, &response, response.Close)
		default:
			if err := c.gather(e, &response); err != nil {
				c.closeAt(e, &response, err)
			}
		}
		if s.bytes >= writeBytes {
			c.sendGroup()
		}
	}
	c.sendGroup()
}

// gather adds one response to the group that is sent together.
func (c *connection) gather(e *exchange, r *protocol.Response) error {
	s := &c.sender
	bytes := 0
	if !r.None {
		if s.head == nil {
			s.head = c.server.pool.get(0)
		}
		start := len(*s.head)
		head, extra, err := e.encode(*s.head, r)
		*s.head = head
		if err != nil {
			return err
		}
		if r.Frame != nil {
			s.cuts = append(s.cuts, cut{len(head), r.Frame})
		}
		bytes = len(head) - start + extra
		s.bytes += bytes
	}
	if r.Frame == nil {
		// However long the client takes to read: the next request may have the room.
		e.letGo()
	}
	s.group = append(s.group, sent{e, *r, bytes})
	return nil
}

// closeAt ends the connection with exchange e, after what was asked before is
// answered: it logs why, and makes the reader stop. The writer closes the
// socket when everything has ended.
func (c *connection) closeAt(e *exchange, r *protocol.Response, err error) {
	c.sendGroup()
	var reason *refusal
	if !errors.As(err, &reason) {
		reason = e.refusal(kindHandler, err)
	}
	c.refuse(reason)
	e.finish(r, 0, time.Now())
	if !c.sender.ended {
		c.sender.ended = true
		c.sender.linger = true
		closeWrite(c.socket)
	}
	c.cancel()
	c.drain()
}

// sendGroup writes the group of responses and finishes its exchanges.
func (c *connection) sendGroup() {
	s := &c.sender
	if len(s.group) == 0 {
		return
	}
	var err error
	if s.bytes > 0 {
		err = c.writeGroup()
	}
	now := time.Now()
	c.active.Store(now.UnixNano())
	if err != nil {
		s.ended = true
		c.writeFailed(s.group[0].e, err)
	}
	for i := range s.group {
		g := &s.group[i]
		if err != nil {
			g.bytes = 0
		}
		g.e.finish(&g.response, g.bytes, now)
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
	if len(s.pieces) == 1 && len(s.pieces[0]) <= writeProgress {
		// The common case: one write, which no client is too slow for.
		if err := c.socket.SetWriteDeadline(time.Now().Add(c.server.options.WriteTimeout)); err != nil {
			return err
		}
		_, err := c.socket.Write(s.pieces[0])
		return err
	}
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

// closeWrite tells the client that nothing more will come, where the transport
// can say that without closing it.
func closeWrite(socket net.Conn) bool {
	half, ok := socket.(interface{ CloseWrite() error })
	return ok && half.CloseWrite() == nil
}

// awaitEnd reads away what the client still sends, until it has read what was
// sent to it and closes too. The reader must have ended.
func awaitEnd(socket net.Conn) {
	if closeWrite(socket) && socket.SetReadDeadline(time.Now().Add(linger)) == nil {
		io.Copy(io.Discard, socket)
	}
}
