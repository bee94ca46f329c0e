package kafka

import (
	"fmt"
	"testing"

	"github.com/sluicemq/sluice/log/entry"
)

// B44: one open transaction at offset 10 between plain records.
func TestStableOffsetIsTheFirstOfTheOldestOpenTransaction(t *testing.T) {
	w := newWorld(1, 2)
	p, _ := w.init("x")
	q, _ := w.init("y")
	w.ends[1] = 10
	must(t, w.produce(1, p, true))
	w.ends[1] = 15
	must(t, w.produce(1, q, true))
	must(t, w.produce(1, p, true))
	w.ends[1] = 21
	if w.stable(1) != 10 || w.stable(2) != 0 {
		t.Fatalf("stable are %d and %d", w.stable(1), w.stable(2))
	}
	w.restart(t)
	if w.stable(1) != 10 {
		t.Fatalf("after a restart %d", w.stable(1))
	}
	w.end(&End{ID: "x", ProducerID: p.ID, Epoch: p.Epoch, Commit: true})
	if w.stable(1) != 15 || w.ends[1] != 22 {
		t.Fatalf("one committed: %d of %d", w.stable(1), w.ends[1])
	}
	w.end(&End{ID: "y", ProducerID: q.ID, Epoch: q.Epoch, Commit: true})
	if w.stable(1) != 23 || len(w.m.Aborted(1, 0, 23, nil)) != 0 {
		t.Fatalf("both committed: %d, aborted %v", w.stable(1), w.m.Aborted(1, 0, 23, nil))
	}
}

func TestReadersAreWokenBehindAllChanges(t *testing.T) {
	w := newWorld(1, 2, 3)
	p, _ := w.init("x")
	must(t, w.add("x", p, 3, 1, 2))
	must(t, w.produce(2, p, false))
	w.end(&End{ID: "x", ProducerID: p.ID, Epoch: p.Epoch, Commit: true})
	if fmt.Sprint(w.woken) != "[1 2 3]" || w.ends[1] != 1 || w.ends[2] != 2 || w.ends[3] != 1 {
		t.Errorf("woken %v, ends %v", w.woken, w.ends)
	}
}

// B77: a topic that is deleted in a transaction is not in it any more.
func TestDeletedPartitionLeavesTheTransaction(t *testing.T) {
	w := newWorld(1, 2)
	p, _ := w.init("x")
	q, _ := w.init("y")
	for at := entry.Partition(1); at <= 2; at++ {
		must(t, w.produce(at, p, true))
		must(t, w.produce(at, q, true))
	}
	w.end(&End{ID: "y", ProducerID: q.ID, Epoch: q.Epoch})
	delete(w.ends, 1)
	w.m.DeletePartition(1, w)
	w.restart(t)
	if d, _ := w.m.Describe("x"); fmt.Sprint(d.Partitions) != "[2]" || d.State != Ongoing {
		t.Errorf("then %+v", d)
	}
	if w.stable(1) != 0 || len(w.m.Open(1, nil)) != 0 || len(w.m.Aborted(1, 0, 100, nil)) != 0 {
		t.Error("something is left of the partition")
	}
	if _, got := w.end(&End{ID: "x", ProducerID: p.ID, Epoch: p.Epoch, Commit: true}); got != "ok" || w.stable(2) != w.ends[2] {
		t.Errorf("%s, stable %d of %d", got, w.stable(2), w.ends[2])
	}
	if n := w.m.unstable.Load(); n != 0 || w.m.opened != 0 {
		t.Errorf("%d partitions are unstable, %d open", n, w.m.opened)
	}
}

// B80: what comes after the end opens nothing.
func TestLateBatchIsRefused(t *testing.T) {
	w := newWorld(1, 2)
	p, _ := w.init("x")
	must(t, w.add("x", p, 1))
	if got := w.produce(2, p, false); got != "INVALID_TXN_STATE" {
		t.Errorf("to a partition that was not added: %s", got)
	}
	must(t, w.produce(1, p, false))
	w.end(&End{ID: "x", ProducerID: p.ID, Epoch: p.Epoch})
	if got := w.produce(1, p, false); got != "INVALID_TXN_STATE" {
		t.Errorf("after the abort: %s", got)
	}
	must(t, w.produce(1, p, true))
	next, _ := w.end(&End{ID: "x", ProducerID: p.ID, Epoch: p.Epoch, Newer: true})
	for _, adds := range []bool{true, false} {
		if got := w.produce(1, p, adds); got != "INVALID_PRODUCER_EPOCH" {
			t.Errorf("after an abort of the newer protocol: %s", got)
		}
	}
	// B83: a late end does not end the next one.
	must(t, w.produce(1, next, true))
	if _, got := w.end(&End{ID: "x", ProducerID: p.ID, Epoch: p.Epoch, Commit: true, Newer: true}); got != "PRODUCER_FENCED" {
		t.Errorf("a late end: %s", got)
	}
	if w.stable(1) == w.ends[1] {
		t.Error("the transaction is not open any more")
	}
}

func TestPlainBatchOfAProducerInATransactionIsRefused(t *testing.T) {
	w := newWorld(1, 2)
	p, _ := w.init("x")
	must(t, w.add("x", p, 2))
	must(t, w.produce(1, p, true))
	for _, c := range []struct {
		at   entry.Partition
		id   int64
		want string
	}{{1, p.ID, "INVALID_TXN_STATE"}, {2, p.ID, "ok"}, {1, p.ID + 1, "ok"}} {
		if got := code(w.m.Plain(c.at, c.id)); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	w.end(&End{ID: "x", ProducerID: p.ID, Epoch: p.Epoch})
	must(t, code(w.m.Plain(1, p.ID)))
}

func TestOperatorEndsATransactionInOnePartition(t *testing.T) {
	w := newWorld(1, 2, 3)
	p, _ := w.init("x")
	must(t, w.produce(1, p, true))
	must(t, w.produce(2, p, true))
	w.fenced[3] = true
	q := Markers{Partitions: []entry.Partition{1, 3, 9}}
	value, got := w.apply(entry.TypeWriteMarkers, Marker{ProducerID: p.ID, Epoch: p.Epoch}, q.Append(nil))
	if want := "[NONE INVALID_PRODUCER_EPOCH UNKNOWN_TOPIC_OR_PARTITION]"; got != "ok" || fmt.Sprint(value) != want {
		t.Fatalf("%s, %v", got, value)
	}
	if w.stable(1) != 2 || len(w.m.Aborted(1, 0, 2, nil)) != 1 || w.stable(2) != 0 {
		t.Errorf("stable %d and %d", w.stable(1), w.stable(2))
	}
	w.restart(t)
	must(t, w.produce(1, p, true)) // it comes back
	if w.stable(1) != 2 {
		t.Errorf("open again, stable %d", w.stable(1))
	}
	w.end(&End{ID: "x", ProducerID: p.ID, Epoch: p.Epoch, Commit: true})
	if a := w.m.Aborted(1, 0, w.ends[1], nil); len(a) != 1 || w.stable(1) != w.ends[1] || w.stable(2) != w.ends[2] {
		t.Errorf("aborted %v, stable %d and %d", a, w.stable(1), w.stable(2))
	}
}

func TestIdleTransactionalIDsAreForgotten(t *testing.T) {
	w := newWorld(1)
	p, _ := w.init("open")
	must(t, w.produce(1, p, true))
	w.init("idle")
	w.m.Checkpoint(w)
	w.now += 500
	w.init("busy")
	w.now += 500
	if got := fmt.Sprint(w.m.Idle(w.now, 1000, 10)); got != "[idle]" {
		t.Fatalf("idle are %s", got)
	}
	q := Expire{ExpirationMs: 1000, IDs: []string{"open", "idle", "busy", "gone"}}
	if n, got := w.apply(entry.TypeExpireTransactions, Marker{}, q.Append(nil)); got != "ok" || n != 1 {
		t.Errorf("%s, %v", got, n)
	}
	w.restart(t)
	if s := w.m.Stats(); s.IDs != 2 || s.Ongoing != 1 || s.Oldest != 1000 {
		t.Errorf("left are %+v", s)
	}
	if _, got := w.end(&End{ID: "idle", ProducerID: 101, Commit: true}); got != "INVALID_PRODUCER_ID_MAPPING" {
		t.Errorf("the client of the one that is gone: %s", got)
	}
}
