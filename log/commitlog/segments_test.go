package commitlog_test

import (
	"errors"
	"sync/atomic"
	"testing"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/segment"
	"github.com/sluicemq/sluice/log/vfs/vfstest"
)

func TestRollSealsWhatIsThereAndNothingElse(t *testing.T) {
	mem := newMem(t)
	r := mustStart(t, options(mem))
	if err := r.Roll(); err != nil || len(r.Segments()) != 0 {
		t.Fatalf("Roll of an empty log: %v, %d segments", err, len(r.Segments()))
	}
	mustPropose(t, r, "a")
	for range 3 { // only the first has something to seal
		if err := r.Roll(); err != nil {
			t.Fatal(err)
		}
	}
	segments := r.Segments()
	if len(segments) != 2 || !segments[0].Sealed || segments[0].LastIndex != 1 || segments[1].Sealed || segments[1].FirstIndex != 2 {
		t.Fatalf("segments are %+v", segments)
	}
	r.stop(t)
	want := commitlog.Sealed{
		Number: 1, FirstIndex: 1, LastIndex: 1, FirstTime: 1000, LastTime: 1000,
		End: segment.HeaderBytes + segment.EntryHeaderBytes + 1,
	}
	for _, sealed := range [][]commitlog.Sealed{r.sealed, restarted(t, mem).sealed} {
		if len(sealed) != 1 {
			t.Fatalf("%d segments were sealed", len(sealed))
		}
		got := sealed[0]
		if len(got.Terms) != 1 || got.Terms[0] != (commitlog.TermRun{Term: 1, First: 1}) || got.Chain == 0 {
			t.Errorf("sealed %+v", got)
		}
		if got.Terms, got.Chain = nil, 0; got.Number != want.Number || got.End != want.End || got.LastTime != want.LastTime ||
			got.FirstIndex != want.FirstIndex || got.LastIndex != want.LastIndex || got.FirstTime != want.FirstTime {
			t.Errorf("sealed %+v, expected %+v", got, want)
		}
	}
}

// restarted opens the log and closes it again.
func restarted(t *testing.T, mem pebblevfs.FS) *running {
	t.Helper()
	r := mustStart(t, options(mem))
	r.stop(t)
	return r
}

func TestTermRunsOfASegment(t *testing.T) {
	mem := newMem(t)
	for term := entry.Term(1); term <= 3; term++ {
		o := options(mem)
		o.Term = term
		r := mustStart(t, o)
		mustPropose(t, r, "x")
		mustPropose(t, r, "y")
		if term == 3 {
			if err := r.Roll(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				terms := r.sealed[0].Terms
				if len(terms) != 3 || terms[1] != (commitlog.TermRun{Term: 2, First: 3}) || terms[2] != (commitlog.TermRun{Term: 3, First: 5}) {
					t.Errorf("terms are %v", terms)
				}
			}()
		}
		r.stop(t)
	}
}

func TestADroppedSegmentIsGoneForReadersAndStaysGone(t *testing.T) {
	mem := newMem(t)
	o := options(mem)
	o.TailBytes = 1
	r := mustStart(t, o)
	for i := range 100 {
		mustPropose(t, r, text(i, 3000))
	}
	segments := r.Segments()
	newest := segments[len(segments)-1].Number
	if err := r.Drop(newest); !errors.Is(err, commitlog.ErrActive) {
		t.Fatalf("Drop of the newest: %v", err)
	}
	if err := r.Drop(99); !errors.Is(err, commitlog.ErrGone) {
		t.Fatalf("Drop of none: %v", err)
	}
	first := r.applied[0]
	buf := make([]byte, 3000)
	if err := r.ReadPayload(first.pos, buf); err != nil {
		t.Fatal(err)
	}
	for number := uint32(1); number <= 2; number++ {
		if err := r.Drop(number); err != nil {
			t.Fatal(err)
		}
		if err := r.Drop(number); !errors.Is(err, commitlog.ErrGone) {
			t.Fatalf("a second Drop: %v", err)
		}
	}
	if err := r.ReadPayload(first.pos, buf); !errors.Is(err, commitlog.ErrGone) {
		t.Fatalf("ReadPayload: %v", err)
	}
	if _, ok := r.Cached(first.pos, 3000); ok {
		t.Fatal("the oldest entry is in a tail of one byte")
	}
	if _, ok := r.SegmentOf(first.index); ok {
		t.Fatal("the dropped entry has a segment")
	}
	if s := r.Segments(); s[0].Number != 3 || s[0].LastIndex != segments[2].LastIndex {
		t.Fatalf("segments are %+v", s)
	}
	r.stop(t)
	if again := restarted(t, mem); again.applied[0].pos.Segment() != 3 || again.sum.Last != 100 {
		t.Fatalf("restart found %+v", again.sum)
	}
}

func TestDropWaitsForReadersOfTheSegment(t *testing.T) {
	fs := vfstest.New(newMem(t))
	r := mustStart(t, options(fs))
	mustPropose(t, r, text(0, 100))
	if err := r.Roll(); err != nil {
		t.Fatal(err)
	}
	g := newGate(fs, vfstest.Read)
	g.shut.Store(true)
	read := make(chan error)
	go func() {
		buf := make([]byte, 100)
		err := r.ReadPayload(r.applied[0].pos, buf)
		if err == nil && string(buf) != text(0, 100) {
			err = errors.New("other bytes were read")
		}
		read <- err
	}()
	<-g.arrived
	g.shut.Store(false)
	dropped := make(chan error)
	go func() { dropped <- r.Drop(1) }()
	// New readers are turned away at once, the old one goes on undisturbed.
	for !errors.Is(r.ReadPayload(r.applied[0].pos, make([]byte, 100)), commitlog.ErrGone) {
	}
	select {
	case <-dropped:
		t.Fatal("Drop did not wait")
	default:
	}
	g.open <- struct{}{}
	if err := <-read; err != nil {
		t.Fatal(err)
	}
	if err := <-dropped; err != nil {
		t.Fatal(err)
	}
	r.stop(t)
}

func TestDroppedFilesBecomeSegmentsAgain(t *testing.T) {
	mem := newMem(t)
	o := options(mem)
	var recycled, created atomic.Int64
	o.Events.Prepared = func(_ uint32, again bool, _ int64) {
		if again {
			recycled.Add(1)
		} else {
			created.Add(1)
		}
	}
	r := mustStart(t, o)
	for i := range 300 {
		mustPropose(t, r, text(i, 3000))
		if s := r.Segments(); len(s) > 2 {
			if err := r.Drop(s[0].Number); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.stop(t)
	if recycled.Load() < 3 {
		t.Errorf("%d files were recycled, %d made", recycled.Load(), created.Load())
	}
	again := restarted(t, mem)
	if again.sum.Last != 300 {
		t.Fatalf("restart found %+v", again.sum)
	}
}

func TestAReadyFileIsTakenOverAfterACleanEndOnly(t *testing.T) {
	for _, clean := range []bool{true, false} {
		mem := newMem(t)
		ready := make(chan struct{}, 10)
		o := options(mem)
		o.Events.Prepared = func(number uint32, _ bool, _ int64) {
			if number == 2 {
				ready <- struct{}{}
			}
		}
		r := mustStart(t, o)
		n := 0
		// From three quarters on the next file is filled as a whole.
		for ; n < 18; n++ {
			mustPropose(t, r, text(n, 3000))
		}
		<-ready
		var files pebblevfs.FS = mem
		if clean {
			r.stop(t)
		} else {
			files = load(t, mem).store(t)
			defer r.stop(t)
		}
		made := 0
		again := options(files)
		again.Events.Prepared = func(number uint32, _ bool, _ int64) {
			if number == 2 {
				made++
			}
		}
		after := mustStart(t, again)
		for ; n < 30; n++ {
			mustPropose(t, after, text(n, 3000))
		}
		after.stop(t)
		if want := map[bool]int{true: 0, false: 1}[clean]; made != want || len(after.sealed) != 1 {
			t.Errorf("clean end %v: %d files were made, %d segments sealed", clean, made, len(after.sealed))
		}
		restarted(t, files)
	}
}

func TestPayloadsPatchedByTheApplyLoopShowInMemoryOnly(t *testing.T) {
	l, err := commitlog.Open(options(newMem(t)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Replay(0, 0, nil); err != nil {
		t.Fatal(err)
	}
	p := newTicket("................ and the rest")
	if err := l.Propose(&p.Proposal); err != nil {
		t.Fatal(err)
	}
	g, _ := l.Next()
	pos := g.Entries[0].Pos
	copy(g.Entries[0].Payload, "patched")
	g.Entries[0].Proposal.Complete(entry.Result{})
	g.Release()
	if string(p.Payload) != "................ and the rest" {
		t.Fatal("the proposer's bytes were changed")
	}
	s, ok := l.Cached(pos, len(p.Payload))
	if !ok || string(s.Bytes) != "patched......... and the rest" {
		t.Fatalf("cached is %q", s.Bytes)
	}
	buf := make([]byte, len(p.Payload))
	if err := l.ReadPayload(pos, buf); err != nil || string(buf) != string(p.Payload) {
		t.Fatalf("on disk is %q, %v", buf, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if string(s.Bytes) != "patched......... and the rest" {
		t.Fatal("a slice lost its bytes with Close")
	}
	s.Release()
}

func TestReadPayloadNoticesOtherBytes(t *testing.T) {
	files, entries := build(t, 10, medium)
	mem := files.store(t)
	r := mustStart(t, options(mem))
	defer r.stop(t)
	e := entries[4]
	if err := r.ReadPayload(e.pos, make([]byte, len(e.payload)-1)); !errors.Is(err, segment.ErrCorrupt) {
		t.Errorf("another size: %v", err)
	}
	if err := r.ReadPayload(e.pos+1, make([]byte, len(e.payload))); !errors.Is(err, segment.ErrMagic) {
		t.Errorf("another place: %v", err)
	}
	if err := r.ReadPayload(entry.MakePos(1, 1<<30), make([]byte, 1)); err == nil {
		t.Error("a place behind the file was read")
	}
	data := append([]byte(nil), files[segment.FileName(1)]...)
	data[int(e.pos.At())+500] ^= 1
	writeFile(t, mem, segment.FileName(1), data)
	var damage *segment.DamageError
	err := r.ReadPayload(e.pos, make([]byte, len(e.payload)))
	if !errors.As(err, &damage) || damage.Index != e.index || damage.At != int64(e.pos.At())+segment.EntryHeaderBytes {
		t.Errorf("a flipped bit: %v", err)
	}
}
