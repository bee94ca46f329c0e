package batch

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/pierrec/lz4/v4"
)

// What an LZ4 frame consists of: the magic number, a byte of flags, one with the
// block size, the content size if flagged, a check byte; blocks, each with its
// size before it and a checksum behind it if flagged; a size of 0; a checksum
// of the content if flagged.
const (
	lz4Magic      = 0x184d2204
	lz4HeaderSize = 7

	lz4ContentChecksum = 0x04
	lz4ContentSize     = 0x08
	lz4BlockChecksum   = 0x10

	// These flags must be 01.1...0: version 1, independent blocks, no
	// dictionary. Kafka's own client reads no others, so a batch with others
	// would be stored for nobody to read.
	lz4StrictMask  = 0b1110_0001
	lz4StrictValue = 0b0110_0000

	lz4Uncompressed = 1 << 31 // flag in the size of a block
)

// checkLZ4Frame refuses what is not exactly one frame, and frames that clients do
// not read. The decoder would take several frames in a row, of which Kafka's
// client reads the first. Checksums are left to the decoder.
func checkLZ4Frame(src []byte) error {
	if len(src) < lz4HeaderSize || binary.LittleEndian.Uint32(src) != lz4Magic {
		return errors.New("no frame")
	}
	flags := src[4]
	if flags&lz4StrictMask != lz4StrictValue {
		return fmt.Errorf("frame flags %#02x ask for a version, linked blocks or a dictionary that clients do not read", flags)
	}
	at := lz4HeaderSize
	if flags&lz4ContentSize != 0 {
		at += 8
	}
	for {
		if at > len(src)-4 {
			return errors.New("frame is cut short")
		}
		size := int(binary.LittleEndian.Uint32(src[at:]) &^ lz4Uncompressed)
		at += 4
		if size == 0 {
			break
		}
		if flags&lz4BlockChecksum != 0 {
			size += 4
		}
		if size > len(src)-at {
			return errors.New("block is cut short")
		}
		at += size
	}
	if flags&lz4ContentChecksum != 0 {
		at += 4
	}
	if at != len(src) {
		return fmt.Errorf("frame is %d bytes long, of %d", at, len(src))
	}
	return nil
}

func (c *Codecs) unlz4(dst, src []byte, bound int) ([]byte, error) {
	if err := checkLZ4Frame(src); err != nil {
		return dst, err
	}
	r, ok := c.lz4Readers.Get().(*lz4Reader)
	if !ok {
		r = &lz4Reader{z: lz4.NewReader(nil)}
	}
	defer c.lz4Readers.Put(r)
	r.src.Reset(src)
	r.z.Reset(&r.src)
	out, err := readBounded(dst, r.z, sizeGuess(len(src), bound), bound)
	r.src.Reset(nil)  // the pool must not hold on to src
	r.z.Reset(&r.src) // gives back the block buffer, also after an error
	return out, err
}
