package state_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/log/vfs/vfstest"
)

// A disk may keep any of the names that were not synced, and lose the others.
func TestStoreOpensWhateverNamesACrashKeeps(t *testing.T) {
	noLeaks(t)
	mem := pebblevfs.NewCrashableMem()
	fs := vfstest.New(mem)
	var crashes []*pebblevfs.MemFS
	fs.After(func(op vfstest.Op) {
		if op.Kind == vfstest.Create || op.Kind == vfstest.Rename {
			for seed := range uint64(10) {
				crashes = append(crashes, mem.CrashClone(pebblevfs.CrashCloneCfg{
					UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(seed, uint64(op.N))),
				}))
			}
		}
	})
	for n := range 3 {
		s := open(t, fs)
		checkpoint(t, s, 1+s.Applied(), "c", fmt.Sprint(n))
		closeStore(t, s)
	}
	fs.After(nil)
	for _, crash := range crashes {
		closeStore(t, open(t, crash))
	}
}
