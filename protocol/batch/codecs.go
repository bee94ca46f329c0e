package batch

import (
	"bytes"
	"math/bits"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Limits bound what compressed bytes may decompress to, while they are being
// decompressed. A batch may grow to SlackBytes whatever its size; beyond that to
// MaxRatio times its compressed size; and never beyond MaxBytes. The ratio keeps
// small requests from costing much memory, and the slack lets through what
// honest producers send: the records of a batch may well be all alike.
type Limits struct {
	MaxBytes   int // 0 means 128 MiB
	SlackBytes int // 0 means 16 MiB
	MaxRatio   int // 0 means 1000
}

func (l Limits) withDefaults() Limits {
	if l.MaxBytes <= 0 {
		l.MaxBytes = 128 << 20
	}
	if l.SlackBytes <= 0 {
		l.SlackBytes = 16 << 20
	}
	if l.MaxRatio <= 0 {
		l.MaxRatio = 1000
	}
	return l
}

// bound returns how many bytes n compressed ones may become.
func (l Limits) bound(n int) int {
	return int(min(int64(l.MaxBytes), max(int64(l.SlackBytes), int64(n)*int64(l.MaxRatio))))
}

// maxPooled is the capacity above which a buffer is left to the garbage
// collector, so that one large batch does not hold memory for good.
const maxPooled = 4 << 20

// grow returns b with room for n bytes more. Capacities that can be pooled are
// powers of two: then few sizes are about, and a buffer soon fits what comes.
func grow(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	size := len(b) + n
	if size <= maxPooled {
		size = 1 << bits.Len(uint(size-1))
	}
	return append(make([]byte, 0, size), b...)
}

// Codecs compresses and decompresses with pooled coders and buffers. It is safe
// for concurrent use, and starts no goroutines.
type Codecs struct {
	limits Limits

	buffers     sync.Pool // *buffer
	gzipReaders sync.Pool // *gzipReader
	lz4Readers  sync.Pool // *lz4Reader
	zstdReaders sync.Pool // *zstd.Decoder

	// Writers by what compress makes of the level.
	gzipWriters [gzip.BestCompression + 1]sync.Pool      // *gzipWriter
	lz4Writers  [len(lz4Levels)]sync.Pool                // *lz4Writer
	zstdWriters [zstd.SpeedBestCompression + 1]sync.Pool // *zstd.Encoder
}

// NewCodecs returns Codecs that keep to the limits.
func NewCodecs(limits Limits) *Codecs { return &Codecs{limits: limits.withDefaults()} }

// buffer is pooled memory. It is passed by pointer so that putting it back does
// not allocate.
type buffer struct{ b []byte }

func (c *Codecs) getBuffer() *buffer {
	if b, ok := c.buffers.Get().(*buffer); ok {
		return b
	}
	return &buffer{b: make([]byte, 0, 64<<10)}
}

func (c *Codecs) putBuffer(b *buffer) {
	if cap(b.b) > maxPooled {
		return
	}
	b.b = b.b[:0]
	c.buffers.Put(b)
}

type gzipReader struct {
	src bytes.Reader
	z   gzip.Reader
}

type lz4Reader struct {
	src bytes.Reader
	z   *lz4.Reader
}

type gzipWriter struct {
	out sink
	z   *gzip.Writer
}

type lz4Writer struct {
	out sink
	z   *lz4.Writer
}

// sink is an io.Writer that appends.
type sink struct{ b []byte }

func (s *sink) Write(p []byte) (int, error) {
	s.b = append(s.b, p...)
	return len(p), nil
}

// take returns what was written and lets go of it.
func (s *sink) take() []byte {
	b := s.b
	s.b = nil
	return b
}
