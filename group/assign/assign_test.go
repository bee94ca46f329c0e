package assign

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicemq/sluice/log/entry"
)

func topicID(n int) (id entry.TopicID) {
	binary.BigEndian.PutUint64(id[8:], uint64(n+1))
	return id
}

// group makes a group of members whose subscriptions are given as places of
// topics.
func group(sizes []int32, subscriptions ...[]int32) *Group {
	g := &Group{}
	for i, n := range sizes {
		g.Topics = append(g.Topics, TopicSize{topicID(i), n})
	}
	for i, s := range subscriptions {
		g.Members = append(g.Members, Member{ID: fmt.Sprintf("m%03d", i), Topics: s})
	}
	return g
}

func mustAssign(t testing.TB, name string, g *Group) []Assignment {
	t.Helper()
	a, ok := Find(name)
	if !ok {
		t.Fatalf("no assignor %q", name)
	}
	out, err := a.Assign(g)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// withCurrent returns the group as it is after the assignment.
func (g *Group) withCurrent(all []Assignment) *Group {
	next := &Group{Members: slices.Clone(g.Members), Topics: g.Topics}
	for i := range next.Members {
		next.Members[i].Current = all[i]
	}
	return next
}

// moved counts the partitions that somebody had and must give away.
func moved(g *Group, all []Assignment) int {
	n := 0
	for i := range g.Members {
		n += g.Members[i].Current.Minus(all[i]).Count()
	}
	return n
}

type failer interface {
	Helper()
	Fatalf(string, ...any)
}

// checkComplete checks that each partition of a subscribed topic has exactly one
// owner, who subscribes to it, and that nothing else is assigned.
func checkComplete(t failer, g *Group, all []Assignment) {
	t.Helper()
	owners := map[string]int{}
	for i, a := range all {
		for j, topic := range a {
			if j > 0 && CompareTopics(a[j-1].ID, topic.ID) >= 0 {
				t.Fatalf("assignment of %s is not ordered: %v", g.Members[i].ID, a)
			}
			at, ok := g.topicIndex(topic.ID, 0)
			if !ok || !slices.Contains(g.Members[i].Topics, int32(at)) {
				t.Fatalf("%s owns topic %x without a subscription", g.Members[i].ID, topic.ID)
			}
			for k, p := range topic.Partitions {
				if k > 0 && topic.Partitions[k-1] >= p {
					t.Fatalf("partitions of %s are not ordered: %v", g.Members[i].ID, topic.Partitions)
				}
				owners[fmt.Sprint(at, "/", p)]++
			}
		}
	}
	for at, topic := range g.Topics {
		want := 0
		for _, m := range g.Members {
			if slices.Contains(m.Topics, int32(at)) {
				want = 1
			}
		}
		for p := range topic.Partitions {
			name := fmt.Sprint(at, "/", p)
			if owners[name] != want {
				t.Fatalf("partition %s has %d owners, want %d", name, owners[name], want)
			}
			delete(owners, name)
		}
	}
	for name := range owners {
		if owners[name] > 0 {
			t.Fatalf("partition %s does not exist", name)
		}
	}
}

// checkBalanced checks that no chain of members could even out the loads: from
// no member m can a partition go, over others that pass one on, to one that has
// two less.
func checkBalanced(t failer, g *Group, all []Assignment) {
	t.Helper()
	for i := range g.Members {
		reached := map[int]bool{i: true}
		for queue := []int{i}; len(queue) > 0; queue = queue[1:] {
			for _, topic := range all[queue[0]] {
				at, _ := g.topicIndex(topic.ID, 0)
				for j := range g.Members {
					if !reached[j] && slices.Contains(g.Members[j].Topics, int32(at)) {
						reached[j] = true
						queue = append(queue, j)
					}
				}
			}
		}
		for j := range reached {
			if all[i].Count() > all[j].Count()+1 {
				t.Fatalf("%s has %d partitions, and %s, which it could give to, has %d",
					g.Members[i].ID, all[i].Count(), g.Members[j].ID, all[j].Count())
			}
		}
	}
}

// draw makes a group with the given subscriptions, in which members have random
// partitions, also of topics that are gone or that they no longer subscribe to.
func draw(t *rapid.T, same bool) *Group {
	sizes := rapid.SliceOfN(rapid.Int32Range(1, 9), 1, 6).Draw(t, "sizes")
	members := rapid.IntRange(1, 9).Draw(t, "members")
	places := func() []int32 {
		var s []int32
		for i := range sizes {
			if rapid.IntRange(0, 2).Draw(t, "subscribed") > 0 {
				s = append(s, int32(i))
			}
		}
		return s
	}
	first := places()
	g := group(sizes)
	for i := range members {
		mine := first
		if !same {
			mine = places()
		}
		m := Member{ID: fmt.Sprintf("m%03d", i), Topics: mine}
		if rapid.Bool().Draw(t, "static") {
			m.Instance = fmt.Sprintf("i%d", rapid.IntRange(0, 1000).Draw(t, "instance")*1000+i)
		}
		g.Members = append(g.Members, m)
	}
	current := make([][]Topic, members)
	for i := range len(sizes) + 1 { // one topic more than exists
		for p := range int32(11) { // and partitions that do not exist
			if m := rapid.IntRange(-members, members-1).Draw(t, "owner"); m >= 0 {
				current[m] = append(current[m], Topic{topicID(i), []int32{p}})
			}
		}
	}
	for i := range g.Members {
		g.Members[i].Current = Make(current[i])
	}
	return g
}

func TestEveryPartitionGoesToExactlyOneSubscriber(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			g := draw(t, rapid.Bool().Draw(t, "same"))
			a, _ := Find(name)
			all, err := a.Assign(g)
			if err != nil {
				t.Fatal(err)
			}
			checkComplete(t, g, all)
		}))
	}
}

func TestSameGroupGivesSameAssignment(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			g := draw(t, rapid.Bool().Draw(t, "same"))
			a, _ := Find(name)
			one, _ := a.Assign(g)
			// Members that share a subscription may or may not share its slice.
			again := &Group{Members: slices.Clone(g.Members), Topics: g.Topics}
			for i := range again.Members {
				again.Members[i].Topics = slices.Clone(g.Members[i].Topics)
			}
			two, _ := a.Assign(again)
			for i := range one {
				if !one[i].Equal(two[i]) {
					t.Fatalf("%s got %v, then %v", g.Members[i].ID, one[i], two[i])
				}
			}
		}))
	}
}

func TestUniformIsAsEvenAsSubscriptionsAllow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := draw(t, rapid.Bool().Draw(t, "same"))
		checkBalanced(t, g, uniform(g))
	})
}

func TestUniformKeepsWhatItGave(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := draw(t, rapid.Bool().Draw(t, "same"))
		g = g.withCurrent(uniform(g))
		a, _ := Find("uniform")
		again, _ := a.Assign(g)
		if n := moved(g, again); n != 0 {
			t.Fatalf("%d partitions move though nothing changed", n)
		}
		for i := range again {
			if len(again[i]) > 0 && &again[i][0] != &g.Members[i].Current[0] {
				t.Fatalf("%s has a new slice though nothing changed", g.Members[i].ID)
			}
		}
	})
}

// TestUniformMovesNoMoreThanNeeded compares, for equal subscriptions, with the
// least number of moves that any even assignment takes.
func TestUniformMovesNoMoreThanNeeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := draw(t, true)
		total := 0
		for _, at := range g.Members[0].Topics {
			total += int(g.Topics[at].Partitions)
		}
		// Members may keep floor partitions, and total % n of them one more.
		floor, extra := total/len(g.Members), total%len(g.Members)
		least := 0
		for _, m := range g.Members {
			valid := 0
			for _, c := range m.Current {
				at, ok := g.topicIndex(c.ID, 0)
				for _, p := range c.Partitions {
					if ok && slices.Contains(m.Topics, int32(at)) && p < g.Topics[at].Partitions {
						valid++
					} else {
						least++
					}
				}
			}
			if valid > floor && extra > 0 {
				extra--
				valid--
			}
			least += max(0, valid-floor)
		}
		if n := moved(g, uniform(g)); n != least {
			t.Fatalf("%d partitions move, %d would do", n, least)
		}
	})
}

func TestUniformSpreadsEachTopicOut(t *testing.T) {
	all := mustAssign(t, "uniform", group([]int32{8, 8, 8}, []int32{0, 1, 2}, []int32{0, 1, 2}, []int32{0, 1, 2}, []int32{0, 1, 2}))
	for i, a := range all {
		for _, topic := range a {
			if len(topic.Partitions) != 2 {
				t.Errorf("member %d has %v", i, a)
			}
		}
	}
}

func TestUniformTakesFromEachTopicAlikeWhenAMemberJoins(t *testing.T) {
	s := []int32{0, 1}
	g := group([]int32{6, 6}, s)
	g = g.withCurrent(mustAssign(t, "uniform", g))
	g.Members = append(g.Members, Member{ID: "m999", Topics: s})
	all := mustAssign(t, "uniform", g)
	for i, a := range all {
		if len(a) != 2 || len(a[0].Partitions) != 3 || len(a[1].Partitions) != 3 {
			t.Errorf("member %d has %v", i, a)
		}
	}
	if n := moved(g, all); n != 6 {
		t.Errorf("%d partitions moved, want 6", n)
	}
}

// Members 0 and 2 share no topic; only through member 1 can they be evened out.
func TestUniformEvensOutAlongChains(t *testing.T) {
	g := group([]int32{5, 1}, []int32{0}, []int32{0, 1}, []int32{1})
	g.Members[0].Current = Assignment{{topicID(0), []int32{0, 1, 2}}}
	g.Members[1].Current = Assignment{{topicID(0), []int32{3, 4}}}
	g.Members[2].Current = Assignment{{topicID(1), []int32{0}}}
	checkBalanced(t, g, mustAssign(t, "uniform", g))

	g = group([]int32{4, 4, 2}, []int32{0}, []int32{0, 1}, []int32{1, 2}, []int32{2})
	g.Members[0].Current = Assignment{{topicID(0), []int32{0, 1, 2, 3}}}
	g.Members[1].Current = Assignment{{topicID(1), []int32{0, 1, 2}}}
	g.Members[2].Current = Assignment{{topicID(1), []int32{3}}, {topicID(2), []int32{0}}}
	g.Members[3].Current = Assignment{{topicID(2), []int32{1}}}
	all := mustAssign(t, "uniform", g)
	checkComplete(t, g, all)
	checkBalanced(t, g, all)
}

func TestRangeLinesTopicsUp(t *testing.T) {
	s := []int32{0, 1}
	all := mustAssign(t, "range", group([]int32{3, 3}, s, s))
	want := []Assignment{
		{{topicID(0), []int32{0, 1}}, {topicID(1), []int32{0, 1}}},
		{{topicID(0), []int32{2}}, {topicID(1), []int32{2}}},
	}
	for i := range want {
		if !all[i].Equal(want[i]) {
			t.Errorf("member %d has %v, want %v", i, all[i], want[i])
		}
	}
}

func TestRangeCountsOnlySubscribers(t *testing.T) {
	all := mustAssign(t, "range", group([]int32{3, 3, 2}, []int32{0, 1}, []int32{1}, []int32{1, 2}))
	want := []Assignment{
		{{topicID(0), []int32{0, 1, 2}}, {topicID(1), []int32{0}}},
		{{topicID(1), []int32{1}}},
		{{topicID(1), []int32{2}}, {topicID(2), []int32{0, 1}}},
	}
	for i := range want {
		if !all[i].Equal(want[i]) {
			t.Errorf("member %d has %v, want %v", i, all[i], want[i])
		}
	}
}

func TestRangeServesStaticMembersFirstByInstance(t *testing.T) {
	s := []int32{0}
	g := group([]int32{3}, s, s, s)
	g.Members[1].Instance, g.Members[2].Instance = "b", "a"
	for i, a := range mustAssign(t, "range", g) {
		if want := []int32{2, 1, 0}[i]; !a.Equal(Assignment{{topicID(0), []int32{want}}}) {
			t.Errorf("member %d has %v, want partition %d", i, a, want)
		}
	}
}

func TestGroupsOutOfOrderAreRefused(t *testing.T) {
	for name, g := range map[string]*Group{
		"members":       {Members: []Member{{ID: "b"}, {ID: "a"}}},
		"member twice":  {Members: []Member{{ID: "a"}, {ID: "a"}}},
		"topics":        {Topics: []TopicSize{{topicID(2), 1}, {topicID(1), 1}}},
		"subscription":  group([]int32{1, 1}, []int32{1, 0}),
		"unknown topic": group([]int32{1, 1}, []int32{2}),
	} {
		a, _ := Find("uniform")
		if _, err := a.Assign(g); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestGroupsWithoutMembersOrTopicsHaveNothingToAssign(t *testing.T) {
	for _, name := range Names() {
		if all := mustAssign(t, name, group([]int32{3})); len(all) != 0 {
			t.Errorf("%s: %v", name, all)
		}
		if all := mustAssign(t, name, group(nil, nil, nil)); len(all) != 2 || len(all[0])+len(all[1]) != 0 {
			t.Errorf("%s: %v", name, all)
		}
	}
}
