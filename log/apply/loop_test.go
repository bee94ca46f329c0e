package apply_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/log/apply"
	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/protocol/kerr"
)

func TestEntriesAreAppliedInTheOrderOfTheLog(t *testing.T) {
	r := mustStart(t, pebblevfs.NewMem(), nil)
	defer r.mustStop(t)
	r.mustDo(t, entry.TypeCreateTopic, 1, nil)
	r.mustDo(t, entry.TypeCreateTopic, 2, nil)
	const perGoroutine, goroutines = 200, 4
	var wait sync.WaitGroup
	offsets := make([][]entry.Offset, goroutines)
	for g := range goroutines {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for range perGoroutine {
				result := r.do(entry.TypeProduce, entry.Partition(1+g%2), plain(2))
				if result.Err != nil {
					t.Error(result.Err)
				}
				offsets[g] = append(offsets[g], result.Offset)
			}
		}()
	}
	wait.Wait()
	for p := range 2 {
		seen := map[entry.Offset]bool{}
		for g := p; g < goroutines; g += 2 {
			before := entry.Offset(-1)
			for _, offset := range offsets[g] {
				if offset <= before || offset%2 != 0 || seen[offset] {
					t.Fatalf("partition %d: offset %d after %d", p+1, offset, before)
				}
				before, seen[offset] = offset, true
			}
		}
		if start, end := r.queues.Get(entry.Partition(p + 1)).Bounds(); start != 0 || end != 2*entry.Offset(len(seen)) || len(seen) != 2*perGoroutine {
			t.Errorf("partition %d: [%d,%d) after %d batches", p+1, start, end, len(seen))
		}
	}
	if got := r.loop.Applied(); got != 2+goroutines*perGoroutine {
		t.Errorf("applied %d", got)
	}
}

// What is refused is in the log, and changes nothing.
func TestRefusalsLeaveNoTrace(t *testing.T) {
	r := mustStart(t, pebblevfs.NewMem(), nil)
	defer r.mustStop(t)
	r.mustDo(t, entry.TypeCreateTopic, 1, nil)
	r.mustDo(t, entry.TypeProduce, 1, records(3, &batch.Producer{ID: 5}, 0, 1000))
	digest, contents := r.digest(t), r.contents(t)

	short := plain(1)[:batch.HeaderSize-1]
	long := append(plain(1), 0)
	negative := plain(1)
	copy(negative[23:], []byte{0xff, 0xff, 0xff, 0xff}) // the last offset delta
	for _, test := range []struct {
		kind    entry.Type
		p       entry.Partition
		payload []byte
		code    kerr.Code
	}{
		{entry.TypeProduce, 2, plain(1), kerr.UnknownTopicOrPartition},
		{entry.TypeProduce, 0, plain(1), kerr.UnknownTopicOrPartition},
		{entry.TypeProduce, 1, nil, kerr.CorruptMessage},
		{entry.TypeProduce, 1, short, kerr.CorruptMessage},
		{entry.TypeProduce, 1, long, kerr.CorruptMessage},
		{entry.TypeProduce, 1, negative, kerr.CorruptMessage},
		{entry.TypeProduce, 1, records(1, &batch.Producer{ID: 5, Sequence: 4}, 0, 1000), kerr.OutOfOrderSequenceNumber},
		{entry.TypeCreateTopic, 1, nil, kerr.InvalidTopic},
		{entry.TypeDeleteTopic, 2, nil, kerr.InvalidTopic},
	} {
		before := r.loop.Applied()
		result := r.do(test.kind, test.p, test.payload)
		refused(t, result, test.code)
		if test.kind == entry.TypeProduce && (result.Offset != -1 || result.Time != -1 || result.LogStart != -1) {
			t.Errorf("answered %+v", result)
		}
		if got := r.loop.Applied(); got != before+1 {
			t.Errorf("applied %d after %d", got, before)
		}
	}
	if after := r.contents(t); after != contents {
		t.Errorf("queues are\n%swere\n%s", after, contents)
	}
	again := r.digest(t)
	// The applied index is part of the state; all else is as it was.
	r.mustDo(t, entry.TypeNoop, 0, nil)
	if with := r.digest(t); with == again || again == digest {
		t.Error("the applied index is not in the digest")
	}
	r.mustDo(t, entry.TypeProduce, 1, records(1, &batch.Producer{ID: 5, Sequence: 3}, 0, 1000)) // still the next one
}

func TestARepeatedBatchIsAnsweredAsTheFirstTime(t *testing.T) {
	r := mustStart(t, pebblevfs.NewMem(), nil)
	defer r.mustStop(t)
	r.mustDo(t, entry.TypeCreateTopic, 1, nil)
	r.mustDo(t, entry.TypeProduce, 1, plain(7))
	for _, test := range []struct {
		attributes batch.Attributes
		sequence   int32
		want       entry.Result
	}{
		{0, 0, entry.Result{Offset: 7, Time: -1}},
		{batch.LogAppendTime, 2, entry.Result{Offset: 9, Time: 5000}},
	} {
		// The repetition is stamped later; the answer is that of the first.
		for _, timestamp := range []int64{5000, 6000, 7000} {
			result := r.mustDo(t, entry.TypeProduce, 1, records(2, &batch.Producer{ID: 5, Sequence: test.sequence}, test.attributes, timestamp))
			if result != test.want {
				t.Errorf("at %d: answered %+v, want %+v", timestamp, result, test.want)
			}
		}
	}
	if _, end := r.queues.Get(1).Bounds(); end != 11 {
		t.Errorf("end is %d", end)
	}
	// When the batch is gone nobody knows its time any more.
	r.mustDo(t, entry.TypeLogStart, 0, apply.EncodeLogStarts([]apply.LogStart{{Partition: 1, Offset: 11}}))
	result := r.mustDo(t, entry.TypeProduce, 1, records(2, &batch.Producer{ID: 5, Sequence: 2}, batch.LogAppendTime, 8000))
	if (result != entry.Result{Offset: 9, Time: 8000, LogStart: 11}) {
		t.Errorf("answered %+v", result)
	}
}

func TestHeadsArePatchedInMemoryBeforeReadersSeeThem(t *testing.T) {
	r := mustStart(t, pebblevfs.NewMem(), nil)
	defer r.mustStop(t)
	r.mustDo(t, entry.TypeCreateTopic, 1, nil)
	for range 3 {
		payload := plain(2)
		offset := r.mustDo(t, entry.TypeProduce, 1, payload).Offset
		found, err := r.queues.Get(1).Find(offset, offset+1, 1, make([]foundBatch, 0, 1))
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		slice, ok := r.commits.Cached(found[0].Pos(), len(payload))
		if !ok {
			t.Fatal("not in memory")
		}
		if head := batch.Header(slice.Bytes); entry.Offset(head.BaseOffset()) != offset || head.LeaderEpoch() != 3 || !head.ChecksumFits() {
			t.Errorf("head at %d: %d, epoch %d", offset, head.BaseOffset(), head.LeaderEpoch())
		}
		slice.Release()
	}
}

func TestTheLogStartMovesForwardAndNotPastTheEnd(t *testing.T) {
	fs := pebblevfs.NewMem()
	r := mustStart(t, fs, nil)
	for p := entry.Partition(1); p <= 3; p++ {
		r.mustDo(t, entry.TypeCreateTopic, p, nil)
	}
	r.mustDo(t, entry.TypeProduce, 1, plain(10))
	r.mustDo(t, entry.TypeProduce, 2, plain(5))
	bounds := func(p entry.Partition) [2]entry.Offset {
		start, end := r.queues.Get(p).Bounds()
		return [2]entry.Offset{start, end}
	}
	for _, step := range []struct{ to, want entry.Offset }{
		{4, 4}, {2, 4}, {-1, 4}, {-1 << 63, 4}, {0, 4}, {4, 4}, {9, 9}, {1<<63 - 1, 10}, {3, 10},
	} {
		woken := r.hub.Watch([]entry.Partition{1})
		before := bounds(1)
		r.mustDo(t, entry.TypeLogStart, 0, apply.EncodeLogStarts([]apply.LogStart{
			{Partition: 1, Offset: step.to}, {Partition: 99, Offset: 5}, {Partition: 3, Offset: step.to},
		}))
		if got := bounds(1); got != [2]entry.Offset{step.want, 10} {
			t.Errorf("moved to %d: %v, want %d", step.to, got, step.want)
		}
		select {
		case <-woken.Woken():
			if before == bounds(1) {
				t.Errorf("moved to %d: waiters were woken for nothing", step.to)
			}
		default:
			if before != bounds(1) {
				t.Errorf("moved to %d: nobody was told", step.to)
			}
		}
		woken.Cancel()
	}
	want := r.contents(t)
	if bounds(3) != [2]entry.Offset{0, 0} || bounds(2) != [2]entry.Offset{0, 5} {
		t.Errorf("others: %v, %v", bounds(2), bounds(3))
	}
	if err := r.loop.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.Flush(); err != nil {
		t.Fatal(err)
	}
	r.mustStop(t)
	r = mustStart(t, fs, nil)
	defer r.mustStop(t)
	if got := r.contents(t); got != want {
		t.Errorf("after a restart\n%swas\n%s", got, want)
	}
}

// Deleting a partition wakes those who wait for it, and what comes for it is
// refused.
func TestADeletedPartitionIsGoneForEverybody(t *testing.T) {
	r := mustStart(t, pebblevfs.NewMem(), nil)
	defer r.mustStop(t)
	r.mustDo(t, entry.TypeCreateTopic, 1, nil)
	r.mustDo(t, entry.TypeProduce, 1, records(1, &batch.Producer{ID: 5}, 0, 1000))
	r.mustDo(t, entry.TypeLogStart, 0, apply.EncodeLogStarts([]apply.LogStart{{Partition: 1, Offset: 1}}))
	watch := r.hub.Watch([]entry.Partition{1})
	defer watch.Cancel()
	r.mustDo(t, entry.TypeDeleteTopic, 1, nil)
	<-watch.Woken()
	refused(t, r.do(entry.TypeProduce, 1, plain(1)), kerr.UnknownTopicOrPartition)
	if err := r.loop.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	v := r.store.NewView()
	defer v.Close()
	err := v.Scan([]byte("b"), []byte("z"), func(key, value []byte) bool {
		// Tail records go with their segment; numbers are not used again.
		if key[0] != 't' && !(key[0] == 'p' && len(key) < 9) {
			t.Errorf("left behind: %q", key)
		}
		return true
	})
	if err != nil {
		t.Error(err)
	}
}

func TestCheckpointsAreTakenWhenEnoughHasGathered(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*apply.Options)
		do     func(t *testing.T, r *rig, i int)
	}{
		"changes": {func(o *apply.Options) { o.BatchBytes = 1000 }, func(t *testing.T, r *rig, i int) {
			r.mustDo(t, entry.TypeCreateTopic, entry.Partition(10+i), nil) // writes 109 bytes and a little
		}},
		"batches": {func(o *apply.Options) { o.TailBytes = 400 }, func(t *testing.T, r *rig, i int) {
			r.mustDo(t, entry.TypeProduce, 1, plain(1)) // 40 bytes
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := mustStart(t, pebblevfs.NewMem(), test.change)
			defer r.mustStop(t)
			r.mustDo(t, entry.TypeCreateTopic, 1, nil)
			var at []entry.Index
			for i := range 40 {
				test.do(t, r, i)
				if applied := r.store.Applied(); len(at) == 0 && applied > 0 || len(at) > 0 && applied != at[len(at)-1] {
					if applied != r.loop.Applied() {
						t.Errorf("checkpoint at %d, applied is %d", applied, r.loop.Applied())
					}
					at = append(at, applied)
				}
			}
			if len(at) < 2 || len(at) > 6 {
				t.Errorf("checkpoints at %v of 41 entries", at)
			}
		})
	}
}

// An entry that no part of this version applies was written by a newer one. To
// pass over it would make another state than that version has.
func TestAnEntryOfUnknownTypeStopsTheLoopAndEachStart(t *testing.T) {
	mem := pebblevfs.NewCrashableMem()
	r := mustStart(t, mem, nil)
	r.mustDo(t, entry.TypeCreateTopic, 1, nil)
	if r.loop.Applies(entry.Type(200)) || !r.loop.Applies(entry.TypeCreateTopic) || !r.loop.Applies(entry.TypeProduce) {
		t.Error("Applies")
	}
	stopsOn(t, r, mem, func() entry.Result { return r.do(entry.Type(200), 0, []byte("new")) }, apply.ErrUnknownType, "type-200")
}

func TestAnEntryThatCannotBeReadStopsTheLoopAndEachStart(t *testing.T) {
	for name, bad := range map[string]func(r *rig) entry.Result{
		"of a part": func(r *rig) entry.Result { return r.do(entry.TypeCreateTopic, 9, []byte("?")) },
		"log start": func(r *rig) entry.Result { return r.do(entry.TypeLogStart, 0, []byte("not 16 bytes")) },
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			mem := pebblevfs.NewCrashableMem()
			r := mustStart(t, mem, nil)
			r.mustDo(t, entry.TypeCreateTopic, 1, nil)
			stopsOn(t, r, mem, func() entry.Result { return bad(r) }, nil, "entry 2 at 1:")
		})
	}
}

// stopsOn checks that a bad entry, the second of the log, stops the loop, that
// all who wait are answered, and that a start stops at the same entry.
func stopsOn(t *testing.T, r *rig, fs pebblevfs.FS, bad func() entry.Result, want error, text string) {
	t.Helper()
	refused(t, bad(), kerr.KafkaStorageError)
	for range 3 {
		refused(t, r.do(entry.TypeProduce, 1, plain(1)), kerr.KafkaStorageError)
	}
	refused(t, r.do(entry.TypeNoop, 0, nil), kerr.KafkaStorageError)
	if err := r.loop.Err(); err == nil || want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
		t.Errorf("stopped by %v, want %v with %q", err, want, text)
	}
	r.mu.Lock()
	if len(r.stopped) != 1 {
		t.Errorf("told %d times: %v", len(r.stopped), r.stopped)
	}
	r.mu.Unlock()
	if got := r.loop.Applied(); got != 1 {
		t.Errorf("applied %d", got)
	}
	if err := r.loop.Checkpoint(); err == nil {
		t.Error("a checkpoint was taken")
	}
	if _, end := r.queues.Get(1).Bounds(); end != 0 {
		t.Errorf("end is %d", end)
	}
	r.mustStop(t)
	for range 2 {
		again, err := start(fs, nil, nil)
		if err == nil {
			again.mustStop(t)
			t.Fatal("it started")
		}
		if want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
			t.Errorf("start: %v, want %v with %q", err, want, text)
		}
	}
}

func TestTwoPartsMayNotApplyTheSameType(t *testing.T) {
	_, err := start(pebblevfs.NewMem(), func(o *apply.Options) { o.Appliers = append(o.Appliers, o.Appliers[0]) }, nil)
	if err == nil {
		t.Fatal("it started")
	}
	_, err = start(pebblevfs.NewMem(), func(o *apply.Options) { o.Appliers = append(o.Appliers, produces{o.Appliers[0]}) }, nil)
	if err == nil || !strings.Contains(err.Error(), "produce") {
		t.Fatalf("a part that applies our own type: %v", err)
	}
}

// foundBatch shortens what Find gives.
type foundBatch = consumequeue.Located

type produces struct{ apply.Applier }

func (produces) Types() []entry.Type { return []entry.Type{entry.TypeProduce} }

func TestOffsetsEndBeforeTheyOverflow(t *testing.T) {
	for _, from := range []entry.Offset{1<<31 - 3, 1<<32 - 3, 1<<62 - 3, 1<<63 - 6} {
		fs := pebblevfs.NewMem()
		r := mustStart(t, fs, nil)
		r.mustDo(t, entry.TypeCreateTopic, 1, nil)
		r.queues.Get(1).Restore(from, from)
		var ok int
		for range 3 {
			result := r.do(entry.TypeProduce, 1, plain(2))
			if result.Err == nil {
				if result.Offset != from+2*entry.Offset(ok) {
					t.Errorf("from %d: batch %d is at %d", from, ok, result.Offset)
				}
				ok++
				continue
			}
			refused(t, result, kerr.InvalidRecord)
		}
		if _, end := r.queues.Get(1).Bounds(); end != from+2*entry.Offset(ok) || end < 0 {
			t.Errorf("from %d: end is %d after %d batches", from, end, ok)
		}
		if want := 3; from < 1<<62 && ok != want || from == 1<<63-6 && ok != 2 {
			t.Errorf("from %d: %d batches", from, ok)
		}
		r.mustStop(t)
	}
}

func TestTheNewestEntryIsWhereItIsSaidToBe(t *testing.T) {
	r := mustStart(t, pebblevfs.NewMem(), nil)
	defer r.mustStop(t)
	if number, end := r.loop.Active(); number != 0 || end != 0 {
		t.Errorf("before all: %d:%d", number, end)
	}
	r.mustDo(t, entry.TypeCreateTopic, 1, nil)
	before := r.loop.Bytes()
	payload := plain(3)
	r.mustDo(t, entry.TypeProduce, 1, payload)
	number, end := r.loop.Active()
	found, err := r.queues.Get(1).Find(0, 1, 1, make([]foundBatch, 0, 1))
	if err != nil || number != found[0].Segment || end != int64(found[0].At)+56+int64(len(payload)) {
		t.Errorf("%d:%d, the batch is at %v, %v", number, end, found, err)
	}
	if got := r.loop.Bytes() - before; got != 56+int64(len(payload)) {
		t.Errorf("%d bytes", got)
	}
	if err := r.commits.Roll(); err != nil {
		t.Fatal(err)
	}
	r.mustDo(t, entry.TypeNoop, 0, nil)
	if number, end := r.loop.Active(); number != 2 || end != 4096+56 {
		t.Errorf("after a roll: %d:%d", number, end)
	}
}
