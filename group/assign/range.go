package assign

import (
	"cmp"
	"slices"
)

// ranges gives each subscriber of a topic a run of its partitions, in the order
// of static members by instance id, then of the others by member id. The first
// few get one more where it does not come out even.
func ranges(g *Group) []Assignment {
	kinds, kindOf := g.kinds()
	rank := rangeRank(g.Members)
	for k := range kinds {
		slices.SortFunc(kinds[k].members, func(a, b int32) int { return cmp.Compare(rank[a], rank[b]) })
	}
	out := make([]Assignment, len(g.Members))
	for t := range g.Topics {
		if kindOf[t] == none {
			continue
		}
		members, left := kinds[kindOf[t]].members, g.Topics[t].Partitions
		all := run(left)
		for i, m := range members {
			n := left / int32(len(members)-i)
			if left%int32(len(members)-i) > 0 {
				n++
			}
			if n == 0 {
				break
			}
			out[m] = append(out[m], Topic{g.Topics[t].ID, all[:n:n]})
			all, left = all[n:], left-n
		}
	}
	return out
}

// run returns the numbers below n.
func run(n int32) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(i)
	}
	return out
}

// rangeRank returns, for each member, when its turn is. Static members come
// first, since their ids outlive a restart.
func rangeRank(members []Member) []int32 {
	order := run(int32(len(members)))
	slices.SortFunc(order, func(a, b int32) int {
		ma, mb := &members[a], &members[b]
		switch {
		case (ma.Instance != "") != (mb.Instance != ""):
			if ma.Instance != "" {
				return -1
			}
			return 1
		default:
			return cmp.Or(cmp.Compare(ma.Instance, mb.Instance), cmp.Compare(a, b))
		}
	})
	rank := make([]int32, len(members))
	for i, m := range order {
		rank[m] = int32(i)
	}
	return rank
}
