package batch_test

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/protocol/batch"
)

var allCodecs = []batch.Codec{batch.None, batch.Gzip, batch.Snappy, batch.LZ4, batch.Zstd}

// now is the time at which tests validate, and about which records are made.
const now = 1_700_000_000_000

func rules() *batch.Rules {
	r := batch.DefaultRules(now)
	return &r
}

func newCodecs() *batch.Codecs { return batch.NewCodecs(batch.Limits{}) }

// record returns a record of the value with a key, at a time.
func record(value string, timestamp int64) *batch.Record {
	return &batch.Record{Key: []byte("k-" + value), Value: []byte(value), Timestamp: timestamp}
}

// three are records of three offsets, the one in the middle the latest.
func three() []*batch.Record {
	return []*batch.Record{record("a", now-20), record("b", now-5), record("c", now-10)}
}

// build makes a batch or ends the test.
func build(t testing.TB, o batch.Options, records ...*batch.Record) []byte {
	t.Helper()
	var b batch.Builder
	for _, r := range records {
		b.Add(r)
	}
	out, err := b.Build(nil, newCodecs(), o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// many makes a batch of n records of size bytes that compress about as JSON does.
func many(t testing.TB, codec batch.Codec, n, size int) []byte {
	t.Helper()
	var b batch.Builder
	for i := range n {
		value := fmt.Sprintf(`{"id":%d,"sku":"%x","state":"%s"}`, i, i*7919, []string{"open", "paid", "sent"}[i%3])
		value += strings.Repeat(fmt.Sprintf(" note %d", i*31), size/7+1)
		b.Add(&batch.Record{
			Key: []byte(strconv.Itoa(i % 50)), Value: []byte(value[:size]), Timestamp: now - int64(n) + int64(i),
		})
	}
	out, err := b.Build(nil, newCodecs(), batch.Options{Codec: codec})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// sealed sets length and CRC of b to what its bytes ask for, so that a test can
// change a batch and have the change itself judged.
func sealed(b []byte) []byte {
	if len(b) < batch.HeaderSize {
		return b
	}
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// read is a record as a test compares it.
type read struct {
	Delta     int32
	Timestamp int64
	Key       string
	Value     string
	Headers   string
}

// failer is what testing.TB and rapid.T share.
type failer interface {
	Fatalf(format string, args ...any)
	Helper()
}

// readAll reads a batch to its end.
func readAll(t failer, c *batch.Codecs, b []byte) []read {
	t.Helper()
	var out []read
	it := c.Records(b)
	defer it.Close()
	for it.Next() {
		out = append(out, shown(it.Record()))
	}
	if err := it.Err(); err != nil {
		t.Fatalf("after %d records: %v", len(out), err)
	}
	return out
}

// shown returns what a test compares; nil shows as "null".
func shown(r *batch.Record) read {
	s := read{Delta: r.OffsetDelta, Timestamp: r.Timestamp, Key: show(r.Key), Value: show(r.Value)}
	for name, value := range r.Headers.All() {
		s.Headers += show(name) + "=" + show(value) + ";"
	}
	return s
}

func show(b []byte) string {
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%q", b)
}
