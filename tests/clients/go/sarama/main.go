// Command sarama drives the Sarama client.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/IBM/sarama"

	"github.com/sluicemq/sluice/tests/clients/go/driver"
)

var codecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

type client struct {
	addr string
	cl   sarama.Client
	adm  sarama.ClusterAdmin
}

func config() *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.MaxVersion
	c.Consumer.Return.Errors = true
	c.Metadata.AllowAutoTopicCreation = false
	return c
}

func main() {
	cl, err := sarama.NewClient([]string{os.Args[1]}, config())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	adm, err := sarama.NewClusterAdminFromClient(cl)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	c := &client{os.Args[1], cl, adm}
	driver.Serve(map[string]driver.Handler{
		"cluster": c.cluster, "topics": c.topics, "create": c.create, "delete": c.delete, "describe": c.describe,
		"add-partitions": c.addPartitions, "configs": c.configs, "alter": c.alter, "produce": c.produce,
		"consume": c.consume, "offsets": c.offsets, "delete-records": c.deleteRecords, "log-dirs": c.logDirs,
		"group-consume": c.groupConsume, "groups": c.groups, "delete-group": c.deleteGroup,
		"transaction": c.transaction, "copy": c.copy,
	})
	adm.Close()
}

func coded(err error) error {
	var k sarama.KError
	var t *sarama.TopicError
	var p *sarama.TopicPartitionError
	switch {
	case errors.As(err, &t):
		return driver.Code(t.Err)
	case errors.As(err, &p):
		return driver.Code(p.Err)
	case errors.As(err, &k):
		return driver.Code(k)
	}
	return err
}

func (c *client) cluster(context.Context, *driver.Request) (*driver.Response, error) {
	brokers, controller, err := c.adm.DescribeCluster()
	return &driver.Response{Brokers: len(brokers), Controller: controller >= 0}, coded(err)
}

func (c *client) topics(context.Context, *driver.Request) (*driver.Response, error) {
	ts, err := c.adm.ListTopics()
	var resp driver.Response
	for t := range ts {
		resp.Names = append(resp.Names, t)
	}
	return &resp, coded(err)
}

func (c *client) create(_ context.Context, r *driver.Request) (*driver.Response, error) {
	d := &sarama.TopicDetail{NumPartitions: r.Partitions, ReplicationFactor: 1, ConfigEntries: make(map[string]*string)}
	for k, v := range r.Configs {
		d.ConfigEntries[k] = &v
	}
	return nil, coded(c.adm.CreateTopic(r.Topic, d, false))
}

func (c *client) delete(_ context.Context, r *driver.Request) (*driver.Response, error) {
	return nil, coded(c.adm.DeleteTopic(r.Topic))
}

func (c *client) describe(_ context.Context, r *driver.Request) (*driver.Response, error) {
	ms, err := c.adm.DescribeTopics([]string{r.Topic})
	if err != nil {
		return nil, coded(err)
	}
	m := ms[0]
	if m.Err != sarama.ErrNoError {
		return nil, coded(m.Err)
	}
	resp := &driver.Response{Partitions: int32(len(m.Partitions)), Internal: m.IsInternal}
	if len(m.Partitions) > 0 {
		resp.Replicas = len(m.Partitions[0].Replicas)
	}
	return resp, nil
}

func (c *client) addPartitions(_ context.Context, r *driver.Request) (*driver.Response, error) {
	return nil, coded(c.adm.CreatePartitions(r.Topic, r.Partitions, nil, false))
}

func resource(kind string) sarama.ConfigResourceType {
	if kind == "topic" {
		return sarama.TopicResource
	}
	return sarama.BrokerResource
}

func (c *client) configs(_ context.Context, r *driver.Request) (*driver.Response, error) {
	rs, err := c.adm.DescribeConfigs(
		[]*sarama.ConfigResource{{Type: resource(r.Kind), Name: r.Name, ConfigNames: r.Keys}}, sarama.DescribeConfigsOptions{})
	if err != nil {
		return nil, coded(err)
	}
	out := make(map[string]string)
	for _, res := range rs {
		if res.ErrorCode != sarama.ErrNoError {
			return nil, coded(res.ErrorCode)
		}
		for _, e := range res.Configs {
			if slices.Contains(r.Keys, e.Name) {
				out[e.Name] = fmt.Sprintf("%s (%s)", e.Value, e.Source)
			}
		}
	}
	return &driver.Response{Configs: out}, nil
}

func (c *client) alter(_ context.Context, r *driver.Request) (*driver.Response, error) {
	if r.Mode == "legacy" {
		entries := make(map[string]*string)
		for _, ch := range r.Changes {
			entries[ch.Key] = ch.Value
		}
		return nil, coded(c.adm.AlterConfig(resource(r.Kind), r.Name, entries, false))
	}
	ops := map[string]sarama.IncrementalAlterConfigsOperation{
		"set": sarama.IncrementalAlterConfigsOperationSet, "delete": sarama.IncrementalAlterConfigsOperationDelete,
		"append": sarama.IncrementalAlterConfigsOperationAppend, "subtract": sarama.IncrementalAlterConfigsOperationSubtract,
	}
	entries := make(map[string]sarama.IncrementalAlterConfigsEntry)
	for _, ch := range r.Changes {
		entries[ch.Key] = sarama.IncrementalAlterConfigsEntry{Operation: ops[ch.Op], Value: ch.Value}
	}
	return nil, coded(c.adm.IncrementalAlterConfig(resource(r.Kind), r.Name, entries, false))
}

func (c *client) produce(_ context.Context, r *driver.Request) (*driver.Response, error) {
	cfg := config()
	cfg.Metadata.AllowAutoTopicCreation = true
	cfg.Producer.Partitioner = sarama.NewManualPartitioner
	cfg.Producer.Compression = codecs[r.Codec]
	cfg.Producer.Return.Successes = true
	cfg.Producer.Flush.Frequency = 20 * time.Millisecond
	switch r.Acks {
	case "0":
		cfg.Producer.RequiredAcks = sarama.NoResponse
	case "1":
		cfg.Producer.RequiredAcks = sarama.WaitForLocal
	default:
		cfg.Producer.RequiredAcks = sarama.WaitForAll
	}
	if r.Idempotent {
		cfg.Producer.Idempotent, cfg.Net.MaxOpenRequests = true, 1
	}
	if r.MaxBytes > 0 {
		cfg.Producer.MaxMessageBytes = r.MaxBytes
	}
	p, err := sarama.NewSyncProducer([]string{c.addr}, cfg)
	if err != nil {
		return nil, coded(err)
	}
	defer p.Close()
	var ms []*sarama.ProducerMessage
	for _, x := range r.Records {
		m := &sarama.ProducerMessage{Topic: r.Topic, Partition: r.Partition}
		if x.Key != nil {
			m.Key = sarama.ByteEncoder(x.Key)
		}
		if x.Value != nil {
			m.Value = sarama.ByteEncoder(x.Value)
		}
		if x.Timestamp != 0 {
			m.Timestamp = time.UnixMilli(x.Timestamp)
		}
		for _, h := range x.Headers {
			m.Headers = append(m.Headers, sarama.RecordHeader{Key: []byte(h.Name), Value: h.Value})
		}
		ms = append(ms, m)
	}
	if err := p.SendMessages(ms); err != nil {
		var es sarama.ProducerErrors
		if errors.As(err, &es) && len(es) > 0 {
			return nil, coded(es[0].Err)
		}
		return nil, coded(err)
	}
	var resp driver.Response
	for _, m := range ms {
		resp.Offsets = append(resp.Offsets, m.Offset)
	}
	return &resp, nil
}

func (c *client) consume(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	cfg := config()
	if r.MaxBytes > 0 {
		cfg.Consumer.Fetch.Default = int32(r.PartitionMaxBytes)
	}
	if r.Isolation == "read_committed" {
		cfg.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	con, err := sarama.NewConsumer([]string{c.addr}, cfg)
	if err != nil {
		return nil, coded(err)
	}
	defer con.Close()
	pc, err := con.ConsumePartition(r.Topic, r.Partition, r.Offset)
	if err != nil {
		return nil, coded(err)
	}
	defer pc.Close()
	var resp driver.Response
	for len(resp.Records) < r.Count {
		select {
		case x := <-pc.Messages():
			out := driver.Record{Offset: x.Offset, Timestamp: x.Timestamp.UnixMilli(), Key: x.Key, Value: x.Value}
			for _, h := range x.Headers {
				out.Headers = append(out.Headers, driver.Header{Name: string(h.Key), Value: h.Value})
			}
			resp.Records = append(resp.Records, out)
		case err := <-pc.Errors():
			return nil, coded(err.Err)
		case <-ctx.Done():
			return nil, fmt.Errorf("only %d of %d records came", len(resp.Records), r.Count)
		}
	}
	return &resp, nil
}

// taker takes some records of a claim, and commits.
type taker struct {
	count int
	resp  driver.Response
	done  func()
}

func (t *taker) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (t *taker) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (t *taker) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case m := <-claim.Messages():
			t.resp.Records = append(t.resp.Records, driver.Record{Offset: m.Offset})
			s.MarkMessage(m, "")
			if len(t.resp.Records) == t.count {
				s.Commit()
				t.done()
				return nil
			}
		case <-s.Context().Done():
			return nil
		}
	}
}

func (c *client) groupConsume(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	cfg := config()
	cfg.Consumer.Offsets.Initial = sarama.OffsetOldest
	cfg.Consumer.Offsets.AutoCommit.Enable = false
	g, err := sarama.NewConsumerGroup([]string{c.addr}, r.Group, cfg)
	if err != nil {
		return nil, coded(err)
	}
	defer g.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := &taker{count: r.Count, done: cancel}
	if err := g.Consume(ctx, []string{r.Topic}, t); err != nil {
		return nil, coded(err)
	}
	if len(t.resp.Records) < r.Count {
		return nil, fmt.Errorf("only %d of %d records came", len(t.resp.Records), r.Count)
	}
	return &t.resp, nil
}

func (c *client) groups(context.Context, *driver.Request) (*driver.Response, error) {
	gs, err := c.adm.ListConsumerGroups()
	var resp driver.Response
	for g := range gs {
		resp.Names = append(resp.Names, g)
	}
	return &resp, coded(err)
}

func (c *client) deleteGroup(_ context.Context, r *driver.Request) (*driver.Response, error) {
	return nil, coded(c.adm.DeleteConsumerGroup(r.Group))
}

func (c *client) offsets(_ context.Context, r *driver.Request) (*driver.Response, error) {
	at := map[string]int64{"earliest": sarama.OffsetOldest, "latest": sarama.OffsetNewest}[r.At]
	if r.At == "max-timestamp" {
		return nil, driver.ErrUnsupported
	}
	if at == 0 {
		at, _ = strconv.ParseInt(r.At, 10, 64)
	}
	if err := c.cl.RefreshMetadata(r.Topic); err != nil {
		return nil, coded(err)
	}
	o, err := c.cl.GetOffset(r.Topic, r.Partition, at)
	return &driver.Response{Offset: o}, coded(err)
}

func (c *client) deleteRecords(_ context.Context, r *driver.Request) (*driver.Response, error) {
	if err := c.cl.RefreshMetadata(r.Topic); err != nil {
		return nil, coded(err)
	}
	if err := c.adm.DeleteRecords(r.Topic, map[int32]int64{r.Partition: r.Offset}); err != nil {
		return nil, coded(err)
	}
	o, err := c.cl.GetOffset(r.Topic, r.Partition, sarama.OffsetOldest)
	return &driver.Response{Offset: o}, coded(err)
}

func (c *client) logDirs(_ context.Context, r *driver.Request) (*driver.Response, error) {
	var ids []int32
	for _, b := range c.cl.Brokers() {
		ids = append(ids, b.ID())
	}
	rs, err := c.adm.DescribeLogDirs(ids)
	if err != nil {
		return nil, coded(err)
	}
	var resp driver.Response
	for _, dirs := range rs {
		for _, d := range dirs {
			for _, t := range d.Topics {
				for _, p := range t.Partitions {
					if t.Topic == r.Topic {
						resp.Size += p.Size
					}
				}
			}
		}
	}
	return &resp, nil
}
