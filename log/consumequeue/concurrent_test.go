package consumequeue_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/entry"
)

// A reader that runs beside the apply loop, the sealer and the keeper sees
// lists without holes or repetitions, and never a bound without its batches.
func TestReadersSeeWholeListsWhileEverythingMoves(t *testing.T) {
	const (
		partitions = 3
		segments   = 25
		batches    = 1500 // in a segment
	)
	fs := memory(t)
	set := consumequeue.NewSet()
	for p := range entry.Partition(partitions) {
		set.Create(p)
	}
	done := make(chan struct{})
	var readers, sealer sync.WaitGroup
	for i := range 4 {
		readers.Add(1)
		go func() { // ends with done
			defer readers.Done()
			read(t, set, partitions, uint64(i), done)
		}()
	}
	type sealed struct {
		number  uint32
		builder *consumequeue.Builder
	}
	work := make(chan sealed, segments)
	sealer.Add(1)
	go func() { // ends when work is closed
		defer sealer.Done()
		for s := range work {
			f, err := s.builder.Write(fs, "log", segment(s.number, 1<<31))
			if err == nil {
				err = set.Attach(f)
			}
			if err != nil {
				t.Error(err)
			}
			if old := s.number - 3; s.number > 3 {
				for q := range set.All() {
					q.SetStart(entry.Offset(old) * batches / partitions)
				}
				if needed, err := set.Needed(old); err != nil || needed {
					t.Errorf("segment %d is needed: %v, %v", old, needed, err)
				}
				set.Detach(old)
			}
		}
	}()
	for n := range uint32(segments) {
		for i := range uint32(batches) {
			q := set.Get(entry.Partition(i % partitions))
			_, end := q.Bounds()
			q.Put(n+1, batch(end, 1, 4096+i, entry.Time(end)))
		}
		set.DrainNew(n+1, nil)
		work <- sealed{n + 1, set.Seal(n + 1)}
	}
	close(work)
	sealer.Wait()
	close(done)
	readers.Wait()
	set.Close()
}

func read(t *testing.T, set *consumequeue.Set, partitions, seed uint64, done chan struct{}) {
	rng := rand.New(rand.NewPCG(seed, seed))
	dst := make([]consumequeue.Located, 0, 700)
	for {
		select {
		case <-done:
			return
		default:
		}
		q := set.Get(entry.Partition(rng.Uint64N(partitions)))
		start, end := q.Bounds()
		from := start + entry.Offset(rng.Int64N(int64(end-start)+1))
		found, err := q.Find(from, end, 1<<40, dst)
		if errors.Is(err, consumequeue.ErrOutOfRange) {
			continue // the start moved
		}
		if err != nil || len(found) != min(int(end-from), cap(dst)) {
			// The keeper may free what we look for while we look.
			if now, _ := q.Bounds(); now <= from {
				t.Errorf("find from %d to %d: %d batches, %v", from, end, len(found), err)
				return
			}
			continue
		}
		for i, l := range found {
			if l.BaseOffset != from+entry.Offset(i) {
				t.Errorf("batch %d from %d on has offset %d", i, from, l.BaseOffset)
				return
			}
		}
		if at, ok, err := q.FindTime(entry.Time(from), from); err != nil || ok && at.BaseOffset < from {
			t.Errorf("find time %d: %v, %v", from, at, err)
			return
		}
		if size, err := q.Size(); err != nil || size < 0 {
			t.Errorf("size %d, %v", size, err)
			return
		}
	}
}

func TestQueuesComeAndGoWhileTheyAreLookedUp(t *testing.T) {
	set := consumequeue.NewSet()
	done := make(chan struct{})
	var readers sync.WaitGroup
	readers.Add(1)
	go func() { // ends with done
		defer readers.Done()
		for p := entry.Partition(0); ; p = (p + 1) % 2000 {
			select {
			case <-done:
				return
			default:
			}
			if q := set.Get(p); q != nil && q.Partition() != p {
				t.Errorf("looked up %d, got %d", p, q.Partition())
				return
			}
			if p == 0 {
				before := entry.Partition(0)
				for q := range set.All() {
					if q.Partition() <= before {
						t.Errorf("%d after %d", q.Partition(), before)
						return
					}
					before = q.Partition()
				}
			}
		}
	}()
	for p := entry.Partition(1); p < 20000; p++ {
		q := set.Create(p)
		q.Put(1, batch(0, 1, 4096, 1))
		if set.Create(p) != q {
			t.Fatal("created twice")
		}
		if p > 500 {
			set.Delete(p - 500)
			set.Delete(p - 500)
		}
	}
	close(done)
	readers.Wait()
	if set.Len() != 500 {
		t.Error(set.Len())
	}
	set.Delete(1 << 60)
	if set.Get(1<<60) != nil || set.Create(1<<60) != set.Get(1<<60) {
		t.Error("large partition numbers")
	}
}
