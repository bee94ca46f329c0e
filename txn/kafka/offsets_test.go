package kafka

import (
	"fmt"
	"testing"

	"github.com/sluicemq/sluice/log/entry"
)

func TestOffsetsComeWithTheCommit(t *testing.T) {
	for _, commit := range []bool{true, false} {
		w := newWorld(1)
		p, got := w.init("x")
		must(t, got)
		if got := w.pend("x", p, "g", 1, 5, false); got != "INVALID_TXN_STATE" {
			t.Errorf("the group was not added: %s", got)
		}
		must(t, w.pend("x", p, "g", 1, 4, true))
		must(t, w.pend("x", p, "g", 1, 5, false)) // the last one counts
		must(t, w.pend("x", p, "g", 2, 7, false))
		w.restart(t)
		if !w.m.Pending("g", entry.TopicID{1}, 0) || w.m.Pending("g", entry.TopicID{1}, 1) || w.m.Pending("h", entry.TopicID{1}, 0) {
			t.Error("pending are others")
		}
		if len(w.committed) != 0 {
			t.Errorf("committed before the end: %v", w.committed)
		}
		_, got = w.end(&End{ID: "x", ProducerID: p.ID, Epoch: p.Epoch, Commit: commit, Newer: true})
		must(t, got)
		want := "map[]"
		if commit {
			want = "map[g 01 0:5 g 02 0:7]"
		}
		if got := fmt.Sprint(w.committed); got != want || w.m.Pending("g", entry.TopicID{1}, 0) || w.m.HasPending("g") {
			t.Errorf("commit %v: %s, want %s", commit, got, want)
		}
	}
}

func TestOffsetsThatWereOvertakenAreNotCommitted(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps func(w *world, p, q Producer)
		want  string
	}{
		{"by a commit without transaction", func(w *world, p, _ Producer) {
			w.pend("x", p, "g", 1, 5, true)
			w.m.OffsetsCommitted("g", entry.TopicID{1}, 0)
			w.end(&End{ID: "x", ProducerID: p.ID, Epoch: p.Epoch, Commit: true})
		}, "map[]"},
		{"but those that come behind it are", func(w *world, p, _ Producer) {
			w.pend("x", p, "g", 1, 5, true)
			w.m.OffsetsCommitted("g", entry.TopicID{1}, 0)
			w.pend("x", p, "g", 1, 6, true)
			w.end(&End{ID: "x", ProducerID: p.ID, Epoch: p.Epoch, Commit: true})
		}, "map[g 01 0:6]"},
		{"by another transaction that ends first", func(w *world, p, q Producer) {
			w.pend("x", p, "g", 1, 5, true)
			w.pend("y", q, "g", 1, 7, true)
			w.end(&End{ID: "y", ProducerID: q.ID, Epoch: q.Epoch, Commit: true})
			if !w.m.Pending("g", entry.TopicID{1}, 0) {
				t.Error("one is open and nothing is pending")
			}
			w.end(&End{ID: "x", ProducerID: p.ID, Epoch: p.Epoch, Commit: true})
		}, "map[g 01 0:7]"},
		{"by another transaction that ends last", func(w *world, p, q Producer) {
			w.pend("x", p, "g", 1, 5, true)
			w.pend("y", q, "g", 1, 7, true)
			w.end(&End{ID: "x", ProducerID: p.ID, Epoch: p.Epoch, Commit: true})
			w.end(&End{ID: "y", ProducerID: q.ID, Epoch: q.Epoch, Commit: true})
		}, "map[g 01 0:7]"},
		{"by the deletion of the group", func(w *world, p, _ Producer) {
			w.pend("x", p, "g", 1, 5, true)
			w.pend("x", p, "h", 1, 6, true)
			w.m.DropGroup("g")
			w.end(&End{ID: "x", ProducerID: p.ID, Epoch: p.Epoch, Commit: true})
		}, "map[h 01 0:6]"},
	} {
		for _, restarted := range []bool{false, true} {
			w := newWorld(1)
			p, _ := w.init("x")
			q, _ := w.init("y")
			if restarted {
				w.restart(t)
			}
			c.steps(w, p, q)
			if got := fmt.Sprint(w.committed); got != c.want {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
		}
	}
}
