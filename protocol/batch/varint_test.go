package batch

import (
	"encoding/binary"
	"math"
	"testing"
)

func TestVarintsReadWhatTheStandardLibraryWrites(t *testing.T) {
	for _, v := range []int64{0, 1, -1, 63, 64, -64, -65, 8191, 8192, math.MaxInt32, math.MinInt32,
		math.MaxInt32 + 1, math.MinInt32 - 1, math.MaxInt64, math.MinInt64} {
		b := append([]byte{0xee}, binary.AppendVarint(nil, v)...)
		if got, next := varint(b, 1); got != v || next != len(b) {
			t.Errorf("%d: read %d, ends at %d of %d", v, got, next, len(b))
		}
		got, next := varint32(b, 1)
		if fits := v == int64(int32(v)); fits && (got != int(v) || next != len(b)) || !fits && next != -1 {
			t.Errorf("%d as 32 bits: read %d, ends at %d", v, got, next)
		}
		for n := range len(b) {
			if _, next := varint(b[:n], 1); next != -1 {
				t.Errorf("%d cut to %d bytes is read", v, n)
			}
		}
	}
}

func TestVarintsOfTooManyBytesAreRefused(t *testing.T) {
	padded := func(n int) []byte { // 0, in n bytes
		b := make([]byte, n)
		for i := range n - 1 {
			b[i] = 0x80
		}
		return b
	}
	for n := 1; n <= 12; n++ {
		if _, next := varint(padded(n), 0); (next == n) != (n <= 10) {
			t.Errorf("%d bytes: ends at %d", n, next)
		}
		if _, next := varint32(padded(n), 0); (next == n) != (n <= 5) {
			t.Errorf("%d bytes as 32 bits: ends at %d", n, next)
		}
	}
	if _, next := varint(nil, -1); next != -1 {
		t.Error("goes on after a failure")
	}
	if _, next := varint32([]byte{0}, -1); next != -1 {
		t.Error("goes on after a failure, 32 bits")
	}
}
