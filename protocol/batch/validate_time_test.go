package batch_test

import (
	"math"
	"testing"

	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/protocol/kerr"
)

func TestValidateHoldsTimestampsAgainstTheTopicsRange(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after int64
		timestamp     int64
		admitted      bool
	}{
		{"now", 0, 0, now, true},
		{"none", 0, 0, batch.NoTimestamp, true},
		{"a millisecond ago", 0, 0, now - 1, false},
		{"in a millisecond", 0, 0, now + 1, false},
		{"lower end", 1000, 0, now - 1000, true},
		{"below the lower end", 1000, 0, now - 1001, false},
		{"upper end", 0, 1000, now + 1000, true},
		{"above the upper end", 0, 1000, now + 1001, false},
		{"no bounds, earliest that differs by less", math.MaxInt64, math.MaxInt64, now - math.MaxInt64, true},
		{"no bounds, before the epoch", math.MaxInt64, 0, -5, true},
		{"further back than can be said", math.MaxInt64, math.MaxInt64, math.MinInt64, false},
		{"no bounds, latest", 0, math.MaxInt64, math.MaxInt64, true},
	} {
		b := build(t, batch.Options{}, record("a", c.timestamp))
		r := rules()
		r.BeforeMaxMs, r.AfterMaxMs = c.before, c.after
		_, err := newCodecs().Validate(b, r)
		if c.admitted && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if !c.admitted {
			wantIndexes(t, err, kerr.InvalidTimestamp, 0)
		}
		r.LogAppendTime = true
		if _, err := newCodecs().Validate(b, r); err != nil {
			t.Errorf("%s, with log append time: %v", c.name, err)
		}
	}
}

func TestOneBadTimestampDecidesTheCode(t *testing.T) {
	b := build(t, batch.Options{}, &batch.Record{Timestamp: now}, record("b", now), record("c", now+math.MaxInt32))
	r := rules()
	r.Compacted = true
	_, err := newCodecs().Validate(b, r)
	wantIndexes(t, err, kerr.InvalidTimestamp, 0, 2)
}

func TestLogAppendTimeIsNowAtTheFirstRecord(t *testing.T) {
	for _, skip := range []bool{false, true} {
		b := build(t, batch.Options{Codec: batch.Snappy}, three()...)
		r := rules()
		r.LogAppendTime, r.SkipRecords = true, skip
		sum, err := newCodecs().Validate(b, r)
		if err != nil || sum.MaxTimestamp != now || sum.MaxTimestampDelta != 0 || sum.Count != 3 || sum.Walked == skip {
			t.Errorf("skip %v: %+v, %v", skip, sum, err)
		}
	}
}

// A producer may write anything into the header's max timestamp.
func TestMaxTimestampIsThatOfTheRecords(t *testing.T) {
	for _, codec := range allCodecs {
		b := build(t, batch.Options{Codec: codec}, three()...)
		batch.Header(b).Stamp(false, now+5)
		sum, err := newCodecs().Validate(b, rules())
		if err != nil || sum.MaxTimestamp != now-5 {
			t.Errorf("%s: %+v, %v", codec, sum, err)
		}
		if !batch.Header(b).Stamp(false, sum.MaxTimestamp) {
			t.Errorf("%s: the stamp changes nothing", codec)
		}
		if again, err := newCodecs().Validate(b, rules()); again != sum || err != nil {
			t.Errorf("%s, stamped: %+v, %v", codec, again, err)
		}
	}
}

func TestBatchWithoutTimestampsHasNoMax(t *testing.T) {
	b := build(t, batch.Options{}, record("a", batch.NoTimestamp), record("b", batch.NoTimestamp))
	sum, err := newCodecs().Validate(b, rules())
	if err != nil || sum.MaxTimestamp != batch.NoTimestamp || sum.MaxTimestampDelta != -1 {
		t.Errorf("%+v, %v", sum, err)
	}
}

// On a topic with create time a claim of log append time is taken off, even if
// records were not to be read: the timestamps of the records then count.
func TestClaimOfLogAppendTimeIsSeenThrough(t *testing.T) {
	b := build(t, batch.Options{}, three()...)
	batch.Header(b).Stamp(true, now)
	r := rules()
	r.SkipRecords = true
	sum, err := newCodecs().Validate(b, r)
	if err != nil || sum.MaxTimestamp != now-5 || !sum.Walked {
		t.Fatalf("%+v, %v", sum, err)
	}
	batch.Header(b).Stamp(r.LogAppendTime, sum.MaxTimestamp)
	if got := readAll(t, newCodecs(), b); got[0].Timestamp != now-20 {
		t.Errorf("read %+v", got)
	}
}

// Each record is named, as if its own timestamp were wrong.
func TestClaimOfLogAppendTimeThatCannotPassNamesEachRecord(t *testing.T) {
	for _, c := range []struct {
		name      string
		topicToo  bool
		timestamp int64
	}{
		{"topic with log append time", true, now},
		{"no timestamp", false, batch.NoTimestamp},
	} {
		b := build(t, batch.Options{Codec: batch.Gzip}, record("a", c.timestamp), record("b", c.timestamp))
		batch.Header(b).Stamp(true, c.timestamp)
		r := rules()
		r.LogAppendTime, r.SkipRecords = c.topicToo, true
		_, err := newCodecs().Validate(b, r)
		wantIndexes(t, err, kerr.InvalidTimestamp, 0, 1)
	}
}
