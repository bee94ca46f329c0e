package batch_test

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// drawBytes draws null, empty and other bytes.
func drawBytes(t *rapid.T, label string) []byte {
	if rapid.Bool().Draw(t, label+" is null") {
		return nil
	}
	return rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, label)
}

func drawRecord(t *rapid.T) *batch.Record {
	r := &batch.Record{
		Key:       drawBytes(t, "key"),
		Value:     drawBytes(t, "value"),
		Timestamp: rapid.OneOf(rapid.Int64(), rapid.Int64Range(now-100, now+100)).Draw(t, "timestamp"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "headers") {
		r.Headers = r.Headers.Append(rapid.String().Draw(t, "name"), drawBytes(t, "header value"))
	}
	return r
}

// anyTime are rules under which any timestamp passes that a test can draw.
func anyTime() *batch.Rules {
	r := rules()
	r.LogAppendTime = true
	return r
}

func TestAnyBatchBuiltIsValidAndReadsAsItWasMade(t *testing.T) {
	c := newCodecs()
	rapid.Check(t, func(t *rapid.T) {
		records := rapid.SliceOfN(rapid.Custom(drawRecord), 1, 20).Draw(t, "records")
		codec := rapid.SampledFrom(allCodecs).Draw(t, "codec")
		var (
			builder batch.Builder
			want    []read
			latest  = batch.NoTimestamp
		)
		for i, r := range records {
			builder.Add(r)
			s := shown(r)
			s.Delta = int32(i)
			want = append(want, s)
			latest = max(latest, r.Timestamp)
		}
		b, err := builder.Build(nil, c, batch.Options{Codec: codec})
		if err != nil {
			t.Fatal(err)
		}
		sum, err := c.Validate(b, anyTime())
		if err != nil || int(sum.Count) != len(records) || batch.Header(b).MaxTimestamp() != latest {
			t.Fatalf("%+v, %v", sum, err)
		}
		if got := readAll(t, c, b); !slices.Equal(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		if codec == batch.None {
			sameAsKmsg(t, b, want)
		}

		ts := rapid.OneOf(rapid.Int64(), rapid.Int64Range(now-100, now+100)).Draw(t, "looked for")
		at := slices.IndexFunc(want, func(r read) bool { return r.Timestamp >= ts })
		delta, _, found, err := c.FindTimestamp(b, ts)
		if err != nil || int(delta) != at || found != (at >= 0) {
			t.Fatalf("%d found at %d, want %d, %v", ts, delta, at, err)
		}
	})
}

// sameAsKmsg compares an uncompressed batch, as kmsg reads it, with want.
func sameAsKmsg(t failer, b []byte, want []read) {
	t.Helper()
	base := batch.Header(b).BaseTimestamp()
	rest := b[batch.HeaderSize:]
	for i, w := range want {
		got, size, err := kmsgRecord(rest)
		if err != nil {
			t.Fatalf("kmsg, record %d: %v", i, err)
		}
		rest = rest[size:]
		s := read{Delta: got.OffsetDelta, Timestamp: base + got.TimestampDelta64, Key: show(got.Key), Value: show(got.Value)}
		for _, h := range got.Headers {
			s.Headers += show([]byte(h.Key)) + "=" + show(h.Value) + ";"
		}
		if s != w {
			t.Fatalf("kmsg reads %+v, want %+v", s, w)
		}
	}
	if len(rest) > 0 {
		t.Fatalf("kmsg leaves %d bytes", len(rest))
	}
}

// Whatever single bit of a batch is wrong, it is refused, unless it lies in the
// leader epoch, which a producer's batch may hold anything in.
func TestEachFlippedBitIsNoticed(t *testing.T) {
	c := newCodecs()
	b := build(t, batch.Options{Codec: batch.Zstd, Producer: &batch.Producer{ID: 5}}, three()...)
	for bit := range len(b) * 8 {
		damaged := bytes.Clone(b)
		damaged[bit/8] ^= 1 << (bit % 8)
		_, err := admit(c, damaged, rules())
		if inEpoch := bit/8 >= 12 && bit/8 < 16; (err == nil) != inEpoch {
			t.Errorf("bit %d of byte %d: %v", bit%8, bit/8, err)
		}
	}
}

func TestTimestampDeltasMayWrapAround(t *testing.T) {
	b := build(t, batch.Options{}, record("a", math.MinInt64), record("b", math.MaxInt64), record("c", -1))
	got := readAll(t, newCodecs(), b)
	if got[0].Timestamp != math.MinInt64 || got[1].Timestamp != math.MaxInt64 || got[2].Timestamp != -1 {
		t.Errorf("got %+v", got)
	}
	if _, err := newCodecs().Validate(b, rules()); kerr.Of(err) != kerr.InvalidTimestamp {
		t.Errorf("got %v", err)
	}
}
