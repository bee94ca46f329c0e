package segment_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/segment"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const golden = "testdata/v1.hex"

// goldenHeader and goldenEntries are the worked example of FORMAT.md.
var goldenHeader = segment.Header{
	Number: 3, Prev: segment.Tail{Index: 6, Term: 1, Time: 1_700_000_000_000, Chain: 0x5eed5eed},
}

var goldenEntries = []entry.Entry{
	{Type: entry.TypeNoop, Term: 2, Index: 7, Time: 1_700_000_000_000},
	{Type: entry.TypeProduce, Flags: 1, Term: 2, Index: 8, Time: 1_700_000_000_123, Partition: 5,
		Payload: []byte("hello")},
}

// encode returns the bytes of a segment with the entries.
func encode(h segment.Header, entries []entry.Entry) []byte {
	file := make([]byte, segment.HeaderBytes)
	segment.PutHeader(file, h)
	tail := h.Prev
	for i := range entries {
		e := &entries[i]
		var header [segment.EntryHeaderBytes]byte
		tail = segment.PutEntryHeader(header[:], e, len(e.Payload), segment.Checksum(e.Payload), tail)
		file = append(file, header[:]...)
		file = append(file, e.Payload...)
	}
	return file
}

// dump returns bytes as text: sixteen a line behind their offset in hexadecimal,
// lines of zeroes left out.
func dump(b []byte) string {
	var out strings.Builder
	for at := 0; at < len(b); at += 16 {
		row := b[at:min(at+16, len(b))]
		if len(bytes.Trim(row, "\x00")) > 0 {
			fmt.Fprintf(&out, "%06x  % x\n", at, row)
		}
	}
	return out.String()
}

// undump is the reverse of dump.
func undump(t *testing.T, text string) []byte {
	t.Helper()
	var b []byte
	for line := range strings.Lines(text) {
		offset, row, ok := strings.Cut(strings.TrimSpace(line), "  ")
		at, err := strconv.ParseUint(offset, 16, 32)
		bytes, herr := hex.DecodeString(strings.ReplaceAll(row, " ", ""))
		if !ok || err != nil || herr != nil {
			t.Fatalf("%s: bad line %q", golden, line)
		}
		b = append(b, make([]byte, int(at)-len(b))...)
		b = append(b, bytes...)
	}
	return b
}

func TestGoldenSegmentIsWhatTheFormatSays(t *testing.T) {
	want := dump(encode(goldenHeader, goldenEntries))
	if *update {
		if err := os.WriteFile(golden, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Fatalf("%s is\n%sbut the example encodes to\n%s", golden, got, want)
	}
	doc, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(doc, got) {
		t.Fatalf("FORMAT.md does not show %s:\n%s", golden, got)
	}
}

func TestGoldenSegmentReadsBack(t *testing.T) {
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	file := undump(t, string(text))
	h, err := segment.ParseHeader(file)
	if err != nil || h != goldenHeader {
		t.Fatalf("header is %+v, %v", h, err)
	}
	entries, r := readAll(file, h)
	if r.Err() != nil || len(entries) != len(goldenEntries) {
		t.Fatalf("%d entries, %v", len(entries), r.Err())
	}
	for i, e := range entries {
		if fmt.Sprint(e) != fmt.Sprint(goldenEntries[i]) {
			t.Errorf("entry %d is %+v", i, e)
		}
	}
}

// readAll reads all entries behind the header page; payloads are copied.
func readAll(file []byte, h segment.Header) ([]entry.Entry, *segment.Reader) {
	// A segment with a little room behind the file, so that its end is one of the file.
	limit := int64(len(file)) + 4096
	r := segment.NewReader(bytes.NewReader(file), "test.log", h.Number, segment.HeaderBytes, limit, h.Prev)
	var all []entry.Entry
	for r.Fill() {
		for {
			var e entry.Entry
			if _, ok := r.Next(&e); !ok {
				break
			}
			e.Payload = bytes.Clone(e.Payload)
			if len(e.Payload) == 0 {
				e.Payload = nil
			}
			all = append(all, e)
		}
	}
	return all, r
}
