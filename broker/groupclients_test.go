package broker_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// consumers are franz-go clients of one group, and what they were given.
type consumers struct {
	t    *testing.T
	addr string

	mu    sync.Mutex
	owned map[string]map[int32]bool // guarded by mu; by client id
	read  map[string]int            // guarded by mu; by value
}

func newConsumers(t *testing.T, addr string) *consumers {
	return &consumers{t: t, addr: addr, owned: map[string]map[int32]bool{}, read: map[string]int{}}
}

// add starts a consumer of topic "a" that reads and commits until it is stopped.
func (c *consumers) add(id string, options ...kgo.Opt) (stop func()) {
	c.t.Helper()
	c.mu.Lock()
	c.owned[id] = map[int32]bool{}
	c.mu.Unlock()
	set := func(owned bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(ctx context.Context, client *kgo.Client, partitions map[string][]int32) {
			if !owned {
				if err := client.CommitMarkedOffsets(ctx); err != nil {
					c.t.Logf("%s: commit: %v", id, err)
				}
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, p := range partitions["a"] {
				if owned {
					c.owned[id][p] = true
				} else {
					delete(c.owned[id], p)
				}
			}
		}
	}
	options = append([]kgo.Opt{
		kgo.SeedBrokers(c.addr), kgo.ClientID(id), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("a"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.OnPartitionsAssigned(set(true)), kgo.OnPartitionsRevoked(set(false)),
		kgo.OnPartitionsLost(set(false)), kgo.HeartbeatInterval(100 * time.Millisecond), kgo.AutoCommitMarks(), kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.BlockRebalanceOnPoll(), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
	}, options...)
	client, err := kgo.NewClient(options...)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(c.t.Context())
	done := make(chan struct{})
	go func() { // ends with stop
		defer close(done)
		for ctx.Err() == nil {
			fetches := client.PollFetches(ctx)
			fetches.EachRecord(func(r *kgo.Record) {
				c.mu.Lock()
				c.read[string(r.Value)]++
				c.mu.Unlock()
				client.MarkCommitRecords(r)
			})
			client.AllowRebalance()
		}
	}()
	return sync.OnceFunc(func() {
		cancel()
		<-done
		if err := client.CommitMarkedOffsets(context.Background()); err != nil {
			c.t.Log(err)
		}
		client.CloseAllowingRebalance()
		c.mu.Lock()
		delete(c.owned, id)
		c.mu.Unlock()
	})
}

// shared reports whether each of n partitions has one owner, and each consumer one
// or more.
func (c *consumers) shared(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	owners := map[int32]int{}
	for _, owned := range c.owned {
		if len(owned) == 0 && len(c.owned) <= n {
			return false
		}
		for p := range owned {
			owners[p]++
		}
	}
	for _, count := range owners {
		if count != 1 {
			return false
		}
	}
	return len(owners) == n
}

func (c *consumers) wantRead(n int) {
	c.t.Helper()
	until(c.t, fmt.Sprintf("%d values are read", n), func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.read) >= n
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	for value, times := range c.read {
		if times != 1 {
			c.t.Errorf("%s was read %d times", value, times)
		}
	}
}

func (n *node) fill(from, to int) {
	n.t.Helper()
	for i := from; i < to; i++ {
		n.produce("a", int32(i%3), fmt.Sprintf("v%d", i))
	}
}

// B62: a second consumer gets its share, and nothing is read twice, whoever divides
// the work.
func TestTwoConsumersShareThreePartitions(t *testing.T) {
	for name, balancer := range map[string]kgo.GroupBalancer{"range": kgo.RangeBalancer(), "cooperative": kgo.CooperativeStickyBalancer()} {
		t.Run(name, func(t *testing.T) {
			n := start(t, "group.initial.rebalance.delay.ms", "0")
			n.topic("a", 3)
			n.fill(0, 15)
			c := newConsumers(t, n.addr)
			stop := c.add("one", kgo.Balancers(balancer))
			defer stop()
			c.wantRead(15)
			stopTwo := c.add("two", kgo.Balancers(balancer))
			defer stopTwo()
			until(t, "three partitions are shared", func() bool { return c.shared(3) })
			n.fill(15, 30)
			c.wantRead(30)
			stop()
			until(t, "the other has all", func() bool { return c.shared(3) })
			n.fill(30, 45)
			c.wantRead(45)
		})
	}
}

// B61: members come and go, and at rest every partition has one owner.
func TestConsumersComeAndGo(t *testing.T) {
	n := start(t, "group.initial.rebalance.delay.ms", "100")
	n.topic("a", 8)
	c := newConsumers(t, n.addr)
	stops := map[int]func(){}
	next := 0
	add := func() { stops[next] = c.add(fmt.Sprintf("c%d", next)); next++ }
	for range 4 {
		add()
	}
	for range 5 {
		until(t, "eight partitions are shared", func() bool { return c.shared(8) })
		for _, i := range slices.Sorted(maps.Keys(stops))[:2] {
			stops[i]()
			delete(stops, i)
		}
		add()
		add()
	}
	until(t, "eight partitions are shared", func() bool { return c.shared(8) })
	for _, stop := range stops {
		stop()
	}
}

// The broker restarts under a running group, which carries on where it was.
func TestGroupCarriesOnWhenTheBrokerRestarts(t *testing.T) {
	n := start(t, "group.initial.rebalance.delay.ms", "0")
	n.topic("a", 3)
	n.fill(0, 9)
	c := newConsumers(t, n.addr)
	defer c.add("one")()
	c.wantRead(9)
	defer c.add("two")()
	until(t, "three partitions are shared", func() bool { return c.shared(3) })
	adm := kadm.NewClient(admin(t, n.addr))
	until(t, "all is committed", func() bool {
		lag, err := adm.Lag(t.Context(), "g")
		return err == nil && lag["g"].Lag.Total() == 0
	})
	generation := func() string {
		d := describe(n.client(), 5, "g")
		return fmt.Sprint(d.State, len(d.Members), d.Members[0].MemberID)
	}
	before := generation()
	n.stop()
	n = startIn(t, n.dir, "group.initial.rebalance.delay.ms", "0", "listeners", "PLAINTEXT://"+n.addr)
	if after := generation(); after != before {
		t.Errorf("before: %s, after: %s", before, after)
	}
	n.fill(9, 18)
	c.wantRead(18)
	if after := generation(); after != before {
		t.Errorf("before: %s, later: %s", before, after)
	}
}

func admin(t *testing.T, addr string) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// What an operator's tools do: lag of groups in all states, resetting offsets, and
// deleting.
func TestOperatorsSeeLagAndResetOffsets(t *testing.T) {
	n := start(t, "group.initial.rebalance.delay.ms", "0")
	n.topic("a", 3)
	n.topic("gone", 1)
	n.fill(0, 9)
	c := newConsumers(t, n.addr)
	stop := c.add("one")
	c.wantRead(9)
	ctx := t.Context()
	adm := kadm.NewClient(admin(t, n.addr))
	until(t, "the stable group has no lag", func() bool {
		lag, err := adm.Lag(ctx, "g")
		g := lag["g"]
		return err == nil && g.State == "Stable" && g.Lag.Total() == 0 && g.Error() == nil
	})
	stop()
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: "a", Partition: 1, At: 1, LeaderEpoch: -1, Metadata: "reset"})
	offsets.Add(kadm.Offset{Topic: "gone", Partition: 0, At: 0, LeaderEpoch: -1})
	if err := adm.CommitAllOffsets(ctx, "g", offsets); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.DeleteTopics(ctx, "gone"); err != nil {
		t.Fatal(err)
	}
	lag, err := adm.Lag(ctx, "g")
	if g := lag["g"]; err != nil || g.Error() != nil || g.State != "Empty" || g.Lag.Total() != 2 {
		t.Errorf("%+v, %v", g, err)
	}
	c.read = map[string]int{}
	stop = c.add("two")
	c.wantRead(2)
	stop()
	fetched, err := adm.FetchOffsets(ctx, "g")
	if err != nil || len(fetched) != 1 || fetched["a"][1].At != 3 {
		t.Errorf("%+v, %v", fetched, err)
	}
	if resp, err := adm.DeleteGroups(ctx, "g"); err != nil || resp["g"].Err != nil {
		t.Errorf("%+v, %v", resp, err)
	}
	if groups, err := adm.ListGroups(ctx); err != nil || len(groups) != 0 {
		t.Errorf("%+v, %v", groups, err)
	}
}
