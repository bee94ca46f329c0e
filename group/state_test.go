package group

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicemq/sluice/group/classic"
	"github.com/sluicemq/sluice/group/codec"
	"github.com/sluicemq/sluice/group/offsets"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

var update = flag.Bool("update", false, "rewrite golden files")

func metadata(generation int32, ids ...string) *classic.Metadata {
	m := &classic.Metadata{Generation: generation, ProtocolType: "consumer"}
	for _, id := range ids {
		m.Protocol, m.Leader = "range", ids[0]
		m.Members = append(m.Members, classic.Member{
			ID: id, Instance: "i" + id[:1], SessionTimeout: time.Second,
			Protocols:  []classic.Protocol{{Name: "range", Metadata: []byte{0, 0, 0, 0, 0, 1, 0, 2, 't', '1'}}},
			Assignment: []byte(id),
		})
	}
	return m
}

// The example of FORMAT.md.
func TestFormatIsTheOneInTheExample(t *testing.T) {
	s, disk := NewState(&topics{}), store{}
	r := s.Apply(&entry.Entry{Type: entry.TypeClassicGroup, Time: 1_700_000_000_000, Payload: classic.AppendGroup(nil, "billing", metadata(3))}, disk)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	s.Checkpoint(disk)
	d := deleteOffsets{"billing", []TopicPartitions{{topicID(1), []int32{0, 258}}}}
	x := expire{7 * 24 * time.Hour, []string{"billing", "orders"}}
	written := disk.String() + fmt.Sprintf("%x\n%x\n%x\n", encodeDeleteGroup("billing"), d.encode(), x.encode())
	golden := filepath.Join("testdata", "group-v1.hex")
	if *update {
		if err := os.WriteFile(golden, []byte(written), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if written != string(want) {
		t.Errorf("written:\n%sin the file:\n%s", written, want)
	}
	text, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	if indented := "    " + strings.ReplaceAll(strings.TrimSpace(written), "\n", "\n    ") + "\n"; !strings.Contains(string(text), indented) {
		t.Errorf("FORMAT.md does not show:\n%s", indented)
	}
}

// TestStateIsTheSameAfterARestart applies random entries to a state, and to one that
// is loaded anew from its checkpoints at random moments. They answer alike, and leave
// the same behind.
func TestStateIsTheSameAfterARestart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := &topics{gone: map[entry.TopicID]bool{}}
		live, twin := NewState(names), NewState(names)
		disk, twinDisk := store{}, store{}
		now, index := entry.Time(1000), entry.Index(0)
		group := func() string { return rapid.SampledFrom([]string{"a", "b"}).Draw(t, "group") }
		member := func() string { return rapid.SampledFrom([]string{"x1", "x2", "y1", ""}).Draw(t, "member") }
		apply := func(kind entry.Type, payload []byte) {
			index++
			now += entry.Time(rapid.IntRange(0, 40).Draw(t, "later"))
			e := entry.Entry{Type: kind, Index: index, Time: now, Payload: payload}
			x, y := live.Apply(&e, disk), twin.Apply(&e, twinDisk)
			if fmt.Sprint(x) != fmt.Sprint(y) {
				t.Fatalf("%v: %v, after a restart %v", kind, x, y)
			}
			if refusal := new(kerr.Error); x.Err != nil && !errors.As(x.Err, &refusal) {
				t.Fatalf("%v: %v", kind, x.Err)
			}
		}
		actions := map[string]func(){
			"commit": func() {
				q := commitOf(group(), member(), rapid.Int32Range(-1, 6).Draw(t, "generation"), byte(rapid.IntRange(1, 3).Draw(t, "topic")), 0, 1)
				apply(entry.TypeCommitOffsets, q.Append(nil))
			},
			"group": func() {
				m := metadata(rapid.Int32Range(0, 6).Draw(t, "generation"), rapid.SampledFrom([][]string{nil, {"x1"}, {"x1", "y1"}}).Draw(t, "members")...)
				apply(entry.TypeClassicGroup, classic.AppendGroup(nil, group(), m))
			},
			"member": func() {
				p := classic.Replacement{Group: group(), Generation: rapid.Int32Range(0, 6).Draw(t, "generation"), OldID: "x1",
					Member: classic.Member{ID: rapid.SampledFrom([]string{"x2", "y1"}).Draw(t, "id"), Instance: "ix"}}
				apply(entry.TypeClassicMember, p.Append(nil))
			},
			"delete group": func() { apply(entry.TypeDeleteGroup, encodeDeleteGroup(group())) },
			"delete offsets": func() {
				d := deleteOffsets{group(), []TopicPartitions{{topicID(1), []int32{0}}, {topicID(2), []int32{0, 1}}}}
				apply(entry.TypeDeleteOffsets, d.encode())
			},
			"expire": func() {
				x := expire{time.Duration(rapid.IntRange(0, 100).Draw(t, "ms")) * time.Millisecond, []string{"a", "b", "none"}}
				due := map[string]bool{}
				for _, name := range x.groups {
					due[name] = live.due(name, now, x.retention)
				}
				apply(entry.TypeExpireOffsets, x.encode())
				for _, name := range x.groups {
					if live.due(name, now, x.retention) {
						t.Fatalf("group %s is still due", name)
					}
				}
			},
			"delete topic": func() {
				if rapid.IntRange(0, 9).Draw(t, "really") == 0 {
					id := topicID(byte(rapid.IntRange(1, 3).Draw(t, "topic")))
					names.gone[id] = true
					live.TopicDeleted(id)
					twin.TopicDeleted(id)
				}
			},
			"checkpoint": func() {
				live.Checkpoint(disk)
				twin.Checkpoint(twinDisk)
				if disk.String() != twinDisk.String() {
					t.Fatalf("state differs after a restart:\n%v\nuninterrupted:\n%v", twinDisk, disk)
				}
			},
		}
		actions["restart"] = func() {
			actions["checkpoint"]()
			twin = NewState(names)
			if err := twin.Load(twinDisk); err != nil {
				t.Fatal(err)
			}
		}
		all := slices.Sorted(maps.Keys(actions))
		all = append(all, "commit", "commit", "commit", "group", "group", "member")
		for range 50 {
			actions[rapid.SampledFrom(all).Draw(t, "action")]()
			if !slices.Equal(live.names(), twin.names()) {
				t.Fatalf("groups %q, after a restart %q", live.names(), twin.names())
			}
			for _, name := range []string{"a", "b"} {
				if x, y := live.lookup(name), twin.lookup(name); fmt.Sprintf("%+v", x.metadata()) != fmt.Sprintf("%+v", y.metadata()) ||
					fmt.Sprint(live.offsets.All(name)) != fmt.Sprint(twin.offsets.All(name)) {
					t.Fatalf("group %s: %+v, after a restart %+v", name, x.metadata(), y.metadata())
				}
			}
		}
	})
}

func TestCommitsOfADeletedTopicAreLeftOut(t *testing.T) {
	names := &topics{gone: map[entry.TopicID]bool{topicID(2): true}}
	s := NewState(names)
	q := commitOf("g", "", -1, 1, 0, 1)
	q.Topics = append(q.Topics, offsets.Topic{ID: topicID(2), Offsets: q.Topics[0].Offsets})
	r := s.Apply(&entry.Entry{Type: entry.TypeCommitOffsets, Payload: q.Append(nil)}, store{})
	if missing, _ := r.Value.([]entry.TopicID); r.Err != nil || len(missing) != 1 || missing[0] != topicID(2) {
		t.Errorf("%+v", r)
	}
	if _, n := s.offsets.Count(); n != 1 {
		t.Errorf("%d offsets", n)
	}
	s.TopicDeleted(topicID(1))
	if s.exist("g") {
		t.Error("a group without offsets and members is left")
	}
}

func TestOffsetsGoToTheStateBatchBeforeTooManyGather(t *testing.T) {
	s, disk := NewState(&topics{}), store{}
	q := offsets.Request{Group: "g", Generation: -1, Retention: -1, Topics: []offsets.Topic{{ID: topicID(1)}}}
	for p := range maxUnsaved + 1 {
		q.Topics[0].Offsets = append(q.Topics[0].Offsets, offsets.Offset{Partition: int32(p)})
	}
	if r := s.Apply(&entry.Entry{Type: entry.TypeCommitOffsets, Payload: q.Append(nil)}, disk); r.Err != nil {
		t.Fatal(r.Err)
	}
	if s.offsets.Unsaved() != 0 || len(disk) < maxUnsaved {
		t.Errorf("%d unsaved, %d keys", s.offsets.Unsaved(), len(disk))
	}
}

func TestLoadRefusesWhatItCannotRead(t *testing.T) {
	for what, c := range map[string]struct {
		value string
		want  error
	}{
		"empty": {"", codec.ErrCorrupt}, "another kind": {"\x09\x01", codec.ErrNewer}, "newer": {"\x01\x02", codec.ErrNewer}, "short": {"\x01\x01", codec.ErrCorrupt},
	} {
		if err := NewState(&topics{}).Load(store{"ggx": c.value}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// FuzzApply: whatever bytes an entry has, it is applied, refused, or unreadable; and
// what it leaves can be loaded.
func FuzzApply(f *testing.F) {
	d := deleteOffsets{"g", []TopicPartitions{{topicID(1), []int32{0}}}}
	x := expire{time.Hour, []string{"g"}}
	f.Add(uint8(entry.TypeCommitOffsets), commitOf("g", "", -1, 1, 0, 1).Append(nil))
	f.Add(uint8(entry.TypeDeleteOffsets), d.encode())
	f.Add(uint8(entry.TypeExpireOffsets), x.encode())
	f.Add(uint8(entry.TypeDeleteGroup), encodeDeleteGroup("g"))
	f.Add(uint8(entry.TypeClassicGroup), classic.AppendGroup(nil, "g", metadata(4, "x1")))
	f.Add(uint8(entry.TypeClassicMember), (&classic.Replacement{Group: "g", Generation: 1, OldID: "x1", Member: classic.Member{ID: "x2", Instance: "ix"}}).Append(nil))
	f.Fuzz(func(t *testing.T, kind uint8, payload []byte) {
		s, disk := NewState(&topics{}), store{}
		for _, m := range []string{"g", "h"} {
			s.Apply(&entry.Entry{Type: entry.TypeClassicGroup, Payload: classic.AppendGroup(nil, m, metadata(1, "x1"))}, disk)
		}
		r := s.Apply(&entry.Entry{Type: entry.Type(kind), Time: 50, Payload: payload}, disk)
		if refusal := new(kerr.Error); r.Err != nil && !errors.As(r.Err, &refusal) {
			return // the node stops
		}
		s.Checkpoint(disk)
		if err := NewState(&topics{}).Load(disk); err != nil {
			t.Errorf("%v: %v", entry.Type(kind), err)
		}
	})
}
