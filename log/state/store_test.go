package state_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/state"
	"github.com/sluicemq/sluice/log/vfs"
)

func TestBatchIsSeenByItsOwnerAtOnceAndByOthersAfterCheckpoint(t *testing.T) {
	noLeaks(t)
	s := open(t, pebblevfs.NewMem())
	defer closeStore(t, s)
	b := s.NewBatch()
	defer b.Close()
	if b.Len() != 0 {
		t.Errorf("an empty batch has %d bytes", b.Len())
	}
	key, value := []byte("ckey"), []byte("value")
	b.Set(key, value)
	key[1], value[0] = 'K', 'V' // both were copied
	if got, ok, err := b.Get([]byte("ckey")); string(got) != "value" || !ok || err != nil {
		t.Errorf("own read: %q, %v, %v", got, ok, err)
	}
	if b.Len() == 0 {
		t.Error("the batch is empty")
	}
	before := s.NewView()
	defer before.Close()
	if err := b.Checkpoint(7); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := before.Get([]byte("ckey")); ok || err != nil {
		t.Errorf("a view changed: %v, %v", ok, err)
	}
	if n, err := before.Applied(); n != 0 || err != nil {
		t.Errorf("applied before: %d, %v", n, err)
	}
	after := s.NewView()
	defer after.Close()
	if got, ok, err := after.Get([]byte("ckey")); string(got) != "value" || !ok || err != nil {
		t.Errorf("read of others: %q, %v, %v", got, ok, err)
	}
	if n, err := after.Applied(); n != 7 || err != nil || s.Applied() != 7 || s.Durable() != 0 {
		t.Errorf("applied %d, %v, %d, durable %d", n, err, s.Applied(), s.Durable())
	}
	if err := b.Checkpoint(6); err == nil {
		t.Error("a checkpoint goes back")
	}
	if err := b.Checkpoint(7); err != nil {
		t.Error(err)
	}
}

func TestScanMayBeWrittenUnder(t *testing.T) {
	noLeaks(t)
	s := open(t, pebblevfs.NewMem())
	defer closeStore(t, s)
	checkpoint(t, s, 1, "c1", "", "c2", "", "c3", "")
	b := s.NewBatch()
	defer b.Close()
	var seen []string
	if err := b.Scan([]byte("c"), []byte("d"), func(key, _ []byte) bool {
		seen = append(seen, string(key))
		b.Delete([]byte("c3"))
		b.Set(append(key, 'x'), nil)
		return len(seen) < 3
	}); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(seen) != "[c1 c2 c3]" {
		t.Error(seen)
	}
	if got := read(t, b); len(got) != 5 {
		t.Error(got)
	}
}

// What is read from a batch, from views, and after a restart is what a map
// would hold.
func TestStoreAnswersAsAMapDoes(t *testing.T) {
	noLeaks(t)
	rapid.Check(t, func(t *rapid.T) {
		tb := rapidTB{t: t}
		mem := pebblevfs.NewMem()
		s := open(tb, mem)
		b := s.NewBatch()
		pending, done, flushed := contents{}, contents{}, contents{}
		var applied, durable entry.Index
		key := rapid.Custom(func(t *rapid.T) string { return fmt.Sprintf("c%02d", rapid.IntRange(0, 20).Draw(t, "key")) })
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				k, v := key.Draw(t, "k"), rapid.StringN(0, 5, 10).Draw(t, "v")
				b.Set([]byte(k), []byte(v))
				pending[k] = v
			},
			"delete": func(t *rapid.T) {
				k := key.Draw(t, "k")
				b.Delete([]byte(k))
				delete(pending, k)
			},
			"delete range": func(t *rapid.T) {
				from, to := key.Draw(t, "from"), key.Draw(t, "to")
				if from > to {
					from, to = to, from
				}
				b.DeleteRange([]byte(from), []byte(to))
				maps.DeleteFunc(pending, func(k, _ string) bool { return from <= k && k < to })
			},
			"get": func(t *rapid.T) {
				k := key.Draw(t, "k")
				want, wantOK := pending[k]
				if got, ok, err := b.Get([]byte(k)); err != nil || ok != wantOK || string(got) != want {
					t.Fatalf("get %s: %q, %v, %v, want %q, %v", k, got, ok, err, want, wantOK)
				}
			},
			"checkpoint": func(t *rapid.T) {
				applied += entry.Index(rapid.IntRange(0, 3).Draw(t, "step"))
				if err := b.Checkpoint(applied); err != nil {
					t.Fatal(err)
				}
				done = maps.Clone(pending)
			},
			"flush": func(t *rapid.T) {
				if n, err := s.Flush(); n != applied || err != nil || s.Durable() != applied {
					t.Fatalf("flush: %d, %v, want %d", n, err, applied)
				}
				flushed, durable = maps.Clone(done), applied
			},
			"restart": func(t *rapid.T) {
				b.Close()
				closeStore(tb, s)
				s = open(tb, mem)
				b = s.NewBatch()
				applied, done, pending = durable, maps.Clone(flushed), maps.Clone(flushed)
			},
			"": func(t *rapid.T) {
				got, n := committed(tb, s)
				if d := diff(got, done); d != "" || n != applied || s.Applied() != applied {
					t.Fatalf("committed at %d, want %d:\n%s", n, applied, d)
				}
				if d := diff(read(tb, b), pending); d != "" {
					t.Fatalf("in the batch:\n%s", d)
				}
			},
		})
		b.Close()
		closeStore(tb, s)
	})
}

type rapidTB struct {
	testing.TB
	t *rapid.T
}

func (r rapidTB) Helper()           {}
func (r rapidTB) Fatal(args ...any) { r.t.Fatal(args...) }
func (r rapidTB) Error(args ...any) { r.t.Error(args...) }

// plain opens the store's directory as Pebble alone would.
func plain(t *testing.T, fs pebblevfs.FS, change func(db *pebble.DB)) {
	t.Helper()
	db, err := pebble.Open("state", &pebble.Options{FS: fs, DisableWAL: true, FormatMajorVersion: pebble.FormatTableFormatV6, Logger: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	change(db)
	if err := errors.Join(db.Flush(), db.Close()); err != nil {
		t.Fatal(err)
	}
}

type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

func TestStoreThatWeCannotReadIsRefused(t *testing.T) {
	noLeaks(t)
	number := func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
	set := func(key string, value []byte) func(*pebble.DB) {
		return func(db *pebble.DB) {
			if err := db.Set([]byte(key), value, pebble.NoSync); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name   string
		change func(*pebble.DB)
		want   error
		says   string
	}{
		{"newer version", set("af", number(2)), state.ErrVersion, "it has format 2, this Sluice knows up to 1"},
		{"version 0", set("af", number(0)), state.ErrCorrupt, "format 0"},
		{"short version", set("af", []byte{1}), state.ErrCorrupt, `"af" has 1 bytes`},
		{"short index", set("ai", []byte{1, 2}), state.ErrCorrupt, `"ai" has 2 bytes`},
		{"no version", func(db *pebble.DB) {
			if err := db.Delete([]byte("af"), pebble.NoSync); err != nil {
				t.Fatal(err)
			}
		}, state.ErrCorrupt, "no format version"},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := pebblevfs.NewMem()
			s := open(t, mem)
			checkpoint(t, s, 1, "ck", "v")
			if _, err := s.Flush(); err != nil {
				t.Fatal(err)
			}
			closeStore(t, s)
			plain(t, mem, c.change)
			_, err := state.Open(state.Options{FS: vfs.New(mem), Dir: "state"})
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %v: %s", err, c.want, c.says)
			}
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	noLeaks(t)
	fs := vfs.New(pebblevfs.NewMem())
	for _, o := range []state.Options{{}, {FS: fs}, {Dir: "d"}, {FS: fs, Dir: "d", MemoryBytes: -1}, {FS: fs, Dir: "d", CacheBytes: -1}} {
		if s, err := state.Open(o); err == nil {
			closeStore(t, s)
			t.Errorf("%+v is accepted", o)
		}
	}
}

func TestClosedStoreSaysSo(t *testing.T) {
	noLeaks(t)
	s := open(t, pebblevfs.NewMem())
	b := s.NewBatch()
	b.Close()
	closeStore(t, s)
	if err := s.Close(); !errors.Is(err, state.ErrClosed) {
		t.Error(err)
	}
	if _, err := s.Flush(); !errors.Is(err, state.ErrClosed) {
		t.Error(err)
	}
}

func TestSnapshotIsAStoreOfItsOwn(t *testing.T) {
	noLeaks(t)
	mem := pebblevfs.NewMem()
	s := open(t, mem)
	defer closeStore(t, s)
	checkpoint(t, s, 5, "c1", "one", "c2", "two")
	if err := s.Snapshot("copy"); err != nil {
		t.Fatal(err)
	}
	if err := s.Snapshot("copy"); err == nil {
		t.Error("a snapshot overwrites another")
	}
	checkpoint(t, s, 6, "c1", "changed")
	other := open(t, mem, func(o *state.Options) { o.Dir = "copy" })
	defer closeStore(t, other)
	if got, applied := committed(t, other); applied != 5 || got["c1"] != "one" || len(got) != 2 {
		t.Error(got, applied)
	}
}

func TestDigestIsOfKeysAndValues(t *testing.T) {
	noLeaks(t)
	digest := func(without []state.Prefix, pairs ...string) [32]byte {
		s := open(t, pebblevfs.NewMem())
		defer closeStore(t, s)
		for i := 0; i < len(pairs); i += 2 {
			checkpoint(t, s, 1, pairs[i:i+2]...)
		}
		if _, err := s.Flush(); err != nil {
			t.Fatal(err)
		}
		v := s.NewView()
		defer v.Close()
		d, err := v.Digest(without...)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	base := digest(nil, "c1", "a", "c2", "b")
	if digest(nil, "c2", "b", "c1", "x", "c1", "a") != base {
		t.Error("how the state came about matters")
	}
	for _, other := range [][]string{{"c1", "a", "c2", "c"}, {"c1", "a", "c3", "b"}, {"c1", "ac", "c", "b"}, {"c1", "a"}, {"c1", "a", "c2", "b", "t1", ""}} {
		if digest(nil, other...) == base {
			t.Errorf("%q have the same digest", other)
		}
	}
	if digest([]state.Prefix{state.PrefixTail}, "c1", "a", "c2", "b", "t1", "x") != base {
		t.Error("a prefix is not left out")
	}
}
