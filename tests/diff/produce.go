package diff

import (
	"bytes"
	"encoding/binary"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func produceCases() []Case {
	const k = kmsg.Produce
	// to produces a record set to a topic with the given configs, and looks at what is there then.
	to := func(name string, configs []string, records func(s *Script) []byte) Case {
		return Case{Name: "Produce/" + name, Key: k, Play: func(s *Script) {
			topic := s.Topic(1, configs...)
			s.Do("answer", s.ProduceRequest(-1, part{topic, 0, records(s)}))
			s.Look("look", topic, 0, 0)
		}}
	}
	// one produces a single batch, changed from a good one of two records.
	one := func(name string, change func(s *Script, b *batch), configs ...string) Case {
		return to(name, configs, func(s *Script) []byte {
			b := plain(s.t0, "first", "second")
			if change != nil {
				change(s, &b)
			}
			return s.wire(b)
		})
	}
	codec := func(c int) func(s *Script, b *batch) {
		return func(_ *Script, b *batch) { b.codec = c }
	}
	raw := func(records []byte) func(s *Script) []byte { return func(*Script) []byte { return records } }
	big := func(n int) func(s *Script, b *batch) {
		return func(_ *Script, b *batch) { b.records[1].value = bytes.Repeat([]byte{'v'}, n) }
	}
	// record spoils the encoded second record.
	record := func(edit func(encoded []byte) []byte) func(s *Script, b *batch) {
		return func(_ *Script, b *batch) {
			first := appendRecord(nil, 0, b.records[0])
			b.rawRecords = append(first, edit(appendRecord(nil, 1, b.records[1]))...)
		}
	}
	setDelta := func(d int32) func(*Script, *batch) { return func(_ *Script, b *batch) { b.lastOffsetDelta = &d } }
	setCount := func(c int32) func(*Script, *batch) { return func(_ *Script, b *batch) { b.count = &c } }
	attr := func(a int16) func(*Script, *batch) { return func(_ *Script, b *batch) { b.attributes |= a } }
	shift := func(d time.Duration) func(*Script, *batch) {
		return func(_ *Script, b *batch) { b.firstTimestamp = time.Now().Add(d).UnixMilli() }
	}
	compacted := []string{"cleanup.policy", "compact"}

	cases := []Case{
		one("ordinary", nil),
		one("gzip", codec(codecGzip)),
		one("snappy", codec(codecSnappy)),
		one("snappy-xerial", func(_ *Script, b *batch) { b.codec, b.xerial = codecSnappy, true }),
		one("lz4", codec(codecLZ4)),
		one("zstd", codec(codecZstd)),
		one("codec-five", func(_ *Script, b *batch) { b.attributes = 5 }),
		one("codec-seven", func(_ *Script, b *batch) { b.attributes = 7 }),
		one("nulls-and-headers", func(s *Script, b *batch) {
			b.records = []rec{
				{key: nil, value: nil},
				{key: []byte{}, value: []byte{}},
				{key: []byte("k"), value: nil, headers: []kv{{"h", nil}, {"h", []byte{}}, {"", []byte("v")}}},
			}
		}),

		// P-1
		to("records-null", nil, func(s *Script) []byte { s.Impatient(); return nil }),
		to("records-empty", nil, raw([]byte{})),
		to("two-batches", nil, func(s *Script) []byte {
			return append(s.wire(plain(s.t0, "a")), s.wire(plain(s.t0, "b"))...)
		}),
		to("magic-0", nil, raw(messageSet(0, "old"))),
		to("magic-1", nil, raw(messageSet(1, "old"))),
		one("magic-3", func(_ *Script, b *batch) { b.magic = ptr(int8(3)) }),
		one("magic-negative", func(_ *Script, b *batch) { b.magic = ptr(int8(-1)) }),
		to("cut-off", nil, func(s *Script) []byte { w := plain(s.t0, "a").bytes(); return w[:len(w)-1] }),
		to("cut-off-in-the-header", nil, func(s *Script) []byte { return plain(s.t0, "a").bytes()[:40] }),
		to("cut-off-before-magic", nil, func(s *Script) []byte { return plain(s.t0, "a").bytes()[:14] }),
		to("bytes-after-the-batch", nil, func(s *Script) []byte { return append(s.wire(plain(s.t0, "a")), 0, 0, 0) }),
		to("part-of-a-second-batch", nil, func(s *Script) []byte {
			w := s.wire(plain(s.t0, "a"))
			return append(w, w[:len(w)-2]...)
		}),
		one("length-too-small", func(_ *Script, b *batch) { b.lengthAdd = -3 }),
		one("length-too-large", func(_ *Script, b *batch) { b.lengthAdd = 3 }),
		one("length-negative", func(_ *Script, b *batch) { b.lengthAdd = -10000 }),
		one("length-zero", func(s *Script, b *batch) { b.lengthAdd = -int32(len(b.bytes()) - 12) }),

		// P-8, P-9
		one("crc-wrong", func(_ *Script, b *batch) { b.crcXor = 1 }),
		one("base-offset-not-zero", func(_ *Script, b *batch) { b.baseOffset = 5 }),
		one("base-offset-negative", func(_ *Script, b *batch) { b.baseOffset = -1 }),
		one("leader-epoch-set", func(_ *Script, b *batch) { b.leaderEpoch = 9 }),

		// P-10, P-11
		one("too-large", big(3000), "max.message.bytes", "2000"),
		one("largest", func(_ *Script, b *batch) {
			b.records[1].value = bytes.Repeat([]byte{'v'}, 2000-len(b.with(func(b *batch) { b.records[1].value = make([]byte, 200) }).bytes())+200)
			for len(b.bytes()) > 2000 {
				b.records[1].value = b.records[1].value[1:]
			}
		}, "max.message.bytes", "2000"),
		one("too-large-only-when-inflated", func(_ *Script, b *batch) {
			b.codec, b.records[1].value = codecGzip, bytes.Repeat([]byte{'v'}, 100000)
		}, "max.message.bytes", "2000"),
		one("larger-than-a-segment", big(1500000), "max.message.bytes", "4000000", "segment.bytes", "1048576"),
		one("larger-than-the-default", big(1100000)),

		// P-12
		one("last-delta-too-small", setDelta(0)),
		one("last-delta-too-large", setDelta(5)),
		one("last-delta-negative", setDelta(-1)),
		one("count-too-small", setCount(1)),
		one("count-too-large", setCount(3)),
		one("count-and-delta-too-small", func(s *Script, b *batch) { setDelta(0)(s, b); setCount(1)(s, b) }),
		one("count-and-delta-too-large", func(s *Script, b *batch) { setDelta(2)(s, b); setCount(3)(s, b) }),
		one("count-zero", func(s *Script, b *batch) { b.records = nil; setDelta(-1)(s, b) }),
		one("count-zero-delta-zero", func(s *Script, b *batch) { b.records = nil; setDelta(0)(s, b) }),
		one("count-negative", setCount(-1)),
		one("gzip-count-too-small", func(s *Script, b *batch) { b.codec = codecGzip; setDelta(0)(s, b); setCount(1)(s, b) }),
		one("gzip-count-too-large", func(s *Script, b *batch) { b.codec = codecGzip; setDelta(2)(s, b); setCount(3)(s, b) }),
		one("count-huge", func(s *Script, b *batch) { setDelta(0x7ffffffe)(s, b); setCount(0x7fffffff)(s, b) }),

		// P-13
		one("control-batch", attr(attrControl)),
		one("negative-sequence-with-producer", func(_ *Script, b *batch) { *b = b.of(99, 0, -1) }),
		one("negative-epoch-with-producer", func(_ *Script, b *batch) { *b = b.of(99, -1, 0) }),
		one("sequence-without-producer", func(_ *Script, b *batch) { *b = b.of(-1, -1, 5) }),
		one("transactional-without-id", func(_ *Script, b *batch) { *b = b.of(99, 0, 0); b.attributes |= attrTransactional }),
		one("transactional-without-producer", attr(attrTransactional)),
		one("delete-horizon", attr(attrDeleteHorizon)),
		one("unknown-attribute-bits", attr(0x4000)),

		// P-14
		to("compacted-with-keys", compacted, func(s *Script) []byte { return s.wire(plain(s.t0, "a", "b")) }),
		to("compacted-without-keys", compacted, func(s *Script) []byte {
			b := plain(s.t0, "a", "b", "c", "d")
			b.records[1].key, b.records[3].key = nil, nil
			return s.wire(b)
		}),
		to("compacted-without-keys-gzip", compacted, func(s *Script) []byte {
			b := plain(s.t0, "a", "b", "c")
			b.records[1].key, b.codec = nil, codecGzip
			return s.wire(b)
		}),
		to("compacted-and-deleted-without-keys", []string{"cleanup.policy", "delete,compact"}, func(s *Script) []byte {
			b := plain(s.t0, "a")
			b.records[0].key = nil
			return s.wire(b)
		}),
		to("compacted-empty-key", compacted, func(s *Script) []byte {
			b := plain(s.t0, "a")
			b.records[0].key = []byte{}
			return s.wire(b)
		}),
		to("compacted-null-value", compacted, func(s *Script) []byte {
			b := plain(s.t0, "a")
			b.records[0].value = nil
			return s.wire(b)
		}),

		// P-15, P-16, P-18
		one("timestamp-two-hours-ahead", shift(2*time.Hour)),
		one("timestamp-half-an-hour-ahead", shift(30*time.Minute)),
		one("timestamp-long-ago", func(_ *Script, b *batch) { b.firstTimestamp = 1000 }),
		one("timestamp-before-the-limit", func(_ *Script, b *batch) {}, "message.timestamp.before.max.ms", "3600000"),
		one("timestamp-one-of-two-ahead", func(s *Script, b *batch) {
			b.firstTimestamp = time.Now().UnixMilli()
			b.records[1].ts = 7200000
		}),
		one("timestamp-minus-one", func(_ *Script, b *batch) {
			b.firstTimestamp, b.records[1].ts = -1, 0
		}),
		one("timestamp-minus-two", func(_ *Script, b *batch) { b.firstTimestamp = -2 }),
		one("timestamp-falls", func(_ *Script, b *batch) { b.records[1].ts = -500 }),
		one("max-timestamp-lies-high", func(s *Script, b *batch) { b.maxTimestamp = ptr(s.t0 + 5000) }),
		one("max-timestamp-lies-low", func(s *Script, b *batch) { b.maxTimestamp = ptr(s.t0 - 5000) }),
		one("max-timestamp-minus-one", func(s *Script, b *batch) { b.maxTimestamp = ptr(int64(-1)) }),
		one("gzip-max-timestamp-lies", func(s *Script, b *batch) { b.codec, b.maxTimestamp = codecGzip, ptr(s.t0+5000) }),
		one("append-time-bit", attr(attrLogAppendTime)),
		one("append-time-bit-without-time", func(_ *Script, b *batch) {
			b.attributes, b.firstTimestamp, b.records[1].ts = attrLogAppendTime, -1, 0
		}),
		one("append-time-topic", nil, "message.timestamp.type", "LogAppendTime"),
		one("append-time-topic-gzip", codec(codecGzip), "message.timestamp.type", "LogAppendTime"),
		one("append-time-topic-far-ahead", shift(9*time.Hour), "message.timestamp.type", "LogAppendTime"),
		one("append-time-topic-with-bit", attr(attrLogAppendTime), "message.timestamp.type", "LogAppendTime"),

		// P-20
		one("recompressed-to-gzip", nil, "compression.type", "gzip"),
		one("recompressed-to-none", codec(codecGzip), "compression.type", "uncompressed"),
		one("recompressed-to-the-same", codec(codecLZ4), "compression.type", "lz4"),
		one("recompressed-idempotent", func(_ *Script, b *batch) { *b = b.of(99, 0, 0) }, "compression.type", "zstd"),
		one("recompressed-and-append-time", nil, "compression.type", "gzip", "message.timestamp.type", "LogAppendTime"),

		// The records themselves.
		one("record-length-too-small", record(func(e []byte) []byte { e[0] -= 2; return e })),
		one("record-length-too-large", record(func(e []byte) []byte { e[0] += 2; return e })),
		one("record-length-negative", record(func(e []byte) []byte { e[0] = 1; return e })),
		one("record-attributes-set", record(func(e []byte) []byte { e[1] = 7; return e })),
		one("record-offset-delta-repeats", func(_ *Script, b *batch) { b.records[1].delta = ptr(0) }),
		one("record-offset-delta-skips", func(_ *Script, b *batch) { b.records[1].delta = ptr(5); b.lastOffsetDelta = ptr(int32(5)) }),
		one("record-offset-delta-negative", func(_ *Script, b *batch) { b.records[1].delta = ptr(-4) }),
		one("record-key-length-minus-two", record(func(e []byte) []byte { e[4] = 3; return e })),
		one("record-key-too-long", record(func(e []byte) []byte { e[4] = 120; return e })),
		one("record-header-count-negative", record(func(e []byte) []byte { e[len(e)-1] = 1; return e })),
		one("record-header-count-too-large", record(func(e []byte) []byte { e[len(e)-1] = 20; return e })),
		one("record-header-without-name", func(_ *Script, b *batch) {
			body := []byte{0, 0, 0, 1, 1, 2, 1, 1} // null key, null value, one header with a null name
			b.records = b.records[:1]
			b.rawRecords = append(binary.AppendVarint(nil, int64(len(body))), body...)
		}),
		one("record-bytes-after-the-last", func(_ *Script, b *batch) {
			b.rawRecords = append(appendRecord(appendRecord(nil, 0, b.records[0]), 1, b.records[1]), 0, 0)
		}),
		one("gzip-record-bytes-after-the-last", func(_ *Script, b *batch) {
			b.codec = codecGzip
			b.rawRecords = append(appendRecord(appendRecord(nil, 0, b.records[0]), 1, b.records[1]), 0, 0)
		}),
		one("gzip-garbage", func(_ *Script, b *batch) { b.codec, b.rawBody = codecGzip, []byte("not gzip at all") }),
		one("snappy-garbage", func(_ *Script, b *batch) { b.codec, b.rawBody = codecSnappy, []byte("not snappy at all") }),
		one("lz4-garbage", func(_ *Script, b *batch) { b.codec, b.rawBody = codecLZ4, []byte("not lz4 at all") }),
		one("zstd-garbage", func(_ *Script, b *batch) { b.codec, b.rawBody = codecZstd, []byte("not zstd at all") }),
		one("gzip-cut-off", func(_ *Script, b *batch) {
			b.codec = codecGzip
			whole := compress(codecGzip, appendRecord(appendRecord(nil, 0, b.records[0]), 1, b.records[1]), false)
			b.rawBody = whole[:len(whole)/2]
		}),
		one("gzip-empty", func(_ *Script, b *batch) { b.codec, b.rawBody = codecGzip, []byte{} }),
	}

	acks := func(name string, acks int16) Case {
		return Case{Name: "Produce/" + name, Key: k, Play: func(s *Script) {
			topic := s.Topic(1)
			s.Do("answer", s.ProduceRequest(acks, part{topic, 0, s.wire(plain(s.t0, "a"))}))
			s.Look("look", topic, 0, 0)
		}}
	}
	// silent sends a request with acks=0 and another after it, which is answered, or not.
	silent := func(name string, parts func(s *Script) []part) Case {
		return Case{Name: "Produce/" + name, Key: k, Play: func(s *Script) {
			req := s.ProduceRequest(0, parts(s)...)
			req.SetVersion(s.V)
			if err := s.conn().send(header{}.encode(req, 1000)); err != nil {
				s.fail("send: %v", err)
			}
			av := kmsg.NewPtrApiVersionsRequest()
			s.codeAt("next", av)
		}}
	}
	return append(cases,
		acks("acks-1", 1), acks("acks-2", 2), acks("acks-minus-2", -2),
		silent("acks-0", func(s *Script) []part { return []part{{s.Topic(1), 0, s.wire(plain(s.t0, "a"))}} }),
		silent("acks-0-unknown-topic", func(s *Script) []part { return []part{{s.Name(""), 0, s.wire(plain(s.t0, "a"))}} }),
		silent("acks-0-crc-wrong", func(s *Script) []part {
			return []part{{s.Topic(1), 0, plain(s.t0, "a").with(func(b *batch) { b.crcXor = 1 }).bytes()}}
		}),
		Case{Name: "Produce/sequence-of-batches", Key: k, All: true, Play: func(s *Script) {
			topic := s.Topic(1)
			s.Do("three", s.ProduceRequest(-1, part{topic, 0, s.wire(plain(s.t0, "a", "b", "c"))}))
			s.Do("two", s.ProduceRequest(-1, part{topic, 0, s.wire(plain(s.t0, "d", "e"))}))
			s.Do("one", s.ProduceRequest(1, part{topic, 0, s.wire(plain(s.t0, "f"))}))
			s.Look("look", topic, 0, 0)
		}},
		Case{Name: "Produce/many-partitions", Key: k, Play: func(s *Script) {
			a, b := s.Topic(3), s.Topic(2)
			w := s.wire(plain(s.t0, "a"))
			s.Do("answer", s.ProduceRequest(-1, part{a, 2, w}, part{b, 0, w}, part{a, 0, w}, part{a, 1, w}, part{b, 1, w}))
		}},
		Case{Name: "Produce/same-partition-twice", Key: k, Play: func(s *Script) {
			topic := s.Topic(1)
			s.Do("answer", s.ProduceRequest(-1, part{topic, 0, s.wire(plain(s.t0, "a"))}, part{topic, 0, s.wire(plain(s.t0, "b", "c"))}))
			s.Look("look", topic, 0, 0)
		}},
		Case{Name: "Produce/same-topic-twice", Key: k, Play: func(s *Script) {
			topic := s.Topic(2)
			req := s.ProduceRequest(-1, part{topic, 0, s.wire(plain(s.t0, "a"))})
			req.Topics = append(req.Topics, s.ProduceRequest(-1, part{topic, 1, s.wire(plain(s.t0, "b"))}).Topics...)
			s.Do("answer", req)
			s.Bounds("then", topic, 1)
		}},
		Case{Name: "Produce/unknown-topic", Key: k, Play: func(s *Script) {
			topic := s.Name("")
			s.Do("answer", s.ProduceRequest(-1, part{topic, 0, s.wire(plain(s.t0, "a"))}))
			s.At(9, "then", metadataOf(topic))
		}},
		Case{Name: "Produce/zero-topic-id", Key: k, Min: 13, Play: func(s *Script) {
			req := s.ProduceRequest(-1, part{s.Name(""), 0, s.wire(plain(s.t0, "a"))})
			req.Topics[0].TopicID = [16]byte{}
			s.Do("answer", req)
		}},
		Case{Name: "Produce/unknown-partition", Key: k, Play: func(s *Script) {
			topic := s.Topic(1)
			s.Do("answer", s.ProduceRequest(-1, part{topic, 1, s.wire(plain(s.t0, "a"))}, part{topic, -1, s.wire(plain(s.t0, "a"))}))
		}},
		Case{Name: "Produce/bad-topic-name", Key: k, Max: 12, Play: func(s *Script) {
			s.Do("answer", s.ProduceRequest(-1, part{s.Name("!"), 0, s.wire(plain(s.t0, "a"))}))
			s.Do("empty", s.ProduceRequest(-1, part{"", 0, s.wire(plain(s.t0, "a"))}))
		}},
		Case{Name: "Produce/good-and-bad", Key: k, All: true, Play: func(s *Script) {
			topic, missing := s.Topic(2), s.Name("")
			bad := plain(s.t0, "a").with(func(b *batch) { b.crcXor = 1 }).bytes()
			w := s.wire(plain(s.t0, "a"))
			s.Do("answer", s.ProduceRequest(-1, part{missing, 0, w}, part{topic, 0, bad}, part{topic, 1, w}, part{topic, 9, w}))
			s.Bounds("then", topic, 1)
		}},
		Case{Name: "Produce/good-and-invalid", Key: k, Play: func(s *Script) {
			// What is wrong with one batch before the log sees it: does it spoil the others?
			topic := s.Topic(2)
			w := s.wire(plain(s.t0, "a"))
			s.Do("answer", s.ProduceRequest(-1, part{topic, 0, append(plain(s.t0, "a").bytes(), w...)}, part{topic, 1, w}))
			s.Bounds("then", topic, 1)
		}},
		Case{Name: "Produce/good-and-null", Key: k, Play: func(s *Script) {
			topic := s.Topic(2)
			s.Impatient()
			s.Do("answer", s.ProduceRequest(-1, part{topic, 0, nil}, part{topic, 1, s.wire(plain(s.t0, "a"))}))
			s.Bounds("then", topic, 1)
		}},
		Case{Name: "Produce/no-topics", Key: k, Play: func(s *Script) { s.Do("answer", s.ProduceRequest(-1)) }},
		Case{Name: "Produce/no-partitions", Key: k, Play: func(s *Script) {
			req := s.ProduceRequest(-1, part{s.Topic(1), 0, nil})
			req.Topics[0].Partitions = nil
			s.Do("answer", req)
		}},
		Case{Name: "Produce/internal-topic", Key: k, Max: 12, Play: func(s *Script) {
			s.Do("answer", s.ProduceRequest(-1, part{"__consumer_offsets", 0, s.wire(plain(s.t0, "a"))}))
		}},
		Case{Name: "Produce/not-enough-replicas", Key: k, Play: func(s *Script) {
			topic := s.Topic(1, "min.insync.replicas", "2")
			s.Do("all", s.ProduceRequest(-1, part{topic, 0, s.wire(plain(s.t0, "a"))}))
			s.Do("one", s.ProduceRequest(1, part{topic, 0, s.wire(plain(s.t0, "a"))}))
			s.Bounds("then", topic, 0)
		}},
		Case{Name: "Produce/timeout-zero", Key: k, Play: func(s *Script) {
			topic := s.Topic(1)
			for _, timeout := range []int32{0, -1} {
				req := s.ProduceRequest(-1, part{topic, 0, s.wire(plain(s.t0, "a"))})
				req.TimeoutMillis = timeout
				s.Do("answer", req)
			}
		}},
		Case{Name: "Produce/transactional-with-unknown-id", Key: k, Play: func(s *Script) {
			b := plain(s.t0, "a").of(99, 0, 0)
			b.attributes = attrTransactional
			req := s.ProduceRequest(-1, part{s.Topic(1), 0, s.wire(b)})
			req.TransactionID = ptr("no-such-" + s.run)
			s.Do("answer", req)
		}},
		Case{Name: "Produce/transaction-id-with-plain-batch", Key: k, Play: func(s *Script) {
			topic := s.Topic(1)
			req := s.ProduceRequest(-1, part{topic, 0, s.wire(plain(s.t0, "a"))})
			req.TransactionID = ptr("no-such-" + s.run)
			s.Do("answer", req)
			s.Bounds("then", topic, 0)
		}},
		Case{Name: "Produce/after-alter-of-the-limit", Key: k, Min: 8, Play: func(s *Script) {
			topic := s.Topic(1, "max.message.bytes", "1000")
			b := plain(s.t0, strings.Repeat("v", 1500))
			s.Do("before", s.ProduceRequest(-1, part{topic, 0, s.wire(b)}))
			alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
			alter.Resources = incremental(kmsg.ConfigResourceTypeTopic, topic, "max.message.bytes", 0, "3000").Resources
			s.prepare(1, alter)
			s.eventually("the larger limit holds", func() bool {
				resp := s.prepare(8, s.ProduceRequest(-1, part{topic, 0, s.wire(b)})).(*kmsg.ProduceResponse)
				return resp.Topics[0].Partitions[0].ErrorCode == 0
			})
			s.Do("after", s.ProduceRequest(-1, part{topic, 0, s.wire(b)}))
		}},
		Case{Name: "Produce/old-id-of-a-new-topic", Key: k, Min: 13, Play: func(s *Script) {
			name := s.Topic(1)
			req := s.ProduceRequest(-1, part{name, 0, s.wire(plain(s.t0, "a"))})
			del := kmsg.NewPtrDeleteTopicsRequest()
			del.TopicNames, del.TimeoutMillis = []string{name}, 10000
			s.prepare(5, del)
			s.eventually("the topic is gone", func() bool { return s.TopicID(name) == [16]byte{} })
			s.prepare(7, createTopics(createTopic(name, 1, 1)))
			s.AwaitTopic(name, 1)
			s.Do("answer", req)
			s.Bounds("then", name, 0)
		}},
	)
}

func idempotenceCases() []Case {
	const k = kmsg.Produce
	// produce sends one batch of a producer and records offset and error only.
	produce := func(s *Script, label, topic string, b batch) {
		resp, ok := s.Hidden(label, s.ProduceRequest(-1, part{topic, 0, s.wire(b)})).(*kmsg.ProduceResponse)
		if ok {
			p := resp.Topics[0].Partitions[0]
			s.Note(label, codeName(p.ErrorCode))
			s.Note(label+".BaseOffset", p.BaseOffset)
		}
	}
	play := func(name string, steps func(s *Script, send func(label string, b batch))) Case {
		return Case{Name: "Idempotence/" + name, Key: k, Min: 8, Play: func(s *Script) {
			topic := s.Topic(1)
			steps(s, func(label string, b batch) { produce(s, label, topic, b) })
			s.Bounds("then", topic, 0)
		}}
	}
	const pid = 123456
	n := func(s *Script, count int) batch { return plain(s.t0, strings.Split(strings.Repeat("v", count), "")...) }
	return []Case{
		play("in-order", func(s *Script, send func(string, batch)) {
			send("0", n(s, 2).of(pid, 0, 0))
			send("2", n(s, 1).of(pid, 0, 2))
			send("3", n(s, 3).of(pid, 0, 3))
		}),
		play("retry", func(s *Script, send func(string, batch)) {
			send("0", n(s, 2).of(pid, 0, 0))
			send("2", n(s, 2).of(pid, 0, 2))
			send("2 again", n(s, 2).of(pid, 0, 2))
			send("0 again", n(s, 2).of(pid, 0, 0))
			send("4", n(s, 1).of(pid, 0, 4))
		}),
		play("retry-with-other-content", func(s *Script, send func(string, batch)) {
			send("0", plain(s.t0, "a").of(pid, 0, 0))
			send("0 again", plain(s.t0, "b").of(pid, 0, 0))
		}),
		play("retry-of-the-fifth-and-sixth-last", func(s *Script, send func(string, batch)) {
			for i := range int32(7) {
				send("batch", n(s, 1).of(pid, 0, i))
			}
			send("fifth last", n(s, 1).of(pid, 0, 2))
			send("sixth last", n(s, 1).of(pid, 0, 1))
			send("next", n(s, 1).of(pid, 0, 7))
		}),
		play("gap", func(s *Script, send func(string, batch)) {
			send("0", n(s, 1).of(pid, 0, 0))
			send("2", n(s, 1).of(pid, 0, 2))
			send("1", n(s, 1).of(pid, 0, 1))
		}),
		play("overlap", func(s *Script, send func(string, batch)) {
			send("0-2", n(s, 3).of(pid, 0, 0))
			send("1-3", n(s, 3).of(pid, 0, 1))
			send("0-1", n(s, 2).of(pid, 0, 0))
			send("2-2", n(s, 1).of(pid, 0, 2))
		}),
		play("unknown-producer-not-from-zero", func(s *Script, send func(string, batch)) {
			send("7", n(s, 1).of(pid, 0, 7))
			send("8", n(s, 1).of(pid, 0, 8))
		}),
		play("unknown-producer-not-from-zero-on-a-used-log", func(s *Script, send func(string, batch)) {
			send("plain", n(s, 1))
			send("7", n(s, 1).of(pid, 0, 7))
		}),
		play("epoch-lower", func(s *Script, send func(string, batch)) {
			send("epoch 3", n(s, 1).of(pid, 3, 0))
			send("epoch 2", n(s, 1).of(pid, 2, 1))
			send("epoch 2 from 0", n(s, 1).of(pid, 2, 0))
			send("epoch 3 again", n(s, 1).of(pid, 3, 1))
		}),
		play("epoch-higher", func(s *Script, send func(string, batch)) {
			send("epoch 0", n(s, 1).of(pid, 0, 0))
			send("epoch 1 from 5", n(s, 1).of(pid, 1, 5))
			send("epoch 1 from 1", n(s, 1).of(pid, 1, 1))
			send("epoch 1 from 0", n(s, 1).of(pid, 1, 0))
			send("epoch 0 again", n(s, 1).of(pid, 0, 0))
			send("epoch 0 next", n(s, 1).of(pid, 0, 1))
		}),
		play("epoch-jumps", func(s *Script, send func(string, batch)) {
			send("epoch 0", n(s, 1).of(pid, 0, 0))
			send("epoch 32767", n(s, 1).of(pid, 32767, 0))
		}),
		play("sequence-wraps-between-batches", func(s *Script, send func(string, batch)) {
			send("max", n(s, 1).of(pid, 0, 0x7fffffff))
			send("0", n(s, 1).of(pid, 0, 0))
			send("1", n(s, 1).of(pid, 0, 1))
		}),
		play("sequence-wraps-inside-a-batch", func(s *Script, send func(string, batch)) {
			send("max-1", n(s, 4).of(pid, 0, 0x7ffffffe))
			send("2", n(s, 1).of(pid, 0, 2))
			send("max-1 again", n(s, 4).of(pid, 0, 0x7ffffffe))
		}),
		play("two-producers", func(s *Script, send func(string, batch)) {
			send("a 0", n(s, 1).of(pid, 0, 0))
			send("b 0", n(s, 1).of(pid+1, 0, 0))
			send("plain", n(s, 1))
			send("a 1", n(s, 1).of(pid, 0, 1))
			send("b 1", n(s, 1).of(pid+1, 0, 1))
			send("a 0 again", n(s, 1).of(pid, 0, 0))
		}),
		play("refused-batch-uses-no-sequence", func(s *Script, send func(string, batch)) {
			send("0", n(s, 1).of(pid, 0, 0))
			send("1 bad", n(s, 1).of(pid, 0, 1).with(func(b *batch) { b.lastOffsetDelta = ptr(int32(4)) }))
			send("1", n(s, 1).of(pid, 0, 1))
		}),
		play("pipelined-retry", func(s *Script, send func(string, batch)) {
			send("0", n(s, 2).of(pid, 0, 0))
			send("0 again", n(s, 2).of(pid, 0, 0))
			send("shorter", n(s, 1).of(pid, 0, 0))
			send("longer", n(s, 3).of(pid, 0, 0))
		}),
		{Name: "Idempotence/same-batch-twice-in-request", Key: k, Min: 8, Play: func(s *Script) {
			topic := s.Topic(2)
			w := s.wire(n(s, 1).of(pid, 0, 0))
			s.Do("answer", s.ProduceRequest(-1, part{topic, 0, w}, part{topic, 1, w}))
		}},
		{Name: "Idempotence/after-delete-records", Key: k, Min: 8, Play: func(s *Script) {
			topic := s.Topic(1)
			produce(s, "0", topic, n(s, 1).of(pid, 0, 0))
			del := kmsg.NewPtrDeleteRecordsRequest()
			t := kmsg.NewDeleteRecordsRequestTopic()
			p := kmsg.NewDeleteRecordsRequestTopicPartition()
			t.Topic, p.Offset = topic, -1
			t.Partitions = append(t.Partitions, p)
			del.Topics, del.TimeoutMillis = append(del.Topics, t), 10000
			s.prepare(2, del)
			produce(s, "0 again", topic, n(s, 1).of(pid, 0, 0))
			produce(s, "5", topic, n(s, 1).of(pid, 0, 5))
			produce(s, "1", topic, n(s, 1).of(pid, 0, 1))
		}},
		{Name: "Idempotence/after-topic-is-made-again", Key: k, Min: 8, Max: 12, Play: func(s *Script) {
			name := s.Topic(1)
			produce(s, "0", name, n(s, 1).of(pid, 0, 0))
			del := kmsg.NewPtrDeleteTopicsRequest()
			del.TopicNames, del.TimeoutMillis = []string{name}, 10000
			s.prepare(5, del)
			s.eventually("the topic is gone", func() bool { return s.TopicID(name) == [16]byte{} })
			s.prepare(7, createTopics(createTopic(name, 1, 1)))
			s.AwaitTopic(name, 1)
			produce(s, "0 again", name, n(s, 1).of(pid, 0, 0))
		}},
		{Name: "Idempotence/stored-as-sent", Key: k, Min: 8, Play: func(s *Script) {
			topic := s.Topic(1)
			produce(s, "0", topic, n(s, 2).of(pid, 4, 0))
			s.Look("look", topic, 0, 0)
		}},
	}
}
