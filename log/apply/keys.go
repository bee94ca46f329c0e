package apply

import (
	"encoding/binary"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/state"
)

// Keys of this package in the state store; numbers are big endian, so that keys
// are in their order. FORMAT.md has the values.

const (
	queueKeySize = 9
	tailKeySize  = 13
	freedKeySize = 5
)

func queueKey(p entry.Partition) []byte {
	return binary.BigEndian.AppendUint64([]byte{byte(state.PrefixQueue)}, uint64(p))
}

func tailKey(segment uint32, upTo entry.Index) []byte {
	key := binary.BigEndian.AppendUint32([]byte{byte(state.PrefixTail)}, segment)
	return binary.BigEndian.AppendUint64(key, uint64(upTo))
}

// sealedKey says that a segment's tail records are in its index file. No chunk
// has index 0.
func sealedKey(segment uint32) []byte { return tailKey(segment, 0) }

// behindTail is above all keys of the segment's tail records.
func behindTail(segment uint32) []byte { return append(tailKey(segment, 1<<64-1), 0) }

func freedKey(segment uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{byte(state.PrefixFreed)}, segment)
}

// all returns the bounds of a Scan over every key with the prefix.
func all(prefix state.Prefix) (from, to []byte) {
	return []byte{byte(prefix)}, []byte{byte(prefix) + 1}
}
