package commitlog_test

import (
	"testing"

	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/segment"
)

func TestWhatIsProposedIsAppliedInOrderAndThereAfterRestart(t *testing.T) {
	onDisk := diskOptions(t)
	onDisk.SegmentBytes = segment.MinBytes
	for name, o := range map[string]commitlog.Options{"fs=mem": options(newMem(t)), "fs=disk": onDisk} {
		t.Run(name, func(t *testing.T) { proposeAndRestart(t, o) })
	}
}

func proposeAndRestart(t *testing.T, o commitlog.Options) {
	r := mustStart(t, o)
	const n = 400
	size := func(i int) int { return 8 + (i*977)%3000 }
	for i := range n {
		mustPropose(t, r, text(i, size(i)))
	}
	for _, a := range r.applied {
		s, ok := r.Cached(a.pos, len(a.payload))
		if !ok || string(s.Bytes) != a.payload {
			t.Fatalf("entry %d is not cached", a.index)
		}
		s.Release()
		buf := make([]byte, len(a.payload))
		if err := r.ReadPayload(a.pos, buf); err != nil || string(buf) != a.payload {
			t.Fatalf("entry %d reads as %.20q, %v", a.index, buf, err)
		}
	}
	first := append([]applied(nil), r.applied...)
	segments := r.Segments()
	r.stop(t)
	if len(segments) < 3 || len(r.sealed) != len(segments)-1 {
		t.Fatalf("%d segments, %d were sealed", len(segments), len(r.sealed))
	}

	again := mustStart(t, o)
	defer again.stop(t)
	if again.sum.Last != n || again.sum.Entries != n {
		t.Fatalf("replay found %+v", again.sum)
	}
	for i, a := range again.applied {
		if a != first[i] {
			t.Fatalf("entry %d is %+v, was %+v", i, a, first[i])
		}
	}
	for i, s := range again.sealed {
		if got, want := s, r.sealed[i]; got.Number != want.Number || got.End != want.End || got.Chain != want.Chain ||
			got.FirstIndex != want.FirstIndex || got.LastIndex != want.LastIndex || got.Terms[0] != want.Terms[0] ||
			got.FirstTime != want.FirstTime || got.LastTime != want.LastTime {
			t.Fatalf("sealed %+v, was %+v", got, want)
		}
	}
	mustPropose(t, again, text(n, 10))
	if last := again.applied[len(again.applied)-1]; last.index != entry.Index(n+1) {
		t.Fatalf("entry after restart has index %d", last.index)
	}
}
