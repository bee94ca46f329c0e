package apply_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/log/apply"
	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/txn/producer"
)

// script proposes n entries of all kinds, refused ones among them.
func script(t *testing.T, r *rig, n int, rng *rand.Rand) {
	t.Helper()
	newest := entry.Partition(0)
	next := map[[2]int64]int32{}
	limits, err := producer.EncodeExpire(producer.Limits{Expiration: producer.DefaultLimits.Expiration, Producers: 5}, 2)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		p := entry.Partition(rng.IntN(int(newest) + 2))
		var result entry.Result
		switch rng.IntN(12) {
		case 0:
			newest++
			result = r.do(entry.TypeCreateTopic, newest, nil)
		case 1:
			if rng.IntN(4) == 0 {
				result = r.do(entry.TypeDeleteTopic, p, nil)
			}
		case 2:
			result = r.do(entry.TypeLogStart, 0, apply.EncodeLogStarts([]apply.LogStart{
				{Partition: p, Offset: entry.Offset(rng.IntN(60))}, {Partition: p + 1, Offset: entry.Offset(rng.IntN(60))},
			}))
		case 3:
			result = r.do(entry.TypeAllocateProducerID, 0, nil)
		case 4:
			result = r.do(entry.TypeExpireProducers, 0, limits)
		case 5, 6, 7:
			id := int64(rng.IntN(8))
			key := [2]int64{int64(p), id}
			count := 1 + rng.IntN(5)
			from := &batch.Producer{ID: id, Sequence: next[key]}
			if rng.IntN(4) > 0 {
				next[key] += int32(count) // else the next one repeats it, or is out of order
			}
			result = r.do(entry.TypeProduce, p, records(count, from, batch.LogAppendTime, int64(rng.IntN(1000))))
		default:
			payload := records(1+rng.IntN(200), nil, 0, int64(rng.IntN(1000)))
			if rng.IntN(50) == 0 {
				payload = payload[:20]
			}
			result = r.do(entry.TypeProduce, p, payload)
		}
		if r.loop.Err() != nil {
			t.Fatal(r.loop.Err(), result)
		}
	}
}

// The same log gives the same state and the same queues, however often its
// application was cut off on the way, and wherever checkpoints fell.
func TestTheSameLogGivesTheSameState(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 1))
			mem := pebblevfs.NewCrashableMem()
			live := mustStart(t, mem, func(o *apply.Options) { o.BatchBytes, o.TailBytes = 2000, 2000 })
			script(t, live, 500, rng)
			digest, contents := live.digest(t), live.contents(t)
			applied := live.loop.Applied()
			live.mustStop(t)
			if n := len(live.complete); n < 2 {
				t.Fatalf("%d segments are complete", n)
			}

			for round := range 8 {
				// The log is as it was, the state store empty.
				fs := mem.CrashClone(pebblevfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng})
				if err := fs.RemoveAll("state"); err != nil {
					t.Fatal(err)
				}
				limits := func(o *apply.Options) {
					o.BatchBytes = 1 + rng.IntN(20_000)
					o.TailBytes = 1 + rng.IntN(20_000)
				}
				starts := 0
				for ; ; starts++ {
					r, err := start(fs, limits, interrupted(rng, round > 0))
					if err == nil {
						if got := r.digest(t); got != digest {
							t.Errorf("round %d, after %d starts that were cut off: digest %s, want %s", round, starts, got, digest)
						}
						if got := r.contents(t); got != contents {
							t.Errorf("round %d: queues\n%swant\n%s", round, got, contents)
						}
						if got := r.loop.Applied(); got != applied {
							t.Errorf("round %d: applied %d, want %d", round, got, applied)
						}
						r.mustStop(t)
						break
					}
					if !errors.Is(err, errInterrupted) {
						t.Fatal(err)
					}
				}
				if round > 0 && starts == 0 {
					t.Log("no start was cut off")
				}
			}
		})
	}
}

var errInterrupted = errors.New("interrupted")

// interrupted returns a visit that applies groups in parts, takes checkpoints in
// between, makes some durable, and gives up somewhere.
func interrupted(rng *rand.Rand, giveUp bool) func(*rig, *commitlog.Group) error {
	return func(r *rig, g *commitlog.Group) error {
		all := *g
		for from := 0; from < len(all.Entries) || from == 0; {
			to := min(from+1+rng.IntN(40), len(all.Entries))
			part := all
			part.Entries = all.Entries[from:to]
			if from > 0 {
				part.Sealed = nil
			}
			if err := r.loop.Replay(&part); err != nil {
				return err
			}
			from = max(to, 1)
			if rng.IntN(4) == 0 {
				if err := r.loop.Checkpoint(); err != nil {
					return err
				}
			}
			if rng.IntN(8) == 0 {
				if _, err := r.store.Flush(); err != nil {
					return err
				}
			}
			if giveUp && rng.IntN(25) == 0 {
				return errInterrupted
			}
		}
		return nil
	}
}
