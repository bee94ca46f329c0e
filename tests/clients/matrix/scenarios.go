package main

import (
	"bytes"
	"context"
	"crypto/sha1" // A short name for bytes, not a protection.
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// scenario is one thing that a client does, and what came of it in words that do not depend on the
// broker. A refused operation whose refusal is the point is part of the words; any other fails the
// scenario.
type scenario struct {
	name string
	what string
	play func(p *play) string
}

// scenarios is the one list: what is added here runs with every client whose driver can do it.
var scenarios = []scenario{
	{"connect", "find the broker and the cluster", connect},
	{"topic-create", "create a topic and see it", topicCreate},
	{"topic-list", "find a topic in the list of all", topicList},
	{"topic-delete", "delete a topic, and what is not there", topicDelete},
	{"topic-create-configs", "create a topic with settings", topicCreateConfigs},
	{"topic-create-exists", "create a topic that exists", topicCreateExists},
	{"topic-create-bad", "create topics with a bad name, count, setting", topicCreateBad},
	{"topic-missing", "look for a topic that does not exist, without creating it", topicMissing},
	{"topic-auto-create", "produce to a topic that does not exist", topicAutoCreate},
	{"partitions-add", "add partitions; take some away", partitionsAdd},
	{"partitions-many", "produce to and consume 100 partitions", partitionsMany},
	{"configs-topic", "read a topic's settings", configsTopic},
	{"configs-broker", "read the broker's settings", configsBroker},
	{"configs-incremental", "change single settings", configsIncremental},
	{"configs-legacy", "replace all settings of a topic", configsLegacy},
	{"produce-none", "produce and consume uncompressed", codec("none")},
	{"produce-gzip", "produce and consume with gzip", codec("gzip")},
	{"produce-snappy", "produce and consume with snappy", codec("snappy")},
	{"produce-lz4", "produce and consume with lz4", codec("lz4")},
	{"produce-zstd", "produce and consume with zstd", codec("zstd")},
	{"produce-acks", "produce with acks 0, 1 and all", produceAcks},
	{"produce-idempotent", "produce with idempotence on", produceIdempotent},
	{"records-nulls", "null and empty keys and values", recordsNulls},
	{"records-nothing", "a record of null key and null value", recordsNothing},
	{"records-headers", "headers, also of the same name and empty", recordsHeaders},
	{"records-null-headers", "a header with null value, and one with an empty name", recordsNullHeaders},
	{"records-timestamps", "timestamps of the producer and of the broker", recordsTimestamps},
	{"records-compacted", "a record without key for a compacted topic", recordsCompacted},
	{"message-large", "5 MiB where it is allowed", messageLarge},
	{"message-too-large", "2 MiB where it is not", messageTooLarge},
	{"offsets-ends", "the first and the next offset", offsetsEnds},
	{"offsets-time", "offsets by time", offsetsTime},
	{"offsets-max-timestamp", "the offset of the largest timestamp", offsetsMaxTimestamp},
	{"consume-mid-batch", "consume from the middle of a batch", consumeMidBatch},
	{"consume-tiny", "consume with limits smaller than any batch", consumeTiny},
	{"records-delete", "delete records, then consume", recordsDelete},
	{"log-dirs", "the size of a topic on disk", logDirs},
	{"read-canonical", "read what another client wrote, in every codec", readCanonical},
	{"group-resume", "consume in a group, commit, and go on from there", groupResume},
	{"group-list-delete", "find a group in the list of all, and delete it", groupListDelete},
	{"group-join-second", "join a group beside another member, and leave", groupJoinSecond},
	{"group-crash", "take over from a member that crashed", groupCrash},
	{"group-reset", "consume, then from where an admin has set the group", groupReset},
	{"tool-group-describe", "lag, members and state of a group by Kafka's tool; delete it", toolGroupDescribe},
	{"tool-group-reset", "set the offsets of a group by Kafka's tool", toolGroupReset},
	{"transaction-read", "read what is committed, among what is not", transactionRead},
	{"transaction-commit", "write to two partitions in transactions", transactionCommit},
	{"transaction-abort", "abort a transaction, and commit the next", transactionAbort},
	{"transaction-fenced", "start a second producer of the same transactional id", transactionFenced},
	{"transaction-copy", "consume in a group and produce, exactly once", transactionCopy},
	{"tool-transactions", "look at and abort transactions by Kafka's tool", toolTransactions},
	{"tool-producer-perf-transactional", "Kafka's producer performance test in transactions", toolProducerPerfTransactional},
	{"tool-producer-perf", "Kafka's producer performance test", toolProducerPerf},
	{"tool-verifiable", "Kafka's verifiable producer", toolVerifiable},
}

// play is one scenario with one client against one broker.
type play struct {
	ctx    context.Context
	s      *session
	b      *broker
	prefix string
	topics []string
	// written is what the scenario produced, to be read by the canonical client too.
	written []string
	// companions are the runner's own members of groups.
	companions []*companion
}

// stop ends a scenario early.
type stop struct{ err error }

// result of a scenario: ok, fail or n/a, and the words.
type result struct {
	status string
	text   string
	took   time.Duration
}

func run(ctx context.Context, sc scenario, s *session, b *broker, prefix string) (r result) {
	before := time.Now()
	p := &play{ctx: ctx, s: s, b: b, prefix: prefix}
	defer func() {
		for _, c := range p.companions {
			c.cl.Close()
		}
		switch v := recover().(type) {
		case nil:
		case stop:
			r = result{"fail", p.plain(v.err.Error()), 0}
			if errors.Is(v.err, errUnsupported) {
				r = result{"n/a", "", 0}
			}
		default:
			panic(v)
		}
		r.took = time.Since(before)
	}()
	return result{"ok", p.plain(sc.play(p)), 0}
}

// plain takes the names of this run out of a text.
func (p *play) plain(text string) string {
	for i := len(p.topics) - 1; i >= 0; i-- {
		text = strings.ReplaceAll(text, p.topics[i], "T"+strconv.Itoa(i))
	}
	text = strings.ReplaceAll(text, p.b.addr, "BROKER")
	text = strings.ReplaceAll(text, p.b.canonical, "CANONICAL")
	return strings.Join(strings.Fields(text), " ")
}

func (p *play) fail(format string, args ...any) { panic(stop{fmt.Errorf(format, args...)}) }

// name returns a fresh topic name.
func (p *play) name() string {
	n := fmt.Sprintf("%s-%d", p.prefix, len(p.topics))
	p.topics = append(p.topics, n)
	return n
}

// topic makes a topic for a scenario that is not about making one.
func (p *play) topic(partitions int32, configs ...string) string {
	n := p.name()
	kv := make(map[string]*string)
	for i := 0; i < len(configs); i += 2 {
		kv[configs[i]] = &configs[i+1]
	}
	if err := p.b.create(p.ctx, n, partitions, kv); err != nil {
		p.fail("set up: %w", err)
	}
	return n
}

// do asks for an operation that must succeed.
func (p *play) do(r request) response {
	resp, err := p.s.call(p.ctx, r)
	if err != nil {
		if errors.Is(err, errUnsupported) {
			panic(stop{err})
		}
		p.fail("%s: %w", r.Op, err)
	}
	return resp
}

// try asks for an operation and returns how it ended in words.
func (p *play) try(r request) string {
	_, err := p.s.call(p.ctx, r)
	var refused refusal
	switch {
	case err == nil:
		return "done"
	case errors.As(err, &refused):
		return refused.text
	default:
		panic(stop{err})
	}
}

// eventually repeats a look until it shows what is wanted.
func (p *play) eventually(what string, look func() bool) {
	deadline := time.Now().Add(15 * time.Second)
	for !look() {
		if time.Now().After(deadline) {
			p.fail("%s: not within 15 s", what)
		}
		<-time.After(50 * time.Millisecond)
	}
}

func (p *play) produce(topic string, partition int32, records ...record) []int64 {
	p.written = append(p.written, topic)
	return p.do(request{Op: "produce", Topic: topic, Partition: partition, Records: records, Acks: "all", Codec: "none"}).Offsets
}

func (p *play) consume(topic string, partition int32, offset int64, count int) []record {
	return p.do(request{Op: "consume", Topic: topic, Partition: partition, Offset: offset, Count: count}).Records
}

// digest names a list of records: how many, and a hash of all that a client can see of them.
func digest(records []record, times bool) string {
	h := sha1.New()
	for _, r := range records {
		fmt.Fprintln(h, words(r, times))
	}
	return fmt.Sprintf("%d records %x", len(records), h.Sum(nil)[:4])
}

func words(r record, times bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d ", r.Offset)
	if times {
		fmt.Fprintf(&b, "at %d ", r.Timestamp)
	}
	fmt.Fprintf(&b, "%s=%s", blob(r.Key), blob(r.Value))
	for _, h := range r.Headers {
		fmt.Fprintf(&b, " %s:%s", h.Name, blob(h.Value))
	}
	return b.String()
}

func blob(b []byte) string {
	switch {
	case b == nil:
		return "null"
	case len(b) > 40:
		return fmt.Sprintf("%d bytes %x", len(b), sha1.Sum(b))
	default:
		return strconv.Quote(string(b))
	}
}

// sample returns records with keys and values that tell them apart.
func sample(n int) []record {
	var out []record
	for i := range n {
		out = append(out, record{
			Key: fmt.Appendf(nil, "key-%d", i), Value: fmt.Appendf(nil, "value-%d-%s", i, strings.Repeat("x", i%50)),
		})
	}
	return out
}

// fixed is the time that records with given timestamps count from. Their topics keep records for
// ever, since it is long ago.
const fixed = int64(1_700_000_000_000)

func connect(p *play) string {
	r := p.do(request{Op: "cluster"})
	return fmt.Sprintf("brokers %d, cluster id %v, controller %v", r.Brokers, r.Cluster, r.Controller)
}

func topicCreate(p *play) string {
	t := p.name()
	p.do(request{Op: "create", Topic: t, Partitions: 3})
	var r response
	var err error
	p.eventually("the topic shows", func() bool {
		r, err = p.s.call(p.ctx, request{Op: "describe", Topic: t})
		return err == nil && r.Partitions == 3 || errors.Is(err, errUnsupported) && p.b.partitions(p.ctx, t) == 3
	})
	if errors.Is(err, errUnsupported) {
		return "3 partitions"
	}
	return fmt.Sprintf("partitions %d, replicas %d, internal %v", r.Partitions, r.Replicas, r.Internal)
}

func topicList(p *play) string {
	t := p.topic(1)
	p.eventually("the topic is listed", func() bool { return slices.Contains(p.do(request{Op: "topics"}).Names, t) })
	return "listed"
}

func topicDelete(p *play) string {
	t := p.topic(2)
	p.do(request{Op: "delete", Topic: t})
	p.eventually("the topic is gone", func() bool { return !p.b.exists(p.ctx, t) })
	return "deleted; again: " + p.try(request{Op: "delete", Topic: t})
}

func topicCreateConfigs(p *play) string {
	t := p.name()
	p.do(request{Op: "create", Topic: t, Partitions: 1, Configs: map[string]string{
		"cleanup.policy": "compact", "retention.ms": "1234567", "max.message.bytes": "20000",
	}})
	return p.b.overrides(p.ctx, p, t)
}

func topicCreateExists(p *play) string {
	return p.try(request{Op: "create", Topic: p.topic(1), Partitions: 1})
}

func topicCreateBad(p *play) string {
	return "name: " + p.try(request{Op: "create", Topic: p.name() + " !", Partitions: 1}) +
		"; count: " + p.try(request{Op: "create", Topic: p.name(), Partitions: -7}) +
		"; setting: " + p.try(request{Op: "create", Topic: p.name(), Partitions: 1, Configs: map[string]string{"retention.ms": "soon"}})
}

func topicMissing(p *play) string {
	t := p.name()
	text := p.try(request{Op: "describe", Topic: t})
	return fmt.Sprintf("%s; created %v", text, p.b.exists(p.ctx, t))
}

func topicAutoCreate(p *play) string {
	t := p.name()
	offsets := p.produce(t, 0, sample(2)...)
	return fmt.Sprintf("offsets %v, %s", offsets, digest(p.consume(t, 0, 0, 2), false))
}

func partitionsAdd(p *play) string {
	t := p.topic(3)
	p.do(request{Op: "add-partitions", Topic: t, Partitions: 5})
	p.eventually("the partitions show", func() bool { return p.b.partitions(p.ctx, t) == 5 })
	return "5 now; back to 2: " + p.try(request{Op: "add-partitions", Topic: t, Partitions: 2})
}

func partitionsMany(p *play) string {
	const n = 100
	t := p.topic(n)
	for i := range int32(n) {
		if i%10 != 3 {
			continue // One in ten through the client itself: each is a request of its own.
		}
		p.produce(t, i, record{Key: []byte("k"), Value: fmt.Appendf(nil, "p%d", i)})
	}
	var got []string
	for i := int32(3); i < n; i += 10 {
		for _, r := range p.consume(t, i, 0, 1) {
			got = append(got, string(r.Value))
		}
	}
	return strings.Join(got, " ")
}

func configText(m map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return strings.Join(out, " ")
}

func configsTopic(p *play) string {
	t := p.topic(1, "retention.ms", "7654321")
	return configText(p.do(request{Op: "configs", Kind: "topic", Name: t, Keys: []string{
		"cleanup.policy", "compression.type", "max.message.bytes", "message.timestamp.type",
		"retention.bytes", "retention.ms", "segment.bytes",
	}}).Configs)
}

func configsBroker(p *play) string {
	return configText(p.do(request{Op: "configs", Kind: "broker", Name: p.b.node, Keys: []string{
		"auto.create.topics.enable", "default.replication.factor", "log.retention.hours", "message.max.bytes",
		"num.partitions",
	}}).Configs)
}

func configsIncremental(p *play) string {
	t := p.topic(1, "retention.ms", "1000", "segment.bytes", "2000000")
	value := "30000"
	p.do(request{Op: "alter", Kind: "topic", Name: t, Mode: "incremental", Changes: []change{
		{"max.message.bytes", "set", &value}, {"retention.ms", "delete", nil},
	}})
	p.eventually("the change shows", func() bool { return strings.Contains(p.b.overrides(p.ctx, p, t), "30000") })
	after := p.b.overrides(p.ctx, p, t)
	bad := "soon"
	return after + "; bad: " + p.try(request{Op: "alter", Kind: "topic", Name: t, Mode: "incremental", Changes: []change{{"retention.ms", "set", &bad}}})
}

func configsLegacy(p *play) string {
	t := p.topic(1, "retention.ms", "1000", "segment.bytes", "2000000")
	value := "30000"
	p.do(request{Op: "alter", Kind: "topic", Name: t, Mode: "legacy", Changes: []change{{"max.message.bytes", "set", &value}}})
	p.eventually("the change shows", func() bool { return strings.Contains(p.b.overrides(p.ctx, p, t), "30000") })
	return p.b.overrides(p.ctx, p, t)
}

func codec(name string) func(p *play) string {
	return func(p *play) string {
		t := p.topic(1)
		offsets := p.do(request{Op: "produce", Topic: t, Records: sample(50), Codec: name, Acks: "all"}).Offsets
		own := digest(p.consume(t, 0, 0, 50), false)
		other := digest(p.b.read(p.ctx, p, t, 0, 50), false)
		if own != other {
			return fmt.Sprintf("offsets %s; reads %s, another client reads %s", span(offsets), own, other)
		}
		return fmt.Sprintf("offsets %s; %s", span(offsets), own)
	}
}

// span tells offsets in short if they are dense.
func span(offsets []int64) string {
	for i := range offsets {
		if offsets[i] != offsets[0]+int64(i) {
			return fmt.Sprint(offsets)
		}
	}
	if len(offsets) == 0 {
		return "not told"
	}
	return fmt.Sprintf("%d-%d", offsets[0], offsets[len(offsets)-1])
}

func produceAcks(p *play) string {
	t := p.topic(1)
	var out []string
	for i, acks := range []string{"0", "1", "all"} {
		p.do(request{Op: "produce", Topic: t, Records: []record{{Key: []byte(acks), Value: []byte("v")}}, Acks: acks, Codec: "none"})
		p.eventually("the record is there", func() bool { return p.b.end(p.ctx, t, 0) == int64(i+1) })
		out = append(out, acks)
	}
	return "acks " + strings.Join(out, ", ") + "; " + digest(p.consume(t, 0, 0, 3), false)
}

func produceIdempotent(p *play) string {
	t := p.topic(1)
	var offsets []int64
	for range 3 {
		r := p.do(request{Op: "produce", Topic: t, Records: sample(5), Acks: "all", Codec: "none", Idempotent: true})
		offsets = append(offsets, r.Offsets...)
	}
	return fmt.Sprintf("offsets %s; %s", span(offsets), digest(p.consume(t, 0, 0, 15), false))
}

// carried produces records, and tells how they come back: to the client itself, and what is stored
// where the client reads it differently.
func carried(p *play, records ...record) string {
	t := p.topic(1)
	offsets := p.do(request{Op: "produce", Topic: t, Records: records, Acks: "all", Codec: "none"}).Offsets
	got := p.consume(t, 0, 0, len(records))
	stored := p.b.read(p.ctx, p, t, 0, len(records))
	var out []string
	for i, r := range got {
		w := words(r, false)
		if is := words(stored[i], false); is != w {
			w += " (stored " + is + ")"
		}
		out = append(out, w)
	}
	return "offsets " + span(offsets) + "; " + strings.Join(out, "; ")
}

func recordsNulls(p *play) string {
	var records []record
	for _, key := range [][]byte{nil, {}, []byte("k")} {
		for _, value := range [][]byte{nil, {}, []byte("v")} {
			if key != nil || value != nil { // Some clients refuse to send a record of nothing.
				records = append(records, record{Key: key, Value: value})
			}
		}
	}
	return carried(p, records...)
}

func recordsNothing(p *play) string { return carried(p, record{}) }

func recordsHeaders(p *play) string {
	return carried(p,
		record{Value: []byte("v"), Headers: []header{{"a", []byte("1")}, {"b", []byte("2")}}},
		record{Value: []byte("v"), Headers: []header{{"a", []byte("1")}, {"a", []byte("2")}, {"a", []byte{}}}})
}

func recordsNullHeaders(p *play) string {
	return carried(p, record{Value: []byte("v"), Headers: []header{{"a", nil}, {"", []byte("empty name")}}})
}

func recordsTimestamps(p *play) string {
	given := p.topic(1, "retention.ms", "-1")
	p.produce(given, 0, record{Value: []byte("a"), Timestamp: fixed + 5}, record{Value: []byte("b"), Timestamp: fixed + 3})
	var out []string
	for _, r := range p.consume(given, 0, 0, 2) {
		out = append(out, words(r, true))
	}
	brokers := p.topic(1, "retention.ms", "-1", "message.timestamp.type", "LogAppendTime")
	before := time.Now().UnixMilli()
	p.produce(brokers, 0, record{Value: []byte("c"), Timestamp: fixed})
	for _, r := range p.consume(brokers, 0, 0, 1) {
		out = append(out, fmt.Sprintf("broker's time %v", r.Timestamp >= before-1000 && r.Timestamp < before+60000))
	}
	return strings.Join(out, "; ")
}

func recordsCompacted(p *play) string {
	t := p.topic(1, "cleanup.policy", "compact")
	with := p.produce(t, 0, record{Key: []byte("k"), Value: []byte("v")})
	return fmt.Sprintf("with key: offsets %s; without: %s", span(with),
		p.try(request{Op: "produce", Topic: t, Records: []record{{Value: []byte("v")}}, Acks: "all", Codec: "none"}))
}

func messageLarge(p *play) string {
	const size = 5 << 20
	t := p.topic(1, "max.message.bytes", "6000000")
	p.do(request{Op: "produce", Topic: t, Records: []record{{Key: []byte("k"), Value: bytes.Repeat([]byte("L"), size)}}, Acks: "all", Codec: "none", MaxBytes: 6000000})
	got := p.do(request{Op: "consume", Topic: t, Count: 1, MaxBytes: 7000000, PartitionMaxBytes: 7000000}).Records
	return digest(got, false)
}

func messageTooLarge(p *play) string {
	t := p.topic(1)
	text := p.try(request{Op: "produce", Topic: t, Records: []record{{Value: bytes.Repeat([]byte("L"), 2<<20)}}, Acks: "all", Codec: "none", MaxBytes: 6000000})
	return fmt.Sprintf("%s; end %d", text, p.b.end(p.ctx, t, 0))
}

func (p *play) at(topic, at string) string {
	r := p.do(request{Op: "offsets", Topic: topic, At: at})
	return strconv.FormatInt(r.Offset, 10)
}

func offsetsEnds(p *play) string {
	t := p.topic(1)
	empty := p.at(t, "earliest") + "-" + p.at(t, "latest")
	p.produce(t, 0, sample(7)...)
	return fmt.Sprintf("empty %s, then %s-%s", empty, p.at(t, "earliest"), p.at(t, "latest"))
}

func offsetsTime(p *play) string {
	t := p.topic(1, "retention.ms", "-1")
	p.b.write(p.ctx, p, t, 0, fixed+1000, fixed+3000, fixed+2000, fixed+4000)
	var out []string
	for _, d := range []int64{0, 1000, 1500, 2500, 4000, 4001} {
		out = append(out, fmt.Sprintf("+%d: %s", d, p.at(t, strconv.FormatInt(fixed+d, 10))))
	}
	return strings.Join(out, ", ")
}

func offsetsMaxTimestamp(p *play) string {
	t := p.topic(1, "retention.ms", "-1")
	empty := p.at(t, "max-timestamp")
	p.b.write(p.ctx, p, t, 0, fixed+1000, fixed+3000, fixed+2000)
	return "empty " + empty + ", then " + p.at(t, "max-timestamp")
}

func consumeMidBatch(p *play) string {
	t := p.topic(1)
	p.b.writeBatch(p.ctx, p, t, 0, 10)
	p.b.writeBatch(p.ctx, p, t, 0, 10)
	var out []string
	for _, from := range []int64{0, 4, 9, 13} {
		got := p.consume(t, 0, from, int(20-from))
		if len(got) > 0 {
			out = append(out, fmt.Sprintf("from %d: %d..%d", from, got[0].Offset, got[len(got)-1].Offset))
		}
	}
	return strings.Join(out, ", ")
}

func consumeTiny(p *play) string {
	t := p.topic(1)
	for range 3 {
		p.b.writeBatch(p.ctx, p, t, 0, 100)
	}
	got := p.do(request{Op: "consume", Topic: t, Count: 300, MaxBytes: 100, PartitionMaxBytes: 100}).Records
	return digest(got, false)
}

func recordsDelete(p *play) string {
	t := p.topic(1)
	p.b.writeBatch(p.ctx, p, t, 0, 10)
	start := p.do(request{Op: "delete-records", Topic: t, Offset: 4}).Offset
	got := p.consume(t, 0, 4, 6)
	return fmt.Sprintf("start %d, first %d of %d; beyond the end: %s", start, got[0].Offset, len(got),
		p.try(request{Op: "delete-records", Topic: t, Offset: 99}))
}

func logDirs(p *play) string {
	t := p.topic(1)
	p.b.writeBatch(p.ctx, p, t, 0, 10)
	return fmt.Sprintf("size told %v", p.do(request{Op: "log-dirs", Topic: t}).Size > 0)
}

func readCanonical(p *play) string {
	var out []string
	for _, codec := range codecNames {
		r, err := p.s.call(p.ctx, request{Op: "consume", Topic: p.b.canonical + codec, Count: canonicalCount})
		switch {
		case errors.Is(err, errUnsupported):
			panic(stop{err})
		case err != nil:
			out = append(out, codec+": "+err.Error())
		default:
			out = append(out, codec+": "+digest(r.Records, true))
		}
	}
	return strings.Join(out, "; ")
}

func groupResume(p *play) string {
	t := p.topic(1)
	p.b.writeBatch(p.ctx, p, t, 0, 10)
	p.b.writeBatch(p.ctx, p, t, 0, 10)
	group := t + "-group"
	part := func() string {
		got := p.do(request{Op: "group-consume", Group: group, Topic: t, Count: 7}).Records
		return fmt.Sprintf("%d..%d, committed %d", got[0].Offset, got[len(got)-1].Offset, p.b.committed(p.ctx, group, t, 0))
	}
	return part() + "; then " + part()
}

func groupListDelete(p *play) string {
	t := p.topic(1)
	group := t + "-group"
	p.b.commit(p.ctx, p, group, t)
	p.eventually("the group is listed", func() bool { return slices.Contains(p.do(request{Op: "groups"}).Names, group) })
	p.do(request{Op: "delete-group", Group: group})
	return fmt.Sprintf("listed, deleted; committed %d; again: %s", p.b.committed(p.ctx, group, t, 0),
		p.try(request{Op: "delete-group", Group: group}))
}

func toolProducerPerf(p *play) string {
	t := p.topic(1)
	text := p.do(request{Op: "tool", Name: "producer-perf", Topic: t, Count: 2000, Args: []string{"--throughput", "-1"}}).Text
	return fmt.Sprintf("%s; end %d", text, p.b.end(p.ctx, t, 0))
}

func toolVerifiable(p *play) string {
	t := p.topic(1)
	text := p.do(request{Op: "tool", Name: "verifiable-producer", Topic: t, Count: 100}).Text
	return fmt.Sprintf("%s; end %d", text, p.b.end(p.ctx, t, 0))
}
