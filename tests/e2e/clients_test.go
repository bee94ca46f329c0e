package e2e

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

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
	config.MetricRegistry = nil
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Consumer.Return.Errors = true
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
