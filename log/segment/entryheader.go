package segment

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"iter"

	"github.com/sluicemq/sluice/log/entry"
)

// PutEntryHeader writes the header of e to dst, which must have room for
// EntryHeaderBytes, and returns the tail with which the next entry goes on.
// payloadBytes and payloadSum (see Checksum) stand for e.Payload, which is not
// looked at. The caller has set e.Index to prev.Index+1, and e.Term and e.Time
// to no less than prev's.
func PutEntryHeader(dst []byte, e *entry.Entry, payloadBytes int, payloadSum uint32, prev Tail) Tail {
	dst = dst[:EntryHeaderBytes]
	le := binary.LittleEndian
	le.PutUint32(dst[entryMagicAt:], entryMagic)
	le.PutUint32(dst[entryLengthAt:], uint32(payloadBytes))
	le.PutUint32(dst[entryPayloadSumAt:], payloadSum)
	le.PutUint64(dst[entryTypeAt:], uint64(e.Type)|uint64(e.Flags)<<8) // and the reserved zeroes
	le.PutUint64(dst[entryTermAt:], uint64(e.Term))
	le.PutUint64(dst[entryIndexAt:], uint64(e.Index))
	le.PutUint64(dst[entryTimeAt:], uint64(e.Time))
	le.PutUint64(dst[entryPartitionAt:], uint64(e.Partition))
	chain := crc32.Update(prev.Chain, castagnoli, dst[entryLengthAt:])
	le.PutUint32(dst[entryChainAt:], chain)
	return Tail{Index: e.Index, Term: e.Term, Time: e.Time, Chain: chain}
}

// EntryHeader is a decoded entry header.
type EntryHeader struct {
	Entry        entry.Entry // Payload is nil
	PayloadBytes uint32
	PayloadSum   uint32
	Chain        uint32
}

// Tail returns the tail with which the entry after this one goes on.
func (h *EntryHeader) Tail() Tail {
	return Tail{Index: h.Entry.Index, Term: h.Entry.Term, Time: h.Entry.Time, Chain: h.Chain}
}

// parseEntryHeader decodes the fields in src, which has EntryHeaderBytes, and
// checks nothing but the magic number.
func parseEntryHeader(src []byte) (h EntryHeader, ok bool) {
	src = src[:EntryHeaderBytes]
	le := binary.LittleEndian
	if le.Uint32(src[entryMagicAt:]) != entryMagic {
		return EntryHeader{}, false
	}
	return EntryHeader{
		Entry: entry.Entry{
			Type:      entry.Type(src[entryTypeAt]),
			Flags:     src[entryFlagsAt],
			Term:      entry.Term(le.Uint64(src[entryTermAt:])),
			Index:     entry.Index(le.Uint64(src[entryIndexAt:])),
			Time:      entry.Time(le.Uint64(src[entryTimeAt:])),
			Partition: entry.Partition(le.Uint64(src[entryPartitionAt:])),
		},
		PayloadBytes: le.Uint32(src[entryLengthAt:]),
		PayloadSum:   le.Uint32(src[entryPayloadSumAt:]),
		Chain:        le.Uint32(src[entryChainAt:]),
	}, true
}

// ParseEntryHeader decodes an entry header and checks that it follows from
// prev, which needs no byte of the payload. The error is a DamageError without
// file name, whose At counts from the beginning of src.
func ParseEntryHeader(src []byte, prev Tail) (EntryHeader, error) {
	damage := func(at int64, kind error, format string, args ...any) (EntryHeader, error) {
		return EntryHeader{}, &DamageError{
			At: at, Index: prev.Index + 1, Kind: kind, Detail: fmt.Sprintf(format, args...),
		}
	}
	if len(src) < EntryHeaderBytes {
		return damage(0, ErrShort, "entry header has %d of %d bytes", len(src), EntryHeaderBytes)
	}
	src = src[:EntryHeaderBytes]
	h, ok := parseEntryHeader(src)
	if !ok {
		return damage(entryMagicAt, ErrMagic, "%#08x is not an entry's",
			binary.LittleEndian.Uint32(src[entryMagicAt:]))
	}
	if got := crc32.Update(prev.Chain, castagnoli, src[entryLengthAt:]); got != h.Chain {
		return damage(entryChainAt, ErrChecksum, "entry header has %#08x, says %#08x", got, h.Chain)
	}
	// What follows is covered by the checksum: a writer meant it.
	for _, b := range src[entryReservedAt:entryTermAt] {
		if b != 0 {
			return damage(entryReservedAt, ErrVersion, "reserved bytes of the entry header are in use")
		}
	}
	e := &h.Entry
	switch {
	case e.Index != prev.Index+1:
		return damage(entryIndexAt, ErrChain, "index %d", e.Index)
	case e.Term < prev.Term:
		return damage(entryTermAt, ErrChain, "term %d after term %d", e.Term, prev.Term)
	case e.Time < prev.Time:
		return damage(entryTimeAt, ErrChain, "time %d after time %d", e.Time, prev.Time)
	case e.Type == entry.TypeInvalid:
		return damage(entryTypeAt, ErrChain, "entry type 0")
	}
	return h, nil
}

// CheckEntry checks an entry that was read by itself, without its predecessor:
// header must be that of an entry with len(payload) bytes of payload, and the
// payload must match its checksum. The chain is not checked, as that takes the
// predecessor. The error is a DamageError without file name, whose At counts
// from the beginning of the header.
func CheckEntry(header, payload []byte) (EntryHeader, error) {
	if len(header) < EntryHeaderBytes {
		return EntryHeader{}, &DamageError{
			Kind: ErrShort, Detail: fmt.Sprintf("entry header has %d bytes", len(header)),
		}
	}
	h, ok := parseEntryHeader(header)
	if !ok {
		return EntryHeader{}, &DamageError{
			Kind:   ErrMagic,
			Detail: fmt.Sprintf("%#08x is not an entry's", binary.LittleEndian.Uint32(header)),
		}
	}
	if int64(h.PayloadBytes) != int64(len(payload)) {
		return EntryHeader{}, &DamageError{
			At: entryLengthAt, Index: h.Entry.Index, Kind: ErrChain,
			Detail: fmt.Sprintf("payload of %d bytes, expected %d", h.PayloadBytes, len(payload)),
		}
	}
	if got := Checksum(payload); got != h.PayloadSum {
		return EntryHeader{}, &DamageError{
			At: EntryHeaderBytes, Index: h.Entry.Index, Kind: ErrChecksum,
			Detail: fmt.Sprintf("payload has %#08x, says %#08x", got, h.PayloadSum),
		}
	}
	return h, nil
}

// FindEntryHeaders yields the places in b at which something that looks like the
// header of an entry with an index of from or more begins: the magic is there, and
// such an index. It finds headers at any byte, and all those that are whole in b.
func FindEntryHeaders(b []byte, from entry.Index) iter.Seq[int] {
	return func(yield func(int) bool) {
		var magic [4]byte
		binary.LittleEndian.PutUint32(magic[:], entryMagic)
		for at := 0; at+EntryHeaderBytes <= len(b); at++ {
			next := bytes.Index(b[at:len(b)-EntryHeaderBytes+len(magic)], magic[:])
			if next < 0 {
				return
			}
			at += next
			if index := binary.LittleEndian.Uint64(b[at+entryIndexAt:]); entry.Index(index) >= from && !yield(at) {
				return
			}
		}
	}
}
