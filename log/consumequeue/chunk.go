package consumequeue

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/sluicemq/sluice/log/entry"
)

// DrainNew appends to dst the tail records of the segment that were Put since
// the last call, and returns it. What RestoreTail is given of a segment, chunk
// by chunk, in order, brings back its tails. Only the apply loop calls it; after
// Seal and until Attach it may still be called for the segment.
func (s *Set) DrainNew(segment uint32, dst []byte) []byte {
	if t := s.findTail(segment); t != nil {
		dst = append(dst, t.fresh...)
		t.fresh = t.fresh[:0]
	}
	return dst
}

// Undrained returns how many bytes DrainNew would give for the segment. Only the
// apply loop calls it.
func (s *Set) Undrained(segment uint32) int {
	if t := s.findTail(segment); t != nil {
		return len(t.fresh)
	}
	return 0
}

func (s *Set) findTail(segment uint32) *tailSegment {
	if t := s.current; t != nil && t.number == segment {
		return t
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.unsealed {
		if t.number == segment {
			return t
		}
	}
	return nil
}

// RestoreTail puts back the batches of one chunk that DrainNew gave for the
// segment. Batches of partitions without a queue are passed over: those were
// deleted since. It is for the start, before the apply loop runs; segments and
// chunks come in order. Errors wrap ErrCorrupt.
func (s *Set) RestoreTail(segment uint32, chunk []byte) error {
	if len(chunk)%recordBytes != 0 {
		return fmt.Errorf("tail records of segment %d: %w: %d bytes", segment, ErrShort, len(chunk))
	}
	t := s.tailSegment(segment)
	for ; len(chunk) > 0; chunk = chunk[recordBytes:] {
		p := entry.Partition(binary.LittleEndian.Uint64(chunk))
		e := decodeEntry(chunk[8:])
		q := s.Get(p)
		if q == nil {
			continue
		}
		if !q.follows(e) {
			return fmt.Errorf("tail records of segment %d: %w: batch at offset %d of partition %d is not behind its predecessor",
				segment, ErrStructure, e.BaseOffset, p)
		}
		q.put(t, e)
	}
	return nil
}

// follows reports whether e may come behind the last tail entry.
func (q *Queue) follows(e Entry) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.Count == 0 || e.BaseOffset < 0 || e.BaseOffset > math.MaxInt64-entry.Offset(e.Count) {
		return false
	}
	if n := len(q.tails); n > 0 {
		return q.tails[n-1].end() <= e.BaseOffset
	}
	return true
}

func appendRecord(dst []byte, p entry.Partition, e Entry) []byte {
	return appendEntry(binary.LittleEndian.AppendUint64(dst, uint64(p)), e)
}
