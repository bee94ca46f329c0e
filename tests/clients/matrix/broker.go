package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// codecNames are the codecs of the canonical topics, whose names end in them.
var codecNames = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// canonicalCount is how many records each canonical topic has.
const canonicalCount = 30

// broker is one of the two that are compared, with a client of the runner's own for what a scenario
// needs but is not about. It is safe for concurrent use.
type broker struct {
	name      string
	addr      string
	node      string
	canonical string
	cl        *kgo.Client
	adm       *kadm.Client
}

func meet(ctx context.Context, name, addr, runID string) (*broker, error) {
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(5*time.Millisecond),
		kgo.MetadataMinAge(10*time.Millisecond), // Scenarios ask what has just changed.
	)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	b := &broker{name: name, addr: addr, cl: cl, adm: kadm.NewClient(cl), canonical: "canonical-" + runID + "-"}
	meta, err := b.adm.BrokerMetadata(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: metadata: %w", name, err)
	}
	if len(meta.Brokers) == 0 {
		return nil, fmt.Errorf("%s: no broker in its metadata", name)
	}
	b.node = strconv.Itoa(int(meta.Brokers[0].NodeID))
	if err := b.warmUp(ctx); err != nil {
		return nil, err
	}
	return b, b.writeCanonical(ctx)
}

// warmUp waits until groups are served: Kafka makes a topic for them at the first question, and
// tells clients to wait while it loads it.
func (b *broker) warmUp(ctx context.Context) error {
	deadline := time.Now().Add(30 * time.Second)
	for {
		found := b.adm.FindGroupCoordinators(ctx, "warm-up")
		err := found.Error()
		if err == nil {
			_, err = b.adm.ListGroups(ctx)
		}
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: groups are not served: %w", b.name, err)
		}
		<-time.After(50 * time.Millisecond)
	}
}

func (b *broker) close() { b.cl.Close() }

// writeCanonical fills the topics that every client reads: one for each codec, with all that a record
// can be.
func (b *broker) writeCanonical(ctx context.Context) error {
	forever := "-1"
	for i, codec := range []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	} {
		cl, err := kgo.NewClient(
			kgo.SeedBrokers(b.addr), kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(50*time.Millisecond),
		)
		if err != nil {
			return err
		}
		topic := b.canonical + codecNames[i]
		if err := b.create(ctx, topic, 1, map[string]*string{"retention.ms": &forever}); err != nil {
			return err
		}
		var records []*kgo.Record
		for n := range canonicalCount {
			r := &kgo.Record{
				Topic: topic, Timestamp: time.UnixMilli(fixed + int64(n*7%11)),
				Key: fmt.Appendf(nil, "key-%d", n), Value: []byte(strings.Repeat("canonical ", n*20)),
			}
			switch n % 5 {
			case 1:
				r.Key = nil
			case 2:
				r.Value = nil
			case 3:
				r.Headers = []kgo.RecordHeader{{Key: "h", Value: []byte("1")}, {Key: "h", Value: []byte("2")}}
			case 4:
				r.Headers = []kgo.RecordHeader{{Key: "empty", Value: []byte{}}}
			}
			records = append(records, r)
		}
		// Three batches: the client sends what it has when flushed.
		for part := range slices.Chunk(records, canonicalCount/3) {
			if err := cl.ProduceSync(ctx, part...).FirstErr(); err != nil {
				cl.Close()
				return fmt.Errorf("%s: write the canonical records: %w", b.name, err)
			}
		}
		cl.Close()
	}
	return nil
}

// create makes a topic and waits until it is served.
func (b *broker) create(ctx context.Context, name string, partitions int32, configs map[string]*string) error {
	if _, err := b.adm.CreateTopic(ctx, partitions, 1, configs, name); err != nil {
		return fmt.Errorf("%s: create topic: %w", b.name, err)
	}
	deadline := time.Now().Add(15 * time.Second)
	for {
		ends, err := b.adm.ListEndOffsets(ctx, name)
		if err == nil && ends.Error() == nil && len(ends[name]) == int(partitions) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: topic is not served: %w", b.name, err)
		}
		<-time.After(10 * time.Millisecond)
	}
}

func (b *broker) exists(ctx context.Context, name string) bool { return b.partitions(ctx, name) > 0 }

func (b *broker) partitions(ctx context.Context, name string) int {
	topics, err := b.adm.ListTopics(ctx, name)
	if err != nil {
		return 0
	}
	return len(topics[name].Partitions)
}

// overrides tells the settings that a topic has of its own.
func (b *broker) overrides(ctx context.Context, p *play, name string) string {
	out := ""
	p.eventually("the topic's settings can be read", func() bool {
		rs, err := b.adm.DescribeTopicConfigs(ctx, name)
		if err != nil || len(rs) != 1 || rs[0].Err != nil {
			return false
		}
		var parts []string
		for _, c := range rs[0].Configs {
			if c.Source.String() == "DYNAMIC_TOPIC_CONFIG" {
				parts = append(parts, c.Key+"="+c.MaybeValue())
			}
		}
		slices.Sort(parts)
		out = strings.Join(parts, " ")
		return true
	})
	return out
}

func (b *broker) end(ctx context.Context, name string, partition int32) int64 {
	ends, err := b.adm.ListEndOffsets(ctx, name)
	if err != nil {
		return -1
	}
	return ends[name][partition].Offset
}

// committed returns the offset that a group has committed, -1 if none.
func (b *broker) committed(ctx context.Context, group, topic string, partition int32) int64 {
	offsets, err := b.adm.FetchOffsets(ctx, group)
	if err != nil {
		return -2
	}
	if o, ok := offsets.Lookup(topic, partition); ok {
		return o.At
	}
	return -1
}

// commit makes a group by committing an offset for it.
func (b *broker) commit(ctx context.Context, p *play, group, topic string) {
	var os kadm.Offsets
	os.Add(kadm.Offset{Topic: topic, Partition: 0, At: 0, LeaderEpoch: -1})
	if err := b.adm.CommitAllOffsets(ctx, group, os); err != nil {
		p.fail("set up: commit: %w", err)
	}
}

// write appends records with the given timestamps, a batch each.
func (b *broker) write(ctx context.Context, p *play, topic string, partition int32, times ...int64) {
	for i, ts := range times {
		r := &kgo.Record{Topic: topic, Partition: partition, Value: fmt.Appendf(nil, "%d", i), Timestamp: time.UnixMilli(ts)}
		if err := b.cl.ProduceSync(ctx, r).FirstErr(); err != nil {
			p.fail("set up: produce: %w", err)
		}
	}
}

// writeBatch appends one batch of n records.
func (b *broker) writeBatch(ctx context.Context, p *play, topic string, partition int32, n int) {
	var rs []*kgo.Record
	for i := range n {
		rs = append(rs, &kgo.Record{Topic: topic, Partition: partition, Value: fmt.Appendf(nil, "value %d", i), Timestamp: time.Now().Truncate(time.Second)})
	}
	if err := b.cl.ProduceSync(ctx, rs...).FirstErr(); err != nil {
		p.fail("set up: produce: %w", err)
	}
}

// read returns the first records of a partition, as the runner's own client sees them.
func (b *broker) read(ctx context.Context, p *play, topic string, partition int32, n int) []record {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		topic: {partition: kgo.NewOffset().At(0)},
	}))
	if err != nil {
		p.fail("read back: %w", err)
	}
	defer cl.Close()
	var out []record
	for len(out) < n {
		fs := cl.PollFetches(ctx)
		if err := fs.Err0(); err != nil {
			p.fail("read back: %w", err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			x := record{Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Key: r.Key, Value: r.Value}
			for _, h := range r.Headers {
				x.Headers = append(x.Headers, header{h.Key, h.Value})
			}
			out = append(out, x)
		})
	}
	return out[:n]
}
