package segment_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"testing"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/segment"
)

// sample returns a segment file with n entries of varied sizes, and their ends.
func sample(n int) (file []byte, h segment.Header, entries []entry.Entry, ends []int) {
	h = segment.Header{Number: 1}
	at := segment.HeaderBytes
	for i := range n {
		e := entry.Entry{
			Type: entry.TypeProduce, Flags: uint8(i), Term: 1, Index: entry.Index(i + 1), Time: entry.Time(1000 + i/2),
			Partition: entry.Partition(i % 3),
			Payload:   bytes.Repeat([]byte{byte('a' + i)}, (i*37)%100),
		}
		entries = append(entries, e)
		at += segment.EntryHeaderBytes + len(e.Payload)
		ends = append(ends, at)
	}
	return encode(h, entries), h, entries, ends
}

func TestEachFaultOfAHeaderPageHasItsOwnError(t *testing.T) {
	var good [segment.HeaderBytes]byte
	segment.PutHeader(good[:], goldenHeader)
	cases := []struct {
		name   string
		change func(page []byte) []byte
		want   error
	}{
		{"another file", func(p []byte) []byte { copy(p, "PNG and so on"); return p }, segment.ErrMagic},
		{"zeroes", func(p []byte) []byte { clear(p); return p }, segment.ErrMagic},
		{"newer version", func(p []byte) []byte { p[8] = 2; return p }, segment.ErrVersion},
		{"flipped bit in a field", func(p []byte) []byte { p[24] ^= 1; return p }, segment.ErrChecksum},
		{"flipped bit in the rest of the page", func(p []byte) []byte { p[4000] ^= 1; return p }, segment.ErrChecksum},
		{"half a page", func(p []byte) []byte { return p[:2048] }, segment.ErrShort},
		{"no bytes", func(p []byte) []byte { return nil }, segment.ErrShort},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := segment.ParseHeader(c.change(bytes.Clone(good[:])))
			if !errors.Is(err, c.want) {
				t.Fatalf("error is %v, expected %v", err, c.want)
			}
			if errors.Is(err, segment.ErrCorrupt) != (c.want != segment.ErrVersion) {
				t.Fatalf("%v: damage or not is wrong", err)
			}
		})
	}
}

func TestEachFaultOfAnEntryHasItsOwnError(t *testing.T) {
	prev := segment.Tail{Index: 9, Term: 4, Time: 500, Chain: 77}
	header := func(change func(e *entry.Entry)) []byte {
		e := entry.Entry{Type: entry.TypeProduce, Term: 4, Index: 10, Time: 500}
		change(&e)
		b := make([]byte, segment.EntryHeaderBytes)
		segment.PutEntryHeader(b, &e, 3, segment.Checksum([]byte("abc")), prev)
		return b
	}
	same := func(*entry.Entry) {}
	flip := func(b []byte, at int) []byte { b[at] ^= 0x10; return b }
	reserved := header(same)
	reserved[20] = 1
	binary.LittleEndian.PutUint32(reserved[4:], chainOf(prev.Chain, reserved[8:]))
	cases := []struct {
		name string
		b    []byte
		want error
	}{
		{"good", header(same), nil},
		{"bad magic", flip(header(same), 0), segment.ErrMagic},
		{"bad chain", flip(header(same), 5), segment.ErrChecksum},
		{"bad length", flip(header(same), 11), segment.ErrChecksum},
		{"bad payload checksum", flip(header(same), 12), segment.ErrChecksum},
		{"bad partition", flip(header(same), 55), segment.ErrChecksum},
		{"reserved bytes in use", reserved, segment.ErrVersion},
		{"index left out", header(func(e *entry.Entry) { e.Index = 11 }), segment.ErrChain},
		{"term falls", header(func(e *entry.Entry) { e.Term = 3 }), segment.ErrChain},
		{"time falls", header(func(e *entry.Entry) { e.Time = 499 }), segment.ErrChain},
		{"no type", header(func(e *entry.Entry) { e.Type = 0 }), segment.ErrChain},
		{"short", header(same)[:55], segment.ErrShort},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if _, err := segment.ParseEntryHeader(c.b, prev); !errors.Is(err, c.want) {
				t.Fatalf("error is %v, expected %v", err, c.want)
			}
		})
	}
	if _, err := segment.ParseEntryHeader(header(same), segment.Tail{Index: 9, Chain: 78}); !errors.Is(err, segment.ErrChecksum) {
		t.Fatalf("an entry behind another predecessor: %v", err)
	}
}

// chainOf computes a chain checksum, bit by bit, without the package under test.
func chainOf(prev uint32, b []byte) uint32 {
	crc := ^prev
	for _, v := range b {
		crc ^= uint32(v)
		for range 8 {
			crc = crc>>1 ^ 0x82f63b78&-(crc&1)
		}
	}
	return ^crc
}

func TestReaderEndsAtEveryCutAndNeverBefore(t *testing.T) {
	file, h, entries, ends := sample(12)
	for cut := segment.HeaderBytes; cut <= len(file); cut++ {
		whole := 0
		for whole < len(ends) && ends[whole] <= cut {
			whole++
		}
		for _, filler := range []byte{0, 0xff} {
			got, r := readAll(append(file[:cut:cut], bytes.Repeat([]byte{filler}, len(file)-cut)...), h)
			// A cut in zeroes of a payload or in front of zeroes may lose nothing.
			if len(got) < whole || (len(got) > whole && filler != 0) {
				t.Fatalf("cut at %d, filled with %#x: %d entries, expected %d", cut, filler, len(got), whole)
			}
			if r.Err() != nil && !errors.Is(r.Err(), segment.ErrCorrupt) {
				t.Fatalf("cut at %d: %v", cut, r.Err())
			}
		}
		got, r := readAll(file[:cut], h)
		if len(got) != whole || r.Tail().Index != entry.Index(whole) {
			t.Fatalf("file of %d bytes: %d entries, expected %d", cut, len(got), whole)
		}
		atEnd := cut == segment.HeaderBytes || whole > 0 && ends[whole-1] == cut
		if atEnd != (r.Err() == nil) {
			t.Fatalf("file of %d bytes: error %v", cut, r.Err())
		}
	}
	if got, r := readAll(file, h); len(got) != len(entries) || r.Err() != nil {
		t.Fatalf("whole file: %d entries, %v", len(got), r.Err())
	}
}

func TestNoFlippedBitGoesUnnoticed(t *testing.T) {
	file, h, _, ends := sample(6)
	for at := segment.HeaderBytes; at < len(file); at++ {
		for bit := range 8 {
			bad := bytes.Clone(file)
			bad[at] ^= 1 << bit
			whole := 0
			for ends[whole] <= at {
				whole++
			}
			got, r := readAll(bad, h)
			if len(got) != whole {
				t.Fatalf("bit %d of byte %d flipped: %d entries, expected %d", bit, at, len(got), whole)
			}
			var damage *segment.DamageError
			if !errors.As(r.Err(), &damage) || damage.Index != entry.Index(whole+1) || damage.File != "test.log" {
				t.Fatalf("bit %d of byte %d flipped: error %v", bit, at, r.Err())
			}
		}
	}
}

func TestBytesOfAFormerUseOfTheFileDoNotFit(t *testing.T) {
	old, _, _, oldEnds := sample(12)
	// The same entries, but that the first one has another time.
	_, h, entries, ends := sample(12)
	entries[0].Time = 999
	fresh := encode(h, entries[:4])
	if ends[3] != oldEnds[3] {
		t.Fatal("the entries must lie at the same places")
	}
	got, r := readAll(append(fresh, old[len(fresh):]...), h)
	if len(got) != 4 || !errors.Is(r.Err(), segment.ErrChecksum) {
		t.Fatalf("%d entries, %v", len(got), r.Err())
	}
}

func TestEntriesLargerThanTheReadBufferAreRead(t *testing.T) {
	h := segment.Header{Number: 9, Prev: segment.Tail{Index: 1}}
	big := bytes.Repeat([]byte("0123456789"), 300_000)
	entries := []entry.Entry{
		{Type: 2, Index: 2, Payload: []byte("a")}, {Type: 2, Index: 3, Payload: big}, {Type: 2, Index: 4, Payload: []byte("b")},
	}
	got, r := readAll(encode(h, entries), h)
	if r.Err() != nil || len(got) != 3 || !bytes.Equal(got[1].Payload, big) {
		t.Fatalf("%d entries, %v", len(got), r.Err())
	}
}

// hugeFile says that it is as large as a file can be, but has only its data.
type hugeFile struct{ *bytes.Reader }

func (f hugeFile) Size() (int64, error) { return f.Reader.Size(), nil }

func TestALengthThatLiesCostsNoMemory(t *testing.T) {
	e := entry.Entry{Type: entry.TypeProduce, Index: 1}
	file := make([]byte, segment.HeaderBytes+segment.EntryHeaderBytes, segment.HeaderBytes+1000)
	segment.PutEntryHeader(file[segment.HeaderBytes:], &e, math.MaxInt32, 0, segment.Tail{})
	r := segment.NewReader(hugeFile{bytes.NewReader(file)}, "f", 1, segment.HeaderBytes, math.MaxInt64, segment.Tail{})
	if r.Fill() || !errors.Is(r.Err(), segment.ErrShort) {
		t.Fatalf("error is %v", r.Err())
	}
	segment.PutEntryHeader(file[segment.HeaderBytes:], &e, 900<<20, 0, segment.Tail{})
	allocated := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r := segment.NewReader(hugeFile{bytes.NewReader(file)}, "f", 1, segment.HeaderBytes, segment.MaxBytes, segment.Tail{})
			if r.Fill() || !errors.Is(r.Err(), segment.ErrShort) {
				b.Fatalf("error is %v", r.Err())
			}
		}
	}).AllocedBytesPerOp()
	if allocated > 2<<20 {
		t.Fatalf("reading a file of %d bytes took %d bytes of memory", len(file), allocated)
	}
}

func TestAnErrorOfReadingIsNotDamage(t *testing.T) {
	file, h, _, _ := sample(3)
	broken := errors.New("input/output error")
	r := segment.NewReader(brokenFile{bytes.NewReader(file), broken}, "f", 1, segment.HeaderBytes, segment.MaxBytes, h.Prev)
	if r.Fill() || !errors.Is(r.Err(), broken) || errors.Is(r.Err(), segment.ErrCorrupt) {
		t.Fatalf("error is %v", r.Err())
	}
}

type brokenFile struct {
	io.ReaderAt
	err error
}

func (f brokenFile) ReadAt([]byte, int64) (int, error) { return 0, f.err }

func TestAnEntryIsCheckedWithoutItsPredecessor(t *testing.T) {
	file, _, entries, ends := sample(3)
	at := ends[1]
	header, payload := file[at:at+segment.EntryHeaderBytes], file[at+segment.EntryHeaderBytes:ends[2]]
	h, err := segment.CheckEntry(header, payload)
	if err != nil || h.Entry.Index != 3 || !bytes.Equal(payload, entries[2].Payload) {
		t.Fatalf("%+v, %v", h, err)
	}
	for name, c := range map[string]struct {
		header, payload []byte
		want            error
	}{
		"another size":    {header, payload[1:], segment.ErrChain},
		"another payload": {header, bytes.Repeat([]byte("x"), len(payload)), segment.ErrChecksum},
		"no entry":        {make([]byte, segment.EntryHeaderBytes), nil, segment.ErrMagic},
		"short":           {header[:10], payload, segment.ErrShort},
	} {
		if _, err := segment.CheckEntry(c.header, c.payload); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFileNamesGoBothWays(t *testing.T) {
	for _, n := range []uint32{1, 42, math.MaxUint32} {
		if got, ok := segment.ParseFileName(segment.FileName(n)); !ok || got != n {
			t.Errorf("%s reads as %d, %v", segment.FileName(n), got, ok)
		}
	}
	for _, name := range []string{
		"", "1.log", "0000000000.log", "00000000001.log", "4294967296.log", "0000000001.idx", "+000000001.log", "durable",
	} {
		if n, ok := segment.ParseFileName(name); ok {
			t.Errorf("%q reads as %d", name, n)
		}
	}
}

func TestReadingAllocatesNothingPerEntry(t *testing.T) {
	file, h, _, _ := sample(12)
	few := testing.AllocsPerRun(20, func() { readOnly(file, h) })
	h2 := segment.Header{Number: 1}
	var many []entry.Entry
	for i := range 20_000 {
		many = append(many, entry.Entry{Type: 2, Index: entry.Index(i + 1), Payload: file[:90]})
	}
	long := encode(h2, many)
	if got := testing.AllocsPerRun(5, func() { readOnly(long, h2) }); got > few {
		t.Fatalf("%v allocations for 20,000 entries, %v for 12", got, few)
	}
}

func readOnly(file []byte, h segment.Header) (n int, err error) {
	r := segment.NewReader(bytes.NewReader(file), "f", h.Number, segment.HeaderBytes, segment.MaxBytes, h.Prev)
	for r.Fill() {
		var e entry.Entry
		for {
			if _, ok := r.Next(&e); !ok {
				break
			}
			n++
		}
	}
	return n, r.Err()
}

func BenchmarkRead(b *testing.B) {
	for _, size := range []int{100, 1 << 10, 16 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			h := segment.Header{Number: 1}
			var entries []entry.Entry
			for i := range max(16<<20/size, 1) {
				entries = append(entries, entry.Entry{Type: 2, Index: entry.Index(i + 1), Payload: make([]byte, size)})
			}
			file := encode(h, entries)
			b.SetBytes(int64(len(file)))
			b.ReportAllocs()
			for b.Loop() {
				if n, err := readOnly(file, h); n != len(entries) || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}
