package log_test

import (
	"fmt"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluicemq/sluice/log"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/vfs"
	"github.com/sluicemq/sluice/protocol/batch"
)

func TestMain(m *testing.M) {
	var ignore []goleak.Option
	for _, function := range []string{ // what a dead state store leaves until the process ends
		"sluicemq/sluice/log/state.(*Store).park",
		"cockroachdb/pebble/v2.(*DB).Close",
		"cockroachdb/pebble/v2.Open",
		"cockroachdb/pebble/v2.(*cleanupManager).mainLoop",
		"cockroachdb/pebble/v2.(*diskHealthCheckingFS).startTickerLocked.func1",
		"cockroachdb/pebble/v2/internal/genericcache.(*shard[...]).releaseLoop",
		"cockroachdb/pebble/v2/record.(*LogWriter).flushLoop",
	} {
		ignore = append(ignore, goleak.IgnoreAnyFunction("github.com/"+function))
	}
	goleak.VerifyTestMain(m, ignore...)
}

func create(t testing.TB, l *log.Log, p entry.Partition) {
	t.Helper()
	if _, err := l.Do(entry.TypeCreateTopic, p, nil); err != nil {
		t.Fatal(err)
	}
}

// records returns a batch of count records whose values are text and a number.
func records(text string, count int) []byte {
	var b batch.Builder
	for i := range count {
		b.Add(&batch.Record{Timestamp: 1000 + int64(i), Value: fmt.Appendf(nil, "%s-%d", text, i)})
	}
	payload, err := b.Build(nil, nil, batch.Options{})
	if err != nil {
		panic(err)
	}
	return payload
}

func produce(t testing.TB, l *log.Log, p entry.Partition, payload []byte) entry.Offset {
	t.Helper()
	r, err := l.Do(entry.TypeProduce, p, payload)
	if err != nil {
		t.Fatal(err)
	}
	return r.Offset
}

// values reads a whole partition and returns its records' values, checking that
// offsets are dense.
func values(t testing.TB, l *log.Log, p entry.Partition) []string {
	t.Helper()
	start, end, ok := l.Bounds(p)
	if !ok {
		t.Fatalf("partition %d does not exist", p)
	}
	var all []string
	var b log.Batches
	for next := start; next < end; {
		if n, err := l.Read(p, next, end, 1<<20, true, &b); err != nil || n == 0 {
			t.Fatalf("read partition %d from %d: %d bytes, %v", p, next, n, err)
		}
		for _, head := range split(t, &b) {
			it := l.Codecs().Records(head)
			base := head.BaseOffset()
			for it.Next() {
				r := it.Record()
				offset := entry.Offset(base) + entry.Offset(r.OffsetDelta)
				if offset < next {
					continue
				}
				if offset != next {
					t.Fatalf("partition %d: offset %d follows %d", p, offset, next-1)
				}
				all = append(all, string(r.Value))
				next++
			}
			if err := it.Err(); err != nil {
				t.Fatal(err)
			}
			it.Close()
		}
		b.Release()
	}
	return all
}

func TestWhatWasAppliedIsThereAfterARestart(t *testing.T) {
	dir := t.TempDir()
	l, err := log.Open(options(vfs.Disk(), dir))
	if err != nil {
		t.Fatal(err)
	}
	want := map[entry.Partition][]string{}
	for p := entry.Partition(1); p <= 3; p++ {
		create(t, l, p)
	}
	for round := range 3 {
		var wait sync.WaitGroup
		for p := entry.Partition(1); p <= 3; p++ {
			wait.Add(1)
			go func() {
				defer wait.Done()
				for i := range 400 {
					produce(t, l, p, records(fmt.Sprintf("p%d-r%d-%d", p, round, i), 3))
				}
			}()
			for i := range 400 {
				for n := range 3 {
					want[p] = append(want[p], fmt.Sprintf("p%d-r%d-%d-%d", p, round, i, n))
				}
			}
		}
		wait.Wait()
		for p, values1 := range want {
			got := values(t, l, p)
			if len(got) != len(values1) {
				t.Fatalf("round %d, partition %d: %d values, want %d", round, p, len(got), len(values1))
			}
			for i := range got {
				if got[i] != values1[i] {
					t.Fatalf("round %d, partition %d, offset %d: %q, want %q", round, p, i, got[i], values1[i])
				}
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if l, err = log.Open(options(vfs.Disk(), dir)); err != nil {
			t.Fatal(err)
		}
		if r := l.Recovery(); r.Segments < 3 || r.Replayed != 0 {
			t.Fatalf("recovery after a clean close: %+v", r)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
