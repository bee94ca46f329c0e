package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// readUncommitted and readCommitted are levels of isolation, as most clients call them.
const (
	readUncommitted = "read_uncommitted"
	readCommitted   = "read_committed"
)

func (p *play) consumeIsolated(topic string, partition int32, count int, isolation string) []record {
	return p.do(request{Op: "consume", Topic: topic, Partition: partition, Count: count, Isolation: isolation}).Records
}

// writer makes a transactional producer of the runner's own. It is closed with the scenario.
func (p *play) writer(id string) *kgo.Client {
	cl, err := kgo.NewClient(kgo.SeedBrokers(p.b.addr), kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		p.fail("set up: %w", err)
	}
	p.companions = append(p.companions, &companion{cl: cl})
	return cl
}

// open begins a transaction of n records.
func (p *play) open(cl *kgo.Client, topic string, n int) {
	if err := cl.BeginTransaction(); err != nil {
		p.fail("set up: begin: %w", err)
	}
	for i := range n {
		r := &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "in a transaction %d", i)}
		if err := cl.ProduceSync(p.ctx, r).FirstErr(); err != nil {
			p.fail("set up: produce: %w", err)
		}
	}
}

func (p *play) finish(cl *kgo.Client, commit bool) {
	if err := cl.EndTransaction(p.ctx, kgo.TransactionEndTry(commit)); err != nil {
		p.fail("set up: end: %w", err)
	}
}

func transactionRead(p *play) string {
	t := p.topic(1)
	w := p.writer(t + "-id")
	p.open(w, t, 3)
	p.finish(w, true)
	p.open(w, t, 3)
	p.finish(w, false)
	p.settled(t, 0) // else Kafka may write the marker behind the next record
	p.b.write(p.ctx, p, t, 0, time.Now().UnixMilli())
	p.open(w, t, 2)
	p.b.write(p.ctx, p, t, 0, time.Now().UnixMilli())
	all := digest(p.consumeIsolated(t, 0, 10, readUncommitted), false)
	open := digest(p.consumeIsolated(t, 0, 4, readCommitted), false)
	p.finish(w, true)
	return fmt.Sprintf("uncommitted %s; committed %s, then %s", all, open, digest(p.consumeIsolated(t, 0, 7, readCommitted), false))
}

// step asks for a step of a transaction that must succeed.
func (p *play) step(name, step string, r request) {
	r.Op, r.Name, r.Step = "transaction", name, step
	p.do(r)
}

// ends tells how far all readers and those of committed records may go.
func (p *play) ends(topic string, partition int32) string {
	stable, err := p.b.adm.ListCommittedOffsets(p.ctx, topic)
	if err != nil {
		p.fail("last stable offset: %w", err)
	}
	o, _ := stable.Lookup(topic, partition)
	return fmt.Sprintf("stable %d of %d", o.Offset, p.b.end(p.ctx, topic, partition))
}

// settled is ends once no transaction is open: Kafka says that one is committed before all its
// partitions know.
func (p *play) settled(topic string, partition int32) string {
	p.eventually("no transaction is open", func() bool {
		stable, err := p.b.adm.ListCommittedOffsets(p.ctx, topic)
		if err != nil {
			return false
		}
		o, _ := stable.Lookup(topic, partition)
		return o.Offset == p.b.end(p.ctx, topic, partition)
	})
	return p.ends(topic, partition)
}

func transactionCommit(p *play) string {
	t := p.topic(2)
	p.step(t+"-a", "begin", request{ID: t + "-id"})
	p.step(t+"-a", "send", request{Topic: t, Partition: 0, Records: sample(3)})
	p.step(t+"-a", "send", request{Topic: t, Partition: 1, Records: sample(4)})
	open := p.ends(t, 0)
	p.step(t+"-a", "commit", request{})
	p.step(t+"-a", "begin", request{})
	p.step(t+"-a", "send", request{Topic: t, Partition: 1, Records: sample(2)})
	p.step(t+"-a", "commit", request{})
	p.step(t+"-a", "close", request{})
	var out []string
	for partition, n := range []int{3, 6} {
		out = append(out, digest(p.consumeIsolated(t, int32(partition), n, readCommitted), false), p.settled(t, int32(partition)))
	}
	return fmt.Sprintf("open: %s; committed: %s", open, strings.Join(out, ", "))
}

func transactionAbort(p *play) string {
	t := p.topic(1)
	p.step(t+"-a", "begin", request{ID: t + "-id"})
	p.step(t+"-a", "send", request{Topic: t, Records: sample(3)})
	p.step(t+"-a", "abort", request{})
	p.step(t+"-a", "begin", request{})
	p.step(t+"-a", "send", request{Topic: t, Records: sample(2)})
	p.step(t+"-a", "commit", request{})
	p.step(t+"-a", "close", request{})
	return fmt.Sprintf("committed %s, uncommitted %s, %s", digest(p.consumeIsolated(t, 0, 2, readCommitted), false),
		digest(p.consumeIsolated(t, 0, 5, readUncommitted), false), p.settled(t, 0))
}

func transactionFenced(p *play) string {
	t := p.topic(1)
	p.step(t+"-a", "begin", request{ID: t + "-id"})
	p.step(t+"-a", "send", request{Topic: t, Records: sample(3)})
	first := p.try(request{Op: "transaction", Name: t + "-b", Step: "begin", ID: t + "-id"})
	if first != "done" {
		return "the second: " + first
	}
	second := p.settled(t, 0)
	late := p.try(request{Op: "transaction", Name: t + "-a", Step: "commit"})
	p.step(t+"-b", "send", request{Topic: t, Records: sample(2)})
	p.step(t+"-b", "commit", request{})
	p.step(t+"-b", "close", request{})
	p.try(request{Op: "transaction", Name: t + "-a", Step: "close"})
	return fmt.Sprintf("%s when the second begins; the first commits: %s; %s, %s", second, late,
		digest(p.consumeIsolated(t, 0, 2, readCommitted), false), p.settled(t, 0))
}

func transactionCopy(p *play) string {
	from, to := p.topic(1), p.topic(1)
	p.b.writeBatch(p.ctx, p, from, 0, 10)
	group := from + "-group"
	var out []string
	for i, part := range []struct {
		step  string
		count int
		after int64
	}{{"abort", 4, -1}, {"commit", 4, 4}, {"commit", 6, 10}} {
		id := from + "-id"
		if p.s.client == "platformatic-kafka" {
			id += strconv.Itoa(i) // Its second producer of an id asks for producer id 0, and is fenced.
		}
		got := p.do(request{Op: "copy", ID: id, Topic: from, Name: to, Group: group, Count: part.count, Step: part.step}).Records
		p.eventually("the offset is committed", func() bool { return p.b.committed(p.ctx, group, from, 0) == part.after })
		out = append(out, fmt.Sprintf("%s %d..%d, committed %d", part.step, got[0].Offset, got[len(got)-1].Offset, part.after))
	}
	return strings.Join(out, "; ") + "; copied: " + values(p.consumeIsolated(to, 0, 10, readCommitted))
}

func values(records []record) string {
	var out []string
	for _, r := range records {
		out = append(out, string(r.Value))
	}
	return strings.Join(out, ", ")
}

func toolTransactions(p *play) string {
	p.toolsOnly()
	t := p.topic(2)
	id := t + "-id"
	tool := func(args ...string) string {
		return p.do(request{Op: "tool", Name: "transactions", Count: 1, Args: args}).Text
	}
	w := p.writer(id)
	p.open(w, t, 2)
	var listed string
	for _, row := range strings.Split(columns(tool("list"), "TransactionalId", "TransactionState"), ", ") {
		if strings.HasPrefix(row, id+" ") {
			listed = row
		}
	}
	described := columns(tool("describe", "--transactional-id", id), "TransactionalId", "ProducerEpoch", "TransactionState", "TransactionTimeoutMs",
		"TopicPartitions")
	producers := func() string {
		return columns(tool("describe-producers", "--topic", t, "--partition", "0"), "ProducerEpoch", "LastSequence", "CurrentTransactionStartOffset")
	}
	open := producers()
	hanging := columns(tool("find-hanging", "--topic", t, "--max-transaction-timeout", "1"), "Topic", "Partition", "StartOffset", "Duration")
	tool("abort", "--topic", t, "--partition", "0", "--start-offset", "0")
	return fmt.Sprintf("list: %s; describe: %s; producers: %s; hanging: %s; aborted: %s, %s", listed, described, open, hanging, producers(), p.settled(t, 0))
}

func toolProducerPerfTransactional(p *play) string {
	t := p.topic(1)
	text := p.do(request{Op: "tool", Name: "producer-perf", Topic: t, Count: 500, Args: []string{
		"--throughput", "2000", "--transactional-id", t + "-id", "--transaction-duration-ms", "50",
	}}).Text
	committed := len(p.consumeIsolated(t, 0, 500, readCommitted))
	described, err := p.b.adm.DescribeTransactions(p.ctx, t+"-id")
	if err != nil {
		p.fail("describe: %w", err)
	}
	return fmt.Sprintf("%s, %d committed, state %s", text, committed, state(described, t+"-id"))
}

func state(all kadm.DescribedTransactions, id string) string { return all[id].State }
