package batch

import (
	"fmt"
	"io"

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

func (c *Codecs) gzip(dst []byte, level int, src []byte) ([]byte, error) {
	if level == DefaultLevel || level == gzip.DefaultCompression {
		level = 6
	}
	level = min(max(level, gzip.BestSpeed), gzip.BestCompression)
	pool := &c.gzipWriters[level]
	w, ok := pool.Get().(*gzipWriter)
	if !ok {
		z, err := gzip.NewWriterLevel(nil, level)
		if err != nil {
			return dst, fmt.Errorf("gzip writer: %w", err)
		}
		w = &gzipWriter{z: z}
	}
	defer pool.Put(w)
	w.out.b = dst
	w.z.Reset(&w.out)
	return w.out.writeAll(w.z, src)
}

// writeAll gives src to the compressor, which writes to s, and returns what s
// then holds. Nothing can fail but what is wrong with the compressor's settings.
func (s *sink) writeAll(compressor io.WriteCloser, src []byte) ([]byte, error) {
	_, err := compressor.Write(src)
	if err == nil {
		err = compressor.Close()
	}
	if err != nil {
		return s.take(), fmt.Errorf("compress: %w", err)
	}
	return s.take(), nil
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
		level = DefaultLevel
	}
	level = min(max(level, 0), len(lz4Levels)-1)
	pool := &c.lz4Writers[level]
	w, ok := pool.Get().(*lz4Writer)
	if !ok {
		w = &lz4Writer{z: lz4.NewWriter(nil)}
		if err := w.z.Apply(
			lz4.BlockSizeOption(lz4.Block64Kb),
			lz4.ChecksumOption(false),
			lz4.CompressionLevelOption(lz4Levels[level]),
		); err != nil {
			return dst, fmt.Errorf("LZ4 writer: %w", err)
		}
	}
	defer pool.Put(w)
	w.out.b = dst
	w.z.Reset(&w.out)
	return w.out.writeAll(w.z, src)
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
		w, err = zstd.NewWriter(nil,
			zstd.WithEncoderLevel(speed),
			zstd.WithEncoderConcurrency(1),
			zstd.WithZeroFrames(true),
		)
		if err != nil {
			return dst, fmt.Errorf("zstd encoder: %w", err)
		}
	}
	defer pool.Put(w)
	return w.EncodeAll(src, dst), nil
}
