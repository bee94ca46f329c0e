package conn

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/sluicemq/sluice/protocol"
	"github.com/sluicemq/sluice/protocol/frame"
)

var (
	errNoPending = errors.New("the handler returned no pending response")
	errNotOne    = errors.New("the handler's response is none, or more than one")
)

// exchange is one request and its response. It is the Lease of its Call.
type exchange struct {
	call     protocol.Call
	conn     *connection
	pending  protocol.Pending
	done     <-chan struct{} // closed when pending is resolved; nil if it was from the start
	flexible bool            // the response header is

	body  *[]byte // the bytes of the request, where they are borrowed
	held  reservation
	users atomic.Int32 // of body: this connection, and who called Retain
	gone  bool         // the connection is none any more
}

// Retain implements protocol.Lease.
func (e *exchange) Retain() { e.users.Add(1) }

// Release implements protocol.Lease.
func (e *exchange) Release() {
	switch n := e.users.Add(-1); {
	case n == 0:
		e.conn.server.pool.put(e.body)
		e.conn.server.budget.set(&e.held, 0)
	case n < 0:
		// The buffer may be somebody else's by now.
		e.conn.refuse(e.refusal(kindBug, fmt.Errorf("bytes released more often than retained\n%s", debug.Stack())))
		e.conn.abort()
	}
}

// refusal returns err as the reason to close the connection at this request.
func (e *exchange) refusal(k kind, err error) *refusal {
	return &refusal{
		kind:     k,
		header:   frame.Header{Key: int16(e.call.Key), Version: e.call.Version, CorrelationID: e.call.CorrelationID},
		clientID: e.call.ClientID,
		err:      err,
	}
}

func (e *exchange) panicked(where string, p any) *refusal {
	return e.refusal(kindBug, fmt.Errorf("panic in %s: %v\n%s", where, p, debug.Stack()))
}

// answer makes r the response.
func (e *exchange) answer(r protocol.Response) { e.pending, e.done = protocol.Ready(r), nil }

// handle runs the first stage. What goes wrong in it closes the connection.
func (e *exchange) handle(route *protocol.Route) {
	defer func() {
		if p := recover(); p != nil {
			e.answer(protocol.Response{Close: e.panicked("handler", p)})
		}
	}()
	e.pending = route.Handle(e.conn.ctx, &e.call)
	switch {
	case e.pending == nil:
		e.answer(protocol.Response{Close: e.refusal(kindBug, errNoPending)})
	case !protocol.Resolved(e.pending):
		e.done = e.pending.Done()
	}
}

// isReady reports whether the response is there.
func (e *exchange) isReady() bool {
	if e.done == nil {
		return true
	}
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// response returns the response. A panic on the way closes the connection.
func (e *exchange) response() (r protocol.Response) {
	defer func() {
		if p := recover(); p != nil {
			r = protocol.Response{Close: e.panicked("pending response", p)}
		}
	}()
	return e.pending.Response()
}

// encode appends the response frame to dst, without the buffers of r.Frame,
// which belong behind it; their length is extra. A panic on the way is an
// error.
func (e *exchange) encode(dst []byte, r *protocol.Response) (out []byte, extra int, err error) {
	start := len(dst)
	defer func() {
		if p := recover(); p != nil {
			out, extra, err = dst[:start], 0, e.panicked("encoding", p)
		}
	}()
	out = frame.Begin(dst, e.call.CorrelationID, e.flexible)
	if r.Message != nil {
		if key := protocol.Key(r.Message.Key()); key != e.call.Key {
			return dst, 0, e.refusal(kindBug, fmt.Errorf("the response is one of %v", key))
		}
		r.Message.SetVersion(e.call.Version)
		out = r.Message.AppendTo(out)
	}
	for _, b := range r.Frame {
		extra += len(b)
	}
	if err := frame.End(out[start:], extra); err != nil {
		return dst, 0, e.refusal(kindBug, err)
	}
	return out, extra, nil
}

// wellFormed reports whether exactly one of the things a response may be is set.
func wellFormed(r *protocol.Response) bool {
	n := 0
	for _, set := range [...]bool{r.Message != nil, r.Frame != nil, r.None, r.Close != nil} {
		if set {
			n++
		}
	}
	return n == 1
}

// letGo gives up the connection's hold of the request's bytes, if that was not
// done before. The response does not point into them any more.
func (e *exchange) letGo() {
	if !e.gone {
		e.gone = true
		e.Release()
	}
}

// finish counts the exchange out. It is called once, when the response was
// written, with its size, or never will be.
func (e *exchange) finish(r *protocol.Response, written int, now time.Time) {
	if r.Release != nil {
		e.guard("release", r.Release)
	}
	e.letGo()
	if e.call.Request == nil {
		return // a refusal, which was not counted in
	}
	stats := e.conn.server.stats.Key(e.call.Key)
	stats.InFlight.Add(-1)
	stats.BytesOut.Add(int64(written))
	stats.Latency.add(now.Sub(e.call.Received))
}

// guard calls a function of the handler's. A panic in it closes the connection.
func (e *exchange) guard(what string, f func()) {
	defer func() {
		if p := recover(); p != nil {
			e.conn.refuse(e.panicked(what, p))
			e.conn.abort()
		}
	}()
	f()
}
