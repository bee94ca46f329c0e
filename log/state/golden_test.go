package state_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
)

var update = flag.Bool("update", false, "write the golden store anew")

const golden = "testdata/v1"

// A store that was written with format 1 is read for ever.
func TestStoreOfFormat1IsRead(t *testing.T) {
	noLeaks(t)
	want := contents{"ckey": "value", "p\x00\x01": ""}
	mem := pebblevfs.NewMem()
	if *update {
		s := open(t, mem)
		checkpoint(t, s, 41, "ckey", "old", "gone", "x")
		checkpoint(t, s, 42, "ckey", "value", "p\x00\x01", "")
		b := s.NewBatch()
		b.Delete([]byte("gone"))
		if err := b.Checkpoint(43); err != nil {
			t.Fatal(err)
		}
		b.Close()
		if _, err := s.Flush(); err != nil {
			t.Fatal(err)
		}
		closeStore(t, s)
		if err := os.RemoveAll(golden); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(golden, 0o755); err != nil {
			t.Fatal(err)
		}
		copyFiles(t, mem, "state", pebblevfs.Default, golden)
		mem = pebblevfs.NewMem()
	}
	if err := mem.MkdirAll("state", 0o755); err != nil {
		t.Fatal(err)
	}
	copyFiles(t, pebblevfs.Default, golden, mem, "state")
	s := open(t, mem)
	defer closeStore(t, s)
	got, applied := committed(t, s)
	if d := diff(got, want); d != "" || applied != 43 {
		t.Errorf("at %d:\n%s", applied, d)
	}
}

func copyFiles(t *testing.T, from pebblevfs.FS, fromDir string, to pebblevfs.FS, toDir string) {
	t.Helper()
	names, err := from.List(fromDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if name == "LOCK" {
			continue
		}
		r, err := from.Open(from.PathJoin(fromDir, name))
		if err != nil {
			t.Fatal(err)
		}
		info, err := r.Stat()
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, info.Size())
		if _, err := r.ReadAt(b, 0); err != nil && len(b) > 0 {
			t.Fatal(err)
		}
		w, err := to.Create(filepath.Join(toDir, name), pebblevfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
