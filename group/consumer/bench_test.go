package consumer

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicemq/sluice/group/assign"
)

// settled returns a group of members that all have what they are to get.
func settled(t testing.TB, members, partitions int) (*world, []*Heartbeat) {
	w := newWorld(newCatalog("a", partitions))
	w.settings.MaxMembers, w.settings.MaxInline, w.settings.MaxBytes = 1<<20, 0, 1<<30
	w.group.SetSettings(w.settings)
	beats := make([]*Heartbeat, members)
	owned := make([]assign.Assignment, members)
	w.hold = true
	for i := range beats {
		id := fmt.Sprintf("member-%08d", i)
		h := &Heartbeat{Ticket: Ticket(i + 1), MemberID: id, ClientID: "c", ClientHost: "h", RebalanceTimeout: time.Minute,
			HasTopics: true, Topics: []string{"a"}, Owned: new(assign.Assignment)}
		w.call(func(out *Output) { w.group.Heartbeat(w.now, h, out) })
		beats[i] = h
	}
	for round := range 20 {
		w.hold = false
		w.apply()
		if round > 0 && w.state.Life() == "Stable" {
			return w, beats
		}
		w.hold = true
		for i, h := range beats {
			a, ok := w.beaten[h.Ticket]
			if !ok || a.Err != nil {
				t.Fatalf("no answer for %s: %v", h.MemberID, a.Err)
			}
			delete(w.beaten, h.Ticket)
			if a.Assigned != nil {
				owned[i] = *a.Assigned
			}
			h.Epoch, h.RebalanceTimeout, h.HasTopics, h.Topics, h.Owned = a.Epoch, -1, false, nil, &owned[i]
			w.call(func(out *Output) { w.group.Heartbeat(w.now, h, out) })
		}
	}
	t.Fatalf("the group is %s after 20 rounds", w.state.Life())
	return nil, nil
}

func TestHeartbeatThatChangesNothingAllocatesNothing(t *testing.T) {
	w, beats := settled(t, 20, 100)
	out := &Output{}
	entries := w.entries
	allocs := testing.AllocsPerRun(1000, func() {
		out.Beaten = out.Beaten[:0]
		w.group.Heartbeat(w.now, beats[7], out)
		if len(out.Beaten) != 1 || out.Beaten[0].Err != nil || out.Entry != nil {
			t.Fatalf("%+v", out)
		}
	})
	if allocs != 0 || w.entries != entries {
		t.Errorf("%v allocations, %d entries", allocs, w.entries-entries)
	}
}

// TestManyMembersJoinWithFewEntries is why requests wait for each other: a
// thousand members do not take a thousand syncs of the disk.
func TestManyMembersJoinWithFewEntries(t *testing.T) {
	w, _ := settled(t, 1000, 10_000)
	t.Logf("1000 members, 10000 partitions: %d entries, %d bytes", w.entries, w.bytes)
	if w.entries > 20 {
		t.Errorf("%d entries", w.entries)
	}
}

func BenchmarkHeartbeat(b *testing.B) {
	w, beats := settled(b, 1000, 10_000)
	out := &Output{}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		out.Beaten = out.Beaten[:0]
		w.group.Heartbeat(w.now, beats[i%len(beats)], out)
		i++
	}
}

// BenchmarkJoin is a member that joins a settled group, up to its entry.
func BenchmarkJoin(b *testing.B) {
	for _, c := range []struct{ members, partitions int }{{10, 100}, {1000, 10_000}} {
		b.Run(fmt.Sprintf("members=%d/partitions=%d", c.members, c.partitions), func(b *testing.B) {
			w, _ := settled(b, c.members, c.partitions)
			b.ReportAllocs()
			for b.Loop() {
				h := &Heartbeat{Ticket: 1, MemberID: "new", ClientID: "c", ClientHost: "h", RebalanceTimeout: time.Minute,
					HasTopics: true, Topics: []string{"a"}, Owned: new(assign.Assignment)}
				out := &Output{}
				w.group.Heartbeat(w.now, h, out)
				w.bytes = len(out.Entry.Change.Append(nil))
				w.group.inFlight, w.group.job, w.group.assigned = nil, nil, time.Time{}
			}
			b.ReportMetric(float64(w.bytes), "entry-bytes")
		})
	}
}

// BenchmarkApply is what the apply loop does for the first target of a group.
func BenchmarkApply(b *testing.B) {
	w, _ := settled(b, 1000, 10_000)
	c := difference("g", nil, w.state)
	payload := c.Append(nil)
	b.SetBytes(int64(len(payload)))
	b.ReportAllocs()
	for b.Loop() {
		c, err := DecodeChange(payload)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := (*State)(nil).Apply(c, 1, 0); err != nil {
			b.Fatal(err)
		}
	}
}
