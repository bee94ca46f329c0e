package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/klauspost/compress/s2"
)

// xerialMagic begins what Java's Snappy streams write; then come two versions of
// 4 bytes, and blocks, each with its size in 4 bytes before it. No raw block
// begins like this: its first element would be a copy of nothing.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const xerialHeaderSize = 16

func unsnappy(dst, src []byte, bound int) ([]byte, error) {
	if !bytes.HasPrefix(src, xerialMagic) {
		return unsnappyBlock(dst, src, bound)
	}
	if len(src) < xerialHeaderSize {
		return dst, errors.New("xerial header is cut short")
	}
	if compatible := binary.BigEndian.Uint32(src[12:]); compatible != 1 {
		return dst, fmt.Errorf("xerial stream needs version %d", compatible)
	}
	start := len(dst)
	for src = src[xerialHeaderSize:]; len(src) > 0; {
		if len(src) < 4 {
			return dst, errors.New("xerial block size is cut short")
		}
		size := binary.BigEndian.Uint32(src)
		src = src[4:]
		if uint64(size) > uint64(len(src)) {
			return dst, fmt.Errorf("xerial block of %d bytes, of which %d are there", size, len(src))
		}
		var err error
		if dst, err = unsnappyBlock(dst, src[:size], bound-(len(dst)-start)); err != nil {
			return dst, err
		}
		src = src[size:]
	}
	return dst, nil
}

// maxSnappyRatio is more than a Snappy block can grow by: its longest copy makes
// 64 bytes of 3.
const maxSnappyRatio = 22

// unsnappyBlock appends to dst what the raw block src decompresses to. The size
// that the block claims is judged before memory is taken for it.
func unsnappyBlock(dst, src []byte, bound int) ([]byte, error) {
	n, err := s2.DecodedLen(src)
	if err != nil {
		return dst, err
	}
	if n > maxSnappyRatio*len(src) {
		return dst, fmt.Errorf("block of %d bytes claims to hold %d", len(src), n)
	}
	if n > bound {
		return dst, errTooLarge
	}
	dst = grow(dst, n)
	if _, err := s2.Decode(dst[len(dst):len(dst)+n], src); err != nil {
		return dst, err
	}
	return dst[:len(dst)+n], nil
}

// xerialBlockSize is how much Java's stream puts into a block. Its readers take
// other sizes too, but keep a buffer of what they meet.
const xerialBlockSize = 32 << 10

// appendXerial appends src in xerial framing.
func appendXerial(dst, src []byte) []byte {
	dst = append(dst, xerialMagic...)
	dst = binary.BigEndian.AppendUint32(dst, 1) // version
	dst = binary.BigEndian.AppendUint32(dst, 1) // oldest version that can read it
	for chunk := range slices.Chunk(src, xerialBlockSize) {
		room := s2.MaxEncodedLen(len(chunk))
		dst = grow(dst, 4+room)
		sizeAt := len(dst)
		block := s2.EncodeSnappy(dst[sizeAt+4:sizeAt+4+room], chunk)
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(block)))
		dst = dst[:len(dst)+len(block)]
	}
	return dst
}
