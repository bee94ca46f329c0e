package watch_test

import (
	"testing"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/watch"
)

// many watches partitions 0 to 9,999, each by a waiter of its own.
func many(hub *watch.Hub) (waiters []*watch.Waiter) {
	for p := range entry.Partition(10_000) {
		waiters = append(waiters, hub.Watch([]entry.Partition{p}))
	}
	return waiters
}

func BenchmarkNotify(b *testing.B) {
	b.Run("waiters=0", func(b *testing.B) {
		var hub watch.Hub
		b.ReportAllocs()
		var p entry.Partition
		for b.Loop() {
			hub.Notify(p)
			p = (p + 1) % 100_000
		}
	})
	b.Run("waiters=10000/watched=no", func(b *testing.B) {
		var hub watch.Hub
		many(&hub)
		b.ReportAllocs()
		var p entry.Partition
		for b.Loop() {
			hub.Notify(10_000 + p)
			p = (p + 1) % 90_000
		}
	})
	b.Run("waiters=10000/watched=yes", func(b *testing.B) {
		var hub watch.Hub
		waiters := many(&hub)
		b.ReportAllocs()
		changed := make([]entry.Partition, 0, 1)
		var p entry.Partition
		for b.Loop() {
			hub.Notify(p)
			changed = waiters[p].Rearm(changed[:0])
			p = (p + 1) % 10_000
		}
	})
	// All wait for one partition: the cost is for 10,000 wake-ups.
	b.Run("waiters=10000/woken=10000", func(b *testing.B) {
		var hub watch.Hub
		var waiters []*watch.Waiter
		for range 10_000 {
			waiters = append(waiters, hub.Watch([]entry.Partition{1}))
		}
		b.ReportAllocs()
		for b.Loop() {
			hub.Notify(1)
			b.StopTimer()
			for _, w := range waiters {
				w.Rearm(nil)
			}
			b.StartTimer()
		}
	})
}

// BenchmarkWatch is one long poll of a consumer of 10,000 partitions beside
// 1,000 others of the same.
func BenchmarkWatch(b *testing.B) {
	var hub watch.Hub
	partitions := make([]entry.Partition, 10_000)
	for i := range partitions {
		partitions[i] = entry.Partition(i)
	}
	for range 1000 {
		hub.Watch(partitions)
	}
	b.ReportAllocs()
	for b.Loop() {
		hub.Watch(partitions).Cancel()
	}
}
