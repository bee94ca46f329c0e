package offsets

import (
	"encoding/binary"
	"math"

	"github.com/sluicemq/sluice/group/codec"
	"github.com/sluicemq/sluice/log/entry"
)

// Offset is what is committed for a partition.
type Offset struct {
	Partition   int32
	Offset      int64 // any number is kept
	LeaderEpoch int32 // -1 for none
	Metadata    string
}

// Topic is what is committed for a topic.
type Topic struct {
	ID      entry.TopicID
	Offsets []Offset
}

// Request is a commit of a member or of somebody outside the group.
type Request struct {
	Group      string
	Member     string // empty outside of a group
	Instance   string // empty unless the member is a static one
	Generation int32  // or member epoch; below 0 outside of a group
	Retention  int64  // milliseconds to keep the offsets from now; -1: as the broker's settings say
	Topics     []Topic
}

const commitVersion = 1

// least bytes that a topic and an offset take in a payload.
const (
	leastTopic  = 17
	leastOffset = 14
)

// Append appends the payload of an entry of type TypeCommitOffsets.
func (q *Request) Append(dst []byte) []byte {
	dst = append(dst, commitVersion)
	dst = codec.AppendString(dst, q.Group)
	dst = codec.AppendString(dst, q.Member)
	dst = codec.AppendString(dst, q.Instance)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(q.Generation))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(q.Retention))
	dst = binary.AppendUvarint(dst, uint64(len(q.Topics)))
	for i := range q.Topics {
		t := &q.Topics[i]
		dst = append(dst, t.ID[:]...)
		dst = binary.AppendUvarint(dst, uint64(len(t.Offsets)))
		for j := range t.Offsets {
			o := &t.Offsets[j]
			dst = binary.AppendUvarint(dst, uint64(o.Partition))
			dst = binary.LittleEndian.AppendUint64(dst, uint64(o.Offset))
			dst = binary.LittleEndian.AppendUint32(dst, uint32(o.LeaderEpoch))
			dst = codec.AppendString(dst, o.Metadata)
		}
	}
	return dst
}

// Size returns an upper bound of what Append appends.
func (q *Request) Size() int {
	n := 64 + len(q.Group) + len(q.Member) + len(q.Instance)
	for i := range q.Topics {
		n += 32
		for j := range q.Topics[i].Offsets {
			n += 24 + len(q.Topics[i].Offsets[j].Metadata)
		}
	}
	return n
}

// Commit is a payload of which the head was read. Its bytes are borrowed from
// the payload.
type Commit struct {
	Group, Member, Instance []byte
	Generation              int32
	Retention               int64

	rest codec.Reader // from the number of topics on
}

// DecodeCommit reads the head of a payload; Table.Commit reads on. The error
// wraps one of codec's.
func DecodeCommit(payload []byte) (Commit, error) {
	r := codec.Reader{Left: payload}
	r.Version(commitVersion)
	c := Commit{
		Group:      r.Bytes("the group"),
		Member:     r.Bytes("the member"),
		Instance:   r.Bytes("the instance"),
		Generation: int32(r.Uint32("the generation")),
		Retention:  int64(r.Uint64("the retention")),
	}
	if r.Err() == nil && c.Retention < -1 {
		r.Fail("retention of %d ms", c.Retention)
	}
	c.rest = r
	return c, r.Err()
}

// one is an offset of a payload; metadata is borrowed.
type one struct {
	index    int32
	offset   int64
	epoch    int32
	metadata []byte
}

func readOne(r *codec.Reader) one {
	return one{
		index:    int32(r.Uvarint("a partition", math.MaxInt32)),
		offset:   int64(r.Uint64("an offset")),
		epoch:    int32(r.Uint32("a leader epoch")),
		metadata: r.Bytes("the metadata"),
	}
}
