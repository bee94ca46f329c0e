package commitlog_test

import (
	"fmt"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/vfs"
)

// answer is a Waiter.
type answer chan entry.Result

func (a answer) Done(_ *commitlog.Proposal, r entry.Result) { a <- r }

func ExampleLog() {
	fs := vfs.New(pebblevfs.NewMem())
	if err := fs.MkdirAll("data"); err != nil {
		panic(err)
	}
	l, err := commitlog.Open(commitlog.Options{
		FS: fs, Dir: "data/commitlog", SegmentBytes: 64 << 10,
		Now: func() entry.Time { return 1_700_000_000_000 },
	})
	if err != nil {
		panic(err)
	}
	apply := func(g *commitlog.Group) error {
		for i := range g.Entries {
			e := &g.Entries[i]
			fmt.Printf("%v %d at %v: %s\n", e.Type, e.Index, e.Pos, e.Payload)
			if e.Proposal != nil {
				e.Proposal.Complete(entry.Result{Offset: entry.Offset(e.Index)})
			}
		}
		g.Release()
		return nil
	}
	if _, err := l.Replay(0, 0, apply); err != nil {
		panic(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for g, ok := l.Next(); ok; g, ok = l.Next() {
			_ = apply(g)
		}
	}()

	waiter := make(answer, 1)
	p := commitlog.Proposal{Type: entry.TypeProduce, Payload: []byte("hello"), Waiter: waiter}
	if err := l.Propose(&p); err != nil {
		panic(err)
	}
	fmt.Println("offset", (<-waiter).Offset)

	l.Drain()
	<-done
	if err := l.Close(); err != nil {
		panic(err)
	}
	// Output:
	// produce 1 at 1:4096: hello
	// offset 1
}
