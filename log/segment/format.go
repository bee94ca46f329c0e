package segment

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/sluicemq/sluice/log/entry"
)

// Limits and sizes, in bytes. FORMAT.md explains them.
const (
	// Version is the version of the format that this package writes.
	Version = 1

	// HeaderBytes is the size of the header page. The first entry begins there.
	HeaderBytes = 4096
	// EntryHeaderBytes is the size of the header in front of each payload.
	EntryHeaderBytes = 56

	// MinBytes and MaxBytes bound the size of a segment file.
	MinBytes = 64 << 10
	MaxBytes = 1 << 30
)

// headerMagic begins a segment file: "SLUICELG".
const headerMagic uint64 = 0x474c454349554c53

// Where the fields of the header page are. The rest of the page is zero.
const (
	headerMagicAt      = 0
	headerVersionAt    = 8
	headerChecksumAt   = 12 // covers the page but these four bytes
	headerNumberAt     = 16
	headerPrevChainAt  = 20
	headerFirstIndexAt = 24
	headerPrevTermAt   = 32
	headerPrevTimeAt   = 40
)

// entryMagic begins an entry: "SLE1".
const entryMagic uint32 = 0x31454c53

// Where the fields of an entry header are.
const (
	entryMagicAt      = 0
	entryChainAt      = 4 // covers what follows in the header, seeded
	entryLengthAt     = 8
	entryPayloadSumAt = 12
	entryTypeAt       = 16
	entryFlagsAt      = 17
	entryReservedAt   = 18 // 6 bytes of zero
	entryTermAt       = 24
	entryIndexAt      = 32
	entryTimeAt       = 40
	entryPartitionAt  = 48
)

// suffix ends the name of a segment file, after nameDigits of its number.
const (
	suffix     = ".log"
	nameDigits = 10
)

// FileName returns the name of the file of the segment with the number.
func FileName(number uint32) string {
	return fmt.Sprintf("%0*d%s", nameDigits, number, suffix)
}

// ParseFileName returns the number in the name of a segment file. ok is false
// when the name is not one.
func ParseFileName(name string) (number uint32, ok bool) {
	digits, found := strings.CutSuffix(name, suffix)
	if !found || len(digits) != nameDigits {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || n == 0 || FileName(uint32(n)) != name {
		return 0, false
	}
	return uint32(n), true
}

// The ways in which bytes are not what the format says.
var (
	// ErrCorrupt is matched by every DamageError but those of a newer version.
	ErrCorrupt = errors.New("damaged")

	// ErrMagic: what should begin with a magic number does not.
	ErrMagic = errors.New("bad magic number")
	// ErrVersion: a newer Sluice wrote this, with something this one cannot read.
	ErrVersion = errors.New("written by a newer version")
	// ErrChecksum: the bytes do not match their checksum.
	ErrChecksum = errors.New("bad checksum")
	// ErrShort: the file ends, or the segment's room does, before the thing is whole.
	ErrShort = errors.New("cut short")
	// ErrChain: an entry or segment that is whole, but does not follow from its
	// predecessor: another index, a term or time that runs backwards, another file.
	ErrChain = errors.New("does not follow from its predecessor")
)

// DamageError says what is wrong, and where. It wraps the way in which it is
// wrong (ErrMagic and so on) and, unless that is ErrVersion, ErrCorrupt.
type DamageError struct {
	File   string      // the name of the file, as far as known
	At     int64       // the byte in the file
	Index  entry.Index // the entry that was expected there; 0 for a header page
	Kind   error       // ErrMagic, ErrVersion, ErrChecksum, ErrShort or ErrChain
	Detail string      // what was found and what was expected
}

// Error returns everything in one line.
func (e *DamageError) Error() string {
	var b strings.Builder
	if e.File != "" {
		fmt.Fprintf(&b, "%s ", e.File)
	}
	fmt.Fprintf(&b, "at byte %d", e.At)
	if e.Index != 0 {
		fmt.Fprintf(&b, " (entry %d)", e.Index)
	}
	fmt.Fprintf(&b, ": %v", e.Kind)
	if e.Detail != "" {
		fmt.Fprintf(&b, ": %s", e.Detail)
	}
	return b.String()
}

// Unwrap returns what the error matches.
func (e *DamageError) Unwrap() []error {
	if errors.Is(e.Kind, ErrVersion) {
		return []error{e.Kind}
	}
	return []error{ErrCorrupt, e.Kind}
}
