package batch_test

import (
	"testing"

	"github.com/sluicemq/sluice/protocol/batch"
)

func TestFindTimestampLooksIntoTheBatch(t *testing.T) {
	rising := []*batch.Record{record("a", 1000), record("b", 2000), record("c", 3000)}
	mixed := []*batch.Record{record("a", 1000), record("b", 3000), record("c", 2000)}
	for _, c := range []struct {
		name      string
		records   []*batch.Record
		timestamp int64
		delta     int32
		found     int64
	}{
		{"before all", rising, 0, 0, 1000},
		{"between", rising, 1500, 1, 2000},
		{"the last", rising, 3000, 2, 3000},
		{"after all", rising, 3001, -1, -1},
		{"first in offset order", mixed, 2000, 1, 3000},
		{"not the nearest in time", mixed, 2500, 1, 3000},
	} {
		for _, codec := range allCodecs {
			b := build(t, batch.Options{Codec: codec}, c.records...)
			for _, headerSays := range []int64{3000, -1, 1 << 50} { // which must not matter
				batch.Header(b).Stamp(false, headerSays)
				delta, timestamp, found, err := newCodecs().FindTimestamp(b, c.timestamp)
				if err != nil || delta != c.delta || timestamp != c.found || found != (c.delta >= 0) {
					t.Errorf("%s, %s: %d at %d, %v, %v", c.name, codec, timestamp, delta, found, err)
				}
			}
		}
	}
}

func TestFindTimestampWithLogAppendTimeFindsTheFirst(t *testing.T) {
	b := build(t, batch.Options{Codec: batch.Gzip}, three()...)
	batch.Header(b).Stamp(true, 5000)
	if delta, timestamp, found, err := newCodecs().FindTimestamp(b, 4000); delta != 0 || timestamp != 5000 || !found || err != nil {
		t.Errorf("4000: %d at %d, %v, %v", timestamp, delta, found, err)
	}
	if _, _, found, err := newCodecs().FindTimestamp(b, 5001); found || err != nil {
		t.Errorf("5001: %v, %v", found, err)
	}
	if delta, timestamp, found, err := newCodecs().MaxTimestampRecord(b); delta != 0 || timestamp != 5000 || !found || err != nil {
		t.Errorf("max: %d at %d, %v, %v", timestamp, delta, found, err)
	}
}

func TestMaxTimestampRecordIsTheFirstOfTheLatest(t *testing.T) {
	for _, c := range []struct {
		name    string
		records []*batch.Record
		delta   int32
		found   int64
	}{
		{"in the midst", []*batch.Record{record("", 10), record("", 30), record("", 20)}, 1, 30},
		{"tie", []*batch.Record{record("", 10), record("", 30), record("", 30)}, 1, 30},
		{"single", []*batch.Record{record("", 5)}, 0, 5},
		{"none", []*batch.Record{record("", -1), record("", -1)}, -1, -1},
		{"some have none", []*batch.Record{record("", -1), record("", 0)}, 1, 0},
	} {
		for _, codec := range allCodecs {
			b := build(t, batch.Options{Codec: codec}, c.records...)
			delta, timestamp, found, err := newCodecs().MaxTimestampRecord(b)
			if err != nil || delta != c.delta || timestamp != c.found || found != (c.delta >= 0) {
				t.Errorf("%s, %s: %d at %d, %v, %v", c.name, codec, timestamp, delta, found, err)
			}
		}
	}
}

func TestTimestampSearchReportsDamage(t *testing.T) {
	b := build(t, batch.Options{}, three()...)
	b[22] = byte(batch.LZ4)
	if _, _, _, err := newCodecs().FindTimestamp(b, 0); err == nil {
		t.Error("find: no error")
	}
	if _, _, _, err := newCodecs().MaxTimestampRecord(b); err == nil {
		t.Error("max: no error")
	}
}
