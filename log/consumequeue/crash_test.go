package consumequeue_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/vfs"
	"github.com/sluicemq/sluice/log/vfs/vfstest"
)

// large returns a set whose segment 1 takes several writes.
func large() *consumequeue.Set {
	set := consumequeue.NewSet()
	for p := range entry.Partition(3000) {
		q := set.Create(p)
		for i := range entry.Offset(5) {
			q.Put(1, batch(i, 1, uint32(p)*1000+uint32(i), 5))
		}
	}
	return set
}

// After a crash at any moment there is no file of that name, or a whole one.
func TestCrashLeavesNoFileOrAWholeOne(t *testing.T) {
	mem := pebblevfs.NewCrashableMem()
	watched := vfstest.New(mem)
	fs := vfs.New(watched)
	if err := errors.Join(fs.MkdirAll("log"), fs.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var absent, whole int
	check := func(percent int) {
		after := vfs.New(mem.CrashClone(pebblevfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}))
		if err := consumequeue.Clean(after, "log"); err != nil {
			t.Fatal(err)
		}
		names, err := after.List("log")
		if err != nil {
			t.Fatal(err)
		}
		segments, err := consumequeue.List(after, "log")
		if err != nil || len(segments) != len(names) {
			t.Fatalf("left behind: %v, %v", names, err)
		}
		if len(segments) == 0 {
			absent++
			return
		}
		f, err := consumequeue.Open(after, "log", segments[0])
		if err == nil {
			err = f.Verify()
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Release()
		whole++
	}
	watched.After(func(op vfstest.Op) {
		if op.Kind.Changes() {
			for _, percent := range []int{0, 50, 100} {
				check(percent)
			}
		}
	})
	f, err := large().Seal(1).Write(fs, "log", segment(1, 1<<31))
	if err != nil {
		t.Fatal(err)
	}
	f.Release()
	watched.After(nil)
	before := whole
	check(0)
	if whole != before+1 || absent == 0 {
		t.Errorf("the file is not durable when Write returns (%d absent, %d whole)", absent, whole)
	}
}

// Whatever operation fails, Write says so, leaves nothing that is half, and
// works when it is called again.
func TestEachFailureOfWriteIsToldAndCanBeTriedAgain(t *testing.T) {
	set := large()
	builder := set.Seal(1)
	for n := int64(1); ; n++ {
		below := vfstest.New(pebblevfs.NewMem())
		fs := vfs.New(below)
		if err := fs.MkdirAll("log"); err != nil {
			t.Fatal(err)
		}
		var failed vfstest.Op
		below.Decide(vfstest.FailNth(n, &vfstest.Fault{Err: errFault, Short: 1000}, func(op vfstest.Op) bool {
			if op.N == n+1 { // the folder was made first
				failed = op
			}
			return true
		}))
		f, err := builder.Write(fs, "log", segment(1, 1<<31))
		below.Decide(nil)
		if err == nil {
			f.Release()
			if below.Count() <= n {
				break // past the last operation
			}
			if failed.Kind != vfstest.Close { // of a file that was only read
				t.Fatalf("failure of %v was not told", failed)
			}
			continue
		}
		if !errors.Is(err, errFault) {
			t.Fatalf("operation %d: %v", n, err)
		}
		if segments, err := consumequeue.List(fs, "log"); err != nil {
			t.Fatal(err)
		} else if len(segments) == 1 {
			half, err := consumequeue.Open(fs, "log", 1)
			if err != nil {
				t.Fatalf("operation %d left %v", n, err)
			}
			half.Release()
		}
		f, err = builder.Write(fs, "log", segment(1, 1<<31))
		if err == nil {
			err = f.Verify()
		}
		if err != nil {
			t.Fatalf("again after operation %d: %v", n, err)
		}
		f.Release()
	}
	if err := fsOf(t, builder); err == nil {
		t.Error("a builder writes the file of another segment")
	}
}

var errFault = errors.New("fault")

func fsOf(t *testing.T, b *consumequeue.Builder) error {
	_, err := b.Write(memory(t), "log", segment(2, 1<<31))
	return err
}

func TestListCleanAndRemove(t *testing.T) {
	fs := memory(t)
	for _, name := range []string{"0000000002.idx", "0000000010.idx", "0000000001.idx.tmp", "0000000001.log", "notes.tmp"} {
		f, err := fs.Create("log/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := consumequeue.Clean(fs, "log"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(consumequeue.Remove(fs, "log", 2), consumequeue.Remove(fs, "log", 2)); err != nil {
		t.Fatal(err)
	}
	segments, err := consumequeue.List(fs, "log")
	if err != nil || len(segments) != 1 || segments[0] != 10 {
		t.Error(segments, err)
	}
	if names, _ := fs.List("log"); len(names) != 3 {
		t.Error(names)
	}
	if _, err := consumequeue.List(fs, "nowhere"); err == nil {
		t.Error("a missing folder is not an error")
	}
}
