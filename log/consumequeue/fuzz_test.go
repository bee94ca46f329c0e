package consumequeue

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/sluicemq/sluice/log/entry"
)

// reseal makes every checksum in b right, as far as the counts in the header
// make sense, so that what is behind the checksums gets tested.
func reseal(b []byte) {
	if len(b) < headerBytes {
		return
	}
	le := binary.LittleEndian
	le.PutUint32(b, magic)
	le.PutUint32(b[4:], version)
	le.PutUint32(b[headerBytes-sumBytes:], checksum(b[:headerBytes-sumBytes]))
	h, err := parseHeader(b)
	if err != nil {
		return
	}
	at, ok := h.layout()
	if !ok || at.size != uint64(len(b)) {
		return
	}
	for block := range at.blocks {
		from := at.entries + block*sumEntries*entryBytes
		to := min(from+sumEntries*entryBytes, at.sums)
		le.PutUint32(b[at.sums+block*sumBytes:], checksum(b[from:to]))
	}
	foot := footer{
		terms: checksum(b[at.terms:at.marks]),
		marks: checksum(b[at.marks:at.dir]),
		dir:   checksum(b[at.dir:at.entries]),
		sums:  checksum(b[at.sums:at.footer]),
	}
	foot.append(b[:at.footer])
}

// FuzzFile opens any bytes as an index file. Either they are refused with one
// of the four errors, or everything that can be asked of the file ends, with an
// answer or with damage; and if Verify finds nothing, the look-ups find exactly
// the batches that the directory counts.
func FuzzFile(f *testing.F) {
	good, err := os.ReadFile("testdata/v1/0000000007.idx")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good, false)
	f.Add(good, true)
	f.Add(good[:200], true)
	for _, at := range []int{48, 56, 64, 0xa8, 0xb0, 0xb4, 0xb8, 0xc0, 0xc8, 0x108, 0x110, 0x118, 0x120} {
		b := slices.Clone(good)
		b[at]++
		b[at+3] ^= 0x80
		f.Add(b, true)
	}
	f.Fuzz(func(t *testing.T, data []byte, seal bool) {
		b := slices.Clone(data)
		if seal {
			reseal(b)
		}
		file, err := parseFile("fuzz", b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
				t.Fatalf("unexpected kind of error: %v", err)
			}
			return
		}
		sound := file.Verify() == nil
		_, _, _ = file.Mark(5)
		set := NewSet()
		for slot := range uint32(file.head.partitions) {
			set.Create(file.dir(slot).partition)
		}
		if err := set.Attach(file); err != nil {
			t.Fatal(err)
		}
		dst := make([]Located, 0, file.head.entries+1)
		for slot := range uint32(file.head.partitions) {
			lookUp(t, set, file, slot, dst, sound)
		}
		set.Detach(file.head.Number)
	})
}

func lookUp(t *testing.T, set *Set, file *File, slot uint32, dst []Located, sound bool) {
	d := file.dir(slot)
	q := set.Get(d.partition)
	found, err := q.Find(0, math.MaxInt64, math.MaxInt, dst)
	if sound && (err != nil || len(found) != int(d.count)) {
		t.Fatalf("partition %d: %d batches, %v, directory says %d", d.partition, len(found), err, d.count)
	}
	for _, from := range []entry.Offset{d.base, d.base + 1, d.end - 1, d.end} {
		_, _ = q.Find(from, d.end, 100, dst)
		_, _, _ = q.FindTime(1, from)
	}
	_, _, _ = q.MaxTimestamp()
	_, _ = q.Retain(1<<41, Retention{Ms: 5, Bytes: 100})
	q.SetStart(d.base + (d.end-d.base)/2)
	_, _ = q.Size()
	if _, err := set.Needed(file.head.Number); err != nil {
		t.Fatal(err)
	}
}

// FuzzChunk restores any bytes as tail records. Either they are refused as
// damage, or the queues hold them in order, and draining what they hold gives
// the same bytes again.
func FuzzChunk(f *testing.F) {
	f.Add([]byte{})
	one := appendRecord(nil, 1, Entry{BaseOffset: 5, Count: 1, At: 4096, Size: 100})
	two := appendRecord(one, 1, Entry{BaseOffset: 6, Count: 2, At: 5000, Size: 100, MaxTimestamp: -1})
	f.Add(one)
	f.Add(two)
	f.Add(two[:41])
	f.Add(appendRecord(two, 2, Entry{BaseOffset: math.MaxInt64 - 1, Count: 1}))
	f.Fuzz(func(t *testing.T, chunk []byte) {
		set, again := NewSet(), NewSet()
		for i := 0; i+recordBytes <= len(chunk); i += recordBytes {
			p := entry.Partition(binary.LittleEndian.Uint64(chunk[i:]))
			set.Create(p)
			again.Create(p)
		}
		if err := set.RestoreTail(1, chunk); err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("unexpected kind of error: %v", err)
			}
			return
		}
		for i := 0; i < len(chunk); i += recordBytes {
			p := entry.Partition(binary.LittleEndian.Uint64(chunk[i:]))
			again.Get(p).Put(1, decodeEntry(chunk[i+8:]))
		}
		if got := again.DrainNew(1, nil); !slices.Equal(got, chunk) {
			t.Fatalf("drained %x, restored %x", got, chunk)
		}
		for q := range set.All() {
			found, err := q.Find(0, math.MaxInt64, math.MaxInt, make([]Located, 0, 1+len(chunk)/recordBytes))
			if err != nil {
				t.Fatal(err)
			}
			for i := 1; i < len(found); i++ {
				if found[i].BaseOffset < found[i-1].End() {
					t.Fatalf("out of order: %v", found)
				}
			}
		}
	})
}
