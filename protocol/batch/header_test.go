package batch_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/protocol/kerr"
)

func TestHeaderReadsEachFieldWhereKmsgWritesIt(t *testing.T) {
	want := kmsg.RecordBatch{
		FirstOffset:          0x0102030405060708,
		Length:               49 + 5,
		PartitionLeaderEpoch: 0x11121314,
		Magic:                2,
		CRC:                  0x21222324,
		Attributes:           int16(batch.Zstd) | int16(batch.LogAppendTime|batch.Transactional),
		LastOffsetDelta:      0x31323334,
		FirstTimestamp:       0x4142434445464748,
		MaxTimestamp:         0x5152535455565758,
		ProducerID:           0x6162636465666768,
		ProducerEpoch:        0x7172,
		FirstSequence:        0x01828384,
		NumRecords:           0x11929394,
		Records:              []byte("12345"),
	}
	b := want.AppendTo(nil)
	h := batch.Header(b)
	for _, c := range []struct {
		field     string
		got, want int64
	}{
		{"base offset", h.BaseOffset(), want.FirstOffset},
		{"size", int64(h.Size()), int64(len(b))},
		{"leader epoch", int64(h.LeaderEpoch()), int64(want.PartitionLeaderEpoch)},
		{"magic", int64(h.Magic()), int64(want.Magic)},
		{"CRC", int64(h.CRC()), int64(want.CRC)},
		{"attributes", int64(h.Attributes()), int64(want.Attributes)},
		{"codec", int64(h.Codec()), int64(batch.Zstd)},
		{"last offset delta", int64(h.LastOffsetDelta()), int64(want.LastOffsetDelta)},
		{"last offset", h.LastOffset(), want.FirstOffset + int64(want.LastOffsetDelta)},
		{"base timestamp", h.BaseTimestamp(), want.FirstTimestamp},
		{"max timestamp", h.MaxTimestamp(), want.MaxTimestamp},
		{"producer id", h.ProducerID(), want.ProducerID},
		{"producer epoch", int64(h.ProducerEpoch()), int64(want.ProducerEpoch)},
		{"base sequence", int64(h.BaseSequence()), int64(want.FirstSequence)},
		{"count", int64(h.Count()), int64(want.NumRecords)},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %x, want %x", c.field, c.got, c.want)
		}
	}
	if a := h.Attributes(); !a.Has(batch.LogAppendTime|batch.Transactional) || a.Has(batch.Control) || a.Has(batch.DeleteHorizon) {
		t.Errorf("attributes %b", a)
	}
}

func TestLastSequenceContinuesWithZero(t *testing.T) {
	for _, c := range []struct{ base, last, want int32 }{
		{0, 0, 0},
		{5, 2, 7},
		{math.MaxInt32, 0, math.MaxInt32},
		{math.MaxInt32, 1, 0},
		{math.MaxInt32 - 1, 4, 2},
	} {
		b := kmsg.RecordBatch{FirstSequence: c.base, LastOffsetDelta: c.last}
		if got := batch.Header(b.AppendTo(nil)).LastSequence(); got != c.want {
			t.Errorf("%d and %d more: got %d, want %d", c.base, c.last, got, c.want)
		}
	}
}

func TestOffsetAndEpochAreOutsideTheChecksum(t *testing.T) {
	b := build(t, batch.Options{}, three()...)
	before := bytes.Clone(b)
	h := batch.Header(b)
	h.SetBaseOffset(1 << 40)
	h.SetLeaderEpoch(7)
	if h.BaseOffset() != 1<<40 || h.LeaderEpoch() != 7 || h.LastOffset() != 1<<40+2 {
		t.Errorf("offset %d, epoch %d, last %d", h.BaseOffset(), h.LeaderEpoch(), h.LastOffset())
	}
	if !h.ChecksumFits() {
		t.Error("the checksum does not fit any more")
	}
	if !bytes.Equal(b[16:], before[16:]) || h.Size() != len(b) {
		t.Error("other bytes changed")
	}
}

func TestStampChangesOnlyTypeTimestampAndChecksum(t *testing.T) {
	b := build(t, batch.Options{Codec: batch.LZ4, Attributes: batch.Transactional, Producer: &batch.Producer{ID: 1}}, three()...)
	before := bytes.Clone(b)
	h := batch.Header(b)
	if h.Stamp(false, now-5) {
		t.Error("a stamp that says the same changed something")
	}
	if !h.Stamp(true, now) || !h.ChecksumFits() {
		t.Error("not stamped, or the checksum was left")
	}
	if h.MaxTimestamp() != now || h.Attributes() != batch.Transactional|batch.LogAppendTime|batch.Attributes(batch.LZ4) {
		t.Errorf("max timestamp %d, attributes %b", h.MaxTimestamp(), h.Attributes())
	}
	for _, r := range readAll(t, newCodecs(), b) {
		if r.Timestamp != now {
			t.Errorf("record %d is read with timestamp %d", r.Delta, r.Timestamp)
		}
	}
	if !h.Stamp(false, now-5) || !bytes.Equal(b, before) {
		t.Error("the way back does not restore the bytes")
	}
}

func TestSplitWalksBatchesInARow(t *testing.T) {
	one, two := build(t, batch.Options{}, three()...), build(t, batch.Options{Codec: batch.Zstd}, three()[0])
	b := append(bytes.Clone(one), two...)
	first, rest, err := batch.Split(b)
	if err != nil || !bytes.Equal(first, one) {
		t.Fatalf("first: %v", err)
	}
	second, rest, err := batch.Split(rest)
	if err != nil || !bytes.Equal(second, two) || len(rest) != 0 {
		t.Fatalf("second: %v, %d bytes left", err, len(rest))
	}
	if last, _, err := batch.Split(rest); last != nil || err != nil {
		t.Errorf("at the end: %v, %v", last, err)
	}
}

func TestSplitRefusesWhatIsNoBatch(t *testing.T) {
	whole := build(t, batch.Options{}, three()...)
	for n := 1; n < len(whole); n++ {
		if _, rest, err := batch.Split(whole[:n]); kerr.Of(err) != kerr.CorruptMessage || len(rest) != n {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	for name, length := range map[string]uint32{"too short": 48, "negative": 1 << 31, "largest": math.MaxInt32} {
		b := bytes.Clone(whole)
		b[8], b[9], b[10], b[11] = byte(length>>24), byte(length>>16), byte(length>>8), byte(length)
		if _, _, err := batch.Split(b); kerr.Of(err) != kerr.CorruptMessage {
			t.Errorf("length %s: %v", name, err)
		}
	}
}
