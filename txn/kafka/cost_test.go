package kafka

import (
	"sync"
	"testing"

	"github.com/sluicemq/sluice/log/entry"
)

func TestBatchesOfAnOpenTransactionAllocateNothing(t *testing.T) {
	w := newWorld(1)
	p, _ := w.init("x")
	must(t, w.produce(1, p, true))
	if n := testing.AllocsPerRun(1000, func() {
		if w.m.Judge(1, p.ID, p.Epoch, true) != nil || w.m.Plain(1, 7) != nil {
			t.Error("refused")
		}
		w.m.Appended(1, p.ID, 5, 1)
		w.m.LastStable(1, 0, 10)
	}); n != 0 {
		t.Errorf("%v allocations a batch", n)
	}
}

func TestReadersMayRunBesideTheApplyLoop(t *testing.T) {
	w := newWorld(1, 2)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Add(1)
		go func() {
			defer readers.Done()
			for {
				select {
				case <-stop:
					return
				default:
				}
				end := entry.Offset(1 << 40)
				if s := w.m.LastStable(1, 0, end); s < 0 {
					t.Error(s)
				}
				w.m.Aborted(1, 0, 100, nil)
				w.m.Open(1, nil)
				w.m.Describe("x")
				w.m.List()
				w.m.Stats()
				w.m.Overdue(5)
				w.m.Idle(5, 1, 10)
				w.m.Pending("g", entry.TopicID{1}, 0)
				w.m.PendingOf("g")
			}
		}()
	}
	for i := range 300 {
		p, got := w.init("x")
		must(t, got)
		must(t, w.add("x", p, 2))
		must(t, w.produce(1, p, true))
		must(t, w.pend("x", p, "g", 1, 5, true))
		if i%3 > 0 {
			w.end(&End{ID: "x", ProducerID: p.ID, Epoch: p.Epoch, Commit: i%3 == 1})
		}
		w.m.OffsetsCommitted("g", entry.TopicID{1}, 0)
		w.m.LogStart(1, entry.Offset(i), w)
		w.m.Checkpoint(w)
	}
	close(stop)
	readers.Wait()
}

func BenchmarkJudgeAndAppended(b *testing.B) {
	w := newWorld(1)
	p, _ := w.init("x")
	w.produce(1, p, true)
	b.ReportAllocs()
	for b.Loop() {
		if w.m.Judge(1, p.ID, p.Epoch, true) != nil {
			b.Fatal("refused")
		}
		w.m.Appended(1, p.ID, 5, 1)
	}
}

func BenchmarkPlain(b *testing.B) {
	for _, name := range []string{"open=0", "open=1"} {
		w := newWorld(1)
		if name == "open=1" {
			p, _ := w.init("x")
			w.produce(1, p, true)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if w.m.Plain(1, 7) != nil {
					b.Fatal("refused")
				}
			}
		})
	}
}

func BenchmarkLastStable(b *testing.B) {
	for _, name := range []string{"unstable=0", "unstable=1"} {
		w := newWorld(1)
		if name == "unstable=1" {
			p, _ := w.init("x")
			w.produce(1, p, true)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w.m.LastStable(1, 0, 10)
			}
		})
	}
}
