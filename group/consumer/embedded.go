package consumer

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/sluicemq/sluice/group/assign"
	"github.com/sluicemq/sluice/log/entry"
)

// The bytes inside of JoinGroup and SyncGroup, which consumers of the classic
// protocol exchange: ConsumerProtocolSubscription and ConsumerProtocolAssignment.
// Integers are big endian.

// subscription is what a classic consumer subscribes to.
type subscription struct {
	version int16
	topics  []string
	owned   []namedPartitions // nil below version 1
	rack    string            // empty below version 3
}

type namedPartitions struct {
	topic      string
	partitions []int32
}

// maxEmbedded is the newest version that there is. Later ones are read as if they
// were this one, since they may only add at the end.
const maxEmbedded = 3

// embedded reads such bytes. After the first error it reads zeros.
type embedded struct {
	left []byte
	err  error
}

func (r *embedded) take(n int, what string) []byte {
	if r.err == nil && (n < 0 || n > len(r.left)) {
		r.err = fmt.Errorf("ends within %s", what)
	}
	if r.err != nil {
		return nil
	}
	b := r.left[:n]
	r.left = r.left[n:]
	return b
}

func (r *embedded) int16(what string) int16 {
	if b := r.take(2, what); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *embedded) int32(what string) int32 {
	if b := r.take(4, what); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

// count reads the length of an array whose elements take at least least bytes;
// -1 for null.
func (r *embedded) count(least int, what string) int {
	n := int(r.int32(what))
	if r.err == nil && (n < -1 || n > len(r.left)/least) {
		r.err = fmt.Errorf("%s has %d elements, which do not fit", what, n)
	}
	if r.err != nil {
		return 0
	}
	return n
}

func (r *embedded) text(what string) string {
	return string(r.take(int(r.int16(what)), what))
}

// nullable reads a text that may be null, which is returned as empty.
func (r *embedded) nullable(what string) string {
	n := r.int16(what)
	if n == -1 {
		return ""
	}
	return string(r.take(int(n), what))
}

func (r *embedded) data(what string) {
	if n := r.int32(what); n != -1 {
		r.take(int(n), what)
	}
}

func (r *embedded) partitions() []namedPartitions {
	var out []namedPartitions
	for n := r.count(6, "the topics"); n > 0 && r.err == nil; n-- {
		p := namedPartitions{topic: r.text("a topic")}
		for m := r.count(4, "the partitions"); m > 0 && r.err == nil; m-- {
			p.partitions = append(p.partitions, r.int32("a partition"))
		}
		out = append(out, p)
	}
	return out
}

func parseSubscription(b []byte) (subscription, error) {
	r := embedded{left: b}
	s := subscription{version: r.int16("the version")}
	if r.err == nil && s.version < 0 {
		r.err = fmt.Errorf("version %d", s.version)
	}
	for n := r.count(2, "the topics"); n > 0 && r.err == nil; n-- {
		s.topics = append(s.topics, r.text("a topic"))
	}
	if r.err == nil && len(r.left) == 0 {
		return s, nil // some clients end here
	}
	r.data("the user data")
	if s.version >= 1 {
		s.owned = r.partitions()
	}
	if s.version >= 2 {
		r.int32("the generation")
	}
	if s.version >= 3 {
		s.rack = r.nullable("the rack")
	}
	if r.err != nil {
		return subscription{}, fmt.Errorf("subscription: %w", r.err)
	}
	return s, nil
}

// parseAssignment reads the partitions of an assignment. No bytes are an empty
// one.
func parseAssignment(b []byte) ([]namedPartitions, error) {
	if len(b) == 0 {
		return nil, nil
	}
	r := embedded{left: b}
	version := r.int16("the version")
	if r.err == nil && version < 0 {
		r.err = fmt.Errorf("version %d", version)
	}
	out := r.partitions()
	if r.err != nil {
		return nil, fmt.Errorf("assignment: %w", r.err)
	}
	return out, nil
}

// appendAssignment appends an assignment in the version. Topics that no longer
// exist are left out.
func appendAssignment(dst []byte, version int16, set assign.Assignment, name func(entry.TopicID) (string, bool)) []byte {
	version = min(max(version, 0), maxEmbedded)
	dst = binary.BigEndian.AppendUint16(dst, uint16(version))
	at := len(dst)
	dst = binary.BigEndian.AppendUint32(dst, 0)
	topics := uint32(0)
	for _, t := range set {
		topic, ok := name(t.ID)
		if !ok || len(topic) > math.MaxInt16 {
			continue
		}
		topics++
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(topic)))
		dst = append(dst, topic...)
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(t.Partitions)))
		for _, p := range t.Partitions {
			dst = binary.BigEndian.AppendUint32(dst, uint32(p))
		}
	}
	binary.BigEndian.PutUint32(dst[at:], topics)
	return binary.BigEndian.AppendUint32(dst, math.MaxUint32) // no user data
}

// Assigned returns the partitions that a ConsumerProtocolAssignment names, of topics
// that exist.
func Assigned(assignment []byte, topics Topics) (assign.Assignment, error) {
	named, err := parseAssignment(assignment)
	if err != nil {
		return nil, err
	}
	return byID(named, topics), nil
}

// byID returns the partitions of topics that exist.
func byID(named []namedPartitions, topics Topics) assign.Assignment {
	var out []assign.Topic
	for _, n := range named {
		id, count, ok := topics.Topic(n.topic)
		if !ok {
			continue
		}
		t := assign.Topic{ID: id}
		for _, p := range n.partitions {
			if p >= 0 && p < count {
				t.Partitions = append(t.Partitions, p)
			}
		}
		out = append(out, t)
	}
	return assign.Make(out)
}
