package log_test

import (
	"fmt"
	"strings"
	"testing"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/log"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/vfs"
	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// timed returns a batch of records with the given times.
func timed(t testing.TB, l *log.Log, o batch.Options, times ...int64) []byte {
	t.Helper()
	var b batch.Builder
	for i, time := range times {
		b.Add(&batch.Record{Timestamp: time, Value: fmt.Appendf(nil, "record %d", i)})
	}
	payload, err := b.Build(nil, l.Codecs(), o)
	must(t, err)
	return payload
}

var (
	lz4      = batch.Options{Codec: batch.LZ4}
	appended = batch.Options{Attributes: batch.LogAppendTime}
)

// written is one batch of a look-up test.
type written struct {
	options batch.Options
	times   []int64
}

// lookups are the tests of known faults B52, B53 and B55: batches, a log start,
// and what is found for which time; latest is what MaxTime finds.
var lookups = map[string]struct {
	batches []written
	start   entry.Offset
	find    map[int64]log.Found
	latest  log.Found
}{
	"empty": {nil, 0, map[int64]log.Found{0: none, 1000: none}, none},
	"one record": {
		[]written{{times: []int64{1000}}}, 0,
		map[int64]log.Found{0: {0, 1000}, 1000: {0, 1000}, 1001: none}, log.Found{Offset: 0, Time: 1000},
	},
	"in order": { // B52
		[]written{{times: []int64{1000}}, {times: []int64{2000}}, {times: []int64{3000}}}, 0,
		map[int64]log.Found{0: {0, 1000}, 1500: {1, 2000}, 3000: {2, 3000}, 3001: none}, log.Found{Offset: 2, Time: 3000},
	},
	"in order in one batch": {
		[]written{{times: []int64{1000, 2000, 3000}}}, 0,
		map[int64]log.Found{0: {0, 1000}, 1500: {1, 2000}, 3000: {2, 3000}, 3001: none}, log.Found{Offset: 2, Time: 3000},
	},
	"out of order": {
		[]written{{times: []int64{1000}}, {times: []int64{3000}}, {times: []int64{2000}}}, 0,
		map[int64]log.Found{1500: {1, 3000}, 2500: {1, 3000}, 3000: {1, 3000}, 3001: none}, log.Found{Offset: 1, Time: 3000},
	},
	"compressed, out of order": { // B55
		[]written{{lz4, []int64{10, 30, 20}}, {lz4, []int64{5}}}, 0,
		map[int64]log.Found{0: {0, 10}, 11: {1, 30}, 20: {1, 30}, 30: {1, 30}, 31: none}, log.Found{Offset: 1, Time: 30},
	},
	"a tie": {
		[]written{{times: []int64{10, 30}}, {times: []int64{30, 30}}}, 0,
		map[int64]log.Found{30: {1, 30}}, log.Found{Offset: 1, Time: 30},
	},
	"append time": {
		[]written{{times: []int64{50}}, {appended, []int64{10, 70, 20}}, {times: []int64{60}}}, 0,
		map[int64]log.Found{0: {0, 50}, 51: {1, 70}, 70: {1, 70}, 71: none}, log.Found{Offset: 1, Time: 70},
	},
	"start in the middle of a batch": {
		[]written{{times: []int64{10, 90, 30, 40}}, {times: []int64{35, 20}}}, 2,
		map[int64]log.Found{0: {2, 30}, 31: {3, 40}, 41: none, 90: none}, log.Found{Offset: 3, Time: 40},
	},
	"start behind the latest of a batch, a later one has more": {
		[]written{{lz4, []int64{10, 90, 30, 40}}, {times: []int64{35, 60}}, {times: []int64{70, 65}}, {times: []int64{1}}}, 2,
		map[int64]log.Found{36: {3, 40}, 41: {5, 60}, 61: {6, 70}, 71: none}, log.Found{Offset: 6, Time: 70},
	},
	"start in the middle, append time": {
		[]written{{appended, []int64{10, 90, 30, 40}}, {times: []int64{35}}}, 2,
		map[int64]log.Found{0: {2, 90}, 90: {2, 90}, 91: none}, log.Found{Offset: 2, Time: 90},
	},
	"start at the end": { // B53
		[]written{{times: []int64{10, 20}}, {times: []int64{30}}}, 3,
		map[int64]log.Found{0: none, 30: none}, none,
	},
	"no timestamps": {
		[]written{{times: []int64{-1, -1}}}, 0, map[int64]log.Found{0: none}, none,
	},
	"some without timestamps": {
		[]written{{times: []int64{-1, 5}}, {times: []int64{-1}}}, 0,
		map[int64]log.Found{0: {1, 5}, 6: none}, log.Found{Offset: 1, Time: 5},
	},
}

var none = log.Found{Offset: -1, Time: -1}

func TestRecordsAreFoundByTheirTime(t *testing.T) {
	for name, test := range lookups {
		for _, segments := range []string{"in memory", "on disk"} {
			t.Run(strings.ReplaceAll(name+"/"+segments, " ", "-"), func(t *testing.T) {
				mem := pebblevfs.NewMem()
				k := openKept(t, vfs.New(mem), dataDir)
				create(t, k.Log, 1)
				create(t, k.Log, 2)
				produce(t, k.Log, 2, timed(t, k.Log, batch.Options{}, 5000))
				for _, w := range test.batches {
					produce(t, k.Log, 1, timed(t, k.Log, w.options, w.times...))
					if segments == "on disk" {
						must(t, k.Roll())
					}
				}
				if test.start > 0 {
					if _, err := k.DeleteRecords(1, test.start); err != nil {
						t.Fatal(err)
					}
				}
				if segments == "on disk" {
					k.AwaitSealed()
				}
				for range 2 {
					for time, want := range test.find {
						if got, err := k.FindTime(1, entry.Time(time)); err != nil || got != want {
							t.Errorf("time %d: %+v, %v, want %+v", time, got, err, want)
						}
					}
					if got, err := k.MaxTime(1); err != nil || got != test.latest {
						t.Errorf("largest: %+v, %v, want %+v", got, err, test.latest)
					}
					must(t, k.Close())
					k = openKept(t, vfs.New(mem), dataDir)
				}
				must(t, k.Close())
			})
		}
	}
}

// B53: the last record is found, and nothing behind it, however many there are.
func TestTheLastRecordIsFoundByItsTime(t *testing.T) {
	for _, n := range []int{1, 2, 10_000} {
		k := openKept(t, vfs.New(pebblevfs.NewMem()), dataDir)
		create(t, k.Log, 1)
		for i := 0; i < n; i += 100 {
			var times []int64
			for j := i; j < min(i+100, n); j++ {
				times = append(times, int64(1000+j))
			}
			produce(t, k.Log, 1, timed(t, k.Log, batch.Options{}, times...))
		}
		last := entry.Offset(n - 1)
		for _, start := range []entry.Offset{0, last, last + 1} {
			if start > 0 {
				if _, err := k.DeleteRecords(1, start); err != nil {
					t.Fatal(err)
				}
			}
			want := log.Found{Offset: last, Time: entry.Time(1000 + last)}
			if start > last {
				want = none
			}
			if got, err := k.FindTime(1, entry.Time(1000+last)); err != nil || got != want {
				t.Errorf("%d records, start %d: %+v, %v, want %+v", n, start, got, err, want)
			}
			if got, err := k.MaxTime(1); err != nil || got != want {
				t.Errorf("%d records, start %d: largest %+v, %v, want %+v", n, start, got, err, want)
			}
			if got, err := k.FindTime(1, entry.Time(1001+last)); err != nil || got != none {
				t.Errorf("%d records, start %d, behind the last: %+v, %v", n, start, got, err)
			}
		}
		must(t, k.Close())
	}
}

func TestLookUpsOfPartitionsThatAreNotThereSaySo(t *testing.T) {
	k := openKept(t, vfs.New(pebblevfs.NewMem()), dataDir)
	if f, err := k.FindTime(1, 0); kerr.Of(err) != kerr.UnknownTopicOrPartition || f != none {
		t.Errorf("%+v, %v", f, err)
	}
	if f, err := k.MaxTime(1); kerr.Of(err) != kerr.UnknownTopicOrPartition || f != none {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err := k.Size(1); kerr.Of(err) != kerr.UnknownTopicOrPartition {
		t.Error(err)
	}
	must(t, k.Close())
}
