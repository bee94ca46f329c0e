package offsets

import (
	"bytes"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/group/codec"
	"github.com/sluicemq/sluice/log/entry"
)

var update = flag.Bool("update", false, "rewrite golden files")

func topicID(b byte) (id entry.TopicID) {
	for i := range id {
		id[i] = b
	}
	return id
}

func every(entry.TopicID) bool { return true }

// commit applies a request as the entry that it becomes.
func commit(t testing.TB, table *Table, now entry.Time, q *Request) []entry.TopicID {
	t.Helper()
	c, err := DecodeCommit(q.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	missing, err := table.Commit(&c, now, every)
	if err != nil {
		t.Fatal(err)
	}
	return missing
}

// The example of FORMAT.md: what a table writes, and that it can be read.
func TestFormatIsTheOneInTheExample(t *testing.T) {
	table, disk := New(), store{}
	now := entry.Time(1_700_000_000_000)
	one := topicID(1)
	commit(t, table, now, &Request{Group: "gone", Retention: -1, Topics: []Topic{{one, []Offset{{0, 1, -1, ""}}}}})
	commit(t, table, now, &Request{Group: "billing", Retention: -1, Topics: []Topic{{one, []Offset{{0, 42, 3, "half"}}}}})
	commit(t, table, now, &Request{Group: "billing", Retention: 3_600_000, Topics: []Topic{{one, []Offset{{258, 7, -1, ""}}}}})
	table.Checkpoint(disk)
	table.DeleteGroup("gone")
	table.Checkpoint(disk)

	golden := filepath.Join("testdata", "state-v1.hex")
	if *update {
		if err := os.WriteFile(golden, []byte(disk.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if disk.String() != string(want) {
		t.Errorf("written:\n%vin the file:\n%s", disk, want)
	}
	text, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	if indented := "    " + strings.ReplaceAll(strings.TrimSpace(string(want)), "\n", "\n    ") + "\n"; !strings.Contains(string(text), indented) {
		t.Errorf("FORMAT.md does not show:\n%s", indented)
	}
	reloaded := New()
	if err := reloaded.Load(disk); err != nil {
		t.Fatal(err)
	}
	if got, ok := reloaded.Fetch("billing", one, 0); !ok || got != (Committed{Offset{0, 42, 3, "half"}, now}) {
		t.Errorf("read: %+v, %v", got, ok)
	}
	if got, ok := reloaded.Fetch("billing", one, 258); !ok || got != (Committed{Offset{258, 7, -1, ""}, now}) {
		t.Errorf("read: %+v, %v", got, ok)
	}
	if groups, offsets := reloaded.Count(); groups != 1 || offsets != 2 || reloaded.Has("gone") {
		t.Errorf("read: %d groups, %d offsets", groups, offsets)
	}
}

func TestLoadTellsDamageFromANewerVersion(t *testing.T) {
	one := topicID(1)
	whole := func() store {
		table, disk := New(), store{}
		commit(t, table, 5, &Request{Group: "g", Retention: -1, Topics: []Topic{{one, []Offset{{3, 1, 0, "x"}}}}})
		table.Checkpoint(disk)
		return disk
	}
	name, number := string(nameKey("g")), string(numberKey())
	offset := string(appendOffsetKey(nil, 1, one, 3))
	for what, c := range map[string]struct {
		damage func(store)
		want   error
	}{
		"newer value":           {func(s store) { s[offset] = "\x02" + s[offset][1:] }, codec.ErrNewer},
		"newer name":            {func(s store) { s[name] = "\x02" + s[name][1:] }, codec.ErrNewer},
		"newer number":          {func(s store) { s[number] = "\x02" + s[number][1:] }, codec.ErrNewer},
		"version 0":             {func(s store) { s[offset] = "\x00" + s[offset][1:] }, codec.ErrCorrupt},
		"short value":           {func(s store) { s[offset] = s[offset][:10] }, codec.ErrCorrupt},
		"long value":            {func(s store) { s[offset] += "x" }, codec.ErrCorrupt},
		"unknown flag":          {func(s store) { s[offset] = s[offset][:1] + "\x02" + s[offset][2:] }, codec.ErrCorrupt},
		"short key":             {func(s store) { s[offset[:20]] = s[offset] }, codec.ErrCorrupt},
		"group without name":    {func(s store) { delete(s, name) }, codec.ErrCorrupt},
		"group without offsets": {func(s store) { delete(s, offset) }, codec.ErrCorrupt},
		"number not below next": {func(s store) { delete(s, number) }, codec.ErrCorrupt},
		"number twice":          {func(s store) { s[string(nameKey("h"))] = s[name] }, codec.ErrCorrupt},
		"number 0":              {func(s store) { s[name] = s[name][:1] + strings.Repeat("\x00", 8) }, codec.ErrCorrupt},
	} {
		disk := whole()
		c.damage(disk)
		if err := New().Load(disk); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
	if err := New().Load(whole()); err != nil {
		t.Error(err)
	}
}

func TestRangesHoldTheirKeysOnly(t *testing.T) {
	for _, number := range []uint64{1, 255, 256, math.MaxUint64 - 1, math.MaxUint64} {
		from, to := groupRange(number)
		tFrom, tTo := topicRange(number, topicID(7))
		for _, c := range []struct {
			number         uint64
			topic          byte
			index          int32
			group, ofTopic bool
		}{
			{number, 0, 0, true, false}, {number, 7, 0, true, true}, {number, 7, math.MaxInt32, true, true},
			{number, 8, 0, true, false}, {number, 255, math.MaxInt32, true, false},
			{number - 1, 7, math.MaxInt32, false, false}, {number + 1, 7, 0, false, false},
		} {
			k := appendOffsetKey(nil, c.number, topicID(c.topic), c.index)
			if in := bytes.Compare(from, k) <= 0 && bytes.Compare(k, to) < 0; in != c.group {
				t.Errorf("range of group %d holds %+v: %v", number, c, in)
			}
			if in := bytes.Compare(tFrom, k) <= 0 && bytes.Compare(k, tTo) < 0; in != c.ofTopic {
				t.Errorf("range of topic 7 of group %d holds %+v: %v", number, c, in)
			}
		}
	}
}

// FuzzDecodeValue: a value that is accepted is written back as the same bytes.
func FuzzDecodeValue(f *testing.F) {
	for _, s := range []slot{
		{offset: 1, epoch: -1, time: 3, expires: forever}, {offset: -7, epoch: 5, time: 1, expires: 9, metadata: "m"},
	} {
		f.Add(s.appendValue(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeValue(b)
		if err != nil {
			return
		}
		if again := s.appendValue(nil); !bytes.Equal(b, again) {
			t.Errorf("%x is written back as %x", b, again)
		}
	})
}

// FuzzCommit: a payload that is accepted leaves a table that can be written, read
// and written again as the same bytes; one that is not is refused as a whole.
func FuzzCommit(f *testing.F) {
	q := Request{Group: "g", Member: "m", Instance: "i", Generation: 3, Retention: 10, Topics: []Topic{
		{topicID(1), []Offset{{0, 1, 2, "x"}, {5, -1, -1, ""}}}, {topicID(2), nil}, {topicID(1), []Offset{{0, 9, 2, "y"}}},
	}}
	f.Add(q.Append(nil))
	f.Add(q.Append(nil)[:30])
	q.Retention = math.MaxInt64
	f.Add(q.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := DecodeCommit(b)
		if err != nil {
			return
		}
		table := New()
		if _, err := table.Commit(&c, 100, func(id entry.TopicID) bool { return id[0] != 9 }); err != nil {
			return
		}
		disk, again := store{}, store{}
		table.Checkpoint(disk)
		reloaded := New()
		if err := reloaded.Load(disk); err != nil {
			t.Fatalf("%x: %v", b, err)
		}
		touch(reloaded)
		reloaded.Checkpoint(again)
		if disk.String() != again.String() {
			t.Errorf("written:\n%vand again:\n%v", disk, again)
		}
	})
}

// touch makes the next checkpoint write everything.
func touch(t *Table) {
	t.renewed = t.next > 1
	for _, g := range t.groups {
		t.born = append(t.born, g)
		for id, in := range g.topics {
			for i := range in.slots {
				in.slots[i].unsaved = true
				t.unsaved = append(t.unsaved, change{g, id, in.slots[i].index})
			}
		}
	}
}
