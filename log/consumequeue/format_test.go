package consumequeue_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/vfs"
)

var update = flag.Bool("update", false, "rewrite the golden file")

const golden = "testdata/v1/0000000007.idx"

// example is the set whose segment 7 FORMAT.md shows.
func example() *consumequeue.Set {
	set := consumequeue.NewSet()
	orders, audit := set.Create(12), set.Create(5)
	orders.Restore(0, 100)
	orders.Put(7, consumequeue.Entry{BaseOffset: 100, MaxTimestamp: 1_700_000_000_000, At: 4096, Size: 75, Count: 1, Tags: 1})
	audit.Put(7, consumequeue.Entry{BaseOffset: 0, MaxTimestamp: 1_700_000_000_001, At: 4227, Size: 200, Count: 10})
	orders.Put(7, consumequeue.Entry{BaseOffset: 101, MaxTimestamp: 1_699_999_999_000, At: 4483, Size: 90, Count: 2, Tags: 6})
	return set
}

func exampleSegment() consumequeue.Segment {
	return consumequeue.Segment{
		Number: 7, End: 4629, First: 40, Last: 42, LastTime: 1_700_000_000_010, ChainCRC: 0x11223344,
		Terms: []consumequeue.TermRun{{Term: 1, First: 40, At: 4096}},
		Marks: []consumequeue.Mark{{Index: 40, At: 4096}},
	}
}

// exampleFile returns the bytes of the example's file.
func exampleFile(t testing.TB) []byte {
	t.Helper()
	fs := memory(t)
	f, err := example().Seal(7).Write(fs, "log", exampleSegment())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Release()
	return content(t, fs, f.Name())
}

func content(t testing.TB, fs *vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

// openBytes opens b as the index file of segment 7.
func openBytes(t testing.TB, b []byte) (*consumequeue.File, error) {
	t.Helper()
	fs := memory(t)
	w, err := fs.Create("log/" + consumequeue.FileName(7))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return consumequeue.Open(fs, "log", 7)
}

func TestFileIsAsTheFormatDocumentShows(t *testing.T) {
	got := exampleFile(t)
	if *update {
		if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("file differs from %s:\n%s\nwant\n%s", golden, hex.Dump(got), hex.Dump(want))
	}
	text, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(hex.Dump(want)) {
		if line = strings.TrimSpace(line); !strings.Contains(string(text), line) {
			t.Errorf("FORMAT.md does not have the line\n%s", line)
		}
	}
}

func TestGoldenFileSaysWhatWasWritten(t *testing.T) {
	b, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	f, err := openBytes(t, b)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Verify(); err != nil {
		t.Fatal(err)
	}
	want := exampleSegment()
	marks := want.Marks
	want.Marks = nil
	if got := f.Segment(); got.Number != want.Number || got.End != want.End || got.First != want.First || got.Last != want.Last ||
		got.LastTime != want.LastTime || got.ChainCRC != want.ChainCRC || !slices.Equal(got.Terms, want.Terms) {
		t.Errorf("segment %+v, want %+v", got, want)
	}
	if m, ok, err := f.Mark(41); m != marks[0] || !ok || err != nil {
		t.Errorf("mark of 41: %v, %v, %v", m, ok, err)
	}
	if m, ok, err := f.Mark(39); ok || err != nil {
		t.Errorf("mark of 39: %v, %v, %v", m, ok, err)
	}
	if partitions, batches := f.Counts(); partitions != 2 || batches != 3 {
		t.Errorf("counts %d, %d", partitions, batches)
	}
	set := consumequeue.NewSet()
	q := set.Create(12)
	set.Create(5)
	if err := set.Attach(f); err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	found := find(t, q, 0)
	if len(found) != 2 || found[0].Pos() != entry.MakePos(7, 4096) || found[1].End() != 103 || found[1].Tags != 6 {
		t.Errorf("found %v", found)
	}
}

func TestDamageIsToldApart(t *testing.T) {
	good := exampleFile(t)
	change := func(at int, to byte) []byte {
		b := slices.Clone(good)
		b[at] = to
		return b
	}
	for _, c := range []struct {
		name string
		file []byte
		want error
	}{
		{"empty", nil, consumequeue.ErrShort},
		{"magic only", good[:8], consumequeue.ErrShort},
		{"header only", good[:128], consumequeue.ErrShort},
		{"last byte missing", good[:len(good)-1], consumequeue.ErrShort},
		{"a byte more", append(slices.Clone(good), 0), consumequeue.ErrShort},
		{"magic", change(0, 'Z'), consumequeue.ErrMagic},
		{"newer version", change(4, 2), consumequeue.ErrVersion},
		{"version 0", change(4, 0), consumequeue.ErrStructure},
		{"header", change(20, 1), consumequeue.ErrChecksum},
		{"term runs", change(128, 9), consumequeue.ErrChecksum},
		{"marks", change(152, 9), consumequeue.ErrChecksum},
		{"directory", change(170, 9), consumequeue.ErrChecksum},
		{"sums", change(len(good)-36, 9), consumequeue.ErrChecksum},
		{"footer", change(len(good)-10, 9), consumequeue.ErrChecksum},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := openBytes(t, c.file)
			if !errors.Is(err, c.want) {
				t.Fatalf("%v, want %v", err, c.want)
			}
			if errors.Is(err, consumequeue.ErrCorrupt) == errors.Is(err, consumequeue.ErrVersion) {
				t.Errorf("%v must be damage or a newer version, one of them", err)
			}
			if !strings.Contains(err.Error(), "0000000007.idx") {
				t.Errorf("%v does not name the file", err)
			}
		})
	}
}

func TestFileOfAnotherSegmentIsRefused(t *testing.T) {
	fs := memory(t)
	f, err := example().Seal(7).Write(fs, "log", exampleSegment())
	if err != nil {
		t.Fatal(err)
	}
	f.Release()
	if err := fs.Rename("log/0000000007.idx", "log/0000000008.idx"); err != nil {
		t.Fatal(err)
	}
	if _, err := consumequeue.Open(fs, "log", 8); !errors.Is(err, consumequeue.ErrStructure) {
		t.Error(err)
	}
	if _, err := consumequeue.Open(fs, "log", 7); !vfs.NotExist(err) {
		t.Error(err)
	}
}

// Every bit of the file is under some checksum.
func TestEveryFlippedBitIsFound(t *testing.T) {
	good := exampleFile(t)
	for i := range good {
		for bit := range 8 {
			b := slices.Clone(good)
			b[i] ^= 1 << bit
			f, err := openBytes(t, b)
			if err == nil {
				err = f.Verify()
				f.Release()
			}
			if err == nil {
				t.Fatalf("bit %d of byte %d can change without notice", bit, i)
			}
		}
	}
}

func TestDamagedEntriesAreAnErrorOfTheLookUp(t *testing.T) {
	set := consumequeue.NewSet()
	q := set.Create(1)
	for i := range 2000 {
		q.Put(7, batch(entry.Offset(i), 1, uint32(4096+i), 1))
	}
	fs := memory(t)
	f, err := set.Seal(7).Write(fs, "log", segment(7, 10000))
	if err != nil {
		t.Fatal(err)
	}
	b := content(t, fs, f.Name())
	f.Release()
	b[len(b)-32-16-8*32] ^= 1 // in the last block of entries: there are 4 checksums behind them
	f, err = openBytes(t, b)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Verify(); !errors.Is(err, consumequeue.ErrChecksum) {
		t.Errorf("Verify: %v", err)
	}
	set = consumequeue.NewSet()
	q = set.Create(1)
	if err := set.Attach(f); err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	dst := make([]consumequeue.Located, 0, 3000)
	found, err := q.Find(1000, 3000, 1<<30, dst)
	if err != nil || len(found) != 536 {
		t.Errorf("up to the damage: %d, %v", len(found), err)
	}
	if _, err := q.Find(1990, 3000, 1<<30, dst); !errors.Is(err, consumequeue.ErrChecksum) {
		t.Errorf("in the damage: %v", err)
	}
	if _, ok, err := q.FindTime(1, 1990); ok || !errors.Is(err, consumequeue.ErrChecksum) {
		t.Errorf("by time: %v, %v", ok, err)
	}
	q.SetStart(1995)
	if _, err := q.Size(); !errors.Is(err, consumequeue.ErrChecksum) {
		t.Errorf("size: %v", err)
	}
	if _, err := q.Retain(1000, consumequeue.Retention{Ms: 0, Bytes: -1}); !errors.Is(err, consumequeue.ErrChecksum) {
		t.Errorf("retain: %v", err)
	}
	if _, _, err := q.MaxTimestamp(); !errors.Is(err, consumequeue.ErrChecksum) {
		t.Errorf("max timestamp: %v", err)
	}
}

func TestFileNames(t *testing.T) {
	for _, c := range []struct {
		name    string
		segment uint32
		ok      bool
	}{
		{"0000000000.idx", 0, true},
		{"4294967295.idx", 1<<32 - 1, true},
		{"4294967296.idx", 0, false},
		{"0000000001.log", 0, false},
		{"0000000001.idx.tmp", 0, false},
		{"000000001.idx", 0, false},
		{"-000000001.idx", 0, false},
	} {
		segment, ok := consumequeue.ParseFileName(c.name)
		if ok != c.ok || ok && (segment != c.segment || consumequeue.FileName(segment) != c.name) {
			t.Errorf("%s: %d, %v", c.name, segment, ok)
		}
	}
}
