package conn

import (
	"bytes"
	"errors"
	"io"
	"os"

	"github.com/sluicemq/sluice/protocol"
	"github.com/sluicemq/sluice/protocol/frame"
)

const (
	// firstBuffer is what a frame that does not fit the read buffer gets at first,
	// growth what its buffer grows by when it is full.
	firstBuffer = 64 << 10
	growth      = 4
	// step is how much of a frame must arrive within a frame timeout.
	step = 1 << 20
)

// body returns the frame. For Produce, the exchange owns its bytes. For others
// they are either only good until the next read, or, where the API's requests
// borrow them, the garbage collector's.
func (c *connection) body(e *exchange, route *protocol.Route, size int) ([]byte, error) {
	if frame.SizeBytes+size > readBuffer {
		return c.largeBody(e, size)
	}
	b, err := c.fill(frame.SizeBytes + size)
	if err != nil {
		return nil, err
	}
	b = b[frame.SizeBytes:]
	switch {
	case route.Key == protocol.Produce:
		if err := c.reserve(e, size); err != nil {
			return nil, err
		}
		e.body = c.server.pool.get(size)
		copy(*e.body, b)
		b = *e.body
	case route.Key.Borrows():
		b = bytes.Clone(b)
	}
	// Discarding does not overwrite: the bytes are good until the next read.
	if _, err := c.in.Discard(frame.SizeBytes + size); err != nil {
		return nil, err
	}
	return b, nil
}

// largeBody reads a frame into a buffer that grows as bytes arrive, and is not
// made before the read buffer is full: announcing much costs the server nothing,
// and sending it costs the client a quarter of that.
func (c *connection) largeBody(e *exchange, size int) ([]byte, error) {
	if _, err := c.fill(readBuffer); err != nil {
		return nil, err
	}
	if _, err := c.in.Discard(frame.SizeBytes); err != nil {
		return nil, err
	}
	for n := 0; n < size; {
		if e.body == nil || n == len(*e.body) {
			if err := c.grow(e, n, min(size, max(firstBuffer, growth*n))); err != nil {
				return nil, err
			}
		}
		b := (*e.body)[n:min(len(*e.body), n+step)]
		if c.in.Buffered() < len(b) {
			if err := c.expect(); err != nil {
				return nil, err
			}
		}
		m, err := io.ReadFull(c.in, b)
		n += m
		if err != nil {
			return nil, c.lateBody(e, err)
		}
	}
	return *e.body, nil
}

// grow gives the exchange a buffer of the given length, with the n bytes of the
// one it has.
func (c *connection) grow(e *exchange, n, length int) error {
	if err := c.reserve(e, length); err != nil {
		return err
	}
	old := e.body
	e.body = c.server.pool.get(length)
	if old != nil {
		copy(*e.body, (*old)[:n])
		c.server.pool.put(old)
	}
	return nil
}

// reserve makes the exchange hold bytes of the budget, and waits if it has to.
func (c *connection) reserve(e *exchange, total int) error {
	w := c.server.budget.reserve(&e.held, int64(total))
	if w == nil {
		return nil
	}
	c.flush()
	err := c.wait(w.granted)
	if err != nil {
		c.server.budget.giveUp(w)
	}
	return err
}

// lateBody is late for a frame whose header has been consumed.
func (c *connection) lateBody(e *exchange, err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return io.EOF
	case !errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case c.isDraining():
		return errDraining
	}
	return e.refusal(kindSlow, errLate)
}
