package consumequeue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/sluicemq/sluice/log/entry"
)

// The layout of an index file; FORMAT.md explains it. Every size and place in
// the file comes from here. Numbers are little endian.
const (
	magic   = 0x31584953 // "SIX1"
	version = 1

	headerBytes = 128
	footerBytes = 32
	termBytes   = 24
	sparseBytes = 16
	dirBytes    = 48
	entryBytes  = 32
	sumBytes    = 4

	// sumEntries is how many entries share a checksum: 16 KiB, four pages.
	sumEntries = 512

	// recordBytes is the size of a tail record in the state store.
	recordBytes = 8 + entryBytes
)

// The errors that reading an index file (or tail records) can give. Each is
// wrapped with the file and what was found. ErrMagic, ErrChecksum, ErrShort and
// ErrStructure are kinds of ErrCorrupt; ErrVersion is not: the file is sound but
// made by a newer Sluice.
var (
	ErrCorrupt   = errors.New("index file damaged")
	ErrMagic     = fmt.Errorf("%w: not an index file", ErrCorrupt)
	ErrChecksum  = fmt.Errorf("%w: wrong checksum", ErrCorrupt)
	ErrShort     = fmt.Errorf("%w: wrong length", ErrCorrupt)
	ErrStructure = fmt.Errorf("%w: contents do not fit together", ErrCorrupt)
	ErrVersion   = errors.New("index file was written by a newer version")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// TermRun says that entries have a term from index First on, which begins at
// byte At of the segment.
type TermRun struct {
	Term  entry.Term
	First entry.Index
	At    uint32
}

// Mark says where in the segment the entry with an index begins.
type Mark struct {
	Index entry.Index
	At    uint32
}

// Segment describes a complete segment, for the header of its index file.
type Segment struct {
	Number   uint32
	End      uint32      // byte behind its last entry
	First    entry.Index // index of its first entry
	Last     entry.Index // index of its last entry; below First when it has none
	LastTime entry.Time  // append time of its last entry
	ChainCRC uint32      // chain CRC of its last entry
	Terms    []TermRun   // by First; the first run begins at First
	Marks    []Mark      // by Index; sparse: as many as the commit log cares to keep
}

// FileName returns the name of a segment's index file, NNNNNNNNNN.idx.
func FileName(segment uint32) string { return fmt.Sprintf("%010d.idx", segment) }

// ParseFileName returns the number of the segment whose index file has the
// name; ok is false for other names, those of unfinished files among them.
func ParseFileName(name string) (segment uint32, ok bool) {
	if len(name) != len("NNNNNNNNNN.idx") || name[10:] != ".idx" {
		return 0, false
	}
	var n uint64
	for _, c := range []byte(name[:10]) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return uint32(n), n <= math.MaxUint32
}

// header is the fixed part of an index file: the segment, and how many there
// are of each thing. Where the sections lie follows from the counts.
type header struct {
	Segment
	terms, marks        uint32
	partitions, entries uint64
}

// layout is where the sections of a file begin.
type layout struct {
	terms, marks, dir, entries, sums, footer, size uint64
	blocks                                         uint64 // checksums in sums
}

func align8(n uint64) uint64 { return (n + 7) &^ 7 }

// layout returns the places of the sections; ok is false when the counts are too
// large for any file.
func (h *header) layout() (l layout, ok bool) {
	const limit = 1 << 48 // far above any file, far below overflow
	if h.partitions > limit/dirBytes || h.entries > limit/entryBytes {
		return layout{}, false
	}
	l.blocks = (h.entries + sumEntries - 1) / sumEntries
	l.terms = headerBytes
	l.marks = l.terms + uint64(h.terms)*termBytes
	l.dir = l.marks + uint64(h.marks)*sparseBytes
	l.entries = l.dir + h.partitions*dirBytes
	l.sums = l.entries + h.entries*entryBytes
	l.footer = align8(l.sums + l.blocks*sumBytes)
	l.size = l.footer + footerBytes
	return l, h.partitions <= math.MaxUint32 && h.entries <= math.MaxUint32
}

func (h *header) append(dst []byte) []byte {
	begin := len(dst)
	le := binary.LittleEndian
	dst = le.AppendUint32(dst, magic)
	dst = le.AppendUint32(dst, version)
	dst = le.AppendUint32(dst, h.Number)
	dst = le.AppendUint32(dst, h.End)
	dst = le.AppendUint64(dst, uint64(h.First))
	dst = le.AppendUint64(dst, uint64(h.Last))
	dst = le.AppendUint64(dst, uint64(h.LastTime))
	dst = le.AppendUint32(dst, h.ChainCRC)
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint32(dst, h.terms)
	dst = le.AppendUint32(dst, h.marks)
	dst = le.AppendUint64(dst, h.partitions)
	dst = le.AppendUint64(dst, h.entries)
	dst = append(dst, make([]byte, headerBytes-sumBytes-(len(dst)-begin))...)
	return le.AppendUint32(dst, checksum(dst[begin:]))
}

// parseHeader reads the header: magic first, then version, then the rest, so
// that a file from the future is not taken for a damaged one.
func parseHeader(b []byte) (header, error) {
	le := binary.LittleEndian
	if len(b) < 8 {
		return header{}, fmt.Errorf("%w: %d bytes", ErrShort, len(b))
	}
	if got := le.Uint32(b); got != magic {
		return header{}, fmt.Errorf("%w: magic %#08x", ErrMagic, got)
	}
	if got := le.Uint32(b[4:]); got > version {
		return header{}, fmt.Errorf("%w: format %d, this one knows up to %d", ErrVersion, got, version)
	} else if got == 0 {
		return header{}, fmt.Errorf("%w: format 0", ErrStructure)
	}
	if len(b) < headerBytes+footerBytes {
		return header{}, fmt.Errorf("%w: %d bytes", ErrShort, len(b))
	}
	sum := headerBytes - sumBytes
	if le.Uint32(b[sum:]) != checksum(b[:sum]) {
		return header{}, fmt.Errorf("%w in header", ErrChecksum)
	}
	return header{
		Segment: Segment{
			Number:   le.Uint32(b[8:]),
			End:      le.Uint32(b[12:]),
			First:    entry.Index(le.Uint64(b[16:])),
			Last:     entry.Index(le.Uint64(b[24:])),
			LastTime: entry.Time(le.Uint64(b[32:])),
			ChainCRC: le.Uint32(b[40:]),
		},
		terms:      le.Uint32(b[48:]),
		marks:      le.Uint32(b[52:]),
		partitions: le.Uint64(b[56:]),
		entries:    le.Uint64(b[64:]),
	}, nil
}

// footer holds the checksum of each section.
type footer struct {
	terms, marks, dir, sums uint32
}

func (f footer) append(dst []byte) []byte {
	begin := len(dst)
	le := binary.LittleEndian
	dst = le.AppendUint32(dst, f.terms)
	dst = le.AppendUint32(dst, f.marks)
	dst = le.AppendUint32(dst, f.dir)
	dst = le.AppendUint32(dst, f.sums)
	dst = le.AppendUint64(dst, 0)
	dst = le.AppendUint32(dst, magic)
	return le.AppendUint32(dst, checksum(dst[begin:]))
}

func parseFooter(b []byte) (footer, error) {
	le := binary.LittleEndian
	sum := footerBytes - sumBytes
	if le.Uint32(b[sum:]) != checksum(b[:sum]) || le.Uint32(b[sum-4:]) != magic {
		return footer{}, fmt.Errorf("%w in footer", ErrChecksum)
	}
	return footer{terms: le.Uint32(b), marks: le.Uint32(b[4:]), dir: le.Uint32(b[8:]), sums: le.Uint32(b[12:])}, nil
}

// dirEntry is what a file holds of one partition.
type dirEntry struct {
	partition    entry.Partition
	first, count uint32 // its entries among the file's
	base, end    entry.Offset
	bytes        int64      // sum of Size
	max          entry.Time // largest MaxTimestamp
}

func (d *dirEntry) append(dst []byte) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint64(dst, uint64(d.partition))
	dst = le.AppendUint32(dst, d.first)
	dst = le.AppendUint32(dst, d.count)
	dst = le.AppendUint64(dst, uint64(d.base))
	dst = le.AppendUint64(dst, uint64(d.end))
	dst = le.AppendUint64(dst, uint64(d.bytes))
	return le.AppendUint64(dst, uint64(d.max))
}

func parseDir(b []byte) dirEntry {
	_ = b[dirBytes-1]
	le := binary.LittleEndian
	return dirEntry{
		partition: entry.Partition(le.Uint64(b)),
		first:     le.Uint32(b[8:]),
		count:     le.Uint32(b[12:]),
		base:      entry.Offset(le.Uint64(b[16:])),
		end:       entry.Offset(le.Uint64(b[24:])),
		bytes:     int64(le.Uint64(b[32:])),
		max:       entry.Time(le.Uint64(b[40:])),
	}
}
