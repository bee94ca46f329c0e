package commitlog_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/segment"
	"github.com/sluicemq/sluice/log/vfs/vfstest"
)

// gate holds up operations of a kind until it is opened.
type gate struct {
	kind    vfstest.Kind
	shut    atomic.Bool
	arrived chan vfstest.Op // one for each operation that is held up
	open    chan struct{}   // one lets one through
}

func newGate(fs *vfstest.FS, kind vfstest.Kind) *gate {
	g := &gate{kind: kind, arrived: make(chan vfstest.Op, 100), open: make(chan struct{}, 100)}
	fs.Decide(func(op vfstest.Op) *vfstest.Fault {
		if op.Kind == g.kind && g.shut.Load() {
			g.arrived <- op
			<-g.open
		}
		return nil
	})
	return g
}

func TestProposalsThatWaitAreAppendedWithOneSync(t *testing.T) {
	fs := vfstest.New(newMem(t))
	g := newGate(fs, vfstest.Sync)
	r := mustStart(t, options(fs))
	mustPropose(t, r, "begin")
	g.shut.Store(true)
	first := newTicket("first")
	if err := r.Propose(&first.Proposal); err != nil {
		t.Fatal(err)
	}
	<-g.arrived // the first one is being synced
	var waiting []*ticket
	for i := range 50 {
		w := newTicket(text(i, 20))
		if err := r.Propose(&w.Proposal); err != nil {
			t.Fatal(err)
		}
		waiting = append(waiting, w)
	}
	if got := r.DurableIndex(); got != 1 {
		t.Fatalf("index %d is durable before the sync is over", got)
	}
	select {
	case <-first.result:
		t.Fatal("acknowledged before the sync is over")
	default:
	}
	g.open <- struct{}{}
	<-g.arrived // the second sync: that of all that waited
	g.shut.Store(false)
	g.open <- struct{}{}
	for i, w := range waiting {
		if res := <-w.result; res.Err != nil || res.Offset != entry.Offset(i+3) {
			t.Fatalf("proposal %d: %+v", i, res)
		}
	}
	r.stop(t)
	if n := len(g.arrived); n != 0 {
		t.Fatalf("%d more syncs", n)
	}
}

func TestProposeWaitsWhileTheBacklogIsFull(t *testing.T) {
	fs := vfstest.New(newMem(t))
	g := newGate(fs, vfstest.Sync)
	o := options(fs)
	o.BacklogBytes = 10_000
	r := mustStart(t, o)
	g.shut.Store(true)
	var done atomic.Int64
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			w := newTicket(text(i, 2000))
			if err := r.Propose(&w.Proposal); err != nil {
				t.Error(err)
			}
			done.Add(1)
			if res := <-w.result; res.Err != nil {
				t.Error(res.Err)
			}
		})
	}
	<-g.arrived
	// What is being written still counts, so no more than the limit got in.
	if n := done.Load(); n > 4 {
		t.Errorf("%d proposals of 2,056 bytes are in a backlog of 10,000", n)
	}
	g.shut.Store(false)
	g.open <- struct{}{}
	all.Wait()
	r.stop(t)
	if len(r.applied) != 20 {
		t.Fatalf("%d entries", len(r.applied))
	}
}

func TestAnEntryIsRefusedOnlyWhenNoSegmentCanHoldIt(t *testing.T) {
	r := mustStart(t, options(newMem(t)))
	defer r.stop(t)
	largest := segment.MinBytes - segment.HeaderBytes - segment.EntryHeaderBytes
	mustPropose(t, r, "something before it")
	mustPropose(t, r, text(1, largest))
	mustPropose(t, r, text(2, largest))
	if err := r.propose(text(3, largest+1)).Err; !errors.Is(err, commitlog.ErrTooLarge) {
		t.Fatalf("error is %v", err)
	}
	mustPropose(t, r, "")
	if n := len(r.Segments()); n != 4 {
		t.Fatalf("%d segments", n)
	}
	buf := make([]byte, largest)
	if err := r.ReadPayload(r.applied[2].pos, buf); err != nil || string(buf) != text(2, largest) {
		t.Fatalf("reading the largest entry: %v", err)
	}
}

func TestCloseCompletesWhatWasProposedAndRefusesTheRest(t *testing.T) {
	fs := vfstest.New(newMem(t))
	g := newGate(fs, vfstest.Sync)
	r := mustStart(t, options(fs))
	g.shut.Store(true)
	var waiting []*ticket
	for i := range 100 {
		w := newTicket(text(i, 100))
		if err := r.Propose(&w.Proposal); err != nil {
			t.Fatal(err)
		}
		waiting = append(waiting, w)
	}
	<-g.arrived
	closed := make(chan error)
	go func() { closed <- r.Close() }()
	g.shut.Store(false)
	g.open <- struct{}{}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	<-r.done
	for i, w := range waiting {
		select {
		case res := <-w.result:
			if res.Err != nil {
				t.Fatalf("proposal %d: %v", i, res.Err)
			}
		default:
			t.Fatalf("proposal %d was not completed", i)
		}
	}
	if err := r.propose("late").Err; !errors.Is(err, commitlog.ErrClosed) {
		t.Fatalf("Propose after Close: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatalf("a second Close: %v", err)
	}
	if err := r.ReadPayload(r.applied[0].pos, make([]byte, 100)); !errors.Is(err, commitlog.ErrClosed) {
		t.Fatalf("ReadPayload after Close: %v", err)
	}
	if err := r.Drop(1); !errors.Is(err, commitlog.ErrClosed) {
		t.Fatalf("Drop after Close: %v", err)
	}
	if err := r.SyncTo(1000); !errors.Is(err, commitlog.ErrClosed) {
		t.Fatalf("SyncTo after Close: %v", err)
	}
}

func TestAfterDrainTheLogCanStillBeReadAndSynced(t *testing.T) {
	o := options(newMem(t))
	o.Flush, o.FlushInterval = commitlog.FlushAsync, time.Hour
	r := mustStart(t, o)
	mustPropose(t, r, "begin")
	mustPropose(t, r, "written, not synced")
	r.Drain()
	<-r.done
	if err := r.propose("late").Err; !errors.Is(err, commitlog.ErrClosed) {
		t.Fatalf("Propose after Drain: %v", err)
	}
	if err := r.SyncTo(2); err != nil || r.DurableIndex() != 2 {
		t.Fatalf("SyncTo: %v, durable to %d", err, r.DurableIndex())
	}
	if err := r.ReadPayload(r.applied[0].pos, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	r.stop(t)
}

func TestAFailedSyncIsTheEndOfTheLog(t *testing.T) {
	mem := newMem(t)
	fs := vfstest.New(mem)
	o := options(fs)
	var told atomic.Int64
	o.Events.Dead = func(error) { told.Add(1) }
	r := mustStart(t, o)
	mustPropose(t, r, "good")
	fs.Decide(vfstest.FailNth(1, vfstest.EIO, func(op vfstest.Op) bool { return op.Kind == vfstest.Sync }))
	for range 3 {
		if err := r.propose("lost").Err; !errors.Is(err, commitlog.ErrDead) || !errors.Is(err, vfstest.EIO.Err) {
			t.Fatalf("error is %v", err)
		}
	}
	if err := r.Roll(); !errors.Is(err, commitlog.ErrDead) {
		t.Fatalf("Roll: %v", err)
	}
	if err := r.SyncTo(2); !errors.Is(err, commitlog.ErrDead) {
		t.Fatalf("SyncTo: %v", err)
	}
	if r.DurableIndex() != 1 || told.Load() != 1 || !errors.Is(r.Dead(), commitlog.ErrDead) {
		t.Fatalf("durable to %d, told %d times, dead: %v", r.DurableIndex(), told.Load(), r.Dead())
	}
	buf := make([]byte, 4)
	if err := r.ReadPayload(r.applied[0].pos, buf); err != nil || string(buf) != "good" {
		t.Fatalf("reading from a dead log: %q, %v", buf, err)
	}
	r.stop(t)
	if len(r.applied) != 1 {
		t.Fatalf("%d entries were applied", len(r.applied))
	}
	again := mustStart(t, options(mem))
	defer again.stop(t)
	mustPropose(t, again, "on")
}

func TestAFullDiskRefusesAndTakesAgainWithoutRestart(t *testing.T) {
	for _, short := range []int{0, 10, 56, 5000} {
		t.Run(fmt.Sprintf("short=%d", short), func(t *testing.T) {
			mem := newMem(t)
			fs := vfstest.New(mem)
			o := options(fs)
			var refused atomic.Int64
			o.Events.Refused = func(n int, err error) { refused.Add(int64(n)) }
			r := mustStart(t, o)
			for i := range 30 {
				mustPropose(t, r, text(i, 1000))
			}
			var full atomic.Bool
			var in atomic.Int64 // bytes that get through
			fs.Decide(func(op vfstest.Op) *vfstest.Fault {
				if !full.Load() || op.Kind != vfstest.Write || op.Path == dir+"/durable" {
					return nil
				}
				if op.Bytes <= 5000 && in.Load() > 0 {
					return nil // taking back what was written
				}
				in.Store(int64(short))
				return &vfstest.Fault{Err: vfstest.ENOSPC.Err, Short: short}
			})
			full.Store(true)
			for i := range 5 {
				in.Store(0)
				err := r.propose(text(1000+i, 10_000)).Err
				if !errors.Is(err, commitlog.ErrStorageFull) || errors.Is(err, commitlog.ErrDead) {
					t.Fatalf("error is %v", err)
				}
			}
			clone := load(t, mem).store(t) // as after a kill of the process
			if got := mustStart(t, options(clone)); len(got.applied) != 30 {
				t.Errorf("%d entries after a kill: one that was refused is back", len(got.applied))
				got.stop(t)
			} else {
				got.stop(t)
			}
			full.Store(false)
			for i := 30; i < 100; i++ {
				mustPropose(t, r, text(i, 1000))
			}
			r.stop(t)
			if refused.Load() != 5 || r.Dead() != nil {
				t.Errorf("%d were refused, dead: %v", refused.Load(), r.Dead())
			}
			again := mustStart(t, options(mem))
			defer again.stop(t)
			if err := checkRow(again.payloads(), func(int) int { return 1000 }); err != nil || len(again.applied) != 100 {
				t.Fatalf("%d entries, %v", len(again.applied), err)
			}
		})
	}
}

func TestNoRoomForTheNextSegmentRefusesUntilThereIs(t *testing.T) {
	fs := vfstest.New(newMem(t))
	r := mustStart(t, options(fs))
	mustPropose(t, r, text(0, 10_000))
	var full atomic.Bool
	full.Store(true)
	fs.Decide(func(op vfstest.Op) *vfstest.Fault {
		if full.Load() && op.Kind == vfstest.Create {
			return vfstest.ENOSPC
		}
		return nil
	})
	n := 1
	for ; ; n++ {
		if err := r.propose(text(n, 10_000)).Err; err != nil {
			if !errors.Is(err, commitlog.ErrStorageFull) {
				t.Fatal(err)
			}
			break
		}
	}
	mustPropose(t, r, text(n, 8)) // what fits into the old segment is taken
	if err := r.propose(text(n+1, 10_000)).Err; !errors.Is(err, commitlog.ErrStorageFull) {
		t.Fatalf("error is %v", err)
	}
	if err := r.Roll(); !errors.Is(err, commitlog.ErrStorageFull) {
		t.Fatalf("Roll: %v", err)
	}
	full.Store(false)
	mustPropose(t, r, text(n+1, 10_000))
	r.stop(t)
	if len(r.applied) != n+2 || len(r.sealed) != 1 {
		t.Fatalf("%d entries, %d sealed", len(r.applied), len(r.sealed))
	}
}

func TestAsyncAcknowledgesBeforeTheSyncAndSyncToWaitsForIt(t *testing.T) {
	fs := vfstest.New(newMem(t))
	g := newGate(fs, vfstest.Sync)
	o := options(fs)
	o.Flush, o.FlushInterval = commitlog.FlushAsync, time.Hour
	r := mustStart(t, o)
	mustPropose(t, r, "begins a segment, which is synced")
	g.shut.Store(true)
	for range 5 {
		mustPropose(t, r, "not synced")
	}
	if w, d := r.WrittenIndex(), r.DurableIndex(); w != 6 || d != 1 {
		t.Fatalf("written %d, durable %d", w, d)
	}
	synced := make(chan error)
	go func() { synced <- r.SyncTo(6) }()
	<-g.arrived
	mustPropose(t, r, "written during the sync")
	select {
	case <-synced:
		t.Fatal("SyncTo did not wait")
	default:
	}
	g.shut.Store(false)
	g.open <- struct{}{}
	if err := <-synced; err != nil || r.DurableIndex() != 6 {
		t.Fatalf("%v, durable %d", err, r.DurableIndex())
	}
	r.stop(t)
	if r.DurableIndex() != 7 {
		t.Fatalf("durable to %d after Close", r.DurableIndex())
	}
}

func TestAsyncSyncsByItselfAfterTheInterval(t *testing.T) {
	o := options(newMem(t))
	o.Flush, o.FlushInterval = commitlog.FlushAsync, time.Millisecond
	flushed := make(chan struct{}, 100)
	o.Events.Flushed = func(time.Duration) {
		select {
		case flushed <- struct{}{}:
		default:
		}
	}
	r := mustStart(t, o)
	mustPropose(t, r, "begins a segment, which is synced")
	<-flushed
	mustPropose(t, r, "a")
	<-flushed
	r.stop(t)
}

func TestAsyncAcknowledgesNothingAfterAFailedSync(t *testing.T) {
	fs := vfstest.New(newMem(t))
	o := options(fs)
	o.Flush, o.FlushInterval = commitlog.FlushAsync, time.Hour
	r := mustStart(t, o)
	mustPropose(t, r, "a")
	mustPropose(t, r, "b")
	fs.Decide(vfstest.FailNth(1, vfstest.EIO, func(op vfstest.Op) bool { return op.Kind == vfstest.Sync }))
	if err := r.SyncTo(2); !errors.Is(err, commitlog.ErrDead) {
		t.Fatalf("SyncTo: %v", err)
	}
	if err := r.propose("c").Err; !errors.Is(err, commitlog.ErrDead) {
		t.Fatalf("Propose: %v", err)
	}
	if w, d := r.WrittenIndex(), r.DurableIndex(); w != 2 || d != 1 {
		t.Fatalf("written %d, durable %d", w, d)
	}
	r.stop(t)
}

func TestTheOrderOfCallsIsTheOrderOfEntries(t *testing.T) {
	o := options(newMem(t))
	o.BacklogBytes = 20_000
	r := mustStart(t, o)
	const proposers, each = 8, 200
	var all sync.WaitGroup
	for p := range proposers {
		all.Go(func() {
			tickets := make([]*ticket, each)
			for i := range tickets {
				tickets[i] = newTicket(fmt.Sprintf("%d %d", p, i))
				if err := r.Propose(&tickets[i].Proposal); err != nil {
					t.Error(err)
				}
			}
			last := entry.Offset(0)
			for _, w := range tickets {
				res := <-w.result
				if res.Err != nil || res.Offset <= last {
					t.Errorf("entry %d after %d, %v", res.Offset, last, res.Err)
				}
				last = res.Offset
			}
		})
	}
	all.Wait()
	r.stop(t)
	var next [proposers]int
	for _, a := range r.applied {
		var p, i int
		if _, err := fmt.Sscan(a.payload, &p, &i); err != nil || next[p] != i {
			t.Fatalf("entry %d is %q, expected number %d", a.index, a.payload, next[p])
		}
		next[p]++
	}
}

func TestTimeNeverRunsBackwards(t *testing.T) {
	mem := newMem(t)
	var now atomic.Int64
	o := options(mem)
	o.Now = func() entry.Time { return entry.Time(now.Load()) }
	r := mustStart(t, o)
	for _, at := range []int64{500, 700, 600, 800} {
		now.Store(at)
		mustPropose(t, r, "x")
	}
	if err := r.Roll(); err != nil {
		t.Fatal(err)
	}
	r.stop(t)
	// The newest segment is empty: the time is in its header page.
	now.Store(100)
	l, err := commitlog.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	again := &running{Log: l, done: make(chan struct{})}
	if again.sum, err = l.Replay(2, 4, func(g *commitlog.Group) error { again.note(g); return nil }); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(again.done)
		for g, ok := l.Next(); ok; g, ok = l.Next() {
			again.note(g)
		}
	}()
	mustPropose(t, again, "x")
	again.stop(t)
	if again.sum.LastTime != 800 {
		t.Errorf("summary %+v", again.sum)
	}
	var got []entry.Time
	for _, a := range append(r.applied, again.applied...) {
		got = append(got, a.time)
	}
	if want := []entry.Time{500, 700, 700, 800, 800}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("times are %v, expected %v", got, want)
	}
}
