package producer

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// step is one batch of three fields that differ between cases, and what must
// become of it: "ok", "dup OFFSET@TIME" or the name of an error code.
type step struct {
	epoch, sequence, count int
	want                   string
}

func TestJudgeFollowsTheRulesOfIdempotentProducers(t *testing.T) {
	const max = math.MaxInt32
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"the next sequence is appended", []step{
			{0, 0, 1, "ok"}, {0, 1, 10, "ok"}, {0, 11, 1, "ok"},
		}},
		{"each of the last five batches is known as a duplicate", []step{
			{0, 0, 2, "ok"}, {0, 2, 1, "ok"}, {0, 3, 3, "ok"}, {0, 6, 1, "ok"}, {0, 7, 4, "ok"},
			{0, 0, 2, "dup 0@1"}, {0, 2, 1, "dup 2@2"}, {0, 3, 3, "dup 3@3"}, {0, 6, 1, "dup 6@4"}, {0, 7, 4, "dup 7@5"},
			{0, 11, 1, "ok"},
		}},
		{"a duplicate older than five batches is out of order", []step{
			{0, 0, 1, "ok"}, {0, 1, 1, "ok"}, {0, 2, 1, "ok"}, {0, 3, 1, "ok"}, {0, 4, 1, "ok"}, {0, 5, 1, "ok"},
			{0, 0, 1, "OUT_OF_ORDER_SEQUENCE_NUMBER"}, {0, 1, 1, "dup 1@2"},
		}},
		{"a gap is out of order and changes nothing", []step{
			{0, 0, 3, "ok"}, {0, 4, 1, "OUT_OF_ORDER_SEQUENCE_NUMBER"}, {0, 3, 1, "ok"},
		}},
		{"an overlap is out of order", []step{
			{0, 0, 3, "ok"}, {0, 2, 3, "OUT_OF_ORDER_SEQUENCE_NUMBER"}, {0, 1, 1, "OUT_OF_ORDER_SEQUENCE_NUMBER"},
			{0, 0, 2, "OUT_OF_ORDER_SEQUENCE_NUMBER"}, {0, 0, 4, "OUT_OF_ORDER_SEQUENCE_NUMBER"},
		}},
		{"two remembered batches together are no duplicate", []step{
			{0, 0, 2, "ok"}, {0, 2, 2, "ok"}, {0, 0, 4, "OUT_OF_ORDER_SEQUENCE_NUMBER"},
		}},
		{"an unknown producer may begin anywhere", []step{
			{3, 77, 1, "ok"}, {3, 78, 1, "ok"}, {3, 77, 1, "dup 0@1"}, {3, 76, 1, "OUT_OF_ORDER_SEQUENCE_NUMBER"},
		}},
		{"after the largest sequence comes 0", []step{
			{0, max, 1, "ok"}, {0, 0, 1, "ok"}, {0, max, 1, "dup 0@1"}, {0, 1, 1, "ok"},
		}},
		{"sequences wrap within a batch", []step{
			{0, max - 1, 5, "ok"}, {0, max - 1, 5, "dup 0@1"}, {0, 3, 1, "ok"}, {0, max - 1, 5, "dup 0@1"},
			{0, 3, 1, "dup 5@3"}, {0, max, 1, "OUT_OF_ORDER_SEQUENCE_NUMBER"},
		}},
		{"a lower epoch is fenced, also for a duplicate", []step{
			{1, 0, 1, "ok"}, {0, 0, 1, "INVALID_PRODUCER_EPOCH"}, {0, 1, 1, "INVALID_PRODUCER_EPOCH"}, {1, 1, 1, "ok"},
		}},
		{"a higher epoch begins at 0 and forgets the batches", []step{
			{0, 0, 1, "ok"}, {0, 1, 1, "ok"}, {5, 2, 1, "OUT_OF_ORDER_SEQUENCE_NUMBER"},
			{5, 0, 1, "ok"}, {5, 1, 1, "ok"}, {5, 0, 1, "dup 2@4"}, {0, 1, 1, "INVALID_PRODUCER_EPOCH"},
		}},
		{"a refused epoch does not fence the one in use", []step{
			{0, 0, 1, "ok"}, {9, 4, 1, "OUT_OF_ORDER_SEQUENCE_NUMBER"}, {0, 1, 1, "ok"},
		}},
		{"numbers below 0 are refused", []step{
			{-1, 0, 1, "INVALID_RECORD"}, {0, -1, 1, "INVALID_RECORD"}, {0, 0, 0, "INVALID_RECORD"}, {0, 0, 1, "ok"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := newRun()
			for i, s := range c.steps {
				b := Batch{ProducerID: 7, ProducerEpoch: int16(s.epoch), BaseSequence: int32(s.sequence), LastOffsetDelta: int32(s.count - 1)}
				if got := run.produce(1, b, entry.Time(i+1)); got != s.want {
					t.Fatalf("step %d, epoch %d sequence %d count %d: %s, want %s", i+1, s.epoch, s.sequence, s.count, got, s.want)
				}
			}
		})
	}
}

func TestBatchesWithoutProducerIDAreNotJudged(t *testing.T) {
	run := newRun()
	for range 3 {
		b := Batch{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}
		if got := run.produce(1, b, 1); got != "ok" {
			t.Fatalf("got %s", got)
		}
	}
	if n := run.m.Len(); n != 0 {
		t.Errorf("%d producers are remembered", n)
	}
}

func TestPartitionsDoNotShareProducers(t *testing.T) {
	run := newRun()
	for _, c := range []struct {
		p        entry.Partition
		sequence int32
		want     string
	}{
		{1, 0, "ok"}, {2, 0, "ok"}, {1, 1, "ok"}, {2, 2, "OUT_OF_ORDER_SEQUENCE_NUMBER"}, {2, 1, "ok"}, {2, 0, "dup 0@0"},
	} {
		if got := run.produce(c.p, Batch{ProducerID: 7, BaseSequence: c.sequence}, 0); got != c.want {
			t.Errorf("partition %d sequence %d: %s, want %s", c.p, c.sequence, got, c.want)
		}
	}
}

func TestBatchAcceptedWithoutOffsetIsADuplicateWithoutOffset(t *testing.T) {
	m := New()
	b := Batch{ProducerID: 7, LastOffsetDelta: 2}
	m.Appended(1, b, -1, 100, 1)
	if v := m.Judge(1, b, 101); !v.Duplicate || v.Offset != -1 || v.Time != 100 || v.Err != nil {
		t.Errorf("got %+v", v)
	}
}

func TestRefusalNamesWhatIsWrong(t *testing.T) {
	m := New()
	m.Appended(1, Batch{ProducerID: 7, ProducerEpoch: 2, LastOffsetDelta: 2}, 0, 1, 1)
	for _, c := range []struct {
		b    Batch
		want string
	}{
		{Batch{ProducerID: 7, ProducerEpoch: 2, BaseSequence: 9}, "producer id 7 epoch 2: batch begins with sequence 9, not 3"},
		{Batch{ProducerID: 7, ProducerEpoch: 3, BaseSequence: 9}, "producer id 7 begins epoch 3 with sequence 9, not 0"},
		{Batch{ProducerID: 7, ProducerEpoch: 1}, "producer id 7 has epoch 1, which is older than 2"},
	} {
		if got := kerr.Message(m.Judge(1, c.b, 1).Err); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestProducerSilentForTheExpirationIsUnknown(t *testing.T) {
	const day = entry.Time(24 * time.Hour / time.Millisecond)
	for _, c := range []struct {
		silence entry.Time
		want    string
	}{
		{day - 1, "OUT_OF_ORDER_SEQUENCE_NUMBER"}, {day, "ok"}, {day + 1, "ok"},
	} {
		run := newRun()
		run.produce(1, Batch{ProducerID: 7, ProducerEpoch: 4}, 1000)
		if got := run.produce(1, Batch{ProducerID: 7, ProducerEpoch: 4, BaseSequence: 50}, 1000+c.silence); got != c.want {
			t.Errorf("silent for %d ms: %s, want %s", c.silence, got, c.want)
		}
	}
}

func TestProducerThatReturnsAfterExpirationStartsOver(t *testing.T) {
	const day = entry.Time(24 * time.Hour / time.Millisecond)
	run := newRun()
	run.produce(1, Batch{ProducerID: 7, ProducerEpoch: 4}, 0)
	run.produce(1, Batch{ProducerID: 7, ProducerEpoch: 4, BaseSequence: 1}, 1)
	// A lower epoch is as good as any, and the old batches are no duplicates.
	if got := run.produce(1, Batch{ProducerID: 7, ProducerEpoch: 1, BaseSequence: 9}, day+1); got != "ok" {
		t.Fatalf("got %s", got)
	}
	for _, sequence := range []int32{0, 1} {
		if got := run.produce(1, Batch{ProducerID: 7, ProducerEpoch: 1, BaseSequence: sequence}, day+2); got != "OUT_OF_ORDER_SEQUENCE_NUMBER" {
			t.Errorf("sequence %d: %s", sequence, got)
		}
	}
}

// run plays the apply loop for a machine, with partitions that begin at 0.
type run struct {
	m    *Machine
	ends map[entry.Partition]entry.Offset
	last entry.Index
}

func newRun() *run { return &run{m: New(), ends: make(map[entry.Partition]entry.Offset)} }

// produce judges a batch and appends it if it may be, and tells what was said.
func (r *run) produce(p entry.Partition, b Batch, now entry.Time) string {
	r.last++
	v := r.m.Judge(p, b, now)
	switch {
	case v.Err != nil:
		return kerr.Of(v.Err).String()
	case v.Duplicate:
		return fmt.Sprintf("dup %d@%d", v.Offset, v.Time)
	}
	r.m.Appended(p, b, r.ends[p], now, r.last)
	r.ends[p] += entry.Offset(b.LastOffsetDelta) + 1
	return "ok"
}

// apply applies a command.
func (r *run) apply(t testing.TB, typ entry.Type, now entry.Time, payload []byte) any {
	t.Helper()
	r.last++
	res := r.m.Apply(&entry.Entry{Type: typ, Index: r.last, Time: now, Payload: payload}, nil)
	if res.Err != nil {
		t.Fatal(res.Err)
	}
	return res.Value
}
