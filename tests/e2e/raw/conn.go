package raw

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// Limit is how long a broker may take for an answer. It is generous: tests
	// that are about time measure it themselves.
	Limit = 30 * time.Second
	// maxAnswer bounds what an answer of a wrong size can take of the memory.
	maxAnswer = 256 << 20
)

// Errors of Receive and Try.
var (
	// ErrClosed says that the broker closed the connection instead of answering.
	ErrClosed = errors.New("the broker closed the connection")
	// ErrSilent says that the broker neither answered nor closed in time.
	ErrSilent = errors.New("the broker does not answer")
)

// Header says how the header of requests is written. The zero value is the
// ordinary one with the client id "raw".
type Header struct {
	ClientID     string // "raw" if it is empty
	EmptyClient  bool   // the client id is empty
	NullClient   bool   // the client id is null
	Tags         []byte // count and tags as they stand in a flexible header; nil: none
	CorrelatesAt int32  // added to the correlation ids
}

// Conn is a connection. One goroutine may send while another receives.
type Conn struct {
	net.Conn
	t           testing.TB
	Header      Header
	correlation int32
}

// Dial connects to a broker. The connection is closed with the test.
func Dial(t testing.TB, addr string) *Conn {
	t.Helper()
	c, err := Connect(t, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the test may have closed it
	return c
}

// Connect is Dial for those who close the connection and look at the error
// themselves.
func Connect(t testing.TB, addr string) (*Conn, error) {
	c, err := net.DialTimeout("tcp", addr, Limit)
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: c, t: t}, nil
}

// Encode returns the frame of a request, with its size in front.
func (h Header) Encode(request kmsg.Request, correlation int32) []byte {
	id := h.ClientID
	if id == "" && !h.EmptyClient {
		id = "raw"
	}
	b := make([]byte, 4, 64)
	b = binary.BigEndian.AppendUint16(b, uint16(request.Key()))
	b = binary.BigEndian.AppendUint16(b, uint16(request.GetVersion()))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	if h.NullClient {
		b = append(b, 0xff, 0xff)
	} else {
		b = binary.BigEndian.AppendUint16(b, uint16(len(id)))
		b = append(b, id...)
	}
	if request.IsFlexible() {
		if h.Tags != nil {
			b = append(b, h.Tags...)
		} else {
			b = append(b, 0)
		}
	}
	b = request.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// Send writes a request and returns its correlation id.
func (c *Conn) Send(request kmsg.Request) (int32, error) {
	c.correlation++
	id := c.correlation + c.Header.CorrelatesAt
	return id, c.SendBytes(c.Header.Encode(request, id))
}

// SendBytes writes bytes as they are.
func (c *Conn) SendBytes(b []byte) error {
	if err := c.SetWriteDeadline(time.Now().Add(Limit)); err != nil {
		return ErrClosed
	}
	if _, err := c.Write(b); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return ErrSilent
		}
		return ErrClosed
	}
	return nil
}

// Receive reads a frame, without its size. It returns ErrClosed, or ErrSilent
// if nothing came within the limit.
func (c *Conn) Receive(limit time.Duration) ([]byte, error) {
	if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return nil, ErrClosed
	}
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, readError(err)
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxAnswer {
		return nil, fmt.Errorf("an answer of %d bytes", n)
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(c, frame); err != nil {
		return nil, fmt.Errorf("an answer that is cut off: %w", readError(err))
	}
	return frame, nil
}

func readError(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrSilent
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, net.ErrClosed):
		return ErrClosed
	}
	return err
}

// Decode reads the response to a request from its frame.
func Decode(request kmsg.Request, correlation int32, frame []byte) (kmsg.Response, error) {
	if len(frame) < 4 {
		return nil, fmt.Errorf("an answer of %d bytes", len(frame))
	}
	if got := int32(binary.BigEndian.Uint32(frame)); got != correlation {
		return nil, fmt.Errorf("correlation id %d in the answer, want %d", got, correlation)
	}
	body := frame[4:]
	response := request.ResponseKind()
	if response.IsFlexible() && request.Key() != int16(kmsg.ApiVersions) {
		if len(body) == 0 || body[0] != 0 {
			return nil, errors.New("tags, or nothing, in the header of the answer")
		}
		body = body[1:]
	}
	name := kmsg.NameForKey(request.Key())
	if err := response.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("%s v%d: the answer does not parse: %w", name, request.GetVersion(), err)
	}
	if again := response.AppendTo(nil); len(again) != len(body) {
		return nil, fmt.Errorf("%s v%d: an answer of %d bytes with %d bytes of content", name, request.GetVersion(), len(body), len(again))
	}
	return response, nil
}

// Try sends a request and returns the answer.
func (c *Conn) Try(request kmsg.Request) (kmsg.Response, error) {
	id, err := c.Send(request)
	if err != nil {
		return nil, err
	}
	frame, err := c.Receive(Limit)
	if err != nil {
		return nil, err
	}
	return Decode(request, id, frame)
}

// Ask sends a request of a version and returns the answer, or fails the test.
func Ask[R kmsg.Response](c *Conn, version int16, request kmsg.Request) R {
	c.t.Helper()
	request.SetVersion(version)
	response, err := c.Try(request)
	if err != nil {
		c.t.Fatalf("%s v%d: %v", kmsg.NameForKey(request.Key()), version, err)
	}
	return response.(R)
}

// WaitClosed returns when the broker has closed the connection, and fails the
// test if it does not, or answers.
func (c *Conn) WaitClosed() {
	c.t.Helper()
	frame, err := c.Receive(Limit)
	if !errors.Is(err, ErrClosed) {
		c.t.Fatalf("expected the connection to be closed, got %d bytes, %v", len(frame), err)
	}
}
