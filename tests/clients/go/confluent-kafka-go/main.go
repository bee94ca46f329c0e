// Command confluent-kafka-go drives Confluent's Go client, which is librdkafka underneath.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/sluicemq/sluice/tests/clients/go/driver"
)

type client struct {
	addr string
	adm  *kafka.AdminClient
}

func main() {
	adm, err := kafka.NewAdminClient(&kafka.ConfigMap{"bootstrap.servers": os.Args[1], "log_level": 0})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	c := &client{os.Args[1], adm}
	driver.Serve(map[string]driver.Handler{
		"cluster": c.cluster, "topics": c.topics, "create": c.create, "delete": c.delete, "describe": c.describe,
		"add-partitions": c.addPartitions, "configs": c.configs, "alter": c.alter, "produce": c.produce,
		"consume": c.consume, "offsets": c.offsets, "delete-records": c.deleteRecords,
		"group-consume": c.groupConsume, "groups": c.groups, "delete-group": c.deleteGroup,
		"transaction": c.transaction, "copy": c.copy,
	})
	adm.Close()
}

// coded turns a broker's error into its code; the library's own codes are far below zero.
func coded(err error) error {
	var k kafka.Error
	if errors.As(err, &k) {
		if k.Code() == kafka.ErrNoError {
			return nil
		}
		if k.Code() >= -1 {
			return driver.Code(k.Code())
		}
		return fmt.Errorf("local: %s", k.Code())
	}
	return err
}

func (c *client) cluster(ctx context.Context, _ *driver.Request) (*driver.Response, error) {
	d, err := c.adm.DescribeCluster(ctx)
	if err != nil {
		return nil, coded(err)
	}
	return &driver.Response{Brokers: len(d.Nodes), Cluster: d.ClusterID != nil && *d.ClusterID != "", Controller: d.Controller != nil}, nil
}

func (c *client) topics(context.Context, *driver.Request) (*driver.Response, error) {
	m, err := c.adm.GetMetadata(nil, true, 10000)
	if err != nil {
		return nil, coded(err)
	}
	var resp driver.Response
	for t := range m.Topics {
		resp.Names = append(resp.Names, t)
	}
	return &resp, nil
}

func (c *client) create(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	rs, err := c.adm.CreateTopics(ctx, []kafka.TopicSpecification{{
		Topic: r.Topic, NumPartitions: int(r.Partitions), ReplicationFactor: 1, Config: r.Configs,
	}})
	if err != nil {
		return nil, coded(err)
	}
	return nil, coded(rs[0].Error)
}

func (c *client) delete(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	rs, err := c.adm.DeleteTopics(ctx, []string{r.Topic})
	if err != nil {
		return nil, coded(err)
	}
	return nil, coded(rs[0].Error)
}

func (c *client) describe(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	d, err := c.adm.DescribeTopics(ctx, kafka.NewTopicCollectionOfTopicNames([]string{r.Topic}))
	if err != nil {
		return nil, coded(err)
	}
	t := d.TopicDescriptions[0]
	if err := coded(t.Error); err != nil {
		return nil, err
	}
	resp := &driver.Response{Partitions: int32(len(t.Partitions)), Internal: t.IsInternal}
	if len(t.Partitions) > 0 {
		resp.Replicas = len(t.Partitions[0].Replicas)
	}
	return resp, nil
}

func (c *client) addPartitions(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	rs, err := c.adm.CreatePartitions(ctx, []kafka.PartitionsSpecification{{Topic: r.Topic, IncreaseTo: int(r.Partitions)}})
	if err != nil {
		return nil, coded(err)
	}
	return nil, coded(rs[0].Error)
}

func resource(kind string) kafka.ResourceType {
	if kind == "topic" {
		return kafka.ResourceTopic
	}
	return kafka.ResourceBroker
}

func (c *client) configs(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	rs, err := c.adm.DescribeConfigs(ctx, []kafka.ConfigResource{{Type: resource(r.Kind), Name: r.Name}})
	if err != nil {
		return nil, coded(err)
	}
	if err := coded(rs[0].Error); err != nil {
		return nil, err
	}
	out := make(map[string]string)
	for k, e := range rs[0].Config {
		if slices.Contains(r.Keys, k) {
			out[k] = fmt.Sprintf("%s (%s)", e.Value, e.Source)
		}
	}
	return &driver.Response{Configs: out}, nil
}

func (c *client) alter(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	res := kafka.ConfigResource{Type: resource(r.Kind), Name: r.Name}
	ops := map[string]kafka.AlterConfigOpType{
		"set": kafka.AlterConfigOpTypeSet, "delete": kafka.AlterConfigOpTypeDelete,
		"append": kafka.AlterConfigOpTypeAppend, "subtract": kafka.AlterConfigOpTypeSubtract,
	}
	for _, ch := range r.Changes {
		e := kafka.ConfigEntry{Name: ch.Key, IncrementalOperation: ops[ch.Op]}
		if ch.Value != nil {
			e.Value = *ch.Value
		}
		res.Config = append(res.Config, e)
	}
	var rs []kafka.ConfigResourceResult
	var err error
	if r.Mode == "legacy" {
		rs, err = c.adm.AlterConfigs(ctx, []kafka.ConfigResource{res})
	} else {
		rs, err = c.adm.IncrementalAlterConfigs(ctx, []kafka.ConfigResource{res})
	}
	if err != nil {
		return nil, coded(err)
	}
	return nil, coded(rs[0].Error)
}

func (c *client) produce(_ context.Context, r *driver.Request) (*driver.Response, error) {
	cfg := &kafka.ConfigMap{
		"bootstrap.servers": c.addr, "compression.type": r.Codec, "acks": r.Acks, "linger.ms": 20,
		"enable.idempotence": r.Idempotent, "message.timeout.ms": 20000, "log_level": 0,
	}
	if r.MaxBytes > 0 {
		_ = cfg.SetKey("message.max.bytes", r.MaxBytes) // Plain settings do not fail.
	}
	p, err := kafka.NewProducer(cfg)
	if err != nil {
		return nil, coded(err)
	}
	defer p.Close()
	done := make(chan kafka.Event, len(r.Records))
	for _, x := range r.Records {
		m := &kafka.Message{
			TopicPartition: kafka.TopicPartition{Topic: &r.Topic, Partition: r.Partition}, Key: x.Key, Value: x.Value,
		}
		if x.Timestamp != 0 {
			m.Timestamp = time.UnixMilli(x.Timestamp)
		}
		for _, h := range x.Headers {
			m.Headers = append(m.Headers, kafka.Header{Key: h.Name, Value: h.Value})
		}
		if err := p.Produce(m, done); err != nil {
			return nil, coded(err)
		}
	}
	var resp driver.Response
	for range r.Records {
		m := (<-done).(*kafka.Message)
		if m.TopicPartition.Error != nil {
			return nil, coded(m.TopicPartition.Error)
		}
		resp.Offsets = append(resp.Offsets, int64(m.TopicPartition.Offset))
	}
	return &resp, nil
}

func (c *client) consumer(r *driver.Request) (*kafka.Consumer, error) {
	cfg := &kafka.ConfigMap{
		"bootstrap.servers": c.addr, "group.id": "matrix-unused", "enable.auto.commit": false, "log_level": 0,
		"enable.auto.offset.store": false, "auto.offset.reset": "error", "fetch.wait.max.ms": 100,
	}
	if r.Isolation != "" {
		_ = cfg.SetKey("isolation.level", r.Isolation) // Read committed unless told otherwise.
	}
	if r.MaxBytes > 0 {
		_ = cfg.SetKey("max.partition.fetch.bytes", r.PartitionMaxBytes)
		// The library wants fetch.max.bytes to hold a largest message, and receives some more.
		_ = cfg.SetKey("message.max.bytes", max(r.MaxBytes, 1000))
		_ = cfg.SetKey("fetch.max.bytes", max(r.MaxBytes, 1000))
	}
	return kafka.NewConsumer(cfg)
}

func (c *client) consume(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	con, err := c.consumer(r)
	if err != nil {
		return nil, coded(err)
	}
	defer con.Close()
	if err := con.Assign([]kafka.TopicPartition{{Topic: &r.Topic, Partition: r.Partition, Offset: kafka.Offset(r.Offset)}}); err != nil {
		return nil, coded(err)
	}
	var resp driver.Response
	for len(resp.Records) < r.Count {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("only %d of %d records came", len(resp.Records), r.Count)
		}
		switch x := con.Poll(100).(type) {
		case *kafka.Message:
			if x.TopicPartition.Error != nil {
				return nil, coded(x.TopicPartition.Error)
			}
			out := driver.Record{Offset: int64(x.TopicPartition.Offset), Timestamp: x.Timestamp.UnixMilli(), Key: x.Key, Value: x.Value}
			for _, h := range x.Headers {
				out.Headers = append(out.Headers, driver.Header{Name: h.Key, Value: h.Value})
			}
			resp.Records = append(resp.Records, out)
		case kafka.Error:
			return nil, coded(x)
		}
	}
	return &resp, nil
}

func (c *client) groupConsume(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	con, err := kafka.NewConsumer(&kafka.ConfigMap{
		"bootstrap.servers": c.addr, "group.id": r.Group, "enable.auto.commit": false, "log_level": 0,
		"auto.offset.reset": "earliest",
	})
	if err != nil {
		return nil, coded(err)
	}
	defer con.Close()
	if err := con.Subscribe(r.Topic, nil); err != nil {
		return nil, coded(err)
	}
	var resp driver.Response
	for len(resp.Records) < r.Count {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("only %d of %d records came", len(resp.Records), r.Count)
		}
		switch x := con.Poll(100).(type) {
		case *kafka.Message:
			if x.TopicPartition.Error != nil {
				return nil, coded(x.TopicPartition.Error)
			}
			resp.Records = append(resp.Records, driver.Record{Offset: int64(x.TopicPartition.Offset)})
			if len(resp.Records) == r.Count {
				if _, err := con.CommitMessage(x); err != nil {
					return nil, coded(err)
				}
			}
		case kafka.Error:
			return nil, coded(x)
		}
	}
	return &resp, nil
}

func (c *client) groups(ctx context.Context, _ *driver.Request) (*driver.Response, error) {
	gs, err := c.adm.ListConsumerGroups(ctx)
	if err != nil {
		return nil, coded(err)
	}
	var resp driver.Response
	for _, g := range gs.Valid {
		resp.Names = append(resp.Names, g.GroupID)
	}
	return &resp, nil
}

func (c *client) deleteGroup(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	res, err := c.adm.DeleteConsumerGroups(ctx, []string{r.Group})
	if err != nil {
		return nil, coded(err)
	}
	return nil, coded(res.ConsumerGroupResults[0].Error)
}

func (c *client) offsets(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	spec := map[string]kafka.OffsetSpec{
		"earliest": kafka.EarliestOffsetSpec, "latest": kafka.LatestOffsetSpec, "max-timestamp": kafka.MaxTimestampOffsetSpec,
	}[r.At]
	if spec == 0 {
		ms, _ := strconv.ParseInt(r.At, 10, 64)
		spec = kafka.NewOffsetSpecForTimestamp(ms)
	}
	tp := kafka.TopicPartition{Topic: &r.Topic, Partition: r.Partition}
	res, err := c.adm.ListOffsets(ctx, map[kafka.TopicPartition]kafka.OffsetSpec{tp: spec})
	if err != nil {
		return nil, coded(err)
	}
	for _, info := range res.ResultInfos {
		return &driver.Response{Offset: int64(info.Offset), Timestamp: info.Timestamp}, coded(info.Error)
	}
	return nil, errors.New("no answer")
}

func (c *client) deleteRecords(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	res, err := c.adm.DeleteRecords(ctx, []kafka.TopicPartition{{Topic: &r.Topic, Partition: r.Partition, Offset: kafka.Offset(r.Offset)}})
	if err != nil {
		return nil, coded(err)
	}
	d := res.DeleteRecordsResults[0]
	if d.TopicPartition.Error != nil {
		return nil, coded(d.TopicPartition.Error)
	}
	return &driver.Response{Offset: int64(d.DeletedRecords.LowWatermark)}, nil
}
