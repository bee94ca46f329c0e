package codec

import (
	"bytes"
	"errors"
	"testing"

	"github.com/sluicemq/sluice/log/entry"
)

func TestReaderReadsWhatWasAppended(t *testing.T) {
	id := entry.TopicID{7}
	b := append([]byte{1, 9}, 4, 3, 2, 1, 8, 7, 6, 5, 4, 3, 2, 1, 0x96, 1)
	b = AppendString(AppendBytes(b, []byte("bytes")), "text")
	b = append(b, id[:]...)
	r := Reader{Left: b}
	if v, one := r.Version(2), r.Byte("a byte"); v != 1 || one != 9 {
		t.Errorf("%d, %d", v, one)
	}
	if x, y, z := r.Uint32("x"), r.Uint64("y"), r.Uvarint("z", 200); x != 0x01020304 || y != 0x0102030405060708 || z != 150 {
		t.Errorf("%x, %x, %d", x, y, z)
	}
	if x, y, got := r.Bytes("x"), r.String("y"), r.TopicID(); !bytes.Equal(x, []byte("bytes")) || y != "text" || got != id {
		t.Errorf("%q, %q, %x", x, y, got)
	}
	if err := r.Done(); err != nil {
		t.Error(err)
	}
}

func TestReaderRefusesWhatWasNotAppended(t *testing.T) {
	for what, c := range map[string]struct {
		b    []byte
		read func(*Reader)
		want error
	}{
		"no version":            {nil, func(r *Reader) { r.Version(1) }, ErrCorrupt},
		"version 0":             {[]byte{0}, func(r *Reader) { r.Version(1) }, ErrCorrupt},
		"a later version":       {[]byte{2}, func(r *Reader) { r.Version(1) }, ErrNewer},
		"short number":          {[]byte{1, 2, 3}, func(r *Reader) { r.Uint32("x") }, ErrCorrupt},
		"short long number":     {make([]byte, 7), func(r *Reader) { r.Uint64("x") }, ErrCorrupt},
		"long form":             {[]byte{0x81, 0}, func(r *Reader) { r.Uvarint("x", 10) }, ErrCorrupt},
		"endless number":        {bytes.Repeat([]byte{0xff}, 11), func(r *Reader) { r.Uvarint("x", 1<<63) }, ErrCorrupt},
		"too large":             {[]byte{11}, func(r *Reader) { r.Uvarint("x", 10) }, ErrCorrupt},
		"more things than room": {[]byte{3, 0, 0, 0, 0}, func(r *Reader) { r.Count("x", 2) }, ErrCorrupt},
		"more bytes than there": {[]byte{2, 0}, func(r *Reader) { r.Bytes("x") }, ErrCorrupt},
		"a short id":            {make([]byte, 15), func(r *Reader) { r.TopicID() }, ErrCorrupt},
		"an id of zeros":        {make([]byte, 16), func(r *Reader) { r.TopicID() }, ErrCorrupt},
		"bytes left over":       {[]byte{1, 2}, func(r *Reader) { r.Byte("x") }, ErrCorrupt},
	} {
		r := Reader{Left: c.b}
		c.read(&r)
		if err := r.Done(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
		if c.read(&r); !errors.Is(r.Err(), c.want) { // the first error stays
			t.Errorf("%s again: %v", what, r.Err())
		}
	}
}
