package log_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/log"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/vfs"
)

// aFolder returns the path of a closed data folder with segments 1 to 5, of
// which 1 and 3 are freed, 2 and 4 have index files, and 5 is active.
func aFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	l := mustOpen(t, dir)
	for p := entry.Partition(1); p <= 5; p++ {
		create(t, l, p)
	}
	for p := entry.Partition(1); p <= 5; p++ {
		for i := range 5 {
			produce(t, l, p, records(fmt.Sprint(p, i), 20))
		}
		if p < 5 {
			must(t, l.Roll())
		}
	}
	for _, p := range []entry.Partition{1, 3} {
		if _, err := l.DeleteRecords(p, 1000); err != nil {
			t.Fatal(err)
		}
	}
	settle(t, l)
	if got := fmt.Sprint(l.LiveSegments()); got != "[2 4 5]" {
		t.Fatalf("segments %s", got)
	}
	must(t, l.Close())
	return dir
}

func mustOpen(t testing.TB, dir string) *log.Log {
	t.Helper()
	l, err := log.Open(options(vfs.Disk(), dir))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// settle waits until every complete segment has its index file and what is not
// needed is freed: it closes and opens nothing.
func settle(t testing.TB, l *log.Log) {
	t.Helper()
	l.AwaitSealed()
	must(t, l.Free())
}

func TestAFolderThatLacksSomethingIsRefusedWithTheNameOfTheFile(t *testing.T) {
	segmentFile := func(n int) string { return fmt.Sprintf("commitlog/%010d.log", n) }
	indexFile := func(n int) string { return fmt.Sprintf("commitlog/%010d.idx", n) }
	for name, test := range map[string]struct {
		damage func(t *testing.T, dir string)
		want   error
		text   string
	}{
		"the oldest segment": {remove(segmentFile(2)), log.ErrCorrupt, segmentFile(2)},
		"the oldest segment with its index": {func(t *testing.T, dir string) {
			remove(segmentFile(2))(t, dir)
			remove(indexFile(2))(t, dir)
		}, log.ErrCorrupt, "0000000002.log is missing"},
		"a middle segment": {remove(segmentFile(4)), log.ErrCorrupt, segmentFile(4)},
		"the newest segment": {func(t *testing.T, dir string) {
			remove(segmentFile(5))(t, dir)
			remove("commitlog/durable")(t, dir)
		}, log.ErrCorrupt, segmentFile(5)},
		"a middle index":        {remove(indexFile(2)), log.ErrCorrupt, "0000000002.idx is missing"},
		"the newest index":      {remove(indexFile(4)), log.ErrCorrupt, "0000000004.idx is missing"},
		"meta.json":             {remove("meta.json"), log.ErrCorrupt, "meta.json"},
		"all segments":          {remove("commitlog"), log.ErrCorrupt, "commitlog"},
		"the state store":       {remove("state"), log.ErrCorrupt, "0000000001.log is missing"},
		"half of an index":      {truncate(indexFile(4)), log.ErrCorrupt, indexFile(4)},
		"half of a segment":     {truncate(segmentFile(5)), log.ErrCorrupt, segmentFile(5)},
		"the header of segment": {overwrite(segmentFile(2), []byte("zeroes?"), 0), log.ErrCorrupt, segmentFile(2)},
		"nothing, but is newer": {replace("meta.json", `{"version": 2, "cluster.id": "x", "node.id": 1}`), log.ErrNewerFolder, "meta.json"},
		"a sound meta.json":     {replace("meta.json", `{"version": 1,`), log.ErrCorrupt, "meta.json"},
		"a cluster id":          {replace("meta.json", `{"version": 1, "node.id": 1}`), log.ErrCorrupt, "meta.json"},
		"our node":              {replace("meta.json", `{"version": 1, "cluster.id": "x", "node.id": 7}`), log.ErrNode, "meta.json"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			dir := aFolder(t)
			saved := copyFolder(t, dir)
			test.damage(t, dir)
			for range 2 { // a refused start makes it no better, and no worse
				l, err := log.Open(options(vfs.Disk(), dir))
				if err == nil {
					_ = l.Close()
					t.Fatal("it was opened")
				}
				if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
					t.Fatalf("%v\nwant %v with %q", err, test.want, test.text)
				}
			}
			// Putting back what was taken makes it whole again.
			restore(t, saved, dir)
			l := mustOpen(t, dir)
			for p := entry.Partition(1); p <= 5; p++ {
				start, end, ok := l.Bounds(p)
				want := entry.Offset(0)
				if p == 1 || p == 3 {
					want = 100
				}
				if !ok || start != want || end != 100 {
					t.Errorf("partition %d has bounds %d and %d", p, start, end)
				}
				if got := len(values(t, l, p)); got != int(end-start) {
					t.Errorf("partition %d has %d records", p, got)
				}
			}
			must(t, l.Close())
		})
	}
}

// Folders of which one part is older than the other were put together by hand.
func TestMixedFoldersAreRefused(t *testing.T) {
	write := func(t *testing.T, dir string, n int) {
		l := mustOpen(t, dir)
		defer func() { must(t, l.Close()) }()
		for i := range n {
			produce(t, l, 2, records(fmt.Sprint(n, i), 20))
			must(t, l.Roll())
		}
		settle(t, l)
	}
	t.Run("state-of-later", func(t *testing.T) {
		dir := aFolder(t)
		old := copyFolder(t, dir)
		write(t, dir, 3)
		replaceFolder(t, filepath.Join(dir, "state"), filepath.Join(old, "state"))
		l, err := log.Open(options(vfs.Disk(), old))
		refused(t, l, err, "0000000005.idx")
	})
	t.Run("log-of-later", func(t *testing.T) {
		dir := aFolder(t)
		old := copyFolder(t, dir)
		write(t, dir, 3)
		replaceFolder(t, filepath.Join(dir, "commitlog"), filepath.Join(old, "commitlog"))
		l, err := log.Open(options(vfs.Disk(), old))
		refused(t, l, err, ".idx")
	})
	t.Run("index-of-another", func(t *testing.T) {
		dir, other := aFolder(t), aFolder(t)
		write(t, other, 1)
		name := "commitlog/0000000005.idx"
		must(t, os.Rename(filepath.Join(other, name), filepath.Join(dir, name)))
		l, err := log.Open(options(vfs.Disk(), dir))
		refused(t, l, err, "0000000005.")
	})
}

func refused(t *testing.T, l *log.Log, err error, text string) {
	t.Helper()
	if err == nil {
		_ = l.Close()
		t.Fatal("it was opened")
	}
	if !errors.Is(err, log.ErrCorrupt) || !strings.Contains(err.Error(), text) {
		t.Fatalf("%v\nwant one that names %q", err, text)
	}
}

func TestAFolderIsOpenOnce(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	_, err := log.Open(options(vfs.Disk(), dir))
	if !errors.Is(err, log.ErrInUse) || !strings.Contains(err.Error(), filepath.Join(dir, "lock")) {
		t.Errorf("second open: %v", err)
	}
	create(t, l, 1) // the first goes on
	must(t, l.Close())
	must(t, mustOpen(t, dir).Close())
}

func TestALockFileThatCannotBeMadeIsNotCalledInUse(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "lock"), 0o755))
	_, err := log.Open(options(vfs.Disk(), dir))
	if err == nil || errors.Is(err, log.ErrInUse) || !strings.Contains(err.Error(), "lock") {
		t.Errorf("open: %v", err)
	}
}

func TestOptionsAreRefusedByName(t *testing.T) {
	for field, change := range map[string]settings{
		"FS":             func(o *log.Options) { o.FS = nil },
		"Dir":            func(o *log.Options) { o.Dir = "" },
		"Meta.ClusterID": func(o *log.Options) { o.Meta.ClusterID = "" },
		"Judge":          func(o *log.Options) { o.Judge = nil },
		"MinFreeBytes":   func(o *log.Options) { o.MinFreeBytes = -1 },
		"RetainEvery":    func(o *log.Options) { o.RetainEvery = -1 },
		"SegmentBytes":   func(o *log.Options) { o.SegmentBytes = 1 },
		"BacklogBytes":   func(o *log.Options) { o.BacklogBytes = -1 },
	} {
		o := options(vfs.Disk(), t.TempDir())
		change(&o)
		if l, err := log.Open(o); err == nil || !strings.Contains(err.Error(), "Options."+field) && !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
			if err == nil {
				_ = l.Close()
			}
		}
	}
}

func remove(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) { must(t, os.RemoveAll(filepath.Join(dir, name))) }
}

func replace(name, text string) func(*testing.T, string) {
	return func(t *testing.T, dir string) { must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)) }
}

func truncate(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		must(t, err)
		size := info.Size() / 2
		if strings.HasSuffix(name, ".log") {
			size = 5000 // into the entries
		}
		must(t, os.Truncate(path, size))
	}
}

func overwrite(name string, b []byte, at int64) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
		must(t, err)
		_, err = f.WriteAt(b, at)
		must(t, err)
		must(t, f.Close())
	}
}

func copyFolder(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	must(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

func restore(t *testing.T, from, dir string) {
	t.Helper()
	must(t, os.RemoveAll(dir))
	must(t, os.Rename(from, dir))
}

func replaceFolder(t *testing.T, from, to string) {
	t.Helper()
	must(t, os.RemoveAll(to))
	must(t, os.CopyFS(to, os.DirFS(from)))
}
