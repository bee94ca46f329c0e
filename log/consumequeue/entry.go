package consumequeue

import (
	"encoding/binary"

	"github.com/sluicemq/sluice/log/entry"
)

// Entry says where one record batch lies and what it holds. It takes 32 bytes,
// in memory and on disk.
type Entry struct {
	BaseOffset   entry.Offset // offset of the first record
	MaxTimestamp entry.Time   // largest timestamp of a record; below 0 when there is none
	At           uint32       // byte in the segment at which the entry's header begins
	Size         uint32       // bytes of the payload, that is, of the batch
	Count        uint32       // offsets that the batch covers: last offset delta + 1
	Tags         uint32       // union of the tag bits of its records, or Control
}

// Control in Tags says that the batch is a control batch. It is the head of its log
// entry's payload, which may be longer, and of which Size is the size; and other
// partitions may have the same one, so that its base offset is set in a copy.
const Control uint32 = 1 << 31

// End returns the offset behind the batch.
func (e Entry) End() entry.Offset { return e.BaseOffset + entry.Offset(e.Count) }

// Located is an Entry together with the segment that it points into.
type Located struct {
	Entry
	Segment uint32
}

// Pos returns where the batch's log entry begins.
func (l Located) Pos() entry.Pos { return entry.MakePos(l.Segment, l.At) }

// appendEntry appends the 32 bytes of e (FORMAT.md, "Entries").
func appendEntry(dst []byte, e Entry) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(e.BaseOffset))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(e.MaxTimestamp))
	dst = binary.LittleEndian.AppendUint32(dst, e.At)
	dst = binary.LittleEndian.AppendUint32(dst, e.Size)
	dst = binary.LittleEndian.AppendUint32(dst, e.Count)
	return binary.LittleEndian.AppendUint32(dst, e.Tags)
}

// decodeEntry reads the entry at the beginning of b, which holds entryBytes or more.
func decodeEntry(b []byte) Entry {
	_ = b[entryBytes-1]
	return Entry{
		BaseOffset:   entry.Offset(binary.LittleEndian.Uint64(b)),
		MaxTimestamp: entry.Time(binary.LittleEndian.Uint64(b[8:])),
		At:           binary.LittleEndian.Uint32(b[16:]),
		Size:         binary.LittleEndian.Uint32(b[20:]),
		Count:        binary.LittleEndian.Uint32(b[24:]),
		Tags:         binary.LittleEndian.Uint32(b[28:]),
	}
}
