package commitlog_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"testing"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/segment"
	"github.com/sluicemq/sluice/log/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const dir = "data/commitlog"

// options returns small options over fs.
func options(fs pebblevfs.FS) commitlog.Options {
	return commitlog.Options{
		FS: vfs.New(fs), Dir: dir, SegmentBytes: segment.MinBytes,
		TailBytes: 4 << 20, BacklogBytes: 1 << 20,
		Now: func() entry.Time { return 1000 },
	}
}

// newMem returns a file system in memory with the folder in it, durable.
func newMem(t testing.TB) *pebblevfs.MemFS {
	t.Helper()
	mem := pebblevfs.NewCrashableMem()
	fs := vfs.New(mem)
	for _, d := range []string{"data", dir} {
		if err := fs.MkdirAll(d); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"", "data", dir} {
		if err := fs.SyncDir(d); err != nil {
			t.Fatal(err)
		}
	}
	return mem
}

// running is a log with an apply loop that completes everything with the entry's
// index as offset, and notes what it was given.
type running struct {
	*commitlog.Log
	sum commitlog.Summary

	mu      sync.Mutex
	applied []applied
	sealed  []commitlog.Sealed
	done    chan struct{} // closed when the apply loop has ended
}

// applied is what is remembered of an entry.
type applied struct {
	index   entry.Index
	pos     entry.Pos
	time    entry.Time
	payload string
}

// note is what the apply loop does with a group.
func (r *running) note(g *commitlog.Group) {
	r.mu.Lock()
	if g.Sealed != nil {
		r.sealed = append(r.sealed, *g.Sealed)
	}
	for _, c := range g.Entries {
		r.applied = append(r.applied, applied{index: c.Index, pos: c.Pos, time: c.Time, payload: string(c.Payload)})
	}
	r.mu.Unlock()
	for _, c := range g.Entries {
		if c.Proposal != nil {
			c.Proposal.Complete(entry.Result{Offset: entry.Offset(c.Index)})
		}
	}
	g.Release()
}

// start opens and replays the log and starts the apply loop.
func start(o commitlog.Options, mustReach entry.Index) (*running, error) {
	return startFrom(o, func(*commitlog.Log) uint32 { return 0 }, mustReach)
}

// behindGaps returns the first segment of the row that ends with the newest. When
// Drop fails half way, there can be others before it.
func behindGaps(l *commitlog.Log) (from uint32) {
	segments := l.Segments()
	for i, s := range segments {
		if i == 0 || s.Number != segments[i-1].Number+1 {
			from = s.Number
		}
	}
	return from
}

func startFrom(o commitlog.Options, from func(*commitlog.Log) uint32, mustReach entry.Index) (*running, error) {
	l, err := commitlog.Open(o)
	if err != nil {
		return nil, err
	}
	r := &running{Log: l, done: make(chan struct{})}
	r.sum, err = l.Replay(from(l), mustReach, func(g *commitlog.Group) error { r.note(g); return nil })
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	go func() {
		defer close(r.done)
		for {
			g, ok := l.Next()
			if !ok {
				return
			}
			r.note(g)
		}
	}()
	return r, nil
}

func mustStart(t testing.TB, o commitlog.Options) *running {
	t.Helper()
	r, err := start(o, 0)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// stop closes the log and waits for the apply loop.
func (r *running) stop(t testing.TB) {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	<-r.done
}

// payloads returns what was applied.
func (r *running) payloads() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := make([]string, len(r.applied))
	for i, a := range r.applied {
		got[i] = a.payload
	}
	return got
}

// ticket is a proposal somebody waits for.
type ticket struct {
	commitlog.Proposal
	result chan entry.Result
}

func newTicket(payload string) *ticket {
	t := &ticket{result: make(chan entry.Result, 1)}
	t.Proposal = commitlog.Proposal{Type: entry.TypeProduce, Partition: 7, Payload: []byte(payload), Waiter: t}
	return t
}

func (t *ticket) Done(_ *commitlog.Proposal, r entry.Result) { t.result <- r }

// propose proposes a payload and waits for what comes of it.
func (r *running) propose(payload string) entry.Result {
	t := newTicket(payload)
	if err := r.Propose(&t.Proposal); err != nil {
		return entry.Result{Err: err}
	}
	return <-t.result
}

func mustPropose(t testing.TB, r *running, payload string) {
	t.Helper()
	if res := r.propose(payload); res.Err != nil {
		t.Fatal(res.Err)
	}
}

// text returns a payload of n bytes, at least 8, that says which one it is.
func text(i, n int) string {
	n = max(n, 8)
	b := binary.BigEndian.AppendUint64(make([]byte, 0, n), uint64(i))
	return string(append(b, alphabets[i%26:][:n-8]...))
}

// alphabets is what payloads are made of.
var alphabets = strings.Repeat("abcdefghijklmnopqrstuvwxyz", 50_000)

// checkRow fails unless got are the first payloads of text(0..), in order.
func checkRow(got []string, size func(i int) int) error {
	for i, p := range got {
		if want := text(i, size(i)); p != want {
			return fmt.Errorf("entry %d has payload %.20q..., expected %.20q...", i, p, want)
		}
	}
	return nil
}
