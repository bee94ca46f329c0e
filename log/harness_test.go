package log_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/log"
	"github.com/sluicemq/sluice/log/apply"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/vfs"
	"github.com/sluicemq/sluice/protocol/kerr"
	"github.com/sluicemq/sluice/txn/producer"
)

const dataDir = "var/data"

// options returns small options over fs: segments of 64 KiB, checkpoints every
// 4 KiB, reads from the disk. The parts in them are for one Open.
func options(fs *vfs.FS, dir string) log.Options {
	judge := producers{producer.New()}
	o := log.Options{
		FS: fs, Dir: dir, Meta: log.Meta{ClusterID: "cluster", NodeID: 1},
		Appliers: []apply.Applier{&partitions{}, judge}, Judge: judge,
		SegmentBytes: 64 << 10, TailBytes: 1, BacklogBytes: 1 << 20,
		FlushInterval: time.Millisecond, RetainEvery: time.Hour,
	}
	o.SetCheckpointBytes(4 << 10)
	return o
}

// settings changes options: what is to be the same whatever it says.
type settings func(o *log.Options)

// history is what a workload has done: ops that are in the log, in order, and
// behind them ops of which nobody knows.
type history struct {
	mu    sync.Mutex
	ops   []op     // all that are or may be in the log
	acked int      // how many from the front were answered
	freed []uint32 // segments that were freed
	life  map[string]int
}

func (h *history) count(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life == nil {
		h.life = map[string]int{}
	}
	h.life[what]++
}

func (h *history) snapshot() (ops []op, acked int, freed []uint32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ops[:len(h.ops):len(h.ops)], h.acked, h.freed[:len(h.freed):len(h.freed)]
}

// runner runs workloads against an engine that it may lose and open again.
type runner struct {
	fs      pebblevfs.FS
	change  []settings
	history history
	model   *model // after history.ops[:acked]
	log     *log.Log
	shared  atomic.Pointer[log.Log] // log, for other goroutines
}

func (r *runner) open() error {
	o := options(vfs.New(r.fs), dataDir)
	for _, change := range r.change {
		change(&o)
	}
	o.Events.Freed = func(number uint32) {
		r.history.count("freed")
		r.history.mu.Lock()
		r.history.freed = append(r.history.freed, number)
		r.history.mu.Unlock()
	}
	o.Events.Sealed = func(uint32, time.Duration) { r.history.count("sealed") }
	o.Events.CommitLog.Prepared = func(_ uint32, recycled bool, _ int64) {
		if recycled {
			r.history.count("recycled")
		}
	}
	l, err := log.Open(o)
	if err != nil {
		return err
	}
	// Of the ops that nobody knew of, the first are in the log.
	reached := int(l.Applied())
	if ops, acked, _ := r.history.snapshot(); reached < acked || reached > len(ops) {
		_ = l.Close()
		return fmt.Errorf("the log has %d entries; %d were acknowledged and %d sent", reached, acked, len(ops))
	}
	r.history.mu.Lock()
	r.history.ops, r.history.acked = r.history.ops[:reached:reached], reached
	r.model = newModel(r.history.ops)
	r.history.mu.Unlock()
	r.log = l
	r.shared.Store(l)
	return nil
}

// life returns how often what happened to segments.
func (r *runner) life() map[string]int {
	r.history.mu.Lock()
	defer r.history.mu.Unlock()
	return maps.Clone(r.history.life)
}

// tried is an op that was proposed.
type tried struct {
	op     op
	result chan entry.Result
}

func (t *tried) Done(_ *log.Proposal, r entry.Result) { t.result <- r }

// run proposes ops, some at a time, and checks each answer against the model. It
// stops at the first op of which nobody knows whether it is in the log, and
// returns how many ops it has dealt with.
func (r *runner) run(ops []op, atOnce int) (done int, err error) {
	for done < len(ops) {
		var batch []*tried
		for _, o := range ops[done:min(done+atOnce, len(ops))] {
			t := &tried{op: o, result: make(chan entry.Result, 1)}
			r.history.mu.Lock()
			r.history.ops = append(r.history.ops, o)
			r.history.mu.Unlock()
			p := &log.Proposal{Type: o.kind, Partition: o.partition, Payload: slices.Clone(o.payload), Waiter: t}
			if err := r.log.Propose(p); err != nil {
				r.history.mu.Lock()
				r.history.ops = r.history.ops[:len(r.history.ops)-1] // it is not, and will not be
				r.history.mu.Unlock()
				if kerr.Of(err) != kerr.KafkaStorageError {
					return done, fmt.Errorf("propose %v: %w", o.kind, err)
				}
				if len(batch) == 0 {
					return done, nil
				}
				break
			}
			batch = append(batch, t)
		}
		lost := false
		for i, t := range batch {
			got := <-t.result
			if storage := kerr.Of(log.Refusal(got.Err)) == kerr.KafkaStorageError; storage || lost {
				// Refused for want of room: it is not in the log. Otherwise nobody
				// knows; what is behind it either.
				if r.log.Healthy() == nil {
					r.forget(len(batch) - i)
				} else {
					lost = true
				}
				if !storage {
					return done, fmt.Errorf("op %d was answered behind one that failed", done)
				}
				done++
				continue
			}
			want := r.model.apply(&t.op)
			if kerr.Of(got.Err) != want.code || want.code == 0 && t.op.kind == entry.TypeProduce && (got.Offset != want.offset || got.Time != want.time) {
				return done, fmt.Errorf("op %d, %v on partition %d: answered %+v, want %+v", done, t.op.kind, t.op.partition, got, want)
			}
			r.history.mu.Lock()
			r.history.acked++
			r.history.mu.Unlock()
			done++
		}
		if lost {
			return done, nil
		}
	}
	return done, nil
}

// forget takes the op that is n from the end out of the history.
func (r *runner) forget(n int) {
	r.history.mu.Lock()
	i := len(r.history.ops) - n
	r.history.ops = slices.Delete(slices.Clone(r.history.ops), i, i+1)
	r.history.mu.Unlock()
}

// check fails unless a reader sees what the model has.
func (r *runner) check() error {
	got, err := look(r.log, 40, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		return err
	}
	if want := r.model.String(); got != want {
		return fmt.Errorf("readers see\n%swant\n%s%s", got, want, firstDifference(got, want))
	}
	if _, err := r.log.VerifyIndexes(); err != nil {
		return err
	}
	if n := r.log.BuffersInUse(); n != 0 {
		return fmt.Errorf("%d buffers were not given back", n)
	}
	if err := r.checkTimes(); err != nil {
		return err
	}
	return nil
}

// checkTimes looks records up by their time, and compares with the model.
func (r *runner) checkTimes() error {
	for p, m := range r.model.parts {
		got, err := r.log.MaxTime(p)
		if want := m.maxTime(); err != nil || got != want {
			return fmt.Errorf("partition %d [%d,%d): largest time is of %+v, %v, want %+v", p, m.start, m.end, got, err, want)
		}
		for _, t := range m.someTimes() {
			got, err := r.log.FindTime(p, t)
			if want := m.findTime(t); err != nil || got != want {
				return fmt.Errorf("partition %d [%d,%d): time %d is first at %+v, %v, want %+v", p, m.start, m.end, t, got, err, want)
			}
		}
	}
	return nil
}

func firstDifference(a, b string) string {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	return fmt.Sprintf("they part at %q and %q", cut(a[i:]), cut(b[i:]))
}

func cut(s string) string { return s[:min(len(s), 60)] }

// close closes the engine, if it is open.
func (r *runner) close() error {
	if r.log == nil {
		return nil
	}
	err := r.log.Close()
	if held := r.log.HeldBytes(); held != 0 && err == nil {
		err = fmt.Errorf("%d bytes of the log were not released", held)
	}
	r.log = nil
	return err
}

// must fails the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// names returns what is in the folder of the segments.
func names(fs pebblevfs.FS) []string {
	list, err := fs.List(fs.PathJoin(dataDir, "commitlog"))
	if err != nil {
		return nil
	}
	slices.Sort(list)
	return list
}

// stays fails if a file of a segment that was freed is there.
func stays(fs pebblevfs.FS, freed []uint32) error {
	for _, name := range names(fs) {
		for _, number := range freed {
			if strings.HasPrefix(name, fmt.Sprintf("%010d.", number)) {
				return fmt.Errorf("%s is there, of a segment that was freed", name)
			}
		}
	}
	return nil
}
