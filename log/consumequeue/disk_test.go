package consumequeue_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/vfs"
)

// onDisk returns a set with one attached file, on the file system of the
// operating system, where files are mapped.
func onDisk(t *testing.T) (set *consumequeue.Set, q *consumequeue.Queue, fs *vfs.FS, dir string) {
	t.Helper()
	dir, fs = t.TempDir(), vfs.Disk()
	set = consumequeue.NewSet()
	q = set.Create(1)
	for i := range uint32(20000) {
		q.Put(1, batch(entry.Offset(i), 1, 4096+i, entry.Time(i)))
	}
	f, err := set.Seal(1).Write(fs, dir, segment(1, 1<<31))
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Attach(f); err != nil {
		t.Fatal(err)
	}
	return set, q, fs, dir
}

func TestFileThatIsRemovedStaysReadable(t *testing.T) {
	set, q, fs, dir := onDisk(t)
	f := set.File(1)
	if f == nil || set.File(2) != nil {
		t.Fatal("no file")
	}
	if err := consumequeue.Remove(fs, dir, 1); err != nil {
		t.Fatal(err)
	}
	if got := find(t, q, 0); len(got) != 10000 {
		t.Errorf("after removal: %d batches", len(got))
	}
	set.Detach(1)
	set.Detach(1)
	if set.File(1) != nil {
		t.Error("detached file can be had")
	}
	if got := find(t, q, 0); len(got) != 0 {
		t.Errorf("after Detach: %d batches", len(got))
	}
	// The map outlives Detach as long as somebody has a reference.
	if err := f.Verify(); err != nil {
		t.Error(err)
	}
	f.Release()
}

// A page that cannot be read (here: since somebody cut the file) is an error of
// that look-up and not the end of the process.
func TestUnreadablePageIsAnError(t *testing.T) {
	set, q, _, dir := onDisk(t)
	defer set.Close()
	if err := os.Truncate(filepath.Join(dir, consumequeue.FileName(1)), 4096); err != nil {
		t.Fatal(err)
	}
	dst := make([]consumequeue.Located, 0, 30000)
	if _, err := q.Find(19000, 20000, 1<<30, dst); err == nil {
		t.Error("Find reads what is not there")
	}
	if _, _, err := q.FindTime(19000, 0); err == nil {
		t.Error("FindTime reads what is not there")
	}
	f := set.File(1)
	defer f.Release()
	if err := f.Verify(); err == nil {
		t.Error("Verify reads what is not there")
	}
	// The directory was in the part that is left.
	if needed, err := set.Needed(1); !needed || err != nil {
		t.Error(needed, err)
	}
}

func TestHoldersAreThoseWithSomethingLeft(t *testing.T) {
	fs := memory(t)
	set := consumequeue.NewSet()
	for p := range entry.Partition(5) {
		q := set.Create(p)
		q.Put(1, batch(0, 10, 4096, 1))
		q.Put(1, batch(10, 10, 5096, 1))
	}
	if needed, err := set.Needed(1); !needed || err != nil {
		t.Error("an open segment is needed")
	}
	if err := set.Holders(1, nil); err == nil {
		t.Error("holders of an open segment")
	}
	seal(t, fs, set, 1)
	defer set.Close()
	set.Delete(0)
	set.Get(1).SetStart(20)
	set.Get(2).SetStart(15)
	got := map[entry.Partition]int64{}
	if err := set.Holders(1, func(p entry.Partition, bytes int64) bool { got[p] = bytes; return p < 3 }); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[2] != 200 || got[3] != 200 {
		t.Error(got)
	}
}
