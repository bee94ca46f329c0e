package apply_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/log/apply"
	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/state"
	"github.com/sluicemq/sluice/log/vfs"
)

// keys returns what the store holds under our prefixes, readable.
func keys(t testing.TB, s *state.Store) (all []string) {
	t.Helper()
	v := s.NewView()
	defer v.Close()
	for _, prefix := range []byte{'f', 'q', 't'} {
		err := v.Scan([]byte{prefix}, []byte{prefix + 1}, func(key, value []byte) bool {
			all = append(all, fmt.Sprintf("%c%x=%x", key[0], key[1:], value))
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// put writes keys into a store that nobody has open.
func put(t testing.TB, fs pebblevfs.FS, pairs ...string) {
	t.Helper()
	s, err := state.Open(state.Options{FS: vfs.New(fs), Dir: "state"})
	if err != nil {
		t.Fatal(err)
	}
	b := s.NewBatch()
	for i := 0; i < len(pairs); i += 2 {
		b.Set([]byte(pairs[i]), []byte(pairs[i+1]))
	}
	if err := b.Checkpoint(s.Applied()); err != nil {
		t.Fatal(err)
	}
	b.Close()
	if _, err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFreedSegmentsBecomeOneKeyFromTheOldestOn(t *testing.T) {
	fs := pebblevfs.NewMem()
	for _, step := range []struct {
		free []uint32
		want apply.Freed
		keys int // after it
	}{
		{nil, apply.Freed{}, 0},
		{[]uint32{3}, apply.Freed{More: []uint32{3}}, 1},
		{[]uint32{5, 2}, apply.Freed{More: []uint32{2, 3, 5}}, 3},
		{[]uint32{1}, apply.Freed{UpTo: 3, More: []uint32{5}}, 2},
		{[]uint32{7, 4}, apply.Freed{UpTo: 5, More: []uint32{7}}, 2},
		{[]uint32{6, 8, 9}, apply.Freed{UpTo: 9}, 1},
		{[]uint32{1 << 31}, apply.Freed{UpTo: 9, More: []uint32{1 << 31}}, 2},
	} {
		r := mustStart(t, fs, nil)
		for _, number := range step.free {
			r.loop.Free(number)
		}
		for range 2 { // the same again when it was made shorter
			got, err := r.loop.Freed()
			if err != nil || got.UpTo != step.want.UpTo || fmt.Sprint(got.More) != fmt.Sprint(step.want.More) {
				t.Fatalf("after freeing %v: %+v, %v, want %+v", step.free, got, err, step.want)
			}
			for number := range uint32(12) {
				in := number <= got.UpTo || strings.Contains(fmt.Sprint(got.More), fmt.Sprint(number))
				if got.Has(number) != in {
					t.Errorf("%+v has %d: %v", got, number, got.Has(number))
				}
			}
			if err := r.loop.Checkpoint(); err != nil {
				t.Fatal(err)
			}
		}
		if got := keys(t, r.store); len(got) != step.keys {
			t.Errorf("after freeing %v: %v", step.free, got)
		}
		if _, err := r.store.Flush(); err != nil {
			t.Fatal(err)
		}
		r.mustStop(t)
	}
}

// A crash between the index file and the drop of the tail records leaves both.
// The records must not come back when the segment is freed later.
func TestTailRecordsGoWithTheirSegment(t *testing.T) {
	fill := func(t *testing.T) (*pebblevfs.MemFS, *rig) {
		fs := pebblevfs.NewMem()
		r := mustStart(t, fs, nil)
		r.mustDo(t, entry.TypeCreateTopic, 1, nil)
		r.mustDo(t, entry.TypeProduce, 1, plain(3))
		if err := r.loop.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		if got := keys(t, r.store); len(got) != 1 || got[0][0] != 't' {
			t.Fatal(got)
		}
		return fs, r
	}
	t.Run("indexed", func(t *testing.T) {
		_, r := fill(t)
		defer r.mustStop(t)
		r.loop.Indexed(1)
		if err := r.loop.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(keys(t, r.store)); got != "[t000000010000000000000000=]" {
			t.Error(got)
		}
		r.loop.Free(1)
		if err := r.loop.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(keys(t, r.store)); got != "[f00000001=]" {
			t.Error(got)
		}
	})
	for found, want := range map[apply.SegmentState]string{
		apply.SegmentIndexed: "[t000000010000000000000000=]", apply.SegmentGone: "[]",
	} {
		t.Run(fmt.Sprintf("found=%d", found), func(t *testing.T) {
			_, r := fill(t)
			defer r.mustStop(t)
			// A second loop over the same store stands for the next start.
			o := r.options
			o.Queues = consumequeue.NewSet()
			o.Queues.Create(1)
			next, err := apply.New(o)
			if err != nil {
				t.Fatal(err)
			}
			defer next.Close()
			if err := next.LoadQueues(func(uint32) apply.SegmentState { return found }); err != nil {
				t.Fatal(err)
			}
			if _, end := o.Queues.Get(1).Bounds(); end != 0 {
				t.Errorf("batches came back: end %d", end)
			}
			if err := next.Checkpoint(); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(keys(t, r.store)); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}

func TestDamagedKeysStopTheStartAndAreNamed(t *testing.T) {
	partition := "\x00\x00\x00\x00\x00\x00\x00\x01"
	i64 := func(n byte) string { return string([]byte{n, 0, 0, 0, 0, 0, 0, 0}) }
	for name, test := range map[string]struct {
		key, value string
		want       error
		text       string
	}{
		"short bounds key":     {"q\x01", i64(1) + i64(2), state.ErrCorrupt, "bounds"},
		"long bounds key":      {"q" + partition + "x", i64(1) + i64(2), state.ErrCorrupt, "bounds"},
		"short bounds":         {"q" + partition, i64(1), state.ErrCorrupt, "bounds"},
		"end before the start": {"q" + partition, i64(2) + i64(1), state.ErrCorrupt, "partition 1"},
		"negative start":       {"q" + partition, strings.Repeat("\xff", 8) + i64(1), state.ErrCorrupt, "partition 1"},
		"short tail key":       {"t\x00\x00\x00\x01", "", state.ErrCorrupt, "tail records"},
		"half a tail record":   {"t\x00\x00\x00\x01" + partition, "half", consumequeue.ErrCorrupt, "segment 1"},
		"a batch of nothing":   {"t\x00\x00\x00\x01" + partition, partition[1:] + "\x00" + strings.Repeat("\x00", 32), nil, ""},
		"an index file":        {"t\x00\x00\x00\x01" + strings.Repeat("\x00", 8), "", consumequeue.ErrCorrupt, "0000000001.idx is missing"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			fs := pebblevfs.NewMem()
			mustStart(t, fs, nil).mustStop(t)
			put(t, fs, test.key, test.value)
			r, err := start(fs, nil, nil)
			if err == nil {
				r.mustStop(t)
			}
			if test.want == nil { // of a partition that is not there: passed over
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("%v, want %v with %q", err, test.want, test.text)
			}
		})
	}
	for _, pair := range [][2]string{{"f\x01", ""}, {"f\x00\x00\x00\x01", "\x02"}, {"f\x00\x00\x00\x01", "\x01\x01"}} {
		fs := pebblevfs.NewMem()
		mustStart(t, fs, nil).mustStop(t)
		put(t, fs, pair[0], pair[1])
		r := mustStart(t, fs, nil)
		if _, err := r.loop.Freed(); !errors.Is(err, state.ErrCorrupt) {
			t.Errorf("freed key %q: %v", pair, err)
		}
		r.mustStop(t)
	}
}

func TestLogStartsReadBackAsTheyWereWritten(t *testing.T) {
	for _, moves := range [][]apply.LogStart{
		nil, {{Partition: 1, Offset: 2}}, {{Partition: 1<<64 - 1, Offset: -1}, {Partition: 0, Offset: 1<<63 - 1}, {}},
	} {
		payload := apply.EncodeLogStarts(moves)
		got, err := apply.DecodeLogStarts(payload)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(moves) {
			t.Errorf("%v, %v, want %v", got, err, moves)
		}
		if len(payload) > 0 {
			if _, err := apply.DecodeLogStarts(payload[:len(payload)-1]); err == nil {
				t.Errorf("a payload of %d bytes was read", len(payload)-1)
			}
		}
	}
}

func FuzzDecodeLogStarts(f *testing.F) {
	f.Add([]byte{})
	f.Add(apply.EncodeLogStarts([]apply.LogStart{{Partition: 7, Offset: 9}}))
	f.Add([]byte("not a multiple"))
	f.Fuzz(func(t *testing.T, payload []byte) {
		moves, err := apply.DecodeLogStarts(payload)
		if (err == nil) != (len(payload)%16 == 0) {
			t.Fatalf("%d bytes: %v", len(payload), err)
		}
		if err == nil && string(apply.EncodeLogStarts(moves)) != string(payload) {
			t.Fatalf("%x reads as %v", payload, moves)
		}
	})
}
