package e2e

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/tests/e2e/node"
	"github.com/sluicemq/sluice/tests/e2e/raw"
)

// Error codes that these tests expect.
const (
	corruptMessage         = 2
	unknownTopic           = 3
	messageTooLarge        = 10
	invalidTopic           = 17
	recordListTooLarge     = 18
	invalidRequiredAcks    = 21
	invalidTimestamp       = 32
	outOfOrderSequence     = 45
	invalidProducerEpoch   = 47
	storageError           = 56
	unsupportedCompression = 76
	invalidRecord          = 87
	unknownTopicID         = 100
)

// B22
func TestProduceAnswersWithTheOffsetOfTheFirstRecord(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	tp := makeTopic(t, c, "first", 1)
	now := time.Now().UnixMilli()
	want := int64(0)
	for _, codec := range []kgo.CompressionCodecType{kgo.CodecNone, kgo.CodecGzip, kgo.CodecSnappy, kgo.CodecLz4, kgo.CodecZstd} {
		for _, values := range [][]string{{"a", "b", "c"}, {"d", "e"}} {
			b := raw.Values(now, values...)
			b.Codec = codec
			if got := write(t, c, tp, 0, b); got != want {
				t.Errorf("codec %v: %d records got base offset %d, want %d", codec, len(values), got, want)
			}
			want += int64(len(values))
		}
	}

	cl := newFranz(t, n, kgo.DefaultProduceTopic("first-kgo"), kgo.AllowAutoTopicCreation(), kgo.ProducerLinger(100*time.Millisecond))
	expectOffsets(t, cl, 0, 3)
	expectOffsets(t, cl, 3, 2)
}

// expectOffsets sends records in one batch and looks at the offsets that the
// client reports.
func expectOffsets(t *testing.T, cl *kgo.Client, first int64, count int) {
	t.Helper()
	var records []*kgo.Record
	for i := range count {
		records = append(records, kgo.StringRecord(strconv.Itoa(i)))
	}
	for i, r := range cl.ProduceSync(deadline(t), records...) {
		if r.Err != nil || r.Record.Offset != first+int64(i) {
			t.Errorf("record %d of %d was reported at offset %d, want %d (%v)", i, count, r.Record.Offset, first+int64(i), r.Err)
		}
	}
}

// B23
func TestRecordsOfAPartitionKeepTheOrderInWhichTheyWereSent(t *testing.T) {
	t.Parallel()
	// Garbage collection all the time shakes the order of goroutines.
	n := node.Start(t, node.Options{Env: []string{"GOGC=10"}})
	const count = 200_000
	for name, options := range map[string][]kgo.Opt{
		"idempotent": nil,
		"plain":      {kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(5)},
	} {
		t.Run(name, func(t *testing.T) {
			makeTopic(t, raw.Dial(t, n.Addr()), name, 1)
			cl := newFranz(t, n, append(options, kgo.DefaultProduceTopic(name), kgo.ConsumeTopics(name), kgo.MaxBufferedRecords(100),
				kgo.ProducerBatchMaxBytes(1024), kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()))...)
			padding := strings.Repeat("x", 150) // so that a batch holds few
			for i := range count {
				cl.Produce(context.Background(), kgo.StringRecord(fmt.Sprint(i, " ", padding)), func(r *kgo.Record, err error) {
					if err != nil {
						t.Errorf("record %d: %v", i, err)
					} else if r.Offset != int64(i) {
						t.Errorf("record %d has offset %d", i, r.Offset)
					}
				})
				if t.Failed() {
					break
				}
			}
			if err := cl.Flush(deadline(t)); err != nil || t.Failed() {
				t.Fatal(err)
			}
			for i, r := range poll(t, cl, count) {
				if number, _, _ := strings.Cut(string(r.Value), " "); number != strconv.Itoa(i) || r.Offset != int64(i) {
					t.Fatalf("consumed record %s at offset %d, want %d", number, r.Offset, i)
				}
			}
		})
	}
}

// B25
func TestEachPartitionOfAProduceGetsAnAnswerOfItsOwn(t *testing.T) {
	t.Parallel()
	c := raw.Dial(t, node.Start(t, node.Options{}).Addr())
	batch := raw.Values(time.Now().UnixMilli(), "x").Bytes()
	wide := makeTopic(t, c, "wide", 64)

	var all []into
	for p := range int32(64) {
		all = append(all, into{wide, p, batch})
	}
	for i, a := range produce(c, produceVersion, all...) {
		if a.Partition != int32(i) || a.ErrorCode != 0 || a.BaseOffset != 0 {
			t.Errorf("1 topic x 64 partitions: answer %d is %+v", i, a)
		}
	}

	all = nil
	for i := range 8 {
		tp := makeTopic(t, c, fmt.Sprint("narrow-", i), 8)
		for p := range int32(8) {
			all = append(all, into{tp, p, batch})
		}
	}
	for i, a := range produce(c, produceVersion, all...) {
		if a.Partition != int32(i%8) || a.ErrorCode != 0 || a.BaseOffset != 0 {
			t.Errorf("8 topics x 8 partitions: answer %d is %+v", i, a)
		}
	}

	// Named twice, a partition gets one of the batches, and one answer.
	twice := produce(c, produceVersion, into{wide, 5, batch}, into{wide, 5, batch})
	if end := listOffset(t, c, wide, 5, latest).Offset; len(twice) != 1 || twice[0].ErrorCode != 0 || twice[0].BaseOffset != 1 || end != 2 {
		t.Errorf("the same partition twice: %+v; it ends at %d", twice, end)
	}

	if none := produce(c, produceVersion); len(none) != 0 {
		t.Errorf("no partitions: %+v", none)
	}

	missing := topic{name: "missing"}
	bad := append([]byte(nil), batch...)
	bad[len(bad)-1]++
	want := map[string]int16{"wide 1": 0, "wide 64": unknownTopic, "wide -1": unknownTopic, "wide 2": corruptMessage, "wide 3": 0, "missing 0": unknownTopic}
	request := produceRequest(-1, into{wide, 1, batch}, into{missing, 0, batch}, into{wide, 64, batch}, into{wide, -1, batch}, into{wide, 2, bad}, into{wide, 3, batch})
	got := map[string]int16{}
	for _, topic := range raw.Ask[*kmsg.ProduceResponse](c, produceVersion, request).Topics {
		for _, a := range topic.Partitions {
			got[fmt.Sprint(topic.Topic, " ", a.Partition)] = a.ErrorCode
			if a.ErrorCode != 0 && a.BaseOffset != -1 {
				t.Errorf("mixed: %s has base offset %d", topic.Topic, a.BaseOffset)
			}
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("mixed: errors %v, want %v", got, want)
	}
	byID := produce(c, 13, into{topic{id: wide.id}, 1, batch}, into{topic{id: [16]byte{1}}, 0, batch})
	if byID[0].ErrorCode != 0 || byID[1].ErrorCode != unknownTopicID {
		t.Errorf("by id: %+v", byID)
	}
}

// B28
func TestTheLimitOfATopicHoldsForBatchesAsTheyWereSent(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{Set: []string{"commitlog.segment.bytes=268435456"}})
	c := raw.Dial(t, n.Addr())
	tp := makeTopic(t, c, "limit", 1, "max.message.bytes", "51200")
	one := func(size int, codec kgo.CompressionCodecType) int16 {
		t.Helper()
		b := raw.Values(time.Now().UnixMilli(), strings.Repeat("0123456789abcdef", size/16))
		b.Codec = codec
		return produce(c, produceVersion, into{tp, 0, b.Bytes()})[0].ErrorCode
	}
	for _, test := range []struct {
		size  int
		codec kgo.CompressionCodecType
		want  int16
	}{
		{10 << 20, kgo.CodecNone, messageTooLarge},
		{60 << 10, kgo.CodecNone, messageTooLarge},
		{40 << 10, kgo.CodecNone, 0},
		{10 << 20, kgo.CodecZstd, 0}, // compressed it is small
	} {
		if got := one(test.size, test.codec); got != test.want {
			t.Errorf("%d bytes, codec %v: error %d, want %d", test.size, test.codec, got, test.want)
		}
	}
	if r, err := c.Try(setConfig("limit", "max.message.bytes", "20000000")); err != nil || codeOf(r) != 0 {
		t.Fatal(r, err)
	}
	if got := one(10<<20, kgo.CodecNone); got != 0 {
		t.Errorf("10 MiB after the limit was raised: error %d", got)
	}
	cl := newFranz(t, n, kgo.DefaultProduceTopic("limit"), kgo.ProducerBatchMaxBytes(30<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err := cl.ProduceSync(deadline(t), kgo.SliceRecord(make([]byte, 15<<20))).FirstErr(); err != nil {
		t.Errorf("franz-go, 15 MiB: %v", err)
	}
	if err := cl.ProduceSync(deadline(t), kgo.SliceRecord(make([]byte, 21<<20))).FirstErr(); err == nil || !strings.Contains(err.Error(), "MESSAGE_TOO_LARGE") {
		t.Errorf("franz-go, 21 MiB: %v, want MESSAGE_TOO_LARGE", err)
	}
}

// B29
func TestACompactedTopicRefusesRecordsWithoutKeyAndNamesThem(t *testing.T) {
	t.Parallel()
	c := raw.Dial(t, node.Start(t, node.Options{}).Addr())
	tp := makeTopic(t, c, "compacted", 1, "cleanup.policy", "compact")
	now := time.Now().UnixMilli()
	b := raw.Batch{Records: []raw.Record{{Key: []byte("k1"), Time: now}, {Value: []byte("x"), Time: now}, {Key: []byte("k2"), Time: now}}}
	for _, codec := range []kgo.CompressionCodecType{kgo.CodecNone, kgo.CodecLz4} {
		b.Codec = codec
		a := produce(c, produceVersion, into{tp, 0, b.Bytes()})[0]
		if a.ErrorCode != invalidRecord || len(a.ErrorRecords) != 1 || a.ErrorRecords[0].RelativeOffset != 1 || a.BaseOffset != -1 {
			t.Errorf("codec %v: %+v, want INVALID_RECORD for record 1", codec, a)
		}
	}
	if a := produce(c, 7, into{tp, 0, b.Bytes()})[0]; a.ErrorCode != invalidRecord {
		t.Errorf("version 7: %+v", a)
	}
	if end := listOffset(t, c, tp, 0, -1).Offset; end != 0 {
		t.Errorf("%d records were stored", end)
	}
	b.Records[1].Key = []byte{} // an empty key is a key
	if got := write(t, c, tp, 0, b); got != 0 {
		t.Errorf("base offset %d", got)
	}
}

func TestABatchThatBreaksARuleIsRefusedAndNotStored(t *testing.T) {
	t.Parallel()
	c := raw.Dial(t, node.Start(t, node.Options{}).Addr())
	now := time.Now().UnixMilli()
	tp := makeTopic(t, c, "rules", 1, "message.timestamp.before.max.ms", "3600000")
	good := raw.Values(now, "x", "y")
	with := func(change func(*kmsg.RecordBatch)) []byte {
		b := good
		b.Change = change
		return b.Bytes()
	}
	flip := func(at int) []byte {
		b := good.Bytes()
		b[at] ^= 1
		return b
	}
	magic := func(to byte) []byte {
		b := good.Bytes()
		b[16] = to
		return b
	}
	zstd := good
	zstd.Codec = kgo.CodecZstd
	tests := []struct {
		name    string
		version int16
		records []byte
		want    int16
	}{
		{"nothing", 12, []byte{}, invalidRecord},
		{"two batches", 12, append(good.Bytes(), good.Bytes()...), invalidRecord},
		{"magic 0", 12, magic(0), invalidRecord},
		{"magic 1", 12, magic(1), invalidRecord},
		{"a magic that there is not", 12, magic(3), corruptMessage},
		{"a checksum that does not fit", 12, flip(18), corruptMessage},
		{"a record that was changed", 12, flip(len(good.Bytes()) - 1), corruptMessage},
		{"a base offset", 12, with(func(b *kmsg.RecordBatch) { b.FirstOffset = 5 }), invalidRecord},
		{"more records than it says", 12, with(func(b *kmsg.RecordBatch) { b.NumRecords = 1 }), invalidRecord},
		{"a wrong last offset delta", 12, with(func(b *kmsg.RecordBatch) { b.LastOffsetDelta = 7 }), invalidRecord},
		{"a control batch", 12, with(func(b *kmsg.RecordBatch) { b.Attributes |= 1 << 5 }), invalidRecord},
		{"an unknown codec", 12, with(func(b *kmsg.RecordBatch) { b.Attributes |= 7 }), unsupportedCompression},
		{"zstd in an old version", 6, zstd.Bytes(), unsupportedCompression},
		{"a timestamp of tomorrow", 12, raw.Values(now+86_400_000, "x").Bytes(), invalidTimestamp},
		{"a timestamp of yesterday", 12, raw.Values(now-86_400_000, "x").Bytes(), invalidTimestamp},
		{"a producer without sequence", 12, with(func(b *kmsg.RecordBatch) { b.ProducerID, b.ProducerEpoch = 1, 0 }), invalidRecord},
	}
	for _, test := range tests {
		a := produce(c, test.version, into{tp, 0, test.records})[0]
		if a.ErrorCode != test.want || a.BaseOffset != -1 {
			t.Errorf("%s: error %d, base offset %d, want error %d", test.name, a.ErrorCode, a.BaseOffset, test.want)
		}
	}
	if end := listOffset(t, c, tp, 0, -1).Offset; end != 0 {
		t.Errorf("%d records were stored", end)
	}
	cut := good.Bytes()
	a := produce(c, 12, into{tp, 0, cut[:len(cut)-3]})[0]
	if a.ErrorCode != invalidRecord && a.ErrorCode != corruptMessage {
		t.Errorf("a batch that is cut off: error %d", a.ErrorCode)
	}
}

func TestAcksDecideWhetherAndWhatIsAnswered(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	tp := makeTopic(t, c, "acks", 1)
	batch := raw.Values(time.Now().UnixMilli(), "x").Bytes()
	send := func(c *raw.Conn, acks int16, to topic) {
		t.Helper()
		request := produceRequest(acks, into{to, 0, batch})
		request.SetVersion(produceVersion)
		if _, err := c.Send(request); err != nil {
			t.Fatal(err)
		}
	}
	// Not a byte is sent for acks=0: the next answer is that of the next request.
	for range 3 {
		send(c, 0, tp)
	}
	r := raw.Ask[*kmsg.ProduceResponse](c, produceVersion, produceRequest(1, into{tp, 0, batch}))
	if a := r.Topics[0].Partitions[0]; a.ErrorCode != 0 || a.BaseOffset != 3 {
		t.Errorf("acks=1 behind three acks=0: %+v, want base offset 3", a)
	}
	for _, acks := range []int16{2, -2, 100} {
		r := raw.Ask[*kmsg.ProduceResponse](c, produceVersion, produceRequest(acks, into{tp, 0, batch}))
		if a := r.Topics[0].Partitions[0]; a.ErrorCode != invalidRequiredAcks {
			t.Errorf("acks=%d: %+v", acks, a)
		}
	}
	// An error with acks=0 can only be told by closing the connection.
	send(c, 0, topic{name: "missing"})
	c.WaitClosed()
}

// B31, I-1 to I-8
func TestARepeatedBatchIsAnsweredWithItsFirstOffsetAlsoAfterACrash(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	tp := makeTopic(t, c, "again", 1)
	id := newProducer(t, c)
	send := func(epoch int16, sequence int32, values ...string) kmsg.ProduceResponseTopicPartition {
		t.Helper()
		b := raw.Values(time.Now().UnixMilli(), values...)
		b.Producer = &raw.Producer{ID: id, Epoch: epoch, Sequence: sequence}
		return produce(c, produceVersion, into{tp, 0, b.Bytes()})[0]
	}
	expect := func(what string, a kmsg.ProduceResponseTopicPartition, code int16, offset int64) {
		t.Helper()
		if a.ErrorCode != code || a.BaseOffset != offset {
			t.Errorf("%s: error %d, offset %d, want error %d, offset %d", what, a.ErrorCode, a.BaseOffset, code, offset)
		}
	}
	for i := range 6 {
		expect("batch in order", send(0, int32(2*i), "a", "b"), 0, int64(2*i))
	}
	check := func(when string) {
		t.Helper()
		for i := 1; i < 6; i++ { // the last five are remembered
			expect(when+"a repeated batch", send(0, int32(2*i), "a", "b"), 0, int64(2*i))
		}
		expect(when+"a batch that is no longer remembered", send(0, 0, "a", "b"), outOfOrderSequence, -1)
		expect(when+"a gap", send(0, 13, "z"), outOfOrderSequence, -1)
		expect(when+"an overlap", send(0, 11, "z", "z"), outOfOrderSequence, -1)
		if end := listOffset(t, c, tp, 0, -1).Offset; end != 12 {
			t.Errorf("%sthe log ends at %d, want 12", when, end)
		}
	}
	check("")
	n.Kill()
	n.Restart()
	c = raw.Dial(t, n.Addr())
	check("after a crash: ")
	n.Stop()
	n.Restart()
	c = raw.Dial(t, n.Addr())
	check("after a stop: ")

	expect("a higher epoch that does not begin at 0", send(1, 5, "c"), outOfOrderSequence, -1)
	expect("a higher epoch", send(1, 0, "c"), 0, 12)
	expect("a lower epoch", send(0, 12, "c"), invalidProducerEpoch, -1)
	if other := newProducer(t, c); other == id {
		t.Errorf("producer id %d was handed out twice", id)
	}
}

func newProducer(t *testing.T, c *raw.Conn) int64 {
	t.Helper()
	r := raw.Ask[*kmsg.InitProducerIDResponse](c, 5, kmsg.NewPtrInitProducerIDRequest())
	if r.ErrorCode != 0 || r.ProducerEpoch != 0 || r.ProducerID < 0 {
		t.Fatalf("init producer id: %+v", r)
	}
	return r.ProducerID
}

func TestSequencesWrapAround(t *testing.T) {
	t.Parallel()
	c := raw.Dial(t, node.Start(t, node.Options{}).Addr())
	tp := makeTopic(t, c, "wrap", 1)
	id := newProducer(t, c)
	// Of a producer that is not known any first sequence is taken.
	for i, sequence := range []int32{2147483645, 0, 3, 2147483645} {
		b := raw.Values(time.Now().UnixMilli(), "a", "b", "c")
		b.Producer = &raw.Producer{ID: id, Sequence: sequence}
		a := produce(c, produceVersion, into{tp, 0, b.Bytes()})[0]
		if want := int64(3 * (i % 3)); a.ErrorCode != 0 || a.BaseOffset != want {
			t.Errorf("batch from sequence %d on: %+v, want offset %d", sequence, a, want)
		}
	}
	b := raw.Values(time.Now().UnixMilli(), "a", "b", "c")
	b.Producer = &raw.Producer{ID: newProducer(t, c), Sequence: 2147483646}
	if a := produce(c, produceVersion, into{tp, 0, b.Bytes()})[0]; a.ErrorCode != 0 || a.BaseOffset != 9 {
		t.Errorf("a batch over the end of the sequences: %+v", a)
	}
	b.Producer.Sequence = 1
	if a := produce(c, produceVersion, into{tp, 0, b.Bytes()})[0]; a.ErrorCode != 0 || a.BaseOffset != 12 {
		t.Errorf("the batch behind it: %+v", a)
	}
}

// B31
func TestAnIdempotentProducerGoesOnAfterItWasForgotten(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{Set: []string{"producer.id.expiration.ms=1"}})
	c := raw.Dial(t, n.Addr())
	tp := makeTopic(t, c, "forgotten", 1)
	cl := newFranz(t, n, kgo.DefaultProduceTopic("forgotten"), kgo.ProducerOnDataLossDetected(func(string, int32) {
		t.Error("the client was told that data was lost")
	}))
	for i := range 3 {
		for range 5 {
			if err := cl.ProduceSync(deadline(t), kgo.StringRecord("x")).FirstErr(); err != nil {
				t.Fatalf("round %d: %v", i, err)
			}
		}
		// The next start forgets producers that have been silent for long.
		n.Stop()
		n.Restart()
		waitFor(t, "the producer to be forgotten", func() bool { return n.Metric("sluice_producer_states") == 0 })
	}
	c = raw.Dial(t, n.Addr())
	if got := readAll(t, c, tp, 0); len(got) != 15 {
		t.Errorf("%d records, want 15", len(got))
	}
}

// waitFor returns when the condition holds, and fails the test if it does not
// come to hold. It is for what cannot be waited for in another way.
func waitFor(t testing.TB, what string, condition func() bool) {
	t.Helper()
	ctx := deadline(t)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		select {
		case <-ctx.Done():
			t.Fatalf("gave up waiting for %s", what)
		case <-ticker.C:
		}
	}
}

// P-18
func TestLogAppendTimeReplacesTheTimesOfRecords(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	tp := makeTopic(t, c, "stamped", 1, "message.timestamp.type", "LogAppendTime")
	before := time.Now().UnixMilli()
	b := raw.Values(12345, "a", "b")
	a := produce(c, produceVersion, into{tp, 0, b.Bytes()})[0]
	after := time.Now().UnixMilli()
	if a.ErrorCode != 0 || a.LogAppendTime < before || a.LogAppendTime > after {
		t.Fatalf("%+v, want a time from %d to %d", a, before, after)
	}
	check := func() {
		t.Helper()
		records := readAll(t, c, tp, 0)
		if got := valuesOf(records); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("values %q", got)
		}
		for _, r := range records {
			if r.Timestamp.UnixMilli() != a.LogAppendTime {
				t.Errorf("record %d has time %d, the producer was told %d", r.Offset, r.Timestamp.UnixMilli(), a.LogAppendTime)
			}
		}
		if got := listOffset(t, c, tp, 0, a.LogAppendTime); got.Offset != 0 || got.Timestamp != a.LogAppendTime {
			t.Errorf("the record at that time: %+v", got)
		}
	}
	check()
	n.Kill()
	n.Restart()
	c = raw.Dial(t, n.Addr())
	check()
}

func TestCompressionTypeOfATopicConvertsBatches(t *testing.T) {
	t.Parallel()
	c := raw.Dial(t, node.Start(t, node.Options{}).Addr())
	now := time.Now().UnixMilli()
	for name, want := range map[string]kgo.CompressionCodecType{
		"gzip": kgo.CodecGzip, "snappy": kgo.CodecSnappy, "lz4": kgo.CodecLz4, "zstd": kgo.CodecZstd, "uncompressed": kgo.CodecNone,
	} {
		tp := makeTopic(t, c, "to-"+name, 1, "compression.type", name)
		var sent []string
		for codec := range raw.Codecs() {
			b := raw.Batch{Codec: kgo.CompressionCodecType(codec)}
			for i := range 50 {
				value := fmt.Sprint("record ", i, " of codec ", codec)
				sent = append(sent, value)
				b.Records = append(b.Records, raw.Record{Key: []byte("k"), Value: []byte(value), Time: now + int64(i)})
			}
			write(t, c, tp, 0, b)
		}
		if got := valuesOf(readAll(t, c, tp, 0)); !slices.Equal(got, sent) {
			t.Errorf("%s: read %d values that are not the %d sent", name, len(got), len(sent))
		}
		batches, err := raw.Split(fetchOne(t, c, tp, 0, 0).RecordBatches)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range batches {
			if got := kgo.CompressionCodecType(b.Attributes & 7); got != want {
				t.Errorf("%s: a batch has codec %v", name, got)
			}
		}
	}
}

// B50: a batch that is not converted keeps its bytes but for the fields of the
// broker.
func TestBatchesAreServedAsTheyWereSent(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	tp := makeTopic(t, c, "bytes", 1)
	var sent [][]byte
	for codec := range raw.Codecs() {
		b := raw.Values(time.Now().UnixMilli(), "some value", "another value", strings.Repeat("long ", 100))
		b.Codec = kgo.CompressionCodecType(codec)
		write(t, c, tp, 0, b)
		sent = append(sent, b.Bytes())
	}
	check := func() {
		t.Helper()
		got := fetchOne(t, c, tp, 0, 0).RecordBatches
		for i, want := range sent {
			want = append([]byte(nil), want...)
			binary.BigEndian.PutUint64(want, uint64(3*i)) // base offset
			binary.BigEndian.PutUint32(want[12:], 0)      // leader epoch
			if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
				t.Fatalf("batch %d is not what was sent", i)
			}
			got = got[len(want):]
		}
	}
	check()
	n.Kill()
	n.Restart()
	c = raw.Dial(t, n.Addr())
	check()
}
