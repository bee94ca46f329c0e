package consumequeue_test

import (
	"math"
	"testing"

	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/entry"
)

func TestRetain(t *testing.T) {
	// Ten batches of two records and 20 bytes each, with the times 100, 200, ...;
	// the first five in a sealed segment whose last entry is of the time 1000.
	fs := memory(t)
	set := consumequeue.NewSet()
	defer set.Close()
	q := set.Create(1)
	for i := range uint32(10) {
		q.Put(10+i/5, batch(entry.Offset(i)*2, 2, 4096+i, entry.Time(i+1)*100))
	}
	seal(t, fs, set, 10)
	for _, c := range []struct {
		name      string
		now       entry.Time
		retention consumequeue.Retention
		want      entry.Offset
	}{
		{"without limits", 1 << 40, consumequeue.Retention{Ms: -1, Bytes: -1}, 0},
		{"longest time", 1 << 40, consumequeue.Retention{Ms: math.MaxInt64, Bytes: -1}, 0},
		{"just in time", 200, consumequeue.Retention{Ms: 100, Bytes: -1}, 0},
		{"one is too old", 201, consumequeue.Retention{Ms: 100, Bytes: -1}, 2},
		{"half of the file", 401, consumequeue.Retention{Ms: 100, Bytes: -1}, 6},
		{"the file and some of the tail", 1101, consumequeue.Retention{Ms: 300, Bytes: -1}, 16},
		{"all", 5000, consumequeue.Retention{Ms: 0, Bytes: -1}, 20},
		{"all by size", 0, consumequeue.Retention{Ms: -1, Bytes: 0}, 20},
		{"as much as there is", 0, consumequeue.Retention{Ms: -1, Bytes: 200}, 0},
		{"no batch may go without falling short", 0, consumequeue.Retention{Ms: -1, Bytes: 181}, 0},
		{"one batch may go", 0, consumequeue.Retention{Ms: -1, Bytes: 180}, 2},
		{"the file by size", 0, consumequeue.Retention{Ms: -1, Bytes: 100}, 10},
		{"by size what time would keep", 301, consumequeue.Retention{Ms: 100, Bytes: 60}, 14},
		{"by time what size would keep", 801, consumequeue.Retention{Ms: 100, Bytes: 190}, 14},
	} {
		if got, err := q.Retain(c.now, c.retention); err != nil || got != c.want {
			t.Errorf("%s: %d, %v, want %d", c.name, got, err, c.want)
		}
	}
	if start, _ := q.Bounds(); start != 0 {
		t.Error("Retain moved the start")
	}
	if got := q.SetStart(11); got != 11 {
		t.Error(got)
	}
	if size, err := q.Size(); err != nil || size != 100 {
		t.Errorf("the batch that holds the start counts as a whole: %d, %v", size, err)
	}
}

func TestBatchesWithoutTimestampsAreAsOldAsTheirSegment(t *testing.T) {
	fs := memory(t)
	set := consumequeue.NewSet()
	defer set.Close()
	q := set.Create(1)
	q.Put(10, batch(0, 1, 4096, -1))
	keepNothing := consumequeue.Retention{Ms: 0, Bytes: -1}
	if got, err := q.Retain(1<<40, keepNothing); err != nil || got != 0 {
		t.Errorf("in an open segment: %d, %v", got, err)
	}
	if _, ok, err := q.MaxTimestamp(); ok || err != nil {
		t.Errorf("there is no timestamp: %v, %v", ok, err)
	}
	seal(t, fs, set, 10) // its last entry is of the time 1000
	for now, want := range map[entry.Time]entry.Offset{1000: 0, 1001: 1} {
		if got, err := q.Retain(now, keepNothing); err != nil || got != want {
			t.Errorf("at %d: %d, %v, want %d", now, got, err, want)
		}
	}
}

func TestBoundsNeverGoBack(t *testing.T) {
	set := consumequeue.NewSet()
	q := set.Create(1)
	q.Restore(7, 5)
	if start, end := q.Bounds(); start != 7 || end != 7 {
		t.Errorf("the end is not below the start: %d, %d", start, end)
	}
	q.Put(1, batch(7, 3, 4096, 1))
	for _, c := range []struct{ to, want entry.Offset }{{3, 7}, {9, 9}, {8, 9}, {50, 10}} {
		if got := q.SetStart(c.to); got != c.want {
			t.Errorf("SetStart(%d) = %d, want %d", c.to, got, c.want)
		}
	}
	q.Restore(0, 0)
	if start, end := q.Bounds(); start != 10 || end != 10 {
		t.Errorf("%d, %d", start, end)
	}
	if size, err := q.Size(); size != 0 || err != nil {
		t.Errorf("size %d, %v", size, err)
	}
	if got, err := q.Find(10, 20, 100, make([]consumequeue.Located, 0, 1)); len(got) != 0 || err != nil {
		t.Errorf("at the end: %v, %v", got, err)
	}
}

func TestFindPassesOverHoles(t *testing.T) {
	fs := memory(t)
	set := consumequeue.NewSet()
	defer set.Close()
	q := set.Create(1)
	q.Put(1, batch(10, 5, 4096, 1))
	q.Put(1, batch(20, 5, 4200, 1))
	q.Put(2, batch(40, 5, 4096, 1))
	seal(t, fs, set, 1)
	for from, want := range map[entry.Offset]entry.Offset{0: 10, 12: 10, 15: 20, 24: 20, 25: 40, 44: 40} {
		if found := find(t, q, from); len(found) == 0 || found[0].BaseOffset != want {
			t.Errorf("from %d: %v, want %d first", from, found, want)
		}
	}
}

func TestAttachRefusesASegmentThatHasAFile(t *testing.T) {
	fs := memory(t)
	set := consumequeue.NewSet()
	defer set.Close()
	set.Create(1).Put(1, batch(0, 1, 4096, 1))
	seal(t, fs, set, 1)
	f, err := consumequeue.Open(fs, "log", 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Attach(f); err == nil {
		t.Error("attached twice")
	}
	f.Release()
	if found := find(t, set.Get(1), 0); len(found) != 1 {
		t.Error(found)
	}
}
