package assign

import (
	"testing"

	"pgregory.net/rapid"
)

type pair struct {
	topic     int
	partition int32
}

func drawSet(t *rapid.T, name string) (map[pair]bool, Assignment) {
	set := map[pair]bool{}
	var topics []Topic
	for _, n := range rapid.SliceOfN(rapid.IntRange(0, 40), 0, 20).Draw(t, name) {
		p := pair{n / 10, int32(n % 10)}
		set[p] = true
		topics = append(topics, Topic{topicID(p.topic), []int32{p.partition}})
	}
	return set, Make(topics)
}

func TestAssignmentsAreSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sa, a := drawSet(t, "a")
		sb, b := drawSet(t, "b")
		minus, both, plus := a.Minus(b), a.Both(b), a.Plus(b)
		subset, counts := true, [3]int{}
		for n := range 50 {
			p := pair{n / 10, int32(n % 10)}
			id := topicID(p.topic)
			for _, c := range []struct {
				name      string
				got, want bool
			}{
				{"a", a.Has(id, p.partition), sa[p]},
				{"minus", minus.Has(id, p.partition), sa[p] && !sb[p]},
				{"both", both.Has(id, p.partition), sa[p] && sb[p]},
				{"plus", plus.Has(id, p.partition), sa[p] || sb[p]},
			} {
				if c.got != c.want {
					t.Fatalf("%s of %v and %v: has %v is %v", c.name, a, b, p, c.got)
				}
			}
			subset = subset && (!sb[p] || sa[p])
			for i, in := range []bool{sa[p] && !sb[p], sa[p] && sb[p], sa[p] || sb[p]} {
				if in {
					counts[i]++
				}
			}
		}
		if a.Contains(b) != subset {
			t.Fatalf("%v contains %v: %v", a, b, !subset)
		}
		if minus.Count() != counts[0] || both.Count() != counts[1] || plus.Count() != counts[2] {
			t.Fatalf("counts %d %d %d, want %v", minus.Count(), both.Count(), plus.Count(), counts)
		}
		for _, set := range []Assignment{minus, both, plus} {
			if !Make(set).Equal(set) {
				t.Fatalf("%v is not in order", set)
			}
		}
	})
}

func TestAssignmentsThatDoNotChangeAreShared(t *testing.T) {
	a := Make([]Topic{{topicID(1), []int32{1, 2}}, {topicID(2), []int32{5}}})
	other := Make([]Topic{{topicID(1), []int32{3}}})
	allocs := testing.AllocsPerRun(100, func() {
		if b := a.Minus(other); &b[0] != &a[0] {
			t.Error("copied")
		}
		if b := a.Both(a); &b[0] != &a[0] {
			t.Error("copied")
		}
		if !a.Equal(a) || !a.Contains(a) || a.Contains(other) || a.Count() != 3 {
			t.Error("wrong")
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
