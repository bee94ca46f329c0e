package batch

import (
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// maxZstdRatioShift is how much a byte of zstd can yield at most: a block takes 4
// bytes or more, and yields 128 KiB or less.
const maxZstdRatioShift = 15

// The decoder is told to keep to the room that dst has. It could bound the size
// by itself, but would then refuse frames that need a larger window than the
// bound, which high levels declare for small contents too.
func (c *Codecs) unzstd(dst, src []byte, bound int) ([]byte, error) {
	d, ok := c.zstdReaders.Get().(*zstd.Decoder)
	if !ok {
		var err error
		d, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return dst, fmt.Errorf("decoder: %w", err)
		}
	}
	defer c.zstdReaders.Put(d)

	// What a frame says of its size is believed if it can be true.
	possible := min(bound, len(src)<<maxZstdRatioShift)
	guess := sizeGuess(len(src), possible)
	var frame zstd.Header
	if err := frame.Decode(src); err == nil && frame.HasFCS {
		if frame.FrameContentSize > uint64(bound) {
			return dst, errTooLarge
		}
		guess = int(min(frame.FrameContentSize, uint64(possible)))
	}
	start := len(dst)
	for {
		dst = grow(dst[:start], guess)
		room := dst[:start:min(cap(dst), start+possible)]
		out, err := d.DecodeAll(src, room)
		if err == nil {
			return out, nil
		}
		// Only for frames that say their size does the decoder tell that the room was
		// too small; for others it takes what has no room for damage.
		if cap(room)-start >= possible {
			if !errors.Is(err, zstd.ErrDecoderSizeExceeded) {
				return dst, err
			}
			if possible < bound {
				return dst, errors.New("frame claims more than it can hold")
			}
			return dst, errTooLarge
		}
		guess = min(max(4*(cap(room)-start), 64<<10), possible)
	}
}
