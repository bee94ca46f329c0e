package group

import (
	"fmt"

	"github.com/sluicemq/sluice/group/classic"
	"github.com/sluicemq/sluice/group/codec"
	"github.com/sluicemq/sluice/group/consumer"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// Kind says by which protocol a group's members are coordinated. The numbers are
// stored.
type Kind uint8

// The kinds of groups.
const (
	Classic  Kind = 1
	Consumer Kind = 2 // KIP-848
)

// String returns the name that clients see.
func (k Kind) String() string {
	switch k {
	case Classic:
		return "classic"
	case Consumer:
		return "consumer"
	}
	return fmt.Sprintf("kind-%d", uint8(k))
}

// record is what the state has of a group, beside its offsets. It does not change
// once it is made; the field of its kind is set.
type record struct {
	kind     Kind
	classic  *classic.Metadata
	consumer *consumer.State
}

// members returns how many members the group has.
func (r *record) members() int {
	switch {
	case r == nil:
		return 0
	case r.consumer != nil:
		return len(r.consumer.Members)
	}
	return len(r.classic.Members)
}

// since returns when the group lost its last member, or was made.
func (r *record) since() entry.Time {
	if r.consumer != nil {
		return r.consumer.Since
	}
	return r.classic.Since
}

// modern returns the part of the consumer protocol, or nil; r may be nil.
func (r *record) modern() *consumer.State {
	if r == nil {
		return nil
	}
	return r.consumer
}

// metadata returns the classic part, or nil; r may be nil.
func (r *record) metadata() *classic.Metadata {
	if r == nil {
		return nil
	}
	return r.classic
}

// subscribes returns a function that says whether the group counts as subscribed
// to a topic, which it does to every one as long as that is not known; r may be
// nil.
func (r *record) subscribes() func(topic string) bool {
	switch {
	case r.members() == 0:
		return func(string) bool { return false }
	case r.consumer != nil:
		return r.consumer.Subscribes
	}
	topics, known := r.classic.Subscribed()
	return func(topic string) bool { return !known || topics[topic] }
}

// admitClassic says whether the group may be, or become, a classic one.
func (r *record) admitClassic() error {
	if n := r.members(); r.modern() != nil && n > 0 {
		return kerr.New(kerr.CoordinatorNotAvailable, "the group has become one of the consumer protocol, with %d members", n)
	}
	return nil
}

// The layouts of FORMAT.md.
const (
	keySpace   = 'g'
	kindRecord = 'g'
)

func recordKey(name string) []byte { return append([]byte{keySpace, kindRecord}, name...) }

func recordsRange() (from, to []byte) {
	return []byte{keySpace, kindRecord}, []byte{keySpace, kindRecord + 1}
}

// appendValue appends the value of a classic group. Groups of the consumer
// protocol have keys of their own.
func (r *record) appendValue(dst []byte) []byte {
	return r.classic.AppendValue(append(dst, uint8(r.kind)))
}

func decodeRecord(value []byte) (*record, error) {
	r := codec.Reader{Left: value}
	kind := Kind(r.Byte("the kind"))
	if err := r.Err(); err != nil {
		return nil, err
	}
	if kind != Classic {
		return nil, fmt.Errorf("%w: kind %d", codec.ErrNewer, kind)
	}
	m, err := classic.DecodeValue(r.Left)
	if err != nil {
		return nil, err
	}
	return &record{kind: kind, classic: m}, nil
}

// replaced returns the record with other metadata, as of the entry's time.
func replaced(m *classic.Metadata, at entry.Time) *record {
	m.Since = at
	return &record{kind: Classic, classic: m}
}
