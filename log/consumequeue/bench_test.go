package consumequeue_test

import (
	"fmt"
	"testing"

	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/vfs"
)

func BenchmarkPut(b *testing.B) {
	for _, partitions := range []uint64{1, 100_000} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			set := consumequeue.NewSet()
			for p := range partitions {
				set.Create(entry.Partition(p))
			}
			b.ReportAllocs()
			var drained []byte
			var i uint64
			for b.Loop() {
				// A segment holds about 260,000 batches of 1 KiB.
				number := uint32(i / 260_000)
				if i%260_000 == 0 && number > 0 {
					b.StopTimer()
					for q := range set.All() {
						set.Delete(q.Partition())
					}
					for p := range partitions {
						set.Create(entry.Partition(p))
					}
					b.StartTimer()
				}
				set.Get(entry.Partition(i%partitions)).Put(number, batch(entry.Offset(i), 1, uint32(i), entry.Time(i)))
				if i++; set.Undrained(number) > 1<<20 {
					drained = set.DrainNew(number, drained[:0])
				}
			}
		})
	}
}

func BenchmarkFind(b *testing.B) {
	for _, where := range []string{"tail", "file"} {
		b.Run("in="+where, func(b *testing.B) {
			set := consumequeue.NewSet()
			q := set.Create(1)
			const batches = 200_000
			for i := range uint32(batches) {
				q.Put(1, batch(entry.Offset(i), 1, 4096+i, 1))
			}
			if where == "file" {
				f, err := set.Seal(1).Write(vfs.Disk(), b.TempDir(), segment(1, 1<<31))
				if err != nil {
					b.Fatal(err)
				}
				if err := set.Attach(f); err != nil {
					b.Fatal(err)
				}
				defer set.Close()
			}
			dst := make([]consumequeue.Located, 0, 16)
			b.ReportAllocs()
			var i uint64
			for b.Loop() {
				from := entry.Offset(i * 0x9e3779b97f4a7c15 >> 32 % (batches - 16))
				if found, err := set.Get(1).Find(from, batches, 160, dst); err != nil || len(found) != 16 {
					b.Fatal(len(found), err)
				}
				i++
			}
		})
	}
}

// BenchmarkSeal writes and attaches the file of a segment with a batch of 2.6 KiB
// for each of 100,000 partitions.
func BenchmarkSeal(b *testing.B) {
	const partitions = 100_000
	dir := b.TempDir()
	set := consumequeue.NewSet()
	for p := range entry.Partition(partitions) {
		set.Create(p)
	}
	b.ReportAllocs()
	var n uint32
	for b.Loop() {
		b.StopTimer()
		for q := range set.All() {
			_, end := q.Bounds()
			q.Put(n, batch(end, 10, uint32(q.Partition()), 1))
		}
		set.DrainNew(n, nil)
		b.StartTimer()
		f, err := set.Seal(n).Write(vfs.Disk(), dir, segment(n, 1<<31))
		if err != nil {
			b.Fatal(err)
		}
		if err := set.Attach(f); err != nil {
			b.Fatal(err)
		}
		n++
	}
	b.StopTimer()
	set.Close()
}

// BenchmarkLoad opens and attaches 20 files with 100,000 partitions each, as a
// start does.
func BenchmarkLoad(b *testing.B) {
	const partitions, files = 100_000, 20
	dir := b.TempDir()
	set := consumequeue.NewSet()
	for p := range entry.Partition(partitions) {
		set.Create(p)
	}
	for n := range uint32(files) {
		for q := range set.All() {
			_, end := q.Bounds()
			q.Put(n, batch(end, 10, uint32(q.Partition()), 1))
		}
		f, err := set.Seal(n).Write(vfs.Disk(), dir, segment(n, 1<<31))
		if err != nil {
			b.Fatal(err)
		}
		if err := set.Attach(f); err != nil {
			b.Fatal(err)
		}
	}
	set.Close()
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		before := heap()
		b.StartTimer()
		set := consumequeue.NewSet()
		for p := range entry.Partition(partitions) {
			set.Create(p)
		}
		for n := range uint32(files) {
			f, err := consumequeue.Open(vfs.Disk(), dir, n)
			if err != nil {
				b.Fatal(err)
			}
			if err := set.Attach(f); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		b.ReportMetric(float64(heap()-before)/partitions, "B/partition")
		set.Close()
		b.StartTimer()
	}
}
