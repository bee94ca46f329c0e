package batch

import "math"

// varint decodes the zigzag number at b[at]. next is where it ends, or -1 if it
// is cut short or exceeds 64 bits; then v is 0. A negative at gives that too, so
// that a row of calls needs one check at its end.
func varint(b []byte, at int) (v int64, next int) {
	if uint(at) < uint(len(b)) && b[at] < 0x80 {
		return unzigzag(uint64(b[at])), at + 1
	}
	return longVarint(b, at)
}

func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

func longVarint(b []byte, at int) (v int64, next int) {
	if at < 0 {
		return 0, -1
	}
	var u uint64
	for shift := uint(0); at < len(b) && shift < 64; shift += 7 {
		c := b[at]
		at++
		if shift == 63 && c > 1 {
			break
		}
		u |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return unzigzag(u), at
		}
	}
	return 0, -1
}

// maxVarint32 is the number of bytes that clients read of a 32-bit number.
const maxVarint32 = 5

// varint32 is varint for numbers that clients read as 32 bits.
func varint32(b []byte, at int) (v, next int) {
	if uint(at) < uint(len(b)) && b[at] < 0x80 {
		return int(unzigzag(uint64(b[at]))), at + 1
	}
	long, next := longVarint(b, at)
	if next-at > maxVarint32 || long > math.MaxInt32 || long < math.MinInt32 {
		return 0, -1
	}
	return int(long), next
}
