package log

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicemq/sluice/log/apply"
	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/state"
	"github.com/sluicemq/sluice/log/vfs"
	"github.com/sluicemq/sluice/log/watch"
	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// ErrCorrupt says that bytes in a data folder are not what was written there.
// The text names the file, and the position in it.
var ErrCorrupt = errors.New("corrupt data folder")

// Options are the settings of a Log. FS, Dir, Meta, Appliers, Judge and
// Policies must be set; the zero value of the rest is its default.
type Options struct {
	FS  *vfs.FS
	Dir string
	// Meta is what a new folder is given. A folder that exists keeps its cluster
	// id, and must be of the same node.
	Meta Meta

	Appliers []apply.Applier
	Judge    apply.Judge
	// Policies yields how much of each partition is kept; partitions that it
	// leaves out are kept whole.
	Policies iter.Seq2[entry.Partition, consumequeue.Retention]

	SegmentBytes    int64               // 256 MiB
	Flush           commitlog.FlushMode // FlushSync
	FlushInterval   time.Duration       // 500 ms
	TailBytes       int64               // 64 MiB
	BacklogBytes    int64               // 64 MiB
	StateCacheBytes int64               // block cache of the state store; 16 MiB
	MinFreeBytes    int64               // room on the disk below which records are refused; 0 for none
	RetainEvery     time.Duration       // 5 minutes
	Events          Events
}

// Events tells what the engine does. Each function may be nil; they are called
// from the engine's goroutines and must return quickly.
type Events struct {
	CommitLog commitlog.Events
	State     state.Events
	// Sealed: the index file of a segment was written, in the time d.
	Sealed func(segment uint32, d time.Duration)
	// SealFailed: it could not be written; it is tried again.
	SealFailed func(segment uint32, err error)
	// Freed: a segment that nobody needs was dropped.
	Freed func(segment uint32)
	// RetainFailed: retention could not be carried out; it is tried again.
	RetainFailed func(err error)
	// Room: the room on the disk fell below MinFreeBytes (low), or rose above it.
	Room func(low bool, free uint64)
	// Stopped: the apply loop stopped on an error; nothing is written any more.
	Stopped func(err error)
}

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

	low      atomic.Bool // the disk has less room than MinFreeBytes
	seals    chan seal
	kicks    chan struct{} // asks the keeper for a round of retention
	closing  chan struct{}
	stopping sync.Once
	running  sync.WaitGroup
	recovery Recovery
}

// Proposal asks for one entry; see commitlog.Proposal.
type Proposal = commitlog.Proposal

// Propose puts a proposal behind all others. The waiter of a proposal for which
// Propose returned nil is told the result exactly once; an error from Propose
// carries a Kafka code and means that nothing was and nothing will be written.
// It blocks while too much waits to be appended.
func (l *Log) Propose(p *Proposal) error {
	if p.Type == entry.TypeProduce && l.low.Load() {
		return kerr.New(kerr.KafkaStorageError, "the disk has less than %d bytes left", l.options.MinFreeBytes)
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
// returned is in the result; the other one says that it was not appended.
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
	return queue.Size()
}

// Watch begins to wait for changes of partitions; see watch.Waiter.
func (l *Log) Watch(partitions []entry.Partition) *watch.Waiter { return l.hub.Watch(partitions) }

// Writable returns nil, or why records are refused at the moment.
func (l *Log) Writable() error {
	if err := l.Healthy(); err != nil {
		return err
	}
	if l.low.Load() {
		return fmt.Errorf("the disk has less than %d bytes left", l.options.MinFreeBytes)
	}
	return nil
}

// Healthy returns nil while the engine can do its work when there is room, or
// what only a restart can mend.
func (l *Log) Healthy() error {
	return errors.Join(l.loop.Err(), l.commits.Dead())
}

// Space returns the room on the disk of the data folder, in bytes; ok is false
// where it cannot be told.
func (l *Log) Space() (free, total uint64, ok bool) {
	space, ok, err := l.options.FS.Space(l.options.Dir)
	return space.Free, space.Total, ok && err == nil
}

// Segments returns how many segments the log has.
func (l *Log) Segments() int { return len(l.commits.Segments()) }

// Durable and Applied return the newest entry that is known to be durable, and
// the newest whose effects exist.
func (l *Log) Durable() entry.Index { return l.commits.DurableIndex() }

// Applied is described at Durable.
func (l *Log) Applied() entry.Index { return l.loop.Applied() }

// Recovery returns what Open found and did.
func (l *Log) Recovery() Recovery { return l.recovery }

func gone() error { return kerr.New(kerr.UnknownTopicOrPartition, "no such partition") }
