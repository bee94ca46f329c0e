package commitlog_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/segment"
	"github.com/sluicemq/sluice/log/vfs"
)

// diskOptions returns options over a folder on the disk.
func diskOptions(t testing.TB) commitlog.Options {
	return commitlog.Options{
		FS: vfs.Disk(), Dir: t.TempDir(), SegmentBytes: 64 << 20, TailBytes: 16 << 20,
		Now: func() entry.Time { return entry.TimeOf(time.Now()) },
	}
}

// pipeline proposes entries, of which so many may be under way at a time, and
// allocates nothing.
type pipeline struct {
	r     *running
	slots []slot
	free  chan *slot
}

type slot struct {
	commitlog.Proposal
	p *pipeline
}

func (s *slot) Done(_ *commitlog.Proposal, r entry.Result) {
	if r.Err != nil {
		panic(r.Err)
	}
	s.p.free <- s
}

// runPipeline starts a log with an apply loop that only completes.
func runPipeline(t testing.TB, o commitlog.Options, size, underWay int) *pipeline {
	l, err := commitlog.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Replay(0, 0, nil); err != nil {
		t.Fatal(err)
	}
	p := &pipeline{r: &running{Log: l, done: make(chan struct{})}, free: make(chan *slot, underWay), slots: make([]slot, underWay)}
	payload := make([]byte, size)
	for i := range p.slots {
		s := &p.slots[i]
		s.p, s.Waiter, s.Type, s.Partition, s.Payload = p, s, entry.TypeProduce, 1, payload
		p.free <- s
	}
	go func() {
		defer close(p.r.done)
		for {
			g, ok := l.Next()
			if !ok {
				return
			}
			for i := range g.Entries {
				g.Entries[i].Proposal.Complete(entry.Result{})
			}
			g.Release()
		}
	}()
	return p
}

func (p *pipeline) propose(t testing.TB) {
	if err := p.r.Propose(&(<-p.free).Proposal); err != nil {
		t.Fatal(err)
	}
}

// settle waits until nothing is under way.
func (p *pipeline) settle() {
	for range p.slots {
		<-p.free
	}
	for i := range p.slots {
		p.free <- &p.slots[i]
	}
}

// prune drops all segments but the two newest.
func (p *pipeline) prune(t testing.TB) {
	for s := p.r.Segments(); len(s) > 2; s = s[1:] {
		if err := p.r.Drop(s[0].Number); err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, mode := range []commitlog.FlushMode{commitlog.FlushSync, commitlog.FlushAsync} {
		for _, size := range []int{100, 1 << 10, 16 << 10, 1 << 20} {
			for _, underWay := range []int{1, 1024} {
				underWay = min(underWay, max(16<<20/size, 8))
				b.Run(fmt.Sprintf("flush=%v/size=%d/underway=%d", mode, size, underWay), func(b *testing.B) {
					o := diskOptions(b)
					o.Flush = mode
					p := runPipeline(b, o, size, underWay)
					b.SetBytes(int64(size))
					b.ReportAllocs()
					n := 0
					for b.Loop() {
						p.propose(b)
						if n += size + segment.EntryHeaderBytes; n > 64<<20 {
							p.prune(b)
							n = 0
						}
					}
					p.settle()
					b.StopTimer()
					p.r.stop(b)
				})
			}
		}
	}
}

func BenchmarkCached(b *testing.B) {
	mem := newMem(b)
	r := mustStart(b, options(mem))
	for i := range 30 {
		mustPropose(b, r, text(i, 1000))
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			s, ok := r.Cached(r.applied[i%30].pos, 1000)
			if !ok {
				b.Error("not cached")
			}
			s.Release()
		}
	})
	r.stop(b)
}

func BenchmarkReadPayload(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			r := mustStart(b, diskOptions(b))
			for i := range 8 {
				mustPropose(b, r, text(i, size))
			}
			buf := make([]byte, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if err := r.ReadPayload(r.applied[i%8].pos, buf); err != nil {
					b.Fatal(err)
				}
				i++
			}
			b.StopTimer()
			r.stop(b)
		})
	}
}

func BenchmarkReplay(b *testing.B) {
	for _, size := range []int{100, 1 << 10, 16 << 10} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			o := diskOptions(b)
			o.Flush = commitlog.FlushAsync
			p := runPipeline(b, o, size, 64)
			for range 32 << 20 / size {
				p.propose(b)
			}
			p.settle()
			p.r.stop(b)
			b.SetBytes(32 << 20)
			b.ReportAllocs()
			for b.Loop() {
				l, err := commitlog.Open(o)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := l.Replay(0, 0, func(*commitlog.Group) error { return nil }); err != nil {
					b.Fatal(err)
				}
				var none sync.WaitGroup
				none.Go(func() { l.Next() })
				if err := l.Close(); err != nil {
					b.Fatal(err)
				}
				none.Wait()
			}
		})
	}
}

func TestAppendingAllocatesNothingPerEntry(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, size := range []int{100, 10_000} {
		o := diskOptions(t)
		o.Flush, o.FlushInterval = commitlog.FlushAsync, time.Hour
		p := runPipeline(t, o, size, 64)
		few := func() {
			for range 64 {
				p.propose(t)
			}
			p.settle()
		}
		for range 300 { // until blocks are used again
			few()
		}
		// Now and then the tail's row of blocks moves.
		if got := testing.AllocsPerRun(200, few); got > 1 {
			t.Errorf("64 entries of %d bytes: %v allocations", size, got)
		}
		p.r.stop(t)
	}
}

func TestReadingAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	r := mustStart(t, diskOptions(t))
	mustPropose(t, r, text(0, 5000))
	pos := r.applied[0].pos
	buf := make([]byte, 5000)
	for name, read := range map[string]func(){
		"ReadPayload": func() {
			if err := r.ReadPayload(pos, buf); err != nil {
				t.Fatal(err)
			}
		},
		"Cached": func() {
			if s, ok := r.Cached(pos, 5000); !ok {
				t.Fatal("not cached")
			} else {
				s.Release()
			}
		},
	} {
		if got := testing.AllocsPerRun(100, read); got > 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
	r.stop(t)
}
