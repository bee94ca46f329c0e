package state_test

import (
	"fmt"
	"testing"
	"time"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/log/state"
)

// Compactions wait until the store is open, and no longer.
func TestTablesAreCompacted(t *testing.T) {
	noLeaks(t)
	mem := pebblevfs.NewMem()
	for round := range 3 {
		compacted := make(chan int64, 1000)
		s := open(t, mem, func(o *state.Options) {
			o.Events.Compacted = func(bytes int64, _ time.Duration) { compacted <- bytes }
		})
		for n := range 40 {
			checkpoint(t, s, 1+s.Applied(), "ckey", fmt.Sprint(round, n), fmt.Sprint("c", n), "value")
			if _, err := s.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		<-compacted
		closeStore(t, s)
	}
}
