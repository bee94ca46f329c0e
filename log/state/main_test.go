package state_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/state"
	"github.com/sluicemq/sluice/log/vfs"
)

// noLeaks fails the test when it leaves goroutines behind. Dead stores do, since
// Pebble cannot be closed any more; what other tests left does not count.
func noLeaks(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

func open(t testing.TB, base pebblevfs.FS, more ...func(*state.Options)) *state.Store {
	t.Helper()
	o := state.Options{FS: vfs.New(base), Dir: "state"}
	for _, change := range more {
		change(&o)
	}
	s, err := state.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeStore(t testing.TB, s *state.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// checkpoint commits what is in pairs.
func checkpoint(t testing.TB, s *state.Store, applied entry.Index, pairs ...string) {
	t.Helper()
	b := s.NewBatch()
	defer b.Close()
	for i := 0; i < len(pairs); i += 2 {
		b.Set([]byte(pairs[i]), []byte(pairs[i+1]))
	}
	if err := b.Checkpoint(applied); err != nil {
		t.Fatal(err)
	}
}

// contents is what a reader holds, but for our own keys.
type contents map[string]string

func read(t testing.TB, r entry.Reader) contents {
	t.Helper()
	all := contents{}
	if err := r.Scan([]byte("b"), []byte("z"), func(key, value []byte) bool {
		all[string(key)] = string(value)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// committed returns what the store holds.
func committed(t testing.TB, s *state.Store) (contents, entry.Index) {
	t.Helper()
	v := s.NewView()
	defer v.Close()
	applied, err := v.Applied()
	if err != nil {
		t.Fatal(err)
	}
	return read(t, v), applied
}

func diff(got, want contents) string {
	var b bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if v, ok := got[key]; !ok || v != want[key] {
			fmt.Fprintf(&b, "%s: %q, want %q\n", key, v, want[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[key]; !ok {
			fmt.Fprintf(&b, "%s: %q, want none\n", key, got[key])
		}
	}
	return b.String()
}
