package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/sluicemq/sluice/log/entry"
)

// Errors that Load and Apply wrap.
var (
	// ErrCorrupt says that bytes are none that this package can have written.
	ErrCorrupt = errors.New("transaction state is damaged")
	// ErrNewer says that they were written by a later version of it.
	ErrNewer = errors.New("transaction state is of a newer version")
)

// reader reads from left; the first error stays.
type reader struct {
	left []byte
	err  error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...)
		r.left = nil
	}
}

// done returns the error, which is not nil if bytes are left over.
func (r *reader) done() error {
	if r.err == nil && len(r.left) > 0 {
		r.fail("%d bytes too many", len(r.left))
	}
	return r.err
}

// version reads the first byte, which says how to read the others.
func (r *reader) version(known byte) {
	switch v := r.byte("the version"); {
	case r.err != nil:
	case v == 0:
		r.fail("version 0")
	case v > known:
		r.err, r.left = fmt.Errorf("%w: version %d, known up to %d", ErrNewer, v, known), nil
	}
}

// take returns the next n bytes, or nil.
func (r *reader) take(n int, what string) []byte {
	if len(r.left) < n {
		r.fail("ends before %s", what)
		return nil
	}
	b := r.left[:n]
	r.left = r.left[n:]
	return b
}

func (r *reader) byte(what string) byte {
	if b := r.take(1, what); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) flag(what string) bool {
	b := r.byte(what)
	if b > 1 {
		r.fail("%s is %d", what, b)
	}
	return b == 1
}

func (r *reader) uint16(what string) uint16 {
	if b := r.take(2, what); b != nil {
		return le.Uint16(b)
	}
	return 0
}

func (r *reader) uint32(what string) uint32 {
	if b := r.take(4, what); b != nil {
		return le.Uint32(b)
	}
	return 0
}

func (r *reader) uint64(what string) uint64 {
	if b := r.take(8, what); b != nil {
		return le.Uint64(b)
	}
	return 0
}

// uvarint reads a number from 0 to most, in its shortest form.
func (r *reader) uvarint(what string, most uint64) uint64 {
	n, size := binary.Uvarint(r.left)
	switch {
	case size <= 0:
		r.fail("ends before %s", what)
		return 0
	case size > 1 && r.left[size-1] == 0, n > most:
		r.fail("%s is %d, in %d bytes, expected at most %d", what, n, size, most)
		return 0
	}
	r.left = r.left[size:]
	return n
}

// count reads a number of things of which each takes at least least bytes.
func (r *reader) count(what string, least int) int {
	return int(r.uvarint(what, uint64(len(r.left)/least)))
}

func (r *reader) string(what string) string {
	n := r.uvarint(what, math.MaxInt32)
	return string(r.take(int(n), what))
}

func (r *reader) topicID() (id entry.TopicID) {
	copy(id[:], r.take(len(id), "a topic id"))
	return id
}

// partitions reads a list of partition numbers.
func (r *reader) partitions() []entry.Partition {
	n := r.count("the number of partitions", 1)
	all := make([]entry.Partition, 0, n)
	for ; n > 0 && r.err == nil; n-- {
		all = append(all, entry.Partition(r.uvarint("a partition", math.MaxUint64)))
	}
	return all
}
