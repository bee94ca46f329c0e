package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

// transactions has producers that each commit small transactions one after the
// other. Latency is from the begin of one to the answer to its end.
func (r *run) transactions(ctx context.Context, producers, records int) (figures, error) {
	l, err := r.topic(ctx, load{record: 1024, partitions: 12, producers: producers})
	if err != nil {
		return nil, err
	}
	clients := make([]*kgo.Client, producers)
	for i := range clients {
		clients[i], err = l.client(kgo.DefaultProduceTopic(l.topic), kgo.TransactionalID(fmt.Sprintf("%s-%d", l.topic, i)),
			kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()))
		if err != nil {
			return nil, err
		}
		defer clients[i].Close()
	}
	if _, err := commitFor(ctx, clients, l, records, r.long/4); err != nil {
		return nil, err
	}
	var c committed
	f, err := r.measured(func() int64 { return c.count * int64(records*l.record) }, func() (err error) {
		c, err = commitFor(ctx, clients, l, records, r.long)
		return err
	})
	if err != nil {
		return nil, err
	}
	f["transactions/s"] = float64(c.count) / r.long.Seconds()
	f["p50 ms"] = float64(c.latency.ValueAtQuantile(50)) / 1000
	f["p99 ms"] = float64(c.latency.ValueAtQuantile(99)) / 1000
	return f, r.forget(ctx, l)
}

// committed is what came of commitFor; its latency is in microseconds.
type committed struct {
	count   int64
	latency *hdrhistogram.Histogram
}

func commitFor(ctx context.Context, clients []*kgo.Client, l load, records int, d time.Duration) (committed, error) {
	out := committed{latency: newHistogram()}
	var failed atomic.Pointer[error]
	var wait sync.WaitGroup
	var mu sync.Mutex // guards out
	deadline := time.Now().Add(d)
	for _, c := range clients {
		wait.Add(1)
		go func() {
			defer wait.Done()
			value, own, count := l.value(), newHistogram(), int64(0)
			for time.Now().Before(deadline) && failed.Load() == nil {
				began := time.Now()
				if err := commit(ctx, c, value, records); err != nil {
					failed.CompareAndSwap(nil, &err)
					return
				}
				_ = own.RecordValue(max(time.Since(began).Microseconds(), 1)) // what is too large counts as the largest
				count++
			}
			mu.Lock()
			defer mu.Unlock()
			out.count += count
			out.latency.Merge(own)
		}()
	}
	wait.Wait()
	if err := failed.Load(); err != nil {
		return out, fmt.Errorf("transaction: %w", *err)
	}
	return out, nil
}

func commit(ctx context.Context, c *kgo.Client, value []byte, records int) error {
	if err := c.BeginTransaction(); err != nil {
		return err
	}
	out := make([]*kgo.Record, records)
	for i := range out {
		out[i] = &kgo.Record{Value: value}
	}
	if err := c.ProduceSync(ctx, out...).FirstErr(); err != nil {
		return err
	}
	return c.EndTransaction(ctx, kgo.TryCommit)
}
