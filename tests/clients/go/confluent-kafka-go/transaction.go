package main

import (
	"context"
	"fmt"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/sluicemq/sluice/tests/clients/go/driver"
)

// producers are those of a scenario's transactions, by the names it gave them.
var producers = make(map[string]*kafka.Producer)

func (c *client) transactional(ctx context.Context, id string) (*kafka.Producer, error) {
	p, err := kafka.NewProducer(&kafka.ConfigMap{
		"bootstrap.servers": c.addr, "transactional.id": id, "linger.ms": 20, "message.timeout.ms": 20000, "log_level": 0,
		"transaction.timeout.ms": 30000,
	})
	if err != nil {
		return nil, err
	}
	if err := p.InitTransactions(ctx); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func send(p *kafka.Producer, topic string, partition int32, records []driver.Record) error {
	done := make(chan kafka.Event, len(records))
	for _, x := range records {
		m := &kafka.Message{TopicPartition: kafka.TopicPartition{Topic: &topic, Partition: partition}, Key: x.Key, Value: x.Value}
		if err := p.Produce(m, done); err != nil {
			return err
		}
	}
	for range records {
		if m := (<-done).(*kafka.Message); m.TopicPartition.Error != nil {
			return m.TopicPartition.Error
		}
	}
	return nil
}

func (c *client) transaction(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	p := producers[r.Name]
	switch r.Step {
	case "begin":
		if p == nil {
			var err error
			if p, err = c.transactional(ctx, r.ID); err != nil {
				return nil, coded(err)
			}
			producers[r.Name] = p
		}
		return nil, coded(p.BeginTransaction())
	case "send":
		return nil, coded(send(p, r.Topic, r.Partition, r.Records))
	case "commit":
		return nil, coded(p.CommitTransaction(ctx))
	case "abort":
		return nil, coded(p.AbortTransaction(ctx))
	default: // close
		p.Close()
		delete(producers, r.Name)
		return nil, nil
	}
}

func (c *client) copy(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	p, err := c.transactional(ctx, r.ID)
	if err != nil {
		return nil, coded(err)
	}
	defer p.Close()
	con, err := kafka.NewConsumer(&kafka.ConfigMap{
		"bootstrap.servers": c.addr, "group.id": r.Group, "enable.auto.commit": false, "log_level": 0,
		"auto.offset.reset": "earliest", "isolation.level": "read_committed",
	})
	if err != nil {
		return nil, coded(err)
	}
	defer con.Close()
	if err := con.Subscribe(r.Topic, nil); err != nil {
		return nil, coded(err)
	}
	if err := p.BeginTransaction(); err != nil {
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
			if err := send(p, r.Name, 0, []driver.Record{{Key: x.Key, Value: x.Value}}); err != nil {
				return nil, coded(err)
			}
		case kafka.Error:
			return nil, coded(x)
		}
	}
	group, err := con.GetConsumerGroupMetadata()
	if err != nil {
		return nil, coded(err)
	}
	assigned, err := con.Assignment()
	if err != nil {
		return nil, coded(err)
	}
	positions, err := con.Position(assigned)
	if err != nil {
		return nil, coded(err)
	}
	if err := p.SendOffsetsToTransaction(ctx, positions, group); err != nil {
		return nil, coded(err)
	}
	if r.Step == "commit" {
		return &resp, coded(p.CommitTransaction(ctx))
	}
	return &resp, coded(p.AbortTransaction(ctx))
}
