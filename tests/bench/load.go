package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// load is what clients do to a topic.
type load struct {
	addr       string
	topic      string
	partitions int
	record     int // bytes of a value
	codec      string
	producers  int
	rate       int // records a second, all producers together; 0 for as many as go
	batch      int // bytes of a producer's batch; 0 for franz-go's default
}

func (l *load) client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(l.addr)}, opts...)...)
}

// create makes the topic.
func (l *load) create(ctx context.Context) error {
	c, err := l.client()
	if err != nil {
		return err
	}
	defer c.Close()
	admin := kadm.NewClient(c)
	// Kafka takes fewer than 10,000 partitions in a request.
	const atOnce = 5000
	made, err := admin.CreateTopic(ctx, int32(min(l.partitions, atOnce)), 1, nil, l.topic)
	if err == nil {
		err = made.Err
	}
	for have := atOnce; err == nil && have < l.partitions; {
		have = min(have+atOnce, l.partitions)
		var grown kadm.CreatePartitionsResponses
		if grown, err = admin.UpdatePartitions(ctx, have, l.topic); err == nil {
			err = grown.Error()
		}
	}
	return err
}

// value returns a record's value that compresses to about half, as text does.
func (l *load) value() []byte {
	random := rand.New(rand.NewPCG(1, 2))
	v := make([]byte, l.record)
	for i := range v {
		if i%2 == 0 {
			v[i] = byte('a' + random.IntN(26))
		} else {
			v[i] = 'x'
		}
	}
	return v
}

func (l *load) producer() (*kgo.Client, error) {
	opts := []kgo.Opt{
		kgo.DefaultProduceTopic(l.topic), kgo.MaxBufferedRecords(100_000), kgo.MaxBufferedBytes(64 << 20),
		// Batches fill up before the next partition is chosen, as the sticky
		// partitioners of all clients do.
		kgo.RecordPartitioner(kgo.StickyPartitioner()),
	}
	if l.rate == 0 {
		opts = append(opts, kgo.ProducerLinger(5*time.Millisecond))
	} else {
		opts = append(opts, kgo.ProducerLinger(0))
	}
	if l.batch > 0 {
		opts = append(opts, kgo.ProducerBatchMaxBytes(int32(l.batch)))
	}
	switch l.codec {
	case "lz4":
		opts = append(opts, kgo.ProducerBatchCompression(kgo.Lz4Compression()))
	case "zstd":
		opts = append(opts, kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	default:
		opts = append(opts, kgo.ProducerBatchCompression(kgo.NoCompression()))
	}
	return l.client(opts...)
}

// produced is what came of a produce load.
type produced struct {
	records int64
	took    time.Duration
	latency *hdrhistogram.Histogram // microseconds from the time due to the answer
}

// produce runs the load for a time. With a rate, records are due at even
// distances, whatever became of those before.
func (l *load) produce(ctx context.Context, d time.Duration) (produced, error) {
	var acked atomic.Int64
	var failed atomic.Pointer[error]
	var wait sync.WaitGroup
	out := produced{latency: newHistogram()}
	var mu sync.Mutex // guards out.latency
	began := time.Now()
	deadline := began.Add(d)
	for i := range l.producers {
		c, err := l.producer()
		if err != nil {
			return out, err
		}
		defer c.Close()
		wait.Add(1)
		go func() {
			defer wait.Done()
			value := l.value()
			own := newHistogram()
			var ownMu sync.Mutex // callbacks of one client come from several goroutines
			interval := time.Duration(0)
			if l.rate > 0 {
				interval = time.Second * time.Duration(l.producers) / time.Duration(l.rate)
			}
			due := began.Add(interval * time.Duration(i) / time.Duration(l.producers))
			for due.Before(deadline) && failed.Load() == nil {
				if interval > 0 {
					time.Sleep(time.Until(due))
				} else {
					due = time.Now()
				}
				sent := due
				c.Produce(ctx, &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
					if err != nil {
						failed.CompareAndSwap(nil, &err)
						return
					}
					acked.Add(1)
					ownMu.Lock()
					_ = own.RecordValue(max(time.Since(sent).Microseconds(), 1)) // what is too large counts as the largest
					ownMu.Unlock()
				})
				due = due.Add(interval)
			}
			if err := c.Flush(ctx); err != nil {
				failed.CompareAndSwap(nil, &err)
			}
			mu.Lock()
			out.latency.Merge(own)
			mu.Unlock()
		}()
	}
	wait.Wait()
	out.took, out.records = time.Since(began), acked.Load()
	if err := failed.Load(); err != nil {
		return out, fmt.Errorf("produce: %w", *err)
	}
	return out, nil
}

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, 60_000_000, 3) }

// consumed is what came of a consume load.
type consumed struct {
	records, bytes int64
	took           time.Duration
}

// consume reads the topic from its beginning to where it ends at the call, with
// so many readers, each of which reads everything.
func (l *load) consume(ctx context.Context, readers int) (consumed, error) {
	c, err := l.client()
	if err != nil {
		return consumed{}, err
	}
	defer c.Close()
	ends, err := kadm.NewClient(c).ListEndOffsets(ctx, l.topic)
	if err != nil {
		return consumed{}, err
	}
	var want int64
	ends.Each(func(o kadm.ListedOffset) { want += o.Offset })
	var out consumed
	var records, bytes atomic.Int64
	var failed atomic.Pointer[error]
	var wait sync.WaitGroup
	began := time.Now()
	for range readers {
		reader, err := l.client(kgo.ConsumeTopics(l.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxBytes(50<<20))
		if err != nil {
			return out, err
		}
		defer reader.Close()
		wait.Add(1)
		go func() {
			defer wait.Done()
			var n, size int64
			for n < want {
				fetches := reader.PollFetches(ctx)
				if err := fetches.Err(); err != nil {
					failed.CompareAndSwap(nil, &err)
					return
				}
				fetches.EachRecord(func(r *kgo.Record) { n++; size += int64(len(r.Value)) })
			}
			records.Add(n)
			bytes.Add(size)
		}()
	}
	wait.Wait()
	out.took, out.records, out.bytes = time.Since(began), records.Load(), bytes.Load()
	if err := failed.Load(); err != nil {
		return out, fmt.Errorf("consume: %w", *err)
	}
	return out, nil
}

// endToEnd produces at the load's rate while a consumer at the end reads, and
// returns the time from when a record was due to be sent to its arrival.
func (l *load) endToEnd(ctx context.Context, d time.Duration) (*hdrhistogram.Histogram, error) {
	ctx, cancel := context.WithTimeout(ctx, d+time.Minute)
	defer cancel()
	reader, err := l.client(kgo.ConsumeTopics(l.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()), kgo.FetchMaxWait(500*time.Millisecond))
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	writer, err := l.producer()
	if err != nil {
		return nil, err
	}
	defer writer.Close()
	// The first record is only there to have the reader in its place.
	for placed := false; !placed; {
		if err := writer.ProduceSync(ctx, &kgo.Record{Value: []byte("begin")}).FirstErr(); err != nil {
			return nil, err
		}
		once, stop := context.WithTimeout(ctx, time.Second)
		placed = reader.PollFetches(once).NumRecords() > 0
		stop()
	}
	histogram := newHistogram()
	total := int(d.Seconds() * float64(l.rate))
	done := make(chan error, 1)
	go func() {
		for seen := 0; seen < total; {
			fetches := reader.PollFetches(ctx)
			if err := fetches.Err(); err != nil {
				done <- err
				return
			}
			now := time.Now()
			fetches.EachRecord(func(r *kgo.Record) {
				if len(r.Headers) == 0 {
					return // a record from before
				}
				seen++
				at := time.Unix(0, int64(binary.BigEndian.Uint64(r.Headers[0].Value)))
				_ = histogram.RecordValue(max(now.Sub(at).Microseconds(), 1))
			})
		}
		done <- nil
	}()
	value := l.value()
	interval := time.Second / time.Duration(l.rate)
	due := time.Now()
	var failed atomic.Pointer[error]
	for range total {
		time.Sleep(time.Until(due))
		writer.Produce(ctx, dueRecord(value, due), func(_ *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
		due = due.Add(interval)
	}
	if err := writer.Flush(ctx); err != nil {
		return nil, err
	}
	if err := failed.Load(); err != nil {
		return nil, *err
	}
	return histogram, <-done
}

// dueRecord carries when it was due; a record's timestamp counts only milliseconds.
func dueRecord(value []byte, due time.Time) *kgo.Record {
	at := binary.BigEndian.AppendUint64(nil, uint64(due.UnixNano()))
	return &kgo.Record{Value: value, Headers: []kgo.RecordHeader{{Key: "due", Value: at}}}
}
