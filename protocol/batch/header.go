package batch

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/sluicemq/sluice/protocol/kerr"
)

// HeaderSize is the size of a batch's header in bytes: a batch without records
// is as long as that.
const HeaderSize = 61

// Magic is the number of the one format that is served.
const Magic = 2

// Where the fields of the header lie.
const (
	atBaseOffset      = 0
	atLength          = 8
	atLeaderEpoch     = 12
	atMagic           = 16
	atCRC             = 17
	atAttributes      = 21
	atLastOffsetDelta = 23
	atBaseTimestamp   = 27
	atMaxTimestamp    = 35
	atProducerID      = 43
	atProducerEpoch   = 51
	atBaseSequence    = 53
	atCount           = 57

	// lengthEnd is where the bytes begin that the length field counts.
	lengthEnd = 12
)

// NoTimestamp stands for "none" where a timestamp is expected.
const NoTimestamp int64 = -1

// NoProducerID is the producer id of batches that are not idempotent.
const NoProducerID int64 = -1

// Attributes are the flags of a batch.
type Attributes uint16

// The bits of Attributes above the codec.
const (
	LogAppendTime Attributes = 1 << 3
	Transactional Attributes = 1 << 4
	Control       Attributes = 1 << 5
	DeleteHorizon Attributes = 1 << 6

	codecMask Attributes = 7
)

// Codec returns how the records are compressed. It may be a number that no
// codec has.
func (a Attributes) Codec() Codec { return Codec(a & codecMask) }

// Has reports whether all of the bits are set.
func (a Attributes) Has(bits Attributes) bool { return a&bits == bits }

// Header is a view of a batch: its bytes, or at least the first HeaderSize of
// them. It is not a copy; what the Set methods change, they change there.
type Header []byte

// BaseOffset returns the offset of the batch's first record, or of where it
// was before compaction took it away.
func (h Header) BaseOffset() int64 { return int64(binary.BigEndian.Uint64(h[atBaseOffset:])) }

// Size returns the size of the whole batch in bytes as its length field gives
// it. On bytes that were not checked it may be anything, also negative.
func (h Header) Size() int {
	return lengthEnd + int(int32(binary.BigEndian.Uint32(h[atLength:])))
}

// LeaderEpoch returns the partition leader epoch under which it was appended.
func (h Header) LeaderEpoch() int32 { return int32(binary.BigEndian.Uint32(h[atLeaderEpoch:])) }

// Magic returns the number of the format.
func (h Header) Magic() int8 { return int8(h[atMagic]) }

// CRC returns the checksum that the batch carries.
func (h Header) CRC() uint32 { return binary.BigEndian.Uint32(h[atCRC:]) }

// Attributes returns the flags.
func (h Header) Attributes() Attributes {
	return Attributes(binary.BigEndian.Uint16(h[atAttributes:]))
}

// Codec returns how the records are compressed.
func (h Header) Codec() Codec { return h.Attributes().Codec() }

// LastOffsetDelta returns the distance from the base offset to the last offset
// that the batch takes up. After compaction there may be no record there.
func (h Header) LastOffsetDelta() int32 {
	return int32(binary.BigEndian.Uint32(h[atLastOffsetDelta:]))
}

// LastOffset returns the last offset that the batch takes up.
func (h Header) LastOffset() int64 { return h.BaseOffset() + int64(h.LastOffsetDelta()) }

// BaseTimestamp returns the time in milliseconds from which the timestamps of
// the records are counted.
func (h Header) BaseTimestamp() int64 {
	return int64(binary.BigEndian.Uint64(h[atBaseTimestamp:]))
}

// MaxTimestamp returns the largest timestamp of the records in milliseconds,
// or the append time of a batch that has LogAppendTime.
func (h Header) MaxTimestamp() int64 { return int64(binary.BigEndian.Uint64(h[atMaxTimestamp:])) }

// ProducerID returns the id of an idempotent producer, or NoProducerID.
func (h Header) ProducerID() int64 { return int64(binary.BigEndian.Uint64(h[atProducerID:])) }

// ProducerEpoch returns the epoch of the producer id.
func (h Header) ProducerEpoch() int16 {
	return int16(binary.BigEndian.Uint16(h[atProducerEpoch:]))
}

// BaseSequence returns the sequence number of the first record.
func (h Header) BaseSequence() int32 { return int32(binary.BigEndian.Uint32(h[atBaseSequence:])) }

// LastSequence returns the sequence number of the last record. Sequences
// continue with 0 after the largest int32. It means nothing for a batch whose
// base sequence is -1.
func (h Header) LastSequence() int32 {
	return int32((uint32(h.BaseSequence()) + uint32(h.LastOffsetDelta())) & 0x7fffffff)
}

// Count returns the number of records as the header gives it.
func (h Header) Count() int32 { return int32(binary.BigEndian.Uint32(h[atCount:])) }

// SetBaseOffset sets the base offset, which the CRC does not cover.
func (h Header) SetBaseOffset(offset int64) {
	binary.BigEndian.PutUint64(h[atBaseOffset:], uint64(offset))
}

// SetLeaderEpoch sets the leader epoch, which the CRC does not cover.
func (h Header) SetLeaderEpoch(epoch int32) {
	binary.BigEndian.PutUint32(h[atLeaderEpoch:], uint32(epoch))
}

// Stamp sets the timestamp type and the max timestamp, and the CRC that covers
// them. It needs the whole batch, and reports whether it changed anything: a
// batch that says so already keeps its bytes. Record timestamps stay; readers
// take the max timestamp for each record of a batch with log append time.
func (h Header) Stamp(logAppendTime bool, maxTimestamp int64) bool {
	attributes := h.Attributes() &^ LogAppendTime
	if logAppendTime {
		attributes |= LogAppendTime
	}
	if h.Attributes() == attributes && h.MaxTimestamp() == maxTimestamp {
		return false
	}
	binary.BigEndian.PutUint16(h[atAttributes:], uint16(attributes))
	binary.BigEndian.PutUint64(h[atMaxTimestamp:], uint64(maxTimestamp))
	h.seal()
	return true
}

// ChecksumFits reports whether the CRC that the batch carries is that of its
// bytes. It needs the whole batch.
func (h Header) ChecksumFits() bool { return h.CRC() == h.checksum() }

func (h Header) checksum() uint32 { return crc32.Checksum(h[atAttributes:h.Size()], castagnoli) }

// seal sets the CRC after a change to what it covers.
func (h Header) seal() { binary.BigEndian.PutUint32(h[atCRC:], h.checksum()) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Split returns the first batch of b, cut to its size, and what follows it.
// The CRC is not looked at. It fails with CorruptMessage if b is shorter than
// the batch or is no batch of format v2; with an empty b it returns a nil batch
// and no error.
func Split(b []byte) (first Header, rest []byte, err error) {
	if len(b) == 0 {
		return nil, nil, nil
	}
	if err := checkFrame(b); err != nil {
		return nil, b, kerr.New(kerr.CorruptMessage, "%s", kerr.Message(err))
	}
	size := Header(b).Size()
	return Header(b[:size:size]), b[size:], nil
}
