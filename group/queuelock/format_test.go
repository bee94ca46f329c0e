package queuelock

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/group/codec"
	"github.com/sluicemq/sluice/log/entry"
)

var update = flag.Bool("update", false, "rewrite golden files")

// example is the change of FORMAT.md.
func example() *change {
	return &change{group: "g", ops: []op{
		{kind: opAcquire, partition: 7, member: "b"},
		{kind: opRelease, partition: 7, epoch: 300},
		{kind: opLeave, partition: 8, epoch: 300, until: 1_700_000_060_000},
		{kind: opExpire, partition: 9, epoch: 300},
		{kind: opMove, partition: 10, epoch: 300, member: "c"},
		{kind: opForget, partition: 11},
	}}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("written:\n%sin the file:\n%s", got, want)
	}
	doc, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(want)) {
		if !strings.Contains(string(doc), strings.TrimSpace(line)) {
			t.Errorf("FORMAT.md lacks %s", line)
		}
	}
}

// exampleTable has the partitions 7 to 11 locked by a since entry 300, with b
// waiting for 11, and then the example applied.
func exampleTable(t *testing.T) *Table {
	t.Helper()
	table := New()
	before := &change{group: "g"}
	for p := entry.Partition(7); p <= 11; p++ {
		before.add(op{kind: opAcquire, partition: p, member: "a"})
	}
	before.add(op{kind: opAcquire, partition: 11, member: "b"})
	for i, c := range []*change{before, example()} {
		e := &entry.Entry{Index: 300 + entry.Index(i), Time: 1_700_000_000_000 + entry.Time(i), Payload: c.encode()}
		if err := table.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	return table
}

func TestPayloadIsTheOneInTheExample(t *testing.T) {
	payload := example().encode()
	golden(t, "change-v1.hex", fmt.Sprintf("%x\n", payload))
	if back, err := decodeChange(payload); err != nil || !reflect.DeepEqual(back, example()) {
		t.Errorf("read back %+v, %v", back, err)
	}
}

func TestStateIsTheOneInTheExample(t *testing.T) {
	disk := store{}
	table := exampleTable(t)
	table.Checkpoint(disk)
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(disk)) {
		fmt.Fprintf(&b, "%x = %x\n", k, disk[k])
	}
	golden(t, "state-v1.hex", b.String())
	back := New()
	if err := back.Load(disk); err != nil || !reflect.DeepEqual(back.List("g"), table.List("g")) {
		t.Errorf("read back %+v, %v", back.List("g"), err)
	}
}

func TestOperationsOnOtherLocksDoNothing(t *testing.T) {
	table := exampleTable(t)
	before := table.List("g")
	c := &change{group: "g"}
	for p := entry.Partition(7); p <= 12; p++ {
		c.ops = append(c.ops, op{kind: opRelease, partition: p, epoch: 299}, op{kind: opLeave, partition: p, epoch: 299, until: 1},
			op{kind: opExpire, partition: p, epoch: 299}, op{kind: opMove, partition: p, epoch: 299, member: "x"})
	}
	// The lease of 8 is not over.
	c.ops = append(c.ops, op{kind: opExpire, partition: 8, epoch: 300})
	if err := table.Apply(&entry.Entry{Index: 302, Time: 1_700_000_059_999, Payload: c.encode()}); err != nil {
		t.Fatal(err)
	}
	if after := table.List("g"); !reflect.DeepEqual(before, after) {
		t.Errorf("%+v\n%+v", before, after)
	}
	if table.Groups()[0] != "g" || len(table.Groups()) != 1 {
		t.Errorf("groups %v", table.Groups())
	}
}

func TestKeysThatCannotBeAreDamage(t *testing.T) {
	value := string((&Lock{Epoch: 1, Member: "m"}).appendValue(nil))
	key := string(lockKey("g", 7))
	load := func(k, v string) error { return New().Load(store{k: v}) }
	if err := load(key, value); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"short key":   load(key[:len(key)-1], value),
		"long key":    load(key+"x", value),
		"no value":    load(key, ""),
		"cut":         load(key, value[:10]),
		"longer":      load(key, value+"x"),
		"version 0":   load(key, "\x00"+value[1:]),
		"no member":   load(key, string((&Lock{Epoch: 1}).appendValue(nil))),
		"before time": load(key, string((&Lock{Epoch: 1, Member: "m", Since: -1}).appendValue(nil))),
	} {
		if !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := load(key, "\x02"+value[1:]); !errors.Is(err, codec.ErrNewer) {
		t.Errorf("version 2: %v", err)
	}
}

// FuzzDecodeChange: what can be read is written back as it was, and may be applied.
func FuzzDecodeChange(f *testing.F) {
	f.Add(example().encode())
	f.Add((&change{group: "g"}).encode())
	f.Fuzz(func(t *testing.T, payload []byte) {
		c, err := decodeChange(payload)
		if err != nil {
			if !errors.Is(err, codec.ErrCorrupt) && !errors.Is(err, codec.ErrNewer) {
				t.Fatalf("error is of no kind: %v", err)
			}
			return
		}
		if back, err := decodeChange(c.encode()); err != nil || !reflect.DeepEqual(back, c) {
			t.Fatalf("%+v is read back as %+v, %v", c, back, err)
		}
		table, disk := New(), store{}
		for i := range entry.Index(2) {
			if err := table.Apply(&entry.Entry{Index: 1 + i, Time: 5, Payload: payload}); err != nil {
				t.Fatal(err)
			}
		}
		table.Checkpoint(disk)
		back := New()
		if err := back.Load(disk); err != nil || !reflect.DeepEqual(back.List(c.group), table.List(c.group)) {
			t.Fatalf("%+v is read back as %+v, %v", table.List(c.group), back.List(c.group), err)
		}
	})
}
