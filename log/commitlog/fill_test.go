package commitlog_test

import (
	"sync/atomic"
	"testing"
)

// filledBy appends payloads of a size, one a group, over some segments of 1 MiB,
// and returns how many bytes of zeroes were written ahead.
func filledBy(t *testing.T, payload int) int64 {
	o := options(newMem(t))
	o.SegmentBytes = 1 << 20
	var filled atomic.Int64
	o.Events.Prepared = func(_ uint32, _ bool, bytes int64) { filled.Add(bytes) }
	r := mustStart(t, o)
	for written := 0; written < 3<<20; written += payload {
		mustPropose(t, r, text(written, payload))
	}
	r.stop(t)
	return filled.Load()
}

func TestSegmentsAreFilledAheadOnlyForSmallGroups(t *testing.T) {
	if n := filledBy(t, 16<<10); n == 0 {
		t.Error("groups of 16 KiB: nothing was filled ahead")
	}
	if n := filledBy(t, 200<<10); n != 0 {
		t.Errorf("groups of 200 KiB: %d bytes of zeroes were written", n)
	}
}
