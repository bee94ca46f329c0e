package conn

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/sluicemq/sluice/protocol"
	"github.com/sluicemq/sluice/protocol/frame"
)

var (
	errDraining = errors.New("the server stops")
	errIdle     = errors.New("idle for too long")
	errLate     = errors.New("the rest of the frame did not arrive in time")
	errTLS      = errors.New("the client speaks TLS, and the listener does not")
)

const (
	// expectedFactor is what a large request is expected to take when it is decoded,
	// in sizes of its frame, until it is known.
	expectedFactor = 4
	// negligible is what a request that waits for its response may hold without
	// being counted: so groups of thousands may wait for each other.
	negligible = 64 << 10

	// A TLS connection begins with these bytes; as a size they are above 350 MiB.
	tlsHandshake, tlsMajor = 22, 3
)

// read takes requests from the socket and runs their first stages. It is the
// connection's reader, started by admit, and ends with the connection or when
// nothing more is to be read.
func (c *connection) read() {
	defer c.out.end()
	c.in = bufio.NewReaderSize(c.socket, readBuffer)
	for {
		err := c.next()
		if err == nil {
			continue
		}
		var reason *refusal
		switch {
		case errors.As(err, &reason):
			// What was asked before is answered first.
			e := c.newExchange(reason.header)
			e.answer(protocol.Response{Close: reason})
			c.out.put(e)
		case errors.Is(err, errDraining):
		default:
			c.server.log.Debug("connection ends", zap.Stringer("peer", c.info.RemoteAddr), zap.Error(err))
			c.abort()
		}
		return
	}
}

// next reads, decodes and handles one request.
func (c *connection) next() error {
	if err := c.await(); err != nil {
		return err
	}
	if err := c.turn(); err != nil {
		return err
	}
	c.begun = false
	size, err := c.size()
	if err != nil {
		return err
	}
	route, e, err := c.route(size)
	if err != nil {
		return err
	}
	body, err := c.body(e, route, size)
	if err == nil {
		err = c.decode(e, route, body)
	}
	if err != nil {
		e.letGo()
		return err
	}
	c.serve(e, route)
	return nil
}

// await returns when a byte of the next request is there.
func (c *connection) await() error {
	if c.in.Buffered() > 0 {
		return nil
	}
	c.flush()
	for {
		if !c.armed {
			// Setting a deadline costs more than looking at the clock when it fires, so
			// it is set once and moved on only then.
			idleAt := time.Unix(0, c.active.Load()).Add(c.server.options.IdleTimeout)
			if err := c.deadline(idleAt); err != nil {
				return err
			}
			c.armed = true
		}
		_, err := c.in.Peek(1)
		if err == nil {
			c.active.Store(time.Now().UnixNano())
			return nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if c.isDraining() {
			return errDraining
		}
		c.armed = false
		now := time.Now()
		if c.out.len() > 0 {
			c.active.Store(now.UnixNano()) // whoever waits for an answer is not idle
		} else if now.UnixNano()-c.active.Load() >= int64(c.server.options.IdleTimeout) {
			return errIdle
		}
	}
}

// deadline sets the read deadline, unless the connection drains.
func (c *connection) deadline(t time.Time) error {
	if err := c.socket.SetReadDeadline(t); err != nil {
		return err
	}
	if c.isDraining() {
		return errDraining
	}
	return nil
}

// turn returns when the next request may be handled: nothing is in front of it
// that has to be finished first, and there is room for its response.
func (c *connection) turn() error {
	if c.before != nil {
		if !c.before.isReady() {
			c.flush()
			if err := c.wait(c.before.done); err != nil {
				return err
			}
		}
		c.before = nil
	}
	for c.out.full() {
		c.flush()
		if c.out.full() {
			if err := c.wait(c.out.room); err != nil {
				return err
			}
		}
	}
	if c.isDraining() {
		return errDraining
	}
	return nil
}

// wait returns when something is received from done, or with an error when the
// connection is not to go on.
func (c *connection) wait(done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-c.draining:
		return errDraining
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
}

// fill returns the next n bytes without consuming them. n is at most
// readBuffer, and a frame has begun.
func (c *connection) fill(n int) ([]byte, error) {
	if c.in.Buffered() < n && !c.begun {
		if err := c.expect(); err != nil {
			return nil, err
		}
	}
	b, err := c.in.Peek(n)
	return b, c.late(err)
}

// expect prepares for reading bytes of a frame that has begun.
func (c *connection) expect() error {
	c.flush()
	c.armed, c.begun = false, true
	return c.deadline(time.Now().Add(c.server.options.FrameTimeout))
}

// late turns a deadline that has passed within a frame into a refusal.
func (c *connection) late(err error) error {
	switch {
	case err == nil || !errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case c.isDraining():
		return errDraining
	}
	header, clientID := c.glance()
	return &refusal{kindSlow, header, clientID, errLate}
}

// glance returns what can be seen of the header of the frame that has begun,
// for a log line.
func (c *connection) glance() (h frame.Header, clientID string) {
	b, _ := c.in.Peek(c.in.Buffered())
	if len(b) < frame.SizeBytes+frame.FixedBytes {
		return frame.Header{Key: -1, Version: -1}, ""
	}
	b = b[frame.SizeBytes:]
	h, _, err := frame.Parse(b, false)
	if err != nil {
		return frame.Fixed(b), ""
	}
	return h, string(h.ClientID)
}

// size returns the size of the next frame.
func (c *connection) size() (int, error) {
	b, err := c.fill(frame.SizeBytes)
	if err != nil {
		return 0, err
	}
	size, err := frame.Size(b, c.server.options.MaxRequestBytes)
	if err != nil {
		header, clientID := c.glance()
		if b[0] == tlsHandshake && b[1] == tlsMajor {
			err = errTLS
			header, clientID = frame.Header{Key: -1, Version: -1}, ""
		}
		return 0, &refusal{kindSize, header, clientID, err}
	}
	return size, nil
}

// route finds out whether and how the frame can be served, before anything is
// spent on it. The exchange it returns has no request yet.
func (c *connection) route(size int) (*protocol.Route, *exchange, error) {
	b, err := c.fill(frame.SizeBytes + frame.MinBytes)
	if err != nil {
		return nil, nil, err
	}
	h := frame.Fixed(b[frame.SizeBytes:])
	refuse := func(k kind, format string, args ...any) (*protocol.Route, *exchange, error) {
		_, clientID := c.glance()
		return nil, nil, &refusal{k, h, clientID, fmt.Errorf(format, args...)}
	}
	route, ok := c.server.routes.Lookup(protocol.Key(h.Key))
	if !ok {
		return refuse(kindKey, "the API is not served")
	}
	if limit := c.server.limit(route); size > limit {
		return refuse(kindSize, "%w: %d, at most %d for this API", frame.ErrSize, size, limit)
	}
	if !serves(route, h.Version) && route.Key != protocol.ApiVersions {
		return refuse(kindVersion, "the version is not within %d and %d", route.Min, route.Max)
	}
	return route, c.newExchange(h), nil
}

func serves(route *protocol.Route, version int16) bool {
	return version >= route.Min && version <= route.Max
}

// limit returns the size that frames of a route may have.
func (s *Server) limit(route *protocol.Route) int {
	limit := route.MaxBytes
	if limit == 0 {
		limit = protocol.DefaultMaxBytes(route.Key)
	}
	if limit == 0 || limit > s.options.MaxRequestBytes {
		limit = s.options.MaxRequestBytes
	}
	return limit
}

func (c *connection) newExchange(h frame.Header) *exchange {
	e := &exchange{conn: c}
	e.users.Store(1)
	e.call.Key, e.call.Version, e.call.CorrelationID = protocol.Key(h.Key), h.Version, h.CorrelationID
	e.call.Conn, e.call.Lease = &c.info, e
	return e
}

// decode parses the frame b into the exchange.
func (c *connection) decode(e *exchange, route *protocol.Route, b []byte) error {
	e.call.FrameBytes = len(b)
	e.call.Received = time.Now()
	served := serves(route, e.call.Version)
	h, body, err := frame.Parse(b, served && c.server.routes.Flexible(route.Key, e.call.Version))
	if err != nil {
		return e.refusal(kindHeader, err)
	}
	if c.clientID != string(h.ClientID) {
		c.clientID = string(h.ClientID)
	}
	e.call.ClientID = c.clientID
	req := route.Key.NewRequest()
	if served {
		req.SetVersion(e.call.Version)
		e.flexible = req.IsFlexible() && route.Key != protocol.ApiVersions
		if err := c.parse(e, req, body); err != nil {
			return err
		}
	}
	e.call.Request = req
	return nil
}

// parse decodes a request body, with an eye on the memory that takes.
func (c *connection) parse(e *exchange, req kmsg.Request, body []byte) error {
	large := frame.SizeBytes+e.call.FrameBytes > readBuffer
	var err error
	switch {
	case e.call.Key == protocol.Produce:
		if err = protocol.CheckProduce(e.call.Version, body); err == nil {
			err = readFrom(req, body)
		}
	case large:
		return c.parseLarge(e, req, body)
	default:
		err = readFrom(req, body)
	}
	if err != nil {
		return e.refusal(kindBody, fmt.Errorf("malformed request: %w", err))
	}
	return nil
}

// parseLarge decodes the body of a request other than Produce for which the
// read buffer was too small. Its bytes are accounted for by what the request
// holds from now on, if that is worth mentioning.
func (c *connection) parseLarge(e *exchange, req kmsg.Request, body []byte) error {
	if err := c.reserve(e, expectedFactor*e.call.FrameBytes); err != nil {
		return err
	}
	s := c.server
	s.decoding.Lock()
	err := readFrom(req, body)
	held := protocol.Settle(req)
	s.decoding.Unlock()
	if err != nil {
		return e.refusal(kindBody, fmt.Errorf("malformed request: %w", err))
	}
	if held > protocol.HonestFactor*e.call.FrameBytes {
		return e.refusal(kindBody, fmt.Errorf("%w: %d bytes take %d", protocol.ErrInflated, e.call.FrameBytes, held))
	}
	if !e.call.Key.Borrows() {
		s.pool.put(e.body)
	} else {
		held += e.call.FrameBytes
	}
	e.body = nil
	if held < negligible {
		held = 0
	}
	s.budget.set(&e.held, int64(held))
	return nil
}

// readFrom decodes a request body.
func readFrom(req kmsg.Request, body []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in decoder: %v\n%s", p, debug.Stack())
		}
	}()
	return req.ReadFrom(body)
}

// serve runs the first stage of a decoded request.
func (c *connection) serve(e *exchange, route *protocol.Route) {
	stats := c.server.stats.Key(route.Key)
	stats.Requests.Add(1)
	stats.InFlight.Add(1)
	stats.BytesIn.Add(int64(frame.SizeBytes + e.call.FrameBytes))
	if !serves(route, e.call.Version) {
		// The one request that is answered although its version is not served.
		e.call.Version = 0
		e.answer(protocol.Response{Message: c.server.routes.UnsupportedApiVersions()})
		c.out.put(e)
		return
	}
	if route.Pipelined {
		// It may have to wait for the log, and the responses before it should not.
		c.out.pass()
	}
	e.handle(route)
	ready := e.done == nil
	c.out.put(e)
	if ready {
		return
	}
	if !route.Pipelined {
		c.before = e
	}
	c.out.pass()
}
