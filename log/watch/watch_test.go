package watch_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/watch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func woken(w *watch.Waiter) bool {
	select {
	case <-w.Woken():
		return true
	default:
		return false
	}
}

func TestWaiterIsWokenOnceUntilItRearms(t *testing.T) {
	var hub watch.Hub
	w := hub.Watch([]entry.Partition{1, 2, 3})
	hub.Notify(4)
	if woken(w) {
		t.Error("woken by a partition that it does not wait for")
	}
	hub.Notify(2)
	hub.Notify(2)
	hub.Notify(3)
	if !woken(w) || woken(w) {
		t.Error("not woken exactly once")
	}
	if changed := w.Rearm(nil); !slices.Equal(changed, []entry.Partition{3, 2}) {
		t.Errorf("changed: %v", changed)
	}
	if woken(w) || len(w.Rearm(nil)) != 0 {
		t.Error("nothing changed since")
	}
	hub.Notify(1)
	if changed := w.Rearm(nil); !slices.Equal(changed, []entry.Partition{1}) || woken(w) {
		t.Errorf("Rearm takes back a wake-up that was not received: %v", changed)
	}
	hub.Notify(2)
	w.Cancel()
	w.Cancel()
	if !woken(w) {
		t.Error("Cancel takes back a wake-up")
	}
	hub.Notify(1)
	hub.Notify(3)
	if woken(w) {
		t.Error("woken after Cancel")
	}
}

func TestAllWaitersOfAPartitionAreWoken(t *testing.T) {
	var hub watch.Hub
	waiters := make([]*watch.Waiter, 100)
	for i := range waiters {
		waiters[i] = hub.Watch([]entry.Partition{7, entry.Partition(1000 + i)})
	}
	for i := 0; i < len(waiters); i += 3 {
		waiters[i].Cancel()
	}
	hub.Notify(7)
	for i, w := range waiters {
		if woken(w) != (i%3 != 0) {
			t.Errorf("waiter %d", i)
		}
		w.Cancel()
	}
}

// A waiter that watches, or rearms, before it looks misses nothing, however its
// looking and waiting fall together with what happens.
func TestNoChangeIsMissed(t *testing.T) {
	const partitions, changes = 5, 2000
	var hub watch.Hub
	var ends [partitions]atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Add(1)
		go func() { // ends when it has seen every change
			defer all.Done()
			w := hub.Watch([]entry.Partition{0, 1, 2, 3, 4})
			defer w.Cancel()
			for {
				var seen int64
				for p := range ends {
					seen += ends[p].Load()
				}
				if seen == partitions*changes {
					return
				}
				<-w.Woken() // hangs if a change is missed
				w.Rearm(nil)
			}
		}()
	}
	for range 2 { // others that come and go
		all.Add(1)
		go func() { // ends by itself
			defer all.Done()
			for i := range 500 {
				w := hub.Watch([]entry.Partition{entry.Partition(i % partitions), 99})
				w.Rearm(nil)
				w.Cancel()
			}
		}()
	}
	for range changes {
		for p := range ends {
			ends[p].Add(1)
			hub.Notify(entry.Partition(p))
		}
	}
	all.Wait()
}

// model is what a waiter should know.
type model struct {
	waiter     *watch.Waiter
	partitions []entry.Partition
	pending    map[entry.Partition]bool // notified since it was armed
	woken      bool
}

func TestHubAnswersAsAModelDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var hub watch.Hub
		var waiters []*model
		partition := rapid.Uint64Range(1, 6)
		pick := func(t *rapid.T) *model {
			if len(waiters) == 0 {
				t.Skip("nobody waits")
			}
			return waiters[rapid.IntRange(0, len(waiters)-1).Draw(t, "waiter")]
		}
		t.Repeat(map[string]func(*rapid.T){
			"watch": func(t *rapid.T) {
				m := &model{pending: map[entry.Partition]bool{}}
				for _, p := range rapid.SliceOfDistinct(partition, func(p uint64) uint64 { return p }).Draw(t, "partitions") {
					m.partitions = append(m.partitions, entry.Partition(p))
				}
				m.waiter = hub.Watch(m.partitions)
				waiters = append(waiters, m)
			},
			"notify": func(t *rapid.T) {
				p := entry.Partition(partition.Draw(t, "partition"))
				hub.Notify(p)
				for _, m := range waiters {
					if slices.Contains(m.partitions, p) {
						m.woken = m.woken || len(m.pending) == 0
						m.pending[p] = true
					}
				}
			},
			"receive": func(t *rapid.T) {
				m := pick(t)
				if got := woken(m.waiter); got != m.woken {
					t.Fatalf("woken %v, want %v", got, m.woken)
				}
				m.woken = false
			},
			"rearm": func(t *rapid.T) {
				m := pick(t)
				got := m.waiter.Rearm(nil)
				slices.Sort(got)
				want := make([]entry.Partition, 0)
				for p := range m.pending {
					want = append(want, p)
				}
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Fatalf("changed %v, want %v", got, want)
				}
				clear(m.pending)
				m.woken = false
			},
			"cancel": func(t *rapid.T) {
				m := pick(t)
				m.waiter.Cancel()
				waiters = slices.DeleteFunc(waiters, func(o *model) bool { return o == m })
			},
		})
	})
}

func TestNotifyDoesNotAllocate(t *testing.T) {
	var hub watch.Hub
	w := hub.Watch([]entry.Partition{1, 2, 3})
	defer w.Cancel()
	changed := make([]entry.Partition, 0, 3)
	if n := testing.AllocsPerRun(100, func() {
		hub.Notify(5000)
		hub.Notify(2)
		<-w.Woken()
		changed = w.Rearm(changed[:0])
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestWatchAllocatesThreeTimes(t *testing.T) {
	var hub watch.Hub
	partitions := make([]entry.Partition, 1000)
	for i := range partitions {
		partitions[i] = entry.Partition(i)
	}
	hub.Watch(partitions).Cancel()
	if n := testing.AllocsPerRun(20, func() { hub.Watch(partitions).Cancel() }); n > 3 {
		t.Errorf("%v allocations", n)
	}
}
