package group

import "container/heap"

// wakes orders live groups by when they are to be called, as a heap. Groups know
// their place in it.
type wakes []*live

func (w wakes) Len() int           { return len(w) }
func (w wakes) Less(i, j int) bool { return w[i].wake.Before(w[j].wake) }

func (w wakes) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].at, w[j].at = i, j
}

// Push implements heap.Interface.
func (w *wakes) Push(x any) {
	l := x.(*live)
	l.at = len(*w)
	*w = append(*w, l)
}

// Pop implements heap.Interface.
func (w *wakes) Pop() any {
	last := len(*w) - 1
	l := (*w)[last]
	(*w)[last] = nil
	*w = (*w)[:last]
	l.at = nowhere
	return l
}

// nowhere is the place of a group that is not in the heap.
const nowhere = -1

// place puts a group where its wake-up time belongs, or takes it out if it has
// none.
func (w *wakes) place(l *live) {
	switch {
	case l.wake.IsZero() && l.at != nowhere:
		heap.Remove(w, l.at)
	case l.wake.IsZero():
	case l.at != nowhere:
		heap.Fix(w, l.at)
	default:
		heap.Push(w, l)
	}
}
