package txn

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/txn/kafka"
)

// Machine says what is due.
type Machine interface {
	// Overdue returns the ends of transactions that are open for too long.
	Overdue(now entry.Time) []kafka.End
	// Idle returns transactional ids to which nothing happened for the expiration, at
	// most so many.
	Idle(now entry.Time, expirationMs int64, most int) []string
}

// Options put a Keeper together. All but the times must be set.
type Options struct {
	Machine Machine
	// Abort puts the ends into the log and waits until they are applied. It returns an
	// error when one was not; it will be due again.
	Abort func(ctx context.Context, ends []kafka.End) error
	// Forget does the same for transactional ids.
	Forget func(ctx context.Context, expire *kafka.Expire) error
	// Expiration is after how long an idle transactional id is forgotten.
	Expiration time.Duration
	// Failed is told of errors of Abort and Forget, which are tried again.
	Failed func(error)

	CheckEvery  time.Duration // for time-outs; one second if 0
	ForgetEvery time.Duration // for idle ids; one minute if 0
}

// atOnce is how many transactions or ids are dealt with in one go.
const atOnce = 1000

// Keeper keeps the time for transactions.
type Keeper struct {
	options Options
	ctx     context.Context // ends with Stop
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// New returns a Keeper that does nothing yet.
func New(o Options) *Keeper {
	if o.CheckEvery == 0 {
		o.CheckEvery = time.Second
	}
	if o.ForgetEvery == 0 {
		o.ForgetEvery = time.Minute
	}
	k := &Keeper{options: o}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	return k
}

// Start begins. It is called when the log has been replayed.
func (k *Keeper) Start() {
	k.running.Add(1)
	go k.run()
}

// Stop ends it, and waits. A Keeper that was not started is stopped as well.
func (k *Keeper) Stop() {
	k.cancel()
	k.running.Wait()
}

func (k *Keeper) run() {
	defer k.running.Done()
	check := time.NewTicker(k.options.CheckEvery)
	defer check.Stop()
	forget := time.NewTicker(k.options.ForgetEvery)
	defer forget.Stop()
	for {
		select {
		case <-k.ctx.Done():
			return
		case <-check.C:
			k.abort()
		case <-forget.C:
			k.forget()
		}
	}
}

// abort ends what is open for too long.
func (k *Keeper) abort() {
	for due := k.options.Machine.Overdue(entry.TimeOf(time.Now())); len(due) > 0 && k.ctx.Err() == nil; {
		n := min(len(due), atOnce)
		if err := k.options.Abort(k.ctx, due[:n]); err != nil {
			k.failed(fmt.Errorf("abort transactions that took too long: %w", err))
			return
		}
		due = due[n:]
	}
}

// forget forgets idle ids.
func (k *Keeper) forget() {
	expire := kafka.Expire{ExpirationMs: k.options.Expiration.Milliseconds()}
	for k.ctx.Err() == nil {
		expire.IDs = k.options.Machine.Idle(entry.TimeOf(time.Now()), expire.ExpirationMs, atOnce)
		if len(expire.IDs) == 0 {
			return
		}
		if err := k.options.Forget(k.ctx, &expire); err != nil {
			k.failed(fmt.Errorf("forget idle transactional ids: %w", err))
			return
		}
	}
}

func (k *Keeper) failed(err error) {
	if k.ctx.Err() == nil {
		k.options.Failed(err)
	}
}
