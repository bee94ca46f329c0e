package commitlog

import (
	"sync"
	"sync/atomic"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/segment"
)

// blockBytes is the size of a pooled block: room for a default-sized largest
// record batch (1 MiB and a few bytes) with its entry header. It is less where
// segments are smaller.
const blockBytes = 1<<20 + 8<<10

// keepBlocks is how many unused blocks a pool keeps.
const keepBlocks = 16

// block is a stretch of a segment in memory: whole entries, as they lie in the
// file. The append goroutine fills it from the front; what it has filled and
// written is only read afterwards, but for the first bytes of payloads, which the
// apply loop may change before others can know of the entry.
//
// References are counted. They are held by the tail cache, by groups and by
// slices; the one who drops the last returns the block to its pool.
type block struct {
	pool *blockPool
	own  bool // it has a size of its own and is left to the collector
	refs atomic.Int32

	start entry.Pos // where the first byte lies
	data  []byte    // all of the memory
	used  int       // how much is filled; owned by the append goroutine
}

func (b *block) retain() { b.refs.Add(1) }

func (b *block) release() {
	if b.refs.Add(-1) == 0 {
		b.pool.held.Add(-int64(len(b.data)))
		if !b.own {
			b.pool.put(b)
		}
	}
}

// room returns how many bytes the block can still take.
func (b *block) room() int64 { return int64(len(b.data) - b.used) }

// blockPool keeps blocks that nobody uses.
type blockPool struct {
	size int64        // of its blocks
	held atomic.Int64 // bytes of blocks that somebody has a reference to

	mu   sync.Mutex
	free []*block // guarded by mu
}

// get returns an empty block with room for need bytes, with one reference.
func (p *blockPool) get(start entry.Pos, need int64) *block {
	if need > p.size {
		b := &block{pool: p, own: true, start: start, data: make([]byte, need)}
		b.refs.Store(1)
		p.held.Add(need)
		return b
	}
	p.mu.Lock()
	var b *block
	if n := len(p.free); n > 0 {
		b, p.free[n-1] = p.free[n-1], nil
		p.free = p.free[:n-1]
	}
	p.mu.Unlock()
	if b == nil {
		b = &block{pool: p, data: make([]byte, p.size)}
	}
	b.start, b.used = start, 0
	b.refs.Store(1)
	p.held.Add(p.size)
	return b
}

func (p *blockPool) put(b *block) {
	p.mu.Lock()
	if len(p.free) < keepBlocks {
		p.free = append(p.free, b)
	}
	p.mu.Unlock()
}

// Slice is a payload in memory that somebody holds on to.
type Slice struct {
	// Bytes is the payload, as the apply loop left it. It is valid until Release
	// and must not be written to.
	Bytes []byte

	block *block
}

// Release lets go of the memory. It must be called exactly once for each Slice
// that Cached returned, whatever copies were made of the value.
func (s Slice) Release() {
	if s.block != nil {
		s.block.release()
	}
}

// tail keeps the newest blocks, for readers that follow the log closely.
type tail struct {
	mu     sync.Mutex
	limit  int64
	blocks []tailBlock // guarded by mu, as all below; oldest first, ordered by start
	first  int         // of the blocks in use; the ones before are nil
	bytes  int64       // capacity of the blocks in use
}

// tailBlock is a block and how much of it readers may see.
type tailBlock struct {
	*block
	end int
}

// publish lets readers see the block up to its present length. It takes a
// reference of its own when the block is new. The newest block stays, however
// large it is, so that the append goroutine can go on filling it.
func (t *tail) publish(b *block) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.blocks); n > t.first && t.blocks[n-1].block == b {
		t.blocks[n-1].end = b.used
		return
	}
	b.retain()
	t.blocks = append(t.blocks, tailBlock{block: b, end: b.used})
	t.bytes += int64(len(b.data))
	for t.bytes > t.limit && t.first < len(t.blocks)-1 {
		old := t.blocks[t.first].block
		t.blocks[t.first] = tailBlock{}
		t.first++
		t.bytes -= int64(len(old.data))
		old.release()
	}
	if t.first > 64 && t.first > len(t.blocks)/2 {
		n := copy(t.blocks, t.blocks[t.first:])
		clear(t.blocks[n:])
		t.blocks, t.first = t.blocks[:n], 0
	}
}

// get returns the payload of size bytes of the entry at pos, with a reference.
func (t *tail) get(pos entry.Pos, size int) (Slice, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// The last block that begins at or before pos.
	low, high := t.first, len(t.blocks)
	for low < high {
		if mid := (low + high) / 2; t.blocks[mid].start <= pos {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low == t.first || size < 0 {
		return Slice{}, false
	}
	b := t.blocks[low-1]
	// Positions of another segment are more than 4 GiB away.
	from := uint64(pos-b.start) + segment.EntryHeaderBytes
	if from+uint64(size) > uint64(b.end) {
		return Slice{}, false
	}
	b.retain()
	to := from + uint64(size)
	return Slice{Bytes: b.data[from:to:to], block: b.block}, true
}

// drop lets go of all blocks.
func (t *tail) drop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range t.blocks[t.first:] {
		b.release()
	}
	t.blocks, t.first, t.bytes = nil, 0, 0
}
