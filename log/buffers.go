package log

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// Buffers that pread fills come in sizes of a power of two between these;
// larger ones are made for one use.
const (
	minBufferBits = 12 // 4 KiB
	maxBufferBits = 21 // 2 MiB
)

// bufferPool keeps read buffers for reuse. It is safe for concurrent use.
type bufferPool struct {
	sizes [maxBufferBits - minBufferBits + 1]sync.Pool
	inUse atomic.Int64 // buffers that were not put back
}

// get returns a buffer of n bytes.
func (p *bufferPool) get(n int) *[]byte {
	p.inUse.Add(1)
	class := max(bits.Len(uint(max(n, 1)-1)), minBufferBits)
	if class > maxBufferBits {
		b := make([]byte, n)
		return &b
	}
	if b, ok := p.sizes[class-minBufferBits].Get().(*[]byte); ok {
		*b = (*b)[:n]
		return b
	}
	b := make([]byte, n, 1<<class)
	return &b
}

// put takes back a buffer that get returned.
func (p *bufferPool) put(b *[]byte) {
	p.inUse.Add(-1)
	class := bits.Len(uint(cap(*b))) - 1
	if class < minBufferBits || class > maxBufferBits || cap(*b) != 1<<class {
		return
	}
	p.sizes[class-minBufferBits].Put(b)
}
