package vfs_test

import (
	"path/filepath"
	"testing"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/log/vfs"
)

func TestNextDataPassesOverHoles(t *testing.T) {
	const size, at = 8 << 20, 5 << 20
	f, err := vfs.Disk().Create(filepath.Join(t.TempDir(), "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Extend(size); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("data"), at); err != nil {
		t.Fatal(err)
	}
	if err := f.SyncData(); err != nil {
		t.Fatal(err)
	}
	// A file system that knows no holes may say that data begins at once.
	for _, from := range []int64{0, 4096, at - 1, at, at + 3} {
		got, err := f.NextData(from)
		if err != nil || got < from || got > max(from, at) {
			t.Errorf("data behind %d is at %d, %v; want at most %d", from, got, err, max(from, at))
		}
	}
	if got, err := f.NextData(at + 1<<20); err != nil || got > size {
		t.Errorf("behind the last data: %d, %v", got, err)
	}
}

func TestNextDataWithoutDescriptorSkipsNothing(t *testing.T) {
	f, err := vfs.New(pebblevfs.NewMem()).Create("file")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := f.NextData(12345); err != nil || got != 12345 {
		t.Errorf("got %d, %v", got, err)
	}
}
