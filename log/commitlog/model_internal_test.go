package commitlog

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/segment"
)

// TestTailIsTheNewestEntriesWhateverIsHeld drives the tail cache as the append
// goroutine does, with entries of any size, groups that fail, rolls, and readers
// that hold on to slices, and compares it with all entries there ever were.
func TestTailIsTheNewestEntriesWhateverIsHeld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type placed struct {
			pos     entry.Pos
			payload []byte
		}
		const blockSize = 1000
		limit := rapid.Int64Range(0, 5000).Draw(t, "limit")
		l := &Log{
			blocks: blockPool{size: blockSize}, tail: tail{limit: limit},
			freeGroups: make(chan *Group, 2), groups: make(chan *Group, 1),
		}
		l.o, _ = Options{SegmentBytes: segment.MaxBytes}.withDefaultsForTest()
		w := &l.w
		w.file, w.end = &file{number: 1}, segment.HeaderBytes
		var all []placed
		var held []Slice
		var heldBytes []string
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				var batch []*Proposal
				for _, n := range rapid.SliceOfN(rapid.IntRange(0, 1500), 1, 6).Draw(t, "sizes") {
					batch = append(batch, &Proposal{Type: 2, Payload: []byte(fmt.Sprintf("%0*d", n+1, len(all)+len(batch)))})
				}
				fails := rapid.IntRange(0, 3).Draw(t, "fails") == 0
				g := l.newGroup()
				g.Segment = w.file.number
				end, newest, _ := l.fill(g, batch)
				if fails {
					g.abandon()
					return
				}
				w.end, w.tail = end, newest
				l.hand(g)
				g = <-l.groups
				for i, c := range g.Entries {
					if string(c.Payload) != string(batch[i].Payload) {
						t.Fatalf("entry %d has other bytes", c.Index)
					}
					all = append(all, placed{pos: c.Pos, payload: batch[i].Payload})
				}
				g.Release()
			},
			"roll": func(t *rapid.T) {
				if w.block != nil {
					w.block.release()
					w.block = nil
				}
				w.file, w.end = &file{number: w.file.number + 1}, segment.HeaderBytes
			},
			"hold": func(t *rapid.T) {
				if len(all) == 0 {
					return
				}
				e := rapid.SampledFrom(all).Draw(t, "entry")
				if s, ok := l.tail.get(e.pos, len(e.payload)); ok {
					held, heldBytes = append(held, s), append(heldBytes, string(e.payload))
				}
			},
			"let go": func(t *rapid.T) {
				if len(held) > 0 {
					held[0].Release()
					held, heldBytes = held[1:], heldBytes[1:]
				}
			},
			"": func(t *rapid.T) {
				for i, s := range held {
					if string(s.Bytes) != heldBytes[i] {
						t.Fatalf("a held slice has other bytes: %q, had %q", s.Bytes, heldBytes[i])
					}
				}
				cached := 0 // the newest are there, in one row
				var bytes int64
				for i := len(all) - 1; i >= 0; i-- {
					s, ok := l.tail.get(all[i].pos, len(all[i].payload))
					if !ok {
						break
					}
					if string(s.Bytes) != string(all[i].payload) {
						t.Fatalf("entry %d is cached with other bytes", i)
					}
					s.Release()
					cached++
					bytes += int64(len(all[i].payload)) + segment.EntryHeaderBytes
				}
				for i := range len(all) - cached {
					if _, ok := l.tail.get(all[i].pos, len(all[i].payload)); ok {
						t.Fatalf("entry %d is cached, a newer one is not", i)
					}
				}
				if len(all) > 0 && cached == 0 {
					t.Fatal("not even the newest entry is cached")
				}
				if l.tail.bytes > limit && len(l.tail.blocks)-l.tail.first > 1 {
					t.Fatalf("%d bytes in %d blocks, limit %d", l.tail.bytes, len(l.tail.blocks)-l.tail.first, limit)
				}
				if n := len(all); n > 0 {
					if _, ok := l.tail.get(all[n-1].pos, len(all[n-1].payload)+1); ok {
						t.Fatal("more than the newest entry was handed out")
					}
				}
			},
		})
		for _, s := range held {
			s.Release()
		}
		if w.block != nil {
			w.block.release()
			w.block = nil
		}
		l.tail.drop()
		for _, b := range l.blocks.free {
			if b.refs.Load() != 0 {
				t.Fatalf("a free block has %d references", b.refs.Load())
			}
		}
	})
}

// withDefaultsForTest returns options without files.
func (o Options) withDefaultsForTest() (Options, error) {
	o.Term, o.Now = 1, func() entry.Time { return 1 }
	o.Events = o.Events.withDefaults()
	return o, nil
}

// TestQueueIsAQueue compares the queue with a slice.
func TestQueueIsAQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := newQueue(1 << 40)
		q.open()
		var model, taken []*Proposal
		shut := false
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				n := rapid.IntRange(1, 300).Draw(t, "n")
				for range n {
					p := &Proposal{Payload: make([]byte, rapid.IntRange(0, 50).Draw(t, "size"))}
					switch err := q.put(p); {
					case err == nil:
						model = append(model, p)
					case !shut || !errors.Is(err, ErrClosed):
						t.Fatal(err)
					}
					if shut {
						break
					}
				}
			},
			"take": func(t *rapid.T) {
				if len(model) == 0 && !shut {
					return // it would wait
				}
				most := rapid.IntRange(1, 500).Draw(t, "entries")
				bytes := rapid.Int64Range(0, 20_000).Draw(t, "bytes")
				got := q.take(nil, most, bytes)
				if len(got) == 0 && len(model) > 0 || len(got) > most {
					t.Fatalf("took %d of %d", len(got), len(model))
				}
				var sum int64
				for i, p := range got {
					if p != model[i] {
						t.Fatalf("proposal %d is out of order", i)
					}
					sum += p.bytes()
				}
				if len(got) > 1 && sum > bytes {
					t.Fatalf("took %d bytes of at most %d", sum, bytes)
				}
				if n := len(got); n < len(model) && n < most && sum+model[n].bytes() <= bytes {
					t.Fatal("could have taken more")
				}
				model, taken = model[len(got):], append(taken, got...)
			},
			"settle": func(t *rapid.T) {
				for _, p := range taken {
					q.settle(p.bytes())
				}
				taken = nil
			},
			"shut": func(t *rapid.T) {
				if rapid.IntRange(0, 20).Draw(t, "really") == 0 {
					q.shut(ErrClosed)
					shut = true
				}
			},
			"": func(t *rapid.T) {
				var bytes int64
				for _, p := range append(append([]*Proposal(nil), model...), taken...) {
					bytes += p.bytes()
				}
				if q.bytes != bytes || q.n != len(model) {
					t.Fatalf("queue has %d proposals of %d bytes, expected %d of %d", q.n, q.bytes, len(model), bytes)
				}
			},
		})
	})
}
