package main

import (
	"context"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// figures are what a workload measured, by name; the unit is in the name.
type figures map[string]float64

// run is one broker in one round.
type run struct {
	broker broker
	dir    string
	long   time.Duration // how long a workload lasts
	topics int           // made so far, for names
}

// workload is something to measure on a fresh or warm broker.
type workload struct {
	name    string
	targets []string // empty: all
	measure func(ctx context.Context, r *run) (figures, error)
}

const mib = 1 << 20

// workloads returns all that is measured, in order.
func workloads() []workload {
	var all []workload
	produce := func(name string, l load, targets ...string) {
		all = append(all, workload{name, targets, func(ctx context.Context, r *run) (figures, error) { return r.produce(ctx, l) }})
	}
	for _, partitions := range []int{1, 12, 1000, 10_000} {
		produce(fmt.Sprintf("produce 1KiB none p=%d", partitions), load{record: 1024, partitions: partitions, producers: 2, batch: 256 << 10})
	}
	produce("produce 100B none p=12", load{record: 100, partitions: 12, producers: 2})
	produce("produce 16KiB none p=12", load{record: 16 << 10, partitions: 12, producers: 2, batch: 512 << 10})
	produce("produce 1KiB lz4 p=12", load{record: 1024, partitions: 12, producers: 2, codec: "lz4", batch: 256 << 10})
	produce("produce 1KiB zstd p=12", load{record: 1024, partitions: 12, producers: 2, codec: "zstd", batch: 256 << 10})
	all = append(all,
		workload{"consume 1KiB p=12, cached", nil, func(ctx context.Context, r *run) (figures, error) { return r.consume(ctx, 1, false) }},
		workload{"consume 1KiB p=12, cold", nil, func(ctx context.Context, r *run) (figures, error) { return r.consume(ctx, 1, true) }},
		workload{"consume 1KiB p=12, 10 readers", nil, func(ctx context.Context, r *run) (figures, error) { return r.consume(ctx, 10, false) }},
		workload{"end to end 1KiB 2000/s p=12", nil, func(ctx context.Context, r *run) (figures, error) { return r.endToEnd(ctx, 2000) }},
		workload{"transactions of 10 records, 4 producers", nil, func(ctx context.Context, r *run) (figures, error) { return r.transactions(ctx, 4, 10) }},
		workload{"transactions of 10 records, 64 producers", nil, func(ctx context.Context, r *run) (figures, error) { return r.transactions(ctx, 64, 10) }},
		workload{"1000 connections", nil, func(ctx context.Context, r *run) (figures, error) { return r.connections(ctx) }},
		workload{"100,000 partitions", []string{"sluice"}, func(ctx context.Context, r *run) (figures, error) { return r.manyPartitions(ctx) }},
		workload{"10,000 partitions", nil, func(ctx context.Context, r *run) (figures, error) { return r.tenThousand(ctx) }},
	)
	return all
}

// topic returns a load on a new topic.
func (r *run) topic(ctx context.Context, l load) (load, error) {
	r.topics++
	l.addr, l.topic = r.broker.addr, fmt.Sprintf("bench-%d", r.topics)
	return l, l.create(ctx)
}

// measured runs work and adds what the broker used meanwhile.
func (r *run) measured(bytes func() int64, work func() error) (figures, error) {
	before, err := usageOf(r.broker.pid)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := work(); err != nil {
		return nil, err
	}
	took := time.Since(began).Seconds()
	after, err := usageOf(r.broker.pid)
	if err != nil {
		return nil, err
	}
	n := float64(bytes())
	return figures{
		"MiB/s":            n / took / mib,
		"cpu s/GiB":        (after.cpu - before.cpu).Seconds() / (n / (1 << 30)),
		"disk bytes/byte":  float64(after.written-before.written) / n,
		"rss MiB":          float64(after.rss) / mib,
		"peak rss MiB":     float64(after.peak) / mib,
		"cores used by it": (after.cpu - before.cpu).Seconds() / took,
	}, nil
}

func (r *run) produce(ctx context.Context, l load) (figures, error) {
	l, err := r.topic(ctx, l)
	if err != nil {
		return nil, err
	}
	if _, err := l.produce(ctx, r.long/4); err != nil { // connections, memory, JIT
		return nil, err
	}
	var p produced
	f, err := r.measured(func() int64 { return p.records * int64(l.record) }, func() (err error) {
		p, err = l.produce(ctx, r.long)
		return err
	})
	if err != nil {
		return nil, err
	}
	f["MiB/s"] = float64(p.records) * float64(l.record) / p.took.Seconds() / mib
	f["records/s"] = float64(p.records) / p.took.Seconds()
	return f, r.forget(ctx, l)
}

// forget deletes a topic, so that the disk does not fill up.
func (r *run) forget(ctx context.Context, l load) error {
	c, err := l.client()
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = kadm.NewClient(c).DeleteTopics(ctx, l.topic)
	return err
}

func (r *run) consume(ctx context.Context, readers int, cold bool) (figures, error) {
	l, err := r.topic(ctx, load{record: 1024, partitions: 12, producers: 2, batch: 256 << 10})
	if err != nil {
		return nil, err
	}
	if _, err := l.produce(ctx, r.long); err != nil {
		return nil, err
	}
	var raw float64
	if cold {
		if raw, err = rawRead(r.dir); err != nil {
			return nil, err
		}
		if err := dropPages(r.dir); err != nil {
			return nil, err
		}
	}
	var c consumed
	f, err := r.measured(func() int64 { return c.bytes }, func() (err error) {
		c, err = l.consume(ctx, readers)
		return err
	})
	if err != nil {
		return nil, err
	}
	if cold {
		f["disk read MiB/s"] = raw / mib
	}
	return f, r.forget(ctx, l)
}

func (r *run) endToEnd(ctx context.Context, rate int) (figures, error) {
	l, err := r.topic(ctx, load{record: 1024, partitions: 12, producers: 1, rate: rate})
	if err != nil {
		return nil, err
	}
	if _, err := l.endToEnd(ctx, r.long/4); err != nil {
		return nil, err
	}
	var h *hdrhistogram.Histogram
	f, err := r.measured(func() int64 { return int64(r.long.Seconds()) * int64(rate*l.record) }, func() (err error) {
		h, err = l.endToEnd(ctx, r.long)
		return err
	})
	if err != nil {
		return nil, err
	}
	for name, q := range map[string]float64{"p50 ms": 50, "p99 ms": 99, "p99.9 ms": 99.9} {
		f[name] = float64(h.ValueAtQuantile(q)) / 1000
	}
	f["max ms"] = float64(h.Max()) / 1000
	return f, r.forget(ctx, l)
}

// connections opens 1,000 clients that each produce and wait, one record each,
// ten times over.
func (r *run) connections(ctx context.Context) (figures, error) {
	l, err := r.topic(ctx, load{record: 100, partitions: 12, producers: 1})
	if err != nil {
		return nil, err
	}
	const count = 1000
	clients := make([]*kgo.Client, count)
	for i := range clients {
		if clients[i], err = l.producer(); err != nil {
			return nil, err
		}
		defer clients[i].Close()
	}
	value := l.value()
	errs := make(chan error, count)
	f, err := r.measured(func() int64 { return count * 10 * int64(l.record) }, func() error {
		for _, c := range clients {
			go func() {
				for range 10 {
					if err := c.ProduceSync(ctx, &kgo.Record{Value: value}).FirstErr(); err != nil {
						errs <- err
						return
					}
				}
				errs <- nil
			}()
		}
		for range clients {
			if err := <-errs; err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		f["records/s"] = f["MiB/s"] * mib / float64(l.record)
	}
	return f, err
}

func (r *run) manyPartitions(ctx context.Context) (figures, error) {
	return r.partitions(ctx, 10, 10_000)
}

func (r *run) tenThousand(ctx context.Context) (figures, error) { return r.partitions(ctx, 10, 1000) }

// partitions creates topics, asks for the metadata of all, and looks at memory.
func (r *run) partitions(ctx context.Context, topics, each int) (figures, error) {
	f := figures{}
	began := time.Now()
	l := load{partitions: each}
	for range topics {
		var err error
		if l, err = r.topic(ctx, l); err != nil {
			return nil, err
		}
	}
	f["create s"] = time.Since(began).Seconds()
	c, err := l.client()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	began = time.Now()
	found, err := kadm.NewClient(c).ListTopics(ctx)
	if err != nil {
		return nil, err
	}
	f["metadata ms"] = float64(time.Since(began).Milliseconds())
	count := 0
	found.EachPartition(func(kadm.PartitionDetail) { count++ })
	if count < topics*each {
		return nil, fmt.Errorf("metadata has %d partitions, want %d or more", count, topics*each)
	}
	u, err := usageOf(r.broker.pid)
	f["rss MiB"] = float64(u.rss) / mib
	return f, err
}
