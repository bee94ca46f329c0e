package commitlog_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/segment"
	"github.com/sluicemq/sluice/log/vfs"
)

// image is the content of a log's folder.
type image map[string][]byte

// load reads all files of the folder.
func load(t testing.TB, base pebblevfs.FS) image {
	t.Helper()
	fs := vfs.New(base)
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := image{}
	for _, name := range names {
		m, err := fs.Map(fs.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = m.Bytes() // a copy, in memory
	}
	return files
}

// store returns a file system with the files.
func (files image) store(t testing.TB) *pebblevfs.MemFS {
	t.Helper()
	mem := newMem(t)
	for name, data := range files {
		writeFile(t, mem, name, data)
	}
	return mem
}

// writeFile writes the bytes of a file, over those that are there.
func writeFile(t testing.TB, base pebblevfs.FS, name string, data []byte) {
	t.Helper()
	fs := vfs.New(base)
	f, err := fs.OpenReadWrite(fs.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// with returns the files with one changed; nil bytes take it away.
func (files image) with(name string, data []byte) image {
	changed := image{}
	for n, b := range files {
		changed[n] = b
	}
	if changed[name] = data; data == nil {
		delete(changed, name)
	}
	return changed
}

// flip returns the files with a bit of one flipped.
func (files image) flip(name string, at int) image {
	data := append([]byte(nil), files[name]...)
	data[at] ^= 4
	return files.with(name, data)
}

// build makes a log of n entries in segments, closes it, and returns its files and
// what was applied.
func build(t testing.TB, n int, size func(int) int) (image, []applied) {
	t.Helper()
	mem := newMem(t)
	r := mustStart(t, options(mem))
	for i := range n {
		mustPropose(t, r, text(i, size(i)))
	}
	r.stop(t)
	return load(t, mem), r.applied
}

const boundFile = "durable"

func medium(i int) int { return 2000 + i%7*100 }

func TestTheLastEntryTornAtAnyByteIsCutOff(t *testing.T) {
	files, entries := build(t, 5, func(i int) int { return 30 + i })
	files = files.with(boundFile, nil)
	name := segment.FileName(1)
	last := int(entries[4].pos.At())
	end := last + segment.EntryHeaderBytes + len(entries[4].payload)
	for cut := last; cut <= end; cut++ {
		for _, filler := range []byte{0, 0xee} {
			torn := append([]byte(nil), files[name]...)
			for i := cut; i < len(torn); i++ {
				torn[i] = filler
			}
			want := 4
			if cut == end {
				want = 5
			}
			mem := files.with(name, torn).store(t)
			for range 2 {
				r, err := start(options(mem), 4)
				if err != nil {
					t.Fatalf("torn at %d: %v", cut, err)
				}
				if len(r.applied) != want || checkRow(r.payloads(), func(i int) int { return 30 + i }) != nil {
					t.Fatalf("torn at %d: %d entries, expected %d", cut, len(r.applied), want)
				}
				// In a header of which the rest is zero anyway, zeroes tear nothing.
				shows := cut >= last+segment.EntryHeaderBytes && want == 4
				if filler != 0 && len(r.applied) == 4 && r.sum.Last == 4 && shows != (r.sum.Torn != nil) {
					t.Fatalf("torn at %d: summary has %v", cut, r.sum.Torn)
				}
				mustPropose(t, r, text(want, 30+want))
				r.stop(t)
				if want++; want == 7 || cut == end {
					break
				}
			}
		}
	}
}

func TestWholeEntriesBehindAMissingOneNeverComeBack(t *testing.T) {
	size := func(i int) int { return 50 }
	files, entries := build(t, 10, size)
	files = files.with(boundFile, nil)
	name := segment.FileName(1)
	torn := append([]byte(nil), files[name]...)
	at := int(entries[4].pos.At())
	clear(torn[at : at+20])
	mem := files.with(name, torn).store(t)
	r := mustStart(t, options(mem))
	if len(r.applied) != 4 || r.sum.Wiped != 5 {
		t.Fatalf("%d entries, summary %+v", len(r.applied), r.sum)
	}
	mustPropose(t, r, text(4, 50)) // the very entry that is missing
	r.stop(t)
	again := mustStart(t, options(mem))
	defer again.stop(t)
	if len(again.applied) != 5 || again.applied[4] != entries[4] {
		t.Fatalf("%d entries", len(again.applied))
	}
}

func TestDamageIsRefusedWithFileAndPosition(t *testing.T) {
	files, entries := build(t, 80, medium)
	third := 0 // an entry in the third segment
	for entries[third].pos.Segment() != 3 {
		third++
	}
	newest := entries[len(entries)-1]
	lastFile := segment.FileName(newest.pos.Segment())
	other, _ := build(t, 80, func(i int) int { return 1900 + i%5*100 })
	damagedAt := func(a applied, by int) string {
		return fmt.Sprintf("%s at byte %d", segment.FileName(a.pos.Segment()), int(a.pos.At())+by)
	}
	flipBefore := func(a applied, by int) image {
		return files.flip(segment.FileName(a.pos.Segment()), int(a.pos.At())+by)
	}
	cases := []struct {
		name      string
		files     image
		mustReach entry.Index
		says      string
	}{
		{"header of an entry in a sealed segment", flipBefore(entries[third+2], 30), 0, damagedAt(entries[third+2], 4)},
		{"payload in a sealed segment", flipBefore(entries[third+2], 100), 0, damagedAt(entries[third+2], 56)},
		{"magic in a sealed segment", flipBefore(entries[third+2], 0), 0, damagedAt(entries[third+2], 0)},
		{"sealed segment, without bound", flipBefore(entries[third+2], 30).with(boundFile, nil), 0, damagedAt(entries[third+2], 4)},
		{"newest entry, before the bound", flipBefore(newest, 100), 0, damagedAt(newest, 56)},
		{"newest entry, applied", flipBefore(newest, 100).with(boundFile, nil), 80, damagedAt(newest, 56)},
		{"more was applied than is there", files, 81, "entries up to 81 were applied"},
		{"more was applied than is there, without bound", files.with(boundFile, nil), 81, lastFile},
		{"header page", files.flip(segment.FileName(2), 30), 0, segment.FileName(2) + " at byte 12"},
		{"zeroed header page", files.with(segment.FileName(2), make([]byte, 4096)), 0, segment.FileName(2) + " at byte 0"},
		{"header page of the last segment", files.flip(lastFile, 20), 0, lastFile + " at byte 12"},
		{"missing middle segment", files.with(segment.FileName(3), nil), 0, segment.FileName(3)},
		{"missing last segment", files.with(lastFile, nil), 0, lastFile},
		{"missing last segment, without bound", files.with(lastFile, nil).with(boundFile, nil), 80, "entries up to 80 were applied"},
		{"no segment but a bound", image{boundFile: files[boundFile]}, 0, "there is no segment"},
		{"no segment but applied", image{}, 3, "there is no segment"},
		{"segment of another place", files.with(segment.FileName(3), files[segment.FileName(2)]), 0, "file is that of segment 2"},
		{"segment of another log", files.with(segment.FileName(3), other[segment.FileName(3)]), 0, "the next one begins with entry"},
		{"last segment of another log", files.with(lastFile, other[lastFile]), 0, lastFile},
		{"sealed segment cut short", files.with(segment.FileName(2), files[segment.FileName(2)][:30000]), 0, segment.FileName(2)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			mem := c.files.store(t)
			r, err := start(options(mem), c.mustReach)
			if err == nil {
				r.stop(t)
				t.Fatal("the log was opened")
			}
			if !errors.Is(err, segment.ErrCorrupt) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("error is %v, expected %q in it", err, c.says)
			}
			again := load(t, mem)
			for name, data := range c.files {
				if string(again[name]) != string(data) {
					t.Errorf("%s was changed", name)
				}
			}
			walked, err := commitlog.Walk(vfs.New(mem), dir, 0, func(*commitlog.Found) error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			// What only the state store knows of, the files cannot tell.
			if inFiles := c.mustReach == 0; inFiles && walked.Damaged+walked.Gaps == 0 {
				t.Errorf("Walk saw no damage: %+v", walked)
			}
		})
	}
}

func TestDamageBehindTheDurableBoundIsCutOff(t *testing.T) {
	files, entries := build(t, 80, medium)
	newest := entries[len(entries)-1]
	name := segment.FileName(newest.pos.Segment())
	for _, by := range []int{0, 5, 30, 100} {
		mem := files.flip(name, int(newest.pos.At())+by).with(boundFile, nil).store(t)
		r := mustStart(t, options(mem))
		if len(r.applied) != 79 {
			t.Fatalf("%d entries", len(r.applied))
		}
		r.stop(t)
	}
}

func TestAFileOfANewerVersionIsNotTakenForDamage(t *testing.T) {
	files, entries := build(t, 80, medium)
	for _, number := range []uint32{2, entries[79].pos.Segment()} {
		newer := append([]byte(nil), files[segment.FileName(number)]...)
		newer[8] = segment.Version + 1
		_, err := start(options(files.with(segment.FileName(number), newer).store(t)), 0)
		if !errors.Is(err, segment.ErrVersion) || errors.Is(err, segment.ErrCorrupt) {
			t.Errorf("segment %d: %v", number, err)
		}
	}
}

func TestADamagedBoundIsNoBound(t *testing.T) {
	files, _ := build(t, 10, medium)
	for at := range files[boundFile] {
		if at >= 8 && at < 12 {
			continue // the version
		}
		r := mustStart(t, options(files.flip(boundFile, at).store(t)))
		if r.sum.Bound != 0 || r.sum.Last != 10 {
			t.Errorf("byte %d: %+v", at, r.sum)
		}
		r.stop(t)
	}
}

func TestReplayFromALaterSegmentNeedsNoEarlierOne(t *testing.T) {
	files, entries := build(t, 80, medium)
	gone := files.with(segment.FileName(1), nil).with(segment.FileName(2), []byte{}).with(segment.FileName(2), nil)
	l, err := commitlog.Open(options(gone.store(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	number, ok := l.SegmentOf(60)
	if !ok || number != entries[59].pos.Segment() {
		t.Fatalf("entry 60 is in segment %d, not %d", entries[59].pos.Segment(), number)
	}
	var first entry.Index
	sum, err := l.Replay(number, 60, func(g *commitlog.Group) error {
		if first == 0 {
			first = g.Entries[0].Index
			if g.Sealed != nil {
				t.Errorf("the first group has a sealed segment %+v", g.Sealed)
			}
		}
		return nil
	})
	if err != nil || sum.Last != 80 || entries[first-1].pos.Segment() != number || entries[first-2].pos.Segment() == number {
		t.Fatalf("replay began with entry %d: %+v, %v", first, sum, err)
	}
}

func TestAnErrorOfVisitEndsReplay(t *testing.T) {
	files, _ := build(t, 80, medium)
	l, err := commitlog.Open(options(files.store(t)))
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	if _, err := l.Replay(0, 0, func(*commitlog.Group) error { return stop }); !errors.Is(err, stop) {
		t.Fatalf("error is %v", err)
	}
	if err := l.Propose(&newTicket("x").Proposal); err == nil {
		t.Fatal("a log that was not replayed takes entries")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestReplayRunsOnce(t *testing.T) {
	r := mustStart(t, options(newMem(t)))
	defer r.stop(t)
	if _, err := r.Replay(0, 0, nil); err == nil {
		t.Fatal("a second Replay was done")
	}
}

func TestALowerTermThanTheNewestEntryIsRefused(t *testing.T) {
	mem := newMem(t)
	o := options(mem)
	o.Term = 5
	r := mustStart(t, o)
	mustPropose(t, r, "a")
	r.stop(t)
	o.Term = 4
	if _, err := start(o, 0); err == nil || !strings.Contains(err.Error(), "term 5") {
		t.Fatalf("error is %v", err)
	}
}

// FuzzRecovery changes bytes in the last segment of a log without a bound. What a
// start finds must be the first entries of the log, as they were; and after it took
// one more entry, the next start must find that one as well.
func FuzzRecovery(f *testing.F) {
	size := func(i int) int { return 20 + i*5 }
	files, entries := build(f, 12, size)
	files = files.with(boundFile, nil)
	name := segment.FileName(1)
	f.Add(uint16(entries[3].pos.At()), []byte{0, 0, 0})
	f.Add(uint16(entries[6].pos.At()+60), []byte("changed payload"))
	f.Add(uint16(0), make([]byte, 100))
	f.Add(uint16(segment.HeaderBytes), make([]byte, 56))
	f.Fuzz(func(t *testing.T, at uint16, change []byte) {
		data := append([]byte(nil), files[name]...)
		if int(at) >= len(data) {
			return
		}
		copy(data[at:], change)
		mem := files.with(name, data).store(t)
		r, err := start(options(mem), 0)
		if errors.Is(err, segment.ErrVersion) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		n := len(r.applied)
		for i, a := range r.applied {
			if i >= len(entries) || a != entries[i] {
				t.Fatalf("entry %d is not what was written", i+1)
			}
		}
		mustPropose(t, r, text(n, size(n)))
		r.stop(t)
		again := mustStart(t, options(mem))
		defer again.stop(t)
		if len(again.applied) != n+1 {
			t.Fatalf("%d entries, then %d", n, len(again.applied))
		}
		if err := checkRow(again.payloads(), size); err != nil {
			t.Fatal(err)
		}
	})
}
