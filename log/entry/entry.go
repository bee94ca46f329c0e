package entry

import (
	"fmt"
	"time"
)

// Index is the place of an entry in the order of the CommitLog. The first
// entry of a log has index 1; 0 means "none". It is Raft's log index.
type Index uint64

// Term is the leadership under which an entry was appended. A node of one
// keeps it at FirstTerm. It is Raft's term, and a partition's leader epoch is
// derived from it.
type Term uint64

// FirstTerm is the term of a log that never changed leader.
const FirstTerm Term = 1

// Offset is a record's place in its partition, as Kafka counts: from 0, each
// record one more.
type Offset int64

// Partition is the number of a partition, given by the catalog when the
// partition is made and never given again, so that a topic that is deleted and
// made anew shares nothing with its predecessor. 0 means "no partition".
type Partition uint64

// Pos is where an entry begins on disk: the number of its segment in the upper
// 32 bits, the byte in the segment in the lower 32. Pos values of one log are
// ordered as their entries are.
type Pos uint64

// MakePos returns the position of byte at in the segment with number segment.
func MakePos(segment, at uint32) Pos { return Pos(segment)<<32 | Pos(at) }

// Segment returns the number of the segment.
func (p Pos) Segment() uint32 { return uint32(p >> 32) }

// At returns the byte in the segment at which the entry's header begins.
func (p Pos) At() uint32 { return uint32(p) }

// String returns "segment:byte", as error messages and the dump show it.
func (p Pos) String() string { return fmt.Sprintf("%d:%d", p.Segment(), p.At()) }

// TopicID is the identity of a topic (KIP-516): 16 bytes, never all zero for a
// topic that exists.
type TopicID [16]byte

// Time is a moment in milliseconds since the Unix epoch, the unit in which the
// log and Kafka's protocol count. Entries carry the time at which they were
// appended; along the log it never runs backwards.
type Time int64

// TimeOf returns t as milliseconds since the Unix epoch.
func TimeOf(t time.Time) Time { return Time(t.UnixMilli()) }

// Go returns the moment as a time.Time in UTC.
func (t Time) Go() time.Time { return time.UnixMilli(int64(t)).UTC() }

// Entry is one change of state, as it stands in the CommitLog.
type Entry struct {
	Type      Type
	Flags     uint8
	Term      Term
	Index     Index
	Time      Time      // when it was appended; never before the predecessor's
	Partition Partition // the partition it concerns, or 0
	Payload   []byte    // borrowed: valid only during the call that hands it over
}

// Result is what applying an entry yields for whoever proposed it. Err is nil
// or a refusal that carries a Kafka error code (kerr.Error); every other field
// is meaningful only to the kind of entry that sets it.
type Result struct {
	Err      error
	Offset   Offset // produce: base offset that was assigned
	Time     Time   // produce: append time where the topic asks for it, else -1
	LogStart Offset // produce: log start offset of the partition
	Value    any    // commands: what the applier wants to hand back
}
