package state_test

import (
	"fmt"
	"strings"
	"testing"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/log/state"
	"github.com/sluicemq/sluice/log/vfs"
	"github.com/sluicemq/sluice/log/vfs/vfstest"
)

// Whatever fails while a store is opened, Open comes back with an error or with
// a store, also where Pebble gives up in the background and waits for itself.
func TestOpenComesBackWhateverFails(t *testing.T) {
	// Three tables, so that there is something to compact: while an open fails that
	// must not have begun.
	base := pebblevfs.NewCrashableMem()
	for round := range 3 {
		s := open(t, base)
		checkpoint(t, s, 1+s.Applied(), "c", fmt.Sprint(round))
		if _, err := s.Flush(); err != nil {
			t.Fatal(err)
		}
		closeStore(t, s)
	}
	for n := int64(1); ; n++ {
		mem := base.CrashClone(pebblevfs.CrashCloneCfg{})
		below := vfstest.New(mem)
		var failed vfstest.Op
		nth := vfstest.FailNth(n, vfstest.EIO, func(vfstest.Op) bool { return true })
		below.Decide(func(op vfstest.Op) *vfstest.Fault {
			fault := nth(op)
			if fault != nil {
				failed = op
			}
			return fault
		})
		s, err := state.Open(state.Options{FS: vfs.New(below), Dir: "state"})
		if err == nil {
			_ = s.Close() // may tell of a fault that came later
		}
		below.Decide(nil)
		if failed.N == 0 {
			return // past the last operation
		}
		if err == nil {
			s, err = state.Open(state.Options{FS: vfs.New(mem), Dir: "state"})
			if err != nil && !strings.Contains(err.Error(), "temporarily unavailable") { // a dead one keeps its lock
				t.Fatalf("after failure of %v: %v", failed, err)
			}
			if err == nil {
				closeStore(t, s)
			}
		}
	}
}
