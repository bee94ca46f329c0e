package commitlog_test

import (
	"errors"
	"testing"

	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/segment"
	"github.com/sluicemq/sluice/log/vfs"
	"github.com/sluicemq/sluice/log/vfs/vfstest"
)

// walked is what Walk found in the files.
type walked struct {
	sum     commitlog.WalkSummary
	entries []applied
	damage  []commitlog.Found
}

// walkAll walks the files from the index on, and fails if that changes anything.
func walkAll(t *testing.T, files image, from entry.Index) walked {
	t.Helper()
	fs := vfstest.New(files.store(t))
	fs.After(func(op vfstest.Op) {
		if op.Kind.Changes() {
			t.Errorf("Walk does %v", op)
		}
	})
	var w walked
	sum, err := commitlog.Walk(vfs.New(fs), dir, from, func(f *commitlog.Found) error {
		if f.Damage != nil {
			w.damage = append(w.damage, *f)
			return nil
		}
		if f.Segment != f.Pos.Segment() {
			t.Errorf("entry at %v is given in segment %d", f.Pos, f.Segment)
		}
		w.entries = append(w.entries, applied{
			index: f.Entry.Index, pos: f.Pos, time: f.Entry.Time, payload: string(f.Entry.Payload),
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.sum = sum
	return w
}

func TestWalkGivesAllEntriesWithTheirPlaces(t *testing.T) {
	files, entries := build(t, 80, medium)
	w := walkAll(t, files, 0)
	if len(w.entries) != 80 || len(w.damage) != 0 || w.sum.First != 1 || w.sum.Last != 80 || w.sum.Bound != 80 || w.sum.Damaged != 0 {
		t.Fatalf("%d entries, %+v, %+v", len(w.entries), w.sum, w.damage)
	}
	for i, e := range w.entries {
		if e != entries[i] {
			t.Fatalf("entry %d is %+v", i, e.pos)
		}
	}
	late := walkAll(t, files, 70)
	if len(late.entries) != 11 || late.entries[0] != entries[69] || late.sum.Segments == w.sum.Segments {
		t.Fatalf("from 70: %d entries, %+v", len(late.entries), late.sum)
	}
	if none := walkAll(t, image{}, 0); none.sum != (commitlog.WalkSummary{}) {
		t.Fatalf("nothing: %+v", none.sum)
	}
}

func TestWalkGoesOnBehindDamage(t *testing.T) {
	files, entries := build(t, 80, medium)
	bad := 0 // the second entry of the second segment
	for entries[bad].pos.Segment() != 2 {
		bad++
	}
	bad++
	next := bad
	for entries[next].pos.Segment() != 3 {
		next++
	}
	w := walkAll(t, files.flip(segment.FileName(2), int(entries[bad].pos.At())+80), 0)
	if len(w.entries) != 80-(next-bad) || len(w.damage) != 1 || w.sum.Damaged != 1 {
		t.Fatalf("%d entries, %+v, %+v", len(w.entries), w.sum, w.damage)
	}
	d := w.damage[0]
	if d.Pos != entries[bad].pos || d.Tail || !errors.Is(d.Damage, segment.ErrChecksum) {
		t.Fatalf("damage is %+v", d)
	}
	if w.entries[bad] != entries[next] {
		t.Fatalf("behind the damage is entry %d", w.entries[bad].index)
	}
}

func TestWalkTellsATornTailFromDamage(t *testing.T) {
	files, entries := build(t, 80, medium)
	newest := entries[79]
	name := segment.FileName(newest.pos.Segment())
	torn := files.flip(name, int(newest.pos.At())+100)
	if w := walkAll(t, torn, 0); len(w.damage) != 1 || w.damage[0].Tail || w.sum.Damaged != 1 {
		t.Errorf("before the bound: %+v", w.damage)
	}
	w := walkAll(t, torn.with(boundFile, nil), 0)
	if len(w.entries) != 79 || len(w.damage) != 1 || !w.damage[0].Tail || w.sum.Damaged != 0 {
		t.Errorf("behind the bound: %+v", w.damage)
	}
	// Bytes that are no header of the next entry are of a former use of the file.
	stale := files.flip(name, int(newest.pos.At())+20)
	if w := walkAll(t, stale.with(boundFile, nil), 0); len(w.damage) != 0 {
		t.Errorf("former use: %+v", w.damage)
	}
}

func TestWalkEndsWithTheErrorOfVisit(t *testing.T) {
	files, _ := build(t, 3, medium)
	stop := errors.New("stop")
	n := 0
	_, err := commitlog.Walk(vfs.New(files.store(t)), dir, 0, func(*commitlog.Found) error { n++; return stop })
	if !errors.Is(err, stop) || n != 1 {
		t.Fatalf("%d calls, %v", n, err)
	}
}

func TestWalkMissesNothingWhereAllEntriesWereDropped(t *testing.T) {
	mem := newMem(t)
	r := mustStart(t, options(mem))
	mustPropose(t, r, "gone")
	if err := r.Roll(); err != nil {
		t.Fatal(err)
	}
	if err := r.Drop(1); err != nil {
		t.Fatal(err)
	}
	r.stop(t)
	sum, err := commitlog.Walk(vfs.New(mem), dir, 0, func(f *commitlog.Found) error {
		t.Errorf("found %+v", *f)
		return nil
	})
	if err != nil || sum.Damaged != 0 || sum.Segments != 1 || sum.Bound != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
}
