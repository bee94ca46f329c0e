package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/tests/e2e/node"
)

// patience bounds every wait of a client. It is generous: it only says when a
// test gives up.
const patience = 2 * time.Minute

// deadline returns a context that ends with the test or when patience is up.
func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// newFranz returns a franz-go client that is closed with the test.
func newFranz(t testing.TB, n *node.Node, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(n.Addr())}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// newAdmin returns franz-go's admin client.
func newAdmin(t testing.TB, n *node.Node) *kadm.Client {
	t.Helper()
	return kadm.NewClient(newFranz(t, n))
}

// poll returns the next records that a client consumes, at least count.
func poll(t testing.TB, cl *kgo.Client, count int) []*kgo.Record {
	t.Helper()
	ctx := deadline(t)
	var records []*kgo.Record
	for len(records) < count {
		fetches := cl.PollFetches(ctx)
		for _, e := range fetches.Errors() {
			t.Fatalf("consume %s/%d: %v (have %d of %d records)", e.Topic, e.Partition, e.Err, len(records), count)
		}
		records = append(records, fetches.Records()...)
	}
	return records
}

// newSarama returns a sarama client of a version; it is closed with the test.
func newSarama(t testing.TB, n *node.Node, version sarama.KafkaVersion, change ...func(*sarama.Config)) sarama.Client {
	t.Helper()
	config := sarama.NewConfig()
	config.Version = version
	config.ClientID = "sarama"
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Consumer.Return.Errors = true
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	for _, f := range change {
		f(config)
	}
	cl, err := sarama.NewClient([]string{n.Addr()}, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cl.Close(); err != nil && err != sarama.ErrClosedClient {
			t.Error(err)
		}
	})
	return cl
}

// franzConsume reads count records of a partition from its beginning.
func franzConsume(t testing.TB, n *node.Node, topic string, partition int32, count int, options ...kgo.Opt) []message {
	t.Helper()
	cl := newFranz(t, n, append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}))...)
	defer cl.Close()
	var messages []message
	for _, r := range poll(t, cl, count) {
		m := message{partition: r.Partition, offset: r.Offset, timestamp: r.Timestamp.UnixMilli(), key: r.Key, value: r.Value}
		for _, h := range r.Headers {
			m.headers = append(m.headers, header{h.Key, h.Value})
		}
		messages = append(messages, m)
	}
	return messages
}

// saramaConsume reads count records of a partition from its beginning.
func saramaConsume(t testing.TB, n *node.Node, topic string, partition int32, count int, change ...func(*sarama.Config)) []message {
	t.Helper()
	cl := newSarama(t, n, sarama.MaxVersion, change...)
	consumer, err := sarama.NewConsumerFromClient(cl)
	if err != nil {
		t.Fatal(err)
	}
	defer closeIt(t, consumer)
	from, err := consumer.ConsumePartition(topic, partition, sarama.OffsetOldest)
	if err != nil {
		t.Fatal(err)
	}
	defer closeIt(t, from)
	var messages []message
	ctx := deadline(t)
	for len(messages) < count {
		select {
		case in := <-from.Messages():
			m := message{partition: in.Partition, offset: in.Offset, timestamp: in.Timestamp.UnixMilli(), key: in.Key, value: in.Value}
			for _, h := range in.Headers {
				m.headers = append(m.headers, header{string(h.Key), h.Value})
			}
			messages = append(messages, m)
		case err := <-from.Errors():
			t.Fatalf("sarama: %v", err)
		case <-ctx.Done():
			t.Fatalf("sarama got %d of %d records", len(messages), count)
		}
	}
	return messages
}

// fetchSizes makes a sarama consumer ask for little at a time.
func fetchSizes(size int32) func(*sarama.Config) {
	return func(c *sarama.Config) { c.Consumer.Fetch.Default, c.Consumer.Fetch.Max = size, size }
}

// saramaCount reads count records of all partitions of a topic and returns how
// many each partition gave.
func saramaCount(t testing.TB, n *node.Node, topic string, count int) map[int32]int {
	t.Helper()
	cl := newSarama(t, n, sarama.MaxVersion)
	consumer, err := sarama.NewConsumerFromClient(cl)
	if err != nil {
		t.Fatal(err)
	}
	defer closeIt(t, consumer)
	partitions, err := cl.Partitions(topic)
	if err != nil {
		t.Fatal(err)
	}
	messages := make(chan *sarama.ConsumerMessage)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for _, p := range partitions {
		from, err := consumer.ConsumePartition(topic, p, sarama.OffsetOldest)
		if err != nil {
			t.Fatal(err)
		}
		running.Add(1)
		// Ends with this function.
		go func() {
			defer running.Done()
			defer closeIt(t, from)
			for {
				select {
				case m := <-from.Messages():
					select {
					case messages <- m:
					case <-ctx.Done():
						return
					}
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	counts := map[int32]int{}
	next := map[int32]int64{}
	for range count {
		select {
		case m := <-messages:
			if m.Offset != next[m.Partition] {
				t.Fatalf("sarama: partition %d: offset %d, want %d", m.Partition, m.Offset, next[m.Partition])
			}
			counts[m.Partition]++
			next[m.Partition]++
		case <-ctx.Done():
			t.Fatalf("sarama gave up after records of %d partitions", len(counts))
		}
	}
	return counts
}

func closeIt(t testing.TB, c io.Closer) {
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// fetchCount counts the Fetch requests of a franz-go client.
type fetchCount struct{ count atomic.Int64 }

func (f *fetchCount) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key == int16(kmsg.Fetch) && err == nil {
		f.count.Add(1)
	}
}

// connects counts connections of a franz-go client.
type connects struct {
	mu    sync.Mutex
	count map[int32]int
	bad   int
}

func (c *connects) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count == nil {
		c.count = map[int32]int{}
	}
	c.count[meta.NodeID]++
	if err != nil {
		c.bad++
	}
}

func (c *connects) OnBrokerDisconnect(kgo.BrokerMetadata, net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad++
}

func (c *connects) byBroker() map[int32]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[int32]int{}
	for id, n := range c.count {
		out[id] = n
	}
	return out
}

func (c *connects) failed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bad
}

// journal keeps what a franz-go client logs.
type journal struct {
	mu   sync.Mutex
	text []string
}

func (j *journal) Level() kgo.LogLevel { return kgo.LogLevelInfo }

func (j *journal) Log(level kgo.LogLevel, message string, pairs ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.text = append(j.text, strings.TrimSpace(fmt.Sprintln(append([]any{level, message}, pairs...)...)))
}

func (j *journal) lines() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]string(nil), j.text...)
}
