package batch_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/protocol/kerr"
)

var realCodecs = allCodecs[1:]

func samples() map[string][]byte {
	return map[string][]byte{
		"empty":          {},
		"one byte":       {7},
		"text":           []byte(strings.Repeat("all work and no play ", 5000)),
		"zeroes":         make([]byte, 300_000),
		"one block":      bytes.Repeat([]byte("0123456789abcdef"), 2048),
		"incompressible": incompressible(100_000),
	}
}

// incompressible returns n bytes of a fixed pseudo-random sequence.
func incompressible(n int) []byte {
	b, x := make([]byte, n), uint64(88172645463325252)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x >> 32)
	}
	return b
}

func TestWhatIsCompressedDecompresses(t *testing.T) {
	c := newCodecs()
	for name, want := range samples() {
		for _, codec := range allCodecs {
			for _, level := range []int{batch.DefaultLevel, -200_000, 1, 9, 12, 100} {
				packed, err := c.Compress([]byte("head"), codec, level, want)
				if err != nil {
					t.Fatalf("%s, %s, level %d: %v", name, codec, level, err)
				}
				got, err := c.Decompress([]byte("front"), codec, packed[4:])
				if err != nil || string(got[:5]) != "front" || string(packed[:4]) != "head" {
					t.Fatalf("%s, %s, level %d: %v", name, codec, level, err)
				}
				if !bytes.Equal(got[5:], want) {
					t.Errorf("%s, %s, level %d: other bytes come back", name, codec, level)
				}
			}
		}
	}
}

func TestHigherLevelsCompressMore(t *testing.T) {
	text := many(t, batch.None, 2000, 200)
	for codec, levels := range map[batch.Codec][2]int{batch.Gzip: {1, 9}, batch.LZ4: {batch.DefaultLevel, 8}, batch.Zstd: {1, 19}} {
		low, _ := newCodecs().Compress(nil, codec, levels[0], text)
		high, _ := newCodecs().Compress(nil, codec, levels[1], text)
		if len(high) >= len(low) {
			t.Errorf("%s: level %d gives %d bytes, level %d %d", codec, levels[0], len(low), levels[1], len(high))
		}
	}
}

func franzCodec(c batch.Codec) kgo.CompressionCodec {
	return map[batch.Codec]kgo.CompressionCodec{
		batch.None: kgo.NoCompression(), batch.Gzip: kgo.GzipCompression(), batch.Snappy: kgo.SnappyCompression(),
		batch.LZ4: kgo.Lz4Compression(), batch.Zstd: kgo.ZstdCompression(),
	}[c]
}

func TestFranzReadsWhatIsWrittenHereAndTheOtherWayRound(t *testing.T) {
	c := newCodecs()
	theirs := kgo.DefaultDecompressor()
	for _, codec := range realCodecs {
		compressor, err := kgo.DefaultCompressor(franzCodec(codec))
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range samples() {
			if len(want) == 0 {
				continue
			}
			packed, used := compressor.Compress(new(bytes.Buffer), want)
			if batch.Codec(used) != codec {
				t.Fatalf("franz-go chose %d for %s", used, codec)
			}
			if got, err := c.Decompress(nil, codec, packed); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s of %s read here: %v", codec, name, err)
			}
			packed, err := c.Compress(nil, codec, batch.DefaultLevel, want)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := theirs.Decompress(packed, kgo.CompressionCodecType(codec)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s of %s read there: %v", codec, name, err)
			}
		}
	}
}

func TestSnappyIsReadInEachFraming(t *testing.T) {
	c := newCodecs()
	want := []byte(strings.Repeat("one and the other ", 4000))
	raw := s2.EncodeSnappy(nil, want)
	framed, err := c.Compress(nil, batch.Snappy, batch.DefaultLevel, want)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(framed, []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")) {
		t.Errorf("written with header %q", framed[:16])
	}
	for name, packed := range map[string][]byte{"raw": raw, "xerial": framed} {
		if got, err := c.Decompress(nil, batch.Snappy, packed); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, packed := range map[string][]byte{
		"header cut short":     framed[:12],
		"newer version":        append([]byte("\x82SNAPPY\x00\x00\x00\x00\x02\x00\x00\x00\x02"), framed[16:]...),
		"block size cut short": append(bytes.Clone(framed), 0, 0, 1),
		"block cut short":      framed[:len(framed)-1],
		"block of 4 GiB":       append(bytes.Clone(framed[:16]), 0xff, 0xff, 0xff, 0xff, 1),
		"two streams":          append(bytes.Clone(framed), framed...),
		"empty block":          append(bytes.Clone(framed), 0, 0, 0, 0),
		"claim beyond Snappy":  {0xff, 0xff, 0x03, 0, 0},
		"claim cut short":      {0xff},
		"nothing":              {},
	} {
		if _, err := c.Decompress(nil, batch.Snappy, packed); kerr.Of(err) != kerr.InvalidRecord {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDecompressRefusesDamage(t *testing.T) {
	c := newCodecs()
	text := []byte(strings.Repeat("a text of some length ", 300))
	for _, codec := range realCodecs {
		packed, err := c.Compress(nil, codec, batch.DefaultLevel, text)
		if err != nil {
			t.Fatal(err)
		}
		for n := range len(packed) {
			got, err := c.Decompress(nil, codec, packed[:n])
			if kerr.Of(err) == kerr.InvalidRecord {
				continue
			}
			// Framings made of pieces may end after any of them.
			if err != nil || len(got) >= len(text) {
				t.Errorf("%s cut to %d of %d bytes: %d bytes, %v", codec, n, len(packed), len(got), err)
			}
		}
		for _, tail := range []string{"\x00", "garbage that is long enough for any header"} {
			if _, err := c.Decompress(nil, codec, append(bytes.Clone(packed), tail...)); kerr.Of(err) != kerr.InvalidRecord {
				t.Errorf("%s with %q behind: %v", codec, tail, err)
			}
		}
		if got, err := c.Decompress([]byte("kept"), codec, packed[:len(packed)/2]); err == nil || string(got) != "kept" {
			t.Errorf("%s: dst is %q after %v", codec, got, err)
		}
	}
	if _, err := c.Decompress(nil, 6, nil); kerr.Of(err) != kerr.UnsupportedCompressionType {
		t.Errorf("codec 6: %v", err)
	}
	if _, err := c.Compress(nil, 6, batch.DefaultLevel, nil); kerr.Of(err) != kerr.UnsupportedCompressionType {
		t.Errorf("to codec 6: %v", err)
	}
}

// LZ4 frames that Kafka's own client cannot read must not get into a log.
func TestLZ4FramesThatClientsDoNotReadAreRefused(t *testing.T) {
	c := newCodecs()
	good, err := c.Compress(nil, batch.LZ4, batch.DefaultLevel, []byte("text"))
	if err != nil {
		t.Fatal(err)
	}
	flags := func(f byte) []byte { b := bytes.Clone(good); b[4] = f; return b }
	var legacy bytes.Buffer
	w := lz4.NewWriter(&legacy)
	if err := w.Apply(lz4.LegacyOption(true)); err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write([]byte("text"))
	_ = w.Close()
	for name, packed := range map[string][]byte{
		"linked blocks":  flags(good[4] &^ 0x20),
		"version 2":      flags(good[4]&^0xc0 | 0x80),
		"dictionary":     flags(good[4] | 1),
		"legacy":         legacy.Bytes(),
		"skippable":      append([]byte{0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0}, good...),
		"bad check byte": append(append(bytes.Clone(good[:6]), good[6]^1), good[7:]...),
		"two frames":     append(bytes.Clone(good), good...),
	} {
		if _, err := c.Decompress(nil, batch.LZ4, packed); kerr.Of(err) != kerr.InvalidRecord {
			t.Errorf("%s: %v", name, err)
		}
	}
	var full bytes.Buffer
	w = lz4.NewWriter(&full)
	if err := w.Apply(lz4.BlockChecksumOption(true), lz4.ChecksumOption(true), lz4.SizeOption(4), lz4.BlockSizeOption(lz4.Block4Mb)); err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write([]byte("text"))
	_ = w.Close()
	if got, err := c.Decompress(nil, batch.LZ4, full.Bytes()); err != nil || string(got) != "text" {
		t.Errorf("with every checksum and the size: %q, %v", got, err)
	}
}

func TestZstdFramesOfOtherWritersAreRead(t *testing.T) {
	c := newCodecs()
	text := []byte(strings.Repeat("window ", 1000))
	var streamed bytes.Buffer
	w, err := zstd.NewWriter(&streamed, zstd.WithWindowSize(128<<20), zstd.WithEncoderCRC(true))
	if err != nil {
		t.Fatal(err)
	}
	for part := range strings.SplitSeq(string(text), "w") { // flushed, so that no size is written
		_, _ = w.Write([]byte(part))
		_ = w.Flush()
	}
	_ = w.Close()
	plain := []byte(strings.ReplaceAll(string(text), "w", ""))
	for name, packed := range map[string][]byte{
		"large window, no size": streamed.Bytes(),
		"frames in a row":       append(bytes.Clone(streamed.Bytes()), streamed.Bytes()...),
		"skippable frame":       append([]byte{0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 9}, streamed.Bytes()...),
	} {
		got, err := c.Decompress(nil, batch.Zstd, packed)
		if err != nil || !bytes.HasPrefix(got, plain) || len(got)%len(plain) != 0 {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	if got := allocated(func() { _, _ = c.Decompress(nil, batch.Zstd, streamed.Bytes()) }); got > 1<<20 {
		t.Errorf("%d bytes allocated for a window that is not used", got)
	}
}

// bomb compresses n zeroes as well as the codec can.
func bomb(t testing.TB, codec batch.Codec, n int) []byte {
	t.Helper()
	zeroes := make([]byte, n)
	if codec == batch.Snappy {
		return s2.EncodeSnappy(nil, zeroes) // a block claims its size, a stream adds up
	}
	b, err := newCodecs().Compress(nil, codec, 9, zeroes)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDecompressionIsBounded(t *testing.T) {
	for _, codec := range realCodecs {
		for _, framed := range []bool{false, true} {
			const size = 1 << 20
			packed := bomb(t, codec, size)
			if framed && codec == batch.Snappy {
				packed, _ = newCodecs().Compress(nil, codec, 0, make([]byte, size))
			}
			for _, c := range []struct {
				limits  batch.Limits
				allowed bool
			}{
				{batch.Limits{MaxBytes: size, SlackBytes: size}, true},
				{batch.Limits{MaxBytes: size - 1, SlackBytes: size}, false},
				{batch.Limits{MaxBytes: 10 * size, SlackBytes: size - 1, MaxRatio: 1}, false},
				{batch.Limits{MaxBytes: 10 * size, SlackBytes: 1, MaxRatio: size/len(packed) + 1}, true},
				{batch.Limits{MaxBytes: 10 * size, SlackBytes: 1, MaxRatio: max(size/len(packed)-1, 1)}, false},
				{batch.Limits{MaxBytes: 1, SlackBytes: 1}, false},
			} {
				got, err := batch.NewCodecs(c.limits).Decompress(nil, codec, packed)
				if c.allowed && (err != nil || len(got) != size) {
					t.Errorf("%s, %+v: %d bytes, %v", codec, c.limits, len(got), err)
				}
				if !c.allowed && kerr.Of(err) != kerr.MessageTooLarge {
					t.Errorf("%s, %+v: %d bytes, %v", codec, c.limits, len(got), err)
				}
			}
		}
	}
}

// allocated returns how many bytes a call of f allocates, on average.
func allocated(f func()) uint64 {
	const runs = 5
	var before, after runtime.MemStats
	f() // fills the pools
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) / runs
}

// A refused bomb must not have cost the memory that it asked for.
func TestBombsCostNoMoreMemoryThanTheBound(t *testing.T) {
	const bound = 1 << 20
	c := batch.NewCodecs(batch.Limits{MaxBytes: bound, SlackBytes: bound})
	for _, codec := range realCodecs {
		packed := bomb(t, codec, 16<<20)
		got := allocated(func() {
			if _, err := c.Decompress(nil, codec, packed); kerr.Of(err) != kerr.MessageTooLarge {
				t.Fatal(err)
			}
		})
		if got > 4*bound {
			t.Errorf("%s: %d bytes allocated", codec, got)
		}
	}
}

// A frame header may claim any size; memory is taken only for what can be there.
func TestZstdClaimTakesNoMemory(t *testing.T) {
	claim := []byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0} // single segment, four bytes of size
	claim = binary.LittleEndian.AppendUint32(claim, 100<<20)
	claim = append(claim, 1, 0, 0) // an empty last block
	c := batch.NewCodecs(batch.Limits{SlackBytes: 128 << 20})
	got := allocated(func() {
		if _, err := c.Decompress(nil, batch.Zstd, claim); kerr.Of(err) != kerr.InvalidRecord {
			t.Fatal(err)
		}
	})
	if got > 2<<20 {
		t.Errorf("%d bytes allocated for a claim of 100 MiB in %d bytes", got, len(claim))
	}
}

func TestValidateRefusesBombsAsTooLarge(t *testing.T) {
	c := batch.NewCodecs(batch.Limits{MaxBytes: 1 << 20})
	for _, codec := range realCodecs {
		b := build(t, batch.Options{Codec: codec}, &batch.Record{Value: make([]byte, 2<<20), Timestamp: now})
		if _, err := c.Validate(b, rules()); kerr.Of(err) != kerr.MessageTooLarge {
			t.Errorf("%s: %v", codec, err)
		}
	}
}

func TestCodecNames(t *testing.T) {
	for _, codec := range allCodecs {
		if got, ok := batch.ParseCodec(codec.String()); got != codec || !ok || !codec.Known() {
			t.Errorf("%s: %v, %v", codec, got, ok)
		}
	}
	if got, ok := batch.ParseCodec("uncompressed"); got != batch.None || !ok {
		t.Errorf("uncompressed: %v, %v", got, ok)
	}
	if _, ok := batch.ParseCodec("producer"); ok {
		t.Error("producer is no codec")
	}
	if got := fmt.Sprint(batch.Codec(6)); got != "codec-6" || batch.Codec(6).Known() {
		t.Errorf("codec 6 is %s", got)
	}
}
