package protocol

import "sync/atomic"

// Promise is a Pending that its maker resolves later. It is safe for
// concurrent use.
type Promise struct {
	done     chan struct{}
	taken    atomic.Bool
	response Response
}

// NewPromise returns a Promise that is not resolved yet.
func NewPromise() *Promise { return &Promise{done: make(chan struct{})} }

// Resolve sets the response and reports true, if the promise had none. If it
// had one, r stays with the caller (its Release is not called) and Resolve
// reports false: so an answer and a time-out may race for the same promise.
func (p *Promise) Resolve(r Response) bool {
	if p.taken.Swap(true) {
		return false
	}
	p.response = r
	close(p.done)
	return true
}

// Done returns a channel that is closed when the promise is resolved.
func (p *Promise) Done() <-chan struct{} { return p.done }

// Response returns what the promise was resolved with.
func (p *Promise) Response() Response { return p.response }
