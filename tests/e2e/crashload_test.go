package e2e

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// load is clients at work: producers of several kinds, and a consumer.
type load struct {
	t       testing.TB
	ledger  *ledger
	stopped chan struct{}
	running sync.WaitGroup
	clients []*kgo.Client
	consume context.CancelFunc
	gaveUp  sync.Once // reported: others follow
}

// startLoad starts the clients. They run until stop, or the end of the test.
func startLoad(t testing.TB, addr string, l *ledger, seed uint64) *load {
	w := &load{t: t, ledger: l, stopped: make(chan struct{})}
	codecs := [][]kgo.CompressionCodec{{kgo.NoCompression()}, {kgo.ZstdCompression()}, {kgo.Lz4Compression()}, {kgo.SnappyCompression()}}
	var producers []*kgo.Client
	for i := range 6 {
		options := []kgo.Opt{
			kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(codecs[i%len(codecs)]...),
			kgo.MaxBufferedRecords(40), kgo.ProducerLinger(0), kgo.RequestRetries(1_000_000), kgo.UnknownTopicRetries(-1),
			kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }),
			kgo.MetadataMinAge(50 * time.Millisecond), kgo.RetryTimeout(patience), kgo.AlwaysRetryEOF(),
			kgo.ProducerOnDataLossDetected(func(topic string, partition int32) {
				t.Errorf("a producer was told that data of %s/%d is lost", topic, partition)
			}),
		}
		l.idempotent[uint16(i)] = i < 4
		if i >= 4 { // at least once, in order
			options = append(options, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1), kgo.RequiredAcks(kgo.LeaderAck()))
		}
		cl, err := kgo.NewClient(options...)
		if err != nil {
			t.Fatal(err)
		}
		producers = append(producers, cl)
	}
	w.clients = producers
	t.Cleanup(w.close)
	for i, cl := range producers {
		w.running.Add(1)
		go w.produce(cl, uint16(i), rand.New(rand.NewPCG(seed, uint64(i+1))))
	}
	w.startConsumer(addr)
	return w
}

// produce sends records to random partitions until the load is stopped.
func (w *load) produce(cl *kgo.Client, producer uint16, random *rand.Rand) {
	defer w.running.Done()
	for {
		select {
		case <-w.stopped:
			return
		default:
		}
		tp, partition := w.ledger.topics[random.IntN(2)], int32(random.IntN(8))
		for range 1 + random.IntN(20) {
			id := w.ledger.next(tp.name, partition, producer)
			r := &kgo.Record{Topic: tp.name, Partition: partition, Key: id.key(), Value: id.value(partition)}
			cl.Produce(context.Background(), r, func(r *kgo.Record, err error) {
				if err != nil {
					if errors.Is(err, kgo.ErrClientClosed) {
						return // the test has failed, and its clients are being closed
					}
					w.gaveUp.Do(func() {
						w.t.Errorf("producer %d gave up record %v of %s/%d: %v", producer, id, r.Topic, r.Partition, err)
					})
					return
				}
				w.ledger.ack(r, id)
			})
		}
	}
}

func (w *load) startConsumer(addr string) {
	from := map[string]map[int32]kgo.Offset{}
	for _, tp := range w.ledger.topics {
		from[tp.name] = map[int32]kgo.Offset{}
		for p := range int32(8) {
			from[tp.name][p] = kgo.NewOffset().At(0)
		}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumePartitions(from), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		w.t.Fatal(err)
	}
	w.clients = append(w.clients, cl)
	ctx, cancel := context.WithCancel(context.Background())
	w.consume = cancel
	w.running.Add(1)
	// Ends when stop cancels ctx.
	go func() {
		defer w.running.Done()
		for ctx.Err() == nil {
			fetches := cl.PollFetches(ctx)
			fetches.EachRecord(w.ledger.see)
			for _, e := range fetches.Errors() {
				if ctx.Err() == nil {
					w.t.Errorf("a consumer was told %v", e.Err)
				}
			}
		}
	}()
}

// stop ends sending, waits until all that was sent is acknowledged, and closes
// the clients.
func (w *load) stop() {
	w.end()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	for _, cl := range w.clients {
		if err := cl.Flush(ctx); err != nil {
			w.t.Errorf("flush a producer: %v", err)
		}
	}
}

func (w *load) end() {
	select {
	case <-w.stopped:
		return
	default:
	}
	close(w.stopped)
	if w.consume != nil {
		w.consume()
	}
	w.running.Wait()
}

func (w *load) close() {
	select {
	case <-w.stopped:
	default:
		close(w.stopped)
	}
	if w.consume != nil {
		w.consume()
	}
	for _, cl := range w.clients {
		cl.Close() // lets go of producers that wait for room
	}
	w.running.Wait()
}
