package producer

import (
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"github.com/sluicemq/sluice/log/entry"
)

func TestKnownProducerCostsNoAllocation(t *testing.T) {
	m := New()
	b := Batch{ProducerID: 7}
	var at entry.Index
	produce := func() {
		at++
		if v := m.Judge(1, b, entry.Time(at)); v.Err != nil || v.Duplicate {
			t.Fatalf("entry %d: %+v", at, v)
		}
		m.Appended(1, b, entry.Offset(at), entry.Time(at), at)
		if v := m.Judge(1, b, entry.Time(at)); !v.Duplicate {
			t.Fatalf("entry %d is not known again: %+v", at, v)
		}
		b.BaseSequence++
	}
	produce()
	if n := testing.AllocsPerRun(1000, produce); n != 0 {
		t.Errorf("%v allocations a batch", n)
	}
}

func TestProducerTakes230Bytes(t *testing.T) {
	if size := unsafe.Sizeof(state{}); size > 168 {
		t.Errorf("state has %d bytes", size)
	}
	const n = 200_000
	before := heap()
	m := New()
	for i := range n {
		m.Appended(entry.Partition(i%1000+1), Batch{ProducerID: int64(i)}, 0, 1, entry.Index(i+1))
	}
	m.Checkpoint(discard{})
	if each := (heap() - before) / n; each > 230 {
		t.Errorf("%d bytes a producer", each)
	} else {
		t.Logf("%d bytes a producer", each)
	}
	runtime.KeepAlive(m)
}

func heap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

func TestReadersMayRunBesideTheApplyLoop(t *testing.T) {
	r := newRun()
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				for _, p := range r.m.Producers(1, nil) {
					if p.Epoch != 3 || p.LastSequence < 0 {
						t.Errorf("read %+v", p)
					}
				}
				r.m.Len()
				r.m.Limits()
				r.m.Overdue(10)
			}
		})
	}
	disk := store{}
	for i := range 3000 {
		p := entry.Partition(i%2 + 1)
		r.produce(p, Batch{ProducerID: int64(i % 50), ProducerEpoch: 3, BaseSequence: int32(i / 50)}, entry.Time(i))
		switch {
		case i%500 == 0:
			r.m.DeletePartition(p)
		case i%100 == 0:
			r.m.Checkpoint(disk)
		}
	}
	close(done)
	readers.Wait()
}

type discard struct{}

func (discard) Set(_, _ []byte)         {}
func (discard) Delete(_ []byte)         {}
func (discard) DeleteRange(_, _ []byte) {}

func BenchmarkJudgeAndAppend(b *testing.B) {
	for _, c := range []struct {
		name      string
		producers int64
	}{{"producers=1", 1}, {"producers=10k", 10_000}, {"producers=1M", 1_000_000}} {
		b.Run(c.name, func(b *testing.B) {
			m := New()
			var at entry.Index
			var id, sequence int64
			produce := func() {
				at++
				batch := Batch{ProducerID: id, BaseSequence: int32(sequence)}
				p := entry.Partition(id%1000 + 1)
				if v := m.Judge(p, batch, entry.Time(at>>10)); v.Err != nil || v.Duplicate {
					b.Fatal(v)
				}
				m.Appended(p, batch, entry.Offset(at), entry.Time(at>>10), at)
				if id++; id == c.producers {
					id, sequence = 0, sequence+1
				}
			}
			for range c.producers {
				produce()
			}
			b.ReportAllocs()
			for b.Loop() {
				produce()
			}
		})
	}
}

func BenchmarkCheckpoint(b *testing.B) {
	m := New()
	const n = 100_000
	var at entry.Index
	b.ReportAllocs()
	for round := int32(0); b.Loop(); round++ {
		b.StopTimer()
		for i := range n {
			at++
			m.Appended(1, Batch{ProducerID: int64(i), BaseSequence: round}, entry.Offset(at), 1, at)
		}
		b.StartTimer()
		m.Checkpoint(discard{})
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/producer")
}

func BenchmarkLoad(b *testing.B) {
	m := New()
	const n = 100_000
	for i := range n {
		m.Appended(entry.Partition(i%1000), Batch{ProducerID: int64(i)}, 0, 1, entry.Index(i))
	}
	var disk listStore
	m.Checkpoint(&disk)
	b.ReportAllocs()
	for b.Loop() {
		if err := New().Load(&disk); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/producer")
}

// listStore hands out what was set, as it was set.
type listStore struct {
	discard
	keys, values [][]byte
}

func (s *listStore) Set(k, v []byte) {
	s.keys = append(s.keys, append([]byte(nil), k...))
	s.values = append(s.values, append([]byte(nil), v...))
}

func (s *listStore) Get(_ []byte) ([]byte, bool, error) { return nil, false, nil }

func (s *listStore) Scan(_, _ []byte, visit func(k, v []byte) bool) error {
	for i, k := range s.keys {
		if !visit(k, s.values[i]) {
			break
		}
	}
	return nil
}
