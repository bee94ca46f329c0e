package log_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/log"
	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/vfs/vfstest"
)

// workload runs n ops with everything that happens to a folder in between:
// rolls, seals, checkpoints, freed segments, clean restarts.
func (r *runner) workload(g *generator, n int) error {
	if r.log == nil {
		if err := r.open(); err != nil {
			return err
		}
	}
	for step := 0; n > 0; step++ {
		some := min(n, 12)
		ops := g.ops(some)
		n -= some
		if done, err := r.run(ops, 1+step%5); err != nil || done < some {
			return fmt.Errorf("step %d: %d of %d ops: %w", step, done, some, err)
		}
		var err error
		switch step % 4 {
		case 0:
			err = r.log.Free()
		case 1:
			err = r.log.Roll()
		case 2:
			err = r.log.Checkpoint(true)
		case 3:
			if err = r.close(); err == nil {
				err = r.open()
			}
		}
		if err == nil {
			err = r.check()
		}
		if err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
	}
	return nil
}

// recovers fails unless what a crash left is the state after between acked and
// all of the ops, and goes on working.
func recovers(fs pebblevfs.FS, ops []op, acked int, freed []uint32, change ...settings) error {
	r := &runner{fs: fs, change: change}
	r.history.ops, r.history.acked = ops, acked
	for round := range 2 {
		if err := r.open(); err != nil {
			return fmt.Errorf("start %d: %w", round, err)
		}
		err := r.check()
		if err == nil {
			err = stays(fs, freed)
		}
		if err == nil {
			_, err = r.run([]op{
				{kind: entry.TypeCreateTopic, partition: 30 + entry.Partition(round)},
				{kind: entry.TypeProduce, partition: 1, payload: records("after", 2)},
				{kind: entry.TypeProduce, partition: 30 + entry.Partition(round), payload: records("after", 2)},
			}, 2)
		}
		if err == nil {
			err = r.check()
		}
		if cerr := r.close(); err == nil {
			err = cerr
		}
		if err != nil {
			return fmt.Errorf("start %d: %w", round, err)
		}
	}
	return nil
}

func TestACrashAfterAnyFileOperationLosesNothing(t *testing.T) {
	for _, mode := range []commitlog.FlushMode{commitlog.FlushSync, commitlog.FlushAsync} {
		t.Run("flush="+mode.String(), func(t *testing.T) {
			t.Parallel()
			crashAfterEach(t, 250, every(2), func(o *log.Options) {
				// Only what needs it makes the log durable.
				o.Flush, o.FlushInterval = mode, time.Hour
			})
		})
	}
}

// crashAfterEach runs a workload and checks what every stride-th operation on
// files that changes something leaves behind if the machine dies after it.
func crashAfterEach(t *testing.T, n, stride int, change settings) {
	mem := pebblevfs.NewCrashableMem()
	fs := vfstest.New(mem)
	r := &runner{fs: fs, change: []settings{change}}
	var o log.Options
	change(&o)
	var mu sync.Mutex // one crash at a time
	var seen, crashes int
	var failure error
	fs.After(func(op vfstest.Op) {
		if !op.Kind.Changes() {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if seen++; seen%stride != 0 || failure != nil {
			return
		}
		acked := 0
		if o.Flush == commitlog.FlushSync {
			_, acked, _ = r.history.snapshot()
		} else if l := r.shared.Load(); l != nil {
			acked = int(l.Durable())
		}
		_, _, freed := r.history.snapshot()
		percent := []int{0, 0, 30, 70, 100}[seen/stride%5]
		clone := mem.CrashClone(pebblevfs.CrashCloneCfg{
			UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(uint64(seen), 1)),
		})
		ops, _, _ := r.history.snapshot()
		crashes++
		if err := recovers(clone, ops, acked, freed, change); err != nil {
			failure = fmt.Errorf("crash after %v, the %d-th change, with %d%% of what was not synced: %w", op, seen, percent, err)
		}
	})
	err := r.workload(newGenerator(1), n)
	cerr := r.close()
	fs.After(nil)
	if failure != nil {
		t.Fatal(failure)
	}
	must(t, err)
	must(t, cerr)
	life := r.life()
	t.Logf("%d changes, %d crashes; %v", seen, crashes, life)
	if life["sealed"] == 0 || life["freed"] == 0 || life["recycled"] == 0 {
		t.Errorf("the workload did not take segments through their lives: %v", life)
	}
}
