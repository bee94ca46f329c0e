package consumequeue_test

import (
	"testing"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory returns a file system in memory with the directory "log".
func memory(t testing.TB) *vfs.FS {
	t.Helper()
	fs := vfs.New(pebblevfs.NewMem())
	if err := fs.MkdirAll("log"); err != nil {
		t.Fatal(err)
	}
	return fs
}

// batch returns an entry of a batch with count records of 10 bytes each.
func batch(base entry.Offset, count uint32, at uint32, time entry.Time) consumequeue.Entry {
	return consumequeue.Entry{BaseOffset: base, Count: count, At: at, Size: 10 * count, MaxTimestamp: time, Tags: at}
}

// segment describes a segment that ends at byte end and has made-up contents.
func segment(number, end uint32) consumequeue.Segment {
	return consumequeue.Segment{
		Number: number, End: end, First: entry.Index(number) * 1000, Last: entry.Index(number)*1000 + 999,
		LastTime: entry.Time(number) * 100, ChainCRC: 0xc0ffee,
		Terms: []consumequeue.TermRun{{Term: 1, First: entry.Index(number) * 1000, At: 4096}, {Term: 3, First: entry.Index(number)*1000 + 500, At: 8000}},
		Marks: []consumequeue.Mark{{Index: entry.Index(number) * 1000, At: 4096}, {Index: entry.Index(number)*1000 + 700, At: 9000}},
	}
}

// seal writes the index file of a segment and attaches it.
func seal(t testing.TB, fs *vfs.FS, set *consumequeue.Set, number uint32) {
	t.Helper()
	f, err := set.Seal(number).Write(fs, "log", segment(number, 1<<31))
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Attach(f); err != nil {
		t.Fatal(err)
	}
}

// find returns all that Find gives at once.
func find(t testing.TB, q *consumequeue.Queue, from entry.Offset) []consumequeue.Located {
	t.Helper()
	found, err := q.Find(from, 1<<62, 1<<62, make([]consumequeue.Located, 0, 10000))
	if err != nil {
		t.Fatal(err)
	}
	return found
}
