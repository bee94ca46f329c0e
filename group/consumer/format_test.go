package consumer

import (
	"bytes"
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
	"time"

	"github.com/sluicemq/sluice/group/assign"
	"github.com/sluicemq/sluice/group/classic"
	"github.com/sluicemq/sluice/group/codec"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

var update = flag.Bool("update", false, "rewrite golden files")

// example is the change of FORMAT.md.
func example() *Change {
	one, two := entry.TopicID{15: 1}, entry.TopicID{15: 2}
	return &Change{
		Group: "g", Base: 41, Epoch: 3, TargetEpoch: 3, TopicsHash: 0x1122334455667788,
		Removed: []string{"m0"},
		Members: []MemberChange{
			{
				ID: "m1",
				Current: &Current{
					Phase: Revoking, Epoch: 2, Previous: 2,
					Assigned: Holding{assign.Assignment{{ID: one, Partitions: []int32{0, 1, 5}}}, []int32{1, 1, 2}},
					Revoked:  Holding{assign.Assignment{{ID: two, Partitions: []int32{3}}}, []int32{2}},
				},
				HasTarget: true, Target: assign.Assignment{{ID: one, Partitions: []int32{0, 1, 5}}},
			},
			{
				ID: "m2",
				Info: &Info{
					Instance: "i", ClientID: "c", ClientHost: "h", RebalanceTimeout: 5 * time.Minute,
					Topics: []string{"a", "b"}, Regex: "x.*", Assignor: "uniform",
				},
				Current:   &Current{Phase: Waiting, Epoch: 3},
				HasTarget: true, Target: assign.Assignment{{ID: two, Partitions: []int32{3}}},
			},
		},
		Regexes: []RegexChange{{Pattern: "x.*", Topics: []string{"xa", "xb"}}, {Pattern: "y", Gone: true}},
	}
}

// exampleState is the state of FORMAT.md: what the example makes of a state with
// the members m0 and m1.
func exampleState(t *testing.T) *State {
	t.Helper()
	before := &State{Index: 41, Since: 5, Epoch: 2, TargetEpoch: 2, Members: []*Member{
		{ID: "m0", Info: &Info{}, Current: &Current{Epoch: 2}},
		{ID: "m1", Info: &Info{ClientID: "c", Topics: []string{"a"}, Classic: &Classic{
			SessionTimeout: 45 * time.Second, Protocols: []classic.Protocol{{Name: "range", Metadata: []byte{0, 0}}},
		}}, Current: &Current{Epoch: 2}},
	}, Regexes: []*Regex{{Pattern: "y"}}}
	s, err := before.Apply(example(), 42, 1_700_000_000_000)
	if err != nil {
		t.Fatal(err)
	}
	return s
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

func TestPayloadIsTheOneInTheExample(t *testing.T) {
	payload := example().Append(nil)
	golden(t, "change-v1.hex", fmt.Sprintf("%x\n", payload))
	back, err := DecodeChange(payload)
	if err != nil || !reflect.DeepEqual(back, example()) {
		t.Errorf("read back %+v, %v", back, err)
	}
}

func TestStateIsTheOneInTheExample(t *testing.T) {
	disk := store{}
	s := exampleState(t)
	Checkpoint(disk, "g", nil, s)
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(disk)) {
		fmt.Fprintf(&b, "%x = %x\n", k, disk[k])
	}
	golden(t, "state-v1.hex", b.String())
	checkRestart(t, s)
}

func TestDowngradeIsReadBack(t *testing.T) {
	d := &Downgrade{Base: 7, Group: "g", Metadata: &classic.Metadata{
		Generation: 3, ProtocolType: "consumer", Protocol: "range", Leader: "m", Members: []classic.Member{{ID: "m"}},
	}}
	back, err := DecodeDowngrade(d.Append(nil))
	if err != nil || back.Base != 7 || back.Group != "g" || back.Metadata.Members[0].ID != "m" {
		t.Errorf("%+v, %v", back, err)
	}
	for state, want := range map[*State]kerr.Code{nil: kerr.CoordinatorNotAvailable, {Index: 6}: kerr.CoordinatorNotAvailable, {Index: 7}: kerr.None} {
		if got := kerr.Of(d.Admit(state)); got != want {
			t.Errorf("%+v: %v", state, got)
		}
	}
}

// TestCheckpointWritesOnlyWhatIsDifferent compares two checkpoints with one.
func TestCheckpointWritesOnlyWhatIsDifferent(t *testing.T) {
	s := exampleState(t)
	next, err := s.Apply(&Change{Base: s.Index, Epoch: 4, TargetEpoch: 3, Removed: []string{"m2"},
		Members: []MemberChange{{ID: "m1", Current: &Current{Epoch: 4}}, {ID: "m3", Info: &Info{}, Current: &Current{Epoch: 4}}},
		Regexes: []RegexChange{{Pattern: "x.*", Gone: true}, {Pattern: "z", Topics: []string{"z"}}}}, 50, 9)
	if err != nil {
		t.Fatal(err)
	}
	twice, once := store{}, store{}
	Checkpoint(twice, "g", nil, s)
	Checkpoint(twice, "g", s, next)
	Checkpoint(once, "g", nil, next)
	if !maps.Equal(twice, once) {
		t.Errorf("%v\n%v", twice, once)
	}
	other := store{}
	Checkpoint(other, "ga", nil, s)
	for k, v := range other {
		twice[k] = v
	}
	Checkpoint(twice, "g", next, nil)
	if !maps.Equal(twice, other) {
		t.Errorf("deleting one group leaves %v, want %v", twice, other)
	}
	untouched := store{}
	Checkpoint(untouched, "g", next, next)
	if len(untouched) != 1 {
		t.Errorf("%d keys written though nothing is different", len(untouched))
	}
}

func TestChangesOfAnotherStateAreRefused(t *testing.T) {
	s := exampleState(t)
	for _, base := range []entry.Index{0, 41, 43} {
		if _, err := s.Apply(&Change{Base: base, Epoch: 3, TargetEpoch: 3}, 50, 9); kerr.Of(err) != kerr.CoordinatorNotAvailable {
			t.Errorf("base %d: %v", base, err)
		}
	}
	if _, err := (*State)(nil).Apply(&Change{Base: 1, Epoch: 3, TargetEpoch: 3}, 50, 9); kerr.Of(err) != kerr.CoordinatorNotAvailable {
		t.Errorf("no state: %v", err)
	}
}

func TestChangesThatCannotBeAreDamage(t *testing.T) {
	s := exampleState(t)
	for name, c := range map[string]*Change{
		"epoch back":         {Epoch: 2, TargetEpoch: 2},
		"target ahead":       {Epoch: 3, TargetEpoch: 4},
		"target back":        {Epoch: 3, TargetEpoch: 2},
		"removes nobody":     {Epoch: 3, TargetEpoch: 3, Removed: []string{"m9"}},
		"removes and sets":   {Epoch: 3, TargetEpoch: 3, Removed: []string{"m1"}, Members: []MemberChange{{ID: "m1", Current: &Current{}}}},
		"half a new member":  {Epoch: 3, TargetEpoch: 3, Members: []MemberChange{{ID: "m4", Current: &Current{}}}},
		"half a new member2": {Epoch: 3, TargetEpoch: 3, Members: []MemberChange{{ID: "m0", Info: &Info{}}}},
	} {
		c.Base = s.Index
		if _, err := s.Apply(c, 50, 9); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeysThatCannotBeAreDamage(t *testing.T) {
	disk := store{}
	Checkpoint(disk, "g", nil, exampleState(t))
	load := func(s store) error { return Load(s, func(string, *State) {}) }
	if err := load(disk); err != nil {
		t.Fatal(err)
	}
	prefix := string(groupKey("g"))
	for name, damage := range map[string]func(store){
		"no head":            func(s store) { delete(s, prefix+"\x00") },
		"no current":         func(s store) { delete(s, prefix+"\x02m1") },
		"current of nobody":  func(s store) { s[prefix+"\x02m9"] = s[prefix+"\x02m1"] },
		"target of nobody":   func(s store) { s[prefix+"\x03m9"] = s[prefix+"\x03m1"] },
		"unknown kind":       func(s store) { s[prefix+"\x05m1"] = s[prefix+"\x02m1"] },
		"short key":          func(s store) { s["gm\x00"] = "" },
		"longer than itself": func(s store) { s["gm\x00\x05ab"] = "" },
		"another group":      func(s store) { s["gm\x00\x02zz\x01m"] = s[prefix+"\x01m1"] },
		"empty value":        func(s store) { s[prefix+"\x00"] = "" },
		"cut value":          func(s store) { s[prefix+"\x01m2"] = s[prefix+"\x01m2"][:5] },
		"longer value":       func(s store) { s[prefix+"\x01m2"] += "x" },
	} {
		broken := maps.Clone(disk)
		damage(broken)
		if err := load(broken); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for k := range disk {
		newer := maps.Clone(disk)
		newer[k] = "\x02" + disk[k][1:]
		if err := load(newer); !errors.Is(err, codec.ErrNewer) {
			t.Errorf("key %x of version 2: %v", k, err)
		}
	}
}

// FuzzDecodeChange: what can be read is written back as it was.
func FuzzDecodeChange(f *testing.F) {
	f.Add(example().Append(nil))
	empty := Change{Group: "g"}
	f.Add(empty.Append(nil))
	from := Change{Group: "g", FromClassic: true, Generation: 4, Epoch: 5, TargetEpoch: 5, Members: []MemberChange{{ID: "m",
		Info: &Info{Classic: &Classic{SessionTimeout: time.Second, Protocols: []classic.Protocol{{Name: "range", Metadata: []byte("x")}}}}}}}
	f.Add(from.Append(nil))
	f.Fuzz(func(t *testing.T, payload []byte) {
		c, err := DecodeChange(payload)
		if err != nil {
			if !errors.Is(err, codec.ErrCorrupt) && !errors.Is(err, codec.ErrNewer) {
				t.Fatalf("error is of no kind: %v", err)
			}
			return
		}
		again := c.Append(nil)
		back, err := DecodeChange(again)
		if err != nil || !reflect.DeepEqual(back, c) {
			t.Fatalf("%x is read as %+v, which is written as %x and read as %+v, %v", payload, c, again, back, err)
		}
		if s, err := (*State)(nil).Apply(c, 1, 0); err == nil {
			checkRestart(t, s)
		}
	})
}

// FuzzLoad: no bytes in the state store do any harm.
func FuzzLoad(f *testing.F) {
	f.Add([]byte{kindCurrent}, "m1", []byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{kindInfo}, "m1", append([]byte{1}, appendInfo(nil, example().Members[1].Info)...))
	f.Add([]byte{kindRegex}, ".*", []byte{1, 1, 1, 'a'})
	f.Fuzz(func(t *testing.T, kind []byte, name string, value []byte) {
		disk := store{}
		Checkpoint(disk, "g", nil, &State{Index: 1, Members: []*Member{{ID: "m1", Info: &Info{}, Current: &Current{}}}})
		disk.Set(append(append(groupKey("g"), kind...), name...), value)
		_ = Load(disk, func(_ string, s *State) { checkRestart(t, s) })
	})
}

// FuzzSubscription: no bytes of a client do any harm, and what is written is read
// back.
func FuzzSubscription(f *testing.F) {
	f.Add(subscriptionBytes([]string{"a", "b"}, []namedPartitions{{"a", []int32{1, 2}}}, "rack"))
	f.Add(appendAssignment(nil, 1, assign.Assignment{{ID: entry.TopicID{1}, Partitions: []int32{4}}}, func(entry.TopicID) (string, bool) { return "t", true }))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseSubscription(b)
		if err == nil && s.version >= 3 {
			back, err := parseSubscription(subscriptionBytes(s.topics, s.owned, s.rack))
			if err != nil || !slices.Equal(back.topics, s.topics) || back.rack != s.rack || len(back.owned) != len(s.owned) {
				t.Fatalf("%+v is read back as %+v, %v", s, back, err)
			}
		}
		named, err := parseAssignment(b)
		if err != nil {
			return
		}
		topics := newCatalog()
		for _, n := range named {
			for _, p := range n.partitions {
				if p >= 0 && p < 1000 && n.topic != "" {
					topics.set(n.topic, max(topics.sizes[n.topic], p+1))
				}
			}
		}
		set := byID(named, topics)
		again, err := parseAssignment(appendAssignment(nil, 1, set, topics.Name))
		if err != nil || !byID(again, topics).Equal(set) {
			t.Fatalf("%v is read back as %v, %v", set, again, err)
		}
	})
}

// FuzzRegex: a pattern that is taken matches whole names, and only those.
func FuzzRegex(f *testing.F) {
	for _, p := range []string{"a.*", "a|bc", `\Qa.b`, "^a$", "(?m)^a", "a)(b", "(?i)ABC", "[[:alpha:]]+", "a{2,3}", "(a{1000}){1000}", ""} {
		f.Add(p, "abc")
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if CheckRegex(pattern) != nil || pattern == "" {
			return
		}
		whole, err := compile(pattern)
		if err != nil {
			t.Fatalf("%q is taken and cannot be compiled: %v", pattern, err)
		}
		loc := whole.FindStringIndex(name)
		if loc != nil && (loc[0] != 0 || loc[1] != len(name)) {
			t.Fatalf("%q matches %q at %v", pattern, name, loc)
		}
	})
}

func TestPatternsAreBounded(t *testing.T) {
	for pattern, ok := range map[string]bool{
		"orders-.*": true, `\Qa.b`: true, "a)(b": false, "a(": false, "(?=a)": false,
		strings.Repeat("a", MaxRegexBytes): true, strings.Repeat("a", MaxRegexBytes+1): false,
		strings.Repeat("x{900}", 100): false,
	} {
		if err := CheckRegex(pattern); (err == nil) != ok {
			t.Errorf("%.40q: %v", pattern, err)
		} else if err != nil && kerr.Of(err) != kerr.InvalidRegularExpression {
			t.Errorf("%.40q: %v", pattern, err)
		}
	}
	whole, _ := compile(`\Qa.b`)
	if whole.MatchString("axb") || !whole.MatchString("a.b") || whole.MatchString("a.bc") {
		t.Error("quoted pattern")
	}
}

func TestDecodersDoNotAllocateWhatIsNotThere(t *testing.T) {
	// A count of two billion in front of nothing.
	payload := bytes.Clone((&Change{Group: "g"}).Append(nil))
	payload[len(payload)-4] = 0xff
	if _, err := DecodeChange(append(payload, 0xff, 0xff, 0xff, 0x7f)); !errors.Is(err, codec.ErrCorrupt) {
		t.Error(err)
	}
}
