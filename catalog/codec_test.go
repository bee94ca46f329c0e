package catalog

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/catalog/config"
	"github.com/sluicemq/sluice/log/entry"
)

// encodings are one value of each kind with the bytes that stand for it, as
// FORMAT.md has them. They must never change: logs on disk hold them.
func encodings() []struct {
	name   string
	bytes  []byte
	hex    string
	decode func([]byte) ([]byte, error) // and encode again
} {
	id := entry.TopicID{0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f}
	const idHex = "101112131415161718191a1b1c1d1e1f"
	overrides := config.MakeOverrides([]config.Setting{{Name: "retention.ms", Value: "5"}})
	const overridesHex = "01" + "0c726574656e74696f6e2e6d73" + "0135"
	topic := &Topic{
		name: "t", id: id, created: 1000, partitions: 301, internal: true,
		runs: []run{{7, 300}, {400, 1}}, configs: &configSet{overrides: overrides},
	}
	return []struct {
		name   string
		bytes  []byte
		hex    string
		decode func([]byte) ([]byte, error)
	}{
		{"CreateTopic",
			(&CreateTopic{ID: id, Internal: true, Partitions: 300, Name: "t", Overrides: overrides}).Append(nil),
			"0101" + idHex + "ac02" + "0174" + overridesHex,
			func(b []byte) ([]byte, error) { x, err := DecodeCreateTopic(b); return x.Append(nil), err }},
		{"DeleteTopic", (&DeleteTopic{ID: id}).Append(nil), "01" + idHex,
			func(b []byte) ([]byte, error) { x, err := DecodeDeleteTopic(b); return x.Append(nil), err }},
		{"CreatePartitions", (&CreatePartitions{ID: id, Total: 300}).Append(nil), "01" + idHex + "ac02",
			func(b []byte) ([]byte, error) { x, err := DecodeCreatePartitions(b); return x.Append(nil), err }},
		{"AlterConfigs", (&AlterConfigs{Resource: ResourceTopic, ID: id, Ops: []config.Op{
			{Kind: config.OpSet, Name: "flush.ms", Value: "9"},
			{Kind: config.OpDelete, Name: "retention.ms"},
			{Kind: config.OpAppend, Name: "cleanup.policy", Value: "compact", Base: "delete"},
		}}).Append(nil),
			"010200" + idHex + "03" + "0008666c7573682e6d730139" + "010c726574656e74696f6e2e6d73" +
				"020e636c65616e75702e706f6c69637907636f6d706163740664656c657465",
			reencodeAlter},
		{"AlterConfigsOfBroker", (&AlterConfigs{Resource: ResourceBroker, Name: "0", Replace: true, Ops: []config.Op{
			{Kind: config.OpSet, Name: "log.retention.ms", Value: "9"},
		}}).Append(nil), "010401" + "0130" + "01" + "00106c6f672e726574656e74696f6e2e6d730139", reencodeAlter},
		{"TopicValue", appendTopic(nil, topic),
			"0101" + "e803000000000000" + "0174" + "02" + "07ac02" + "900301" + overridesHex, reencodeTopic},
		{"BrokerValue", appendDynamic(nil, overrides), "01" + overridesHex, reencodeDynamic},
		{"NumbersValue", appendNumbers(nil, 401), "01" + "9101000000000000", reencodeNumbers},
	}
}

func reencodeAlter(b []byte) ([]byte, error) {
	x, err := DecodeAlterConfigs(b)
	return x.Append(nil), err
}

func reencodeTopic(b []byte) ([]byte, error) {
	t, overrides, err := decodeTopic(b)
	t.configs = &configSet{overrides: overrides}
	return appendTopic(nil, t), err
}

func reencodeDynamic(b []byte) ([]byte, error) {
	o, err := decodeDynamic(b)
	return appendDynamic(nil, o), err
}

func reencodeNumbers(b []byte) ([]byte, error) {
	n, err := decodeNumbers(b)
	return appendNumbers(nil, n), err
}

func TestEncodingsNeverChange(t *testing.T) {
	for _, e := range encodings() {
		if got := hex.EncodeToString(e.bytes); got != e.hex {
			t.Errorf("%s: got %s, want %s", e.name, got, e.hex)
		}
		if again, err := e.decode(e.bytes); err != nil || !bytes.Equal(again, e.bytes) {
			t.Errorf("%s: reads as %x, %v", e.name, again, err)
		}
	}
}

func TestCutAndExtendedRecordsAreUnreadable(t *testing.T) {
	for _, e := range encodings() {
		for n := range e.bytes {
			if _, err := e.decode(e.bytes[:n]); !errors.Is(err, ErrPayload) {
				t.Errorf("%s: cut to %d bytes: got %v", e.name, n, err)
			}
		}
		if _, err := e.decode(append(bytes.Clone(e.bytes), 0)); !errors.Is(err, ErrPayload) {
			t.Errorf("%s: with a byte more: got %v", e.name, err)
		}
		other := bytes.Clone(e.bytes)
		other[0] = 2
		if _, err := e.decode(other); !errors.Is(err, ErrPayload) || !strings.Contains(err.Error(), "version 2, expected 1") {
			t.Errorf("%s: of another version: got %v", e.name, err)
		}
	}
}

func TestRecordsThatMakeNoSenseAreUnreadable(t *testing.T) {
	id := "101112131415161718191a1b1c1d1e1f"
	for name, test := range map[string]struct {
		hex    string
		decode func([]byte) ([]byte, error)
		want   string
	}{
		"zero id":               {"0100" + strings.Repeat("00", 16) + "010174" + "00", nil, "topic id is zero"},
		"unknown flag":          {"0102" + id + "010174" + "00", nil, "unknown flags"},
		"no partitions":         {"0100" + id + "000174" + "00", nil, "partitions is 0"},
		"too many partitions":   {"0100" + id + "80808080080174" + "00", nil, "at most 2147483647"},
		"longer than need be":   {"0100" + id + "81000174" + "00", nil, "shortest form"},
		"bad name":              {"0100" + id + "01012f" + "00", nil, "no topic name"},
		"name too long":         {"0100" + id + "01fa01", nil, "at most 249"},
		"more configs than fit": {"0100" + id + "010174" + "ff7f", nil, "number of configs"},
		"configs out of order":  {"0100" + id + "010174" + "02" + "016201" + "31" + "016101" + "31", nil, "is not after"},
		"config twice":          {"0100" + id + "010174" + "02" + "016101" + "31" + "016101" + "31", nil, "is not after"},
		"config without a name": {"0100" + id + "010174" + "01" + "000131", nil, "name is empty"},
		"unknown resource":      {"010300" + id + "00", reencodeAlter, "unknown resource 3"},
		"unknown mode":          {"010202" + id + "00", reencodeAlter, "unknown mode 2"},
		"unknown change":        {"010200" + id + "01" + "04016100", reencodeAlter, "unknown change 4"},
		"delete in a replace":   {"010201" + id + "01" + "010161", reencodeAlter, "unknown change 1"},
		"topic without runs":    {"0100" + "0000000000000000" + "0174" + "00" + "00", reencodeTopic, "no partitions"},
		"empty run":             {"0100" + "0000000000000000" + "0174" + "01" + "0100" + "00", reencodeTopic, "run of 0 partitions"},
		"run from number 0":     {"0100" + "0000000000000000" + "0174" + "01" + "0001" + "00", reencodeTopic, "run of 1 partitions from 0"},
		"runs that overlap":     {"0100" + "0000000000000000" + "0174" + "02" + "0102" + "0201" + "00", reencodeTopic, "not after the one before"},
		"next number 0":         {"01" + "0000000000000000", reencodeNumbers, "number is 0"},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := hex.DecodeString(test.hex)
			if err != nil {
				t.Fatal(err)
			}
			if test.decode == nil {
				test.decode = func(b []byte) ([]byte, error) { _, err := DecodeCreateTopic(b); return nil, err }
			}
			if _, err := test.decode(b); !errors.Is(err, ErrPayload) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// fuzz checks of a decoder that it refuses or reads without loss: what it reads
// encodes to the bytes it was given.
func fuzz(f *testing.F, names ...string) {
	var decode func([]byte) ([]byte, error)
	for _, e := range encodings() {
		for _, name := range names {
			if e.name == name {
				f.Add(e.bytes)
				decode = e.decode
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		again, err := decode(b)
		switch {
		case err == nil && !bytes.Equal(again, b):
			t.Errorf("%x reads as %x", b, again)
		case err != nil && !errors.Is(err, ErrPayload):
			t.Errorf("%x: %v", b, err)
		}
	})
}

func FuzzCreateTopic(f *testing.F)      { fuzz(f, "CreateTopic") }
func FuzzDeleteTopic(f *testing.F)      { fuzz(f, "DeleteTopic") }
func FuzzCreatePartitions(f *testing.F) { fuzz(f, "CreatePartitions") }
func FuzzAlterConfigs(f *testing.F)     { fuzz(f, "AlterConfigs", "AlterConfigsOfBroker") }
func FuzzTopicValue(f *testing.F)       { fuzz(f, "TopicValue") }
func FuzzBrokerValue(f *testing.F)      { fuzz(f, "BrokerValue") }
func FuzzNumbersValue(f *testing.F)     { fuzz(f, "NumbersValue") }

func TestFormatPageHasTheEncodings(t *testing.T) {
	page, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	squeezed := strings.NewReplacer(" ", "", "\n", "").Replace(string(page))
	for _, e := range encodings() {
		if !strings.Contains(squeezed, e.hex) {
			t.Errorf("FORMAT.md lacks the bytes of %s: %s", e.name, e.hex)
		}
	}
}

func TestFuzzCorporaAreCommitted(t *testing.T) {
	for _, name := range []string{"CreateTopic", "DeleteTopic", "CreatePartitions", "AlterConfigs", "TopicValue", "BrokerValue", "NumbersValue"} {
		files, err := filepath.Glob(fmt.Sprintf("testdata/fuzz/Fuzz%s/*", name))
		if err != nil || len(files) == 0 {
			t.Errorf("no corpus for %s: %v", name, err)
		}
	}
}
