package producer

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/log/entry"
)

var update = flag.Bool("update", false, "rewrite golden files")

// The example of FORMAT.md: what a machine writes, and that it can be read.
func TestFormatIsTheOneInTheExample(t *testing.T) {
	m, disk := New(), store{}
	for i, b := range []Batch{
		{ProducerID: 4000, ProducerEpoch: 2, BaseSequence: math.MaxInt32 - 1, LastOffsetDelta: 2},
		{ProducerID: 4000, ProducerEpoch: 2, BaseSequence: 1, LastOffsetDelta: 9},
	} {
		m.Appended(258, b, entry.Offset(100*(i+1)), 1_700_000_000_000+entry.Time(i), entry.Index(1000+i))
	}
	m.Appended(258, Batch{ProducerID: 4001}, -1, 1_700_000_000_007, 1007)
	// A transaction that was aborted, and one that is open.
	m.Appended(258, Batch{ProducerID: 4002, BaseSequence: 7, Transactional: true}, 300, 1_700_000_000_007, 1008)
	m.Ended(258, Marker{ProducerID: 4002, Abort: true}, 1_700_000_000_008, 1009)
	m.Appended(259, Batch{ProducerID: 4002, Transactional: true, FromZero: true}, 0, 1_700_000_000_009, 1010)
	limits := Limits{Expiration: time.Hour, Producers: 5000}
	payload, err := EncodeExpire(limits, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		m.Apply(&entry.Entry{Type: entry.TypeAllocateProducerID}, nil)
	}
	m.Apply(&entry.Entry{Type: entry.TypeExpireProducers, Time: 1_700_000_000_007, Payload: payload}, nil)
	m.Checkpoint(disk)

	golden := filepath.Join("testdata", "state-v2.hex")
	if *update {
		if err := os.WriteFile(golden, []byte(disk.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if disk.String() != string(want) {
		t.Errorf("written:\n%vin the file:\n%s", disk, want)
	}
	text, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	if indented := "    " + strings.ReplaceAll(strings.TrimSpace(string(want)), "\n", "\n    ") + "\n"; !strings.Contains(string(text), indented) {
		t.Errorf("FORMAT.md does not show:\n%s", indented)
	}

	reloaded := New()
	if err := reloaded.Load(disk); err != nil {
		t.Fatal(err)
	}
	if reloaded.Limits() != limits || reloaded.nextID != 3 || reloaded.Len() != 4 {
		t.Errorf("read: limits %+v, next id %d, %d producers", reloaded.Limits(), reloaded.nextID, reloaded.Len())
	}
	again := store{}
	for s := range reloaded.table.used {
		reloaded.unsaved = append(reloaded.unsaved, s+1)
		reloaded.table.at(s + 1).unsaved = true
	}
	reloaded.meta = true
	reloaded.Checkpoint(again)
	if again.String() != disk.String() {
		t.Errorf("written again:\n%v", again)
	}
}

// What version 1 wrote is read as what it was: producers without transactions.
func TestStateOfVersion1IsRead(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "state-v1.hex"))
	if err != nil {
		t.Fatal(err)
	}
	disk := store{}
	for line := range strings.Lines(string(text)) {
		var k, v []byte
		if _, err := fmt.Sscanf(line, "%x = %x", &k, &v); err != nil {
			t.Fatal(err)
		}
		disk.Set(k, v)
	}
	m := New()
	if err := m.Load(disk); err != nil {
		t.Fatal(err)
	}
	want := []Producer{
		{ID: 4000, Epoch: 2, LastSequence: 10, LastTime: 1_700_000_000_001},
		{ID: 4001, LastTime: 1_700_000_000_007},
	}
	if got := m.Producers(258, nil); !slices.Equal(got, want) {
		t.Errorf("got %+v", got)
	}
	if v := m.Judge(258, Batch{ProducerID: 4000, ProducerEpoch: 2, BaseSequence: 1, LastOffsetDelta: 9}, 1_700_000_000_002); !v.Duplicate || v.Offset != 200 {
		t.Errorf("a retry is %+v", v)
	}
}

func TestPartitionRangeHoldsItsKeysOnly(t *testing.T) {
	for _, p := range []entry.Partition{1, 255, 256, math.MaxUint64 - 1, math.MaxUint64} {
		from, to := partitionRange(p)
		for _, c := range []struct {
			k    key
			want bool
		}{
			{key{p, 0}, true}, {key{p, math.MaxInt64}, true}, {key{p - 1, math.MaxInt64}, false}, {key{p + 1, 0}, false},
		} {
			b := appendProducerKey(nil, c.k)
			if in := bytes.Compare(from, b) <= 0 && bytes.Compare(b, to) < 0; in != c.want {
				t.Errorf("range of %d holds %+v: %v", p, c.k, in)
			}
		}
	}
}

// FuzzDecodeValue: a value that is accepted is written back as the same bytes,
// and can be judged against.
func FuzzDecodeValue(f *testing.F) {
	st := state{lastEntry: 5, epoch: 1}
	for i := range int32(batchesKept + 1) {
		f.Add(st.appendValue(nil))
		st.push(Batch{ProducerEpoch: 1, BaseSequence: math.MaxInt32 - 3 + i, LastOffsetDelta: i}, entry.Offset(i)-1, entry.Time(i), 5)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var st state
		if st.decodeValue(b) != nil {
			return
		}
		again := st.appendValue(nil)
		if b[0] == 1 {
			var upgraded state
			if err := upgraded.decodeValue(again); err != nil || upgraded != st {
				t.Errorf("%x is written back as %x, which is %+v (%v)", b, again, upgraded, err)
			}
		} else if !bytes.Equal(b, again) {
			t.Errorf("%x is written back as %x", b, again)
		}
		if st.count == 0 {
			return
		}
		newest := Batch{ProducerEpoch: st.epoch, BaseSequence: addSequence(st.lastSequence, -st.deltas[0]), LastOffsetDelta: st.deltas[0]}
		if i, ok := st.duplicate(newest); !ok || i != 0 {
			t.Errorf("%x: the newest batch is not found", b)
		}
	})
}

// FuzzDecodeExpire: a payload that is accepted is what EncodeExpire makes of it.
func FuzzDecodeExpire(f *testing.F) {
	good, err := EncodeExpire(DefaultLimits, 1000)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:10])
	f.Fuzz(func(t *testing.T, b []byte) {
		limits, most, err := decodeExpire(b)
		if err != nil {
			return
		}
		again, err := EncodeExpire(limits, most)
		if err != nil || !bytes.Equal(b, again) {
			t.Errorf("%x is %+v, %d, which is %x (%v)", b, limits, most, again, err)
		}
	})
}
