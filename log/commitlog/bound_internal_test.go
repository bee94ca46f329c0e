package commitlog

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/log/segment"
	"github.com/sluicemq/sluice/log/vfs"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestGoldenBoundIsWhatTheFormatSays(t *testing.T) {
	const golden = "testdata/bound-v1.hex"
	want := bound{
		segment: 3, end: 4213, clean: true,
		tail: segment.Tail{Index: 8, Term: 2, Time: 1_700_000_000_123, Chain: 0x12bb8c94},
	}
	fs := vfs.New(pebblevfs.NewMem())
	f := boundFile{fs: fs, dir: ""}
	if err := f.note(want); err != nil {
		t.Fatal(err)
	}
	if got, err := f.read(); err != nil || got != want {
		t.Fatalf("reads back as %+v, %v", got, err)
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	m, err := fs.Map(boundName)
	if err != nil {
		t.Fatal(err)
	}
	var dump strings.Builder
	for row := range slices.Chunk(m.Bytes(), 16) {
		fmt.Fprintf(&dump, "% x\n", row)
	}
	if *update {
		if err := os.WriteFile(golden, []byte(dump.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != dump.String() || !bytes.Contains(doc, got) {
		t.Fatalf("%s or FORMAT.md does not show\n%s", golden, dump.String())
	}
}
