package log_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/log"
	"github.com/sluicemq/sluice/log/commitlog"
)

// The same operations give the same answers and the same reads, whatever the
// settings are, wherever the files lie, and wherever the engine was restarted.
func TestSettingsAndRestartsChangeNothingThatIsSeen(t *testing.T) {
	for i := range 48 / every(1) {
		seed := uint64(i)
		rng := rand.New(rand.NewPCG(seed, 3))
		pick := func(values ...int64) int64 { return values[rng.IntN(len(values))] }
		segment, tail, flush := pick(64<<10, 256<<10, 1<<20), pick(1, 200<<10, 64<<20), commitlog.FlushMode(pick(0, 1))
		checkpoint, atOnce, onDisk := int(pick(1, 5000, 0)), int(pick(1, 3, 30)), rng.IntN(4) == 0
		name := fmt.Sprintf("seed=%d/segment=%d/tail=%d/flush=%v/checkpoint=%d/atOnce=%d/disk=%v", seed%4, segment, tail, flush, checkpoint, atOnce, onDisk)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var fs pebblevfs.FS = pebblevfs.NewMem()
			r := &runner{fs: fs}
			if onDisk {
				r.fs = pebblevfs.Default
				dir := t.TempDir()
				r.change = append(r.change, func(o *log.Options) { o.Dir = dir })
			}
			r.change = append(r.change, func(o *log.Options) {
				o.SegmentBytes, o.TailBytes, o.Flush = segment, tail, flush
				o.SetCheckpointBytes(checkpoint)
			})
			must(t, r.open())
			g := newGenerator(seed % 4) // the same operations for every fourth run
			for step := range 30 {
				ops := g.ops(20)
				if done, err := r.run(ops, atOnce); err != nil || done < len(ops) {
					t.Fatalf("step %d: %d ops, %v", step, done, err)
				}
				switch rng.IntN(6) {
				case 0:
					must(t, r.close())
					must(t, r.open())
				case 1:
					must(t, r.log.Roll())
				case 2:
					must(t, r.log.Free())
				case 3:
					must(t, r.log.Checkpoint(rng.IntN(2) == 0))
				}
				if step%3 == 0 {
					must(t, r.check())
				}
			}
			must(t, r.check())
			must(t, r.close())
			must(t, r.open())
			must(t, r.check())
			must(t, r.close())
		})
	}
}
