package diff

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// The codecs of a record batch, as numbered in its attributes.
const (
	codecNone = iota
	codecGzip
	codecSnappy
	codecLZ4
	codecZstd
)

// Bits of a record batch's attributes.
const (
	attrLogAppendTime = 1 << 3
	attrTransactional = 1 << 4
	attrControl       = 1 << 5
	attrDeleteHorizon = 1 << 6
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// rec is one record of a batch to be built. A nil key or value is written as null.
type rec struct {
	key, value []byte
	ts         int64 // added to the batch's first timestamp
	headers    []kv
	delta      *int // offset delta, if it is not the record's place in the batch
}

type kv struct {
	name  string
	value []byte // nil is written as null
}

// batch describes a record batch to be built, right or wrong: every derived field can be given a
// value of its own.
type batch struct {
	baseOffset      int64
	leaderEpoch     int32
	magic           *int8
	attributes      int16 // without the codec
	codec           int
	firstTimestamp  int64
	maxTimestamp    *int64
	pid             int64
	epoch           int16
	seq             int32
	records         []rec
	lastOffsetDelta *int32
	count           *int32
	rawRecords      []byte // instead of the encoded records, before compression
	rawBody         []byte // instead of the compressed records
	xerial          bool   // snappy in Java's framing
	crcXor          uint32 // changes the right CRC
	lengthAdd       int32  // changes the right batch length
}

// plain returns a batch without producer id that holds one record for each value.
func plain(ts int64, values ...string) batch {
	b := batch{firstTimestamp: ts, pid: -1, epoch: -1, seq: -1, leaderEpoch: -1}
	for i, v := range values {
		b.records = append(b.records, rec{key: fmt.Appendf(nil, "k%d", i), value: []byte(v), ts: int64(i)})
	}
	return b
}

// of returns the batch as the given producer would number it.
func (b batch) of(pid int64, epoch int16, seq int32) batch {
	b.pid, b.epoch, b.seq = pid, epoch, seq
	return b
}

func (b batch) with(change func(*batch)) batch {
	b.records = append([]rec(nil), b.records...)
	change(&b)
	return b
}

// bytes returns the batch as it goes over the wire.
func (b batch) bytes() []byte {
	raw := b.rawRecords
	if raw == nil {
		for i, r := range b.records {
			raw = appendRecord(raw, i, r)
		}
	}
	body := b.rawBody
	if body == nil {
		body = compress(b.codec, raw, b.xerial)
	}
	lastDelta := int32(len(b.records) - 1)
	if b.lastOffsetDelta != nil {
		lastDelta = *b.lastOffsetDelta
	}
	count := int32(len(b.records))
	if b.count != nil {
		count = *b.count
	}
	maxTimestamp := b.firstTimestamp
	for _, r := range b.records {
		maxTimestamp = max(maxTimestamp, b.firstTimestamp+r.ts)
	}
	if b.maxTimestamp != nil {
		maxTimestamp = *b.maxTimestamp
	}
	magic := int8(2)
	if b.magic != nil {
		magic = *b.magic
	}

	be := binary.BigEndian
	var tail []byte
	tail = be.AppendUint16(tail, uint16(b.attributes)|uint16(b.codec))
	tail = be.AppendUint32(tail, uint32(lastDelta))
	tail = be.AppendUint64(tail, uint64(b.firstTimestamp))
	tail = be.AppendUint64(tail, uint64(maxTimestamp))
	tail = be.AppendUint64(tail, uint64(b.pid))
	tail = be.AppendUint16(tail, uint16(b.epoch))
	tail = be.AppendUint32(tail, uint32(b.seq))
	tail = be.AppendUint32(tail, uint32(count))
	tail = append(tail, body...)

	out := be.AppendUint64(nil, uint64(b.baseOffset))
	out = be.AppendUint32(out, uint32(int32(9+len(tail))+b.lengthAdd))
	out = be.AppendUint32(out, uint32(b.leaderEpoch))
	out = append(out, byte(magic))
	out = be.AppendUint32(out, crc32.Checksum(tail, castagnoli)^b.crcXor)
	return append(out, tail...)
}

func appendRecord(dst []byte, i int, r rec) []byte {
	delta := i
	if r.delta != nil {
		delta = *r.delta
	}
	var b []byte
	b = append(b, 0)
	b = binary.AppendVarint(b, r.ts)
	b = binary.AppendVarint(b, int64(delta))
	b = appendNullable(b, r.key)
	b = appendNullable(b, r.value)
	b = binary.AppendVarint(b, int64(len(r.headers)))
	for _, h := range r.headers {
		b = binary.AppendVarint(b, int64(len(h.name)))
		b = append(b, h.name...)
		b = appendNullable(b, h.value)
	}
	dst = binary.AppendVarint(dst, int64(len(b)))
	return append(dst, b...)
}

func appendNullable(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(dst, -1)
	}
	dst = binary.AppendVarint(dst, int64(len(b)))
	return append(dst, b...)
}

// messageSet returns a message of the two formats before record batches.
func messageSet(magic int8, value string) []byte {
	be := binary.BigEndian
	m := []byte{byte(magic), 0}
	if magic == 1 {
		m = be.AppendUint64(m, 0)
	}
	m = be.AppendUint32(m, 0xffffffff)
	m = be.AppendUint32(m, uint32(len(value)))
	m = append(m, value...)
	out := be.AppendUint64(nil, 0)
	out = be.AppendUint32(out, uint32(4+len(m)))
	out = be.AppendUint32(out, crc32.ChecksumIEEE(m))
	return append(out, m...)
}

func compress(codec int, raw []byte, xerial bool) []byte {
	switch codec {
	case codecGzip:
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(raw) // To memory: cannot fail.
		_ = w.Close()
		return b.Bytes()
	case codecSnappy:
		block := s2.EncodeSnappy(nil, raw)
		if !xerial {
			return block
		}
		out := append([]byte{}, xerialMagic...)
		out = binary.BigEndian.AppendUint32(out, uint32(len(block)))
		return append(out, block...)
	case codecLZ4:
		var b bytes.Buffer
		w := lz4.NewWriter(&b)
		_, _ = w.Write(raw)
		_ = w.Close()
		return b.Bytes()
	case codecZstd:
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		if err != nil {
			panic(err) // Only for options that contradict each other.
		}
		return w.EncodeAll(raw, nil)
	default:
		return raw
	}
}

// xerialMagic is how Java's snappy streams begin: a name and two version numbers of 1.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1}

func decompress(codec int, body []byte) ([]byte, error) {
	switch codec {
	case codecNone:
		return body, nil
	case codecGzip:
		r, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	case codecSnappy:
		if !bytes.HasPrefix(body, xerialMagic[:8]) {
			return s2.Decode(nil, body)
		}
		var out []byte
		for rest := body[16:]; len(rest) > 0; {
			if len(rest) < 4 {
				return nil, io.ErrUnexpectedEOF
			}
			n := binary.BigEndian.Uint32(rest)
			if uint64(n) > uint64(len(rest)-4) {
				return nil, io.ErrUnexpectedEOF
			}
			block, err := s2.Decode(nil, rest[4:4+n])
			if err != nil {
				return nil, err
			}
			out, rest = append(out, block...), rest[4+n:]
		}
		return out, nil
	case codecLZ4:
		return io.ReadAll(lz4.NewReader(bytes.NewReader(body)))
	case codecZstd:
		r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return r.DecodeAll(body, nil)
	default:
		return nil, fmt.Errorf("codec %d", codec)
	}
}
