package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	// SizeBytes is the length of the size prefix, which does not count itself.
	SizeBytes = 4
	// FixedBytes is the length of the part of a request header that every
	// version has: key, version, correlation id.
	FixedBytes = 8
	// MinBytes is the size of the shortest request frame: the fixed part and a
	// null client id.
	MinBytes = FixedBytes + 2
)

var (
	// ErrSize marks a size prefix outside of what is allowed.
	ErrSize = errors.New("frame size out of bounds")
	// ErrHeader marks a request header that does not parse.
	ErrHeader = errors.New("malformed request header")
)

// Size returns the size that the prefix at the start of b announces. It wraps
// ErrSize if that is below MinBytes or above limit. b must hold SizeBytes.
func Size(b []byte, limit int) (int, error) {
	size := int(int32(binary.BigEndian.Uint32(b)))
	if size < MinBytes || size > limit {
		return size, fmt.Errorf("%w: %d is not within %d and %d", ErrSize, size, MinBytes, limit)
	}
	return size, nil
}

// Header is a request header.
type Header struct {
	Key           int16
	Version       int16
	CorrelationID int32
	ClientID      []byte // borrowed from the frame; nil for a null client id
}

// Fixed reads the part of the header that does not depend on the version, and
// leaves ClientID nil. b must hold FixedBytes.
func Fixed(b []byte) Header {
	return Header{
		Key:           int16(binary.BigEndian.Uint16(b)),
		Version:       int16(binary.BigEndian.Uint16(b[2:])),
		CorrelationID: int32(binary.BigEndian.Uint32(b[4:])),
	}
}

// Parse reads the header of the request frame b (without its size prefix):
// version 2 if flexible, else version 1. It returns the body, which is borrowed
// from b. Errors wrap ErrHeader.
func Parse(b []byte, flexible bool) (h Header, body []byte, err error) {
	if len(b) < MinBytes {
		return h, nil, fmt.Errorf("%w: %d bytes, need %d", ErrHeader, len(b), MinBytes)
	}
	h = Fixed(b)
	n := int(int16(binary.BigEndian.Uint16(b[FixedBytes:])))
	body = b[MinBytes:]
	switch {
	case n < -1:
		return h, nil, fmt.Errorf("%w: client id of length %d", ErrHeader, n)
	case n > len(body):
		return h, nil, fmt.Errorf("%w: client id of length %d, %d bytes left", ErrHeader, n, len(body))
	case n >= 0:
		h.ClientID, body = body[:n:n], body[n:]
	}
	if flexible {
		if body, err = skipTags(body); err != nil {
			return h, nil, err
		}
	}
	return h, body, nil
}

// skipTags returns what follows the tagged fields at the start of b.
func skipTags(b []byte) ([]byte, error) {
	count, b, ok := uvarint(b)
	if !ok {
		return nil, fmt.Errorf("%w: number of tags", ErrHeader)
	}
	// A tag takes two bytes or more, so a count that cannot be true is refused
	// before the loop.
	if uint64(count)*2 > uint64(len(b)) {
		return nil, fmt.Errorf("%w: %d tags, %d bytes left", ErrHeader, count, len(b))
	}
	for range count {
		var size uint32
		if _, b, ok = uvarint(b); !ok {
			return nil, fmt.Errorf("%w: tag number", ErrHeader)
		}
		if size, b, ok = uvarint(b); !ok || uint64(size) > uint64(len(b)) {
			return nil, fmt.Errorf("%w: tag of length %d, %d bytes left", ErrHeader, size, len(b))
		}
		b = b[size:]
	}
	return b, nil
}

// uvarint reads an unsigned variable-length int of at most 32 bits.
func uvarint(b []byte) (v uint32, rest []byte, ok bool) {
	u, n := binary.Uvarint(b)
	if n <= 0 || u > 1<<32-1 {
		return 0, b, false
	}
	return uint32(u), b[n:], true
}
