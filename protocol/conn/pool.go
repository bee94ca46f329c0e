package conn

import (
	"math/bits"
	"sync"
)

// The classes of pooled buffers are the powers of two from 4 KiB to 4 MiB. The
// largest request of a client with default settings is just above 1 MiB.
const (
	smallestClass = 12
	largestClass  = 22
)

// pool keeps buffers that were used, by size class. Larger ones than the
// largest class are left to the garbage collector.
type pool struct {
	classes [largestClass - smallestClass + 1]sync.Pool // of *[]byte
}

// classOf returns the class of buffers that hold n bytes, and false if there
// is none.
func classOf(n int) (class int, ok bool) {
	class = max(bits.Len(uint(max(n, 1)-1)), smallestClass)
	return class - smallestClass, class <= largestClass
}

// get returns a buffer of length n with old bytes in it.
func (p *pool) get(n int) *[]byte {
	class, ok := classOf(n)
	if !ok {
		b := make([]byte, n)
		return &b
	}
	if b, ok := p.classes[class].Get().(*[]byte); ok {
		*b = (*b)[:n]
		return b
	}
	b := make([]byte, n, 1<<(class+smallestClass))
	return &b
}

// put takes back a buffer that nobody uses any more. It may be one that did
// not come from get.
func (p *pool) put(b *[]byte) {
	if b == nil {
		return
	}
	// A buffer that append made larger is between two classes: it serves the lower.
	class := bits.Len(uint(cap(*b))) - 1
	if class < smallestClass || class > largestClass {
		return
	}
	p.classes[class-smallestClass].Put(b)
}
