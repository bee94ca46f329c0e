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

// commits is what was committed in groups, as clients know it.
type commits struct {
	mu    sync.Mutex
	acked map[committedAt]int64 // guarded by mu: the newest that was acknowledged
	tried map[committedAt]int64 // guarded by mu: the newest that was sent
}

type committedAt struct {
	group     string
	partition int32
}

func (c *commits) try(at committedAt, offset int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tried[at] = max(c.tried[at], offset)
}

func (c *commits) ack(at committedAt, offset int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acked[at] = max(c.acked[at], offset)
}

// check compares what a broker has with what was acknowledged when it was asked.
func (c *commits) check(ctx context.Context, t *testing.T, admin *kadm.Client, topic string) {
	t.Helper()
	c.mu.Lock()
	before := make(map[committedAt]int64, len(c.acked))
	for at, offset := range c.acked {
		before[at] = offset
	}
	c.mu.Unlock()
	has := make(map[string]kadm.OffsetResponses)
	for at, acked := range before {
		if has[at.group] == nil {
			found, err := admin.FetchOffsets(ctx, at.group)
			if err != nil {
				t.Fatal(err)
			}
			has[at.group] = found
		}
		o, ok := has[at.group].Lookup(topic, at.partition)
		c.mu.Lock()
		tried := c.tried[at]
		c.mu.Unlock()
		if !ok || o.At < acked || o.At > tried {
			t.Errorf("group %s, partition %d: %d is committed; %d was acknowledged, %d tried", at.group, at.partition, o.At, acked, tried)
		}
	}
}

// Nothing that was acknowledged as committed is lost or goes back when the
// program is killed, and members of groups go on as if nothing had been: in the
// same generation, since the program comes back within their session.
func TestCrashesLoseNoCommittedOffset(t *testing.T) {
	for _, flush := range []string{"sync", "async"} {
		t.Run("flush="+flush, func(t *testing.T) {
			t.Parallel()
			crashBetweenCommits(t, "flush="+flush)
		})
	}
}

func crashBetweenCommits(t *testing.T, flush string) {
	const partitions = 6
	rounds, seed := crashPlan(t)
	t.Logf("%d rounds; to have the same choices again: %s=%d", rounds, crashSeed, seed)
	random := rand.New(rand.NewPCG(seed, 1))
	n := node.Start(t, node.Options{Set: []string{flush, "flush.interval.ms=20", "group.initial.rebalance.delay.ms=500", "commitlog.segment.bytes=2097152"}})
	makeTopic(t, raw.Dial(t, n.Addr()), "work", partitions)
	known := &commits{acked: make(map[committedAt]int64), tried: make(map[committedAt]int64)}
	ctx, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	defer working.Wait()
	defer stop()

	// Groups without members, whose offsets count up.
	for i := range 4 {
		admin, group := newAdmin(t, n), fmt.Sprint("simple-", i)
		// Ends with the context.
		working.Go(func() {
			for offset := int64(1); ctx.Err() == nil; offset++ {
				var wanted kadm.Offsets
				for p := range int32(partitions) {
					known.try(committedAt{group, p}, offset)
					wanted.AddOffset("work", p, offset, -1)
				}
				answers, err := admin.CommitOffsets(ctx, group, wanted)
				if err != nil {
					continue
				}
				answers.Each(func(o kadm.OffsetResponse) {
					if o.Err == nil {
						known.ack(committedAt{group, o.Partition}, offset)
					}
				})
			}
		})
	}
	// Members of a group, which commit what they have read.
	producer := newFranz(t, n, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.UnknownTopicRetries(-1))
	// Ends with the context.
	working.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			producer.Produce(ctx, &kgo.Record{Topic: "work", Value: fmt.Append(nil, i)}, nil)
			<-time.After(time.Millisecond)
		}
	})
	var members []*kgo.Client
	for range 3 {
		cl := newFranz(t, n, kgo.ConsumerGroup("members"), kgo.ConsumeTopics("work"), kgo.DisableAutoCommit(),
			kgo.HeartbeatInterval(200*time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
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
	admin := newAdmin(t, n)
	whole := func() (generations map[int32]bool) {
		waitFor(t, "the group to be whole", func() bool {
			described, err := admin.DescribeGroups(deadline(t), "members")
			g := described["members"]
			if err != nil || g.State != "Stable" || len(g.Members) != len(members) {
				return false
			}
			generations = make(map[int32]bool)
			for _, cl := range members {
				_, generation := cl.GroupMetadata()
				generations[generation] = true
			}
			return len(generations) == 1
		})
		return generations
	}
	before := whole()
	for round := range rounds {
		<-time.After(time.Duration(50+random.IntN(600)) * time.Millisecond) // not for something to happen: the moment is the test
		n.Kill()
		n.Restart()
		known.check(deadline(t), t, newAdmin(t, n), "work")
		if t.Failed() {
			t.Fatalf("round %d of %d", round+1, rounds)
		}
	}
	if after := whole(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the members were in generation %v, and are in %v", before, after)
	}
	// They still get on.
	known.mu.Lock()
	var so int64
	for p := range int32(partitions) {
		so += known.acked[committedAt{"members", p}]
	}
	known.mu.Unlock()
	waitFor(t, "the members to commit more", func() bool {
		known.mu.Lock()
		defer known.mu.Unlock()
		var sum int64
		for p := range int32(partitions) {
			sum += known.acked[committedAt{"members", p}]
		}
		return sum > so
	})
	known.check(deadline(t), t, newAdmin(t, n), "work")
	t.Logf("%d offsets were committed by members, %d by others", so, known.acked[committedAt{"simple-0", 0}])
}
