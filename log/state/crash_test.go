package state_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/state"
	"github.com/sluicemq/sluice/log/vfs"
	"github.com/sluicemq/sluice/log/vfs/vfstest"
)

// history is a workload, and the contents after each of its checkpoints.
type history struct {
	mu       sync.Mutex
	contents map[entry.Index]contents // guarded by mu
	last     entry.Index              // guarded by mu: last checkpoint that was begun
	durable  entry.Index              // guarded by mu: last that Flush reported
}

func newHistory() *history { return &history{contents: map[entry.Index]contents{0: {}}} }

// step makes the n-th change to what the state is, and to the batch.
func (h *history) step(b *state.Batch, n entry.Index, rng *rand.Rand) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := maps.Clone(h.contents[n-1])
	for range 1 + rng.IntN(40) {
		key := fmt.Sprintf("c%03d", rng.IntN(300))
		switch rng.IntN(10) {
		case 0:
			b.Delete([]byte(key))
			delete(now, key)
		case 1:
			to := key + "~"
			b.DeleteRange([]byte(key), []byte(to))
			delete(now, key)
		default:
			value := fmt.Sprintf("%d-%0*d", n, rng.IntN(600), n)
			b.Set([]byte(key), []byte(value))
			now[key] = value
		}
	}
	h.contents[n], h.last = now, n
}

func (h *history) flushed(n entry.Index) {
	h.mu.Lock()
	h.durable = max(h.durable, n)
	h.mu.Unlock()
}

// check opens what a crash left and compares it with the history. least is the
// index that was durable before the crash.
func (h *history) check(t *testing.T, fs pebblevfs.FS, least entry.Index) (entry.Index, error) {
	s, err := state.Open(state.Options{FS: vfs.New(fs), Dir: "state", MemoryBytes: 64 << 10, CacheBytes: 64 << 10})
	if err != nil {
		return 0, err
	}
	defer closeStore(t, s)
	got, applied := committed(t, s)
	h.mu.Lock()
	want, last := h.contents[applied], h.last
	h.mu.Unlock()
	if applied != s.Applied() || applied < least || applied > last {
		return 0, fmt.Errorf("state at %d (%d), want %d to %d", applied, s.Applied(), least, last)
	}
	if d := diff(got, want); d != "" {
		return 0, fmt.Errorf("state at %d:\n%s", applied, d)
	}
	return applied, nil
}

// Whenever the power fails, what is left is the state of exactly one
// checkpoint, and not an older one than was reported as durable.
func TestCrashLeavesExactlyOneCheckpoint(t *testing.T) {
	noLeaks(t)
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { crash(t, seed) })
	}
}

func crash(t *testing.T, seed uint64) {
	mem := pebblevfs.NewCrashableMem()
	watched := vfstest.New(mem)
	h := newHistory()
	var mu sync.Mutex // guards what follows; operations come from several goroutines
	rng := rand.New(rand.NewPCG(seed, 1))
	seen := map[entry.Index]bool{}
	crashes := 0
	watched.After(func(op vfstest.Op) {
		// Most operations are writes of tables that nothing refers to yet.
		if !op.Kind.Changes() {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if op.Kind == vfstest.Write && rng.IntN(8) > 0 {
			return
		}
		h.mu.Lock()
		least := h.durable
		h.mu.Unlock()
		after := mem.CrashClone(pebblevfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(3) * 50, RNG: rng})
		applied, err := h.check(t, after, least)
		if err != nil {
			t.Errorf("crash after %s: %v", op, err)
		}
		seen[applied] = true
		crashes++
	})
	s := open(t, watched, func(o *state.Options) { o.MemoryBytes, o.CacheBytes = 64<<10, 64<<10 })
	b := s.NewBatch()
	work := rand.New(rand.NewPCG(seed, 2))
	for n := entry.Index(1); n <= 200; n++ {
		h.step(b, n, work)
		if err := b.Checkpoint(n); err != nil {
			t.Fatal(err)
		}
		if n%25 == 0 { // besides, tables are written when they are full
			durable, err := s.Flush()
			if err != nil {
				t.Fatal(err)
			}
			h.flushed(durable)
		}
	}
	b.Close()
	closeStore(t, s)
	mu.Lock()
	defer mu.Unlock()
	if len(seen) < 8 {
		t.Errorf("%d crashes left only %d different states", crashes, len(seen))
	}
	t.Logf("%d crashes left %d different states", crashes, len(seen))
}
