package log_test

import (
	"testing"

	"github.com/sluicemq/sluice/log"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/vfs"
)

// What a batch may allocate on its way through the log and back. Amounts are
// averages: blocks, tails and checkpoints are for many batches together.
func TestProduceAndReadAllocateNextToNothing(t *testing.T) {
	if slow > 1 {
		t.Skip("the race detector allocates")
	}
	for _, tail := range []int64{64 << 20, 1} {
		l := openBench(t, vfs.Disk(), t.TempDir(), func(o *log.Options) { o.TailBytes = tail })
		makePartitions(t, l, 2)
		payload := recordOf(t, 1000)
		w := newWindow(l, 1)
		n := 0
		propose := func() {
			n++
			must(t, w.propose(entry.TypeProduce, 1, payload))
		}
		for range 2000 {
			propose()
		}
		if got := testing.AllocsPerRun(2000, propose); got > 1 {
			t.Errorf("tail %d: a batch allocates %v times on its way in", tail, got)
		}
		must(t, w.wait())
		var b log.Batches
		next := entry.Offset(0)
		read := func() {
			if _, err := l.Read(1, next, entry.Offset(n), 20_000, true, &b); err != nil {
				t.Fatal(err)
			}
			b.Release()
			next = (next + 20) % entry.Offset(n/2)
		}
		read()
		if got := testing.AllocsPerRun(200, read); got > 2 { // a pool may be emptied meanwhile
			t.Errorf("tail %d: reading 20 batches allocates %v times", tail, got)
		}
		must(t, l.Close())
	}
}
