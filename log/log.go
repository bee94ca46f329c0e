package log

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/sluicemq/sluice/log/apply"
	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/state"
	"github.com/sluicemq/sluice/log/watch"
	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// ErrCorrupt says that bytes in a data folder are not what was written there.
// The text names the file, and the position in it.
var ErrCorrupt = errors.New("corrupt data folder")

// Log is the storage engine over one data folder. Its methods may be called by
// any goroutine.
type Log struct {
	options Options
	meta    Meta
	lock    io.Closer

	commits *commitlog.Log
	queues  *consumequeue.Set
	store   *state.Store
	hub     watch.Hub
	loop    *apply.Loop
	codecs  *batch.Codecs
	buffers bufferPool

	sealer sealer
	keeper keeper

	closing  chan struct{} // closed when Close begins
	stopping sync.Once
	applying sync.WaitGroup // the goroutine of the apply loop
	running  sync.WaitGroup // the sealer and the keeper
	recovery Recovery

	// refusal is why records are refused for now, although the log could take
	// them; nil if they are not. The keeper sets it.
	refusal atomic.Pointer[error]
}

// Proposal asks for one entry; see commitlog.Proposal.
type Proposal = commitlog.Proposal

// Propose puts a proposal behind all others. The waiter of a proposal for which
// Propose returned nil is told the result exactly once; an error from Propose
// carries a Kafka code and means that nothing was and nothing will be written.
// It blocks while too much waits to be appended.
func (l *Log) Propose(p *Proposal) error {
	if !l.loop.Applies(p.Type) {
		return kerr.New(kerr.UnknownServerError, "no part of the broker applies entries of type %s", p.Type)
	}
	if err := l.loop.Err(); err != nil {
		// The entry would be in the log, and come into effect at the next start
		// although its proposer was told that it failed.
		return kerr.New(kerr.KafkaStorageError, "nothing can be written until a restart: %v", err)
	}
	if p.Type == entry.TypeProduce {
		if refusal := l.refusal.Load(); refusal != nil {
			return kerr.New(kerr.KafkaStorageError, "%v", *refusal)
		}
	}
	if err := l.commits.Propose(p); err != nil {
		return Refusal(err)
	}
	return nil
}

// Refusal gives an error of the commit log the Kafka code that clients get.
// Errors that carry one already are returned as they are.
func Refusal(err error) error {
	switch {
	case err == nil || kerr.Of(err) != kerr.UnknownServerError:
		return err
	case errors.Is(err, commitlog.ErrTooLarge):
		return kerr.New(kerr.RecordListTooLarge, "the batch is larger than a segment of the log")
	default:
		return kerr.New(kerr.KafkaStorageError, "%v", err)
	}
}

// Do proposes an entry and waits until it is applied. An error that the applier
// returned is in the result too; then the entry is in the log, and changed
// nothing.
func (l *Log) Do(t entry.Type, p entry.Partition, payload []byte) (entry.Result, error) {
	w := make(waiter, 1)
	if err := l.Propose(&Proposal{Type: t, Partition: p, Payload: payload, Waiter: w}); err != nil {
		return entry.Result{}, err
	}
	r := <-w
	return r, Refusal(r.Err)
}

// waiter hands the result of one proposal to whoever waits.
type waiter chan entry.Result

func (w waiter) Done(_ *commitlog.Proposal, r entry.Result) { w <- r }

// Meta returns what the data folder says of itself.
func (l *Log) Meta() Meta { return l.meta }

// Codecs returns the decoders that the engine uses, for others to share.
func (l *Log) Codecs() *batch.Codecs { return l.codecs }

// Bounds returns the log start offset and the end of a partition; ok is false
// when there is no such partition. The end is Kafka's high watermark: what lies
// below it is durable (in FlushAsync: written) and can be read.
func (l *Log) Bounds(p entry.Partition) (start, end entry.Offset, ok bool) {
	queue := l.queues.Get(p)
	if queue == nil {
		return 0, 0, false
	}
	start, end = queue.Bounds()
	return start, end, true
}

// Size returns the bytes of a partition's record batches.
func (l *Log) Size(p entry.Partition) (int64, error) {
	queue := l.queues.Get(p)
	if queue == nil {
		return 0, gone()
	}
	size, err := queue.Size()
	if err != nil {
		return 0, readRefusal(err)
	}
	return size, nil
}

// Watch begins to wait for changes of partitions; see watch.Waiter.
func (l *Log) Watch(partitions []entry.Partition) *watch.Waiter { return l.hub.Watch(partitions) }

// Writable returns nil, or why records are refused at the moment.
func (l *Log) Writable() error {
	if err := l.Healthy(); err != nil {
		return err
	}
	if refusal := l.refusal.Load(); refusal != nil {
		return *refusal
	}
	return nil
}

// Healthy returns nil while the engine can do its work when there is room, or
// what only a restart can mend.
func (l *Log) Healthy() error {
	err := l.store.Health()
	if !errors.Is(err, state.ErrDead) {
		err = nil
	}
	return errors.Join(l.loop.Err(), l.commits.Dead(), err)
}

// Space returns the room on the disk of the data folder, in bytes; ok is false
// where it cannot be told.
func (l *Log) Space() (free, total uint64, ok bool) {
	space, ok, err := l.options.FS.Space(l.options.Dir)
	return space.Free, space.Total, ok && err == nil
}

// Segments returns how many segments the log has.
func (l *Log) Segments() int { return len(l.commits.Segments()) }

// Durable returns the newest entry that is known to be durable.
func (l *Log) Durable() entry.Index { return l.commits.DurableIndex() }

// Applied returns the newest entry whose effects exist.
func (l *Log) Applied() entry.Index { return l.loop.Applied() }

// Recovery returns what Open found and did.
func (l *Log) Recovery() Recovery { return l.recovery }

func gone() error { return kerr.New(kerr.UnknownTopicOrPartition, "no such partition") }

// closed reports whether Close was called.
func (l *Log) closed() bool {
	select {
	case <-l.closing:
		return true
	default:
		return false
	}
}

// errClosed is what readers get instead of nothing once the files are closed.
func errClosed() error { return kerr.New(kerr.KafkaStorageError, "the log is closed") }
