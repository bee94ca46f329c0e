package batch

import (
	"errors"
	"io"

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

// readBounded appends to dst what r yields, at most bound bytes and one. Room
// for guess bytes is made at once.
func readBounded(dst []byte, r io.Reader, guess, bound int) ([]byte, error) {
	limit := len(dst) + bound + 1 // the one byte more tells that there is too much
	dst = grow(dst, min(guess, bound+1))
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
			dst = grow(dst, min(len(dst), limit-len(dst)))
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
