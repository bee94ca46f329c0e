package batch_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/protocol/batch"
)

func TestBuiltBatchIsWhatKmsgReads(t *testing.T) {
	r := record("v", now+3)
	r.Headers = r.Headers.Append("h", []byte("x")).Append("n", nil)
	b := build(t, batch.Options{
		BaseOffset: 12, LeaderEpoch: 4, Attributes: batch.Transactional,
		Producer: &batch.Producer{ID: 9, Epoch: 2, Sequence: 33},
	}, record("u", now+1), r, &batch.Record{Timestamp: now})

	var got kmsg.RecordBatch
	if err := got.ReadFrom(b); err != nil {
		t.Fatal(err)
	}
	records := got.Records
	got.Records, got.CRC = nil, 0
	want := kmsg.RecordBatch{
		FirstOffset: 12, Length: int32(len(b) - 12), PartitionLeaderEpoch: 4, Magic: 2, Attributes: 0x10,
		LastOffsetDelta: 2, FirstTimestamp: now + 1, MaxTimestamp: now + 3,
		ProducerID: 9, ProducerEpoch: 2, FirstSequence: 33, NumRecords: 3,
	}
	if got.FirstOffset != want.FirstOffset || got.Length != want.Length || !bytes.Equal(got.AppendTo(nil), want.AppendTo(nil)) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	parsed := parseWithKmsg(t, records, 3)
	if s := parsed[1]; string(s.Key) != "k-v" || string(s.Value) != "v" || s.OffsetDelta != 1 || s.TimestampDelta64 != 2 ||
		len(s.Headers) != 2 || s.Headers[0].Key != "h" || string(s.Headers[0].Value) != "x" || s.Headers[1].Value != nil {
		t.Errorf("second record: %+v", s)
	}
	if s := parsed[2]; s.Key != nil || s.Value != nil || s.TimestampDelta64 != -1 || len(s.Headers) != 0 {
		t.Errorf("third record: %+v", s)
	}
}

// parseWithKmsg reads n uncompressed records.
func parseWithKmsg(t testing.TB, b []byte, n int) []kmsg.Record {
	t.Helper()
	var out []kmsg.Record
	for range n {
		r, size, err := kmsgRecord(b)
		if err != nil {
			t.Fatalf("record %d: %v", len(out), err)
		}
		out = append(out, r)
		b = b[size:]
	}
	if len(b) > 0 {
		t.Fatalf("%d bytes are left after %d records", len(b), n)
	}
	return out
}

// kmsgRecord reads the record at the front of b, and its size.
func kmsgRecord(b []byte) (r kmsg.Record, size int, err error) {
	length, at := uvarint(b)
	size = at + length
	if at <= 0 || size > len(b) {
		return r, 0, fmt.Errorf("length %d, %d bytes left", length, len(b))
	}
	return r, size, r.ReadFrom(b[:size])
}

// uvarint reads a zigzag number that is not negative.
func uvarint(b []byte) (v, size int) {
	for i, c := range b {
		v |= int(c&0x7f) << (7 * i)
		if c < 0x80 {
			return v >> 1, i + 1
		}
	}
	return 0, 0
}

func TestBuilderStartsOverAfterReset(t *testing.T) {
	var b batch.Builder
	c := newCodecs()
	b.Add(record("left over", 1))
	b.AddAt(0, record("does not follow", 1))
	if _, err := b.Build(nil, c, batch.Options{}); err == nil || !strings.Contains(err.Error(), "offset delta 0 after 0") {
		t.Errorf("got %v", err)
	}
	b.Reset()
	if b.Len() != 0 || b.Size() != batch.HeaderSize {
		t.Errorf("%d records, %d bytes", b.Len(), b.Size())
	}
	for _, r := range three() {
		b.Add(r)
	}
	out, err := b.Build([]byte("front"), c, batch.Options{})
	if err != nil || string(out[:5]) != "front" || !bytes.Equal(out[5:], build(t, batch.Options{}, three()...)) {
		t.Errorf("got %q, %v", out, err)
	}
	if b.Len() != 3 || b.Size() != len(out)-5 {
		t.Errorf("%d records, %d bytes of %d", b.Len(), b.Size(), len(out)-5)
	}
	if _, err := b.Build(nil, c, batch.Options{Codec: 6}); err == nil {
		t.Error("built with codec 6")
	}
}

func TestMarkerHasTheBytesThatClientsParse(t *testing.T) {
	for _, commit := range []bool{false, true} {
		want := batch.Marker{Commit: commit, ProducerID: 1 << 33, ProducerEpoch: 4, CoordinatorEpoch: 0x01020304, Timestamp: now}
		b := batch.AppendMarker(nil, want)
		h := batch.Header(b)
		if !h.ChecksumFits() || h.Attributes() != batch.Control|batch.Transactional || h.BaseSequence() != -1 || h.Count() != 1 {
			t.Errorf("attributes %b, sequence %d, count %d", h.Attributes(), h.BaseSequence(), h.Count())
		}
		r := parseWithKmsg(t, b[batch.HeaderSize:], 1)[0]
		kind := byte(0)
		if commit {
			kind = 1
		}
		if !bytes.Equal(r.Key, []byte{0, 0, 0, kind}) || !bytes.Equal(r.Value, []byte{0, 0, 1, 2, 3, 4}) {
			t.Errorf("key %x, value %x", r.Key, r.Value)
		}
		var key kmsg.ControlRecordKey
		if err := key.ReadFrom(r.Key); err != nil || int8(key.Type) != int8(kind) {
			t.Errorf("kmsg reads type %v, %v", key.Type, err)
		}
		if got, err := batch.ParseMarker(h); err != nil || got != want {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}

func TestParseMarkerRefusesOtherBatches(t *testing.T) {
	control := batch.Options{Attributes: batch.Control | batch.Transactional, Producer: &batch.Producer{ID: 1, Sequence: -1}}
	compressed := control
	compressed.Codec = batch.Gzip
	rec := func(key, value string) *batch.Record { return &batch.Record{Key: []byte(key), Value: []byte(value)} }
	good := rec("\x00\x00\x00\x01", "\x00\x00\x00\x00\x00\x07")
	for name, b := range map[string][]byte{
		"data":        build(t, batch.Options{}, good),
		"compressed":  build(t, compressed, good),
		"no record":   build(t, control),
		"two records": build(t, control, good, good),
		"short key":   build(t, control, rec("\x00\x00\x00", string(good.Value))),
		"short value": build(t, control, rec(string(good.Key), "\x00\x00")),
		"other type":  build(t, control, rec("\x00\x00\x00\x02", string(good.Value))),
		"broken":      func() []byte { b := build(t, control, good); b[61] = 0x7e; return b }(),
	} {
		if m, err := batch.ParseMarker(b); err == nil {
			t.Errorf("%s: %+v", name, m)
		}
	}
	if m, err := batch.ParseMarker(build(t, control, rec("\x00\x05\x00\x01more", "\x00\x05\x00\x00\x00\x07more"))); err != nil || m.CoordinatorEpoch != 7 {
		t.Errorf("later version: %+v, %v", m, err)
	}
}
