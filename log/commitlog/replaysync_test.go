package commitlog_test

import (
	"testing"

	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/entry"
)

// The apply loop takes checkpoints while it replays, and asks for durability
// before each.
func TestSyncToReturnsAtOnceDuringReplay(t *testing.T) {
	mem := newMem(t)
	r := mustStart(t, options(mem))
	for i := range 100 {
		mustPropose(t, r, text(i, 2000))
	}
	r.stop(t)

	l, err := commitlog.Open(options(mem))
	if err != nil {
		t.Fatal(err)
	}
	visited := entry.Index(0)
	_, err = l.Replay(0, 0, func(g *commitlog.Group) error {
		for _, c := range g.Entries {
			if err := l.SyncTo(c.Index); err != nil {
				return err
			}
			visited = c.Index
		}
		return nil
	})
	if err != nil || visited != 100 {
		t.Fatalf("visited up to %d, %v", visited, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
