package producer

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

func TestIDsAreHandedOutOnceEach(t *testing.T) {
	run, disk := newRun(), store{}
	for want := range int64(6) {
		if got := run.apply(t, entry.TypeAllocateProducerID, 0, nil); got != want {
			t.Fatalf("got id %v, want %d", got, want)
		}
		if want%2 == 0 { // restart
			run.m.Checkpoint(disk)
			run.m = New()
			if err := run.m.Load(disk); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestExpireEntryForgetsTheLongestSilentFirst(t *testing.T) {
	run := newRun()
	for i := range 10 {
		run.produce(entry.Partition(i%3+1), Batch{ProducerID: int64(i)}, entry.Time(i*100))
	}
	run.produce(1, Batch{ProducerID: 0, BaseSequence: 1}, 1000) // no longer silent
	limits := Limits{Expiration: 700 * time.Millisecond, Producers: 100}
	payload, err := EncodeExpire(limits, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		now  entry.Time
		want Expired
		left string
	}{
		{799, Expired{0, false}, "0 1 2 3 4 5 6 7 8 9"},
		{1200, Expired{3, true}, "0 4 5 6 7 8 9"},
		{1200, Expired{2, false}, "0 6 7 8 9"},
		{1200, Expired{0, false}, "0 6 7 8 9"},
		{1699, Expired{3, true}, "0 9"},
		{1699, Expired{1, false}, "0"},
		{1700, Expired{1, false}, ""},
	} {
		if got := run.apply(t, entry.TypeExpireProducers, c.now, payload); got != c.want {
			t.Errorf("at %d: %+v, want %+v", c.now, got, c.want)
		}
		if got := ids(run.m, 1, 2, 3); got != c.left {
			t.Errorf("at %d: left are %q, want %q", c.now, got, c.left)
		}
		if run.m.Overdue(c.now) != c.want.More {
			t.Errorf("at %d: overdue is not %v", c.now, c.want.More)
		}
	}
	if got := run.m.Limits(); got != limits {
		t.Errorf("limits are %+v", got)
	}
}

func TestMostProducersIsNotPassed(t *testing.T) {
	run := newRun()
	limit := func(producers int) {
		payload, err := EncodeExpire(Limits{Expiration: time.Hour, Producers: producers}, 0)
		if err != nil {
			t.Fatal(err)
		}
		run.apply(t, entry.TypeExpireProducers, 0, payload)
	}
	limit(3)
	for id := range int64(5) {
		run.produce(1, Batch{ProducerID: id}, 0)
	}
	if got := ids(run.m, 1); got != "2 3 4" {
		t.Errorf("left are %q", got)
	}
	limit(1) // forgets none by itself here, since the entry allows none
	run.produce(1, Batch{ProducerID: 4, BaseSequence: 1}, 0)
	if got := ids(run.m, 1); got != "4" {
		t.Errorf("left are %q", got)
	}
}

func TestDeletedPartitionLosesItsProducers(t *testing.T) {
	run, disk := newRun(), store{}
	for p := range entry.Partition(3) {
		for id := range int64(4) {
			run.produce(p+1, Batch{ProducerID: id, BaseSequence: 5}, 0)
		}
	}
	run.m.Checkpoint(disk)
	run.produce(2, Batch{ProducerID: 9}, 0)
	run.m.DeletePartition(2)
	run.m.DeletePartition(77) // had none
	if got := ids(run.m, 1, 2, 3); got != "0 0 1 1 2 2 3 3" {
		t.Errorf("left are %q", got)
	}
	run.m.Checkpoint(disk)
	reloaded := New()
	if err := reloaded.Load(disk); err != nil {
		t.Fatal(err)
	}
	if got := ids(reloaded, 1, 2, 3); got != "0 0 1 1 2 2 3 3" {
		t.Errorf("after a restart, left are %q", got)
	}
}

func TestBadEntriesAreRefused(t *testing.T) {
	good, err := EncodeExpire(DefaultLimits, 10)
	if err != nil {
		t.Fatal(err)
	}
	newer := append([]byte{9}, good[1:]...)
	reserved := append([]byte{1, 0, 1}, good[3:]...)
	for name, payload := range map[string][]byte{
		"empty": nil, "short": good[:19], "long": append(good[:20:20], 0), "newer": newer, "reserved": reserved, "zeroes": make([]byte, 20),
		"no expiration": {1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"no producers":  {1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
	} {
		m := New()
		res := m.Apply(&entry.Entry{Type: entry.TypeExpireProducers, Payload: payload}, nil)
		if kerr.Of(res.Err) != kerr.InvalidRequest || m.Limits() != DefaultLimits {
			t.Errorf("%s: error %v, limits %+v", name, res.Err, m.Limits())
		}
	}
	if res := New().Apply(&entry.Entry{Type: entry.TypeNoop}, nil); res.Err == nil {
		t.Error("an entry of another type was applied")
	}
	for _, limits := range []Limits{{}, {Expiration: time.Microsecond, Producers: 1}, {Expiration: time.Hour, Producers: -1}} {
		if _, err := EncodeExpire(limits, 1); err == nil {
			t.Errorf("%+v: encoded", limits)
		}
	}
}

func TestLoadRefusesWhatItCannotHaveWritten(t *testing.T) {
	run, good := newRun(), store{}
	run.produce(1, Batch{ProducerID: 7}, 5)
	run.apply(t, entry.TypeAllocateProducerID, 0, nil)
	run.m.Checkpoint(good)
	producerKey := string(appendProducerKey(nil, key{1, 7}))
	value, meta := good[producerKey], good[string(metaKey())]
	set := func(v string, at int, b byte) string { return v[:at] + string([]byte{b}) + v[at+1:] }
	for _, c := range []struct {
		name, key, value string
		want             error
	}{
		{"short key", producerKey[:17], value, ErrCorrupt},
		{"long key", producerKey + "x", value, ErrCorrupt},
		{"id below 0", set(producerKey, 10, 0x80), value, ErrCorrupt},
		{"no value", producerKey, "", ErrCorrupt},
		{"version 0", producerKey, set(value, 0, 0), ErrCorrupt},
		{"newer version", producerKey, set(value, 0, 3), ErrNewer},
		{"short value", producerKey, value[:len(value)-1], ErrCorrupt},
		{"no batches, but a sequence", producerKey, set(set(value[:32], 1, 0), 7, 0x80), ErrCorrupt},
		{"no batches in version 1", producerKey, set(set(value[:16], 1, 0), 0, 1), ErrCorrupt},
		{"other count", producerKey, set(value, 1, 2), ErrCorrupt},
		{"epoch below 0", producerKey, set(value, 3, 0x80), ErrCorrupt},
		{"sequence below 0", producerKey, set(value, 7, 0x80), ErrCorrupt},
		{"last time below 0", producerKey, set(value, 23, 0x80), ErrCorrupt},
		{"unknown flag", producerKey, set(value, 24, 8), ErrCorrupt},
		{"open and rewound", producerKey, set(value, 24, 3), ErrCorrupt},
		{"padding", producerKey, set(value, 26, 1), ErrCorrupt},
		{"first sequence below 0", producerKey, set(set(value, 24, 1), 31, 0x80), ErrCorrupt},
		{"first sequence without transaction", producerKey, set(value, 28, 1), ErrCorrupt},
		{"batches, but no sequence", producerKey, value[:4] + "\xff\xff\xff\xff" + value[8:], ErrCorrupt},
		{"offset below -1", producerKey, set(value, 39, 0x80), ErrCorrupt},
		{"time below 0", producerKey, set(value, 47, 0x80), ErrCorrupt},
		{"delta below 0", producerKey, set(value, 51, 0x80), ErrCorrupt},
		{"short meta", string(metaKey()), meta[:23], ErrCorrupt},
		{"newer meta", string(metaKey()), set(meta, 0, 2), ErrNewer},
		{"next id below 0", string(metaKey()), set(meta, 15, 0x80), ErrCorrupt},
	} {
		bad := store{c.key: c.value}
		if err := New().Load(bad); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	failing := failingStore{good}
	if err := New().Load(failing); !errors.Is(err, errDisk) {
		t.Errorf("failing store: %v", err)
	}
}

var errDisk = errors.New("disk")

type failingStore struct{ store }

func (failingStore) Scan(_, _ []byte, _ func(k, v []byte) bool) error { return errDisk }

// ids lists the ids of all producers of partitions, sorted.
func ids(m *Machine, partitions ...entry.Partition) string {
	var all []int64
	for _, p := range partitions {
		for _, producer := range m.Producers(p, nil) {
			all = append(all, producer.ID)
		}
	}
	slices.Sort(all)
	s := fmt.Sprint(all)
	return s[1 : len(s)-1]
}
