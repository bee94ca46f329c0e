package batch

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Producer is what an idempotent or transactional producer puts into a batch.
type Producer struct {
	ID       int64
	Epoch    int16
	Sequence int32 // of the first record
}

// Options are the fields of a batch that do not come from its records. The zero
// value is a plain, uncompressed batch at offset 0 and leader epoch 0.
type Options struct {
	BaseOffset  int64
	LeaderEpoch int32
	Codec       Codec
	Level       int        // DefaultLevel or one of the codec's
	Attributes  Attributes // flags; the codec in it is not used
	Producer    *Producer  // nil if there is none
}

// Builder makes a batch of records. The zero value is ready for use, and Reset
// makes it ready again while it keeps its memory. It belongs to one goroutine.
type Builder struct {
	records []byte // encoded
	scratch []byte // one record
	count   int
	last    int32 // last offset delta that is taken up
	base    int64 // timestamp of the first record
	max     int64
	err     error
}

// Reset forgets all records.
func (b *Builder) Reset() {
	*b = Builder{records: b.records[:0], scratch: b.scratch[:0]}
}

// Len returns the number of records.
func (b *Builder) Len() int { return b.count }

// Size returns the size that the batch has so far without compression.
func (b *Builder) Size() int { return HeaderSize + len(b.records) }

// Add puts a record behind those that are there. Its offset is the next one;
// r.OffsetDelta is not looked at. Key, value and headers are copied.
func (b *Builder) Add(r *Record) {
	delta := b.last + 1
	if b.count == 0 {
		delta = 0
	}
	b.AddAt(delta, r)
}

// AddAt is Add for a record whose distance from the base offset is given, so that
// batches can have gaps. Deltas must rise; the first that does not makes Build
// fail.
func (b *Builder) AddAt(delta int32, r *Record) {
	if b.count == 0 {
		b.base, b.max, b.last = r.Timestamp, NoTimestamp, -1
	}
	if delta <= b.last && b.err == nil {
		b.err = fmt.Errorf("build batch: offset delta %d after %d", delta, b.last)
	}
	b.count++
	b.last = delta
	b.max = max(b.max, r.Timestamp)

	s := append(b.scratch[:0], 0) // attributes
	s = binary.AppendVarint(s, r.Timestamp-b.base)
	s = binary.AppendVarint(s, int64(delta))
	s = appendNullable(s, r.Key)
	s = appendNullable(s, r.Value)
	s = binary.AppendVarint(s, int64(r.Headers.n))
	s = append(s, r.Headers.b...)
	b.scratch = s
	b.records = binary.AppendVarint(b.records, int64(len(s)))
	b.records = append(b.records, s...)
}

// Extend makes the batch take up the offsets as far as delta, although no record
// lies there. Nothing can be added after it.
func (b *Builder) Extend(delta int32) {
	if b.count > 0 {
		b.last = max(b.last, delta)
		return
	}
	b.last = delta
}

// Build appends the batch to dst. The builder keeps its records. It fails if the
// batch cannot be expressed or the codec is unknown.
func (b *Builder) Build(dst []byte, c *Codecs, o Options) ([]byte, error) {
	if b.err != nil {
		return dst, b.err
	}
	if b.count > math.MaxInt32 {
		return dst, fmt.Errorf("build batch: %d records", b.count)
	}
	if b.count == 0 {
		b.base, b.max = NoTimestamp, NoTimestamp
	}
	p := Producer{ID: NoProducerID, Epoch: -1, Sequence: -1}
	if o.Producer != nil {
		p = *o.Producer
	}
	start := len(dst)
	out := append(dst, make([]byte, HeaderSize)...)
	h := out[start:]
	binary.BigEndian.PutUint64(h[atBaseOffset:], uint64(o.BaseOffset))
	binary.BigEndian.PutUint32(h[atLeaderEpoch:], uint32(o.LeaderEpoch))
	h[atMagic] = Magic
	binary.BigEndian.PutUint32(h[atLastOffsetDelta:], uint32(b.last))
	binary.BigEndian.PutUint64(h[atBaseTimestamp:], uint64(b.base))
	binary.BigEndian.PutUint64(h[atMaxTimestamp:], uint64(b.max))
	binary.BigEndian.PutUint64(h[atProducerID:], uint64(p.ID))
	binary.BigEndian.PutUint16(h[atProducerEpoch:], uint16(p.Epoch))
	binary.BigEndian.PutUint32(h[atBaseSequence:], uint32(p.Sequence))
	binary.BigEndian.PutUint32(h[atCount:], uint32(b.count))
	out, err := c.Compress(out, o.Codec, o.Level, b.records)
	if err != nil {
		return dst, fmt.Errorf("build batch: %w", err)
	}
	if err := finish(out[start:], o.Attributes, o.Codec); err != nil {
		return dst, fmt.Errorf("build batch: %w", err)
	}
	return out, nil
}
