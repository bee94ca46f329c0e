package group

import (
	"fmt"

	"github.com/sluicemq/sluice/group/classic"
	"github.com/sluicemq/sluice/group/codec"
	"github.com/sluicemq/sluice/log/entry"
)

// Kind says by which protocol a group's members are coordinated. The numbers are
// stored.
type Kind uint8

// The kinds of groups.
const (
	Classic Kind = 1
)

// String returns the name that clients see.
func (k Kind) String() string {
	if k == Classic {
		return "classic"
	}
	return fmt.Sprintf("kind-%d", uint8(k))
}

// record is what the state has of a group, beside its offsets. It does not change
// once it is made; the field of its kind is set.
type record struct {
	kind    Kind
	classic *classic.Metadata
}

// members returns how many members the group has.
func (r *record) members() int {
	if r == nil {
		return 0
	}
	return len(r.classic.Members)
}

// metadata returns the classic part, or nil; r may be nil.
func (r *record) metadata() *classic.Metadata {
	if r == nil {
		return nil
	}
	return r.classic
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
