package commitlog_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/vfs/vfstest"
)

// history is what a workload sent and what it was told.
type history struct {
	sent  atomic.Int64 // proposals begun, of payloads text(0..)
	acked atomic.Int64 // proposals of which all before, and itself, were answered without error
}

// stride is how many operations there are for each that is looked at: all without
// the race detector, which makes everything slow.
var stride = map[bool]int64{false: 1, true: 11}[raceEnabled]

// size is how long the i-th payload of a workload is.
func size(i int) int { return 8 + (i*7919)%9000 }

// workload proposes n payloads, some at a time, with rolls in between, and drops
// the older segments. It stops at the first error of the log.
func workload(r *running, h *history, n int) error {
	for i := 0; i < n; {
		var batch []*ticket
		for range 1 + i%7 {
			if i == n {
				break
			}
			t := newTicket(text(i, size(i)))
			h.sent.Add(1)
			if err := r.Propose(&t.Proposal); err != nil {
				return err
			}
			batch = append(batch, t)
			i++
		}
		for _, t := range batch {
			if res := <-t.result; res.Err != nil {
				return res.Err
			}
			h.acked.Add(1)
		}
		if i%29 == 0 {
			if err := r.Roll(); err != nil {
				return err
			}
		}
		for s := r.Segments(); len(s) > 3; s = s[1:] {
			if err := r.Drop(s[0].Number); err != nil {
				return err
			}
		}
	}
	return nil
}

// check opens what a crash left behind and fails unless everything up to acked is
// there, nothing but what was sent, in order, and the log goes on working.
func check(fs *pebblevfs.MemFS, acked, sent int64) error {
	for round := range 2 {
		o := options(fs)
		r, err := start(o, entry.Index(acked))
		if err != nil {
			return fmt.Errorf("start %d: %w", round, err)
		}
		// What a start gives to the apply loop survives the next crash.
		clone := fs.CrashClone(pebblevfs.CrashCloneCfg{})
		if again, err := start(options(clone), r.sum.Last); err != nil {
			_ = r.Close()
			return fmt.Errorf("crash after start %d: %w", round, err)
		} else if err := errors.Join(again.Close(), sameLast(again, r)); err != nil {
			_ = r.Close()
			return fmt.Errorf("crash after start %d: %w", round, err)
		}
		r.mu.Lock()
		got := append([]applied(nil), r.applied...)
		r.mu.Unlock()
		last := int64(r.sum.Last)
		if last < acked || last > sent {
			_ = r.Close()
			return fmt.Errorf("start %d: %d entries, %d were acknowledged and %d sent", round, last, acked, sent)
		}
		for k, a := range got {
			i := int(a.index) - 1
			if k > 0 && got[k-1].index+1 != a.index {
				err = fmt.Errorf("start %d: entry %d after %d", round, a.index, got[k-1].index)
			} else if a.payload != text(i, size(i)) {
				err = fmt.Errorf("start %d: entry %d is another one", round, a.index)
			}
		}
		if err == nil {
			err = r.propose(text(int(last), size(int(last)))).Err
		}
		if cerr := r.Close(); err == nil {
			err = cerr
		}
		<-r.done
		if err != nil {
			return fmt.Errorf("after start %d: %w", round, err)
		}
		acked, sent = last+1, last+1
	}
	return nil
}

// sameLast fails unless both found the same newest entry.
func sameLast(a, b *running) error {
	if a.sum.Last != b.sum.Last {
		return fmt.Errorf("newest entry is %d, was %d", a.sum.Last, b.sum.Last)
	}
	return nil
}

func TestACrashAfterAnyOperationLosesNothingAcknowledged(t *testing.T) {
	for _, mode := range []commitlog.FlushMode{commitlog.FlushSync, commitlog.FlushAsync} {
		t.Run("flush="+mode.String(), func(t *testing.T) {
			mem := newMem(t)
			fs := vfstest.New(mem)
			o := options(fs)
			o.Flush = mode
			o.FlushInterval = time.Millisecond
			var h history
			var r atomic.Pointer[running]
			var mu sync.Mutex // one clone at a time
			var clones int
			var failure error
			fs.After(func(op vfstest.Op) {
				if !op.Kind.Changes() || op.N%stride != 0 {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if failure != nil {
					return
				}
				for _, percent := range []int{0, 30, 70, 100} {
					must := h.acked.Load()
					if mode == commitlog.FlushAsync {
						must = 0
						if r := r.Load(); r != nil {
							must = int64(r.DurableIndex())
						}
					}
					seed := uint64(op.N)*100 + uint64(percent)
					clone := mem.CrashClone(pebblevfs.CrashCloneCfg{
						UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(seed, 1)),
					})
					clones++
					if err := check(clone, must, h.sent.Load()); err != nil {
						failure = fmt.Errorf("after %v with %d%% of what was not synced, seed %d: %w", op, percent, seed, err)
						return
					}
				}
			})
			l, err := start(o, 0)
			if err != nil {
				t.Fatal(err)
			}
			r.Store(l)
			err = workload(l, &h, 150)
			l.stop(t)
			fs.After(nil)
			if err != nil || failure != nil {
				t.Fatal(err, failure)
			}
			t.Logf("%d operations, %d crashes", fs.Count(), clones)
		})
	}
}

func TestAnyOperationMayFailOnce(t *testing.T) {
	faults := map[string]*vfstest.Fault{
		"EIO": vfstest.EIO, "ENOSPC": vfstest.ENOSPC,
		"short EIO":    {Err: vfstest.EIO.Err, Short: 100},
		"short ENOSPC": {Err: vfstest.ENOSPC.Err, Short: 5000},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onlyWrites := fault.Short > 0
			match := func(op vfstest.Op) bool {
				return op.Kind != vfstest.Close && (!onlyWrites || op.Kind == vfstest.Write)
			}
			for n := int64(1); ; n += stride {
				hit, err := oneFault(newMem(t), n, fault, match)
				if err != nil {
					t.Fatalf("operation %d: %v", n, err)
				}
				if !hit {
					t.Logf("operations up to the %dth failed in turn, one of %d", n-1, stride)
					return
				}
			}
		})
	}
}

// oneFault runs the workload with one failing operation. It reports whether there
// was such an operation.
func oneFault(mem *pebblevfs.MemFS, n int64, fault *vfstest.Fault, match func(vfstest.Op) bool) (hit bool, err error) {
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
	var h history
	r, err := start(options(fs), 0)
	if err == nil {
		for round := range 2 { // a workload that was refused is tried again
			i := int(h.sent.Load())
			if werr := tryAll(r, i, 40, round); werr != nil {
				err = werr
			}
			h.sent.Store(int64(i + 40))
		}
		cerr := r.Close()
		<-r.done
		if err != nil {
			return true, fmt.Errorf("%v: %w", failed.Load(), err)
		}
		if cerr != nil && failed.Load() == nil {
			return true, cerr
		}
	} else if failed.Load() == nil {
		return true, err
	}
	op := failed.Load()
	if op == nil {
		return false, nil
	}
	// Only what was acknowledged is sure to be there, and it all is.
	for _, percent := range []int{0, 100} {
		clone := mem.CrashClone(pebblevfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(1, 1))})
		if err := checkAcked(clone, r); err != nil {
			return true, fmt.Errorf("%v, then %d%% of what was not synced: %w", op, percent, err)
		}
	}
	return true, nil
}

// tryAll proposes payloads from the i-th on. Each is completed once, with success,
// for want of room, or because the log is dead.
func tryAll(r *running, i, n, round int) error {
	for k := i; k < i+n; k++ {
		res := r.propose(text(k, size(k)))
		switch {
		case res.Err == nil, errors.Is(res.Err, commitlog.ErrStorageFull), errors.Is(res.Err, commitlog.ErrDead):
		default:
			// A file for the next segment could not be made for another reason.
			if errors.Is(res.Err, vfstest.EIO.Err) && r.Dead() == nil {
				continue
			}
			return fmt.Errorf("round %d, proposal %d: %w", round, k, res.Err)
		}
	}
	if dead := r.Dead(); dead == nil {
		if s := r.Segments(); len(s) > 2 {
			_ = r.Drop(s[0].Number)
		}
		_ = r.Roll()
	}
	return nil
}

// checkAcked fails unless a start finds all that r applied, but for what lies in
// segments that were dropped, and at most one group more.
func checkAcked(fs pebblevfs.FS, r *running) error {
	again, err := startFrom(options(fs), behindGaps, 0)
	if err != nil {
		return err
	}
	defer func() { _ = again.Close(); <-again.done }()
	if r == nil || len(r.applied) == 0 {
		return nil
	}
	want := r.applied
	if len(again.applied) == 0 {
		return errors.New("nothing is there")
	}
	for len(want) > 0 && want[0].index < again.applied[0].index {
		want = want[1:]
	}
	if len(again.applied) < len(want) {
		return fmt.Errorf("entries end at %d, expected %d", again.sum.Last, want[len(want)-1].index)
	}
	for k, a := range want {
		if again.applied[k] != a {
			return fmt.Errorf("entry %d is %+v", a.index, again.applied[k].pos)
		}
	}
	if more := len(again.applied) - len(want); more > 0 && r.Dead() == nil {
		return fmt.Errorf("%d entries more than were applied, though the log was alive", more)
	}
	return nil
}
