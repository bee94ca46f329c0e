package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/tests/e2e/node"
	"github.com/sluicemq/sluice/tests/e2e/raw"
)

// writtenFolder makes a folder with a few segments, the first ones sealed, and
// stops or kills the program.
func writtenFolder(t *testing.T, kill bool) (*node.Node, topic) {
	t.Helper()
	n := node.Start(t, node.Options{Set: []string{"commitlog.segment.bytes=2097152", "commitlog.tail.bytes=1048576"}, MayBeDamaged: true, MayLogErrors: true, MayEndBadly: true})
	c := raw.Dial(t, n.Addr())
	tp := makeTopic(t, c, "damaged", 1)
	for range 30 {
		write(t, c, tp, 0, raw.Values(1, strings.Repeat("x", 200_000)))
	}
	waitFor(t, "segments to be sealed", func() bool { return verify(t, n.Dir()).Indexes >= 2 })
	if kill {
		n.Kill()
	} else {
		n.Stop()
	}
	return n, tp
}

// Damage to what was durable is never passed over in silence: verify finds it,
// and a start refuses, with file and position, and changes nothing.
func TestDamageToDurableEntriesIsFoundAndNamed(t *testing.T) {
	t.Parallel()
	flip := func(b []byte) { b[0] ^= 0x40 }
	for name, damage := range map[string]func(t *testing.T, n *node.Node) (file string){
		"a payload in the active segment": func(t *testing.T, n *node.Node) string {
			entries := dump(t, n.Dir())
			file, at := entries[len(entries)-3].place(t, n.Dir())
			patch(t, file, at+1000, flip)
			return filepath.Base(file)
		},
		"a header in the active segment": func(t *testing.T, n *node.Node) string {
			entries := dump(t, n.Dir())
			file, at := entries[len(entries)-3].place(t, n.Dir())
			patch(t, file, at+8, flip)
			return filepath.Base(file)
		},
		"the head of a segment": func(t *testing.T, n *node.Node) string {
			patch(t, filepath.Join(n.Dir(), "commitlog", "0000000002.log"), 20, flip)
			return "0000000002.log"
		},
		"a segment that is missing": func(t *testing.T, n *node.Node) string {
			if err := os.Remove(filepath.Join(n.Dir(), "commitlog", "0000000002.log")); err != nil {
				t.Fatal(err)
			}
			return "0000000002.log"
		},
		"the active segment missing": func(t *testing.T, n *node.Node) string {
			entries := dump(t, n.Dir())
			file, _ := entries[len(entries)-1].place(t, n.Dir())
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			return ""
		},
		"the active segment cut off": func(t *testing.T, n *node.Node) string {
			entries := dump(t, n.Dir())
			file, at := entries[len(entries)-2].place(t, n.Dir())
			if err := os.Truncate(file, at+10); err != nil {
				t.Fatal(err)
			}
			return filepath.Base(file)
		},
		"an index file": func(t *testing.T, n *node.Node) string {
			patch(t, filepath.Join(n.Dir(), "commitlog", "0000000001.idx"), 0, flip)
			return "0000000001.idx"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, _ := writtenFolder(t, false)
			file := damage(t, n)
			before := snapshot(t, n.Dir())
			if v := verify(t, n.Dir()); v.Undamaged || file != "" && !strings.Contains(strings.Join(v.Damage, "\n"), file) {
				t.Errorf("verify: %+v, want damage of %s", v, file)
			}
			err := n.TryRestart()
			if err == nil {
				t.Fatal("the program started")
			}
			if !strings.Contains(err.Error(), "corrupt") || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), n.Dir()) {
				t.Errorf("the error does not name %s: %v", file, err)
			}
			if after := snapshot(t, n.Dir()); !slices.Equal(before, after) {
				t.Errorf("the start changed the log:\n%v\n%v", before, after)
			}
		})
	}
}

// snapshot returns name and size of the log's files.
func snapshot(t *testing.T, dir string) (files []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "commitlog"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, e.Name()+" "+info.ModTime().String())
	}
	return files
}

// Damage within a sealed segment is found by verify, and by who reads it; what
// else there is is served.
func TestDamageToOldRecordsIsNotServed(t *testing.T) {
	t.Parallel()
	n, tp := writtenFolder(t, false)
	entries := dump(t, n.Dir())
	file, at := entries[4].place(t, n.Dir())
	patch(t, file, at+5000, func(b []byte) { b[3]++ })
	v := verify(t, n.Dir())
	if v.Undamaged || !strings.Contains(v.Damage[0], filepath.Base(file)) {
		t.Errorf("verify: %+v", v)
	}
	if err := n.TryRestart(); err != nil {
		t.Fatalf("the start reads no records of sealed segments: %v", err)
	}
	c := raw.Dial(t, n.Addr())
	bad := 0
	for offset := range int64(30) {
		p := fetchOne(t, c, tp, 0, offset)
		switch {
		case p.ErrorCode == storageError:
			bad++
		case p.ErrorCode != 0:
			t.Errorf("fetch at %d: error %d", offset, p.ErrorCode)
		default:
			if r := recordsOf(t, p); len(r) == 0 || r[0].Offset != offset || len(r[0].Value) != 200_000 || strings.Trim(string(r[0].Value), "x") != "" {
				t.Errorf("fetch at %d: %d records", offset, len(r))
			}
		}
	}
	if bad != 1 {
		t.Errorf("%d records could not be read, one was damaged", bad)
	}
	if got := write(t, c, tp, 0, records(1)); got != 30 {
		t.Errorf("the partition goes on at %d", got)
	}
}

// What a write left that was cut short is no damage: it is cut off, and said so.
func TestATornTailIsCutOffAtTheStart(t *testing.T) {
	t.Parallel()
	n, tp := writtenFolder(t, true)
	entries := dump(t, n.Dir())
	// The newest entry was not known to be durable, and not all of it arrived.
	if err := os.Remove(filepath.Join(n.Dir(), "commitlog", "durable")); err != nil {
		t.Fatal(err)
	}
	file, at := entries[len(entries)-1].place(t, n.Dir())
	patch(t, file, at+100_000, func(b []byte) { clear(b) })
	if v := verify(t, n.Dir()); !v.Undamaged || v.TornTail == "" {
		t.Errorf("verify: %+v", v)
	}
	mark := n.Mark()
	n.Restart()
	n.WaitLine(mark, func(l node.Line) bool { return l.Level == "warn" && strings.Contains(l.Message, "cut off") })
	c := raw.Dial(t, n.Addr())
	if got := readAll(t, c, tp, 0); len(got) != 29 {
		t.Errorf("%d records, want 29", len(got))
	}
	if got := write(t, c, tp, 0, records(1)); got != 29 {
		t.Errorf("the partition goes on at %d", got)
	}
	n.Kill()
	n.Restart()
	if got := readAll(t, raw.Dial(t, n.Addr()), tp, 0); len(got) != 30 {
		t.Errorf("%d records, want 30", len(got))
	}
	n.Stop()
	if v := verify(t, n.Dir()); !v.Undamaged || v.TornTail != "" {
		t.Errorf("verify in the end: %+v", v)
	}
}

// Bytes behind the end that are no entry are passed over.
func TestWhatIsBehindTheEndIsNotTakenForAnEntry(t *testing.T) {
	t.Parallel()
	n, tp := writtenFolder(t, true)
	entries := dump(t, n.Dir())
	last := entries[len(entries)-1]
	file, at := last.place(t, n.Dir())
	const headerBytes = 56
	end := at + headerBytes + last.Bytes
	patch(t, file, end, func(b []byte) { copy(b, "SLE1 and some more") })
	patch(t, file, end+300, func(b []byte) { copy(b, "SLE1 and some more") })
	if v := verify(t, n.Dir()); !v.Undamaged || v.Last != last.Index {
		t.Errorf("verify: %+v, want entries up to %d", v, last.Index)
	}
	n.Restart()
	c := raw.Dial(t, n.Addr())
	if got := write(t, c, tp, 0, records(1)); got != 30 {
		t.Errorf("the partition goes on at %d", got)
	}
	n.Kill()
	n.Restart()
	if got := readAll(t, raw.Dial(t, n.Addr()), tp, 0); len(got) != 31 {
		t.Errorf("%d records, want 31", len(got))
	}
}
