package state_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/state"
	"github.com/sluicemq/sluice/log/vfs"
	"github.com/sluicemq/sluice/log/vfs/vfstest"
)

func isTable(op vfstest.Op) bool    { return strings.HasSuffix(op.Path, ".sst") }
func isManifest(op vfstest.Op) bool { return strings.Contains(op.Path, "MANIFEST") }

// A disk without room fails flushes, is told, and is tried again by itself
// until there is room; checkpoints go on meanwhile.
func TestFullDiskIsToldAndForgottenWhenThereIsRoom(t *testing.T) {
	noLeaks(t)
	below := vfstest.New(pebblevfs.NewMem())
	failed := make(chan error, 100)
	flushed := make(chan int64, 100)
	s := open(t, below, func(o *state.Options) {
		o.Events.Background = func(err error) {
			select {
			case failed <- err:
			default:
			}
		}
		o.Events.Flushed = func(bytes int64, _ time.Duration) { flushed <- bytes }
	})
	defer closeStore(t, s)
	checkpoint(t, s, 1, "c1", "a")
	below.Decide(func(op vfstest.Op) *vfstest.Fault {
		if op.Kind == vfstest.Create && isTable(op) {
			return vfstest.ENOSPC
		}
		return nil
	})
	for range 3 { // the first fails, the others know
		if n, err := s.Flush(); n != 0 || !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("flush: %d, %v", n, err)
		}
	}
	if err := s.Health(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("health: %v", err)
	}
	if err := <-failed; !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("event: %v", err)
	}
	checkpoint(t, s, 2, "c2", "b")
	if got, applied := committed(t, s); len(got) != 2 || applied != 2 || s.Durable() != 0 {
		t.Errorf("%v at %d, durable %d", got, applied, s.Durable())
	}
	below.Decide(nil)
	if bytes := <-flushed; bytes == 0 {
		t.Error("nothing was written")
	}
	if err := s.Health(); err != nil {
		t.Errorf("health after: %v", err)
	}
	if n, err := s.Flush(); n != 2 || err != nil {
		t.Errorf("flush: %d, %v", n, err)
	}
}

// When Pebble cannot write or sync its manifest, nothing more is written, what
// is asked says so, reads go on, and the next start finds a checkpoint.
func TestStoreIsDeadOnceItsManifestIsInDoubt(t *testing.T) {
	for _, kind := range []vfstest.Kind{vfstest.Write, vfstest.Sync} {
		t.Run(string(kind), func(t *testing.T) {
			mem := pebblevfs.NewCrashableMem()
			below := vfstest.New(mem)
			died := make(chan error, 9)
			s := open(t, below, func(o *state.Options) { o.Events.Dead = func(err error) { died <- err } })
			checkpoint(t, s, 1, "c1", "a")
			if _, err := s.Flush(); err != nil {
				t.Fatal(err)
			}
			b := s.NewBatch()
			b.Set([]byte("c2"), []byte("b"))
			if err := b.Checkpoint(2); err != nil {
				t.Fatal(err)
			}
			below.Decide(vfstest.FailNth(1, vfstest.EIO, func(op vfstest.Op) bool { return op.Kind == kind && isManifest(op) }))
			if n, err := s.Flush(); n != 0 || !errors.Is(err, state.ErrDead) {
				t.Fatalf("flush: %d, %v", n, err)
			}
			var mu sync.Mutex
			var written []vfstest.Op // guarded by mu
			below.After(func(op vfstest.Op) {
				if op.Kind.Changes() && isManifest(op) {
					mu.Lock()
					written = append(written, op)
					mu.Unlock()
				}
			})
			for _, err := range []error{b.Checkpoint(3), s.Health(), s.Snapshot("copy"), s.Close()} {
				if !errors.Is(err, state.ErrDead) {
					t.Errorf("%v, want ErrDead", err)
				}
			}
			if err := <-died; !errors.Is(err, syscall.EIO) && !strings.Contains(err.Error(), syscall.EIO.Error()) || len(died) != 0 {
				t.Errorf("died of %v, %d more", err, len(died))
			}
			if s.Durable() != 1 {
				t.Errorf("durable %d", s.Durable())
			}
			if got, ok, err := b.Get([]byte("c2")); string(got) != "b" || !ok || err != nil {
				t.Errorf("read: %q, %v, %v", got, ok, err)
			}
			mu.Lock()
			if len(written) != 0 {
				t.Errorf("after death: %v", written)
			}
			mu.Unlock()
			for _, percent := range []int{0, 100} {
				after := mem.CrashClone(pebblevfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(1, 1))})
				again := open(t, after)
				got, applied := committed(t, again)
				if applied != 1 && applied != 2 || len(got) != int(applied) {
					t.Errorf("%v at %d", got, applied)
				}
				closeStore(t, again)
			}
		})
	}
}

// A checkpoint that waits for room does not wait for ever when the store dies.
func TestCheckpointThatWaitsForADeadStoreEnds(t *testing.T) {
	below := vfstest.New(pebblevfs.NewMem())
	stalled := make(chan string, 100)
	s := open(t, below, func(o *state.Options) {
		o.MemoryBytes = 64 << 10
		o.Events.Stalled = func(reason string) { stalled <- reason }
	})
	below.Decide(func(op vfstest.Op) *vfstest.Fault {
		if op.Kind == vfstest.Create && isTable(op) {
			return vfstest.ENOSPC
		}
		return nil
	})
	ended := make(chan error)
	go func() { // ends with the first checkpoint that fails
		b := s.NewBatch()
		for n := entry.Index(1); ; n++ {
			b.Set([]byte("ckey"), make([]byte, 20<<10))
			if err := b.Checkpoint(n); err != nil {
				ended <- err
				return
			}
		}
	}()
	<-stalled
	below.Decide(func(op vfstest.Op) *vfstest.Fault {
		if op.Kind == vfstest.Write && isManifest(op) {
			return vfstest.EIO
		}
		return nil
	})
	if err := <-ended; !errors.Is(err, state.ErrDead) {
		t.Error(err)
	}
}

// Whichever operation fails, whenever: a call says so or nothing is lost, and
// what is on disk is the state of one checkpoint, not older than was reported.
func TestEachFailureLeavesACheckpoint(t *testing.T) {
	for n := int64(1); ; n += 3 {
		mem := pebblevfs.NewCrashableMem()
		below := vfstest.New(mem)
		var mu sync.Mutex
		var failed vfstest.Op // guarded by mu
		below.Decide(func(op vfstest.Op) *vfstest.Fault {
			mu.Lock()
			defer mu.Unlock()
			if op.N < n || failed.N != 0 || op.Kind == vfstest.Close || op.Kind == vfstest.Lock {
				return nil
			}
			failed = op
			return &vfstest.Fault{Err: syscall.EIO, Short: 100}
		})
		h := newHistory()
		faulty(t, below, h)
		below.Decide(nil)
		after := mem.CrashClone(pebblevfs.CrashCloneCfg{})
		h.mu.Lock()
		least := h.durable
		h.mu.Unlock()
		if _, err := h.check(t, after, least); err != nil {
			t.Fatalf("after failure of %s: %v", failed, err)
		}
		if failed.N == 0 {
			return // past the last operation
		}
	}
}

// faulty runs a workload until something fails.
func faulty(t *testing.T, fs pebblevfs.FS, h *history) {
	s, err := state.Open(state.Options{FS: vfs.New(fs), Dir: "state", MemoryBytes: 64 << 10, CacheBytes: 64 << 10})
	if err != nil {
		return
	}
	defer s.Close() // a dead store says so
	b := s.NewBatch()
	defer b.Close()
	rng := rand.New(rand.NewPCG(7, 7))
	for n := entry.Index(1); n <= 12; n++ {
		h.step(b, n, rng)
		if err := b.Checkpoint(n); err != nil {
			return
		}
		if n%3 == 0 {
			durable, err := s.Flush()
			if err != nil {
				return
			}
			h.flushed(durable)
		}
	}
}
