package assign

import (
	"bytes"
	"slices"
	"sort"

	"github.com/sluicemq/sluice/log/entry"
)

// Topic is a set of partitions of one topic.
type Topic struct {
	ID         entry.TopicID
	Partitions []int32 // indexes in the topic, ascending, none twice, at least one
}

// Assignment is a set of partitions, ordered by topic id. It is not changed
// once it is made, so that parts of it may be shared.
type Assignment []Topic

// CompareTopics orders topic ids as assignments are ordered.
func CompareTopics(a, b entry.TopicID) int { return bytes.Compare(a[:], b[:]) }

// Count returns how many partitions the assignment has.
func (a Assignment) Count() int {
	n := 0
	for i := range a {
		n += len(a[i].Partitions)
	}
	return n
}

// Of returns the partitions of a topic, or nil.
func (a Assignment) Of(id entry.TopicID) []int32 {
	i := sort.Search(len(a), func(i int) bool { return CompareTopics(a[i].ID, id) >= 0 })
	if i < len(a) && a[i].ID == id {
		return a[i].Partitions
	}
	return nil
}

// Has reports whether the assignment has the partition.
func (a Assignment) Has(id entry.TopicID, partition int32) bool {
	_, ok := slices.BinarySearch(a.Of(id), partition)
	return ok
}

// Equal reports whether two assignments have the same partitions.
func (a Assignment) Equal(b Assignment) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].ID != b[i].ID || !slices.Equal(a[i].Partitions, b[i].Partitions) {
			return false
		}
	}
	return true
}

// Contains reports whether every partition of b is also in a.
func (a Assignment) Contains(b Assignment) bool {
	for i := range b {
		have := a.Of(b[i].ID)
		for _, p := range b[i].Partitions {
			if _, ok := slices.BinarySearch(have, p); !ok {
				return false
			}
		}
	}
	return true
}

// Minus returns what is in a and not in b.
func (a Assignment) Minus(b Assignment) Assignment { return a.filter(b, false) }

// Both returns what is in a and in b.
func (a Assignment) Both(b Assignment) Assignment { return a.filter(b, true) }

// filter returns the partitions of a of which b's having them is as wanted. It
// returns a itself if that is all.
func (a Assignment) filter(b Assignment, wanted bool) Assignment {
	var out Assignment
	same, j := true, 0
	for i := range a {
		for j < len(b) && CompareTopics(b[j].ID, a[i].ID) < 0 {
			j++
		}
		var other []int32
		if j < len(b) && b[j].ID == a[i].ID {
			other = b[j].Partitions
		}
		kept := filterPartitions(a[i].Partitions, other, wanted)
		if len(kept) == len(a[i].Partitions) && same {
			continue
		}
		if same {
			same = false
			out = append(make(Assignment, 0, len(a)), a[:i]...)
		}
		if len(kept) > 0 {
			out = append(out, Topic{a[i].ID, kept})
		}
	}
	if same {
		return a
	}
	return out
}

func filterPartitions(a, b []int32, wanted bool) []int32 {
	var out []int32
	same, j := true, 0
	for i, p := range a {
		for j < len(b) && b[j] < p {
			j++
		}
		if (j < len(b) && b[j] == p) == wanted {
			if !same {
				out = append(out, p)
			}
		} else if same {
			same = false
			out = append(make([]int32, 0, len(a)-1), a[:i]...)
		}
	}
	if same {
		return a
	}
	return out
}

// Plus returns what is in a or in b.
func (a Assignment) Plus(b Assignment) Assignment {
	if len(b) == 0 {
		return a
	}
	if len(a) == 0 {
		return b
	}
	out := make(Assignment, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch c := CompareTopics(a[0].ID, b[0].ID); {
		case c < 0:
			out, a = append(out, a[0]), a[1:]
		case c > 0:
			out, b = append(out, b[0]), b[1:]
		default:
			out = append(out, Topic{a[0].ID, mergePartitions(a[0].Partitions, b[0].Partitions)})
			a, b = a[1:], b[1:]
		}
	}
	return append(append(out, a...), b...)
}

func mergePartitions(a, b []int32) []int32 {
	out := make([]int32, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] < b[0]:
			out, a = append(out, a[0]), a[1:]
		case a[0] > b[0]:
			out, b = append(out, b[0]), b[1:]
		default:
			out = append(out, a[0])
			a, b = a[1:], b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// Make returns the assignment of topics in any order, with partitions in any
// order, in which topics and partitions may be named more than once. It keeps
// nothing of what it is given.
func Make(topics []Topic) Assignment {
	var out Assignment
	for _, t := range topics {
		if len(t.Partitions) > 0 {
			out = append(out, Topic{t.ID, slices.Clone(t.Partitions)})
		}
	}
	slices.SortStableFunc(out, func(a, b Topic) int { return CompareTopics(a.ID, b.ID) })
	n := 0
	for i := range out {
		if n > 0 && out[n-1].ID == out[i].ID {
			out[n-1].Partitions = append(out[n-1].Partitions, out[i].Partitions...)
			continue
		}
		out[n] = out[i]
		n++
	}
	out = out[:n]
	for i := range out {
		slices.Sort(out[i].Partitions)
		out[i].Partitions = slices.Compact(out[i].Partitions)
	}
	return out
}
