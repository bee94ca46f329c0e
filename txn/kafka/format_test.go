package kafka

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/log/entry"
)

var update = flag.Bool("update", false, "rewrite golden files")

// The example of FORMAT.md: what a machine writes, and that it can be read.
func TestFormatIsTheOneInTheExample(t *testing.T) {
	w := newWorld(258, 259)
	w.nextID, w.now, w.index = 4000, 1_700_000_000_000, 1000
	orders, _ := w.init("orders")
	idle, _ := w.init("idle")
	w.end(&End{ID: "idle", ProducerID: idle.ID, Epoch: idle.Epoch, Newer: true})
	must(t, w.produce(258, orders, true))
	orders, _ = w.end(&End{ID: "orders", ProducerID: orders.ID, Epoch: orders.Epoch, Newer: true})
	w.now++
	must(t, w.add("orders", orders, 258, 259))
	must(t, w.produce(258, orders, false))
	must(t, w.pend("orders", orders, "g", 9, 77, true))
	w.m.Checkpoint(w)

	golden := filepath.Join("testdata", "state-v1.hex")
	if *update {
		if err := os.WriteFile(golden, []byte(w.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if w.String() != string(want) {
		t.Errorf("written:\n%vin the file:\n%s", w, want)
	}
	showsInFormat(t, string(want))

	m, again := New(), store{}
	if err := m.Load(w); err != nil {
		t.Fatal(err)
	}
	for _, t := range m.byID {
		m.save(t)
	}
	m.Checkpoint(again)
	for p, in := range m.partitions {
		for _, a := range in.aborted {
			again.Set(abortedKey(p, a.last), a.appendValue(nil))
		}
	}
	if again.String() != w.String() {
		t.Errorf("written again:\n%v", again)
	}
}

// examples are payloads of each type.
func examples() map[string][]byte {
	return map[string][]byte{
		"init-transactions":       (&Init{ID: "orders", TimeoutMs: 60000, ProducerID: -1, Epoch: -1}).Append(nil),
		"end-transaction":         (&End{ID: "orders", ProducerID: 4000, Epoch: 2, Commit: true, Newer: true}).Append(nil),
		"end-transaction, late":   (&End{ID: "orders", ProducerID: 4000, Epoch: 2, TimedOut: true, Started: 1_700_000_000_000}).Append(nil),
		"add-to-transaction":      (&Add{ID: "orders", ProducerID: 4000, Epoch: 2, Partitions: []entry.Partition{258, 259}, Groups: []string{"g"}}).Append(nil),
		"pend-offsets (its head)": (&Offsets{ID: "orders", ProducerID: 4000, Epoch: 2, Group: "g", Adds: true}).Append(nil),
		"write-markers":           (&Markers{Newer: true, Partitions: []entry.Partition{258}}).Append(nil),
		"expire-transactions":     (&Expire{ExpirationMs: 604_800_000, IDs: []string{"idle"}}).Append(nil),
	}
}

func TestPayloadsAreThoseInTheExample(t *testing.T) {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(examples())) {
		fmt.Fprintf(&text, "%s = %x\n", name, examples()[name])
	}
	golden := filepath.Join("testdata", "payloads-v1.hex")
	if *update {
		if err := os.WriteFile(golden, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != string(want) {
		t.Errorf("written:\n%sin the file:\n%s", text.String(), want)
	}
	showsInFormat(t, string(want))
}

func showsInFormat(t *testing.T, golden string) {
	t.Helper()
	text, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	if indented := "    " + strings.ReplaceAll(strings.TrimSpace(golden), "\n", "\n    ") + "\n"; !strings.Contains(string(text), indented) {
		t.Errorf("FORMAT.md does not show:\n%s", indented)
	}
}

func TestAbortedRangeHoldsItsKeysOnly(t *testing.T) {
	for _, p := range []entry.Partition{1, 255, 256, math.MaxUint64 - 1, math.MaxUint64} {
		from, to := abortedRange(p)
		for _, c := range []struct {
			p    entry.Partition
			last entry.Offset
			want bool
		}{{p, 0, true}, {p, math.MaxInt64, true}, {p - 1, math.MaxInt64, false}, {p + 1, 0, false}} {
			k := abortedKey(c.p, c.last)
			if in := bytes.Compare(from, k) <= 0 && bytes.Compare(k, to) < 0; in != c.want {
				t.Errorf("range of %d holds %d, %d: %v", p, c.p, c.last, in)
			}
		}
	}
}

func TestLoadRefusesWhatItCannotHaveWritten(t *testing.T) {
	w := newWorld(1)
	p, _ := w.init("x")
	must(t, w.produce(1, p, true))
	p, _ = w.end(&End{ID: "x", ProducerID: p.ID, Epoch: p.Epoch, Newer: true})
	must(t, w.produce(1, p, true))
	w.m.Checkpoint(w)
	idKey, abortedAt := string(transactionKey("x")), string(abortedKey(1, 1))
	value, mark := w.store[idKey], w.store[abortedAt]
	set := func(v string, at int, b byte) string { return v[:at] + string([]byte{b}) + v[at+1:] }
	for _, c := range []struct {
		name, key, value string
		want             error
	}{
		{"no id", idKey[:2], value, ErrCorrupt},
		{"no value", idKey, "", ErrCorrupt},
		{"version 0", idKey, set(value, 0, 0), ErrCorrupt},
		{"newer version", idKey, set(value, 0, 2), ErrNewer},
		{"short value", idKey, value[:len(value)-1], ErrCorrupt},
		{"long value", idKey, value + "x", ErrCorrupt},
		{"state 0", idKey, set(value, 1, 0), ErrCorrupt},
		{"unknown state", idKey, set(value, 1, 9), ErrCorrupt},
		{"producer id below 0", idKey, set(value, 9, 0x80), ErrCorrupt},
		{"epoch below 0", idKey, set(value, 11, 0x80), ErrCorrupt},
		{"epoch before without producer", idKey, set(value, 19, 0xff), ErrCorrupt},
		{"time-out below 0", idKey, set(value, 25, 0x80), ErrCorrupt},
		{"last change below 0", idKey, set(value, 41, 0x80), ErrCorrupt},
		{"short key of an aborted one", abortedAt[:17], mark, ErrCorrupt},
		{"marker below 0", set(abortedAt, 10, 0x80), mark, ErrCorrupt},
		{"newer aborted one", abortedAt, set(mark, 0, 2), ErrNewer},
		{"aborted one that begins at its marker", abortedAt, set(mark, 9, 1), ErrCorrupt},
		{"stable above the marker", abortedAt, set(mark, 17, 9), ErrCorrupt},
	} {
		bad := store{c.key: c.value}
		if err := New().Load(bad); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	twice := store{idKey: value, string(transactionKey("y")): value}
	if err := New().Load(twice); !errors.Is(err, ErrCorrupt) {
		t.Errorf("one producer id twice: %v", err)
	}
	if err := New().Load(failingStore{w.store}); !errors.Is(err, errDisk) {
		t.Errorf("failing store: %v", err)
	}
}

var errDisk = errors.New("disk")

type failingStore struct{ store }

func (failingStore) Scan(_, _ []byte, _ func(k, v []byte) bool) error { return errDisk }

// FuzzDecodeTransaction: a value that is accepted is written back as the same
// bytes.
func FuzzDecodeTransaction(f *testing.F) {
	w := newWorld(1, 2)
	p, _ := w.init("x")
	f.Add(w.m.byID["x"].appendValue(nil))
	w.add("x", p, 1, 2)
	w.produce(1, p, false)
	w.pend("x", p, "g", 1, 5, true)
	w.pend("x", p, "h", 2, 6, true)
	f.Add(w.m.byID["x"].appendValue(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		decoded, err := decodeTransaction("x", b)
		if err != nil {
			return
		}
		if again := decoded.appendValue(nil); !bytes.Equal(b, again) {
			t.Errorf("%x is written back as %x", b, again)
		}
	})
}

// FuzzDecodeAborted: a value that is accepted is written back as the same bytes.
func FuzzDecodeAborted(f *testing.F) {
	f.Add(int64(9), (&aborted{1, 2, 9, 10}).appendValue(nil))
	f.Fuzz(func(t *testing.T, last int64, b []byte) {
		a, err := decodeAborted(entry.Offset(last), b)
		if err != nil {
			return
		}
		if again := a.appendValue(nil); !bytes.Equal(b, again) {
			t.Errorf("%x is written back as %x", b, again)
		}
	})
}

// FuzzPayloads: a payload that is accepted is what Append makes of it.
func FuzzPayloads(f *testing.F) {
	for _, name := range slices.Sorted(maps.Keys(examples())) {
		f.Add(examples()[name])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		compare := func(what string, again []byte) {
			if !bytes.Equal(b, again) {
				t.Errorf("%s %x is written back as %x", what, b, again)
			}
		}
		if q, err := decodeInit(b); err == nil {
			compare("init", q.Append(nil))
		}
		if q, err := decodeEnd(b); err == nil {
			compare("end", q.Append(nil))
		}
		if q, err := decodeAdd(b); err == nil {
			compare("add", q.Append(nil))
		}
		if q, rest, err := DecodeOffsets(b); err == nil {
			compare("offsets", append(q.Append(nil), rest...))
		}
		if q, err := decodeMarkers(b); err == nil {
			compare("markers", q.Append(nil))
		}
		if q, err := decodeExpire(b); err == nil {
			compare("expire", q.Append(nil))
		}
	})
}
