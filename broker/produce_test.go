package broker_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/protocol/kerr"
)

func TestProduceAtEveryVersion(t *testing.T) {
	n := start(t)
	id := n.topic("a", 2)
	c := n.client()
	end := int64(0)
	eachVersion(t, 3, 13, func(t *testing.T, version int16) {
		in := part{topic: "a", partition: 1, records: records("x", "y")}
		if version >= 13 {
			in.id, in.topic = id, ""
		}
		for _, acks := range []int16{1, -1} {
			resp := ask[*kmsg.ProduceResponse](c, version, produceRequest(acks, in))
			if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].TopicID != in.id || resp.Topics[0].Topic != in.topic {
				t.Fatalf("got %+v", resp)
			}
			p := resp.Topics[0].Partitions[0]
			wantCode(t, p.ErrorCode, kerr.None)
			if p.Partition != 1 || p.BaseOffset != end || p.LogAppendTime != -1 || version >= 5 && p.LogStartOffset != 0 || p.ErrorMessage != nil {
				t.Errorf("got %+v", p)
			}
			end += 2
		}
	})
}

func TestProduceRefuses(t *testing.T) {
	n := start(t)
	n.topic("a", 1)
	n.topic("limited", 1, "max.message.bytes", "100")
	n.topic("compacted", 1, "cleanup.policy", "compact")
	good := records("x")
	spoil := func(at int, to byte) []byte {
		b := bytes.Clone(good)
		b[at] = to
		return b
	}
	keyless := func() []byte {
		var b batch.Builder
		b.Add(&batch.Record{Timestamp: sent, Key: []byte("k")})
		b.Add(&batch.Record{Timestamp: sent})
		out, _ := b.Build(nil, batch.NewCodecs(batch.Limits{}), batch.Options{})
		return out
	}
	const without = -1 // the log start, of which nothing is told
	for name, c := range map[string]struct {
		part     part
		edit     func(*kmsg.ProduceRequest)
		code     kerr.Code
		logStart int64
		message  bool
		bad      []int32
	}{
		"unknown topic":       {part: part{topic: "b", records: good}, code: kerr.UnknownTopicOrPartition, logStart: without},
		"impossible topic":    {part: part{topic: "a b", records: good}, code: kerr.UnknownTopicOrPartition, logStart: without},
		"unknown partition":   {part: part{topic: "a", partition: 1, records: good}, code: kerr.UnknownTopicOrPartition, logStart: without},
		"negative partition":  {part: part{topic: "a", partition: -1, records: good}, code: kerr.UnknownTopicOrPartition, logStart: without},
		"no records":          {part: part{topic: "a"}, code: kerr.InvalidRecord, logStart: without},
		"two batches":         {part: part{topic: "a", records: slices.Concat(good, good)}, code: kerr.InvalidRecord, logStart: without},
		"future format":       {part: part{topic: "a", records: spoil(16, 3)}, code: kerr.CorruptMessage, logStart: without, message: true},
		"wrong checksum":      {part: part{topic: "a", records: spoil(17, ^good[17])}, code: kerr.CorruptMessage, logStart: without},
		"too large":           {part: part{topic: "limited", records: encode(batch.Options{}, string(make([]byte, 100)))}, code: kerr.MessageTooLarge, logStart: without},
		"base offset":         {part: part{topic: "a", records: spoil(7, 9)}, code: kerr.InvalidRecord},
		"no key":              {part: part{topic: "compacted", records: keyless()}, code: kerr.InvalidRecord, message: true, bad: []int32{1}},
		"acks":                {part: part{topic: "a", records: good}, edit: func(r *kmsg.ProduceRequest) { r.Acks = 2 }, code: kerr.InvalidRequiredAcks, logStart: without},
		"acks, unknown topic": {part: part{topic: "b", records: good}, edit: func(r *kmsg.ProduceRequest) { r.Acks = 2 }, code: kerr.UnknownTopicOrPartition, logStart: without},
	} {
		req := produceRequest(-1, c.part)
		if c.edit != nil {
			c.edit(req)
		}
		p := ask[*kmsg.ProduceResponse](n.client(), 8, req).Topics[0].Partitions[0]
		var bad []int32
		for _, r := range p.ErrorRecords {
			bad = append(bad, r.RelativeOffset)
		}
		if kerr.Code(p.ErrorCode) != c.code || p.BaseOffset != -1 || p.LogStartOffset != c.logStart || (p.ErrorMessage != nil) != c.message || !slices.Equal(bad, c.bad) {
			t.Errorf("%s: %s, %+v", name, kerr.Code(p.ErrorCode), p)
		}
	}
	if end := n.produce("a", 0, "y"); end != 0 {
		t.Errorf("%d records were stored", end)
	}
}

func TestProduceByIDOfNoTopicIsRefused(t *testing.T) {
	n := start(t)
	n.topic("a", 1)
	for _, id := range [][16]byte{{}, {1}} {
		p := ask[*kmsg.ProduceResponse](n.client(), 13, produceRequest(-1, part{id: id, records: records("x")})).Topics[0].Partitions[0]
		wantCode(t, p.ErrorCode, kerr.UnknownTopicID)
	}
}

func TestProduceDropsWhatFollowsTheBatch(t *testing.T) {
	n := start(t)
	n.topic("a", 1)
	good := records("x")
	in := part{topic: "a", records: append(bytes.Clone(good), good[:len(good)-1]...)}
	p := ask[*kmsg.ProduceResponse](n.client(), 9, produceRequest(-1, in)).Topics[0].Partitions[0]
	wantCode(t, p.ErrorCode, kerr.None)
	if got := n.fetch("a", 0, 0); !bytes.Equal(got, good) {
		t.Errorf("stored %d bytes of a batch of %d", len(got), len(good))
	}
}

func TestProduceTakesTheLastEntryOfAPartition(t *testing.T) {
	n := start(t)
	n.topic("a", 2)
	req := produceRequest(-1, part{topic: "a", records: records("first")}, part{topic: "a", partition: 1, records: records("x")})
	req.Topics = append(req.Topics, produceRequest(-1, part{topic: "a", records: records("second", "third")}).Topics...)
	req.Topics = append(req.Topics, kmsg.ProduceRequestTopic{Topic: "a"}, kmsg.ProduceRequestTopic{Topic: "b"})
	resp := ask[*kmsg.ProduceResponse](n.client(), 9, req)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 2 {
		t.Fatalf("got %+v", resp.Topics)
	}
	for _, p := range resp.Topics[0].Partitions {
		wantCode(t, p.ErrorCode, kerr.None)
	}
	if next := n.produce("a", 0, "x"); next != 2 {
		t.Errorf("partition 0 has %d records", next)
	}
}

func TestProduceWithoutAcks(t *testing.T) {
	n := start(t)
	n.topic("a", 1)
	c := n.client()
	for range 3 {
		c.send(9, produceRequest(0, part{topic: "a", records: records("x")}))
	}
	// The next answer belongs to the next request: the others get none.
	resp := ask[*kmsg.ProduceResponse](c, 9, produceRequest(1, part{topic: "a", records: records("x")}))
	if p := resp.Topics[0].Partitions[0]; p.BaseOffset != 3 {
		t.Errorf("got %+v", p)
	}
	c.send(9, produceRequest(0, part{topic: "b", records: records("x")}))
	c.wantClosed()
}

func TestTransactionalBatchesNeedATransactionalID(t *testing.T) {
	n := start(t)
	n.topic("a", 2)
	b := encode(batch.Options{Attributes: batch.Transactional, Producer: &batch.Producer{ID: 1}}, "x")
	req := produceRequest(-1, part{topic: "a", records: records("x")}, part{topic: "a", partition: 1, records: b}, part{topic: "b", records: records("x")})
	for _, topic := range ask[*kmsg.ProduceResponse](n.client(), 9, req).Topics {
		for _, p := range topic.Partitions {
			wantCode(t, p.ErrorCode, kerr.TransactionalIDAuthorizationFailed)
		}
	}
	// The id alone makes nothing transactional.
	req = produceRequest(-1, part{topic: "a", records: records("x")})
	req.TransactionID = ptr("t")
	wantCode(t, ask[*kmsg.ProduceResponse](n.client(), 9, req).Topics[0].Partitions[0].ErrorCode, kerr.None)
}

func TestStoredBatchesAreInTheFormOfTheTopic(t *testing.T) {
	n := start(t)
	n.topic("zstd", 1, "compression.type", "zstd")
	n.topic("plain", 1, "compression.type", "uncompressed", "message.timestamp.type", "LogAppendTime")
	for topic, codec := range map[string]batch.Codec{"zstd": batch.Zstd, "plain": batch.None} {
		in := encode(batch.Options{Codec: batch.Gzip, Producer: &batch.Producer{ID: 5, Epoch: 2}}, "x", "y")
		p := ask[*kmsg.ProduceResponse](n.client(), 9, produceRequest(-1, part{topic: topic, records: in})).Topics[0].Partitions[0]
		wantCode(t, p.ErrorCode, kerr.None)
		h := batch.Header(n.fetch(topic, 0, 0))
		appendTime := h.Attributes().Has(batch.LogAppendTime)
		if h.Codec() != codec || h.ProducerID() != 5 || h.ProducerEpoch() != 2 || h.Count() != 2 || !h.ChecksumFits() ||
			appendTime != (topic == "plain") || appendTime != (p.LogAppendTime > sent) || appendTime && h.MaxTimestamp() != p.LogAppendTime {
			t.Errorf("%s: %s, attributes %x, %+v", topic, h.Codec(), h.Attributes(), p)
		}
	}
}

func TestPipelinedBatchesKeepTheirOrder(t *testing.T) {
	n := start(t)
	n.topic("a", 1)
	c := n.client()
	const many = 50
	for i := range int32(many) {
		in := encode(batch.Options{Producer: &batch.Producer{ID: 5, Sequence: i}}, "x")
		c.send(9, produceRequest(-1, part{topic: "a", records: in}))
	}
	req := produceRequest(-1)
	req.SetVersion(9)
	for i := range int64(many) {
		resp, err := c.receive(req)
		if err != nil {
			t.Fatal(err)
		}
		p := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if p.ErrorCode != 0 || p.BaseOffset != i {
			t.Fatalf("batch %d: %s, offset %d", i, kerr.Code(p.ErrorCode), p.BaseOffset)
		}
	}
}

func TestRetriesAreAnsweredAsTheFirstAttempt(t *testing.T) {
	n := start(t)
	n.topic("a", 1)
	send := func(sequence int32) kmsg.ProduceResponseTopicPartition {
		in := encode(batch.Options{Producer: &batch.Producer{ID: 5, Sequence: sequence}}, "x")
		return ask[*kmsg.ProduceResponse](n.client(), 9, produceRequest(-1, part{topic: "a", records: in})).Topics[0].Partitions[0]
	}
	for _, c := range []struct {
		sequence int32
		code     kerr.Code
		offset   int64
	}{{0, kerr.None, 0}, {1, kerr.None, 1}, {0, kerr.None, 0}, {3, kerr.OutOfOrderSequenceNumber, -1}, {2, kerr.None, 2}} {
		p := send(c.sequence)
		if kerr.Code(p.ErrorCode) != c.code || p.BaseOffset != c.offset || p.LogStartOffset != 0 {
			t.Errorf("sequence %d: %s, %+v", c.sequence, kerr.Code(p.ErrorCode), p)
		}
	}
}

func TestConfigsHoldForTheNextBatch(t *testing.T) {
	n := start(t)
	n.topic("a", 1)
	large := string(bytes.Repeat([]byte{'x'}, 5000))
	produce := func() kerr.Code {
		return kerr.Code(ask[*kmsg.ProduceResponse](n.client(), 9, produceRequest(-1, part{topic: "a", records: records(large)})).Topics[0].Partitions[0].ErrorCode)
	}
	alter := func(kind kmsg.ConfigResourceType, resource, name, value string) {
		t.Helper()
		wantCode(t, n.alter(kind, resource, 0, name, &value).ErrorCode, kerr.None)
	}
	alter(kmsg.ConfigResourceTypeBroker, "", "message.max.bytes", "4000")
	if code := produce(); code != kerr.MessageTooLarge {
		t.Errorf("with the cluster's limit: %s", code)
	}
	alter(kmsg.ConfigResourceTypeBroker, "7", "message.max.bytes", "6000")
	if code := produce(); code != kerr.None {
		t.Errorf("with the node's limit: %s", code)
	}
	alter(kmsg.ConfigResourceTypeTopic, "a", "max.message.bytes", "3000")
	if code := produce(); code != kerr.MessageTooLarge {
		t.Errorf("with the topic's limit: %s", code)
	}
}

// A batch that is too large for the log's files has a code of its own, whatever
// the topic allows.
func TestBatchesLargerThanASegmentAreRefused(t *testing.T) {
	n := start(t, "commitlog.segment.bytes", "2097152", "message.max.bytes", "1000000")
	n.topic("a", 1, "max.message.bytes", "8000000")
	in := part{topic: "a", records: records(string(make([]byte, 3<<20)))}
	p := ask[*kmsg.ProduceResponse](n.client(), 9, produceRequest(-1, in)).Topics[0].Partitions[0]
	wantCode(t, p.ErrorCode, kerr.RecordListTooLarge)
	if n.produce("a", 0, "x") != 0 {
		t.Error("it was stored")
	}
}

func TestRecordsOfCompressedBatchesHaveALimit(t *testing.T) {
	n := start(t)
	n.topic("a", 1, "max.decompressed.message.bytes", "1000")
	for _, codec := range []batch.Codec{batch.None, batch.Gzip} {
		in := encode(batch.Options{Codec: codec}, string(make([]byte, 2000)))
		p := ask[*kmsg.ProduceResponse](n.client(), 9, produceRequest(-1, part{topic: "a", records: in})).Topics[0].Partitions[0]
		want := kerr.None
		if codec != batch.None {
			want = kerr.InvalidRecord
		}
		wantCode(t, p.ErrorCode, want)
	}
}

func TestInitProducerID(t *testing.T) {
	n := start(t)
	seen := make(map[int64]bool)
	eachVersion(t, 0, 5, func(t *testing.T, version int16) {
		resp := ask[*kmsg.InitProducerIDResponse](n.client(), version, kmsg.NewPtrInitProducerIDRequest())
		wantCode(t, resp.ErrorCode, kerr.None)
		if resp.ProducerID < 0 || resp.ProducerEpoch != 0 || seen[resp.ProducerID] {
			t.Errorf("got %+v", resp)
		}
		seen[resp.ProducerID] = true
	})
	for name, edit := range map[string]func(*kmsg.InitProducerIDRequest){
		"empty id":            func(r *kmsg.InitProducerIDRequest) { r.TransactionalID = ptr("") },
		"id without epoch":    func(r *kmsg.InitProducerIDRequest) { r.ProducerID = 5 },
		"epoch without an id": func(r *kmsg.InitProducerIDRequest) { r.ProducerEpoch = 5 },
	} {
		req := kmsg.NewPtrInitProducerIDRequest()
		edit(req)
		resp := ask[*kmsg.InitProducerIDResponse](n.client(), 5, req)
		if kerr.Code(resp.ErrorCode) != kerr.InvalidRequest || resp.ProducerID != -1 || resp.ProducerEpoch != -1 {
			t.Errorf("%s: %+v", name, resp)
		}
	}
}

// The CRC of a batch is over what the broker must not change; its base offset is
// not. Both must hold in what is fetched, from memory and from disk.
func TestFetchedBatchesHaveTheirOffsets(t *testing.T) {
	dir := t.TempDir()
	n := startIn(t, dir)
	n.topic("a", 1)
	for range 3 {
		n.produce("a", 0, "x", "y")
	}
	check := func(n *node) {
		t.Helper()
		rest := n.fetch("a", 0, 0)
		for want := int64(0); want < 6; want += 2 {
			h, next, err := batch.Split(rest)
			if err != nil || h == nil || h.BaseOffset() != want || h.LeaderEpoch() != 0 || !h.ChecksumFits() || binary.BigEndian.Uint32(h[57:]) != 2 {
				t.Fatalf("at %d: %v, %v", want, h, err)
			}
			rest = next
		}
	}
	check(n)
	n.stop()
	check(startIn(t, dir))
}
