// Command kafka-go drives segmentio's kafka-go client.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/sluicemq/sluice/tests/clients/go/driver"
)

var codecs = map[string]kafka.Compression{
	"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
}

type client struct {
	addr string
	cl   *kafka.Client
}

func main() {
	c := &client{os.Args[1], &kafka.Client{Addr: kafka.TCP(os.Args[1]), Timeout: 20 * time.Second}}
	driver.Serve(map[string]driver.Handler{
		"cluster": c.cluster, "topics": c.topics, "create": c.create, "delete": c.delete, "describe": c.describe,
		"add-partitions": c.addPartitions, "configs": c.configs, "alter": c.alter, "produce": c.produce,
		"consume": c.consume, "offsets": c.offsets,
		"group-consume": c.groupConsume, "groups": c.groups, "delete-group": c.deleteGroup,
	})
}

func coded(err error) error {
	var k kafka.Error
	var w kafka.WriteErrors
	var l kafka.MessageTooLargeError
	switch {
	case errors.As(err, &w):
		for _, e := range w {
			if e != nil {
				return coded(e)
			}
		}
	case errors.As(err, &k):
		return driver.Code(k)
	case errors.As(err, &l):
		return errors.New("refused by the client: message too large")
	}
	return err
}

func (c *client) cluster(ctx context.Context, _ *driver.Request) (*driver.Response, error) {
	m, err := c.cl.Metadata(ctx, &kafka.MetadataRequest{})
	if err != nil {
		return nil, coded(err)
	}
	return &driver.Response{Brokers: len(m.Brokers), Cluster: m.ClusterID != "", Controller: m.Controller.Host != ""}, nil
}

func (c *client) topics(ctx context.Context, _ *driver.Request) (*driver.Response, error) {
	m, err := c.cl.Metadata(ctx, &kafka.MetadataRequest{})
	if err != nil {
		return nil, coded(err)
	}
	var resp driver.Response
	for _, t := range m.Topics {
		resp.Names = append(resp.Names, t.Name)
	}
	return &resp, nil
}

func (c *client) create(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	t := kafka.TopicConfig{Topic: r.Topic, NumPartitions: int(r.Partitions), ReplicationFactor: 1}
	for k, v := range r.Configs {
		t.ConfigEntries = append(t.ConfigEntries, kafka.ConfigEntry{ConfigName: k, ConfigValue: v})
	}
	resp, err := c.cl.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{t}})
	if err != nil {
		return nil, coded(err)
	}
	return nil, coded(resp.Errors[r.Topic])
}

func (c *client) delete(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	resp, err := c.cl.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{r.Topic}})
	if err != nil {
		return nil, coded(err)
	}
	return nil, coded(resp.Errors[r.Topic])
}

func (c *client) describe(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	m, err := c.cl.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{r.Topic}})
	if err != nil {
		return nil, coded(err)
	}
	t := m.Topics[0]
	if t.Error != nil {
		return nil, coded(t.Error)
	}
	resp := &driver.Response{Partitions: int32(len(t.Partitions)), Internal: t.Internal}
	if len(t.Partitions) > 0 {
		resp.Replicas = len(t.Partitions[0].Replicas)
	}
	return resp, nil
}

func (c *client) addPartitions(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	resp, err := c.cl.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{
		Topics: []kafka.TopicPartitionsConfig{{Name: r.Topic, Count: r.Partitions}},
	})
	if err != nil {
		return nil, coded(err)
	}
	return nil, coded(resp.Errors[r.Topic])
}

func resource(kind string) kafka.ResourceType {
	if kind == "topic" {
		return kafka.ResourceTypeTopic
	}
	return kafka.ResourceTypeBroker
}

func (c *client) configs(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	resp, err := c.cl.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{{ResourceType: resource(r.Kind), ResourceName: r.Name, ConfigNames: r.Keys}},
	})
	if err != nil {
		return nil, coded(err)
	}
	out := make(map[string]string)
	for _, res := range resp.Resources {
		if res.Error != nil {
			return nil, coded(res.Error)
		}
		for _, e := range res.ConfigEntries {
			if slices.Contains(r.Keys, e.ConfigName) {
				out[e.ConfigName] = fmt.Sprintf("%s (%d)", e.ConfigValue, e.ConfigSource)
			}
		}
	}
	return &driver.Response{Configs: out}, nil
}

func (c *client) alter(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	if r.Mode == "legacy" {
		res := kafka.AlterConfigRequestResource{ResourceType: resource(r.Kind), ResourceName: r.Name}
		for _, ch := range r.Changes {
			res.Configs = append(res.Configs, kafka.AlterConfigRequestConfig{Name: ch.Key, Value: *ch.Value})
		}
		resp, err := c.cl.AlterConfigs(ctx, &kafka.AlterConfigsRequest{Resources: []kafka.AlterConfigRequestResource{res}})
		if err != nil {
			return nil, coded(err)
		}
		for _, e := range resp.Errors {
			if e != nil {
				return nil, coded(e)
			}
		}
		return nil, nil
	}
	ops := map[string]kafka.ConfigOperation{
		"set": kafka.ConfigOperationSet, "delete": kafka.ConfigOperationDelete,
		"append": kafka.ConfigOperationAppend, "subtract": kafka.ConfigOperationSubtract,
	}
	res := kafka.IncrementalAlterConfigsRequestResource{ResourceType: resource(r.Kind), ResourceName: r.Name}
	for _, ch := range r.Changes {
		cfg := kafka.IncrementalAlterConfigsRequestConfig{Name: ch.Key, ConfigOperation: ops[ch.Op]}
		if ch.Value != nil {
			cfg.Value = *ch.Value
		}
		res.Configs = append(res.Configs, cfg)
	}
	resp, err := c.cl.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{res},
	})
	if err != nil {
		return nil, coded(err)
	}
	for _, x := range resp.Resources {
		if x.Error != nil {
			return nil, coded(x.Error)
		}
	}
	return nil, nil
}

// toPartition sends every message to one partition.
type toPartition int

func (p toPartition) Balance(kafka.Message, ...int) int { return int(p) }

func (c *client) produce(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	if r.Idempotent {
		return nil, driver.ErrUnsupported
	}
	w := &kafka.Writer{
		Addr: kafka.TCP(c.addr), Topic: r.Topic, Balancer: toPartition(r.Partition),
		BatchTimeout: 20 * time.Millisecond, Compression: codecs[r.Codec], AllowAutoTopicCreation: true,
		RequiredAcks: map[string]kafka.RequiredAcks{"0": kafka.RequireNone, "1": kafka.RequireOne, "all": kafka.RequireAll}[r.Acks],
	}
	if r.MaxBytes > 0 {
		w.BatchBytes = int64(r.MaxBytes)
	}
	defer w.Close()
	var resp driver.Response
	w.Completion = func(ms []kafka.Message, err error) {
		for _, m := range ms {
			resp.Offsets = append(resp.Offsets, m.Offset)
		}
	}
	var ms []kafka.Message
	for _, x := range r.Records {
		m := kafka.Message{Key: x.Key, Value: x.Value}
		if x.Timestamp != 0 {
			m.Time = time.UnixMilli(x.Timestamp)
		}
		for _, h := range x.Headers {
			m.Headers = append(m.Headers, kafka.Header{Key: h.Name, Value: h.Value})
		}
		ms = append(ms, m)
	}
	// While a topic is being created the library hands the error to the application.
	for {
		err := coded(w.WriteMessages(ctx, ms...))
		if err == nil {
			return &resp, nil
		}
		if !errors.Is(err, driver.Code(kafka.UnknownTopicOrPartition)) || ctx.Err() != nil {
			return nil, err
		}
		<-time.After(100 * time.Millisecond)
	}
}

func (c *client) consume(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	cfg := kafka.ReaderConfig{
		Brokers: []string{c.addr}, Topic: r.Topic, Partition: int(r.Partition), MinBytes: 1, MaxBytes: 10 << 20,
		MaxWait: 500 * time.Millisecond, ReadBackoffMin: 10 * time.Millisecond,
	}
	if r.Isolation == "read_committed" {
		cfg.IsolationLevel = kafka.ReadCommitted
	}
	if r.MaxBytes > 0 {
		cfg.MaxBytes = r.PartitionMaxBytes
	}
	rd := kafka.NewReader(cfg)
	defer rd.Close()
	if err := rd.SetOffset(r.Offset); err != nil {
		return nil, coded(err)
	}
	var resp driver.Response
	for len(resp.Records) < r.Count {
		x, err := rd.ReadMessage(ctx)
		if err != nil {
			return nil, coded(err)
		}
		out := driver.Record{Offset: x.Offset, Timestamp: x.Time.UnixMilli(), Key: x.Key, Value: x.Value}
		for _, h := range x.Headers {
			out.Headers = append(out.Headers, driver.Header{Name: h.Key, Value: h.Value})
		}
		resp.Records = append(resp.Records, out)
	}
	return &resp, nil
}

func (c *client) groupConsume(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	rd := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{c.addr}, GroupID: r.Group, Topic: r.Topic, StartOffset: kafka.FirstOffset,
		MaxWait: 500 * time.Millisecond,
	})
	defer rd.Close()
	var resp driver.Response
	var last kafka.Message
	for len(resp.Records) < r.Count {
		m, err := rd.FetchMessage(ctx)
		if err != nil {
			return nil, coded(err)
		}
		resp.Records = append(resp.Records, driver.Record{Offset: m.Offset})
		last = m
	}
	return &resp, coded(rd.CommitMessages(ctx, last))
}

func (c *client) groups(ctx context.Context, _ *driver.Request) (*driver.Response, error) {
	gs, err := c.cl.ListGroups(ctx, &kafka.ListGroupsRequest{})
	if err != nil {
		return nil, coded(err)
	}
	var resp driver.Response
	for _, g := range gs.Groups {
		resp.Names = append(resp.Names, g.GroupID)
	}
	return &resp, coded(gs.Error)
}

func (c *client) deleteGroup(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	resp, err := c.cl.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{r.Group}})
	if err != nil {
		return nil, coded(err)
	}
	return nil, coded(resp.Errors[r.Group])
}

func (c *client) offsets(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	if r.At == "max-timestamp" {
		return nil, driver.ErrUnsupported
	}
	conn, err := kafka.DialLeader(ctx, "tcp", c.addr, r.Topic, int(r.Partition))
	if err != nil {
		return nil, coded(err)
	}
	defer conn.Close()
	var o int64
	switch r.At {
	case "earliest":
		o, err = conn.ReadFirstOffset()
	case "latest":
		o, err = conn.ReadLastOffset()
	default:
		ms, _ := strconv.ParseInt(r.At, 10, 64)
		o, err = conn.ReadOffset(time.UnixMilli(ms))
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return nil, errors.New("timeout")
	}
	return &driver.Response{Offset: o}, coded(err)
}
