package apply_test

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/log/apply"
	"github.com/sluicemq/sluice/log/entry"
)

var update = flag.Bool("update", false, "rewrite the golden file")

const golden = "testdata/v1.txt"

// example makes the state that FORMAT.md shows: partitions 1 and 2 with batches
// in segments 2 to 4, of which 2 has an index file; segments 1 and 6 are gone.
func example(t *testing.T, r *rig) {
	t.Helper()
	r.mustDo(t, entry.TypeCreateTopic, 1, nil)
	r.mustDo(t, entry.TypeCreateTopic, 2, nil)
	for range 2 {
		if err := r.commits.Roll(); err != nil {
			t.Fatal(err)
		}
		r.mustDo(t, entry.TypeProduce, 1, plain(3))
	}
	r.mustDo(t, entry.TypeLogStart, 0, exampleMoves())
	r.loop.Indexed(2)
	if err := r.commits.Roll(); err != nil {
		t.Fatal(err)
	}
	r.mustDo(t, entry.TypeProduce, 2, plain(1))
	if err := r.loop.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	r.mustDo(t, entry.TypeProduce, 1, plain(2))
	r.loop.Free(1)
	r.loop.Free(6)
	if err := r.loop.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.loop.Freed(); err != nil {
		t.Fatal(err)
	}
	if err := r.loop.Checkpoint(); err != nil {
		t.Fatal(err)
	}
}

func exampleMoves() []byte {
	return apply.EncodeLogStarts([]apply.LogStart{{Partition: 1, Offset: 4}, {Partition: 2, Offset: 0}})
}

// text writes the example as the golden file has it: key = value, in hex.
func text(t *testing.T, r *rig) string {
	var b strings.Builder
	v := r.store.NewView()
	defer v.Close()
	for _, prefix := range []byte{'f', 'q', 't'} {
		err := v.Scan([]byte{prefix}, []byte{prefix + 1}, func(key, value []byte) bool {
			fmt.Fprintf(&b, "%c %x = %x\n", key[0], key[1:], value)
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	fmt.Fprintf(&b, "log-start = %x\n", exampleMoves())
	return b.String()
}

func TestKeysAndValuesAreAsFormatSays(t *testing.T) {
	r := mustStart(t, pebblevfs.NewMem(), nil)
	defer r.mustStop(t)
	example(t, r)
	got := text(t, r)
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("written\n%swant\n%s", got, want)
	}
	format, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(want)), "\n") {
		if !strings.Contains(string(format), "    "+line+"\n") {
			t.Errorf("FORMAT.md does not show %q", line)
		}
	}
}

// What version 1 wrote is read for ever.
func TestStateOfVersion1IsRead(t *testing.T) {
	lines, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	fs := pebblevfs.NewMem()
	mustStart(t, fs, nil).mustStop(t)
	pairs := []string{"c\x00\x00\x00\x00\x00\x00\x00\x01", "", "c\x00\x00\x00\x00\x00\x00\x00\x02", ""}
	for _, line := range strings.Split(strings.TrimSpace(string(lines)), "\n") {
		key, value, _ := strings.Cut(line, "=")
		prefix, rest, ok := strings.Cut(strings.TrimSpace(key), " ")
		decoded, err := hex.DecodeString(strings.TrimSpace(value))
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			moves, err := apply.DecodeLogStarts(decoded)
			if err != nil || fmt.Sprint(moves) != "[{1 4} {2 0}]" {
				t.Errorf("log starts: %v, %v", moves, err)
			}
			continue
		}
		number, err := hex.DecodeString(rest)
		if err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, prefix+string(number), string(decoded))
	}
	put(t, fs, pairs...)
	var seen []uint32
	r := mustStartWith(t, fs, func(number uint32) apply.SegmentState {
		if number == 2 {
			return apply.SegmentIndexed
		}
		seen = append(seen, number)
		return apply.SegmentOpen
	})
	defer r.mustStop(t)
	if freed, err := r.loop.Freed(); err != nil || freed.UpTo != 1 || fmt.Sprint(freed.More) != "[6]" {
		t.Errorf("freed: %+v, %v", freed, err)
	}
	for p, want := range map[entry.Partition][2]entry.Offset{1: {4, 8}, 2: {0, 1}} {
		if start, end := r.queues.Get(p).Bounds(); start != want[0] || end != want[1] {
			t.Errorf("partition %d: [%d,%d), want %v", p, start, end, want)
		}
	}
	if len(seen) == 0 {
		t.Error("no segment has tail records")
	}
}
