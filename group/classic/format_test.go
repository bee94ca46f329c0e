package classic

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/group/codec"
)

var update = flag.Bool("update", false, "rewrite golden files")

func example() *Metadata {
	return &Metadata{
		Generation: 7, ProtocolType: "consumer", Protocol: "range", Leader: "a-1", Since: 1_700_000_000_000,
		Members: []Member{
			{ID: "a-1", ClientID: "a", ClientHost: "/10.0.0.1", SessionTimeout: 45 * time.Second, RebalanceTimeout: 5 * time.Minute,
				Protocols: []Protocol{{"range", []byte("m")}, {"sticky", []byte("n")}}, Assignment: []byte("0")},
			{ID: "b-1", Instance: "i", ClientID: "b", ClientHost: "/10.0.0.2", SessionTimeout: 10 * time.Second,
				RebalanceTimeout: time.Minute, Protocols: []Protocol{{"range", []byte("m")}}},
		},
	}
}

func exampleReplacement() *Replacement {
	p := &Replacement{Group: "g", Generation: 7, OldID: "b-1", Member: example().Members[1]}
	p.Member.ID = "b-2"
	return p
}

// The example of FORMAT.md.
func TestFormatIsTheOneInTheExample(t *testing.T) {
	m := example()
	value, group, member := m.AppendValue(nil), AppendGroup(nil, "g", m), exampleReplacement().Append(nil)
	written := fmt.Sprintf("%x\n%x\n%x\n", value, group, member)
	golden := filepath.Join("testdata", "metadata-v1.hex")
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

	read, err := DecodeValue(value)
	if err != nil {
		t.Fatal(err)
	}
	m.index()
	if !reflect.DeepEqual(read, m) {
		t.Errorf("read: %+v", read)
	}
	name, read, err := DecodeGroup(group)
	m.Since = 0
	if err != nil || name != "g" || !reflect.DeepEqual(read, m) {
		t.Errorf("read: %q, %+v, %v", name, read, err)
	}
	p, err := DecodeReplacement(member)
	if err != nil || !reflect.DeepEqual(p, exampleReplacement()) {
		t.Errorf("read: %+v, %v", p, err)
	}
}

func TestDecodeTellsDamageFromANewerVersion(t *testing.T) {
	value := example().AppendValue(nil)
	newer := append([]byte{2}, value[1:]...)
	if _, err := DecodeValue(newer); !errors.Is(err, codec.ErrNewer) {
		t.Error(err)
	}
	for n := range value {
		if _, err := DecodeValue(value[:n]); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("%d of %d bytes: %v", n, len(value), err)
		}
	}
	for what, damage := range map[string]func(*Metadata){
		"a member without id":      func(m *Metadata) { m.Members[0].ID = "" },
		"an id that occurs twice":  func(m *Metadata) { m.Members[1].ID = "a-1" },
		"an instance twice":        func(m *Metadata) { m.Members[0].Instance = "i" },
		"a leader who is none":     func(m *Metadata) { m.Leader = "x" },
		"a leader of nobody":       func(m *Metadata) { m.Members = nil },
		"members without a leader": func(m *Metadata) { m.Leader = "" },
		"a negative generation":    func(m *Metadata) { m.Generation = -1 },
		"a negative time":          func(m *Metadata) { m.Since = -1 },
	} {
		m := example()
		damage(m)
		if _, err := DecodeValue(m.AppendValue(nil)); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// FuzzDecode: bytes that are accepted are written back as the same bytes, and make a
// group that can be restored.
func FuzzDecode(f *testing.F) {
	m := example()
	f.Add(m.AppendValue(nil), AppendGroup(nil, "g", m), exampleReplacement().Append(nil))
	m = &Metadata{Generation: 8, ProtocolType: "consumer"}
	f.Add(m.AppendValue(nil), AppendGroup(nil, "", m), []byte{1})
	f.Fuzz(func(t *testing.T, value, group, member []byte) {
		read, err := DecodeValue(value)
		if err == nil {
			if again := read.AppendValue(nil); !bytes.Equal(again, value) {
				t.Errorf("%x is written back as %x", value, again)
			}
			g := Restore("g", &Limits{}, read, epoch())
			var out Output
			g.Tick(epoch().Add(time.Hour*24*365), &out)
			read.Subscribed()
		}
		if name, m, err := DecodeGroup(group); err == nil {
			if again := AppendGroup(nil, name, m); !bytes.Equal(again, group) {
				t.Errorf("%x is written back as %x", group, again)
			}
		}
		p, err := DecodeReplacement(member)
		if err != nil {
			return
		}
		if again := p.Append(nil); !bytes.Equal(again, member) {
			t.Errorf("%x is written back as %x", member, again)
		}
		if next, err := read.Replace(p); err == nil {
			if _, err := DecodeValue(next.AppendValue(nil)); err != nil {
				t.Errorf("replaced: %v", err)
			}
		}
	})
}

// FuzzSubscription: only topics that the bytes hold are found in them.
func FuzzSubscription(f *testing.F) {
	f.Add(decodeMetadata("+t1+t2"))
	f.Add([]byte{0, 0, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		topics := map[string]bool{}
		addSubscription(topics, b)
		for topic := range topics {
			if !bytes.Contains(b, []byte(topic)) {
				t.Errorf("%q is not in %x", topic, b)
			}
		}
	})
}
