package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/tests/e2e/node"
	"github.com/sluicemq/sluice/tests/e2e/raw"
)

// feed produces records to all partitions of a topic until the context ends.
func feed(ctx context.Context, cl *kgo.Client, topic string, every time.Duration) {
	for i := 0; ctx.Err() == nil; i++ {
		cl.Produce(ctx, &kgo.Record{Topic: topic, Value: fmt.Append(nil, i)}, nil)
		<-time.After(every)
	}
}

func setGroupConfig(t testing.TB, n *node.Node, group, name, value string) {
	t.Helper()
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	in := kmsg.NewIncrementalAlterConfigsRequestResource()
	in.ResourceType, in.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = name, kmsg.StringPtr(value)
	in.Configs = append(in.Configs, config)
	request.Resources = append(request.Resources, in)
	answer, err := request.RequestWith(deadline(t), newFranz(t, n))
	if err != nil || answer.Resources[0].ErrorCode != 0 {
		t.Fatalf("set %s of group %s: %+v, %v", name, group, answer, err)
	}
}

// Members of the consumer protocol go on as if nothing had been when the program is
// killed: under the same ids, in the same epoch, with the same partitions, of which
// none is revoked; and nothing goes back that was acknowledged as committed. All of
// that in an ordered group as well.
func TestCrashesLeaveMembersOfTheConsumerProtocolInTheirEpochs(t *testing.T) {
	for _, ordered := range []string{"false", "true"} {
		t.Run("ordered="+ordered, func(t *testing.T) {
			t.Parallel()
			crashBetweenEpochs(t, ordered)
		})
	}
}

func crashBetweenEpochs(t *testing.T, ordered string) {
	const partitions = 7
	rounds, seed := crashPlan(t)
	t.Logf("%d rounds; to have the same choices again: %s=%d", rounds, crashSeed, seed)
	random := rand.New(rand.NewPCG(seed, 2))
	n := node.Start(t, node.Options{Set: []string{
		"flush=sync", "commitlog.segment.bytes=2097152",
		"group.consumer.min.heartbeat.interval.ms=200", "group.consumer.heartbeat.interval.ms=200",
	}})
	makeTopic(t, raw.Dial(t, n.Addr()), "work", partitions)
	admin := newAdmin(t, n)
	setGroupConfig(t, n, "members", "ordered", ordered)
	known := &commits{acked: make(map[committedAt]int64), tried: make(map[committedAt]int64)}
	ctx, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	defer working.Wait()
	defer stop()
	producer := newFranz(t, n, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.UnknownTopicRetries(-1))
	working.Go(func() { feed(ctx, producer, "work", time.Millisecond) }) // ends with the context

	var changes struct {
		sync.Mutex
		count int
	}
	changed := func(context.Context, *kgo.Client, map[string][]int32) {
		changes.Lock()
		defer changes.Unlock()
		changes.count++
	}
	var members []*kgo.Client
	for range 3 {
		cl := newFranz(t, n, kgo.ConsumerGroup("members"), kgo.ConsumeTopics("work"), kgo.ServerSideBalancer(), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.OnPartitionsRevoked(changed), kgo.OnPartitionsLost(changed))
		members = append(members, cl)
		// Ends with the context.
		working.Go(func() {
			for ctx.Err() == nil {
				cl.PollFetches(ctx)
				offsets := cl.UncommittedOffsets()
				for p, o := range offsets["work"] {
					known.try(committedAt{"members", p}, o.Offset)
				}
				cl.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
					if err != nil || len(answer.Topics) == 0 {
						return
					}
					for _, p := range answer.Topics[0].Partitions {
						if p.ErrorCode == 0 {
							known.ack(committedAt{"members", p.Partition}, offsets["work"][p.Partition].Offset)
						}
					}
				})
			}
		})
	}
	whole := func() (as string) {
		waitFor(t, "the group to be whole", func() bool {
			g, ok := describeConsumers(deadline(t), admin, "members")
			if !ok || g.State != "Stable" || len(g.Members) != len(members) {
				return false
			}
			owned := 0
			for _, m := range g.Members {
				owned += len(m.Assignment["work"])
				if m.MemberEpoch != g.Epoch {
					return false
				}
			}
			as = fmt.Sprintf("epoch %d:", g.Epoch)
			for _, cl := range members {
				id, epoch := cl.GroupMetadata()
				if epoch != g.Epoch {
					return false
				}
				as += fmt.Sprintf(" %s has %v;", id, assignmentOf(g, id))
			}
			return owned == partitions
		})
		return as
	}
	before := whole()
	changes.Lock()
	changesBefore := changes.count
	changes.Unlock()
	for round := range rounds {
		<-time.After(time.Duration(50+random.IntN(600)) * time.Millisecond) // not for something to happen: the moment is the test
		n.Kill()
		n.Restart()
		known.check(deadline(t), t, newAdmin(t, n), "work")
		if t.Failed() {
			t.Fatalf("round %d of %d", round+1, rounds)
		}
	}
	if after := whole(); after != before {
		t.Errorf("the group was in %s and is in %s", before, after)
	}
	changes.Lock()
	if changes.count != changesBefore {
		t.Errorf("partitions were taken from members %d times", changes.count-changesBefore)
	}
	changes.Unlock()
	progress := func() (sum int64) {
		known.mu.Lock()
		defer known.mu.Unlock()
		for p := range int32(partitions) {
			sum += known.acked[committedAt{"members", p}]
		}
		return sum
	}
	so := progress()
	waitFor(t, "the members to commit more", func() bool { return progress() > so })
	known.check(deadline(t), t, newAdmin(t, n), "work")
	t.Logf("%s\n%d offsets were committed", before, so)
}

func describeConsumers(ctx context.Context, admin *kadm.Client, group string) (kadm.DescribedConsumerGroup, bool) {
	found, err := admin.DescribeConsumerGroups(ctx, group)
	g, ok := found[group]
	return g, err == nil && ok && g.Err == nil
}

func assignmentOf(g kadm.DescribedConsumerGroup, id string) string {
	for _, m := range g.Members {
		if m.MemberID == id {
			return fmt.Sprint(m.Assignment)
		}
	}
	return "nothing"
}

// bench is where workers say which partition they work on, so that it is seen when
// two do.
type bench struct {
	mu        sync.Mutex
	turns     int
	current   map[int32]int // guarded by mu: whose turn it is, by partition
	conflicts []string      // guarded by mu
}

// take begins a turn at a partition. What was begun there before is to be over.
func (b *bench) take(partition int32) (turn int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turns++
	b.current[partition] = b.turns
	return b.turns
}

// work says that a turn goes on, unless the time is up.
func (b *bench) work(partition int32, turn int, until time.Time, who string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := time.Now(); b.current[partition] != turn && (until.IsZero() || now.Before(until)) {
		b.conflicts = append(b.conflicts, fmt.Sprintf("%s works on partition %d in turn %d, and somebody has begun turn %d", who, partition, turn, b.current[partition]))
	}
}

// worker is a member of an ordered group that works on what it reads.
type worker struct {
	cl    *kgo.Client
	wire  wire
	bench *bench
	mu    sync.Mutex
	turns map[int32]int // guarded by mu: by partition that it has begun to work on
	done  chan struct{}
}

func newWorker(t testing.TB, n *node.Node, b *bench, options ...kgo.Opt) *worker {
	t.Helper()
	w := &worker{bench: b, turns: make(map[int32]int), done: make(chan struct{})}
	over := func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, p := range partitions["work"] {
			delete(w.turns, p)
		}
	}
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(n.Addr()), kgo.ConsumerGroup("ordered"), kgo.ConsumeTopics("work"), kgo.Dialer(w.wire.dial), kgo.RetryTimeout(2 * time.Second),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.BlockRebalanceOnPoll(), kgo.AutoCommitInterval(100 * time.Millisecond),
		kgo.OnPartitionsRevoked(over), kgo.OnPartitionsLost(over), kgo.FetchMaxPartitionBytes(2000), kgo.FetchMaxWait(100 * time.Millisecond),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	w.cl = cl
	// Ends when the client is closed.
	go func() {
		defer close(w.done)
		for {
			fetches := cl.PollRecords(context.Background(), 100)
			if fetches.IsClientClosed() {
				return
			}
			fetches.EachRecord(func(r *kgo.Record) { w.work(r.Partition) })
			cl.AllowRebalance()
		}
	}()
	return w
}

func (w *worker) work(partition int32) {
	w.mu.Lock()
	turn, begun := w.turns[partition]
	if !begun {
		turn = w.bench.take(partition)
		w.turns[partition] = turn
	}
	w.mu.Unlock()
	w.bench.work(partition, turn, time.Time{}, "a member")
}

// vanish cuts the worker off. Since it does not know that it was thrown out, it goes
// on with what it has for a while.
func (w *worker) vanish(goesOn time.Duration) {
	until := time.Now().Add(goesOn)
	w.mu.Lock()
	w.wire.sever()
	turns := make(map[int32]int, len(w.turns))
	for p, turn := range w.turns {
		turns[p] = turn
	}
	w.mu.Unlock()
	for time.Now().Before(until) {
		for p, turn := range turns {
			w.bench.work(p, turn, until, "one that was cut off")
		}
		<-time.After(50 * time.Millisecond)
	}
}

func (w *worker) close() {
	w.cl.CloseAllowingRebalance()
	<-w.done
}

// In an ordered group nobody begins to work on a partition while somebody else may
// still be at it, who was cut off from the broker and thrown out.
func TestOrderedGroupsHaveOneWorkerToAPartition(t *testing.T) {
	for name, options := range map[string][]kgo.Opt{
		"consumer": {kgo.ServerSideBalancer()},
		"cooperative": {kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.SessionTimeout(3 * time.Second), kgo.HeartbeatInterval(200 * time.Millisecond),
			kgo.RebalanceTimeout(10 * time.Second)},
		"eager": {kgo.Balancers(kgo.RangeBalancer()), kgo.SessionTimeout(3 * time.Second), kgo.HeartbeatInterval(200 * time.Millisecond),
			kgo.RebalanceTimeout(10 * time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			orderUnderChurn(t, options)
		})
	}
}

func orderUnderChurn(t *testing.T, options []kgo.Opt) {
	const partitions, size, lease = 12, 5, 6 * time.Second
	seconds := fromEnvironment(t, stormSeconds, 30)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 3))
	n := node.Start(t, node.Options{Set: []string{
		"group.initial.rebalance.delay.ms=100", "group.min.session.timeout.ms=1000", fmt.Sprintf("queue.lock.lease.ms=%d", lease.Milliseconds()),
		"group.consumer.min.heartbeat.interval.ms=200", "group.consumer.heartbeat.interval.ms=200",
		"group.consumer.min.session.timeout.ms=3000", "group.consumer.session.timeout.ms=3000",
	}})
	makeTopic(t, raw.Dial(t, n.Addr()), "work", partitions)
	setGroupConfig(t, n, "ordered", "ordered", "true")
	ctx, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	defer working.Wait()
	defer stop()
	producer := newFranz(t, n, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	working.Go(func() { feed(ctx, producer, "work", time.Millisecond) }) // ends with the context

	b := &bench{current: make(map[int32]int)}
	var workers []*worker
	vanished, left, killed := 0, 0, 0
	for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); {
		if random.IntN(12) == 0 {
			killed++
			n.Kill()
			n.Restart()
		} else if len(workers) < size {
			workers = append(workers, newWorker(t, n, b, options...))
		} else {
			at := random.IntN(len(workers))
			gone := workers[at]
			workers = append(workers[:at:at], workers[at+1:]...)
			if random.IntN(2) > 0 {
				vanished++
				// Ends when the worker gives up. The rest of its lease is for a machine that
				// is slow to send heartbeats.
				working.Go(func() { gone.vanish(lease - 1500*time.Millisecond); gone.close() })
			} else {
				left++
				working.Go(gone.close) // ends when the worker has left
			}
		}
		<-time.After(time.Duration(random.IntN(1500)) * time.Millisecond) // the pace of changes
	}
	b.mu.Lock()
	begun := b.turns
	b.mu.Unlock()
	// Everything is worked on again once it is calm.
	turns := func() (count int) {
		for _, w := range workers {
			w.mu.Lock()
			count += len(w.turns)
			w.mu.Unlock()
		}
		return count
	}
	waitFor(t, "all partitions to be worked on", func() bool { return turns() == partitions })
	t.Logf("%d turns; %d members were cut off, %d left; the broker was killed %d times", begun, vanished, left, killed)
	for _, w := range workers {
		working.Go(w.close)
	}
	stop()
	working.Wait()
	if len(b.conflicts) > 0 {
		t.Errorf("%d conflicts, such as: %s", len(b.conflicts), b.conflicts[0])
	}
}
