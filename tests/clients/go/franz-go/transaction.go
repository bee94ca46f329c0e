package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicemq/sluice/tests/clients/go/driver"
)

// producers are those of a scenario's transactions, by the names it gave them.
var producers = make(map[string]*kgo.Client)

func (c *client) transaction(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	p := producers[r.Name]
	switch r.Step {
	case "begin":
		if p == nil {
			var err error
			p, err = kgo.NewClient(kgo.SeedBrokers(c.addr), kgo.TransactionalID(r.ID), kgo.RecordPartitioner(kgo.ManualPartitioner()),
				kgo.MetadataMinAge(100*time.Millisecond), kgo.ProducerLinger(20*time.Millisecond))
			if err != nil {
				return nil, err
			}
			producers[r.Name] = p
			if _, _, err := p.ProducerID(ctx); err != nil {
				return nil, coded(err)
			}
		}
		return nil, coded(p.BeginTransaction())
	case "send":
		var records []*kgo.Record
		for _, x := range r.Records {
			records = append(records, &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: x.Key, Value: x.Value})
		}
		return nil, coded(p.ProduceSync(ctx, records...).FirstErr())
	case "commit", "abort":
		return nil, coded(p.EndTransaction(ctx, kgo.TransactionEndTry(r.Step == "commit")))
	default: // close
		p.Close()
		delete(producers, r.Name)
		return nil, nil
	}
}

func (c *client) copy(ctx context.Context, r *driver.Request) (*driver.Response, error) {
	s, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(c.addr), kgo.TransactionalID(r.ID), kgo.ConsumerGroup(r.Group),
		kgo.ConsumeTopics(r.Topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if err := s.Begin(); err != nil {
		return nil, coded(err)
	}
	var resp driver.Response
	for len(resp.Records) < r.Count {
		fs := s.PollRecords(ctx, r.Count-len(resp.Records))
		if err := fs.Err(); err != nil {
			return nil, coded(err)
		}
		var out []*kgo.Record
		fs.EachRecord(func(x *kgo.Record) {
			resp.Records = append(resp.Records, driver.Record{Offset: x.Offset})
			out = append(out, &kgo.Record{Topic: r.Name, Key: x.Key, Value: x.Value})
		})
		if err := s.ProduceSync(ctx, out...).FirstErr(); err != nil {
			return nil, coded(err)
		}
	}
	committed, err := s.End(ctx, kgo.TransactionEndTry(r.Step == "commit"))
	if err == nil && committed != (r.Step == "commit") {
		err = errors.New("the group was rebalanced")
	}
	return &resp, coded(err)
}
