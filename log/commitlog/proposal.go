package commitlog

import (
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/segment"
)

// Proposal asks for one entry. Whoever proposes sets the exported fields before
// Propose, and changes none of them, nor a byte of Payload, until the proposal is
// completed. It may be used again after that.
type Proposal struct {
	Type      entry.Type
	Flags     uint8
	Partition entry.Partition
	Payload   []byte

	// Waiter is told when the proposal is completed. It may be nil.
	Waiter Waiter

	payloadSum uint32
	roll       chan error // the proposal asks for a roll instead of an entry
}

// Waiter is who waits for a proposal. Done is called exactly once for each
// proposal that Propose accepted: by the apply loop (Proposal.Complete) with what
// applying yielded, or by the log's append goroutine with an error for an entry
// that was not appended. It must not block and must not call the log.
type Waiter interface {
	Done(p *Proposal, r entry.Result)
}

// Complete tells the waiter the result. Who got the proposal from a Group calls
// it exactly once, and does not touch the proposal after that.
func (p *Proposal) Complete(r entry.Result) {
	if p.Waiter != nil {
		p.Waiter.Done(p, r)
	}
}

// bytes returns what the entry takes in a segment.
func (p *Proposal) bytes() int64 {
	return segment.EntryHeaderBytes + int64(len(p.Payload))
}
