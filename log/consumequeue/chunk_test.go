package consumequeue_test

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/entry"
)

func TestChunksBringTailsBack(t *testing.T) {
	set := consumequeue.NewSet()
	for p := range entry.Partition(3) {
		set.Create(p)
	}
	var chunks [][]byte
	for i := range uint32(10) {
		set.Get(entry.Partition(i%3)).Put(4, batch(entry.Offset(i/3), 1, 4096+i, entry.Time(i)))
		if i%4 == 3 {
			if want := 4 * 40; set.Undrained(4) != want {
				t.Errorf("undrained %d, want %d", set.Undrained(4), want)
			}
			chunks = append(chunks, set.DrainNew(4, nil))
		}
	}
	set.Seal(4)
	chunks = append(chunks, set.DrainNew(4, []byte(nil)))
	if set.Undrained(4) != 0 || set.Undrained(5) != 0 || len(set.DrainNew(5, nil)) != 0 {
		t.Error("something is left")
	}
	restored := consumequeue.NewSet()
	restored.Create(0)
	restored.Create(2) // 1 was deleted
	for _, chunk := range chunks {
		if err := restored.RestoreTail(4, chunk); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []entry.Partition{0, 2} {
		got, want := find(t, restored.Get(p), 0), find(t, set.Get(p), 0)
		if len(got) != len(want) || got[len(got)-1] != want[len(want)-1] {
			t.Errorf("partition %d: %v, want %v", p, got, want)
		}
	}
	if restored.Undrained(4) != 0 {
		t.Error("what was restored is drained again")
	}
}

func TestDamagedChunksAreRefused(t *testing.T) {
	record := func(e consumequeue.Entry) []byte {
		set := consumequeue.NewSet()
		set.Create(1).Put(9, e)
		return set.DrainNew(9, nil)
	}
	good := record(batch(10, 5, 4096, 1))
	for _, c := range []struct {
		name  string
		chunk []byte
		want  error
	}{
		{"half a record", good[:39], consumequeue.ErrShort},
		{"no offsets", record(batch(15, 0, 4096, 1)), consumequeue.ErrStructure},
		{"negative offset", record(batch(-1, 5, 4096, 1)), consumequeue.ErrStructure},
		{"overflow", record(batch(math.MaxInt64-4, 5, 4096, 1)), consumequeue.ErrStructure},
		{"not behind its predecessor", bytes.Join([][]byte{good, record(batch(14, 1, 4200, 1))}, nil), consumequeue.ErrStructure},
	} {
		set := consumequeue.NewSet()
		set.Create(1)
		if err := set.RestoreTail(9, c.chunk); !errors.Is(err, c.want) || !errors.Is(err, consumequeue.ErrCorrupt) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestPutAfterDeleteLeavesNoRecord(t *testing.T) {
	set := consumequeue.NewSet()
	q := set.Create(1)
	set.Delete(1)
	q.Put(1, batch(0, 1, 4096, 1))
	if set.Undrained(1) != 0 {
		t.Error(set.Undrained(1))
	}
}
