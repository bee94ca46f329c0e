package batch_test

import (
	"errors"
	"testing"

	"github.com/sluicemq/sluice/protocol/batch"
)

// Allocation ceilings. The garbage collector may empty the pools while it is being
// counted, which is why compressed batches are allowed a fraction.
func TestAllocationsAreBounded(t *testing.T) {
	if raceEnabled {
		t.Skip("pools drop items at random under the race detector")
	}
	c := newCodecs()
	r := rules()
	r.HeaderPrefix = "sluice-"
	var failure error
	keep := func(err error) {
		if err != nil {
			failure = err
		}
	}
	for _, codec := range allCodecs {
		b := many(t, codec, 200, 300)
		limit := 0.1
		if codec == batch.None {
			limit = 0
		}
		for _, op := range []struct {
			name string
			run  func()
		}{
			{"validate", func() { _, err := c.Validate(b, r); keep(err) }},
			{"find timestamp", func() { _, _, _, err := c.FindTimestamp(b, now-1); keep(err) }},
			{"iterate", func() {
				it := c.Records(b)
				defer it.Close()
				n := 0
				for it.Next() {
					for name, value := range it.Record().Headers.All() {
						n += len(name) + len(value)
					}
					if _, ok := it.Record().Headers.Get("sluice-delay"); ok {
						n++
					}
				}
				keep(it.Err())
			}},
			{"stamp", func() {
				batch.Header(b).Stamp(true, now)
				batch.Header(b).Stamp(false, now-1)
			}},
		} {
			if got := testing.AllocsPerRun(100, op.run); got > limit {
				t.Errorf("%s, %s: %v allocations", op.name, codec, got)
			}
		}
		dst := make([]byte, 0, 2*len(b)+100_000)
		if got := testing.AllocsPerRun(100, func() { _, err := c.Recompress(dst, b, codec, 0); keep(err) }); got > 0.1 {
			t.Errorf("recompress, %s: %v allocations", codec, got)
		}
	}
	if failure != nil {
		t.Error(failure)
	}
}

func TestBuilderAllocatesNothingOnceItHasGrown(t *testing.T) {
	var b batch.Builder
	c, records := newCodecs(), three()
	var dst []byte
	failure := errors.New("never run")
	run := func() {
		b.Reset()
		for _, r := range records {
			b.Add(r)
		}
		dst, failure = b.Build(dst[:0], c, batch.Options{})
	}
	run()
	if got := testing.AllocsPerRun(100, run); got > 0 || failure != nil {
		t.Errorf("%v allocations, %v", got, failure)
	}
}
