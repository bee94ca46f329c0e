package classic

import "encoding/binary"

// addSubscription adds the topics of a ConsumerProtocolSubscription, of which
// every version begins with those of version 0: a version, then an array of
// topics. It reports whether the bytes are one.
func addSubscription(topics map[string]bool, b []byte) bool {
	if len(b) < 6 || int16(binary.BigEndian.Uint16(b)) < 0 {
		return false
	}
	n := int32(binary.BigEndian.Uint32(b[2:]))
	b = b[6:]
	if n < 0 || int(n) > len(b)/2 {
		return false
	}
	for range n {
		if len(b) < 2 {
			return false
		}
		size := int16(binary.BigEndian.Uint16(b))
		b = b[2:]
		if size < 0 || int(size) > len(b) {
			return false
		}
		topics[string(b[:size])] = true
		b = b[size:]
	}
	return true
}
