package apply

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/segment"
	"github.com/sluicemq/sluice/log/state"
	"github.com/sluicemq/sluice/log/watch"
	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// Limits of what gathers between two checkpoints.
const (
	defaultBatchBytes = 4 << 20   // of the state batch
	defaultTailBytes  = 256 << 10 // of ConsumeQueue entries of the unsealed segment
)

// markBytes is how far apart the marks of a segment's index are.
const markBytes = 1 << 20

// ErrUnknownType is returned for an entry that no part applies: the log was
// written by a newer version.
var ErrUnknownType = errors.New("no part of this version applies entries of this type")

// Options put a Loop together. All fields but the limits must be set.
type Options struct {
	Log      *commitlog.Log
	Queues   *consumequeue.Set
	Store    *state.Store
	Hub      *watch.Hub
	Appliers []Applier
	Judge    Judge
	// SegmentComplete is called, with the loop held, when the last entry of a
	// segment has been applied and a checkpoint taken at it or behind it.
	SegmentComplete func(consumequeue.Segment)
	// Stopped is called once, with the loop held, when the loop breaks.
	Stopped func(error)
	// LeaderEpoch is written into the heads of batches before they are served.
	LeaderEpoch int32

	// A checkpoint is taken when the state batch, or the ConsumeQueue entries of
	// the unsealed segment, pass these limits; 0 means 4 MiB and 256 KiB.
	BatchBytes int
	TailBytes  int
}

// Loop applies entries one after the other. Run is called by one goroutine;
// the other methods may be called by any.
type Loop struct {
	options  Options
	appliers [256]Applier

	applied atomic.Uint64         // newest entry whose effects exist; stored with mu held
	broken  atomic.Pointer[error] // set once, with mu held: a bug or a failed checkpoint stops the loop
	bytes   atomic.Int64          // of entries that were looked at, with their headers

	mu      sync.Mutex // held while a group is applied; guards what follows
	batch   *state.Batch
	segment uint32                 // the segment of the newest entry
	end     int64                  // byte of it behind that entry
	terms   []consumequeue.TermRun // of that segment
	marks   []consumequeue.Mark    // of that segment
	tail    []byte                 // scratch: ConsumeQueue records of one checkpoint
	found   [1]consumequeue.Located
}

// New returns a Loop over a state store that has been opened. Load comes next.
func New(o Options) (*Loop, error) {
	if o.BatchBytes == 0 {
		o.BatchBytes = defaultBatchBytes
	}
	if o.TailBytes == 0 {
		o.TailBytes = defaultTailBytes
	}
	l := &Loop{options: o}
	for _, a := range o.Appliers {
		for _, t := range a.Types() {
			if l.Applies(t) {
				return nil, fmt.Errorf("two parts apply entries of type %s", t)
			}
			l.appliers[t] = a
		}
	}
	l.batch = o.Store.NewBatch()
	l.applied.Store(uint64(o.Store.Applied()))
	return l, nil
}

// Applies reports whether there is a part that applies entries of the type. An
// entry of another type must never get into the log: it would stop this node
// at once, and again at each start.
func (l *Loop) Applies(t entry.Type) bool {
	switch t {
	case entry.TypeNoop, entry.TypeProduce, entry.TypeLogStart:
		return true
	}
	return l.appliers[t] != nil
}

// Load lets every part rebuild its memory from the state store, and begins the
// partitions that exist.
func (l *Loop) Load() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.options.Appliers {
		if err := a.Load(l.batch, tx{l.batch, l, nil}); err != nil {
			return err
		}
	}
	return nil
}

// Replay applies a group that was read back at start-up. Entries up to the
// applied index are passed over: their effects are in the state store.
func (l *Loop) Replay(g *commitlog.Group) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.group(g)
	return l.Err()
}

// Run applies groups as the CommitLog commits them, until the log is closed.
// It returns nil then, or what stopped it.
func (l *Loop) Run() error {
	for {
		g, ok := l.options.Log.Next()
		if !ok {
			return l.Err()
		}
		l.mu.Lock()
		l.group(g)
		l.mu.Unlock()
		g.Release()
	}
}

// group applies a group. Once the loop is broken, proposers are only answered.
// Called with mu held.
func (l *Loop) group(g *commitlog.Group) {
	if g.Sealed != nil && l.Err() == nil {
		if err := l.segmentComplete(g.Sealed); err != nil {
			l.stop(err)
		}
	}
	l.segment = g.Segment
	for i := range g.Entries {
		c := &g.Entries[i]
		var result entry.Result
		err := l.Err()
		if err == nil {
			if result, err = l.apply(c); err != nil {
				l.stop(err)
			}
		}
		if err != nil {
			result = refuse(kerr.New(kerr.KafkaStorageError, "nothing can be written until a restart: %v", err))
		}
		size := segment.EntryHeaderBytes + int64(len(c.Payload))
		l.end = int64(c.Pos.At()) + size
		l.bytes.Add(size)
		if c.Proposal != nil {
			c.Proposal.Complete(result)
		}
	}
}

// stop breaks the loop, for good. The first reason stays. Called with mu held.
func (l *Loop) stop(err error) {
	if l.broken.Load() == nil {
		l.broken.Store(&err)
		l.options.Stopped(err)
	}
}

func (l *Loop) apply(c *commitlog.Committed) (entry.Result, error) {
	if n := len(l.terms); n == 0 || c.Term != l.terms[n-1].Term {
		l.terms = append(l.terms, consumequeue.TermRun{Term: c.Term, First: c.Index, At: c.Pos.At()})
	}
	if n := len(l.marks); n == 0 || c.Pos.At()-l.marks[n-1].At >= markBytes {
		l.marks = append(l.marks, consumequeue.Mark{Index: c.Index, At: c.Pos.At()})
	}
	applied := l.Applied()
	if c.Index <= applied {
		return entry.Result{}, nil
	}
	if c.Index != applied+1 {
		return entry.Result{}, fmt.Errorf("entry %d comes after applied index %d", c.Index, applied)
	}
	var result entry.Result
	switch c.Type {
	case entry.TypeNoop:
	case entry.TypeProduce:
		result = l.produce(c)
	case entry.TypeLogStart:
		result = l.logStart(&c.Entry)
	default:
		a := l.appliers[c.Type]
		if a == nil {
			return entry.Result{}, fmt.Errorf("entry %d at %s has type %s: %w", c.Index, c.Pos, c.Type, ErrUnknownType)
		}
		result = a.Apply(&c.Entry, tx{l.batch, l, c})
	}
	if result.Err != nil && !refusal(result.Err) {
		// The entry cannot be read, or a part is broken: going on would make
		// another state than that of a version that understands the entry.
		return result, fmt.Errorf("entry %d at %s, of type %s: %w", c.Index, c.Pos, c.Type, result.Err)
	}
	l.applied.Store(uint64(c.Index))
	if l.batch.Len() > l.options.BatchBytes || l.options.Queues.Undrained(l.segment) > l.options.TailBytes {
		return result, l.checkpoint()
	}
	return result, nil
}

// refusal reports whether an error is one that a client is to be told.
func refusal(err error) bool {
	var with *kerr.Error
	return errors.As(err, &with)
}

// segmentComplete ends a segment: its last entry has been applied.
func (l *Loop) segmentComplete(s *commitlog.Sealed) error {
	if applied := l.Applied(); s.LastIndex > applied {
		return fmt.Errorf("segment %d ends at %d, but applied is %d", s.Number, s.LastIndex, applied)
	}
	if err := l.checkpoint(); err != nil {
		return err
	}
	complete := consumequeue.Segment{
		Number: s.Number, End: s.End, First: s.FirstIndex, Last: s.LastIndex,
		LastTime: s.LastTime, ChainCRC: s.Chain, Terms: l.terms, Marks: l.marks,
	}
	l.terms, l.marks, l.end = nil, nil, 0
	l.options.SegmentComplete(complete)
	return nil
}

// Checkpoint makes the state store hold the state of the applied index, in
// memory; state.Store.Flush makes it durable. An error breaks the loop.
func (l *Loop) Checkpoint() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.Err(); err != nil {
		return err
	}
	err := l.checkpoint()
	if err != nil {
		l.stop(err)
	}
	return err
}

func (l *Loop) checkpoint() error {
	applied := l.Applied()
	// Nothing in the state store may be newer than what the log would still
	// have after a loss of power (flush=async applies before it is durable).
	if err := l.options.Log.SyncTo(applied); err != nil {
		return err
	}
	for _, a := range l.options.Appliers {
		a.Checkpoint(l.batch)
	}
	l.saveTail()
	if err := l.batch.Checkpoint(applied); err != nil {
		return fmt.Errorf("checkpoint at %d: %w", applied, err)
	}
	return nil
}

// Close gives up the state batch. Run must have ended.
func (l *Loop) Close() { l.batch.Close() }

// Applied returns the index of the newest entry whose effects exist.
func (l *Loop) Applied() entry.Index { return entry.Index(l.applied.Load()) }

// Bytes returns how many bytes of the log were applied, or passed over at the
// start, since the loop was made.
func (l *Loop) Bytes() int64 { return l.bytes.Load() }

// Err returns what stopped the loop, or nil. It never waits.
func (l *Loop) Err() error {
	if err := l.broken.Load(); err != nil {
		return *err
	}
	return nil
}

// Active returns the segment of the newest entry, and the byte in it behind that
// entry.
func (l *Loop) Active() (segment uint32, end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.segment, l.end
}

// tx is the Tx that appliers are given.
type tx struct {
	*state.Batch
	loop  *Loop
	entry *commitlog.Committed // nil in Load
}

func (t tx) CreatePartition(p entry.Partition) { t.loop.options.Queues.Create(p) }

func (t tx) DeletePartition(p entry.Partition) {
	t.loop.options.Queues.Delete(p)
	t.loop.options.Judge.DeletePartition(p, t)
	t.Delete(queueKey(p))
	t.loop.options.Hub.Notify(p)
}

func (t tx) Notify(p entry.Partition) { t.loop.options.Hub.Notify(p) }

func (t tx) AppendControl(p entry.Partition) (entry.Offset, bool) {
	queue := t.loop.options.Queues.Get(p)
	if queue == nil || t.entry == nil {
		return 0, false
	}
	head := batch.Header(t.entry.Payload)
	if len(head) < batch.HeaderSize || head.Size() > len(head) || head.LastOffsetDelta() != 0 {
		return 0, false
	}
	_, base := queue.Bounds()
	if base == math.MaxInt64 {
		return 0, false
	}
	queue.Put(t.entry.Pos.Segment(), consumequeue.Entry{
		BaseOffset:   base,
		MaxTimestamp: entry.Time(head.MaxTimestamp()),
		At:           t.entry.Pos.At(),
		Size:         uint32(len(t.entry.Payload)),
		Count:        1,
		Tags:         consumequeue.Control,
	})
	return base, true
}
