package log_test

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/log"
	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/vfs"
	"github.com/sluicemq/sluice/protocol/batch"
)

var large = flag.Bool("large", false, "open a folder of 5 GiB in BenchmarkOpen")

// openBench opens a log with the default sizes.
func openBench(b testing.TB, fs *vfs.FS, dir string, change ...settings) *log.Log {
	b.Helper()
	o := options(fs, dir)
	o.SegmentBytes, o.TailBytes, o.BacklogBytes, o.FlushInterval = 0, 0, 0, 0
	o.SetCheckpointBytes(0)
	for _, c := range change {
		c(&o)
	}
	l, err := log.Open(o)
	if err != nil {
		b.Fatal(err)
	}
	return l
}

// window is a producer that keeps some proposals in flight.
type window struct {
	log       *log.Log
	proposals []log.Proposal
	free      chan *log.Proposal
	failed    error
}

func newWindow(l *log.Log, size int) *window {
	w := &window{log: l, proposals: make([]log.Proposal, size), free: make(chan *log.Proposal, size)}
	for i := range w.proposals {
		w.proposals[i].Waiter = w
		w.free <- &w.proposals[i]
	}
	return w
}

// Done takes a proposal back.
func (w *window) Done(p *log.Proposal, r entry.Result) {
	if r.Err != nil {
		w.failed = r.Err
	}
	w.free <- p
}

func (w *window) propose(kind entry.Type, p entry.Partition, payload []byte) error {
	proposal := <-w.free
	proposal.Type, proposal.Partition, proposal.Payload = kind, p, payload
	return w.log.Propose(proposal)
}

// wait returns when all that was proposed is applied.
func (w *window) wait() error {
	for range w.proposals {
		<-w.free
	}
	for i := range w.proposals {
		w.free <- &w.proposals[i]
	}
	return w.failed
}

func makePartitions(b testing.TB, l *log.Log, n int) {
	b.Helper()
	w := newWindow(l, 1000)
	for p := 1; p <= n; p++ {
		must(b, w.propose(entry.TypeCreateTopic, entry.Partition(p), nil))
	}
	must(b, w.wait())
}

// recordOf returns a batch of one record that is size bytes long or a little less.
func recordOf(b testing.TB, size int) []byte {
	b.Helper()
	var builder batch.Builder
	builder.Add(&batch.Record{Timestamp: 1000, Value: []byte(strings.Repeat("x", max(size-batch.HeaderSize-12, 1)))})
	payload, err := builder.Build(nil, nil, batch.Options{})
	must(b, err)
	return payload
}

// BenchmarkPropose is the way of a batch from Propose to its answer.
func BenchmarkPropose(b *testing.B) {
	for _, mode := range []commitlog.FlushMode{commitlog.FlushSync, commitlog.FlushAsync} {
		for _, partitions := range []int{12, 10_000} {
			for _, size := range []int{100, 1 << 10, 16 << 10} {
				for _, inFlight := range []int{1, 1000} {
					b.Run(fmt.Sprintf("flush=%v/partitions=%d/size=%d/inFlight=%d", mode, partitions, size, inFlight), func(b *testing.B) {
						l := openBench(b, vfs.Disk(), b.TempDir(), func(o *log.Options) { o.Flush = mode })
						makePartitions(b, l, partitions)
						payload := recordOf(b, size)
						w := newWindow(l, inFlight)
						b.ReportAllocs()
						b.SetBytes(int64(len(payload)))
						i := 0
						for b.Loop() {
							i++
							if err := w.propose(entry.TypeProduce, entry.Partition(1+i%partitions), payload); err != nil {
								b.Fatal(err)
							}
						}
						must(b, w.wait())
						b.StopTimer()
						must(b, l.Close())
					})
				}
			}
		}
	}
}

// BenchmarkApply is the loop alone, over a log in memory: what a start has to do
// for each entry again.
func BenchmarkApply(b *testing.B) {
	for _, partitions := range []int{12, 10_000} {
		for _, idempotent := range []bool{false, true} {
			b.Run(fmt.Sprintf("partitions=%d/size=100/idempotent=%v", partitions, idempotent), func(b *testing.B) {
				const entries = 100_000
				mem := pebblevfs.NewCrashableMem()
				l := openBench(b, vfs.New(mem), dataDir, func(o *log.Options) { o.SegmentBytes = 64 << 20 })
				makePartitions(b, l, partitions)
				w := newWindow(l, 1000)
				for i := range entries {
					var builder batch.Builder
					builder.Add(&batch.Record{Timestamp: 1000, Value: make([]byte, 30)})
					var o batch.Options
					if idempotent {
						o.Producer = &batch.Producer{ID: int64(i % partitions), Sequence: int32(i / partitions)}
					}
					payload, err := builder.Build(nil, nil, o)
					must(b, err)
					must(b, w.propose(entry.TypeProduce, entry.Partition(1+i%partitions), payload))
				}
				must(b, w.wait())
				killed := mem.CrashClone(pebblevfs.CrashCloneCfg{}) // nothing is in the state store yet
				must(b, l.Close())
				b.ReportAllocs()
				var replayed time.Duration
				n := 0
				for b.Loop() {
					b.StopTimer()
					fs := killed.CrashClone(pebblevfs.CrashCloneCfg{})
					b.StartTimer()
					l := openBench(b, vfs.New(fs), dataDir, func(o *log.Options) { o.SegmentBytes = 64 << 20 })
					b.StopTimer()
					replayed += l.Recovery().Took
					n += l.Recovery().Replayed
					must(b, l.Close())
					b.StartTimer()
				}
				b.ReportMetric(float64(replayed.Nanoseconds())/float64(n), "ns/entry")
			})
		}
	}
}

// BenchmarkRead is one Read of a consumer that follows a partition.
func BenchmarkRead(b *testing.B) {
	for _, from := range []string{"tail", "disk"} {
		for _, size := range []int{100, 1 << 10, 16 << 10} {
			for _, limit := range []int{1, 256 << 10} {
				b.Run(fmt.Sprintf("from=%s/size=%d/maxBytes=%d", from, size, limit), func(b *testing.B) {
					l := openBench(b, vfs.Disk(), b.TempDir(), func(o *log.Options) {
						o.Flush = commitlog.FlushAsync
						if from == "disk" {
							o.TailBytes = 1
						}
					})
					const partitions = 12
					makePartitions(b, l, partitions)
					payload := recordOf(b, size)
					w := newWindow(l, 1000)
					for i := range 40 << 20 / (len(payload) + 56) {
						must(b, w.propose(entry.TypeProduce, entry.Partition(1+i%partitions), payload))
					}
					must(b, w.wait())
					_, end, _ := l.Bounds(1)
					end -= end / 10 // the newest block is in memory in any case
					var batches log.Batches
					next := entry.Offset(0)
					b.ReportAllocs()
					bytes, reads := 0, 0
					for b.Loop() {
						added, err := l.Read(1, next, end, limit, true, &batches)
						if err != nil {
							b.Fatal(err)
						}
						bytes += added
						reads++
						next += entry.Offset(added / len(payload))
						if next >= end {
							next = 0
						}
						batches.Release()
					}
					b.SetBytes(int64(bytes / reads))
					b.StopTimer()
					must(b, l.Close())
				})
			}
		}
	}
}

// BenchmarkReadParallel has many consumers on one log, each on a partition.
func BenchmarkReadParallel(b *testing.B) {
	l := openBench(b, vfs.Disk(), b.TempDir(), func(o *log.Options) { o.Flush = commitlog.FlushAsync })
	const partitions = 12
	makePartitions(b, l, partitions)
	payload := recordOf(b, 1<<10)
	w := newWindow(l, 1000)
	for i := range 30 << 10 {
		must(b, w.propose(entry.TypeProduce, entry.Partition(1+i%partitions), payload))
	}
	must(b, w.wait())
	var mu sync.Mutex
	readers := 0
	b.ReportAllocs()
	b.SetBytes(int64(len(payload)))
	b.RunParallel(func(pb *testing.PB) {
		mu.Lock()
		readers++
		p := entry.Partition(1 + readers%partitions)
		mu.Unlock()
		var batches log.Batches
		_, end, _ := l.Bounds(p)
		for next := entry.Offset(0); pb.Next(); next = (next + 1) % end {
			if _, err := l.Read(p, next, end, 1, true, &batches); err != nil {
				b.Error(err)
			}
			batches.Release()
		}
	})
	b.StopTimer()
	must(b, l.Close())
}

// BenchmarkOpen opens a folder that was closed. With -large it is one of 100,000
// partitions and 5 GiB.
func BenchmarkOpen(b *testing.B) {
	sizes := []struct{ partitions, mib int }{{1, 0}, {1000, 64}, {100_000, 600}}
	if *large {
		sizes = append(sizes, struct{ partitions, mib int }{100_000, 5 << 10})
	}
	for _, size := range sizes {
		b.Run(fmt.Sprintf("partitions=%d/MiB=%d", size.partitions, size.mib), func(b *testing.B) {
			dir := b.TempDir()
			l := openBench(b, vfs.Disk(), dir, func(o *log.Options) { o.Flush = commitlog.FlushAsync })
			makePartitions(b, l, size.partitions)
			payload := recordOf(b, 1<<10)
			w := newWindow(l, 1000)
			for i := range size.mib << 20 / (len(payload) + 56) {
				must(b, w.propose(entry.TypeProduce, entry.Partition(1+i%size.partitions), payload))
			}
			must(b, w.wait())
			must(b, l.Close())
			for b.Loop() {
				l := openBench(b, vfs.Disk(), dir)
				b.StopTimer()
				if r := l.Recovery(); r.Replayed > 0 {
					b.Errorf("%+v", r)
				}
				must(b, l.Close())
				b.StartTimer()
			}
		})
	}
}
