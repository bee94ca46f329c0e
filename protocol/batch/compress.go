package batch

import (
	"fmt"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/sluicemq/sluice/protocol/kerr"
)

// Compress appends src to dst, compressed at the level (DefaultLevel). Snappy is
// written in xerial framing, and LZ4 in frames of independent 64 KiB blocks, as
// Kafka's own client writes them. It fails with UnsupportedCompressionType
// if the codec is unknown.
func (c *Codecs) Compress(dst []byte, codec Codec, level int, src []byte) ([]byte, error) {
	switch codec {
	case None:
		return append(dst, src...), nil
	case Gzip:
		return c.gzip(dst, level, src)
	case Snappy:
		return appendXerial(dst, src), nil
	case LZ4:
		return c.lz4(dst, level, src)
	case Zstd:
		return c.zstd(dst, level, src)
	}
	return dst, kerr.New(kerr.UnsupportedCompressionType, "there is no compression type %d", codec)
}

// sink is an io.Writer that appends.
type sink struct{ b []byte }

func (s *sink) Write(p []byte) (int, error) {
	s.b = append(s.b, p...)
	return len(p), nil
}

func (c *Codecs) gzip(dst []byte, level int, src []byte) ([]byte, error) {
	if level == DefaultLevel || level == gzip.DefaultCompression {
		level = 6
	}
	level = min(max(level, gzip.BestSpeed), gzip.BestCompression)
	pool := &c.gzipWriters[level]
	out := &sink{b: dst}
	w, ok := pool.Get().(*gzip.Writer)
	if ok {
		w.Reset(out)
	} else {
		var err error
		if w, err = gzip.NewWriterLevel(out, level); err != nil {
			return dst, fmt.Errorf("gzip writer: %w", err)
		}
	}
	if _, err := w.Write(src); err != nil {
		return dst, fmt.Errorf("gzip: %w", err)
	}
	if err := w.Close(); err != nil {
		return dst, fmt.Errorf("gzip: %w", err)
	}
	w.Reset(nil)
	pool.Put(w)
	return out.b, nil
}

// lz4Levels are the levels of the implementation. Kafka takes its default level
// of 9 for the fast compressor, and the others for the strong one.
var lz4Levels = [...]lz4.CompressionLevel{
	lz4.Fast, lz4.Level1, lz4.Level2, lz4.Level3, lz4.Level4,
	lz4.Level5, lz4.Level6, lz4.Level7, lz4.Level8, lz4.Level9,
}

const kafkaDefaultLZ4Level = 9

func (c *Codecs) lz4(dst []byte, level int, src []byte) ([]byte, error) {
	if level == kafkaDefaultLZ4Level {
		level = 0
	}
	level = min(max(level, 0), len(lz4Levels)-1)
	pool := &c.lz4Writers[level]
	w, ok := pool.Get().(*lz4.Writer)
	if !ok {
		w = lz4.NewWriter(nil)
		if err := w.Apply(
			lz4.BlockSizeOption(lz4.Block64Kb),
			lz4.ChecksumOption(false),
			lz4.CompressionLevelOption(lz4Levels[level]),
		); err != nil {
			return dst, fmt.Errorf("LZ4 writer: %w", err)
		}
	}
	out := &sink{b: dst}
	w.Reset(out)
	if _, err := w.Write(src); err != nil {
		return dst, fmt.Errorf("LZ4: %w", err)
	}
	if err := w.Close(); err != nil {
		return dst, fmt.Errorf("LZ4: %w", err)
	}
	w.Reset(nil)
	pool.Put(w)
	return out.b, nil
}

const defaultZstdLevel = 3

func (c *Codecs) zstd(dst []byte, level int, src []byte) ([]byte, error) {
	if level == DefaultLevel {
		level = defaultZstdLevel
	}
	speed := zstd.EncoderLevelFromZstd(level)
	pool := &c.zstdWriters[speed]
	w, ok := pool.Get().(*zstd.Encoder)
	if !ok {
		var err error
		w, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(speed), zstd.WithEncoderConcurrency(1), zstd.WithZeroFrames(true))
		if err != nil {
			return dst, fmt.Errorf("zstd encoder: %w", err)
		}
	}
	defer pool.Put(w)
	return w.EncodeAll(src, dst), nil
}
