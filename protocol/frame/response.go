package frame

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Begin appends the start of a response frame to dst: an empty size prefix and
// the response header, version 1 (without tags) if flexible, else version 0.
// When the body has been appended too, End fills the size in.
func Begin(dst []byte, correlationID int32, flexible bool) []byte {
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	if flexible {
		dst = append(dst, 0)
	}
	return dst
}

// End writes the size of the response frame that Begin started at b[0]. The
// frame is b and extra bytes that will be sent behind it. It wraps ErrSize if
// a frame cannot be that large.
func End(b []byte, extra int) error {
	size := len(b) - SizeBytes + extra
	if size > math.MaxInt32 {
		return fmt.Errorf("%w: a response of %d bytes", ErrSize, size)
	}
	binary.BigEndian.PutUint32(b, uint32(size))
	return nil
}
