package log_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/log"
	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/state"
	"github.com/sluicemq/sluice/log/vfs/vfstest"
	"github.com/sluicemq/sluice/protocol/kerr"
)

func TestAnyFileOperationMayFailOnce(t *testing.T) {
	faults := map[string]*vfstest.Fault{
		"EIO": vfstest.EIO, "ENOSPC": vfstest.ENOSPC,
		"short EIO":    {Err: vfstest.EIO.Err, Short: 100},
		"short ENOSPC": {Err: vfstest.ENOSPC.Err, Short: 5000},
	}
	for name, fault := range faults {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			match := func(op vfstest.Op) bool {
				return op.Kind != vfstest.Close && (fault.Short == 0 || op.Kind == vfstest.Write)
			}
			outcomes := map[string]int{}
			step := every(5)
			for n := *firstFlag; ; n += int64(step) {
				outcome, err := failOnce(n, fault, match)
				if err != nil {
					t.Fatalf("operation %d: %v", n, err)
				}
				if outcome == "" {
					t.Logf("of %d operations every %d failed in turn: %v", n-1, step, outcomes)
					return
				}
				outcomes[outcome]++
			}
		})
	}
}

// failOnce runs a workload of which one operation fails, restarts the engine
// when it is the worse for it, and checks what is there. It returns what the
// fault came to: "" when there was none.
func failOnce(n int64, fault *vfstest.Fault, match func(vfstest.Op) bool) (outcome string, err error) {
	mem := pebblevfs.NewCrashableMem()
	fs := vfstest.New(mem)
	var failed atomic.Pointer[vfstest.Op]
	nth := vfstest.FailNth(n, fault, match)
	fs.Decide(func(op vfstest.Op) *vfstest.Fault {
		f := nth(op)
		if f != nil {
			failed.Store(&op)
		}
		return f
	})
	r := &runner{fs: fs}
	restart := func() error {
		err := r.open()
		if err != nil && failed.Load() != nil && strings.Contains(err.Error(), "temporarily unavailable") {
			// A dead state store keeps its lock until the process ends.
			mem = mem.CrashClone(pebblevfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
			r.fs = mem
			err = r.open()
		}
		return err
	}
	outcome, err = r.workloadWithFaults(newGenerator(7), 60, restart)
	op := failed.Load()
	if op == nil {
		return "", err
	}
	fs.Decide(nil)
	if err != nil {
		return "", fmt.Errorf("%v: %w", op, err)
	}
	ops, acked, freed := r.history.snapshot()
	for _, percent := range []int{0, 100} {
		clone := mem.CrashClone(pebblevfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(1, 1))})
		if err := recovers(clone, ops, acked, freed); err != nil {
			return "", fmt.Errorf("%v, then %d%% of what was not synced: %w", op, percent, err)
		}
	}
	return outcome, nil
}

// workloadWithFaults is workload where operations may fail: it goes on with the
// next op, or with a new start where the engine says that it needs one.
func (r *runner) workloadWithFaults(g *generator, n int, restart func() error) (outcome string, err error) {
	outcome = "unnoticed"
	for step := 0; n > 0; step++ {
		if r.log == nil {
			if err := restart(); err != nil {
				outcome = "start refused"
				if err := restart(); err != nil { // the fault comes once
					return "", err
				}
			}
		}
		some := min(n, 12)
		n -= some
		for ops := g.ops(some); len(ops) > 0; {
			done, err := r.run(ops, 1+step%5)
			if err != nil {
				return "", fmt.Errorf("step %d: %w", step, err)
			}
			if ops = ops[done:]; len(ops) == 0 {
				break
			}
			if r.log.Healthy() == nil {
				if done == 0 && r.log.Writable() == nil {
					return "", fmt.Errorf("step %d: an op was refused by a log that is healthy", step)
				}
				// The keeper found the state store failing; it tries again by itself.
				outcome = "refused for a while"
				for r.log.Writable() != nil {
					r.log.Look()
					runtime.Gosched()
				}
				continue
			}
			// What was there can still be read.
			if err := r.readable(); err != nil {
				return "", fmt.Errorf("step %d, not writable any more: %w", step, err)
			}
			outcome = "stopped writing"
			_ = r.close() // says why it stopped
			if err := restart(); err != nil {
				return "", fmt.Errorf("step %d: %w", step, err)
			}
		}
		if err := r.tend(step); err != nil {
			outcome = "told"
		}
		if r.log == nil {
			continue
		}
		if err := r.check(); err != nil && r.log.Healthy() == nil {
			if err = r.check(); err != nil { // a read may fail once
				return "", fmt.Errorf("step %d: %w", step, err)
			}
			outcome = "read failed"
		}
	}
	if r.log != nil {
		if err := r.close(); err != nil && outcome == "unnoticed" {
			outcome = "close failed"
		}
	}
	return outcome, nil
}

// tend does what workload does between its steps.
func (r *runner) tend(step int) error {
	switch step % 4 {
	case 0:
		return r.log.Free()
	case 1:
		return r.log.Roll()
	case 2:
		return r.log.Checkpoint(true)
	}
	return r.close()
}

// readable fails if what was acknowledged cannot be read. Where nobody knows of
// some ops, readers may see more.
func (r *runner) readable() error {
	_, err := look(r.log, 40, rand.New(rand.NewPCG(1, 1)))
	return err
}

// ofSegment reports whether an operation is on the file of a segment, which keeps
// the name that it was made under.
func ofSegment(op vfstest.Op) bool {
	return strings.Contains(op.Path, "commitlog/") && (strings.HasSuffix(op.Path, ".log") || strings.HasSuffix(op.Path, "prepare.tmp"))
}

// After an fdatasync of the log failed nothing is acknowledged any more, even
// though later ones would work.
func TestAFailedFdatasyncIsFinal(t *testing.T) {
	mem := pebblevfs.NewCrashableMem()
	fs := vfstest.New(mem)
	r := &runner{fs: fs}
	must(t, r.open())
	g := newGenerator(3)
	_, err := r.run(g.ops(10), 1)
	must(t, err)
	fs.Decide(vfstest.FailNth(1, vfstest.EIO, func(op vfstest.Op) bool {
		return op.Kind == vfstest.Sync && ofSegment(op)
	}))
	durable := r.log.Durable()
	for range 20 {
		if _, err := r.log.Do(entry.TypeNoop, 0, nil); kerr.Of(err) != kerr.KafkaStorageError {
			t.Fatalf("an entry was answered with %v", err)
		}
		if err := r.log.Healthy(); !errors.Is(err, commitlog.ErrDead) {
			t.Fatalf("the log calls itself %v", err)
		}
	}
	if got := r.log.Durable(); got != durable {
		t.Errorf("durable up to %d, was %d", got, durable)
	}
	must(t, r.readable())
	must(t, r.close())
	r.fs = mem.CrashClone(pebblevfs.CrashCloneCfg{}) // all that was acknowledged is safe
	must(t, r.open())
	must(t, r.check())
	must(t, r.close())
}

// When the state store dies the log must not go on alone: what it took would be
// refused to its proposer, and come into effect at the next start.
func TestNothingEntersTheLogOnceItCannotBeApplied(t *testing.T) {
	mem := pebblevfs.NewCrashableMem()
	fs := vfstest.New(mem)
	stopped := make(chan error, 1)
	r := &runner{fs: fs, change: []settings{func(o *log.Options) {
		o.Events.Stopped = func(err error) { stopped <- err }
	}}}
	must(t, r.open())
	g := newGenerator(3)
	_, err := r.run(g.ops(20), 1)
	must(t, err)
	fs.Decide(func(op vfstest.Op) *vfstest.Fault {
		if strings.Contains(op.Path, "MANIFEST") {
			return vfstest.EIO
		}
		return nil
	})
	_ = r.log.Checkpoint(true)
	err = r.log.Checkpoint(false) // the store is dead
	if !errors.Is(err, state.ErrDead) {
		t.Fatalf("checkpoint: %v", err)
	}
	if err := <-stopped; !errors.Is(err, state.ErrDead) {
		t.Errorf("told: %v", err)
	}
	before := r.log.Durable()
	if _, err := r.log.Do(entry.TypeProduce, 1, records("x", 1)); err == nil {
		t.Error("a record was acknowledged")
	}
	if err := r.log.Healthy(); !errors.Is(err, state.ErrDead) {
		t.Errorf("healthy: %v", err)
	}
	if after := r.log.Durable(); after != before {
		t.Errorf("the log went on from entry %d to %d", before, after)
	}
	must(t, r.readable())
	_ = r.close()
	// A new process finds all that was acknowledged.
	r.fs = mem.CrashClone(pebblevfs.CrashCloneCfg{})
	must(t, r.open())
	must(t, r.check())
	must(t, r.close())
}
