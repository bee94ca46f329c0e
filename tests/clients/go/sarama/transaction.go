package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/IBM/sarama"

	"github.com/sluicemq/sluice/tests/clients/go/driver"
)

// producers are those of a scenario's transactions, by the names it gave them.
var producers = make(map[string]sarama.SyncProducer)

func (c *client) transactional(id string) (sarama.SyncProducer, error) {
	cfg := config()
	cfg.Producer.Partitioner = sarama.NewManualPartitioner
	cfg.Producer.Return.Successes = true
	cfg.Producer.RequiredAcks = sarama.WaitForAll
	cfg.Producer.Idempotent, cfg.Net.MaxOpenRequests = true, 1
	cfg.Producer.Transaction.ID = id
	return sarama.NewSyncProducer([]string{c.addr}, cfg)
}

func send(p sarama.SyncProducer, topic string, partition int32, records []driver.Record) error {
	var ms []*sarama.ProducerMessage
	for _, x := range records {
		ms = append(ms, &sarama.ProducerMessage{
			Topic: topic, Partition: partition, Key: sarama.ByteEncoder(x.Key), Value: sarama.ByteEncoder(x.Value),
		})
	}
	err := p.SendMessages(ms)
	var es sarama.ProducerErrors
	if errors.As(err, &es) && len(es) > 0 {
		return es[0].Err
	}
	return err
}

func (c *client) transaction(_ context.Context, r *driver.Request) (*driver.Response, error) {
	p := producers[r.Name]
	switch r.Step {
	case "begin":
		if p == nil {
			var err error
			if p, err = c.transactional(r.ID); err != nil {
				return nil, coded(err)
			}
			producers[r.Name] = p
		}
		return nil, coded(p.BeginTxn())
	case "send":
		return nil, coded(send(p, r.Topic, r.Partition, r.Records))
	case "commit":
		return nil, coded(p.CommitTxn())
	case "abort":
		return nil, coded(p.AbortTxn())
	default: // close
		_ = p.Close() // A producer that was fenced says so again.
		delete(producers, r.Name)
		return nil, nil
	}
}

// copier copies some records of a claim in one transaction.
type copier struct {
	p    sarama.SyncProducer
	r    *driver.Request
	resp driver.Response
	err  error
	done func()
}

func (t *copier) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (t *copier) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (t *copier) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case m := <-claim.Messages():
			t.resp.Records = append(t.resp.Records, driver.Record{Offset: m.Offset})
			if t.err = send(t.p, t.r.Name, 0, []driver.Record{{Key: m.Key, Value: m.Value}}); t.err == nil {
				t.err = t.p.AddMessageToTxn(m, t.r.Group, nil)
			}
			if t.err == nil && len(t.resp.Records) == t.r.Count {
				if t.r.Step == "commit" {
					t.err = t.p.CommitTxn()
				} else {
					t.err = t.p.AbortTxn()
				}
			}
			if t.err != nil || len(t.resp.Records) == t.r.Count {
				t.done()
				return nil
			}
		case <-s.Context().Done():
			return nil
		}
	}
}

func (c *client) copy(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	p, err := c.transactional(r.ID)
	if err != nil {
		return nil, coded(err)
	}
	defer p.Close()
	if err := p.BeginTxn(); err != nil {
		return nil, coded(err)
	}
	cfg := config()
	cfg.Consumer.Offsets.Initial = sarama.OffsetOldest
	cfg.Consumer.Offsets.AutoCommit.Enable = false
	cfg.Consumer.IsolationLevel = sarama.ReadCommitted
	g, err := sarama.NewConsumerGroup([]string{c.addr}, r.Group, cfg)
	if err != nil {
		return nil, coded(err)
	}
	defer g.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := &copier{p: p, r: r, done: cancel}
	if err := g.Consume(ctx, []string{r.Topic}, t); err != nil {
		return nil, coded(err)
	}
	if t.err == nil && len(t.resp.Records) < r.Count {
		t.err = fmt.Errorf("only %d of %d records came", len(t.resp.Records), r.Count)
	}
	return &t.resp, coded(t.err)
}
