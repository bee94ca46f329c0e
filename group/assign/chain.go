package assign

import "slices"

// maxSteps bounds the work of chain, in members and subscriptions looked at.
// Only thousands of members with as many different subscriptions get there, and
// all it costs them is that a few have some partitions more than they need.
const maxSteps = 20_000_000

// chain evens out members that share no topic: if a can give to b, and b to c,
// and c has less than a, then a partition moves from a to b and another from b
// to c. It always takes the shortest chain.
func (b *balance) chain() {
	if len(b.kinds) < 2 || !b.uneven(run(int32(len(b.load)))) {
		return
	}
	s := &search{b: b, kindsOf: make([][]int32, len(b.load)), via: make([]step, len(b.load)), seen: make([]bool, len(b.kinds))}
	for k := range b.kinds {
		for _, m := range b.kinds[k].members {
			s.kindsOf[m] = append(s.kindsOf[m], int32(k))
		}
	}
	for improved := true; improved && s.steps < maxSteps; {
		improved = false
		// Who cannot give shares that with all whom it reaches and who have no
		// more than it has.
		stuck := make([]bool, len(b.load))
		order := run(int32(len(b.load)))
		slices.SortFunc(order, func(x, y int32) int {
			if b.more(x, y) {
				return -1
			}
			return 1
		})
		for _, m := range order {
			for !stuck[m] && s.steps < maxSteps {
				to := s.find(m)
				if to == none {
					for _, reached := range s.queue {
						stuck[reached] = stuck[reached] || b.load[reached] <= b.load[m]
					}
					break
				}
				s.follow(to)
				improved = true
			}
		}
	}
}

// search looks for chains, breadth first.
type search struct {
	b       *balance
	kindsOf [][]int32 // of each member
	steps   int

	queue []int32 // the members reached from the first
	via   []step  // of each member reached
	seen  []bool  // of each kind
	first int32
}

// step says from whom a member was reached, and through which kind of topics.
type step struct {
	from  int32
	kind  int32
	valid bool
}

// find returns the nearest member that a partition should move to from m, along
// a chain, or none.
func (s *search) find(m int32) int32 {
	for _, reached := range s.queue {
		s.via[reached] = step{}
	}
	clear(s.seen)
	s.queue = append(s.queue[:0], m)
	s.via[m] = step{valid: true}
	s.first = m
	for i := 0; i < len(s.queue); i++ {
		from := s.queue[i]
		for _, k := range s.kindsOf[from] {
			s.steps++
			if s.seen[k] || len(s.b.hand(int(k))[s.b.placeOf(int(k), from)]) == 0 {
				continue
			}
			s.seen[k] = true
			s.steps += len(s.b.kinds[k].members)
			for _, to := range s.b.kinds[k].members {
				if s.via[to].valid {
					continue
				}
				s.via[to] = step{from, k, true}
				s.queue = append(s.queue, to)
				if s.b.load[m]-s.b.load[to] >= 2 {
					return to
				}
			}
		}
	}
	return none
}

// follow moves a partition along each step of the chain that find found.
func (s *search) follow(to int32) {
	for to != s.first {
		v := s.via[to]
		s.b.move(int(v.kind), v.from, to)
		to = v.from
	}
}
