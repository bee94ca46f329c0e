package log_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/log"
	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/state"
	"github.com/sluicemq/sluice/log/vfs"
	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// readable is a log whose partition 1 has ten batches of two records and 100
// bytes each in an indexed segment, ten in one that is not indexed, and ten in
// the tail in memory. Partition 2 has batches between them.
func readable(t *testing.T) *kept {
	t.Helper()
	k := openKept(t, vfs.New(pebblevfs.NewMem()), dataDir, func(o *log.Options) { o.TailBytes = 1 })
	create(t, k.Log, 1)
	create(t, k.Log, 2)
	for i := range 30 {
		produce(t, k.Log, 1, sized(t, 2, 100))
		produce(t, k.Log, 2, sized(t, 1, 90))
		if i%10 == 9 && i < 29 {
			must(t, k.Roll())
		}
	}
	k.AwaitSealed()
	return k
}

// sized returns a batch of n records that is size bytes long.
func sized(t testing.TB, n, size int) []byte {
	t.Helper()
	for value := 0; ; value++ {
		var b batch.Builder
		for i := range n {
			text := []byte(strings.Repeat("x", value))
			if i > 0 {
				text = nil
			}
			b.Add(&batch.Record{Timestamp: 1000, Value: text})
		}
		payload, err := b.Build(nil, nil, batch.Options{})
		must(t, err)
		if len(payload) == size {
			return payload
		}
		if len(payload) > size {
			t.Fatalf("no batch of %d records is %d bytes long", n, size)
		}
	}
}

func TestReadKeepsToItsLimits(t *testing.T) {
	k := readable(t)
	var b log.Batches
	for _, test := range []struct {
		from, to entry.Offset
		maxBytes int
		whole    bool
		first    entry.Offset // base offset of the first batch
		batches  int
	}{
		{0, 60, 1 << 20, true, 0, 30},
		{0, 60, 1 << 20, false, 0, 30},
		{0, 60, 3000, false, 0, 30},
		{0, 60, 2999, false, 0, 29},
		{0, 60, 100, false, 0, 1},
		{0, 60, 99, false, 0, 0},
		{0, 60, 99, true, 0, 1},
		{0, 60, 0, true, 0, 1},
		{0, 60, -5, true, 0, 1},
		{0, 60, 0, false, 0, 0},
		{0, 60, 199, true, 0, 1},
		{0, 60, 200, true, 0, 2},
		{1, 60, 1 << 20, true, 0, 30}, // the batch that holds the offset, as a whole
		{2, 60, 1 << 20, true, 2, 29},
		{18, 22, 1 << 20, true, 18, 2}, // from an indexed segment into the next
		{19, 22, 1 << 20, true, 18, 2},
		{38, 42, 1 << 20, true, 38, 2}, // into the tail
		{59, 60, 1 << 20, true, 58, 1},
		{10, 11, 1 << 20, true, 10, 1}, // below to counts the base offset
		{10, 10, 1 << 20, true, 0, 0},
		{10, 5, 1 << 20, true, 0, 0},
		{60, 60, 1 << 20, true, 0, 0},
		{60, 100, 1 << 20, true, 0, 0}, // the end is not an error
		{50, 1000, 1 << 20, true, 50, 5},
	} {
		added, err := k.Read(1, test.from, test.to, test.maxBytes, test.whole, &b)
		heads := split(t, &b)
		if err != nil || len(heads) != test.batches || added != 100*test.batches || b.Bytes != added {
			t.Errorf("%+v: %d batches, %d bytes, %v", test, len(heads), added, err)
		}
		for i, head := range heads {
			if want := test.first + 2*entry.Offset(i); entry.Offset(head.BaseOffset()) != want || !head.ChecksumFits() {
				t.Errorf("%+v: batch %d has base offset %d, want %d", test, i, head.BaseOffset(), want)
			}
		}
		b.Release()
	}
	for _, from := range []entry.Offset{-1, 61, 1 << 40, -1 << 63} {
		if _, err := k.Read(1, from, 1<<62, 1000, true, &b); kerr.Of(err) != kerr.OffsetOutOfRange {
			t.Errorf("from %d: %v", from, err)
		}
	}
	if _, err := k.Read(9, 0, 10, 1000, true, &b); kerr.Of(err) != kerr.UnknownTopicOrPartition {
		t.Errorf("a partition that is not there: %v", err)
	}
	must(t, k.Close())
	noneHeld(t, k.Log, "")
}

// split returns the batches that reads have gathered.
func split(t testing.TB, b *log.Batches) (heads []batch.Header) {
	t.Helper()
	for _, piece := range b.Pieces {
		for len(piece) > 0 {
			head, rest, err := batch.Split(piece)
			must(t, err)
			heads = append(heads, head)
			piece = rest
		}
	}
	return heads
}

// Reads of several partitions gather in one Batches, and all memory comes back.
func TestBatchesGatherAndGiveBack(t *testing.T) {
	k := readable(t)
	var b log.Batches
	for range 3 {
		for p := entry.Partition(1); p <= 2; p++ {
			if _, err := k.Read(p, 0, 100, 1<<20, false, &b); err != nil {
				t.Fatal(err)
			}
		}
		if len(split(t, &b)) != 60 || b.Bytes != 30*100+30*90 {
			t.Fatalf("%d pieces, %d bytes", len(b.Pieces), b.Bytes)
		}
		if k.BuffersInUse() == 0 {
			t.Error("nothing was read from the disk")
		}
		b.Release()
		b.Release() // does nothing
		if len(b.Pieces) != 0 || b.Bytes != 0 {
			t.Errorf("after release: %d pieces, %d bytes", len(b.Pieces), b.Bytes)
		}
	}
	// What is held survives the log's end; reading does not.
	if _, err := k.Read(1, 55, 60, 1<<20, false, &b); err != nil {
		t.Fatal(err)
	}
	kept := string(b.Pieces[0])
	must(t, k.Close())
	if string(b.Pieces[0]) != kept {
		t.Error("a batch changed in its reader's hands")
	}
	b.Release()
	noneHeld(t, k.Log, "")
	for p := entry.Partition(1); p <= 2; p++ {
		if n, err := k.Read(p, 0, 60, 1000, true, &b); kerr.Of(err) != kerr.KafkaStorageError {
			t.Errorf("read after close: %d bytes, %v", n, err)
		}
		if f, err := k.FindTime(p, 0); kerr.Of(err) != kerr.KafkaStorageError {
			t.Errorf("look-up after close: %+v, %v", f, err)
		}
	}
	if _, err := k.Do(entry.TypeProduce, 1, records("x", 1)); kerr.Of(err) != kerr.KafkaStorageError {
		t.Errorf("produce after close: %v", err)
	}
	must(t, k.Close()) // a second time
}

// noneHeld fails unless all memory of a closed log came back, and no index file
// of the folder is mapped any more.
func noneHeld(t *testing.T, l *log.Log, dir string) {
	t.Helper()
	if n, held := l.BuffersInUse(), l.HeldBytes(); n != 0 || held != 0 {
		t.Errorf("%d buffers and %d bytes of the log were not released", n, held)
	}
	if dir == "" {
		return
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if errors.Is(err, os.ErrNotExist) {
		return // not Linux
	}
	must(t, err)
	for _, line := range strings.Split(string(maps), "\n") {
		if strings.Contains(line, dir) {
			t.Errorf("still mapped: %s", line)
		}
	}
}

// The offsets of a partition may be as large as they get.
func TestOffsetsOfAnySizeAreServed(t *testing.T) {
	for _, from := range []entry.Offset{1<<31 - 30, 1<<32 - 30, 1<<53 - 30, 1<<62 - 30, 1<<63 - 1000} {
		mem := pebblevfs.NewMem()
		k := openKept(t, vfs.New(mem), dataDir)
		create(t, k.Log, 1)
		must(t, k.Close())
		setBounds(t, mem, 1, from)
		k = openKept(t, vfs.New(mem), dataDir)
		for i := range 20 {
			if got := produce(t, k.Log, 1, records("x", 4)); got != from+4*entry.Offset(i) {
				t.Fatalf("batch %d is at %d, want %d", i, got, from+4*entry.Offset(i))
			}
			if i%7 == 6 {
				must(t, k.Roll())
			}
		}
		for range 2 {
			k.wantBounds(t, 1, from, from+80)
			if got := len(values(t, k.Log, 1)); got != 80 {
				t.Errorf("from %d: %d records", from, got)
			}
			if found, err := k.FindTime(1, 1003); err != nil || found.Offset != from+3 {
				t.Errorf("from %d: found %+v, %v", from, found, err)
			}
			must(t, k.Close())
			k = openKept(t, vfs.New(mem), dataDir)
		}
		if got, err := k.DeleteRecords(1, from+42); err != nil || got != from+42 {
			t.Errorf("from %d: start %d, %v", from, got, err)
		}
		must(t, k.Close())
		k = openKept(t, vfs.New(mem), dataDir)
		k.wantBounds(t, 1, from+42, from+80)
		if got := len(values(t, k.Log, 1)); got != 38 {
			t.Errorf("from %d: %d records", from, got)
		}
		must(t, k.Close())
	}
}

// setBounds makes a partition of a closed folder, which has no batches, begin
// and end at an offset.
func setBounds(t *testing.T, fs pebblevfs.FS, p entry.Partition, offset entry.Offset) {
	t.Helper()
	s, err := state.Open(state.Options{FS: vfs.New(fs), Dir: dataDir + "/state"})
	must(t, err)
	b := s.NewBatch()
	value := binary.LittleEndian.AppendUint64(nil, uint64(offset))
	b.Set(binary.BigEndian.AppendUint64([]byte{'q'}, uint64(p)), binary.LittleEndian.AppendUint64(value, uint64(offset)))
	must(t, b.Checkpoint(s.Applied()))
	b.Close()
	_, err = s.Flush()
	must(t, err)
	must(t, s.Close())
}

// Readers, writers, retention and the freeing of segments under their feet: no
// reader ever sees anything but what was written where it should be, or that its
// offset is out of range by now.
func TestReadersAreRightWhileSegmentsComeAndGo(t *testing.T) {
	for _, mode := range []commitlog.FlushMode{commitlog.FlushSync, commitlog.FlushAsync} {
		for _, tail := range []int64{1, 100 << 10} {
			t.Run(fmt.Sprintf("flush=%v/tail=%d", mode, tail), func(t *testing.T) {
				readersAndWriters(t, mode, tail)
			})
		}
	}
}

func readersAndWriters(t *testing.T, mode commitlog.FlushMode, tail int64) {
	dir := t.TempDir()
	k := openKept(t, vfs.Disk(), dir, func(o *log.Options) { o.Flush, o.TailBytes = mode, tail })
	const partitions, perPartition = 3, 200
	for p := entry.Partition(1); p <= partitions; p++ {
		create(t, k.Log, p)
		k.keep(p, consumequeue.Retention{Ms: -1, Bytes: 60 << 10})
	}
	stop := make(chan struct{})
	var readers, writers sync.WaitGroup
	var reads, moved atomic.Int64
	for p := entry.Partition(1); p <= partitions; p++ {
		writers.Add(1)
		go func() { // ends when it has written all
			defer writers.Done()
			for i := range perPartition {
				// Each record says where it must be.
				var b batch.Builder
				b.Add(&batch.Record{Timestamp: int64(i), Key: fmt.Appendf(nil, "%d/%d", p, i), Value: make([]byte, 1500)})
				payload, err := b.Build(nil, nil, batch.Options{})
				if err != nil {
					t.Error(err)
				}
				if _, err := k.Do(entry.TypeProduce, p, payload); err != nil {
					t.Error(err)
				}
			}
		}()
		for range 2 {
			readers.Add(1)
			go func() { // ends with stop
				defer readers.Done()
				var b log.Batches
				next := entry.Offset(0)
				for {
					select {
					case <-stop:
						return
					default:
					}
					start, end, _ := k.Bounds(p)
					if next >= end {
						next = start
					}
					_, err := k.Read(p, next, end, 20_000, true, &b)
					switch {
					case kerr.Of(err) == kerr.OffsetOutOfRange:
						if again, _, _ := k.Bounds(p); again <= next {
							t.Errorf("partition %d: %d is said to be out of range, but the start is %d", p, next, again)
						}
						moved.Add(1)
						next, _, _ = k.Bounds(p)
					case err != nil:
						t.Errorf("partition %d from %d: %v", p, next, err)
						return
					}
					for _, head := range split(t, &b) {
						it := k.Codecs().Records(head)
						for it.Next() {
							want := fmt.Sprintf("%d/%d", p, head.BaseOffset())
							if got := string(it.Record().Key); got != want || head.BaseOffset() != int64(next) {
								t.Errorf("at %d: read %s, want %s", next, got, want)
							}
						}
						it.Close()
						next++
					}
					b.Release()
					reads.Add(1)
					if _, err := k.FindTime(p, entry.Time(next)); err != nil {
						t.Errorf("partition %d: time %d: %v", p, next, err)
					}
					if _, err := k.MaxTime(p); err != nil {
						t.Errorf("partition %d: largest time: %v", p, err)
					}
					if _, err := k.Size(p); err != nil {
						t.Errorf("partition %d: size: %v", p, err)
					}
				}
			}()
		}
	}
	readers.Add(1)
	go func() { // ends with stop
		defer readers.Done()
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := k.Retain(0); err != nil {
				t.Error(err)
			}
		}
	}()
	writers.Wait()
	close(stop)
	readers.Wait()
	k.AwaitSealed()
	must(t, k.Retain(0))
	if n := len(k.freed); n < 3 {
		t.Errorf("%d segments were freed", n)
	}
	t.Logf("%d reads, %d of which the start overtook, %d segments freed", reads.Load(), moved.Load(), len(k.freed))
	must(t, k.Close())
	noneHeld(t, k.Log, dir)
}

// What lies before damage is served, the damage is told with its place, and what
// lies behind it can still be read.
func TestDamageIsReadUpTo(t *testing.T) {
	dir := t.TempDir()
	k := openKept(t, vfs.Disk(), dir)
	create(t, k.Log, 1)
	const batches, damaged = 20, 7
	for i := range batches {
		produce(t, k.Log, 1, sized(t, 2, 100+i))
	}
	must(t, k.Roll())
	produce(t, k.Log, 1, sized(t, 2, 100)) // so that the segment is not in memory
	k.AwaitSealed()
	name := filepath.Join(dir, "commitlog", "0000000001.log")
	content, err := os.ReadFile(name)
	must(t, err)
	at := strings.Index(string(content), string(sized(t, 2, 100+damaged)[20:]))
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt([]byte("?"), int64(at+70))
	must(t, err)
	must(t, f.Close())
	var b log.Batches
	defer b.Release()
	if _, err := k.Read(1, 0, 40, 1<<20, true, &b); err != nil || len(split(t, &b)) != damaged {
		t.Errorf("from the front: %d batches, %v", len(split(t, &b)), err)
	}
	b.Release()
	_, err = k.Read(1, 2*damaged, 40, 1<<20, true, &b)
	if kerr.Of(err) != kerr.KafkaStorageError || !strings.Contains(err.Error(), name) || len(b.Pieces) != 0 {
		t.Errorf("the damage: %d pieces, %v", len(b.Pieces), err)
	}
	if _, err := k.Read(1, 2*damaged+2, 40, 1<<20, true, &b); err != nil || len(split(t, &b)) != batches-damaged-1 {
		t.Errorf("behind it: %d batches, %v", len(split(t, &b)), err)
	}
	b.Release()
	must(t, k.Close())
	noneHeld(t, k.Log, dir)
}
