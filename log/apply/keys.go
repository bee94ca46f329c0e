package apply

import (
	"encoding/binary"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/state"
)

// Keys of this package in the state store; numbers are big endian, so that keys
// are in their order. FORMAT.md has the values.

func queueKey(p entry.Partition) []byte {
	return binary.BigEndian.AppendUint64([]byte{byte(state.PrefixQueue)}, uint64(p))
}

func tailKey(segment uint32, upTo entry.Index) []byte {
	key := binary.BigEndian.AppendUint32([]byte{byte(state.PrefixTail)}, segment)
	return binary.BigEndian.AppendUint64(key, uint64(upTo))
}

func freedKey(segment uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{byte(state.PrefixFreed)}, segment)
}

// all returns the bounds of a Scan over every key with the prefix.
func all(prefix state.Prefix) (from, to []byte) {
	return []byte{byte(prefix)}, []byte{byte(prefix) + 1}
}
