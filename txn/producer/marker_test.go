package producer

import (
	"testing"
	"time"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// do is a step of a producer with transactions.
type do struct {
	kind     string // batch, or the marker commit or abort
	epoch    int
	sequence int // of a batch of one record
	want     string
}

func TestSequencesAfterTheEndOfATransaction(t *testing.T) {
	const late = "OUT_OF_ORDER_SEQUENCE_NUMBER"
	for _, c := range []struct {
		name  string
		steps []do
	}{
		{"a commit within the epoch changes nothing", []do{
			{"batch", 0, 0, "ok"}, {"batch", 0, 1, "ok"}, {"commit", 0, 0, "ok"},
			{"batch", 0, 1, "dup 1@2"}, {"batch", 0, 0, "dup 0@1"}, {"batch", 0, 3, late}, {"batch", 0, 2, "ok"},
		}},
		{"after an abort within the epoch the sequences go on", []do{
			{"batch", 0, 0, "ok"}, {"batch", 0, 1, "ok"}, {"abort", 0, 0, "ok"},
			{"batch", 0, 3, late}, {"batch", 0, 2, "ok"}, {"batch", 0, 1, late},
		}},
		{"or those of the aborted transaction come again, for other records", []do{
			{"batch", 0, 0, "ok"}, {"commit", 0, 0, "ok"}, {"batch", 0, 1, "ok"}, {"batch", 0, 2, "ok"}, {"abort", 0, 0, "ok"},
			{"batch", 0, 0, late}, {"batch", 0, 1, "ok"}, {"batch", 0, 2, "ok"}, {"batch", 0, 2, "dup 6@8"}, {"batch", 0, 4, late},
		}},
		{"also when there were none before", []do{
			{"batch", 0, 0, "ok"}, {"abort", 0, 0, "ok"}, {"batch", 0, 0, "ok"}, {"batch", 0, 1, "ok"},
		}},
		{"a marker with a higher epoch fences and starts over", []do{
			{"batch", 0, 0, "ok"}, {"batch", 0, 1, "ok"}, {"commit", 1, 0, "ok"},
			{"batch", 0, 2, "INVALID_PRODUCER_EPOCH"}, {"batch", 1, 2, late}, {"batch", 1, 0, "ok"}, {"batch", 1, 1, "ok"},
		}},
		{"as after an abort", []do{
			{"batch", 0, 0, "ok"}, {"abort", 1, 0, "ok"},
			{"batch", 0, 0, "INVALID_PRODUCER_EPOCH"}, {"batch", 1, 1, late}, {"batch", 1, 0, "ok"},
		}},
		{"a marker without batches makes the producer known", []do{
			{"commit", 3, 0, "ok"}, {"batch", 2, 0, "INVALID_PRODUCER_EPOCH"}, {"batch", 3, 1, late}, {"batch", 3, 0, "ok"},
		}},
		{"a marker with a lower epoch is refused", []do{
			{"batch", 2, 0, "ok"}, {"abort", 1, 0, "INVALID_PRODUCER_EPOCH"}, {"batch", 2, 1, "ok"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRun()
			for i, s := range c.steps {
				var got string
				if s.kind == "batch" {
					got = r.produce(1, Batch{ProducerID: 7, ProducerEpoch: int16(s.epoch), BaseSequence: int32(s.sequence), Transactional: true}, entry.Time(i+1))
				} else {
					got = r.end(1, Marker{ProducerID: 7, Epoch: int16(s.epoch), Abort: s.kind == "abort"}, false, entry.Time(i+1))
				}
				if got != s.want {
					t.Fatalf("step %d, %+v: %s", i+1, s, got)
				}
			}
		})
	}
}

func TestMarkersOfTheNewerProtocolRaiseTheEpoch(t *testing.T) {
	r := newRun()
	mark := Marker{ProducerID: 7, Epoch: 1}
	r.produce(1, Batch{ProducerID: 7, ProducerEpoch: 1, Transactional: true}, 1)
	if got := r.end(1, mark, true, 2); got != "INVALID_PRODUCER_EPOCH" {
		t.Errorf("the epoch of the batches: %s", got)
	}
	mark.Epoch = 2
	for i := range 2 { // again, as one who does not know that it was done
		if got := r.end(1, mark, true, 3); got != "ok" {
			t.Errorf("time %d: %s", i+1, got)
		}
	}
	r.produce(1, Batch{ProducerID: 7, ProducerEpoch: 2, Transactional: true}, 4)
	if got := r.end(1, mark, true, 5); got != "INVALID_PRODUCER_EPOCH" {
		t.Errorf("late, in the next transaction: %s", got)
	}
}

func TestProducerWithOpenTransactionIsNotForgotten(t *testing.T) {
	const day = entry.Time(24 * time.Hour / time.Millisecond)
	r, disk := newRun(), store{}
	r.produce(1, Batch{ProducerID: 7, Transactional: true}, 0)
	r.produce(1, Batch{ProducerID: 8}, 0)
	r.m.Checkpoint(disk)
	r.m = New()
	if err := r.m.Load(disk); err != nil {
		t.Fatal(err)
	}
	payload, err := EncodeExpire(Limits{Expiration: 24 * time.Hour, Producers: 1}, 10)
	if err != nil {
		t.Fatal(err)
	}
	r.apply(t, entry.TypeExpireProducers, 3*day, payload)
	if got := ids(r.m, 1); got != "7" {
		t.Fatalf("left are %q", got)
	}
	if got := r.produce(1, Batch{ProducerID: 7, Transactional: true}, 3*day); got != "dup 0@0" {
		t.Errorf("a retry after days: %s", got)
	}
	r.end(1, Marker{ProducerID: 7}, false, 3*day)
	r.apply(t, entry.TypeExpireProducers, 4*day, payload)
	if got := ids(r.m, 1); got != "" {
		t.Errorf("left are %q", got)
	}
}

func TestUnknownProducerOfTheNewerProtocolBeginsAtZero(t *testing.T) {
	r := newRun()
	b := Batch{ProducerID: 7, BaseSequence: 3, Transactional: true, FromZero: true}
	if got := r.produce(1, b, 1); got != "OUT_OF_ORDER_SEQUENCE_NUMBER" {
		t.Errorf("got %s", got)
	}
	b.BaseSequence = 0
	if got := r.produce(1, b, 1); got != "ok" {
		t.Errorf("got %s", got)
	}
}

// end puts a marker into a partition, if it may, and tells what was said.
func (r *run) end(p entry.Partition, mark Marker, newer bool, now entry.Time) string {
	r.last++
	if err := r.m.CheckMarker(p, mark, newer); err != nil {
		return kerr.Of(err).String()
	}
	r.m.Ended(p, mark, now, r.last)
	r.ends[p]++
	return "ok"
}
