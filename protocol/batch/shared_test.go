package batch_test

import (
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluicemq/sluice/protocol/batch"
)

// Codecs promise not to start goroutines, though the libraries under them can.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Each goroutine works on batches of its own; what they share is the pools.
func TestCodecsAreSharedBetweenGoroutines(t *testing.T) {
	c := newCodecs()
	var wg sync.WaitGroup
	for n := range 8 {
		b := many(t, allCodecs[n%len(allCodecs)], 50+n, 100)
		wg.Go(func() {
			for range 20 {
				sum, err := c.Validate(b, rules())
				if err != nil || int(sum.Count) != 50+n {
					t.Errorf("%d records, %v", sum.Count, err)
				}
				for _, codec := range allCodecs {
					packed, err := c.Recompress(nil, b, codec, 0)
					if err != nil {
						t.Error(err)
						continue
					}
					delta, _, found, err := c.FindTimestamp(packed, now-1)
					if int(delta) != 49+n || !found || err != nil {
						t.Errorf("found %d, %v, %v", delta, found, err)
					}
				}
				// Refusals must leave nothing behind in what goes back to the pools.
				damaged := append(append([]byte{}, b...), 0)
				if _, err := c.Decompress(nil, batch.Zstd, damaged); err == nil {
					t.Error("a batch decompresses as zstd")
				}
			}
		})
	}
	wg.Wait()
}

// Closing gives memory back; what was read of one batch must not change because
// the next one is read while the first is open.
func TestIteratorsOpenAtOnceDoNotShareMemory(t *testing.T) {
	c := newCodecs()
	one := c.Records(build(t, batch.Options{Codec: batch.LZ4}, record("first", 1)))
	defer one.Close()
	two := c.Records(build(t, batch.Options{Codec: batch.LZ4}, record("second", 1)))
	defer two.Close()
	if !one.Next() || !two.Next() || string(one.Record().Value) != "first" || string(two.Record().Value) != "second" {
		t.Errorf("%q and %q", one.Record().Value, two.Record().Value)
	}
}
