package assign

// heap is a binary heap of members whose order may change at the top only.
type heap struct {
	items  []int32
	before func(x, y int32) bool
}

// reset fills the heap with a copy of items.
func (h *heap) reset(items []int32, before func(x, y int32) bool) {
	h.items = append(h.items[:0], items...)
	h.before = before
	for i := len(h.items)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h *heap) len() int   { return len(h.items) }
func (h *heap) top() int32 { return h.items[0] }

// fixTop puts the top where it belongs, after its order changed.
func (h *heap) fixTop() { h.down(0) }

func (h *heap) popTop() {
	last := len(h.items) - 1
	h.items[0] = h.items[last]
	h.items = h.items[:last]
	h.down(0)
}

func (h *heap) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			return
		}
		if right := child + 1; right < len(h.items) && h.before(h.items[right], h.items[child]) {
			child = right
		}
		if !h.before(h.items[child], h.items[i]) {
			return
		}
		h.items[i], h.items[child] = h.items[child], h.items[i]
		i = child
	}
}
