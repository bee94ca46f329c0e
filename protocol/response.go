package protocol

import (
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Response is the answer to a call. Exactly one of Message, Frame, None and
// Close is set; anything else is a bug of the handler, and closes the
// connection.
type Response struct {
	// Message is the response body. It belongs to the connection from now on,
	// which sets its version to that of the request, encodes and drops it.
	Message kmsg.Response

	// Frame is a response body that is encoded already, in the version of the
	// request, without header. The buffers are sent as they are, in one vectored
	// write with their neighbours, and must not change before Release is called.
	Frame net.Buffers

	// None says that the request gets no response (Produce with acks=0).
	None bool

	// Close ends the connection after the responses before this one have been
	// sent; the error says why, in one log line.
	Close error

	// Release, if not nil, is called exactly once when Frame or Message is no
	// longer needed: it was written, or never will be.
	Release func()
}

// Pending is a response that may be still to come.
type Pending interface {
	// Done returns a channel that is closed when the response is there. Every
	// call returns a channel with that property.
	Done() <-chan struct{}
	// Response returns the response. It is called once, after Done is closed.
	Response() Response
}

// Ready returns a Pending that is resolved with r.
func Ready(r Response) Pending { return &ready{r} }

// Answer returns a Pending that is resolved with the message m.
func Answer(m kmsg.Response) Pending { return &ready{Response{Message: m}} }

// Resolved reports whether the response of p is there.
func Resolved(p Pending) bool {
	if _, ok := p.(*ready); ok {
		return true
	}
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

type ready struct{ response Response }

func (r *ready) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

func (r *ready) Response() Response { return r.response }
