package queuelock

import (
	"fmt"
	"testing"

	"github.com/sluicemq/sluice/log/entry"
)

func BenchmarkMayCommit(b *testing.B) {
	t := filled(b, 10_000)
	b.ReportAllocs()
	p := entry.Partition(0)
	for b.Loop() {
		t.MayCommit("g", "m1", p%10_000)
		p++
	}
}

// BenchmarkPlan is a plan of a group in which nothing is to be done, as after most
// changes of one.
func BenchmarkPlan(b *testing.B) {
	t := filled(b, 10_000)
	s := &Situation{Group: "g", Owners: owners(10_000), Fate: func(string) Fate { return Stays() }, Exists: func(entry.Partition) bool { return true }}
	b.ReportAllocs()
	for b.Loop() {
		if t.Plan(s) != nil {
			b.Fatal("something to do")
		}
	}
}

func owners(partitions int) []Owner {
	out := make([]Owner, partitions)
	for i := range out {
		out[i] = Owner{entry.Partition(i), fmt.Sprintf("m%d", i%10)}
	}
	return out
}

func filled(t testing.TB, partitions int) *Table {
	table := New()
	s := &Situation{Group: "g", Owners: owners(partitions), Fate: func(string) Fate { return Stays() }, Exists: func(entry.Partition) bool { return true }}
	if err := table.Apply(&entry.Entry{Index: 1, Time: 1, Payload: table.Plan(s)}); err != nil {
		t.Fatal(err)
	}
	return table
}

func TestAskingAllocatesNothing(t *testing.T) {
	table := filled(t, 10)
	allocs := testing.AllocsPerRun(100, func() {
		if !table.MayCommit("g", "m3", 3) || !table.MayFetch("g", "", 3) || table.MayFetch("g", "m1", 3) {
			t.Error("wrong")
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
