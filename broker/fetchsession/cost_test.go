package fetchsession

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicemq/sluice/protocol/kerr"
)

// wide makes a request of n partitions, 100 to a topic.
func wide(n int) *Request {
	r := &Request{Epoch: InitialEpoch, ClientID: "wide"}
	for i := range n {
		r.Partitions = append(r.Partitions, Partition{Topic: fmt.Sprintf("topic-%d", i/100), Index: int32(i % 100)})
	}
	return r
}

func openWide(t testing.TB, c *Cache, n int) int32 {
	f, err := c.Begin(wide(n), 0)
	if err != nil {
		t.Fatal(err)
	}
	for p := range f.Partitions() {
		p.Answer(Answer{})
	}
	return end(t, f)
}

// fetchAgain is an incremental fetch in which every nth partition has records,
// or none if n is 0.
func fetchAgain(t testing.TB, c *Cache, r *Request, nth int) {
	f, err := c.Begin(r, 0)
	if err != nil {
		t.Fatal(err)
	}
	i, told := 0, 0
	for p := range f.Partitions() {
		i++
		if p.Answer(Answer{Records: nth > 0 && i%nth == 0}) {
			told++
		}
	}
	if (told > 0) != (nth > 0) {
		t.Fatalf("%d partitions were told", told)
	}
	if _, err := f.End(0); err != nil {
		t.Fatal(err)
	}
	r.Epoch = nextEpoch(r.Epoch)
}

func TestIncrementalFetchAllocatesNothingPerPartition(t *testing.T) {
	for _, nth := range []int{0, 3} {
		c := newCache(Options{})
		r := &Request{SessionID: openWide(t, c, 10_000), Epoch: 1}
		fetchAgain(t, c, r, nth)
		if n := testing.AllocsPerRun(20, func() { fetchAgain(t, c, r, nth) }); n > 5 {
			t.Errorf("every %dth partition has records: %v allocations", nth, n)
		}
	}
}

func TestPartitionTakesLessThanIsCounted(t *testing.T) {
	const n = 50_000
	before := heapBytes()
	c := newCache(Options{})
	id := openWide(t, c, n)
	used := heapBytes() - before
	counted := c.Stats().Bytes
	t.Logf("%d bytes a partition, counted as %d", used/n, counted/n)
	if used > counted || counted > 2*used {
		t.Errorf("%d bytes are counted as %d", used, counted)
	}
	if id == 0 {
		t.Error("no session")
	}
}

func heapBytes() int64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

func TestConnectionsShareACache(t *testing.T) {
	var last atomic.Uint32
	c := New(Options{Slots: 4}, func() uint32 { return last.Add(1) })
	var connections sync.WaitGroup
	for i := range 4 {
		connections.Go(func() {
			r := wide(50)
			for round := range 300 {
				// Every other connection fetches with sessions of others, too.
				if i%2 == 1 && round%10 == 0 {
					r.SessionID, r.Epoch = int32(last.Load()), int32(round%3)
				}
				f, err := c.Begin(r, 0)
				if err != nil {
					if code := kerr.Of(err); code != kerr.FetchSessionIDNotFound && code != kerr.InvalidFetchSessionEpoch {
						t.Error(err)
					}
					r.SessionID, r.Epoch = 0, InitialEpoch
					continue
				}
				for p := range f.Partitions() {
					p.Answer(Answer{Records: (int(p.Index)+round)%7 == 0})
				}
				id, err := f.End(0)
				switch {
				case err != nil || id == 0:
					r.SessionID, r.Epoch = 0, InitialEpoch
				default:
					r.SessionID, r.Epoch = id, nextEpoch(r.Epoch)
				}
				c.Sessions()
			}
		})
	}
	connections.Wait()
	if s := c.Stats(); s.Sessions > 4 || s.Partitions != 50*s.Sessions {
		t.Errorf("%+v", s)
	}
}

func BenchmarkIncrementalFetch(b *testing.B) {
	for _, partitions := range []int{1, 100, 10_000} {
		for _, nth := range []int{0, 100} {
			if nth > partitions {
				continue
			}
			b.Run(fmt.Sprintf("partitions=%d/records=1of%d", partitions, nth), func(b *testing.B) {
				c := newCache(Options{})
				r := &Request{SessionID: openWide(b, c, partitions), Epoch: 1}
				b.ReportAllocs()
				for b.Loop() {
					fetchAgain(b, c, r, nth)
				}
			})
		}
	}
}

// BenchmarkRequest is what a request costs without the walk: it depends on the
// partitions that are listed, not on those of the session.
func BenchmarkRequest(b *testing.B) {
	for _, listed := range []int{0, 10} {
		b.Run(fmt.Sprintf("partitions=10000/listed=%d", listed), func(b *testing.B) {
			c := newCache(Options{})
			r := &Request{SessionID: openWide(b, c, 10_000), Epoch: 1, Partitions: wide(listed).Partitions}
			b.ReportAllocs()
			for b.Loop() {
				f, err := c.Begin(r, 0)
				if err != nil {
					b.Fatal(err)
				}
				end(b, f)
				r.Epoch = nextEpoch(r.Epoch)
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	for _, partitions := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			c := newCache(Options{})
			r := wide(partitions)
			b.ReportAllocs()
			for b.Loop() {
				f, err := c.Begin(r, 0)
				if err != nil {
					b.Fatal(err)
				}
				r.SessionID = end(b, f)
			}
		})
	}
}
