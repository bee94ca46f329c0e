package offsets

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/sluicemq/sluice/group/codec"
	"github.com/sluicemq/sluice/log/entry"
)

// The layouts of FORMAT.md. Nothing outside this file knows a byte of the keys.
const (
	keySpace    = 'g'
	kindNumber  = '#'
	kindName    = 'n'
	kindOffset  = 'o'
	offsetBytes = 2 + 8 + 16 + 4

	nameVersion   = 1
	offsetVersion = 1
	numberVersion = 1

	flagExpires = 1
)

var be = binary.BigEndian

func numberKey() []byte { return []byte{keySpace, kindNumber} }

func nameKey(name string) []byte { return append([]byte{keySpace, kindName}, name...) }

func appendOffsetKey(dst []byte, number uint64, id entry.TopicID, index int32) []byte {
	dst = append(dst, keySpace, kindOffset)
	dst = be.AppendUint64(dst, number)
	dst = append(dst, id[:]...)
	return be.AppendUint32(dst, uint32(index))
}

// groupRange returns the range of the keys of a group's offsets.
func groupRange(number uint64) (from, to []byte) {
	from = be.AppendUint64([]byte{keySpace, kindOffset}, number)
	if number == math.MaxUint64 {
		return from, []byte{keySpace, kindOffset + 1}
	}
	return from, be.AppendUint64([]byte{keySpace, kindOffset}, number+1)
}

// topicRange returns the range of the keys of a group's offsets of a topic. An
// index is at most MaxInt32, so the end lies behind all of them.
func topicRange(number uint64, id entry.TopicID) (from, to []byte) {
	from = append(be.AppendUint64([]byte{keySpace, kindOffset}, number), id[:]...)
	to = append(append([]byte(nil), from...), 0xff)
	return from, to
}

func decodeOffsetKey(b []byte) (number uint64, id entry.TopicID, index int32, err error) {
	if len(b) != offsetBytes || b[0] != keySpace || b[1] != kindOffset {
		return 0, id, 0, fmt.Errorf("%w: key %x is not an offset's", codec.ErrCorrupt, b)
	}
	copy(id[:], b[10:])
	at := be.Uint32(b[26:])
	if at > math.MaxInt32 || id == (entry.TopicID{}) {
		return 0, id, 0, fmt.Errorf("%w: key %x: topic %x, partition %d", codec.ErrCorrupt, b, id, at)
	}
	return be.Uint64(b[2:]), id, int32(at), nil
}

func (s *slot) appendValue(dst []byte) []byte {
	flags := uint8(0)
	if s.expires != forever {
		flags = flagExpires
	}
	dst = append(dst, offsetVersion, flags)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(s.offset))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(s.epoch))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(s.time))
	if flags&flagExpires != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(s.expires))
	}
	return codec.AppendString(dst, s.metadata)
}

func decodeValue(b []byte) (slot, error) {
	r := codec.Reader{Left: b}
	r.Version(offsetVersion)
	flags := r.Byte("the flags")
	s := slot{
		offset:  int64(r.Uint64("the offset")),
		epoch:   int32(r.Uint32("the leader epoch")),
		time:    entry.Time(r.Uint64("the time")),
		expires: forever,
	}
	if flags&flagExpires != 0 {
		s.expires = entry.Time(r.Uint64("the time of expiry"))
		if r.Err() == nil && s.expires < 0 {
			r.Fail("expires at %d", s.expires)
		}
	}
	if r.Err() == nil && (flags > flagExpires || s.time < 0) {
		r.Fail("flags %#x, time %d", flags, s.time)
	}
	s.metadata = r.String("the metadata")
	return s, r.Done()
}

func encodeNumber(version uint8, n uint64) []byte {
	return binary.LittleEndian.AppendUint64([]byte{version}, n)
}

func decodeNumber(b []byte, version uint8) (uint64, error) {
	r := codec.Reader{Left: b}
	r.Version(version)
	n := r.Uint64("the number")
	if r.Err() == nil && n == 0 {
		r.Fail("number 0")
	}
	return n, r.Done()
}
