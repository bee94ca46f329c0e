package protocol

import (
	"encoding/binary"
	"fmt"
)

// produceFlexible is the first flexible version of Produce, and produceIDs the
// first that names topics by id.
const (
	produceFlexible = 9
	produceIDs      = 13
)

// What CheckProduce lets pass. An honest entry takes more than entryBytes: a
// partition has a batch of 61 bytes and more, and a topic such a partition.
// Unknown tags are few or none in honest requests.
const (
	fewEntries = 1024
	entryBytes = 32
	fewTags    = 64
)

// CheckProduce refuses the body of a Produce request that would take more
// memory than about three times its size when it is decoded: Produce has no
// limit of its own that would bound it. It walks over the body once and
// allocates nothing. Errors wrap ErrInflated. What is malformed passes, since
// it will not decode.
func CheckProduce(version int16, body []byte) error {
	w := walker{rest: body, flexible: version >= produceFlexible}
	if version >= 3 {
		w.str() // transactional id
	}
	w.skip(2 + 4) // acks, time-out
	most := max(fewEntries, len(body)/entryBytes)
	topics := w.count()
	entries := topics
	for ; topics > 0 && w.ok() && entries <= most && w.tags <= fewTags; topics-- {
		if version >= produceIDs {
			w.skip(16)
		} else {
			w.str()
		}
		partitions := w.count()
		if entries += partitions; entries > most {
			break
		}
		for ; partitions > 0 && w.ok(); partitions-- {
			w.skip(4)
			w.bytes()
			w.skipTags()
		}
		w.skipTags()
	}
	w.skipTags()
	switch {
	case entries > most:
		return fmt.Errorf("%w: more than %d topics and partitions in %d bytes", ErrInflated, most, len(body))
	case w.tags > fewTags:
		return fmt.Errorf("%w: %d unknown tags", ErrInflated, w.tags)
	}
	return nil
}

// walker moves over the fields of a message. When something does not fit, it
// stands at the end and stays there.
type walker struct {
	rest     []byte
	flexible bool
	tags     int // tags that were skipped
}

func (w *walker) ok() bool { return len(w.rest) > 0 }

func (w *walker) skip(n int) {
	if n < 0 || n > len(w.rest) {
		n = len(w.rest)
	}
	w.rest = w.rest[n:]
}

// uvarint reads an unsigned varint that is a length or a number of a tag.
func (w *walker) uvarint() int {
	u, n := binary.Uvarint(w.rest)
	if n <= 0 || u > 1<<32-1 {
		w.rest = nil
		return 0
	}
	w.rest = w.rest[n:]
	return int(u)
}

func (w *walker) int16() int {
	if len(w.rest) < 2 {
		w.rest = nil
		return 0
	}
	n := int(int16(binary.BigEndian.Uint16(w.rest)))
	w.rest = w.rest[2:]
	return n
}

func (w *walker) int32() int {
	if len(w.rest) < 4 {
		w.rest = nil
		return 0
	}
	n := int(int32(binary.BigEndian.Uint32(w.rest)))
	w.rest = w.rest[4:]
	return n
}

// str skips a string, which may be null.
func (w *walker) str() {
	if w.flexible {
		w.skip(max(0, w.uvarint()-1))
		return
	}
	w.skip(max(0, w.int16()))
}

// bytes skips bytes, which may be null.
func (w *walker) bytes() {
	if w.flexible {
		w.skip(max(0, w.uvarint()-1))
		return
	}
	w.skip(max(0, w.int32()))
}

// count reads the length of an array, which may be null. It takes a length that
// is no int32 for a negative one, as kmsg does.
func (w *walker) count() int {
	if w.flexible {
		return max(0, int(int32(w.uvarint())-1))
	}
	return max(0, w.int32())
}

// skipTags skips tags and counts them.
func (w *walker) skipTags() {
	if !w.flexible {
		return
	}
	n := w.uvarint()
	w.tags += n
	for ; n > 0 && w.ok(); n-- {
		w.uvarint()
		w.skip(w.uvarint())
	}
}
