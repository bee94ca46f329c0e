package diff

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// answerLimit is how long a broker may take to answer a request that it should answer.
const answerLimit = 20 * time.Second

// maxAnswer bounds an answer's size, so that a wrong length cannot take the machine's memory.
const maxAnswer = 128 << 20

var (
	// errClosed says that the broker closed the connection instead of answering.
	errClosed = errors.New("closed")
	// errSilent says that the broker neither answered nor closed within the time given.
	errSilent = errors.New("silent")
)

// conn is one TCP connection to a broker. It does not negotiate, retry, or hide anything.
type conn struct {
	net.Conn
	correlation int32
	limit       time.Duration // for an answer to come
}

func dial(addr string) (*conn, error) {
	c, err := net.DialTimeout("tcp", addr, answerLimit)
	if err != nil {
		return nil, fmt.Errorf("diff: connect: %w", err)
	}
	return &conn{Conn: c, limit: answerLimit}, nil
}

// header says how a request's header is to be written. The zero value is the ordinary one with
// client id "diff".
type header struct {
	clientID     *string
	nullClientID bool
	tags         []byte // count and tags as they stand in the header; nil for none
}

// encode builds the frame of a request, without the size in front.
func (h header) encode(req kmsg.Request, correlation int32) []byte {
	id := "diff"
	if h.clientID != nil {
		id = *h.clientID
	}
	b := binary.BigEndian.AppendUint16(nil, uint16(req.Key()))
	b = binary.BigEndian.AppendUint16(b, uint16(req.GetVersion()))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	if h.nullClientID {
		b = append(b, 0xff, 0xff)
	} else {
		b = binary.BigEndian.AppendUint16(b, uint16(len(id)))
		b = append(b, id...)
	}
	if req.IsFlexible() {
		if h.tags != nil {
			b = append(b, h.tags...)
		} else {
			b = append(b, 0)
		}
	}
	return req.AppendTo(b)
}

// send writes a frame with its size in front.
func (c *conn) send(frame []byte) error {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(frame)), uint32(len(frame)))
	_, err := c.Write(append(b, frame...))
	if err != nil {
		return errClosed
	}
	return nil
}

// receive reads one frame, without its size. It returns errClosed if the broker closed the
// connection, and errSilent if nothing came within the limit.
func (c *conn) receive(limit time.Duration) ([]byte, error) {
	if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return nil, errClosed
	}
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, errSilent
		}
		return nil, errClosed
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxAnswer {
		return nil, fmt.Errorf("diff: an answer of %d bytes", n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(c, b); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, fmt.Errorf("diff: answer cut off at its size: %w", err)
		}
		return nil, errClosed
	}
	return b, nil
}

// decode reads a response of the request's kind, header included.
func decode(req kmsg.Request, correlation int32, frame []byte) (kmsg.Response, error) {
	if len(frame) < 4 {
		return nil, fmt.Errorf("diff: an answer of %d bytes is too short for its header", len(frame))
	}
	if got := int32(binary.BigEndian.Uint32(frame)); got != correlation {
		return nil, fmt.Errorf("diff: correlation id %d, want %d", got, correlation)
	}
	body := frame[4:]
	resp := req.ResponseKind()
	if resp.IsFlexible() && req.Key() != int16(kmsg.ApiVersions) {
		if len(body) == 0 {
			return nil, errors.New("diff: no tags in the header of a flexible answer")
		}
		if body[0] != 0 {
			return nil, fmt.Errorf("diff: %d tags in the answer's header", body[0])
		}
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("diff: %s v%d answer does not parse: %w",
			kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	// What is encoded again must be what was sent: bytes left over would go unnoticed otherwise.
	if again := resp.AppendTo(nil); len(again) != len(body) {
		return nil, fmt.Errorf("diff: %s v%d answer has %d bytes, its content takes %d",
			kmsg.NameForKey(req.Key()), req.GetVersion(), len(body), len(again))
	}
	return resp, nil
}

// ask sends a request and returns its response.
func (c *conn) ask(req kmsg.Request, h header) (kmsg.Response, error) {
	c.correlation++
	if err := c.send(h.encode(req, c.correlation)); err != nil {
		return nil, err
	}
	frame, err := c.receive(c.limit)
	if err != nil {
		return nil, err
	}
	return decode(req, c.correlation, frame)
}
