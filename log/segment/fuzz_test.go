package segment_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/segment"
)

// FuzzHeader reads any bytes as the beginning of a header page whose rest is zero,
// with its checksum put right or not. What is understood must encode to the same.
func FuzzHeader(f *testing.F) {
	f.Add(encode(goldenHeader, nil)[:48], true)
	f.Add(encode(goldenHeader, nil)[:48], false)
	f.Fuzz(func(t *testing.T, head []byte, right bool) {
		page := make([]byte, segment.HeaderBytes)
		copy(page, head)
		if right {
			binary.LittleEndian.PutUint32(page[12:], chainOf(chainOf(0, page[:12]), page[16:]))
		}
		h, err := segment.ParseHeader(page)
		if err != nil {
			if !errors.Is(err, segment.ErrCorrupt) && !errors.Is(err, segment.ErrVersion) {
				t.Fatal(err)
			}
			return
		}
		again := make([]byte, segment.HeaderBytes)
		segment.PutHeader(again, h)
		if !bytes.Equal(again[16:48], page[16:48]) {
			t.Fatalf("%x decodes and encodes to %x", page[:48], again[:48])
		}
	})
}

// FuzzReader reads any bytes as the entries of a segment. What is read must be what
// encoding the entries again gives, byte for byte, and every end is clean or damage.
func FuzzReader(f *testing.F) {
	f.Add(encode(goldenHeader, goldenEntries)[segment.HeaderBytes:], uint64(6), uint64(1), uint32(0x5eed5eed))
	file, _, _, ends := sample(6)
	f.Add(file[segment.HeaderBytes:], uint64(0), uint64(0), uint32(0))
	f.Add(file[segment.HeaderBytes:ends[3]+20], uint64(0), uint64(0), uint32(0))
	f.Add(file[ends[2]:], uint64(3), uint64(1), binary.LittleEndian.Uint32(file[ends[1]+4:]))
	f.Add(append(file[segment.HeaderBytes:], make([]byte, 100)...), uint64(0), uint64(0), uint32(0))
	f.Fuzz(func(t *testing.T, body []byte, index, term uint64, chain uint32) {
		h := segment.Header{Number: 1, Prev: segment.Tail{Index: entry.Index(index), Term: entry.Term(term), Chain: chain}}
		file := append(make([]byte, segment.HeaderBytes), body...)
		entries, r := readAll(file, h)
		if err := r.Err(); err != nil && !errors.Is(err, segment.ErrCorrupt) && !errors.Is(err, segment.ErrVersion) {
			t.Fatal(err)
		}
		again := encode(h, entries)
		if r.At() != int64(len(again)) || !bytes.Equal(again[segment.HeaderBytes:], file[segment.HeaderBytes:r.At()]) {
			t.Fatalf("%d entries up to byte %d encode to %d other bytes", len(entries), r.At(), len(again))
		}
		for i, e := range entries {
			if e.Index != h.FirstIndex()+entry.Index(i) {
				t.Fatalf("entry %d has index %d", i, e.Index)
			}
		}
	})
}

// FuzzEntry reads any bytes as one entry behind any predecessor, where the fuzzer
// need not find the checksum: it is put right before.
func FuzzEntry(f *testing.F) {
	f.Add(encode(goldenHeader, goldenEntries)[segment.HeaderBytes:], uint64(6), uint64(1), uint32(0x5eed5eed))
	f.Fuzz(func(t *testing.T, b []byte, index, term uint64, chain uint32) {
		if len(b) < segment.EntryHeaderBytes {
			return
		}
		b = bytes.Clone(b)
		copy(b, "SLE1")
		sum := chainOf(chain, b[8:segment.EntryHeaderBytes])
		b[4], b[5], b[6], b[7] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
		prev := segment.Tail{Index: entry.Index(index), Term: entry.Term(term), Chain: chain}
		h, err := segment.ParseEntryHeader(b, prev)
		if err != nil {
			if !errors.Is(err, segment.ErrChain) && !errors.Is(err, segment.ErrVersion) {
				t.Fatalf("with a good checksum: %v", err)
			}
			return
		}
		again := make([]byte, segment.EntryHeaderBytes)
		tail := segment.PutEntryHeader(again, &h.Entry, int(h.PayloadBytes), h.PayloadSum, prev)
		if !bytes.Equal(again, b[:segment.EntryHeaderBytes]) || tail != h.Tail() {
			t.Fatalf("%x decodes and encodes to %x", b[:segment.EntryHeaderBytes], again)
		}
	})
}
