// Command franz-go drives the franz-go client.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicemq/sluice/tests/clients/go/driver"
)

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

type client struct {
	addr string
	cl   *kgo.Client
	adm  *kadm.Client
}

func main() {
	cl, err := kgo.NewClient(kgo.SeedBrokers(os.Args[1]), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	c := &client{os.Args[1], cl, kadm.NewClient(cl)}
	driver.Serve(map[string]driver.Handler{
		"cluster": c.cluster, "topics": c.topics, "create": c.create, "delete": c.delete, "describe": c.describe,
		"add-partitions": c.addPartitions, "configs": c.configs, "alter": c.alter, "produce": c.produce,
		"consume": c.consume, "offsets": c.offsets, "delete-records": c.deleteRecords, "log-dirs": c.logDirs,
		"group-consume": c.groupConsume, "groups": c.groups, "delete-group": c.deleteGroup,
		"transaction": c.transaction, "copy": c.copy,
	})
	cl.Close()
}

// coded turns a broker's error into its code.
func coded(err error) error {
	var e *kerr.Error
	if errors.As(err, &e) {
		return driver.Code(e.Code)
	}
	return err
}

func (c *client) cluster(ctx context.Context, _ *driver.Request) (*driver.Response, error) {
	m, err := c.adm.BrokerMetadata(ctx)
	if err != nil {
		return nil, coded(err)
	}
	return &driver.Response{Brokers: len(m.Brokers), Cluster: m.Cluster != "", Controller: m.Controller >= 0}, nil
}

func (c *client) topics(ctx context.Context, _ *driver.Request) (*driver.Response, error) {
	ts, err := c.adm.ListTopics(ctx)
	return &driver.Response{Names: ts.Names()}, coded(err)
}

func (c *client) create(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	configs := make(map[string]*string)
	for k, v := range r.Configs {
		configs[k] = &v
	}
	_, err := c.adm.CreateTopic(ctx, r.Partitions, 1, configs, r.Topic)
	return nil, coded(err)
}

func (c *client) delete(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	_, err := c.adm.DeleteTopic(ctx, r.Topic)
	return nil, coded(err)
}

func (c *client) describe(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	ts, err := c.adm.ListTopics(ctx, r.Topic)
	if err != nil {
		return nil, coded(err)
	}
	t := ts[r.Topic]
	if t.Err != nil {
		return nil, coded(t.Err)
	}
	return &driver.Response{Partitions: int32(len(t.Partitions)), Replicas: t.Partitions.NumReplicas(), Internal: t.IsInternal}, nil
}

func (c *client) addPartitions(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	rs, err := c.adm.UpdatePartitions(ctx, int(r.Partitions), r.Topic)
	if err != nil {
		return nil, coded(err)
	}
	return nil, coded(rs.Error())
}

func (c *client) configs(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	var rs kadm.ResourceConfigs
	var err error
	if r.Kind == "topic" {
		rs, err = c.adm.DescribeTopicConfigs(ctx, r.Name)
	} else {
		id, _ := strconv.Atoi(r.Name)
		rs, err = c.adm.DescribeBrokerConfigs(ctx, int32(id))
	}
	if err != nil {
		return nil, coded(err)
	}
	out := make(map[string]string)
	for _, res := range rs {
		if res.Err != nil {
			return nil, coded(res.Err)
		}
		for _, cfg := range res.Configs {
			if slices.Contains(r.Keys, cfg.Key) {
				out[cfg.Key] = cfg.MaybeValue() + " (" + cfg.Source.String() + ")"
			}
		}
	}
	return &driver.Response{Configs: out}, nil
}

func (c *client) alter(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	ops := map[string]kadm.IncrementalOp{"set": kadm.SetConfig, "delete": kadm.DeleteConfig, "append": kadm.AppendConfig, "subtract": kadm.SubtractConfig}
	var changes []kadm.AlterConfig
	for _, ch := range r.Changes {
		changes = append(changes, kadm.AlterConfig{Op: ops[ch.Op], Name: ch.Key, Value: ch.Value})
	}
	f := c.adm.AlterTopicConfigs
	if r.Mode == "legacy" {
		f = c.adm.AlterTopicConfigsState
	}
	rs, err := f(ctx, changes, r.Name)
	if err != nil {
		return nil, coded(err)
	}
	for _, res := range rs {
		if res.Err != nil {
			return nil, coded(res.Err)
		}
	}
	return nil, nil
}

func (c *client) produce(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.AllowAutoTopicCreation(),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.ProducerBatchCompression(codecs[r.Codec]), kgo.ProducerLinger(20 * time.Millisecond),
	}
	switch r.Acks {
	case "0":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()))
	case "1":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()))
	}
	if !r.Idempotent {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	if r.MaxBytes > 0 {
		opts = append(opts, kgo.ProducerBatchMaxBytes(int32(r.MaxBytes)))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	var records []*kgo.Record
	for _, x := range r.Records {
		rec := &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: x.Key, Value: x.Value}
		if x.Timestamp != 0 {
			rec.Timestamp = time.UnixMilli(x.Timestamp)
		}
		for _, h := range x.Headers {
			rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
		}
		records = append(records, rec)
	}
	var resp driver.Response
	for _, res := range cl.ProduceSync(ctx, records...) {
		if res.Err != nil {
			return nil, coded(res.Err)
		}
		resp.Offsets = append(resp.Offsets, res.Record.Offset)
	}
	// Results come as they finish; the offsets of one partition rise in the order of sending.
	slices.Sort(resp.Offsets)
	return &resp, nil
}

func (c *client) consume(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.addr),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{r.Topic: {r.Partition: kgo.NewOffset().At(r.Offset)}}),
	}
	if r.Isolation == "read_committed" {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if r.MaxBytes > 0 {
		opts = append(opts, kgo.FetchMaxBytes(int32(r.MaxBytes)), kgo.FetchMaxPartitionBytes(int32(r.PartitionMaxBytes)))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	var resp driver.Response
	for len(resp.Records) < r.Count {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			return nil, coded(err)
		}
		fs.EachRecord(func(x *kgo.Record) {
			out := driver.Record{Offset: x.Offset, Timestamp: x.Timestamp.UnixMilli(), Key: x.Key, Value: x.Value}
			for _, h := range x.Headers {
				out.Headers = append(out.Headers, driver.Header{Name: h.Key, Value: h.Value})
			}
			resp.Records = append(resp.Records, out)
		})
	}
	resp.Records = resp.Records[:r.Count]
	return &resp, nil
}

func (c *client) groupConsume(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(c.addr), kgo.ConsumerGroup(r.Group), kgo.ConsumeTopics(r.Topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	var resp driver.Response
	var last []*kgo.Record
	for len(resp.Records) < r.Count {
		fs := cl.PollRecords(ctx, r.Count-len(resp.Records))
		if err := fs.Err(); err != nil {
			return nil, coded(err)
		}
		fs.EachRecord(func(x *kgo.Record) {
			resp.Records = append(resp.Records, driver.Record{Offset: x.Offset})
			last = []*kgo.Record{x}
		})
	}
	return &resp, coded(cl.CommitRecords(ctx, last...))
}

func (c *client) groups(ctx context.Context, _ *driver.Request) (*driver.Response, error) {
	gs, err := c.adm.ListGroups(ctx)
	return &driver.Response{Names: gs.Groups()}, coded(err)
}

func (c *client) deleteGroup(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	_, err := c.adm.DeleteGroup(ctx, r.Group)
	return nil, coded(err)
}

func (c *client) offsets(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	var l kadm.ListedOffsets
	var err error
	switch r.At {
	case "earliest":
		l, err = c.adm.ListStartOffsets(ctx, r.Topic)
	case "latest":
		l, err = c.adm.ListEndOffsets(ctx, r.Topic)
	case "max-timestamp":
		l, err = c.adm.ListMaxTimestampOffsets(ctx, r.Topic)
	default:
		ms, _ := strconv.ParseInt(r.At, 10, 64)
		l, err = c.adm.ListOffsetsAfterMilli(ctx, ms, r.Topic)
	}
	if err != nil {
		return nil, coded(err)
	}
	o, _ := l.Lookup(r.Topic, r.Partition)
	return &driver.Response{Offset: o.Offset, Timestamp: o.Timestamp}, coded(o.Err)
}

func (c *client) deleteRecords(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	rs, err := c.adm.DeleteRecords(ctx, kadm.Offsets{r.Topic: {r.Partition: {Topic: r.Topic, Partition: r.Partition, At: r.Offset}}})
	if err != nil {
		return nil, coded(err)
	}
	d, _ := rs.Lookup(r.Topic, r.Partition)
	return &driver.Response{Offset: d.LowWatermark}, coded(d.Err)
}

func (c *client) logDirs(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	rs, err := c.adm.DescribeAllLogDirs(ctx, nil)
	if err != nil {
		return nil, coded(err)
	}
	var resp driver.Response
	rs.Each(func(d kadm.DescribedLogDir) {
		d.Topics.Each(func(p kadm.DescribedLogDirPartition) {
			if p.Topic == r.Topic {
				resp.Size += p.Size
			}
		})
	})
	return &resp, nil
}
