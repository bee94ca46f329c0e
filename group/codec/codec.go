package codec

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/sluicemq/sluice/log/entry"
)

// Errors that Reader.Done wraps.
var (
	// ErrCorrupt says that bytes are none that this version can have written.
	ErrCorrupt = errors.New("group state is damaged")
	// ErrNewer says that a later version wrote them.
	ErrNewer = errors.New("group state is of a newer version")
)

// Reader reads from Left. The zero value with Left set is ready for use.
type Reader struct {
	Left []byte
	err  error
}

// Fail makes the error, if there was none before.
func (r *Reader) Fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...)
		r.Left = nil
	}
}

// Err returns the error so far.
func (r *Reader) Err() error { return r.err }

// Done returns the error, which is not nil if bytes are left over.
func (r *Reader) Done() error {
	if r.err == nil && len(r.Left) > 0 {
		r.Fail("%d bytes too many", len(r.Left))
	}
	return r.err
}

// Version reads the first byte, which says how to read the others, and returns
// it: from 1 to known.
func (r *Reader) Version(known uint8) uint8 {
	v := r.Byte("the version")
	if r.err != nil {
		return 0
	}
	if v == 0 {
		r.Fail("version 0")
		return 0
	}
	if v > known {
		r.err = fmt.Errorf("%w: version %d, known up to %d", ErrNewer, v, known)
		r.Left = nil
		return 0
	}
	return v
}

// Byte reads one byte.
func (r *Reader) Byte(what string) uint8 {
	if len(r.Left) < 1 {
		r.Fail("ends before %s", what)
		return 0
	}
	b := r.Left[0]
	r.Left = r.Left[1:]
	return b
}

// Uint32 reads 4 bytes.
func (r *Reader) Uint32(what string) uint32 {
	if len(r.Left) < 4 {
		r.Fail("ends before %s", what)
		return 0
	}
	n := binary.LittleEndian.Uint32(r.Left)
	r.Left = r.Left[4:]
	return n
}

// Uint64 reads 8 bytes.
func (r *Reader) Uint64(what string) uint64 {
	if len(r.Left) < 8 {
		r.Fail("ends before %s", what)
		return 0
	}
	n := binary.LittleEndian.Uint64(r.Left)
	r.Left = r.Left[8:]
	return n
}

// Uvarint reads a number from 0 to most.
func (r *Reader) Uvarint(what string, most uint64) uint64 {
	n, size := binary.Uvarint(r.Left)
	switch {
	case size <= 0:
		r.Fail("ends before %s", what)
		return 0
	case size > 1 && r.Left[size-1] == 0:
		r.Fail("%s is not in its shortest form", what)
		return 0
	case n > most:
		r.Fail("%s is %d, expected at most %d", what, n, most)
		return 0
	}
	r.Left = r.Left[size:]
	return n
}

// Count reads a number of things of which each takes at least least bytes.
func (r *Reader) Count(what string, least int) int {
	return int(r.Uvarint(what, uint64(len(r.Left)/least)))
}

// Bytes reads bytes behind their length. They are borrowed from Left.
func (r *Reader) Bytes(what string) []byte {
	n := r.Uvarint(what, uint64(len(r.Left)))
	if n > uint64(len(r.Left)) { // the length itself took some
		r.Fail("ends within %s", what)
		return nil
	}
	b := r.Left[:n:n]
	r.Left = r.Left[n:]
	return b
}

// String reads a text.
func (r *Reader) String(what string) string { return string(r.Bytes(what)) }

// TopicID reads the id of a topic.
func (r *Reader) TopicID() (id entry.TopicID) {
	if len(r.Left) < len(id) {
		r.Fail("ends before a topic id")
		return id
	}
	copy(id[:], r.Left)
	r.Left = r.Left[len(id):]
	if id == (entry.TopicID{}) {
		r.Fail("the topic id is zero")
	}
	return id
}

// AppendBytes appends b behind its length.
func AppendBytes(dst, b []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

// AppendString appends a text behind its length.
func AppendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}
