package apply

import (
	"errors"
	"fmt"
	"sync"

	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/state"
	"github.com/sluicemq/sluice/log/watch"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// Limits of what gathers between two checkpoints.
const (
	maxBatchBytes = 4 << 20   // of the state batch
	maxTailBytes  = 256 << 10 // of ConsumeQueue entries of the unsealed segment
)

// markBytes is how far apart the marks of a segment's index are.
const markBytes = 1 << 20

// ErrUnknownType is returned for an entry that no part applies: the log was
// written by a newer version.
var ErrUnknownType = errors.New("no part of this version applies entries of this type")

// Options put a Loop together. All fields must be set.
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
	// LeaderEpoch is written into the heads of batches before they are served.
	LeaderEpoch int32
}

// Loop applies entries one after the other. Run is called by one goroutine;
// the other methods may be called by any.
type Loop struct {
	options  Options
	appliers [256]Applier

	mu      sync.Mutex // held while a group is applied; guards what follows
	batch   *state.Batch
	applied entry.Index            // newest entry whose effects exist
	segment uint32                 // the segment of the newest entry
	terms   []consumequeue.TermRun // of that segment
	marks   []consumequeue.Mark    // of that segment
	tail    []byte                 // scratch: ConsumeQueue records of one checkpoint
	broken  error                  // sticky: a bug or a failed checkpoint stops the loop
	found   [1]consumequeue.Located
}

// New returns a Loop over a state store that has been opened. Load comes next.
func New(o Options) (*Loop, error) {
	l := &Loop{options: o, batch: o.Store.NewBatch(), applied: o.Store.Applied()}
	for _, a := range o.Appliers {
		for _, t := range a.Types() {
			if l.appliers[t] != nil {
				return nil, fmt.Errorf("two parts apply entries of type %s", t)
			}
			l.appliers[t] = a
		}
	}
	return l, nil
}

// Load lets every part rebuild its memory from the state store, and begins the
// partitions that exist.
func (l *Loop) Load() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.options.Appliers {
		if err := a.Load(l.batch, tx{l.batch, l}); err != nil {
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
	return l.broken
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
func (l *Loop) group(g *commitlog.Group) {
	if g.Sealed != nil && l.broken == nil {
		l.broken = l.segmentComplete(g.Sealed)
	}
	l.segment = g.Segment
	for i := range g.Entries {
		c := &g.Entries[i]
		var result entry.Result
		if l.broken == nil {
			result, l.broken = l.apply(c)
		}
		if l.broken != nil {
			result = refuse(kerr.New(kerr.KafkaStorageError, "entry %d was not applied: %v", c.Index, l.broken))
		}
		if c.Proposal != nil {
			c.Proposal.Complete(result)
		}
	}
}

func (l *Loop) apply(c *commitlog.Committed) (entry.Result, error) {
	if n := len(l.terms); n == 0 || c.Term != l.terms[n-1].Term {
		l.terms = append(l.terms, consumequeue.TermRun{Term: c.Term, First: c.Index, At: c.Pos.At()})
	}
	if n := len(l.marks); n == 0 || c.Pos.At()-l.marks[n-1].At >= markBytes {
		l.marks = append(l.marks, consumequeue.Mark{Index: c.Index, At: c.Pos.At()})
	}
	if c.Index <= l.applied {
		return entry.Result{}, nil
	}
	if c.Index != l.applied+1 {
		return entry.Result{}, fmt.Errorf("entry %d comes after applied index %d", c.Index, l.applied)
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
		result = a.Apply(&c.Entry, tx{l.batch, l})
		if refusal := new(kerr.Error); result.Err != nil && !errors.As(result.Err, &refusal) {
			return result, result.Err // the entry cannot be read: going on would make another state
		}
	}
	l.applied = c.Index
	if l.batch.Len() > maxBatchBytes || l.options.Queues.Undrained(l.segment) > maxTailBytes {
		return result, l.checkpoint()
	}
	return result, nil
}

// segmentComplete ends a segment: its last entry has been applied.
func (l *Loop) segmentComplete(s *commitlog.Sealed) error {
	if s.LastIndex > l.applied {
		return fmt.Errorf("segment %d ends at %d, but applied is %d", s.Number, s.LastIndex, l.applied)
	}
	if err := l.checkpoint(); err != nil {
		return err
	}
	segment := consumequeue.Segment{
		Number: s.Number, End: s.End, First: s.FirstIndex, Last: s.LastIndex,
		LastTime: s.LastTime, ChainCRC: s.Chain, Terms: l.terms, Marks: l.marks,
	}
	l.terms, l.marks = nil, nil
	l.options.SegmentComplete(segment)
	return nil
}

// Checkpoint makes the state store hold the state of the applied index, in
// memory; state.Store.Flush makes it durable.
func (l *Loop) Checkpoint() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == nil {
		l.broken = l.checkpoint()
	}
	return l.broken
}

func (l *Loop) checkpoint() error {
	// Nothing in the state store may be newer than what the log would still
	// have after a loss of power (flush=async applies before it is durable).
	if err := l.options.Log.SyncTo(l.applied); err != nil {
		return err
	}
	for _, a := range l.options.Appliers {
		a.Checkpoint(l.batch)
	}
	l.saveTail()
	if err := l.batch.Checkpoint(l.applied); err != nil {
		return fmt.Errorf("checkpoint at %d: %w", l.applied, err)
	}
	return nil
}

// Close gives up the state batch. Run must have ended.
func (l *Loop) Close() { l.batch.Close() }

// Applied returns the index of the newest entry whose effects exist.
func (l *Loop) Applied() entry.Index {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.applied
}

// Err returns what stopped the loop, or nil.
func (l *Loop) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}

// tx is the Tx that appliers are given.
type tx struct {
	*state.Batch
	loop *Loop
}

func (t tx) CreatePartition(p entry.Partition) { t.loop.options.Queues.Create(p) }

func (t tx) DeletePartition(p entry.Partition) {
	t.loop.options.Queues.Delete(p)
	t.loop.options.Judge.DeletePartition(p)
	t.Delete(queueKey(p))
	t.loop.options.Hub.Notify(p)
}
