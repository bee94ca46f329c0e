package batch_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// admit does what a broker does with the bytes of a producer.
func admit(c *batch.Codecs, b []byte, r *batch.Rules) (batch.Summary, error) {
	h, err := batch.Single(b)
	if err != nil {
		return batch.Summary{}, err
	}
	return c.Validate(h, r)
}

func TestValidateSumsUpABatchOfEachCodec(t *testing.T) {
	c := newCodecs()
	for _, codec := range allCodecs {
		b := build(t, batch.Options{Codec: codec, Producer: &batch.Producer{ID: 7, Sequence: math.MaxInt32}}, three()...)
		before := bytes.Clone(b)
		sum, err := c.Validate(b, rules())
		if err != nil {
			t.Errorf("%s: %v", codec, err)
			continue
		}
		want := batch.Summary{Count: 3, MaxTimestamp: now - 5, MaxTimestampDelta: 1, Walked: true, RecordBytes: sum.RecordBytes}
		if sum != want || sum.RecordBytes == 0 {
			t.Errorf("%s: got %+v, want %+v", codec, sum, want)
		}
		if !bytes.Equal(b, before) {
			t.Errorf("%s: the batch was changed", codec)
		}
	}
}

// Each case breaks one rule of the header in a batch that is good otherwise.
func TestValidateRefusesHeaders(t *testing.T) {
	put16 := func(at int, v uint16) func([]byte) []byte {
		return func(b []byte) []byte { binary.BigEndian.PutUint16(b[at:], v); return sealed(b) }
	}
	put32 := func(at int, v uint32) func([]byte) []byte {
		return func(b []byte) []byte { binary.BigEndian.PutUint32(b[at:], v); return sealed(b) }
	}
	put64 := func(at int, v int64) func([]byte) []byte {
		return func(b []byte) []byte { binary.BigEndian.PutUint64(b[at:], uint64(v)); return sealed(b) }
	}
	raw := func(at int, v byte) func([]byte) []byte {
		return func(b []byte) []byte { b[at] = v; return b }
	}
	chain := func(fs ...func([]byte) []byte) func([]byte) []byte {
		return func(b []byte) []byte {
			for _, f := range fs {
				b = f(b)
			}
			return b
		}
	}
	for _, c := range []struct {
		name   string
		change func([]byte) []byte
		rules  func(*batch.Rules)
		code   kerr.Code
		text   string
	}{
		{"nothing", func([]byte) []byte { return nil }, nil, kerr.InvalidRecord, "0 bytes"},
		{"a few bytes", func(b []byte) []byte { return b[:16] }, nil, kerr.InvalidRecord, "16 bytes"},
		{"magic 0", raw(16, 0), nil, kerr.InvalidRecord, "format 0"},
		{"magic 1", raw(16, 1), nil, kerr.InvalidRecord, "format 1"},
		{"magic 3", raw(16, 3), nil, kerr.CorruptMessage, "format 3"},
		{"magic -1", raw(16, 0xff), nil, kerr.CorruptMessage, "format -1"},
		{"cut in the header", func(b []byte) []byte { return b[:40] }, nil, kerr.InvalidRecord, "the 40 bytes"},
		{"cut in the records", func(b []byte) []byte { return b[:len(b)-1] }, nil, kerr.InvalidRecord, "no whole batch"},
		{"length below the header", raw(11, 48), nil, kerr.CorruptMessage, "60 bytes long"},
		{"length below any batch's", raw(11, 13), nil, kerr.CorruptMessage, "25 bytes long"},
		{"negative length", raw(8, 0x80), nil, kerr.CorruptMessage, "less than any"},
		{"bytes behind", func(b []byte) []byte { return append(b, 1, 2, 3) }, nil, kerr.None, ""},
		{"a batch behind that is cut off", func(b []byte) []byte { return append(b, b[:len(b)-1]...) }, nil, kerr.None, ""},
		{"a batch behind that is cut off before its magic", func(b []byte) []byte { return append(b, b[:16]...) }, nil, kerr.None, ""},
		{"the beginning of no batch behind", func(b []byte) []byte { return append(b, make([]byte, 12)...) }, nil, kerr.CorruptMessage, "12 bytes"},
		{"two batches", func(b []byte) []byte { return append(b, b...) }, nil, kerr.InvalidRecord, "exactly one"},
		{"a message of an old format behind", func(b []byte) []byte {
			return append(b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 14, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
		}, nil, kerr.InvalidRecord, "exactly one"},
		{"zstd in version 6", nil, func(r *batch.Rules) { r.ProduceVersion = 6 }, kerr.None, ""},
		{"base offset 1", raw(7, 1), nil, kerr.InvalidRecord, "base offset is 1"},
		{"too large", nil, func(r *batch.Rules) { r.MaxBytes = 90 }, kerr.MessageTooLarge, "max.message.bytes is 90"},
		{"damaged checksum", raw(17, 0xff), nil, kerr.CorruptMessage, "CRC"},
		{"damaged record", func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, nil, kerr.CorruptMessage, "CRC"},
		{"codec 5", put16(21, 5), nil, kerr.UnsupportedCompressionType, "type 5"},
		{"codec 7", put16(21, 7), nil, kerr.UnsupportedCompressionType, "type 7"},
		{"no records", chain(put32(57, 0), put32(23, math.MaxUint32)), nil, kerr.InvalidRecord, "count is 0"},
		{"negative count", chain(put32(57, math.MaxUint32), put32(23, math.MaxUint32-1)), nil, kerr.InvalidRecord, "count is -1"},
		{"count above offsets", put32(57, 4), nil, kerr.InvalidRecord, "delta 2"},
		{"count below offsets", put32(57, 2), nil, kerr.InvalidRecord, "delta 2"},
		{"count that overflows", chain(put32(23, math.MaxInt32), put32(57, 1<<31)), nil, kerr.InvalidRecord, "count"},
		{"control", put16(21, uint16(batch.Control)), nil, kerr.InvalidRecord, "control"},
		{"delete horizon", put16(21, uint16(batch.DeleteHorizon)), nil, kerr.InvalidRecord, "horizon"},
		{"transactional without producer", put16(21, uint16(batch.Transactional)), nil, kerr.InvalidRecord, "producer id"},
		{"producer without sequence", chain(put64(43, 9), put16(51, 0)), nil, kerr.InvalidRecord, "sequence -1"},
		{"producer without epoch", chain(put64(43, 9), put32(53, 0)), nil, kerr.InvalidRecord, "epoch -1"},
		{"more records than counted", chain(put32(57, 2), put32(23, 1)), nil, kerr.InvalidRecord, "record 1 of the batch is followed"},
		{"fewer records than counted", chain(put32(57, 4), put32(23, 3)), nil, kerr.InvalidRecord, "record 3 of the batch is missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := build(t, batch.Options{}, three()...)
			if c.change != nil {
				b = c.change(b)
			}
			r := rules()
			if c.rules != nil {
				c.rules(r)
			}
			_, err := admit(newCodecs(), b, r)
			if kerr.Of(err) != c.code || !strings.Contains(kerr.Message(err), c.text) {
				t.Errorf("got %v, want %s with %q", err, c.code, c.text)
			}
		})
	}
}

func TestValidateTakesZstdFromVersion7On(t *testing.T) {
	b := build(t, batch.Options{Codec: batch.Zstd}, three()...)
	r := rules()
	for version, want := range map[int16]kerr.Code{3: kerr.UnsupportedCompressionType, 6: kerr.UnsupportedCompressionType, 7: kerr.None} {
		r.ProduceVersion = version
		if _, err := newCodecs().Validate(b, r); kerr.Of(err) != want {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

func TestValidateJudgesTheSizeAsReceived(t *testing.T) {
	b := build(t, batch.Options{Codec: batch.Gzip}, record(strings.Repeat("x", 100_000), now))
	r := rules()
	r.MaxBytes = len(b)
	if _, err := newCodecs().Validate(b, r); err != nil {
		t.Errorf("%d bytes: %v", len(b), err)
	}
	r.MaxBytes--
	if _, err := newCodecs().Validate(b, r); kerr.Of(err) != kerr.MessageTooLarge {
		t.Errorf("a byte more than allowed: %v", err)
	}
}

func TestRecordsOfCompressedBatchesAreHeldToALimit(t *testing.T) {
	b := func(codec batch.Codec) []byte {
		return build(t, batch.Options{Codec: codec}, record("a", now), record(strings.Repeat("x", 1000), now))
	}
	records, err := newCodecs().Decompress(nil, batch.Gzip, b(batch.Gzip)[batch.HeaderSize:])
	if err != nil {
		t.Fatal(err)
	}
	first, n := binary.Varint(records)
	second, _ := binary.Varint(records[n+int(first):])
	for _, codec := range allCodecs {
		r := rules()
		r.MaxRecordBytes = int(second)
		if _, err := newCodecs().Validate(b(codec), r); err != nil {
			t.Errorf("%s, as large as allowed: %v", codec, err)
		}
		r.MaxRecordBytes--
		_, err := newCodecs().Validate(b(codec), r)
		if refused := kerr.Of(err) == kerr.InvalidRecord && strings.Contains(kerr.Message(err), "record 1"); refused != (codec != batch.None) {
			t.Errorf("%s, larger: %v", codec, err)
		}
	}
}

// Each case is the bytes of a single record. All codecs must refuse it alike.
func TestValidateRefusesMalformedRecords(t *testing.T) {
	long := bytes.Repeat([]byte{0x80}, 4)
	for _, c := range []struct {
		name   string
		record []byte
		text   string
	}{
		{"empty", []byte{}, "is missing"},
		{"length 0", []byte{0}, "length"},
		{"negative length", []byte{1}, "length"},
		{"length past the end", []byte{14, 0, 0, 0, 1, 1, 0}, "length"},
		{"length cut short", []byte{0x80}, "length"},
		{"length of six bytes", append(append([]byte{0x8c, 0x80}, long[:3]...), 0, 0, 0, 0, 1, 1, 0), "length"},
		{"only attributes", []byte{2, 0}, "number"},
		{"timestamp cut short", []byte{4, 0, 0x80}, "number"},
		{"timestamp above 64 bits", append(append([]byte{30, 0}, bytes.Repeat([]byte{0xff}, 9)...), 2, 0, 1, 1, 0), "number"},
		{"offset above 32 bits", []byte{20, 0, 0, 0x80, 0x80, 0x80, 0x80, 0x20, 1, 1, 0}, "number"},
		{"offset of six bytes", []byte{22, 0, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 1, 1, 0}, "number"},
		{"key length -2", []byte{12, 0, 0, 0, 3, 1, 0}, "key"},
		{"key past the end", []byte{12, 0, 0, 0, 8, 1, 0}, "key"},
		{"no key", []byte{6, 0, 0, 0}, "key"},
		{"value length -2", []byte{12, 0, 0, 0, 1, 3, 0}, "value"},
		{"value past the end", []byte{12, 0, 0, 0, 1, 6, 0}, "value"},
		{"no value", []byte{8, 0, 0, 0, 1}, "value"},
		{"no header count", []byte{10, 0, 0, 0, 1, 1}, "number of headers"},
		{"negative header count", []byte{12, 0, 0, 0, 1, 1, 1}, "number of headers"},
		{"more headers than fit", []byte{16, 0, 0, 0, 1, 1, 4, 0, 0}, "number of headers"},
		{"null header name", []byte{16, 0, 0, 0, 1, 1, 2, 1, 0}, "header name"},
		{"header name past the end", []byte{16, 0, 0, 0, 1, 1, 2, 6, 'a'}, "header name"},
		{"header value past the end", []byte{18, 0, 0, 0, 1, 1, 2, 2, 'a', 4}, "header value"},
		{"header value length -2", []byte{18, 0, 0, 0, 1, 1, 2, 2, 'a', 3}, "header value"},
		{"bytes after no headers", []byte{14, 0, 0, 0, 1, 1, 0, 9}, "shorter"},
		{"bytes after the headers", []byte{18, 0, 0, 0, 1, 1, 2, 0, 1, 9}, "shorter"},
		{"offset 1", []byte{12, 0, 0, 2, 1, 1, 0}, "offset"},
		{"negative offset", []byte{12, 0, 0, 1, 1, 1, 0}, "offset"},
		{"a byte behind", []byte{12, 0, 0, 0, 1, 1, 0, 9}, "followed"},
	} {
		for _, codec := range allCodecs {
			c2 := newCodecs()
			records, err := c2.Compress(nil, codec, batch.DefaultLevel, c.record)
			if err != nil {
				t.Fatal(err)
			}
			kb := kmsg.RecordBatch{Magic: 2, Attributes: int16(codec), NumRecords: 1, ProducerID: -1, Records: records}
			b := sealed(kb.AppendTo(nil))
			_, err = c2.Validate(b, rules())
			if kerr.Of(err) != kerr.InvalidRecord || !strings.Contains(kerr.Message(err), c.text) {
				t.Errorf("%s, %s: got %v, want %q", c.name, codec, err, c.text)
			}
		}
	}
	good := kmsg.RecordBatch{Magic: 2, NumRecords: 1, ProducerID: -1, Records: []byte{12, 0, 0, 0, 1, 1, 0}}
	if _, err := newCodecs().Validate(sealed(good.AppendTo(nil)), rules()); err != nil {
		t.Errorf("the record that the cases vary: %v", err)
	}
}

func TestValidateRefusesOffsetsThatAreNotDense(t *testing.T) {
	for _, codec := range allCodecs {
		var b batch.Builder
		b.AddAt(0, record("a", now))
		b.AddAt(2, record("b", now))
		out, err := b.Build(nil, newCodecs(), batch.Options{Codec: codec})
		if err != nil {
			t.Fatal(err)
		}
		binary.BigEndian.PutUint32(out[57:], 3) // so that count and last delta agree
		_, err = newCodecs().Validate(sealed(out), rules())
		if kerr.Of(err) != kerr.InvalidRecord || !strings.Contains(kerr.Message(err), "record 1 of the batch has an offset") {
			t.Errorf("%s: %v", codec, err)
		}
	}
}

func TestValidateRefusesKeylessRecordsOfCompactedTopics(t *testing.T) {
	keyless := func(v string) *batch.Record { return &batch.Record{Value: []byte(v), Timestamp: now} }
	empty := &batch.Record{Key: []byte{}, Timestamp: now}
	for _, codec := range allCodecs {
		b := build(t, batch.Options{Codec: codec}, record("a", now), keyless("b"), empty, keyless("d"))
		r := rules()
		if _, err := newCodecs().Validate(b, r); err != nil {
			t.Errorf("%s, not compacted: %v", codec, err)
		}
		r.Compacted = true
		r.SkipRecords = true // the rule needs them all the same
		_, err := newCodecs().Validate(b, r)
		wantIndexes(t, err, kerr.InvalidRecord, 1, 3)
	}
}

func wantIndexes(t *testing.T, err error, code kerr.Code, indexes ...int32) {
	t.Helper()
	var refused *batch.RecordsError
	if kerr.Of(err) != code || !errors.As(err, &refused) {
		t.Fatalf("got %v, want %s of records", err, code)
	}
	if refused.Total != len(indexes) || len(refused.Records) != len(indexes) {
		t.Fatalf("got %+v, want records %v", refused, indexes)
	}
	for i, r := range refused.Records {
		if r.Index != indexes[i] || r.Message == "" {
			t.Errorf("got %+v, want record %d", r, indexes[i])
		}
	}
	if kerr.Message(err) == "" {
		t.Error("no summary")
	}
}

func TestRecordErrorsAreListedUpToALimit(t *testing.T) {
	b := many(t, batch.None, 5000, 10)
	r := rules()
	r.AfterMaxMs, r.Now = 0, 0
	_, err := newCodecs().Validate(b, r)
	var refused *batch.RecordsError
	if !errors.As(err, &refused) || refused.Total != 5000 || len(refused.Records) != 1000 {
		t.Fatalf("got %v", err)
	}
	if text := kerr.Message(err); !strings.Contains(text, "5000 records") {
		t.Errorf("summary %q", text)
	}
}

func TestSkippedRecordsAreNotRead(t *testing.T) {
	kb := kmsg.RecordBatch{Magic: 2, Attributes: int16(batch.Zstd), NumRecords: 3, LastOffsetDelta: 2,
		ProducerID: -1, MaxTimestamp: now, Records: []byte("no zstd")}
	b := sealed(kb.AppendTo(nil))
	r := rules()
	if _, err := newCodecs().Validate(b, r); kerr.Of(err) != kerr.InvalidRecord {
		t.Errorf("read: %v", err)
	}
	r.SkipRecords = true
	sum, err := newCodecs().Validate(b, r)
	if want := (batch.Summary{Count: 3, MaxTimestamp: now, MaxTimestampDelta: -1}); err != nil || sum != want {
		t.Errorf("skipped: %+v, %v", sum, err)
	}
	r.Now -= 2 * r.AfterMaxMs
	if _, err := newCodecs().Validate(b, r); kerr.Of(err) != kerr.InvalidTimestamp {
		t.Errorf("header from the future: %v", err)
	}
}

func TestValidateFindsHeadersByPrefix(t *testing.T) {
	for _, c := range []struct {
		name string
		want bool
	}{
		{"sluice-delay", true},
		{"sluice-", true},
		{"sluice", false},
		{"Sluice-delay", false},
		{"x-sluice-delay", false},
		{"", false},
	} {
		for _, codec := range allCodecs {
			r := record("sluice-delay", now) // in key and value it means nothing
			r.Headers = r.Headers.Append("a", nil).Append(c.name, []byte("sluice-"))
			b := build(t, batch.Options{Codec: codec}, three()[0], r, three()[2])
			ru := rules()
			if sum, err := newCodecs().Validate(b, ru); err != nil || sum.Prefixed {
				t.Errorf("%q, %s, not asked: %+v, %v", c.name, codec, sum, err)
			}
			ru.HeaderPrefix = "sluice-"
			if sum, err := newCodecs().Validate(b, ru); err != nil || sum.Prefixed != c.want {
				t.Errorf("%q, %s: %+v, %v", c.name, codec, sum, err)
			}
		}
	}
}
