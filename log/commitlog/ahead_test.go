package commitlog

import "testing"

func TestReadingAheadFollowsOneWhoReadsOn(t *testing.T) {
	var a ahead
	a.asked.Store(-100 << 20)
	at, covered := int64(4096), int64(0)
	const size, gap = 256 << 10, 900 << 10
	for i := range 100 {
		from, bytes := a.next(at, at+size)
		if i == 0 && bytes != 0 {
			t.Fatal("a first read asked for more")
		}
		if bytes > 0 {
			if from < covered {
				t.Fatalf("read %d asked for bytes from %d, which are asked for up to %d", i, from, covered)
			}
			covered = from + bytes
		}
		if i > 0 && covered < at+size {
			t.Fatalf("read %d, up to %d, came before what was asked for, up to %d", i, at+size, covered)
		}
		at += size + gap
	}
}

func TestReadsHereAndThereAskForNothing(t *testing.T) {
	var a ahead
	for i := range int64(99) { // not the first: a segment is often read from its beginning
		at := ((i + 1) * 7919 % 100) * (40 << 20)
		if _, bytes := a.next(at, at+4096); bytes != 0 {
			t.Fatalf("a lone read at %d asked for %d bytes", at, bytes)
		}
	}
}
