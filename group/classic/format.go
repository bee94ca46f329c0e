package classic

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/sluicemq/sluice/group/codec"
	"github.com/sluicemq/sluice/log/entry"
)

const (
	metadataVersion = 1
	groupVersion    = 1
	replaceVersion  = 1
)

// leastMember and leastProtocol are the fewest bytes that they take.
const (
	leastMember   = 8
	leastProtocol = 2
)

// AppendValue appends the metadata as the state holds it.
func (m *Metadata) AppendValue(dst []byte) []byte {
	dst = append(dst, metadataVersion)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(m.Since))
	return m.appendBody(dst)
}

// DecodeValue reads what AppendValue has appended. The metadata keep nothing of
// value. The error wraps one of codec's.
func DecodeValue(value []byte) (*Metadata, error) {
	r := codec.Reader{Left: value}
	r.Version(metadataVersion)
	since := entry.Time(r.Uint64("the time"))
	if since < 0 {
		r.Fail("time %d", since)
	}
	m := readBody(&r)
	m.Since = since
	return m, r.Done()
}

func (m *Metadata) appendBody(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(m.Generation))
	dst = codec.AppendString(dst, m.ProtocolType)
	dst = codec.AppendString(dst, m.Protocol)
	dst = codec.AppendString(dst, m.Leader)
	dst = binary.AppendUvarint(dst, uint64(len(m.Members)))
	for i := range m.Members {
		dst = m.Members[i].append(dst)
	}
	return dst
}

func (m *Member) append(dst []byte) []byte {
	dst = codec.AppendString(dst, m.ID)
	dst = codec.AppendString(dst, m.Instance)
	dst = codec.AppendString(dst, m.ClientID)
	dst = codec.AppendString(dst, m.ClientHost)
	dst = appendTimeout(dst, m.SessionTimeout)
	dst = appendTimeout(dst, m.RebalanceTimeout)
	dst = binary.AppendUvarint(dst, uint64(len(m.Protocols)))
	for _, p := range m.Protocols {
		dst = codec.AppendString(dst, p.Name)
		dst = codec.AppendBytes(dst, p.Metadata)
	}
	return codec.AppendBytes(dst, m.Assignment)
}

func appendTimeout(dst []byte, d time.Duration) []byte {
	return binary.AppendUvarint(dst, uint64(min(max(d.Milliseconds(), 0), math.MaxInt32)))
}

func readBody(r *codec.Reader) *Metadata {
	m := &Metadata{
		Generation:   int32(r.Uint32("the generation")),
		ProtocolType: r.String("the protocol type"),
		Protocol:     r.String("the protocol"),
		Leader:       r.String("the leader"),
	}
	if r.Err() == nil && m.Generation < 0 {
		r.Fail("generation %d", m.Generation)
	}
	n := r.Count("the number of members", leastMember)
	for range n {
		member := readMember(r)
		if r.Err() != nil {
			return m
		}
		if member.ID == "" {
			r.Fail("a member id is empty")
		}
		m.Members = append(m.Members, member)
	}
	if !m.index() {
		r.Fail("a member occurs twice")
	}
	if _, ok := m.byID[m.Leader]; ok != (n > 0) || n == 0 && m.Leader != "" {
		r.Fail("leader %q is none of the %d members", m.Leader, n)
	}
	return m
}

func readMember(r *codec.Reader) Member {
	m := Member{
		ID:               r.String("a member id"),
		Instance:         r.String("an instance id"),
		ClientID:         r.String("a client id"),
		ClientHost:       r.String("a host"),
		SessionTimeout:   readTimeout(r),
		RebalanceTimeout: readTimeout(r),
	}
	n := r.Count("the number of protocols", leastProtocol)
	for range n {
		p := Protocol{Name: r.String("a protocol"), Metadata: clone(r.Bytes("a protocol's metadata"))}
		if r.Err() != nil {
			return m
		}
		m.Protocols = append(m.Protocols, p)
	}
	m.Assignment = clone(r.Bytes("an assignment"))
	return m
}

func readTimeout(r *codec.Reader) time.Duration {
	return time.Duration(r.Uvarint("a timeout", math.MaxInt32)) * time.Millisecond
}

// clone copies bytes that are borrowed. Empty ones are nil.
func clone(b []byte) []byte { return append([]byte(nil), b...) }

// AppendGroup appends the payload of an entry of type TypeClassicGroup: m becomes
// the state of the group.
func AppendGroup(dst []byte, group string, m *Metadata) []byte {
	dst = append(dst, groupVersion)
	dst = codec.AppendString(dst, group)
	return m.appendBody(dst)
}

// DecodeGroup reads a payload of AppendGroup. Nothing of it is kept.
func DecodeGroup(payload []byte) (group string, m *Metadata, err error) {
	r := codec.Reader{Left: payload}
	r.Version(groupVersion)
	group = r.String("the group")
	m = readBody(&r)
	return group, m, r.Done()
}

// Replacement is the payload of an entry of type TypeClassicMember: a static
// member has come back, under a new id.
type Replacement struct {
	Group      string
	Generation int32 // the newest at that time
	OldID      string
	Member     Member // with the instance id and the new member id; without assignment
}

// Append appends the payload.
func (p *Replacement) Append(dst []byte) []byte {
	dst = append(dst, replaceVersion)
	dst = codec.AppendString(dst, p.Group)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(p.Generation))
	dst = codec.AppendString(dst, p.OldID)
	return p.Member.append(dst)
}

// DecodeReplacement reads a payload of Replacement. Nothing of it is kept.
func DecodeReplacement(payload []byte) (*Replacement, error) {
	r := codec.Reader{Left: payload}
	r.Version(replaceVersion)
	p := &Replacement{
		Group:      r.String("the group"),
		Generation: int32(r.Uint32("the generation")),
		OldID:      r.String("the old member id"),
		Member:     readMember(&r),
	}
	if r.Err() == nil && (p.Member.ID == "" || p.Member.Instance == "" || len(p.Member.Assignment) > 0) {
		r.Fail("member %q, instance %q", p.Member.ID, p.Member.Instance)
	}
	return p, r.Done()
}
