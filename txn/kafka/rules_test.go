package kafka

import (
	"fmt"
	"testing"

	"github.com/sluicemq/sluice/log/entry"
)

// in brings a new transactional id into a state, at epoch 3, which the producer
// itself raised from 2.
func in(t *testing.T, state State) (*world, Producer) {
	t.Helper()
	w := newWorld(1)
	p, got := w.init("x")
	must(t, got)
	for range 3 {
		p, got = w.initAs(&Init{ID: "x", TimeoutMs: 60000, ProducerID: p.ID, Epoch: p.Epoch})
		must(t, got)
	}
	if state == Empty {
		return w, p
	}
	must(t, w.add("x", p, 1))
	must(t, w.produce(1, p, false))
	if state != Ongoing {
		_, got = w.end(&End{ID: "x", ProducerID: p.ID, Epoch: p.Epoch, Commit: state == CompleteCommit})
		must(t, got)
	}
	return w, p
}

func TestEndOfTheOlderProtocol(t *testing.T) {
	for _, c := range []struct {
		state         State
		commit, abort string
	}{
		{Ongoing, "ok", "ok"},
		{CompleteCommit, "ok", "INVALID_TXN_STATE"},
		{CompleteAbort, "INVALID_TXN_STATE", "ok"},
		{Empty, "INVALID_TXN_STATE", "INVALID_TXN_STATE"},
	} {
		for commit, want := range map[bool]string{true: c.commit, false: c.abort} {
			w, p := in(t, c.state)
			before := w.ends[1]
			after, got := w.end(&End{ID: "x", ProducerID: p.ID, Epoch: p.Epoch, Commit: commit})
			if got != want || got == "ok" && after != p {
				t.Errorf("%v, commit %v: %s, %+v", c.state, commit, got, after)
			}
			if markers := w.ends[1] - before; (markers == 1) != (c.state == Ongoing) {
				t.Errorf("%v, commit %v: %d markers", c.state, commit, markers)
			}
			d, _ := w.m.Describe("x")
			if got == "ok" && d.State != ended(commit) || got != "ok" && d.State != c.state || d.Producer != p {
				t.Errorf("%v, commit %v: then %v, %+v", c.state, commit, d.State, d.Producer)
			}
		}
	}
}

func TestEndOfTheNewerProtocol(t *testing.T) {
	for _, c := range []struct {
		state         State
		commit, abort string // with the epoch there is
	}{
		{Ongoing, "ok", "ok"},
		{Empty, "INVALID_TXN_STATE", "ok"},
		{CompleteCommit, "INVALID_TXN_STATE", "ok"},
		{CompleteAbort, "INVALID_TXN_STATE", "ok"},
	} {
		for commit, want := range map[bool]string{true: c.commit, false: c.abort} {
			w, p := in(t, c.state)
			q := &End{ID: "x", ProducerID: p.ID, Epoch: p.Epoch, Commit: commit, Newer: true}
			after, got := w.end(q)
			if got != want {
				t.Errorf("%v, commit %v: %s", c.state, commit, got)
			}
			if got != "ok" {
				continue
			}
			if after != (Producer{p.ID, p.Epoch + 1}) {
				t.Errorf("%v, commit %v: then %+v", c.state, commit, after)
			}
			// The answer is lost, and the request comes again.
			ends := w.ends[1]
			if again, got := w.end(q); got != "ok" || again != after || w.ends[1] != ends {
				t.Errorf("%v, commit %v, again: %s, %+v", c.state, commit, got, again)
			}
			q.Commit = !commit
			if _, got := w.end(q); got != "INVALID_TXN_STATE" {
				t.Errorf("%v, commit %v, and then otherwise: %s", c.state, commit, got)
			}
		}
	}
	for _, state := range []State{Empty, Ongoing} { // with the epoch before
		w, p := in(t, state)
		for _, commit := range []bool{true, false} {
			if _, got := w.end(&End{ID: "x", ProducerID: p.ID, Epoch: p.Epoch - 1, Commit: commit, Newer: true}); got != "PRODUCER_FENCED" {
				t.Errorf("%v, commit %v, with the epoch before: %s", state, commit, got)
			}
		}
	}
}

func TestStrangersAreToldSo(t *testing.T) {
	w, p := in(t, Ongoing)
	for _, c := range []struct {
		name string
		id   string
		p    Producer
		want string
	}{
		{"unknown id", "y", p, "INVALID_PRODUCER_ID_MAPPING"},
		{"other producer id", "x", Producer{p.ID + 1, p.Epoch}, "INVALID_PRODUCER_ID_MAPPING"},
		{"older epoch", "x", Producer{p.ID, p.Epoch - 2}, "PRODUCER_FENCED"},
		{"newer epoch", "x", Producer{p.ID, p.Epoch + 1}, "PRODUCER_FENCED"},
		{"epoch below 0", "x", Producer{p.ID, -1}, "PRODUCER_FENCED"},
	} {
		got := map[string]string{"add": w.add(c.id, c.p, 1), "offsets": w.pend(c.id, c.p, "g", 1, 5, true)}
		_, got["end"] = w.end(&End{ID: c.id, ProducerID: c.p.ID, Epoch: c.p.Epoch, Commit: true})
		_, got["end of the newer protocol"] = w.end(&End{ID: c.id, ProducerID: c.p.ID, Epoch: c.p.Epoch, Commit: true, Newer: true})
		got["verify"] = code(w.m.Verify(c.id, c.p, 1))
		for what, got := range got {
			if got != c.want {
				t.Errorf("%s, %s: %s, want %s", c.name, what, got, c.want)
			}
		}
	}
	for _, adds := range []bool{true, false} {
		for want, p := range map[string]Producer{
			"INVALID_PRODUCER_ID_MAPPING": {p.ID + 1, p.Epoch}, "INVALID_PRODUCER_EPOCH": {p.ID, p.Epoch + 1},
		} {
			if got := w.produce(1, p, adds); got != want {
				t.Errorf("produce as %+v: %s, want %s", p, got, want)
			}
		}
	}
}

func TestNewInstanceFencesAndAborts(t *testing.T) {
	w, old := in(t, Ongoing)
	p, got := w.init("x")
	if got != "ok" || p != (Producer{old.ID, old.Epoch + 2}) {
		t.Fatalf("%s, %+v after %+v", got, p, old)
	}
	if a := w.m.Aborted(1, 0, 10, nil); len(a) != 1 || w.stable(1) != 2 || w.ends[1] != 2 {
		t.Errorf("aborted %v, stable %d of %d", a, w.stable(1), w.ends[1])
	}
	if got := w.produce(1, old, true); got != "INVALID_PRODUCER_EPOCH" {
		t.Errorf("the old one produces: %s", got)
	}
	for _, newer := range []bool{true, false} {
		if _, got := w.end(&End{ID: "x", ProducerID: old.ID, Epoch: old.Epoch, Commit: true, Newer: newer}); got != "PRODUCER_FENCED" {
			t.Errorf("the old one commits: %s", got)
		}
	}
	if _, got := w.initAs(&Init{ID: "x", TimeoutMs: 1, ProducerID: old.ID, Epoch: old.Epoch}); got != "PRODUCER_FENCED" {
		t.Errorf("the old one goes on: %s", got)
	}
}

func TestProducerGoesOnAfterAnError(t *testing.T) {
	w, p := in(t, Ongoing)
	q := &Init{ID: "x", TimeoutMs: 60000, ProducerID: p.ID, Epoch: p.Epoch}
	after, got := w.initAs(q)
	if got != "ok" || after != (Producer{p.ID, p.Epoch + 1}) {
		t.Fatalf("%s, %+v", got, after)
	}
	if again, got := w.initAs(q); got != "ok" || again != after {
		t.Errorf("again: %s, %+v", got, again)
	}
	if d, _ := w.m.Describe("x"); d.State != Empty {
		t.Errorf("then %v", d.State)
	}
	if _, got := w.initAs(&Init{ID: "x", TimeoutMs: 60000, ProducerID: p.ID, Epoch: p.Epoch - 1}); got != "PRODUCER_FENCED" {
		t.Errorf("with an older epoch: %s", got)
	}
}

func TestAbortForANewInstanceNeedsTheRightMarker(t *testing.T) {
	w, p := in(t, Ongoing)
	q := &Init{ID: "x", TimeoutMs: 60000, ProducerID: noProducer, Epoch: noEpoch}
	if _, got := w.apply(entry.TypeInitTransactions, Marker{ProducerID: p.ID, Epoch: p.Epoch}, q.Append(nil)); got != "CONCURRENT_TRANSACTIONS" {
		t.Errorf("got %s", got)
	}
	if d, _ := w.m.Describe("x"); d.State != Ongoing || d.Producer != p || w.ends[1] != 1 {
		t.Errorf("then %+v, and %d records", d, w.ends[1])
	}
	end := &End{ID: "x", ProducerID: p.ID, Epoch: p.Epoch, Commit: true}
	if _, got := w.apply(entry.TypeEndTransaction, Marker{ProducerID: p.ID, Epoch: p.Epoch, Commit: false}, end.Append(nil)); got == "ok" {
		t.Error("a commit with the marker of an abort was applied")
	}
}

func TestEpochsRunOut(t *testing.T) {
	at := func(t *testing.T, epoch int16, state State) (*world, Producer) {
		w, p := in(t, Empty)
		w.m.byID["x"].epoch, w.m.byID["x"].before = epoch, noEpoch
		w.m.byID["x"].beforeProducer = noProducer
		p.Epoch = epoch
		if state == Ongoing {
			must(t, w.produce(1, p, true))
		}
		return w, p
	}
	t.Run("at the end of a transaction", func(t *testing.T) {
		w, p := at(t, lastEpoch, Ongoing)
		q := &End{ID: "x", ProducerID: p.ID, Epoch: p.Epoch, Commit: true, Newer: true}
		if m := q.Marker(); m.Epoch != lastEpoch+1 {
			t.Errorf("marker %+v", m)
		}
		after, got := w.end(q)
		if got != "ok" || after.ID == p.ID || after.Epoch != 0 {
			t.Fatalf("%s, %+v", got, after)
		}
		if again, got := w.end(q); got != "ok" || again != after {
			t.Errorf("again: %s, %+v", got, again)
		}
		if got := w.produce(1, p, true); got != "INVALID_PRODUCER_ID_MAPPING" {
			t.Errorf("with the old id: %s", got)
		}
		must(t, w.produce(1, after, true))
		w.restart(t)
		must(t, w.produce(1, after, true))
	})
	for _, state := range []State{Empty, Ongoing} {
		t.Run("for a new instance, "+state.String(), func(t *testing.T) {
			w, p := at(t, lastEpoch, state)
			if after, got := w.init("x"); got != "ok" || after.ID == p.ID || after.Epoch != 0 {
				t.Errorf("%s, %+v", got, after)
			}
		})
		t.Run("for one that goes on, "+state.String(), func(t *testing.T) {
			w, p := at(t, lastEpoch, state)
			q := &Init{ID: "x", TimeoutMs: 1, ProducerID: p.ID, Epoch: p.Epoch}
			after, got := w.initAs(q)
			if got != "ok" || after.ID == p.ID || after.Epoch != 0 {
				t.Errorf("%s, %+v", got, after)
			}
			if again, got := w.initAs(q); got != "ok" || again != after {
				t.Errorf("again: %s, %+v", got, again)
			}
		})
	}
	t.Run("by a time-out", func(t *testing.T) {
		w, p := at(t, lastEpoch, Ongoing)
		w.now += 60000
		for _, q := range w.m.Overdue(w.now) {
			w.end(&q)
		}
		none := Producer{p.ID, lastEpoch + 1} // given to nobody
		for _, got := range []string{w.produce(1, none, true), w.add("x", none, 1)} {
			if got != "INVALID_PRODUCER_EPOCH" && got != "PRODUCER_FENCED" {
				t.Errorf("with an epoch above the last: %s", got)
			}
		}
		after, got := w.initAs(&Init{ID: "x", TimeoutMs: 1, ProducerID: p.ID, Epoch: p.Epoch})
		if got != "ok" || after.ID == p.ID || after.Epoch != 0 {
			t.Errorf("goes on: %s, %+v", got, after)
		}
	})
}

func TestTimeOutAbortsAndFences(t *testing.T) {
	w, p := in(t, Ongoing)
	w.now += 59_999
	if late := w.m.Overdue(w.now); len(late) != 0 {
		t.Fatalf("overdue after 59.999 s: %+v", late)
	}
	w.now++
	late := w.m.Overdue(w.now)
	if want := (End{ID: "x", ProducerID: p.ID, Epoch: p.Epoch, TimedOut: true, Started: 1000}); len(late) != 1 || late[0] != want {
		t.Fatalf("overdue: %+v", late)
	}
	if after, got := w.end(&late[0]); got != "ok" || after != (Producer{p.ID, p.Epoch + 1}) {
		t.Fatalf("%s, %+v", got, after)
	}
	d, _ := w.m.Describe("x")
	if a := w.m.Aborted(1, 0, 10, nil); d.State != CompleteAbort || len(a) != 1 || w.stable(1) != w.ends[1] {
		t.Errorf("then %v, aborted %v, stable %d", d.State, a, w.stable(1))
	}
	if got := w.produce(1, p, true); got != "INVALID_PRODUCER_EPOCH" {
		t.Errorf("produce: %s", got)
	}
	if _, got := w.end(&End{ID: "x", ProducerID: p.ID, Epoch: p.Epoch, Commit: true}); got != "PRODUCER_FENCED" {
		t.Errorf("commit: %s", got)
	}
	if _, got := w.end(&End{ID: "x", ProducerID: p.ID, Epoch: p.Epoch, Commit: true, Newer: true}); got != "INVALID_TXN_STATE" {
		t.Errorf("commit by the newer protocol: %s", got)
	}
	// The producer itself may go on.
	if after, got := w.initAs(&Init{ID: "x", TimeoutMs: 5, ProducerID: p.ID, Epoch: p.Epoch}); got != "ok" || after != (Producer{p.ID, p.Epoch + 1}) {
		t.Errorf("goes on: %s, %+v", got, after)
	}
}

func TestTimeOutThatComesTooLateDoesNothing(t *testing.T) {
	w, p := in(t, Ongoing)
	w.now += 60_000
	late := w.m.Overdue(w.now)[0]
	for _, c := range []struct {
		name    string
		happens func()
	}{
		{"committed", func() { w.end(&End{ID: "x", ProducerID: p.ID, Epoch: p.Epoch, Commit: true}) }},
		{"and another one is open", func() { w.add("x", p, 1) }},
	} {
		c.happens()
		before, _ := w.m.Describe("x")
		ends := w.ends[1]
		if _, got := w.end(&late); got != "ok" {
			t.Errorf("%s: %s", c.name, got)
		}
		if after, _ := w.m.Describe("x"); fmt.Sprint(before) != fmt.Sprint(after) || w.ends[1] != ends {
			t.Errorf("%s: %+v became %+v", c.name, before, after)
		}
	}
}
