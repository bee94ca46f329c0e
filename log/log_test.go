package log_test

import (
	"encoding/binary"
	"fmt"
	"iter"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluicemq/sluice/log"
	"github.com/sluicemq/sluice/log/apply"
	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/vfs"
	"github.com/sluicemq/sluice/protocol/batch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// partitions is the smallest part that makes and deletes partitions: an entry
// of TypeCreateTopic creates its partition, one of TypeDeleteTopic deletes it.
type partitions struct{}

func partitionKey(p entry.Partition) []byte {
	return binary.BigEndian.AppendUint64([]byte{'c'}, uint64(p))
}

func (partitions) Types() []entry.Type {
	return []entry.Type{entry.TypeCreateTopic, entry.TypeDeleteTopic}
}

func (partitions) Load(r entry.Reader, tx apply.Tx) error {
	return r.Scan([]byte{'c'}, []byte{'d'}, func(key, _ []byte) bool {
		tx.CreatePartition(entry.Partition(binary.BigEndian.Uint64(key[1:])))
		return true
	})
}

func (partitions) Apply(e *entry.Entry, tx apply.Tx) entry.Result {
	if e.Type == entry.TypeCreateTopic {
		tx.Set(partitionKey(e.Partition), nil)
		tx.CreatePartition(e.Partition)
	} else {
		tx.Delete(partitionKey(e.Partition))
		tx.DeletePartition(e.Partition)
	}
	return entry.Result{}
}

func (partitions) Checkpoint(entry.Writer) {}

// noJudge lets every batch pass.
type noJudge struct{}

func (noJudge) Judge(entry.Partition, batch.Header, entry.Time) apply.Verdict { return apply.Verdict{} }
func (noJudge) Appended(entry.Partition, batch.Header, entry.Offset, *entry.Entry) {
}
func (noJudge) DeletePartition(entry.Partition) {}

// keepAll has no retention.
func keepAll(func(entry.Partition, consumequeue.Retention) bool) {}

func options(fs *vfs.FS, dir string) log.Options {
	return log.Options{
		FS: fs, Dir: dir, Meta: log.Meta{ClusterID: "cluster", NodeID: 1},
		Appliers: []apply.Applier{partitions{}}, Judge: noJudge{},
		Policies:     iter.Seq2[entry.Partition, consumequeue.Retention](keepAll),
		SegmentBytes: 64 << 10,
		TailBytes:    1, // reads come from the disk
	}
}

func open(t *testing.T, o log.Options) *log.Log {
	t.Helper()
	l, err := log.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func create(t *testing.T, l *log.Log, p entry.Partition) {
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

func produce(t *testing.T, l *log.Log, p entry.Partition, payload []byte) entry.Offset {
	t.Helper()
	r, err := l.Do(entry.TypeProduce, p, payload)
	if err != nil {
		t.Fatal(err)
	}
	return r.Offset
}

// values reads a whole partition and returns its records' values, checking that
// offsets are dense.
func values(t *testing.T, l *log.Log, p entry.Partition) []string {
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
		for _, piece := range b.Pieces {
			it := l.Codecs().Records(piece)
			base := batch.Header(piece).BaseOffset()
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
	o := options(vfs.Disk(), t.TempDir())
	l, err := log.Open(o)
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
		if l, err = log.Open(o); err != nil {
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
