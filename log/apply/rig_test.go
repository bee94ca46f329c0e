package apply_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/sluicemq/sluice/log/apply"
	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/segment"
	"github.com/sluicemq/sluice/log/state"
	"github.com/sluicemq/sluice/log/vfs"
	"github.com/sluicemq/sluice/log/watch"
	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/protocol/kerr"
	"github.com/sluicemq/sluice/txn/producer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// parts is a part that makes and deletes partitions, and the real judge of
// idempotent producers.
type parts struct {
	live map[entry.Partition]bool
	*producer.Machine
}

func (s *parts) Types() []entry.Type {
	return append(s.Machine.Types(), entry.TypeCreateTopic, entry.TypeDeleteTopic)
}

func key(p entry.Partition) []byte {
	return binary.BigEndian.AppendUint64([]byte{byte(state.PrefixCatalog)}, uint64(p))
}

func (s *parts) Load(r entry.Reader, tx apply.Tx) error {
	s.live = map[entry.Partition]bool{}
	err := r.Scan([]byte{byte(state.PrefixCatalog)}, []byte{byte(state.PrefixCatalog) + 1}, func(key, _ []byte) bool {
		p := entry.Partition(binary.BigEndian.Uint64(key[1:]))
		s.live[p] = true
		tx.CreatePartition(p)
		return true
	})
	return errors.Join(err, s.Machine.Load(r))
}

var errUnreadable = errors.New("unreadable")

func (s *parts) Apply(e *entry.Entry, tx apply.Tx) entry.Result {
	switch {
	case len(e.Payload) > 0 && e.Type == entry.TypeCreateTopic:
		return entry.Result{Err: errUnreadable}
	case e.Type == entry.TypeCreateTopic && !s.live[e.Partition]:
		s.live[e.Partition] = true
		tx.Set(key(e.Partition), make([]byte, 100))
		tx.CreatePartition(e.Partition)
	case e.Type == entry.TypeDeleteTopic && s.live[e.Partition]:
		delete(s.live, e.Partition)
		tx.Delete(key(e.Partition))
		tx.DeletePartition(e.Partition)
	case e.Type == entry.TypeCreateTopic || e.Type == entry.TypeDeleteTopic:
		return entry.Result{Err: kerr.New(kerr.InvalidTopic, "it is so already")}
	default:
		return s.Machine.Apply(e, tx)
	}
	return entry.Result{}
}

func (s *parts) LogStart(entry.Partition, entry.Offset, entry.Writer) {}

func (s *parts) DeletePartition(p entry.Partition, _ entry.Writer) {
	s.Machine.DeletePartition(p)
}

func judged(head batch.Header) producer.Batch {
	return producer.Batch{
		ProducerID: head.ProducerID(), ProducerEpoch: head.ProducerEpoch(),
		BaseSequence: head.BaseSequence(), LastOffsetDelta: head.LastOffsetDelta(),
	}
}

func (s *parts) Judge(p entry.Partition, head batch.Header, e *entry.Entry) apply.Verdict {
	v := s.Machine.Judge(p, judged(head), e.Time)
	return apply.Verdict{Err: v.Err, Duplicate: v.Duplicate, Offset: v.Offset}
}

func (s *parts) Appended(p entry.Partition, head batch.Header, base entry.Offset, e *entry.Entry) {
	s.Machine.Appended(p, judged(head), base, e.Time, e.Index)
}

// rig is a Loop over a log, queues and a store of its own, on a file system that
// outlives it.
type rig struct {
	fs      pebblevfs.FS
	options apply.Options
	commits *commitlog.Log
	queues  *consumequeue.Set
	store   *state.Store
	hub     watch.Hub
	loop    *apply.Loop
	running sync.WaitGroup

	mu       sync.Mutex
	complete []consumequeue.Segment // guarded by mu
	stopped  []error                // guarded by mu
}

// start opens everything in fs and replays; visit may take the place of
// Loop.Replay.
func start(fs pebblevfs.FS, change func(*apply.Options), visit func(*rig, *commitlog.Group) error) (*rig, error) {
	return startWith(fs, change, visit, func(uint32) apply.SegmentState { return apply.SegmentOpen })
}

// mustStartWith starts where segments are in the given states.
func mustStartWith(t testing.TB, fs pebblevfs.FS, segments func(uint32) apply.SegmentState) *rig {
	t.Helper()
	r, err := startWith(fs, nil, nil, segments)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func startWith(
	fs pebblevfs.FS, change func(*apply.Options), visit func(*rig, *commitlog.Group) error, segments func(uint32) apply.SegmentState,
) (*rig, error) {
	r := &rig{fs: fs, queues: consumequeue.NewSet()}
	base := vfs.New(fs)
	var err error
	if r.store, err = state.Open(state.Options{FS: base, Dir: "state"}); err != nil {
		return nil, err
	}
	r.commits, err = commitlog.Open(commitlog.Options{
		FS: base, Dir: "commitlog", SegmentBytes: segment.MinBytes, Now: func() entry.Time { return 1_000_000 },
	})
	if err != nil {
		return nil, errors.Join(err, r.store.Close())
	}
	p := &parts{Machine: producer.New()}
	r.options = apply.Options{
		Log: r.commits, Queues: r.queues, Store: r.store, Hub: &r.hub, LeaderEpoch: 3,
		Appliers: []apply.Applier{p}, Judge: p,
		SegmentComplete: func(s consumequeue.Segment) {
			r.mu.Lock()
			r.complete = append(r.complete, s)
			r.mu.Unlock()
		},
		Stopped: func(err error) {
			r.mu.Lock()
			r.stopped = append(r.stopped, err)
			r.mu.Unlock()
		},
	}
	if change != nil {
		change(&r.options)
	}
	if r.loop, err = apply.New(r.options); err != nil {
		return nil, errors.Join(err, r.commits.Close(), r.store.Close())
	}
	err = r.loop.Load()
	if err == nil {
		err = r.loop.LoadQueues(segments)
	}
	if err == nil {
		_, err = r.commits.Replay(0, r.store.Applied(), func(g *commitlog.Group) error {
			if visit != nil {
				return visit(r, g)
			}
			return r.loop.Replay(g)
		})
	}
	if err != nil {
		return nil, errors.Join(err, r.stop())
	}
	r.running.Add(1)
	go func() { // ends when the log is drained
		defer r.running.Done()
		_ = r.loop.Run()
	}()
	return r, nil
}

func mustStart(t testing.TB, fs pebblevfs.FS, change func(*apply.Options)) *rig {
	t.Helper()
	r, err := start(fs, change, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// stop closes everything, without a checkpoint.
func (r *rig) stop() error {
	r.commits.Drain()
	r.running.Wait()
	err := r.commits.Close()
	r.loop.Close()
	r.queues.Close()
	return errors.Join(err, r.store.Close())
}

func (r *rig) mustStop(t testing.TB) {
	t.Helper()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
}

type waiter chan entry.Result

func (w waiter) Done(_ *commitlog.Proposal, r entry.Result) { w <- r }

// do proposes one entry and waits for the answer.
func (r *rig) do(kind entry.Type, p entry.Partition, payload []byte) entry.Result {
	w := make(waiter, 1)
	if err := r.commits.Propose(&commitlog.Proposal{Type: kind, Partition: p, Payload: payload, Waiter: w}); err != nil {
		return entry.Result{Err: err}
	}
	return <-w
}

func (r *rig) mustDo(t testing.TB, kind entry.Type, p entry.Partition, payload []byte) entry.Result {
	t.Helper()
	result := r.do(kind, p, payload)
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	return result
}

// refused fails unless the answer is a refusal with the code.
func refused(t testing.TB, result entry.Result, code kerr.Code) {
	t.Helper()
	if kerr.Of(result.Err) != code {
		t.Fatalf("answered %+v, want %v", result, code)
	}
}

// digest returns the state's digest, after a checkpoint.
func (r *rig) digest(t testing.TB) string {
	t.Helper()
	if err := r.loop.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	v := r.store.NewView()
	defer v.Close()
	sum, err := v.Digest(state.PrefixTail, state.PrefixFreed)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sum[:8])
}

// contents returns all batches of all queues.
func (r *rig) contents(t testing.TB) (all string) {
	t.Helper()
	for q := range r.queues.All() {
		start, end := q.Bounds()
		found, err := q.Find(start, end, 1<<40, make([]consumequeue.Located, 0, 10_000))
		if err != nil {
			t.Fatal(err)
		}
		all += fmt.Sprintf("%d [%d,%d) %v\n", q.Partition(), start, end, found)
	}
	return all
}

// records returns a batch of n records.
func records(n int, from *batch.Producer, attributes batch.Attributes, timestamp int64) []byte {
	var b batch.Builder
	for i := range n {
		b.Add(&batch.Record{Timestamp: timestamp, Value: fmt.Appendf(nil, "record %d", i)})
	}
	payload, err := b.Build(nil, nil, batch.Options{Producer: from, Attributes: attributes})
	if err != nil {
		panic(err)
	}
	return payload
}

func plain(n int) []byte { return records(n, nil, 0, 1000) }
