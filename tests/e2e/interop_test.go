package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/tests/e2e/node"
	"github.com/sluicemq/sluice/tests/e2e/raw"
)

// codecNames are the codecs of record batches as kcat calls them, each at its
// number.
var codecNames = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// producers write messages to partition 0 of a topic, each with another client.
var producers = map[string]func(t testing.TB, n *node.Node, topic string, codec int, messages []message){
	"kcat":     kcatWrite,
	"franz-go": franzWrite,
	"sarama":   saramaWrite,
}

// consumers read count messages of partition 0 of a topic, each with another
// client.
var consumers = map[string]func(t testing.TB, n *node.Node, topic string, count int) []message{
	"kcat": func(t testing.TB, n *node.Node, topic string, count int) []message {
		return kcatConsume(t, n, topic, 0, count, "-X", "fetch.message.max.bytes=20000000")
	},
	"franz-go": func(t testing.TB, n *node.Node, topic string, count int) []message {
		return franzConsume(t, n, topic, 0, count)
	},
	"sarama": func(t testing.TB, n *node.Node, topic string, count int) []message {
		return saramaConsume(t, n, topic, 0, count)
	},
}

// kcatWrite needs messages with keys and values of text, not null, that all
// have the same headers.
func kcatWrite(t testing.TB, n *node.Node, topic string, codec int, messages []message) {
	t.Helper()
	var lines strings.Builder
	for _, m := range messages {
		fmt.Fprintf(&lines, "%s:%s\n", m.key, m.value)
	}
	args := []string{"-t", topic, "-p", "0", "-K", ":", "-z", codecNames[codec], "-X", "message.max.bytes=11000000"}
	for _, h := range messages[0].headers {
		args = append(args, "-H", h.name+"="+string(h.value))
	}
	if _, err := kcatProduce(t, n, lines.String(), args...); err != nil {
		t.Fatal(err)
	}
}

func franzWrite(t testing.TB, n *node.Node, topic string, codec int, messages []message) {
	t.Helper()
	cl := newFranz(t, n, kgo.ProducerBatchCompression(raw.Codecs()[codec]), kgo.ProducerBatchMaxBytes(11_000_000), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer cl.Close()
	var records []*kgo.Record
	for _, m := range messages {
		r := &kgo.Record{Topic: topic, Key: m.key, Value: m.value}
		for _, h := range m.headers {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.name, Value: h.value})
		}
		records = append(records, r)
	}
	if err := cl.ProduceSync(deadline(t), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func saramaWrite(t testing.TB, n *node.Node, topic string, codec int, messages []message) {
	t.Helper()
	producer := saramaProducer(t, n, func(c *sarama.Config) {
		c.Producer.Compression = sarama.CompressionCodec(codec)
		c.Producer.MaxMessageBytes = 11_000_000
		c.Producer.Idempotent, c.Net.MaxOpenRequests = true, 1
	})
	encoder := func(b []byte) sarama.Encoder {
		if b == nil {
			return nil
		}
		return sarama.ByteEncoder(b)
	}
	var out []*sarama.ProducerMessage
	for _, m := range messages {
		p := &sarama.ProducerMessage{Topic: topic, Key: encoder(m.key), Value: encoder(m.value)}
		for _, h := range m.headers {
			p.Headers = append(p.Headers, sarama.RecordHeader{Key: []byte(h.name), Value: h.value})
		}
		out = append(out, p)
	}
	if err := producer.SendMessages(out); err != nil {
		t.Fatal(err)
	}
}

// expectMessages compares messages byte by byte, null and empty told apart.
func expectMessages(t testing.TB, who string, got, want []message) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d messages, want %d", who, len(got), len(want))
		return
	}
	same := func(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
	for i := range want {
		g, w := &got[i], &want[i]
		ok := same(g.key, w.key) && same(g.value, w.value) && len(g.headers) == len(w.headers) && g.offset == int64(i)
		for j := 0; ok && j < len(w.headers); j++ {
			ok = g.headers[j].name == w.headers[j].name && same(g.headers[j].value, w.headers[j].value)
		}
		if !ok {
			t.Errorf("%s: message %d is %s, want %s", who, i, show(g), show(w))
			return
		}
	}
}

func show(m *message) string {
	one := func(b []byte) string {
		if b == nil {
			return "null"
		}
		return fmt.Sprintf("%.40q", b)
	}
	text := fmt.Sprintf("key %s value %s (%d bytes) at %d", one(m.key), one(m.value), len(m.value), m.offset)
	for _, h := range m.headers {
		text += fmt.Sprintf(" %s=%s", h.name, one(h.value))
	}
	return text
}

// B50
func TestEveryClientReadsWhatEveryOtherWrote(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	var messages []message
	random := rand.New(rand.NewPCG(5, 6))
	for i := range 1000 {
		messages = append(messages, message{
			key: []byte("key " + strconv.Itoa(i%7)), value: []byte(fmt.Sprintf("välue %d: %x", i, make([]byte, i%13)) + strconv.FormatUint(random.Uint64(), 36)),
			headers: []header{{"trace", []byte("abc")}, {"empty", []byte{}}, {"trace", []byte("twice")}},
		})
	}
	for client, write := range producers {
		for codec, name := range codecNames {
			topic := client + "." + name
			makeTopic(t, c, topic, 1)
			write(t, n, topic, codec, messages)
			batches, err := raw.Split(fetchOne(t, c, makeName(topic), 0, 0).RecordBatches)
			// A client may leave a batch as it is if compressing makes it no smaller.
			if err != nil || !slices.ContainsFunc(batches, func(b kmsg.RecordBatch) bool { return int(b.Attributes&7) == codec }) {
				t.Errorf("%s was to write with %s: %d batches, %v", client, name, len(batches), err)
			}
		}
	}
	readAll := func(when string) {
		t.Run(when, func(t *testing.T) {
			for reader, read := range consumers {
				t.Run(reader, func(t *testing.T) {
					t.Parallel()
					for writer := range producers {
						for _, name := range codecNames {
							expectMessages(t, fmt.Sprint(writer, " wrote with ", name), read(t, n, writer+"."+name, len(messages)), messages)
						}
					}
				})
			}
		})
	}
	readAll("at once")
	n.Kill()
	n.Restart()
	readAll("after a crash")
}

// makeName is the topic of a name where its id does not matter.
func makeName(name string) topic { return topic{name: name} }

// B26
func TestNullAndEmptyAreToldApart(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	values := [][]byte{nil, {}, []byte("x")}
	var all []message
	for _, key := range values {
		for _, value := range values {
			all = append(all, message{key: key, value: value, headers: []header{{"null", nil}, {"empty", []byte{}}, {"x", []byte("x")}, {"", []byte("no name")}}})
		}
	}
	check := func(topic string, want []message) {
		t.Helper()
		for reader, read := range consumers {
			expectMessages(t, reader+" reads "+topic, read(t, n, topic, len(want)), want)
		}
	}
	for _, client := range []string{"franz-go", "sarama"} {
		for codec, name := range codecNames {
			topic := client + "." + name
			makeTopic(t, c, topic, 1)
			producers[client](t, n, topic, codec, all)
			check(topic, all)
		}
	}
	// kcat writes one kind of empty at a time, and one set of headers.
	makeTopic(t, c, "kcat", 1)
	headers := []header{{"null", nil}, {"empty", []byte{}}, {"x", []byte("x")}}
	var want []message
	for _, mode := range []string{"", "-Z"} {
		args := []string{"-t", "kcat", "-p", "0", "-K", ":", "-H", "null", "-H", "empty=", "-H", "x=x"}
		empty := []byte{}
		if mode != "" {
			args, empty = append(args, mode), nil
		}
		if _, err := kcatProduce(t, n, ":x\nx:\nx:x\n", args...); err != nil {
			t.Fatal(err)
		}
		want = append(want, message{key: empty, value: []byte("x"), headers: headers},
			message{key: []byte("x"), value: empty, headers: headers}, message{key: []byte("x"), value: []byte("x"), headers: headers})
	}
	check("kcat", want)
}

func TestTenMegabyteMessagesPassBetweenAllClients(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{Set: []string{"message.max.bytes=12000000", "commitlog.segment.bytes=268435456"}})
	c := raw.Dial(t, n.Addr())
	value := bytes.Repeat([]byte("0123456789"), 1_000_000)
	messages := []message{{key: []byte("a"), value: value}, {key: []byte("b"), value: []byte("small")}, {key: []byte("c"), value: value}}
	for writer, write := range producers {
		makeTopic(t, c, writer, 1)
		write(t, n, writer, 0, messages)
		for reader, read := range consumers {
			expectMessages(t, reader+" reads what "+writer+" wrote", read(t, n, writer, len(messages)), messages)
		}
	}
}

func TestAMillionRecordsArriveOnceAndInOrder(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	const count, partitions = 1_000_000, 8
	makeTopic(t, raw.Dial(t, n.Addr()), "million", partitions)
	cl := newFranz(t, n, kgo.DefaultProduceTopic("million"), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ConsumeTopics("million"))
	began := time.Now()
	for i := range count {
		cl.Produce(context.Background(), &kgo.Record{Partition: int32(i % partitions), Value: strconv.AppendInt(nil, int64(i), 10)}, func(r *kgo.Record, err error) {
			if err != nil || r.Offset != int64(i/partitions) {
				t.Errorf("record %d: offset %d, %v", i, r.Offset, err)
			}
		})
	}
	if err := cl.Flush(deadline(t)); err != nil || t.Failed() {
		t.Fatal(err)
	}
	t.Logf("produced in %v", time.Since(began))
	began = time.Now()
	next := make([]int64, partitions)
	for _, r := range poll(t, cl, count) {
		if want := next[r.Partition]*partitions + int64(r.Partition); r.Offset != next[r.Partition] || string(r.Value) != strconv.FormatInt(want, 10) {
			t.Fatalf("partition %d: offset %d holds %q, want offset %d and %d", r.Partition, r.Offset, r.Value, next[r.Partition], want)
		}
		next[r.Partition]++
	}
	t.Logf("consumed in %v", time.Since(began))
	// All of it is in a segment that is not full: the start has it to read again.
	n.Kill()
	began = time.Now()
	n.Restart()
	t.Logf("started again in %v", time.Since(began))
	if counts := saramaCount(t, n, "million", count); len(counts) != partitions {
		t.Errorf("sarama read %v", counts)
	}
	lines := strings.Split(strings.TrimSpace(kcat(t, n, "", "-C", "-t", "million", "-o", "beginning", "-e", "-f", `%p %o %s\n`)), "\n")
	if len(lines) != count {
		t.Fatalf("kcat printed %d records", len(lines))
	}
	clear(next)
	for _, line := range lines {
		var p, offset, value int64
		if _, err := fmt.Sscan(line, &p, &offset, &value); err != nil {
			t.Fatal(err)
		}
		if offset != next[p] || value != offset*partitions+p {
			t.Fatalf("kcat printed %q, want offset %d", line, next[p])
		}
		next[p]++
	}
}

func TestAThousandPartitionsAreWrittenAndReadByAllClients(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	const partitions = 1000
	makeTopic(t, raw.Dial(t, n.Addr()), "thousand", partitions)
	cl := newFranz(t, n, kgo.DefaultProduceTopic("thousand"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	var records []*kgo.Record
	var messages []*sarama.ProducerMessage
	for p := range int32(partitions) {
		records = append(records, &kgo.Record{Partition: p, Value: []byte("franz-go")})
		messages = append(messages, &sarama.ProducerMessage{Topic: "thousand", Partition: p, Value: sarama.StringEncoder("sarama")})
	}
	if err := cl.ProduceSync(deadline(t), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := saramaProducer(t, n).SendMessages(messages); err != nil {
		t.Fatal(err)
	}
	// kcat spreads records with keys over the partitions by itself.
	var lines strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&lines, "%d:kcat\n", i)
	}
	if _, err := kcatProduce(t, n, lines.String(), "-t", "thousand", "-K", ":"); err != nil {
		t.Fatal(err)
	}
	const count = 2*partitions + 5000
	check := func(who string, values map[int32][]string) {
		t.Helper()
		total := 0
		for p := range int32(partitions) {
			if v := values[p]; len(v) < 2 || v[0] != "franz-go" || v[1] != "sarama" {
				t.Fatalf("%s: partition %d has %q", who, p, v)
			}
			total += len(values[p])
		}
		if total != count {
			t.Errorf("%s read %d records, want %d", who, total, count)
		}
	}
	got := map[int32][]string{}
	for _, r := range poll(t, newFranz(t, n, kgo.ConsumeTopics("thousand")), count) {
		got[r.Partition] = append(got[r.Partition], string(r.Value))
	}
	check("franz-go", got)
	got = map[int32][]string{}
	for _, m := range kcatMessages(t, kcat(t, n, "", "-C", "-t", "thousand", "-o", "beginning", "-e", "-J")) {
		got[m.partition] = append(got[m.partition], string(m.value))
	}
	check("kcat", got)
	total := 0
	for _, c := range saramaCount(t, n, "thousand", count) {
		total += c
	}
	if total != count {
		t.Errorf("sarama read %d records", total)
	}
}

// B104
func TestATopicThatIsMadeAgainIsAnotherOne(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	old := makeTopic(t, c, "again", 1, "retention.ms", "1000000000")
	quick := []kgo.Opt{kgo.MetadataMinAge(100 * time.Millisecond), kgo.FetchMaxWait(500 * time.Millisecond)}
	producer := newFranz(t, n, append(quick, kgo.DefaultProduceTopic("again"))...)
	consumer := newFranz(t, n, append(quick, kgo.ConsumeTopics("again"))...)
	other := saramaProducer(t, n, func(c *sarama.Config) {
		c.Producer.Idempotent, c.Net.MaxOpenRequests, c.Producer.Retry.Backoff = true, 1, 50*time.Millisecond
	})
	send := func(value string) {
		t.Helper()
		if err := producer.ProduceSync(deadline(t), kgo.StringRecord(value)).FirstErr(); err != nil {
			t.Fatalf("franz-go, %s: %v", value, err)
		}
		if _, _, err := other.SendMessage(&sarama.ProducerMessage{Topic: "again", Value: sarama.StringEncoder(value)}); err != nil {
			t.Fatalf("sarama, %s: %v", value, err)
		}
	}
	for range 5 {
		send("old")
	}
	poll(t, consumer, 10)
	id := newProducer(t, c)
	b := raw.Values(time.Now().UnixMilli(), "raw")
	b.Producer = &raw.Producer{ID: id}
	write(t, c, old, 0, b)
	session := openSession(t, c, from{old, 0, 0})

	dropTopic(t, c, "again")
	renewed := makeTopic(t, c, "again", 1)
	if renewed.id == old.id {
		t.Error("the topic has the id that it had before")
	}
	if got := configOf(c, "again", "retention.ms"); got != "604800000" {
		t.Errorf("the topic has retention.ms %s", got)
	}
	if end := listOffset(t, c, renewed, 0, latest).Offset; end != 0 {
		t.Errorf("the topic begins with %d records", end)
	}
	// What was known of the old topic does not concern the new one.
	if a := produce(c, 13, into{topic{id: old.id}, 0, b.Bytes()}); a[0].ErrorCode != unknownTopicID {
		t.Errorf("produce by the old id: %+v", a)
	}
	if got := write(t, c, renewed, 0, b); got != 0 { // the same sequence, but no repetition
		t.Errorf("a batch was taken for the repetition of one in the old topic: offset %d", got)
	}
	r := sessionRequest(session, 1)
	r.SetVersion(fetchVersion)
	if _, err := c.Try(r); err != nil {
		t.Errorf("the fetch session: %v", err)
	}
	// Clients go on, with what is new. franz-go tells its user that the topic is
	// another one, and wants to be told to go on with that.
	if err := producer.ProduceSync(deadline(t), kgo.StringRecord("lost")).FirstErr(); !errors.Is(err, kerr.UnknownTopicID) {
		t.Errorf("franz-go's producer was told %v", err)
	}
	producer.PurgeTopicsFromClient("again")
	waitFor(t, "the consumer to notice", func() bool {
		return errors.Is(consumer.PollFetches(deadline(t)).Err0(), kerr.UnknownTopicID)
	})
	consumer.PurgeTopicsFromClient("again")
	consumer.AddConsumeTopics("again")
	for range 5 {
		send("new")
	}
	want := []string{"raw"}
	for range 5 {
		want = append(want, "new", "new")
	}
	var got []string
	for _, r := range poll(t, consumer, len(want)) {
		got = append(got, string(r.Value))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the consumer read %q, want %q", got, want)
	}
	if got := kcatConsume(t, n, "again", 0, 11); len(got) != 11 || got[10].offset != 10 {
		t.Errorf("kcat read %d records", len(got))
	}
	n.Kill()
	n.Restart()
	c = raw.Dial(t, n.Addr())
	if end := listOffset(t, c, renewed, 0, latest).Offset; end != 11 {
		t.Errorf("after a crash the topic ends at %d", end)
	}
	if got := metadata(c, 12, false, "again").Topics[0].TopicID; got != renewed.id {
		t.Errorf("after a crash the topic has id %x, want %x", got, renewed.id)
	}
}
