package log_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/log/entry"
)

// The log is all there is: without the state store and the index files a start
// makes the same state and the same index files again.
func TestStateAndIndexesAreMadeAgainFromTheLogAlone(t *testing.T) {
	mem := pebblevfs.NewCrashableMem()
	r := &runner{fs: mem}
	must(t, r.open())
	g := newGenerator(11)
	for range 20 {
		ops := slices.DeleteFunc(g.ops(20), func(o op) bool { // nothing is freed
			return o.kind == entry.TypeLogStart || o.kind == entry.TypeDeleteTopic
		})
		if done, err := r.run(ops, 5); err != nil || done < len(ops) {
			t.Fatal(done, err)
		}
	}
	r.log.AwaitSealed()
	want, err := r.log.StateDigest()
	must(t, err)
	files := indexFiles(t, mem)
	if len(files) < 5 {
		t.Fatalf("%d index files", len(files))
	}
	again := &runner{fs: mem.CrashClone(pebblevfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})}
	again.history.ops, again.history.acked = r.history.ops, r.history.acked
	must(t, again.fs.RemoveAll(dataDir+"/state"))
	// Index files without the state that belongs to them are of another folder.
	if err := again.open(); err == nil || !strings.Contains(err.Error(), ".idx") {
		t.Fatalf("open: %v", err)
	}
	for name := range files {
		must(t, again.fs.Remove(dataDir+"/commitlog/"+name))
	}
	must(t, again.open())
	must(t, again.check())
	again.log.AwaitSealed()
	got, err := again.log.StateDigest()
	must(t, err)
	if got != want {
		t.Errorf("state digest %x, want %x", got, want)
	}
	for name, content := range indexFiles(t, again.fs) {
		if content != files[name] {
			t.Errorf("%s differs", name)
		}
		delete(files, name)
	}
	if len(files) > 0 {
		t.Errorf("%d index files were not made", len(files))
	}
	must(t, again.close())
	must(t, r.close())
}

// indexFiles returns the contents of all index files.
func indexFiles(t *testing.T, fs pebblevfs.FS) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, name := range names(fs) {
		if !strings.HasSuffix(name, ".idx") {
			continue
		}
		path := dataDir + "/commitlog/" + name
		info, err := fs.Stat(path)
		must(t, err)
		f, err := fs.Open(path)
		must(t, err)
		content := make([]byte, info.Size())
		_, err = f.ReadAt(content, 0)
		must(t, err)
		must(t, f.Close())
		files[name] = string(content)
	}
	return files
}
