package batch

import (
	"encoding/binary"
	"iter"
	"slices"
)

// Headers are the headers of a record in wire form, in their order; names may
// repeat. The zero value has none. Headers that came from a record are borrowed
// as that is.
type Headers struct {
	n int
	b []byte // n times name length, name, value length, value; checked
}

// minHeaderSize is the size of a header with an empty name and value.
const minHeaderSize = 2

// checkHeaders reports whether b holds exactly n headers, and whether the name of
// one begins with the prefix.
func checkHeaders(b []byte, n int, prefix string) (prefixed bool, f fault) {
	at := 0
	for range n {
		size, begin := varint32(b, at)
		if begin < 0 || size < 0 || size > len(b)-begin {
			return false, faultHeaderName
		}
		at = begin + size
		if prefix != "" && size >= len(prefix) && string(b[begin:begin+len(prefix)]) == prefix {
			prefixed = true
		}
		size, at = varint32(b, at)
		if at < 0 || size < -1 || size > len(b)-at {
			return false, faultHeaderValue
		}
		at += max(size, 0)
	}
	if at != len(b) {
		return false, faultRest
	}
	return prefixed, sound
}

// Len returns the number of headers.
func (h Headers) Len() int { return h.n }

// All yields the names and values. A nil value is null.
func (h Headers) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		at := 0
		for range h.n {
			var name, value []byte
			name, value, at = h.header(at)
			if !yield(name, value) {
				return
			}
		}
	}
}

// header returns the header that begins at byte at, and where it ends.
func (h Headers) header(at int) (name, value []byte, next int) {
	name, at, _ = nullable(h.b, at)
	value, at, _ = nullable(h.b, at)
	return name, value, at
}

// Get returns the value of the last header of this name, as Kafka's own client
// would give it, and whether there is one.
func (h Headers) Get(name string) (value []byte, ok bool) {
	at := 0
	for range h.n {
		var k, v []byte
		k, v, at = h.header(at)
		if string(k) == name {
			value, ok = v, true
		}
	}
	return value, ok
}

// Append returns a copy of h with a header more. Name and value are copied too.
func (h Headers) Append(name string, value []byte) Headers {
	b := binary.AppendVarint(slices.Clip(h.b), int64(len(name)))
	b = append(b, name...)
	return Headers{n: h.n + 1, b: appendNullable(b, value)}
}

// Without returns h less the headers whose name begins with the prefix. If there
// are none it is h itself, else it is a copy.
func (h Headers) Without(prefix string) Headers {
	if prefixed, _ := checkHeaders(h.b, h.n, prefix); !prefixed {
		return h
	}
	out := Headers{b: make([]byte, 0, len(h.b))}
	at := 0
	for range h.n {
		name, _, next := h.header(at)
		if len(name) < len(prefix) || string(name[:len(prefix)]) != prefix {
			out.n++
			out.b = append(out.b, h.b[at:next]...)
		}
		at = next
	}
	return out
}

// appendNullable appends the length of v and v.
func appendNullable(b, v []byte) []byte {
	if v == nil {
		return binary.AppendVarint(b, -1)
	}
	b = binary.AppendVarint(b, int64(len(v)))
	return append(b, v...)
}
