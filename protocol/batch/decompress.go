package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/sluicemq/sluice/protocol/kerr"
)

// errTooLarge ends a decompression that has passed its bound.
var errTooLarge = errors.New("decompresses to more than is allowed")

// Decompress appends to dst what src decompresses to. It fails with
// MessageTooLarge if that exceeds the limits, with InvalidRecord if src is
// damaged or anything follows what the codec takes for the end, and with
// UnsupportedCompressionType if the codec is unknown. No more is written, and
// not much more memory taken, than the limits allow.
func (c *Codecs) Decompress(dst []byte, codec Codec, src []byte) ([]byte, error) {
	if codec == None {
		return append(dst, src...), nil
	}
	bound := c.limits.bound(len(src))
	out, err := c.decompress(dst, codec, src, bound)
	switch {
	case err == nil:
		return out, nil
	case errors.Is(err, errTooLarge):
		// Producers that can will split the batch and try again.
		return dst, kerr.New(kerr.MessageTooLarge,
			"%d bytes of %s decompress to more than %d bytes", len(src), codec, bound)
	case kerr.Of(err) != kerr.UnknownServerError:
		return dst, err
	default:
		return dst, kerr.New(kerr.InvalidRecord, "%s does not decompress: %v", codec, err)
	}
}

func (c *Codecs) decompress(dst []byte, codec Codec, src []byte, bound int) ([]byte, error) {
	switch codec {
	case Gzip:
		return c.gunzip(dst, src, bound)
	case Snappy:
		return unsnappy(dst, src, bound)
	case LZ4:
		return c.unlz4(dst, src, bound)
	case Zstd:
		return c.unzstd(dst, src, bound)
	}
	return dst, kerr.New(kerr.UnsupportedCompressionType, "there is no compression type %d", codec)
}

func (c *Codecs) gunzip(dst, src []byte, bound int) ([]byte, error) {
	r, ok := c.gzipReaders.Get().(*gzipReader)
	if !ok {
		r = new(gzipReader)
	}
	defer c.gzipReaders.Put(r)
	r.src.Reset(src)
	defer r.src.Reset(nil) // the pool must not hold on to src
	if err := r.z.Reset(&r.src); err != nil {
		return dst, noEOF(err)
	}
	return readBounded(dst, &r.z, sizeGuess(len(src), bound), bound)
}

// lz4Magic begins a frame; lz4Strict are the bits of the byte that follows it
// which must be 01.1...0: version 1, independent blocks, no dictionary. Kafka's
// own client reads no others, so they would be stored for nobody to read.
const (
	lz4Magic       = 0x184d2204
	lz4StrictMask  = 0b1110_0001
	lz4StrictValue = 0b0110_0000
)

func (c *Codecs) unlz4(dst, src []byte, bound int) ([]byte, error) {
	if len(src) < 7 || binary.LittleEndian.Uint32(src) != lz4Magic {
		return dst, errors.New("no LZ4 frame")
	}
	if src[4]&lz4StrictMask != lz4StrictValue {
		return dst, fmt.Errorf("LZ4 frame flags %#02x ask for a version, linked blocks or a dictionary that clients do not read", src[4])
	}
	r, ok := c.lz4Readers.Get().(*lz4Reader)
	if !ok {
		r = &lz4Reader{z: lz4.NewReader(nil)}
	}
	defer c.lz4Readers.Put(r)
	r.src.Reset(src)
	r.z.Reset(&r.src)
	out, err := readBounded(dst, r.z, sizeGuess(len(src), bound), bound)
	if err == nil && r.src.Len() > 0 {
		err = fmt.Errorf("%d bytes follow the LZ4 frame", r.src.Len())
	}
	r.src.Reset(nil)
	r.z.Reset(&r.src) // gives the block buffer back after an error too
	return out, err
}

// readBounded appends to dst what r yields, at most bound bytes and one. Room
// for guess bytes is made at once.
func readBounded(dst []byte, r io.Reader, guess, bound int) ([]byte, error) {
	limit := len(dst) + bound + 1 // the one byte more tells that there is too much
	dst = slices.Grow(dst, min(guess, bound+1))
	for {
		room := dst[len(dst):min(cap(dst), limit)]
		n, err := r.Read(room)
		dst = dst[:len(dst)+n]
		switch {
		case len(dst) == limit:
			return dst, errTooLarge
		case err == io.EOF:
			return dst, nil
		case err != nil:
			return dst, noEOF(err)
		case len(dst) == cap(dst):
			dst = slices.Grow(dst, min(len(dst), limit-len(dst)))
		}
	}
}

// sizeGuess returns how much room to make at first for n compressed bytes.
func sizeGuess(n, bound int) int { return min(max(4*n, 4<<10), bound) + 1 }

// noEOF names what an EOF in the midst of compressed data is.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// The decoder is told to keep to the room that dst has. It could bound the size
// by itself, but would then refuse frames that need a larger window than the
// bound, which high levels declare for small contents too.
func (c *Codecs) unzstd(dst, src []byte, bound int) ([]byte, error) {
	d, ok := c.zstdReaders.Get().(*zstd.Decoder)
	if !ok {
		var err error
		d, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return dst, fmt.Errorf("zstd decoder: %w", err)
		}
	}
	defer c.zstdReaders.Put(d)

	guess := sizeGuess(len(src), bound)
	var frame zstd.Header
	if err := frame.Decode(src); err == nil && frame.HasFCS {
		if frame.FrameContentSize > uint64(bound) {
			return dst, errTooLarge
		}
		// A claim alone takes no memory: a block of 4 bytes or more yields
		// 128 KiB at most.
		guess = int(min(frame.FrameContentSize, uint64(len(src))<<15))
	}
	start := len(dst)
	for {
		dst = slices.Grow(dst[:start], guess)
		room := dst[:start:min(cap(dst), start+bound)]
		out, err := d.DecodeAll(src, room)
		if !errors.Is(err, zstd.ErrDecoderSizeExceeded) {
			return out, err
		}
		if cap(room)-start >= bound {
			return dst, errTooLarge
		}
		guess = min(max(4*(cap(room)-start), 64<<10), bound)
	}
}
