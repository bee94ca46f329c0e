package broker

import (
	"context"
	"time"

	"github.com/sluicemq/sluice/log"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// command is an entry that a handler waits for.
type command struct {
	kind    entry.Type
	payload []byte
	result  entry.Result
	err     error // a refusal, also that of result
}

// patience is how long handlers wait for entries of requests that name no time.
const patience = 30 * time.Second

// do proposes the commands, in order, and waits until all are applied, or the
// time is up, or ctx ends, as it does when the client is gone and when the
// broker has waited for its answers long enough. Those that are not applied by
// then get REQUEST_TIMED_OUT, and may still come into effect. It fills in their
// results.
func (b *Broker) do(ctx context.Context, timeoutMs int32, commands []*command) {
	if len(commands) == 0 {
		return
	}
	timeout := patience
	if timeoutMs > 0 {
		timeout = time.Duration(timeoutMs) * time.Millisecond
	}
	done := make(chan answer, len(commands))
	waiting := 0
	for i, c := range commands {
		c.err = b.log.Propose(&log.Proposal{Type: c.kind, Payload: c.payload, Waiter: commandWaiter{done, i}})
		if c.err == nil {
			waiting++
			c.err = kerr.New(kerr.RequestTimedOut, "not done within %v", timeout)
		}
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for ; waiting > 0; waiting-- {
		select {
		case a := <-done:
			commands[a.index].result, commands[a.index].err = a.result, log.Refusal(a.result.Err)
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// doOne proposes one entry and waits for its result.
func (b *Broker) doOne(ctx context.Context, kind entry.Type, payload []byte) (entry.Result, error) {
	c := command{kind: kind, payload: payload}
	b.do(ctx, 0, []*command{&c})
	return c.result, c.err
}

type answer struct {
	index  int
	result entry.Result
}

// commandWaiter hands over the result of one command. The channel has room for
// all, so that the apply loop never waits.
type commandWaiter struct {
	done  chan<- answer
	index int
}

func (w commandWaiter) Done(_ *log.Proposal, r entry.Result) { w.done <- answer{w.index, r} }
