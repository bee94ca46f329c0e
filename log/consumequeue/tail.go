package consumequeue

import (
	"math"

	"github.com/sluicemq/sluice/log/entry"
)

// blockEntries is how many entries a full block of a tail holds: 32 KiB, so that
// growing a long tail never copies more than that while its queue is locked.
const blockEntries = 1024

// tail is what a queue holds in memory of one segment. Entries are only ever
// added, and never changed, so that a copy of the struct, taken under the
// queue's lock, can be read without it.
type tail struct {
	segment uint32
	max     entry.Time             // largest MaxTimestamp
	bytes   int64                  // sum of Size
	full    []*[blockEntries]Entry // complete blocks
	open    []Entry                // the rest, fewer than blockEntries
}

func newTail(segment uint32) tail { return tail{segment: segment, max: math.MinInt64} }

func (t *tail) put(e Entry) {
	if t.open == nil && len(t.full) > 0 {
		t.open = make([]Entry, 0, blockEntries)
	}
	t.open = append(t.open, e)
	if len(t.open) == blockEntries {
		t.full = append(t.full, (*[blockEntries]Entry)(t.open))
		t.open = nil
	}
	t.bytes += int64(e.Size)
	t.max = max(t.max, e.MaxTimestamp)
}

func (t *tail) len() int { return len(t.full)*blockEntries + len(t.open) }

func (t *tail) at(i int) *Entry {
	if block := i / blockEntries; block < len(t.full) {
		return &t.full[block][i%blockEntries]
	}
	return &t.open[i%blockEntries]
}

func (t *tail) base() entry.Offset { return t.at(0).BaseOffset }
func (t *tail) end() entry.Offset  { return t.at(t.len() - 1).End() }

// tailSegment is what a Set knows of a segment with tails. It is owned by the
// apply loop until Seal hands queues over to the Builder; fresh stays with the
// apply loop.
type tailSegment struct {
	number uint32
	sealed bool
	queues []*Queue // those with a tail in the segment, in the order of their first Put
	fresh  []byte   // tail records that DrainNew has not taken yet
}

// tailSegment returns the segment's tails for a Put. Called by the apply loop.
func (s *Set) tailSegment(number uint32) *tailSegment {
	if t := s.current; t != nil && t.number == number && !t.sealed {
		return t
	}
	t := &tailSegment{number: number}
	s.mu.Lock()
	s.unsealed = append(s.unsealed, t)
	s.mu.Unlock()
	s.current = t
	return t
}
