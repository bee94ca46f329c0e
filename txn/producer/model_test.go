package producer

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
	"pgregory.net/rapid"
)

// model is the same memory, written down as the rules are: everything that was
// ever appended stays in it, and sequences are plain remainders.
type model struct {
	producers map[key]*modelProducer
	limits    Limits
	nextID    int64
}

type modelProducer struct {
	epoch   int16
	batches []modelBatch // of the epoch
	known   int          // how many of them can be repeated
	touched entry.Index
	time    entry.Time
	open    int         // index in batches of the transaction's first, -1 if none is open
	aborted *modelBatch // first batch of the transaction that was aborted last, and nothing came since
	marked  bool
}

// next is the sequence behind the newest batch.
func (p *modelProducer) next() int64 {
	if len(p.batches) == 0 {
		return 0
	}
	return (p.batches[len(p.batches)-1].last + 1) % sequences
}

type modelBatch struct {
	first, last int64
	offset      entry.Offset
	time        entry.Time
}

const sequences = int64(math.MaxInt32) + 1

func (mo *model) judge(p entry.Partition, b Batch, now entry.Time) string {
	known := mo.producers[key{p, b.ProducerID}]
	first := int64(b.BaseSequence)
	if b.ProducerID < 0 {
		return "ok"
	}
	if known == nil || mo.silent(known, now) {
		if b.FromZero && first != 0 {
			return "OUT_OF_ORDER_SEQUENCE_NUMBER"
		}
		return "ok"
	}
	last := (first + int64(b.LastOffsetDelta)) % sequences
	switch {
	case b.ProducerEpoch < known.epoch:
		return "INVALID_PRODUCER_EPOCH"
	case b.ProducerEpoch > known.epoch && first == 0:
		return "ok"
	case b.ProducerEpoch > known.epoch:
		return "OUT_OF_ORDER_SEQUENCE_NUMBER"
	}
	for _, old := range known.batches[max(0, len(known.batches)-min(known.known, 5)):] {
		if old.first == first && old.last == last {
			return fmt.Sprintf("dup %d@%d", old.offset, old.time)
		}
	}
	if first == known.next() {
		return "ok"
	}
	if known.aborted != nil {
		for s := known.aborted.first; s != known.next(); s = (s + 1) % sequences {
			if s == first {
				return "ok"
			}
		}
	}
	return "OUT_OF_ORDER_SEQUENCE_NUMBER"
}

func (mo *model) appended(p entry.Partition, b Batch, base entry.Offset, now entry.Time, index entry.Index) {
	if b.ProducerID < 0 {
		return
	}
	k := key{p, b.ProducerID}
	known := mo.producers[k]
	before := known
	if known == nil || known.epoch != b.ProducerEpoch || mo.silent(known, now) {
		known = &modelProducer{epoch: b.ProducerEpoch, open: -1}
		if before != nil {
			known.marked = before.marked
			if before.open >= 0 {
				known.open = 0
			}
		}
		mo.producers[k] = known
	}
	first := int64(b.BaseSequence)
	known.batches = append(known.batches, modelBatch{first, (first + int64(b.LastOffsetDelta)) % sequences, base, now})
	known.known++
	known.touched, known.time, known.aborted = index, now, nil
	if b.Transactional && known.open < 0 {
		known.open = len(known.batches) - 1
	}
	for i := 0; i < 2 && len(mo.producers) > mo.limits.Producers; i++ {
		if o, ok := mo.oldest(); ok && o != k {
			delete(mo.producers, o)
		}
	}
}

func (mo *model) ended(p entry.Partition, mark Marker, now entry.Time, index entry.Index) {
	k := key{p, mark.ProducerID}
	known := mo.producers[k]
	switch {
	case known == nil:
		known = &modelProducer{epoch: mark.Epoch}
		mo.producers[k] = known
	case mark.Epoch > known.epoch:
		known.epoch, known.batches, known.known, known.aborted = mark.Epoch, nil, 0, nil
	case mark.Abort && known.open >= 0:
		known.known, known.aborted = 0, &known.batches[known.open]
	}
	known.open, known.marked, known.touched, known.time = -1, true, index, now
}

func (mo *model) silent(known *modelProducer, now entry.Time) bool {
	return known.open < 0 && now-known.time >= entry.Time(mo.limits.Expiration/time.Millisecond)
}

// oldest is the one to be forgotten next, if there is one.
func (mo *model) oldest() (key, bool) {
	var all []key
	for k, p := range mo.producers {
		if p.open < 0 {
			all = append(all, k)
		}
	}
	if len(all) == 0 {
		return key{}, false
	}
	return slices.MinFunc(all, func(a, b key) int {
		return int(mo.producers[a].touched) - int(mo.producers[b].touched)
	}), true
}

func (mo *model) expire(limits Limits, most int, now entry.Time) Expired {
	mo.limits = limits
	due := func() bool {
		o, ok := mo.oldest()
		return ok && (len(mo.producers) > limits.Producers || mo.silent(mo.producers[o], now))
	}
	var done Expired
	for done.Forgotten < most && due() {
		o, _ := mo.oldest()
		delete(mo.producers, o)
		done.Forgotten++
	}
	done.More = due()
	return done
}

// TestMachineAgreesWithModel drives a machine, a twin of it that is restarted
// from its checkpoints at random moments, and the model. All three must say the
// same, and the two machines must leave the same state behind.
func TestMachineAgreesWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		live, twin := newRun(), newRun()
		disk, twinDisk := store{}, store{}
		mo := &model{producers: map[key]*modelProducer{}, limits: DefaultLimits}
		now := entry.Time(1000)
		checkpoint := func() {
			live.m.Checkpoint(disk)
			twin.m.Checkpoint(twinDisk)
			if disk.String() != twinDisk.String() {
				t.Fatalf("state differs after a restart:\n%v\nuninterrupted:\n%v", twinDisk, disk)
			}
		}
		partition := rapid.SampledFrom([]entry.Partition{1, 1, 2, 3})

		actions := map[string]func(*rapid.T){
			"produce": func(t *rapid.T) {
				p := partition.Draw(t, "partition")
				b := drawBatch(t, mo, p)
				want := mo.judge(p, b, now)
				if want == "ok" {
					mo.appended(p, b, live.ends[p], now, live.last+1)
				}
				if got := live.produce(p, b, now); got != want {
					t.Fatalf("%+v: got %s, want %s", b, got, want)
				}
				if got := twin.produce(p, b, now); got != want {
					t.Fatalf("%+v: after a restart got %s, want %s", b, got, want)
				}
			},
			"end": func(t *rapid.T) {
				p := partition.Draw(t, "partition")
				mark := Marker{
					ProducerID: rapid.Int64Range(0, 4).Draw(t, "id"), Epoch: int16(rapid.IntRange(0, 3).Draw(t, "epoch")),
					Abort: rapid.Bool().Draw(t, "abort"),
				}
				known := mo.producers[key{p, mark.ProducerID}]
				if known != nil && rapid.Bool().Draw(t, "same epoch") {
					mark.Epoch = known.epoch
				}
				newer := rapid.Bool().Draw(t, "newer")
				fits := known == nil || mark.Epoch > known.epoch || mark.Epoch == known.epoch && (!newer || known.open < 0 && known.marked)
				if fits {
					mo.ended(p, mark, now, live.last+1)
				}
				for _, r := range []*run{live, twin} {
					r.last++
					if err := r.m.CheckMarker(p, mark, newer); (err == nil) != fits {
						t.Fatalf("%+v: %v, fits: %v", mark, err, fits)
					}
					if fits {
						r.m.Ended(p, mark, now, r.last)
						r.ends[p]++
					}
				}
			},
			"wait": func(t *rapid.T) { now += entry.Time(rapid.SampledFrom([]int{0, 1, 10, 100, 2000}).Draw(t, "ms")) },
			"expire": func(t *rapid.T) {
				limits := Limits{
					Expiration: rapid.SampledFrom([]time.Duration{time.Second, 3 * time.Second, time.Minute, time.Hour}).Draw(t, "expiration"),
					Producers:  rapid.SampledFrom([]int{2, 5, 8, 11, 20}).Draw(t, "producers"),
				}
				most := rapid.IntRange(0, 4).Draw(t, "most")
				payload, err := EncodeExpire(limits, most)
				if err != nil {
					t.Fatal(err)
				}
				want := mo.expire(limits, most, now)
				for _, r := range []*run{live, twin} {
					r.last++
					res := r.m.Apply(&entry.Entry{Type: entry.TypeExpireProducers, Index: r.last, Time: now, Payload: payload}, nil)
					if res.Err != nil || res.Value != want {
						t.Fatalf("got %+v, want %+v", res, want)
					}
				}
			},
			"allocate": func(t *rapid.T) {
				for _, r := range []*run{live, twin} {
					r.last++
					if res := r.m.Apply(&entry.Entry{Type: entry.TypeAllocateProducerID, Index: r.last}, nil); res.Value != mo.nextID {
						t.Fatalf("got %+v, want id %d", res, mo.nextID)
					}
				}
				mo.nextID++
			},
			"delete partition": func(t *rapid.T) {
				p := partition.Draw(t, "partition")
				live.m.DeletePartition(p)
				twin.m.DeletePartition(p)
				maps.DeleteFunc(mo.producers, func(k key, _ *modelProducer) bool { return k.partition == p })
			},
			"checkpoint": func(t *rapid.T) { checkpoint() },
			"restart": func(t *rapid.T) {
				checkpoint()
				twin.m = New()
				if err := twin.m.Load(twinDisk); err != nil {
					t.Fatal(err)
				}
			},
			"compare": func(t *rapid.T) {
				for p := entry.Partition(1); p <= 3; p++ {
					got := live.m.Producers(p, nil)
					if !slices.Equal(got, twin.m.Producers(p, nil)) || !slices.Equal(got, mo.list(p)) {
						t.Fatalf("partition %d: %v, after a restart %v, want %v", p, got, twin.m.Producers(p, nil), mo.list(p))
					}
				}
				if live.m.Len() != len(mo.producers) || live.m.Limits() != mo.limits {
					t.Fatalf("%d producers, limits %+v", live.m.Len(), live.m.Limits())
				}
			},
		}
		// Mostly produce, and many steps, so that memories fill up.
		names := slices.Sorted(maps.Keys(actions))
		for range 100 {
			names = append(names, "produce")
		}
		for range 15 {
			names = append(names, "end")
		}
		for range 300 {
			actions[rapid.SampledFrom(names).Draw(t, "action")](t)
			actions["compare"](t)
		}
	})
}

func (mo *model) list(p entry.Partition) []Producer {
	var all []Producer
	for k, known := range mo.producers {
		if k.partition == p {
			last := noSequence
			if n := len(known.batches); n > 0 {
				last = int32(known.batches[n-1].last)
			}
			all = append(all, Producer{k.id, known.epoch, last, known.time, known.marked})
		}
	}
	slices.SortFunc(all, func(a, b Producer) int { return int(a.ID - b.ID) })
	return all
}

// drawBatch draws a batch that is likely to be of interest: the next one, one of
// the last few again, or something near to either, close to the wrap as well.
func drawBatch(t *rapid.T, mo *model, p entry.Partition) Batch {
	b := Batch{
		ProducerID:      rapid.SampledFrom([]int64{-1, 0, 0, 0, 0, 1, 1, 2, 3, 4}).Draw(t, "id"),
		ProducerEpoch:   int16(rapid.IntRange(0, 2).Draw(t, "epoch")),
		BaseSequence:    rapid.SampledFrom([]int32{0, 1, 5, math.MaxInt32 - 2, math.MaxInt32}).Draw(t, "sequence"),
		LastOffsetDelta: rapid.Int32Range(0, 3).Draw(t, "delta"),
	}
	b.Transactional, b.FromZero = rapid.Bool().Draw(t, "transactional"), rapid.Bool().Draw(t, "from zero")
	known := mo.producers[key{p, b.ProducerID}]
	if known == nil || len(known.batches) == 0 {
		return b
	}
	switch rapid.SampledFrom([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}).Draw(t, "kind") {
	default: // the next
		b.ProducerEpoch = known.epoch
		b.BaseSequence = int32((known.batches[len(known.batches)-1].last + 1) % sequences)
	case 1, 2, 3: // a retry
		b.ProducerEpoch = known.epoch
		old := known.batches[max(0, len(known.batches)-1-rapid.SampledFrom([]int{0, 1, 2, 3, 4, 5, 6}).Draw(t, "back"))]
		b.BaseSequence = int32(old.first)
		b.LastOffsetDelta = int32((old.last - old.first + sequences) % sequences)
	case 4: // near the next
		b.ProducerEpoch = known.epoch
		next := known.batches[len(known.batches)-1].last + sequences + rapid.Int64Range(-4, 4).Draw(t, "off by")
		b.BaseSequence = int32(next % sequences)
	case 5: // a new epoch
		b.ProducerEpoch = known.epoch + 1
		b.BaseSequence = int32(rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "first"))
	case 6: // anything (also for the producer id -1)
	}
	return b
}

func TestKerrNamesAreThoseOfTheModel(t *testing.T) {
	for code, name := range map[kerr.Code]string{
		kerr.InvalidProducerEpoch: "INVALID_PRODUCER_EPOCH", kerr.OutOfOrderSequenceNumber: "OUT_OF_ORDER_SEQUENCE_NUMBER",
	} {
		if code.String() != name {
			t.Errorf("%v is not %s", code, name)
		}
	}
}
