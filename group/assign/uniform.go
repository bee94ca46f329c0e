package assign

import "slices"

// uniform gives each member as many partitions as every other, as far as the
// subscriptions allow, and moves no more partitions than that takes.
//
//  1. Members keep what they have and still subscribe to.
//  2. What is free goes to the subscriber with the fewest partitions, topic by
//     topic, so that each topic is spread out.
//  3. Among the subscribers of the same topics, partitions move from who has
//     most to who has least, until they differ by one at most.
//  4. With subscriptions that overlap, what is uneven between members that share
//     no topic moves along a chain of members that do.
func uniform(g *Group) []Assignment {
	b := newBalance(g)
	b.keep()
	b.fill()
	b.level()
	b.chain()
	return b.assignments()
}

// none stands for no member.
const none = -1

// balance is an assignment in the making. Partitions are numbered through: those
// of topic t begin at base[t].
type balance struct {
	g      *Group
	kinds  []kind
	kindOf []int32 // of each topic, or -1 if nobody subscribes to it
	base   []int32
	owner  []int32 // of each partition: a member's place, or none
	load   []int32 // of each member: how many partitions it has
	held   []hand  // of each kind; made when first needed

	least, most heap    // scratch
	place       []int32 // scratch: of members in their kind
}

// hand lists, for each member of a kind, its partitions of the kind's topics in
// the order in which it is to give them away: from the end.
type hand [][]int32

func newBalance(g *Group) *balance {
	b := &balance{g: g, load: make([]int32, len(g.Members)), base: make([]int32, len(g.Topics)+1)}
	b.kinds, b.kindOf = g.kinds()
	for t := range g.Topics {
		b.base[t+1] = b.base[t] + g.Topics[t].Partitions
	}
	b.owner = make([]int32, b.base[len(g.Topics)])
	for i := range b.owner {
		b.owner[i] = none
	}
	b.held = make([]hand, len(b.kinds))
	b.place = make([]int32, len(g.Members))
	return b
}

// keep lets members have what they had, unless they no longer subscribe to it or
// it no longer exists.
func (b *balance) keep() {
	for i := range b.g.Members {
		m := &b.g.Members[i]
		from, j := 0, 0
		for c := range m.Current {
			at, ok := b.g.topicIndex(m.Current[c].ID, from)
			from = at
			if !ok {
				continue
			}
			for j < len(m.Topics) && int(m.Topics[j]) < at {
				j++
			}
			if j == len(m.Topics) || int(m.Topics[j]) != at {
				continue
			}
			for _, p := range m.Current[c].Partitions {
				if p >= 0 && p < b.g.Topics[at].Partitions && b.owner[b.base[at]+p] == none {
					b.owner[b.base[at]+p] = int32(i)
					b.load[i]++
				}
			}
		}
	}
}

// fill gives away what nobody has.
func (b *balance) fill() {
	for k := range b.kinds {
		least := &b.least
		ready := false
		for _, t := range b.kinds[k].topics {
			for n := b.base[t]; n < b.base[t+1]; n++ {
				if b.owner[n] != none {
					continue
				}
				if !ready {
					least.reset(b.kinds[k].members, b.less)
					ready = true
				}
				m := least.top()
				b.owner[n] = m
				b.load[m]++
				least.fixTop()
			}
		}
	}
}

func (b *balance) less(x, y int32) bool {
	return b.load[x] < b.load[y] || b.load[x] == b.load[y] && x < y
}

func (b *balance) more(x, y int32) bool {
	return b.load[x] > b.load[y] || b.load[x] == b.load[y] && x > y
}

// maxPasses bounds how often level goes over all kinds. Each pass about halves
// what is uneven; more are needed only by long chains of overlapping
// subscriptions, which chain evens out.
const maxPasses = 32

func (b *balance) level() {
	for range maxPasses {
		moved := false
		for k := range b.kinds {
			moved = b.levelKind(k) || moved
		}
		if !moved || len(b.kinds) == 1 {
			return
		}
	}
}

// levelKind evens out the subscribers of one kind of topics. While it runs, who
// gives only gets less, and who takes only gets more, so that both heaps stay in
// order where it matters.
func (b *balance) levelKind(k int) (moved bool) {
	members := b.kinds[k].members
	if !b.uneven(members) {
		return false
	}
	h := b.hand(k)
	donors := make([]int32, 0, len(members))
	for i, m := range members {
		if len(h[i]) > 0 {
			donors = append(donors, m)
		}
	}
	most, least := &b.most, &b.least
	most.reset(donors, b.more)
	least.reset(members, b.less)
	for most.len() > 0 {
		from, to := most.top(), least.top()
		if b.load[from]-b.load[to] < 2 {
			break
		}
		b.move(k, from, to)
		moved = true
		if len(h[b.placeOf(k, from)]) == 0 {
			most.popTop()
		} else {
			most.fixTop()
		}
		least.fixTop()
	}
	return moved
}

// uneven reports whether the loads of members differ by more than one.
func (b *balance) uneven(members []int32) bool {
	low, high := b.load[members[0]], b.load[members[0]]
	for _, m := range members {
		low, high = min(low, b.load[m]), max(high, b.load[m])
	}
	return high-low > 1
}

// move gives one partition of the kind to another subscriber.
func (b *balance) move(k int, from, to int32) {
	h := b.hand(k)
	f, t := b.placeOf(k, from), b.placeOf(k, to)
	n := h[f][len(h[f])-1]
	h[f] = h[f][:len(h[f])-1]
	h[t] = append(h[t], n) // and would be the first to go again
	b.owner[n] = to
	b.load[from]--
	b.load[to]++
}

// placeOf returns the place of a member among those of a kind.
func (b *balance) placeOf(k int, member int32) int {
	at, _ := slices.BinarySearch(b.kinds[k].members, member)
	return at
}

// hand returns the hands of a kind. Each is ordered so that what is given away
// first is of the topic of which the member has most.
func (b *balance) hand(k int) hand {
	if b.held[k] != nil {
		return b.held[k]
	}
	members := b.kinds[k].members
	h := make(hand, len(members))
	for i, m := range members {
		b.place[m] = int32(i)
	}
	// Partitions by rank in their topic and member: first the first of each
	// topic, then the second of each, and so on.
	var ranked [][]int32
	rank := make([]int32, len(members))
	for _, t := range b.kinds[k].topics {
		clear(rank)
		for n := b.base[t]; n < b.base[t+1]; n++ {
			at := b.place[b.owner[n]]
			for int(rank[at]) >= len(ranked) {
				ranked = append(ranked, nil)
			}
			ranked[rank[at]] = append(ranked[rank[at]], n)
			rank[at]++
		}
	}
	for _, all := range ranked {
		for _, n := range all {
			at := b.place[b.owner[n]]
			h[at] = append(h[at], n)
		}
	}
	b.held[k] = h
	return h
}

// assignments returns the result.
func (b *balance) assignments() []Assignment {
	out := make([]Assignment, len(b.g.Members))
	partitions := make([][]int32, len(b.g.Members))
	for t := range b.g.Topics {
		id := b.g.Topics[t].ID
		for n := b.base[t]; n < b.base[t+1]; n++ {
			m := b.owner[n]
			if m == none {
				continue
			}
			if partitions[m] == nil {
				partitions[m] = make([]int32, 0, b.load[m])
			}
			partitions[m] = append(partitions[m], n-b.base[t])
			end := len(partitions[m])
			if last := len(out[m]) - 1; last >= 0 && out[m][last].ID == id {
				mine := &out[m][last]
				mine.Partitions = partitions[m][end-len(mine.Partitions)-1 : end : end]
			} else {
				out[m] = append(out[m], Topic{id, partitions[m][end-1 : end : end]})
			}
		}
	}
	return out
}
