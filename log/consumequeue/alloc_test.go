package consumequeue_test

import (
	"runtime"
	"testing"

	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/entry"
)

func TestFindDoesNotAllocate(t *testing.T) {
	fs := memory(t)
	set := consumequeue.NewSet()
	q := set.Create(1)
	for i := range uint32(4000) {
		q.Put(1+i/2000, batch(entry.Offset(i), 1, 4096+i, 1))
	}
	seal(t, fs, set, 1)
	defer set.Close()
	dst := make([]consumequeue.Located, 0, 64)
	for _, from := range []entry.Offset{5, 1990, 3990} { // in the file, over its end, in the tail
		if n := testing.AllocsPerRun(100, func() {
			if found, err := set.Get(1).Find(from, 4000, 1<<20, dst); err != nil || len(found) == 0 {
				t.Error(len(found), err)
			}
		}); n != 0 {
			t.Errorf("Find from %d allocates %v times", from, n)
		}
	}
}

func TestPutHardlyAllocates(t *testing.T) {
	set := consumequeue.NewSet()
	q := set.Create(1)
	drained := make([]byte, 0, 1<<20)
	next := uint32(0)
	put := func() {
		for range 2000 {
			q.Put(1, batch(entry.Offset(next), 1, next, 1))
			next++
		}
		drained = set.DrainNew(1, drained[:0])
	}
	put()
	if n := testing.AllocsPerRun(20, put); n > 6 {
		t.Errorf("2000 Puts and a drain allocate %v times", n)
	}
}

func TestIdlePartitionsAreSmall(t *testing.T) {
	const partitions = 100_000
	before := heap()
	set := consumequeue.NewSet()
	for p := range entry.Partition(partitions) {
		set.Create(p)
	}
	if per := (heap() - before) / partitions; per > 160 {
		t.Errorf("an idle partition takes %d bytes", per)
	} else {
		t.Logf("an idle partition takes %d bytes", per)
	}
	runtime.KeepAlive(set)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
