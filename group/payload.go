package group

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/sluicemq/sluice/group/codec"
	"github.com/sluicemq/sluice/log/entry"
)

const (
	deleteGroupVersion   = 1
	deleteOffsetsVersion = 1
	expireVersion        = 1
)

func encodeDeleteGroup(name string) []byte {
	return codec.AppendString([]byte{deleteGroupVersion}, name)
}

func decodeDeleteGroup(payload []byte) (string, error) {
	r := codec.Reader{Left: payload}
	r.Version(deleteGroupVersion)
	name := r.String("the group")
	return name, r.Done()
}

// TopicPartitions names partitions of a topic.
type TopicPartitions struct {
	ID         entry.TopicID
	Partitions []int32
}

type deleteOffsets struct {
	group  string
	topics []TopicPartitions
}

func (d *deleteOffsets) encode() []byte {
	b := codec.AppendString([]byte{deleteOffsetsVersion}, d.group)
	b = binary.AppendUvarint(b, uint64(len(d.topics)))
	for _, t := range d.topics {
		b = append(b, t.ID[:]...)
		b = binary.AppendUvarint(b, uint64(len(t.Partitions)))
		for _, p := range t.Partitions {
			b = binary.AppendUvarint(b, uint64(p))
		}
	}
	return b
}

func decodeDeleteOffsets(payload []byte) (*deleteOffsets, error) {
	r := codec.Reader{Left: payload}
	r.Version(deleteOffsetsVersion)
	d := &deleteOffsets{group: r.String("the group")}
	for n := r.Count("the number of topics", 17); n > 0 && r.Err() == nil; n-- {
		t := TopicPartitions{ID: r.TopicID()}
		for m := r.Count("the number of partitions", 1); m > 0 && r.Err() == nil; m-- {
			t.Partitions = append(t.Partitions, int32(r.Uvarint("a partition", math.MaxInt32)))
		}
		d.topics = append(d.topics, t)
	}
	return d, r.Done()
}

// expire asks to forget what has expired of some groups.
type expire struct {
	retention time.Duration // whole milliseconds
	groups    []string
}

// maxRetention keeps times far from overflow.
const maxRetention = math.MaxInt64 / 4

func (x *expire) encode() []byte {
	b := binary.LittleEndian.AppendUint64([]byte{expireVersion}, uint64(x.retention.Milliseconds()))
	b = binary.AppendUvarint(b, uint64(len(x.groups)))
	for _, name := range x.groups {
		b = codec.AppendString(b, name)
	}
	return b
}

func decodeExpire(payload []byte) (*expire, error) {
	r := codec.Reader{Left: payload}
	r.Version(expireVersion)
	ms := r.Uint64("the retention")
	if ms > maxRetention/uint64(time.Millisecond) {
		r.Fail("retention of %d ms", ms)
	}
	x := &expire{retention: time.Duration(ms) * time.Millisecond}
	for n := r.Count("the number of groups", 1); n > 0 && r.Err() == nil; n-- {
		x.groups = append(x.groups, r.String("a group"))
	}
	return x, r.Done()
}

// unreadable names the entry in the error.
func unreadable(e *entry.Entry, err error) error {
	return fmt.Errorf("group: apply entry %d (%v): %w", e.Index, e.Type, err)
}
