package batch_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// Null and empty are not the same, in keys, values and header values.
func TestIteratorKeepsNullApartFromEmpty(t *testing.T) {
	var h batch.Headers
	h = h.Append("null", nil).Append("empty", []byte{}).Append("", []byte("x"))
	records := []*batch.Record{
		{Timestamp: 5},
		{Timestamp: 9, Key: []byte{}, Value: []byte{}},
		{Timestamp: 3, Key: []byte("k"), Value: []byte("v"), Headers: h},
	}
	want := []read{
		{0, 5, "null", "null", ""},
		{1, 9, `""`, `""`, ""},
		{2, 3, `"k"`, `"v"`, `"null"=null;"empty"="";""="x";`},
	}
	for _, codec := range allCodecs {
		if got := readAll(t, newCodecs(), build(t, batch.Options{Codec: codec}, records...)); !slices.Equal(got, want) {
			t.Errorf("%s: got %+v", codec, got)
		}
	}
}

// Compaction takes records out of a batch and leaves its offsets.
func TestIteratorReadsBatchesWithGaps(t *testing.T) {
	var b batch.Builder
	b.AddAt(2, record("a", 1))
	b.AddAt(7, record("b", 2))
	b.Extend(9)
	out, err := b.Build(nil, newCodecs(), batch.Options{BaseOffset: 100})
	if err != nil {
		t.Fatal(err)
	}
	h := batch.Header(out)
	if h.Count() != 2 || h.LastOffset() != 109 {
		t.Errorf("count %d, last offset %d", h.Count(), h.LastOffset())
	}
	if got := readAll(t, newCodecs(), out); len(got) != 2 || got[0].Delta != 2 || got[1].Delta != 7 {
		t.Errorf("got %+v", got)
	}
}

func TestIteratorOfABatchWithoutRecordsEndsAtOnce(t *testing.T) {
	var b batch.Builder
	b.Extend(4)
	out, err := b.Build(nil, newCodecs(), batch.Options{Producer: &batch.Producer{ID: 3, Sequence: 10}})
	if err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, newCodecs(), out); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
	h := batch.Header(out)
	if h.Count() != 0 || h.LastOffsetDelta() != 4 || h.LastSequence() != 14 || h.MaxTimestamp() != batch.NoTimestamp {
		t.Errorf("count %d, last delta %d, last sequence %d, max timestamp %d",
			h.Count(), h.LastOffsetDelta(), h.LastSequence(), h.MaxTimestamp())
	}
}

func TestIteratorStopsAtDamage(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func([]byte) []byte
		read   int
		text   string
	}{
		{"cut", func(b []byte) []byte { return b[:len(b)-1] }, 0, "only"},
		{"no batch", func(b []byte) []byte { return b[:5] }, 0, "5 bytes"},
		{"count too high", func(b []byte) []byte { binary.BigEndian.PutUint32(b[57:], 9); return b }, 3, "record 3 of the batch is missing"},
		{"count too low", func(b []byte) []byte { binary.BigEndian.PutUint32(b[57:], 2); return b }, 2, "record 1 of the batch is followed"},
		{"offset past the last", func(b []byte) []byte { binary.BigEndian.PutUint32(b[23:], 1); return b }, 2, "record 2 of the batch has an offset"},
		{"record length", func(b []byte) []byte { b[61] = 0x7e; return b }, 0, "record 0 of the batch"},
		{"codec", func(b []byte) []byte { b[22] = 4; return b }, 0, "zstd does not decompress"},
		{"unknown codec", func(b []byte) []byte { b[22] = 6; return b }, 0, "type 6"},
	} {
		it := newCodecs().Records(c.change(build(t, batch.Options{}, three()...)))
		n := 0
		for it.Next() {
			n++
		}
		if n != c.read || it.Err() == nil || !strings.Contains(kerr.Message(it.Err()), c.text) {
			t.Errorf("%s: %d records, then %v", c.name, n, it.Err())
		}
		if it.Next() {
			t.Errorf("%s: goes on after the error", c.name)
		}
		it.Close()
		it.Close()
	}
}

func TestIteratorReadsTheFirstBatchOfSeveral(t *testing.T) {
	one := build(t, batch.Options{}, three()...)
	if got := readAll(t, newCodecs(), append(bytes.Clone(one), "more"...)); len(got) != 3 {
		t.Errorf("got %+v", got)
	}
}

func TestHeaders(t *testing.T) {
	var none batch.Headers
	h := none.Append("a", []byte("1")).Append("sluice-x", []byte("2")).Append("a", nil).Append("b", []byte{})
	if v, ok := h.Get("a"); !ok || v != nil {
		t.Errorf("the last a is %q, %v", v, ok)
	}
	if v, ok := h.Get("sluice-x"); !ok || string(v) != "2" {
		t.Errorf("sluice-x is %q, %v", v, ok)
	}
	if _, ok := h.Get("sluice"); ok {
		t.Error("a part of a name is no name")
	}
	if _, ok := none.Get(""); ok {
		t.Error("no headers, but one is found")
	}
	less := h.Without("sluice-")
	if _, ok := less.Get("sluice-x"); ok || less.Len() != 3 || h.Len() != 4 {
		t.Errorf("%d of %d are left", less.Len(), h.Len())
	}
	if same := h.Without("none-"); same.Len() != 4 {
		t.Errorf("%d headers", same.Len())
	}
	var first []string
	for name := range h.All() {
		first = append(first, string(name))
		if len(first) == 2 {
			break
		}
	}
	if !slices.Equal(first, []string{"a", "sluice-x"}) {
		t.Errorf("got %q", first)
	}
}

// Two results of Append on the same headers must not share what they added, and
// headers that lie in a batch must not be written over.
func TestHeadersAppendLeavesTheOriginal(t *testing.T) {
	r := record("v", 1)
	r.Headers = r.Headers.Append("a", []byte("1"))
	b := build(t, batch.Options{}, r, record("w", 2))
	before := bytes.Clone(b)
	it := newCodecs().Records(b)
	defer it.Close()
	it.Next()
	h := it.Record().Headers
	x, y := h.Append("x", nil), h.Append("y", nil)
	_, hasX := x.Get("x")
	_, hasY := y.Get("y")
	if !hasX || !hasY || !bytes.Equal(b, before) {
		t.Errorf("x %v, y %v, batch unchanged %v", hasX, hasY, bytes.Equal(b, before))
	}
}
