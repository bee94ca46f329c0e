package segment

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/sluicemq/sluice/log/entry"
)

// castagnoli is the polynomial of every checksum in a segment. Processors have
// an instruction for it.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum returns the CRC-32C of a payload, as entry headers carry it.
func Checksum(payload []byte) uint32 { return crc32.Checksum(payload, castagnoli) }

// Tail is what an entry leaves behind for the next one: the state of a reader
// or writer between two entries. The zero value stands before the first entry
// of a log.
type Tail struct {
	Index entry.Index // of the newest entry
	Term  entry.Term
	Time  entry.Time
	Chain uint32 // chain checksum of the newest entry
}

// Header is what the first page of a segment file says.
type Header struct {
	Number uint32
	// Prev is where the log stood when the segment began. The first entry of the
	// segment has index Prev.Index+1.
	Prev Tail
}

// FirstIndex returns the index of the first entry of the segment.
func (h Header) FirstIndex() entry.Index { return h.Prev.Index + 1 }

// PutHeader writes the header page of a segment to page, which must have room
// for HeaderBytes.
func PutHeader(page []byte, h Header) {
	page = page[:HeaderBytes]
	clear(page)
	le := binary.LittleEndian
	le.PutUint64(page[headerMagicAt:], headerMagic)
	le.PutUint32(page[headerVersionAt:], Version)
	le.PutUint32(page[headerNumberAt:], h.Number)
	le.PutUint32(page[headerPrevChainAt:], h.Prev.Chain)
	le.PutUint64(page[headerFirstIndexAt:], uint64(h.FirstIndex()))
	le.PutUint64(page[headerPrevTermAt:], uint64(h.Prev.Term))
	le.PutUint64(page[headerPrevTimeAt:], uint64(h.Prev.Time))
	le.PutUint32(page[headerChecksumAt:], headerChecksum(page))
}

// headerChecksum covers the page but the four bytes that hold it.
func headerChecksum(page []byte) uint32 {
	sum := crc32.Checksum(page[:headerChecksumAt], castagnoli)
	return crc32.Update(sum, castagnoli, page[headerChecksumAt+4:HeaderBytes])
}

// ParseHeader reads the first page of a segment file. The error is a
// DamageError without file name.
func ParseHeader(page []byte) (Header, error) {
	if len(page) < HeaderBytes {
		return Header{}, &DamageError{
			Kind: ErrShort, Detail: fmt.Sprintf("header page has %d of %d bytes", len(page), HeaderBytes),
		}
	}
	page = page[:HeaderBytes]
	le := binary.LittleEndian
	if magic := le.Uint64(page[headerMagicAt:]); magic != headerMagic {
		return Header{}, &DamageError{
			Kind: ErrMagic, Detail: fmt.Sprintf("%#016x is not a segment file's", magic),
		}
	}
	if version := le.Uint32(page[headerVersionAt:]); version > Version {
		return Header{}, &DamageError{
			At: headerVersionAt, Kind: ErrVersion,
			Detail: fmt.Sprintf("version %d, this program reads up to %d", version, Version),
		}
	}
	if want, got := le.Uint32(page[headerChecksumAt:]), headerChecksum(page); want != got {
		return Header{}, &DamageError{
			At: headerChecksumAt, Kind: ErrChecksum,
			Detail: fmt.Sprintf("header page has %#08x, says %#08x", got, want),
		}
	}
	h := Header{
		Number: le.Uint32(page[headerNumberAt:]),
		Prev: Tail{
			Index: entry.Index(le.Uint64(page[headerFirstIndexAt:])) - 1,
			Term:  entry.Term(le.Uint64(page[headerPrevTermAt:])),
			Time:  entry.Time(le.Uint64(page[headerPrevTimeAt:])),
			Chain: le.Uint32(page[headerPrevChainAt:]),
		},
	}
	if h.Number == 0 || h.FirstIndex() == 0 {
		return Header{}, &DamageError{Kind: ErrChain, Detail: "segment number or first index is zero"}
	}
	return h, nil
}

// Blank reports whether a header page is all zeroes: the file was made ready to
// become a segment and has not become one.
func Blank(page []byte) bool {
	for _, b := range page[:min(len(page), HeaderBytes)] {
		if b != 0 {
			return false
		}
	}
	return true
}
