package broker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	fkerr "github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/sluicemq/sluice/protocol/kerr"
)

// protocols are the two transaction protocols, as options of a client.
var protocols = map[string][]kgo.Opt{
	"older": {kgo.MaxVersions(kversion.V3_7_0())},
	"newer": nil,
}

// txnClient is a transactional producer.
func (n *node) txnClient(id string, options ...kgo.Opt) *kgo.Client {
	n.t.Helper()
	options = append([]kgo.Opt{
		kgo.SeedBrokers(n.addr), kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }),
	}, options...)
	c, err := kgo.NewClient(options...)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(c.Close)
	return c
}

// inTransaction writes values to partition 0 of a topic, and ends the transaction.
func inTransaction(t *testing.T, c *kgo.Client, topic string, how kgo.TransactionEndTry, values ...string) {
	t.Helper()
	if err := c.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	writeAll(t, c, topic, values...)
	if err := c.EndTransaction(t.Context(), how); err != nil {
		t.Fatal(err)
	}
}

func writeAll(t *testing.T, c *kgo.Client, topic string, values ...string) {
	t.Helper()
	var all []*kgo.Record
	for _, v := range values {
		all = append(all, &kgo.Record{Topic: topic, Value: []byte(v)})
	}
	if err := c.ProduceSync(t.Context(), all...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// readAll reads a topic from the start up to a record with the value "end".
func (n *node) readAll(topic string, level kgo.IsolationLevel) []string {
	n.t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(n.addr), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(level),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(50*time.Millisecond))
	if err != nil {
		n.t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(n.t.Context(), limit)
	defer cancel()
	var values []string
	for ctx.Err() == nil {
		for _, r := range c.PollFetches(ctx).Records() {
			if string(r.Value) == "end" {
				return values
			}
			values = append(values, string(r.Value))
		}
	}
	n.t.Fatalf("%s has no end; read were %v", topic, values)
	return nil
}

// plainEnd writes the last record of a topic, outside of transactions.
func (n *node) plainEnd(topic string) {
	n.t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(n.addr), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		n.t.Fatal(err)
	}
	defer c.Close()
	writeAll(n.t, c, topic, "end")
}

func TestReadersOfCommittedRecordsSeeWhatWasCommitted(t *testing.T) {
	for name, options := range protocols {
		t.Run(name, func(t *testing.T) {
			n := start(t)
			n.topic("a", 1)
			c := n.txnClient("x", options...)
			inTransaction(t, c, "a", kgo.TryCommit, "1", "2")
			inTransaction(t, c, "a", kgo.TryAbort, "3", "4")
			inTransaction(t, c, "a", kgo.TryAbort, "5")
			inTransaction(t, c, "a", kgo.TryCommit, "6")
			n.plainEnd("a")
			check := func(n *node) {
				t.Helper()
				if got := n.readAll("a", kgo.ReadCommitted()); fmt.Sprint(got) != "[1 2 6]" {
					t.Errorf("committed are %v", got)
				}
				if got := n.readAll("a", kgo.ReadUncommitted()); fmt.Sprint(got) != "[1 2 3 4 5 6]" {
					t.Errorf("all are %v", got)
				}
			}
			check(n)
			n.stop()
			check(startIn(t, n.dir)) // now markers come from the disk
		})
	}
}

func TestReadersOfCommittedRecordsWaitForTheEnd(t *testing.T) {
	for _, how := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		n := start(t)
		n.topic("a", 1)
		c := n.txnClient("x")
		if err := c.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		writeAll(t, c, "a", "1")
		n.plainEnd("a")
		read := make(chan []string, 1)
		go func() { read <- n.readAll("a", kgo.ReadCommitted()) }() // ends with the test at the latest
		if got := n.readAll("a", kgo.ReadUncommitted()); fmt.Sprint(got) != "[1]" {
			t.Errorf("all are %v", got)
		}
		select {
		case got := <-read:
			t.Errorf("read before the end: %v", got)
		default:
		}
		if err := c.EndTransaction(t.Context(), how); err != nil {
			t.Fatal(err)
		}
		want := "[]"
		if how == kgo.TryCommit {
			want = "[1]"
		}
		if got := <-read; fmt.Sprint(got) != want {
			t.Errorf("commit %v: %v, want %s", how, got, want)
		}
	}
}

func TestSecondInstanceFencesTheFirst(t *testing.T) {
	for name, options := range protocols {
		t.Run(name, func(t *testing.T) {
			n := start(t)
			n.topic("a", 1)
			first := n.txnClient("x", options...)
			if err := first.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			writeAll(t, first, "a", "of the first")
			second := n.txnClient("x", options...)
			inTransaction(t, second, "a", kgo.TryCommit, "of the second")
			if err := first.EndTransaction(t.Context(), kgo.TryCommit); err == nil {
				t.Error("the first instance committed")
			}
			inTransaction(t, second, "a", kgo.TryCommit, "of the second again")
			n.plainEnd("a")
			if got := n.readAll("a", kgo.ReadCommitted()); fmt.Sprint(got) != "[of the second of the second again]" {
				t.Errorf("committed are %v", got)
			}
		})
	}
}

func TestTransactionThatTakesTooLongIsAborted(t *testing.T) {
	n := start(t)
	n.topic("a", 1)
	c := n.txnClient("x", kgo.TransactionTimeout(300*time.Millisecond))
	if err := c.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	writeAll(t, c, "a", "1")
	n.plainEnd("a")
	if got := n.readAll("a", kgo.ReadCommitted()); len(got) != 0 { // waits for the time-out
		t.Errorf("committed are %v", got)
	}
	if err := c.EndTransaction(t.Context(), kgo.TryCommit); err == nil {
		t.Error("it was committed afterwards")
	}
}

// B79: what was written before a restart is committed with the saved producer id and
// epoch, from another connection, as Flink does.
func TestOpenTransactionSurvivesARestart(t *testing.T) {
	n := start(t)
	n.topic("a", 1)
	c := n.txnClient("x", protocols["older"]...)
	if err := c.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	writeAll(t, c, "a", "1")
	id, epoch, err := c.ProducerID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n.plainEnd("a")
	n.stop()

	n = startIn(t, n.dir)
	end := kmsg.NewPtrEndTxnRequest()
	end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = "x", id, epoch, true
	for range 2 { // again, as if the answer was lost
		wantCode(t, ask[*kmsg.EndTxnResponse](n.client(), 4, end).ErrorCode, kerr.None)
	}
	if got := n.readAll("a", kgo.ReadCommitted()); fmt.Sprint(got) != "[1]" {
		t.Errorf("committed are %v", got)
	}
	end.ProducerEpoch++
	wantCode(t, ask[*kmsg.EndTxnResponse](n.client(), 4, end).ErrorCode, kerr.ProducerFenced)
}

// B74: offsets of a producer that died hold readers of stable offsets up until its
// transaction times out, also across a restart.
func TestOffsetsOfADeadProducerBecomeStable(t *testing.T) {
	n := start(t)
	n.topic("a", 1)
	c := n.client()
	init := kmsg.NewPtrInitProducerIDRequest()
	init.TransactionalID, init.TransactionTimeoutMillis, init.ProducerID, init.ProducerEpoch = ptr("x"), 1500, -1, -1
	producer := ask[*kmsg.InitProducerIDResponse](c, 5, init)
	wantCode(t, producer.ErrorCode, kerr.None)
	commit := kmsg.NewPtrTxnOffsetCommitRequest()
	commit.TransactionalID, commit.Group, commit.Generation = "x", "g", -1
	commit.ProducerID, commit.ProducerEpoch = producer.ProducerID, producer.ProducerEpoch
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic = "a"
	partition := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	partition.Offset = 5
	topic.Partitions = append(topic.Partitions, partition)
	commit.Topics = append(commit.Topics, topic)
	wantCode(t, ask[*kmsg.TxnOffsetCommitResponse](c, 5, commit).Topics[0].Partitions[0].ErrorCode, kerr.None)

	fetch := func(n *node) int16 {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Group, req.RequireStable = "g", true
		t := kmsg.NewOffsetFetchRequestTopic()
		t.Topic, t.Partitions = "a", []int32{0}
		req.Topics = append(req.Topics, t)
		return ask[*kmsg.OffsetFetchResponse](n.client(), 7, req).Topics[0].Partitions[0].ErrorCode
	}
	wantCode(t, fetch(n), kerr.UnstableOffsetCommit)
	n.stop()
	n = startIn(t, n.dir)
	wantCode(t, fetch(n), kerr.UnstableOffsetCommit)
	deadline := time.Now().Add(limit)
	for fetch(n) != 0 {
		if time.Now().After(deadline) {
			t.Fatal("the offset is not stable")
		}
		<-time.After(20 * time.Millisecond)
	}
}

// B77: many transactions over many topics end at once while one of the topics goes.
func TestManyTransactionsEndWhileATopicIsDeleted(t *testing.T) {
	n := start(t)
	const producers, topics = 20, 5
	for i := range topics {
		n.topic(fmt.Sprintf("t%d", i), 1)
	}
	clients := make([]*kgo.Client, producers)
	for i := range clients {
		clients[i] = n.txnClient(fmt.Sprintf("x%02d", i))
		if err := clients[i].BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for j := range topics {
			writeAll(t, clients[i], fmt.Sprintf("t%d", j), fmt.Sprint(i))
		}
	}
	var ends sync.WaitGroup
	for i, c := range clients {
		ends.Add(1)
		go func() {
			defer ends.Done()
			if i == producers/2 {
				del := kmsg.NewPtrDeleteTopicsRequest()
				del.TopicNames, del.TimeoutMillis = []string{"t2"}, 10_000
				ask[*kmsg.DeleteTopicsResponse](n.client(), 5, del)
			}
			if err := c.EndTransaction(t.Context(), kgo.TransactionEndTry(i%2 == 0)); err != nil {
				t.Errorf("producer %d: %v", i, err)
			}
		}()
	}
	ends.Wait()
	listed := ask[*kmsg.ListTransactionsResponse](n.client(), 0, kmsg.NewPtrListTransactionsRequest())
	if len(listed.TransactionStates) != producers {
		t.Errorf("%d are listed", len(listed.TransactionStates))
	}
	for _, x := range listed.TransactionStates {
		if !strings.HasPrefix(x.TransactionState, "Complete") {
			t.Errorf("%s is %s", x.TransactionalID, x.TransactionState)
		}
	}
	for _, topic := range []string{"t0", "t1", "t3", "t4"} {
		n.plainEnd(topic)
		got := n.readAll(topic, kgo.ReadCommitted())
		if len(got) != producers/2 {
			t.Errorf("%s: committed are %v", topic, got)
		}
	}
}

func TestTransactionOverManyPartitions(t *testing.T) {
	const partitions = 500
	for _, how := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		n := start(t)
		n.topic("a", partitions)
		c := n.txnClient("x")
		if err := c.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		var all []*kgo.Record
		for p := range int32(partitions) {
			all = append(all, &kgo.Record{Topic: "a", Partition: p, Value: []byte("v")})
		}
		if err := c.ProduceSync(t.Context(), all...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := c.EndTransaction(t.Context(), how); err != nil {
			t.Fatal(err)
		}
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID, req.IsolationLevel = -1, 1
		topic := kmsg.NewListOffsetsRequestTopic()
		topic.Topic = "a"
		for p := range int32(partitions) {
			x := kmsg.NewListOffsetsRequestTopicPartition()
			x.Partition, x.Timestamp = p, -1
			topic.Partitions = append(topic.Partitions, x)
		}
		req.Topics = append(req.Topics, topic)
		for _, p := range ask[*kmsg.ListOffsetsResponse](n.client(), 4, req).Topics[0].Partitions {
			if p.Offset != 2 {
				t.Fatalf("partition %d is stable to %d", p.Partition, p.Offset)
			}
		}
		n.plainEnd("a") // partition 0
		fetches := n.readAll("a", kgo.ReadUncommitted())
		if len(fetches) == 0 {
			t.Error("nothing was read")
		}
	}
}

// Consume, transform, produce: each input comes out exactly once, whichever member of
// the group takes it, while members come and go.
func TestConsumeTransformProduceIsExactlyOnce(t *testing.T) {
	for name, options := range protocols {
		t.Run(name, func(t *testing.T) {
			n := start(t, "group.initial.rebalance.delay.ms", "0")
			n.topic("in", 4)
			n.topic("out", 1)
			const inputs = 2000
			feed, err := kgo.NewClient(kgo.SeedBrokers(n.addr))
			if err != nil {
				t.Fatal(err)
			}
			defer feed.Close()
			var all []*kgo.Record
			for i := range inputs {
				all = append(all, &kgo.Record{Topic: "in", Key: fmt.Append(nil, i), Value: fmt.Append(nil, i)})
			}
			if err := feed.ProduceSync(t.Context(), all...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			var workers sync.WaitGroup
			work := func(id string, rounds int) {
				defer workers.Done()
				if err := transform(ctx, n.addr, id, rounds, options); err != nil && ctx.Err() == nil {
					t.Errorf("%s: %v", id, err)
				}
			}
			workers.Add(4)
			go work("w0", 1<<30)
			go work("w1", 3) // leaves
			go work("w2", 1<<30)
			go func() {
				<-time.After(300 * time.Millisecond)
				work("w3", 1<<30) // comes late
			}()
			got := n.readCounted(ctx, "out", inputs)
			cancel()
			workers.Wait()
			slices.Sort(got)
			if unique := len(slices.Compact(slices.Clone(got))); len(got) != inputs || unique != inputs {
				t.Errorf("%d of %d came out, %d of them different", len(got), inputs, unique)
			}
		})
	}
}

// transform copies from "in" to "out", some records in each transaction.
func transform(ctx context.Context, addr, id string, rounds int, options []kgo.Opt) error {
	s, err := kgo.NewGroupTransactSession(append([]kgo.Opt{
		kgo.SeedBrokers(addr), kgo.TransactionalID(id), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("in"),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(100 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
	}, options...)...)
	if err != nil {
		return err
	}
	defer s.Close()
	for range rounds {
		fetches := s.PollRecords(ctx, 20)
		if ctx.Err() != nil {
			return nil
		}
		if err := s.Begin(); err != nil {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			s.Produce(ctx, &kgo.Record{Topic: "out", Value: r.Value}, nil)
		})
		if _, err := s.End(ctx, kgo.TryCommit); err != nil {
			return err
		}
	}
	return nil
}

// readCounted reads committed records until there are so many, and a little longer.
func (n *node) readCounted(ctx context.Context, topic string, count int) []string {
	n.t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(n.addr), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(50*time.Millisecond))
	if err != nil {
		n.t.Fatal(err)
	}
	defer c.Close()
	var values []string
	for len(values) < count && ctx.Err() == nil {
		for _, r := range c.PollFetches(ctx).Records() {
			values = append(values, string(r.Value))
		}
	}
	late, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	for late.Err() == nil {
		for _, r := range c.PollFetches(late).Records() {
			values = append(values, string(r.Value))
		}
	}
	return values
}

func TestOperatorsSeeAndFenceTransactions(t *testing.T) {
	n := start(t)
	n.topic("a", 2)
	c := n.txnClient("x")
	if err := c.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	writeAll(t, c, "a", "1")
	plain, err := kgo.NewClient(kgo.SeedBrokers(n.addr))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	admin := kadm.NewClient(plain)
	described, err := admin.DescribeTransactions(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if x := described["x"]; x.State != "Ongoing" || fmt.Sprint(x.Topics.Sorted()) == "" {
		t.Errorf("described: %+v", x)
	}
	producers, err := admin.DescribeProducers(t.Context(), kadm.TopicsSet{"a": {0: {}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range producers.SortedProducers() {
		if p.CurrentTxnStartOffset != 0 || p.LastSequence != 0 {
			t.Errorf("producer: %+v", p)
		}
	}
	fence := kmsg.NewPtrInitProducerIDRequest() // as Admin.fenceProducers does
	fence.TransactionalID, fence.TransactionTimeoutMillis, fence.ProducerID, fence.ProducerEpoch = ptr("x"), 1000, -1, -1
	wantCode(t, ask[*kmsg.InitProducerIDResponse](n.client(), 5, fence).ErrorCode, kerr.None)
	if err := c.EndTransaction(t.Context(), kgo.TryCommit); !errors.Is(err, fkerr.ProducerFenced) && !errors.Is(err, fkerr.InvalidProducerEpoch) {
		t.Errorf("the fenced producer: %v", err)
	}
}
