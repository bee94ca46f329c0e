package conn

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/sluicemq/sluice/protocol"
)

// Stats counts what a Server does. All of it may be read at any time.
type Stats struct {
	Open     atomic.Int64 // connections open
	Accepted atomic.Int64 // connections accepted, also those refused then
	Refused  atomic.Int64 // connections closed because there were too many

	closed [nKinds]atomic.Int64
	keys   [protocol.MaxKey + 1]KeyStats
}

// KeyStats counts the requests of one API.
type KeyStats struct {
	Requests atomic.Int64 // decoded requests
	Errors   atomic.Int64 // requests that ended the connection instead of a response
	InFlight atomic.Int64 // decoded, and response not yet written
	BytesIn  atomic.Int64 // request frames with their size prefix
	BytesOut atomic.Int64 // response frames with their size prefix
	Latency  Histogram    // from the complete frame to the written response
}

// Key returns the counters of an API that may be served.
func (s *Stats) Key(k protocol.Key) *KeyStats { return &s.keys[k] }

// Closed calls visit for each kind of refusal with the number of connections
// that were closed for it.
func (s *Stats) Closed(visit func(kind string, n int64)) {
	for k := range s.closed {
		if k := kind(k); k != kindLimit && k != kindAccept {
			visit(k.String(), s.closed[k].Load())
		}
	}
}

// Buckets is the number of buckets of a Histogram.
const Buckets = 26

// Histogram counts durations in buckets that double: bucket i holds those
// below 1 µs << i that are not in a bucket before, the last one the rest.
type Histogram struct {
	buckets [Buckets]atomic.Int64
	sum     atomic.Int64 // in nanoseconds
}

func (h *Histogram) add(d time.Duration) {
	d = max(d, 0)
	h.buckets[min(bits.Len64(uint64(d.Microseconds())), Buckets-1)].Add(1)
	h.sum.Add(int64(d))
}

// Bucket returns the count of bucket i.
func (h *Histogram) Bucket(i int) int64 { return h.buckets[i].Load() }

// UpperBound returns the upper bound (exclusive) of bucket i; the last bucket
// has none.
func UpperBound(i int) time.Duration { return time.Microsecond << i }

// Sum returns the sum of all durations.
func (h *Histogram) Sum() time.Duration { return time.Duration(h.sum.Load()) }
