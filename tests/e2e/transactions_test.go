package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/sluicemq/sluice/tests/e2e/node"
	"github.com/sluicemq/sluice/tests/e2e/raw"
)

// accounts are the partitions of the bank; each record moves an amount.
const accounts = 6

// Money is moved between accounts, each move in one transaction, while the program is
// killed again and again. Readers of committed records find every move in both of its
// accounts or in none, and all those that were acknowledged.
func TestMoneyIsNeitherMadeNorLostByCrashes(t *testing.T) {
	t.Parallel()
	rounds, seed := crashPlan(t)
	t.Logf("%d rounds; to have the same choices again: %s=%d", rounds, crashSeed, seed)
	random := rand.New(rand.NewPCG(seed, 1))
	n := node.Start(t, node.Options{Set: []string{"commitlog.segment.bytes=2097152", "commitlog.tail.bytes=1048576"}})
	makeTopic(t, raw.Dial(t, n.Addr()), "bank", accounts)
	b := &bank{t: t, addr: n.Addr(), acknowledged: map[string]bool{}, refused: map[string]bool{}}
	ctx, cancel := context.WithCancel(t.Context())
	for i := range 4 {
		b.clients.Add(1)
		go b.move(ctx, fmt.Sprintf("teller-%d", i), i%2 == 0, rand.New(rand.NewPCG(seed, uint64(10+i))))
	}
	for round := range rounds {
		<-time.After(time.Duration(50+random.IntN(600)) * time.Millisecond) // the moment is the test
		n.Kill()
		n.Restart()
		if b.audit(false); t.Failed() {
			t.Fatalf("round %d of %d", round+1, rounds)
		}
	}
	for deadline := time.Now().Add(20 * time.Second); b.moves.Load() < int64(rounds) && time.Now().Before(deadline); {
		<-time.After(50 * time.Millisecond) // on a slow machine the tellers hardly got going
	}
	cancel()
	b.clients.Wait()
	b.fence()
	b.audit(true)
	t.Logf("%d moves were acknowledged, %d were aborted", len(b.acknowledged), len(b.refused))
	if len(b.acknowledged) == 0 {
		t.Error("nothing was moved")
	}
}

// bank is the accounts, and what tellers were told.
type bank struct {
	t       *testing.T
	addr    string
	clients sync.WaitGroup
	moves   atomic.Int64

	mu           sync.Mutex
	acknowledged map[string]bool // guarded by mu; moves that were committed
	refused      map[string]bool // guarded by mu; moves that were aborted
}

// move moves money until ctx ends, as one teller. Older chooses the transaction
// protocol.
func (b *bank) move(ctx context.Context, id string, older bool, random *rand.Rand) {
	defer b.clients.Done()
	var c *kgo.Client
	defer func() {
		if c != nil {
			c.Close()
		}
	}()
	for number := 0; ctx.Err() == nil; number++ {
		if c == nil {
			options := []kgo.Opt{
				kgo.SeedBrokers(b.addr), kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()),
				kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }), kgo.TransactionTimeout(10 * time.Second),
			}
			if older {
				options = append(options, kgo.MaxVersions(kversion.V3_7_0()))
			}
			var err error
			if c, err = kgo.NewClient(options...); err != nil {
				b.t.Error(err)
				return
			}
		}
		name := fmt.Sprintf("%s/%d", id, number)
		from, to := int32(random.IntN(accounts)), int32(random.IntN(accounts-1))
		if to >= from {
			to++
		}
		commit := random.IntN(5) > 0
		if err := c.BeginTransaction(); err != nil {
			c.Close()
			c = nil
			continue
		}
		err := c.ProduceSync(ctx,
			&kgo.Record{Topic: "bank", Partition: from, Value: []byte(name + " out")},
			&kgo.Record{Topic: "bank", Partition: to, Value: []byte(name + " in")}).FirstErr()
		if err != nil {
			commit = false
		}
		ended := c.EndTransaction(ctx, kgo.TransactionEndTry(commit))
		switch {
		case ended != nil: // nobody knows what became of it
			c.Close()
			c = nil
		case commit:
			b.moves.Add(1)
			b.told(b.acknowledged, name)
		default:
			b.told(b.refused, name)
		}
	}
}

func (b *bank) told(which map[string]bool, name string) {
	b.mu.Lock()
	which[name] = true
	b.mu.Unlock()
}

// fence ends whatever a teller left open.
func (b *bank) fence() {
	for i := range 4 {
		c, err := kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.TransactionalID(fmt.Sprintf("teller-%d", i)))
		if err != nil {
			b.t.Fatal(err)
		}
		if _, _, err := c.ProducerID(b.t.Context()); err != nil {
			b.t.Errorf("fence: %v", err)
		}
		c.Close()
	}
}

// audit reads all accounts up to their last stable offsets. While tellers are at
// work a move may lie behind one that is open, in one account and not in the other;
// at rest every move is there that was acknowledged, and in both accounts.
func (b *bank) audit(rest bool) {
	b.t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.ConsumeTopics("bank"), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(50*time.Millisecond), kgo.KeepControlRecords())
	if err != nil {
		b.t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(b.t.Context(), 30*time.Second)
	defer cancel()
	stable, err := kadm.NewClient(c).ListCommittedOffsets(ctx, "bank")
	if err != nil {
		b.t.Fatal(err)
	}
	want := map[int32]int64{}
	stable.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			want[o.Partition] = o.Offset
		}
	})
	seen := map[string]int{}
	for len(want) > 0 {
		if ctx.Err() != nil {
			b.t.Fatalf("accounts cannot be read up to their last stable offsets: %v", want)
		}
		c.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			if r.Offset+1 >= want[r.Partition] {
				delete(want, r.Partition)
			}
			if !r.Attrs.IsControl() {
				seen[string(r.Value)]++
			}
		})
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for value, times := range seen {
		name, _, _ := strings.Cut(value, " ")
		if times > 1 || b.refused[name] {
			b.t.Errorf("%q was read %d times; aborted: %v", value, times, b.refused[name])
		}
		if other := seen[name+" in"] + seen[name+" out"]; rest && other != 2 {
			b.t.Errorf("%q is there, its other half is not", value)
		}
	}
	for name := range b.acknowledged {
		if rest && (seen[name+" in"] != 1 || seen[name+" out"] != 1) {
			b.t.Errorf("%s was acknowledged and is there %d and %d times", name, seen[name+" out"], seen[name+" in"])
		}
	}
}

// Consume, transform, produce under kills: each input comes out exactly once.
func TestPipelineIsExactlyOnceUnderCrashes(t *testing.T) {
	t.Parallel()
	rounds, seed := crashPlan(t)
	t.Logf("%d rounds; to have the same choices again: %s=%d", rounds, crashSeed, seed)
	random := rand.New(rand.NewPCG(seed, 2))
	n := node.Start(t, node.Options{Set: []string{"commitlog.segment.bytes=2097152", "group.initial.rebalance.delay.ms=0"}})
	c := raw.Dial(t, n.Addr())
	makeTopic(t, c, "in", 4)
	makeTopic(t, c, "out", 2)
	inputs := 500 * rounds
	feed, err := kgo.NewClient(kgo.SeedBrokers(n.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	for i := range inputs {
		feed.Produce(t.Context(), &kgo.Record{Topic: "in", Value: fmt.Append(nil, i)}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := feed.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for i := range 3 {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for ctx.Err() == nil {
				transformUntilItFails(ctx, t, n.Addr(), fmt.Sprintf("worker-%d", i), i == 0)
			}
		}()
	}
	for range rounds {
		<-time.After(time.Duration(50+random.IntN(700)) * time.Millisecond) // the moment is the test
		n.Kill()
		n.Restart()
	}
	seen := map[string]int{}
	out, err := kgo.NewClient(kgo.SeedBrokers(n.Addr()), kgo.ConsumeTopics("out"), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	late, stop := context.WithTimeout(t.Context(), 90*time.Second)
	defer stop()
	for len(seen) < inputs && late.Err() == nil {
		out.PollFetches(late).EachRecord(func(r *kgo.Record) { seen[string(r.Value)]++ })
	}
	rest, enough := context.WithTimeout(late, time.Second)
	defer enough()
	for rest.Err() == nil {
		out.PollFetches(rest).EachRecord(func(r *kgo.Record) { seen[string(r.Value)]++ })
	}
	cancel()
	workers.Wait()
	twice := 0
	for _, times := range seen {
		if times > 1 {
			twice++
		}
	}
	if len(seen) != inputs || twice > 0 {
		t.Errorf("%d of %d came out, %d of them more than once", len(seen), inputs, twice)
	}
}

// transformUntilItFails copies from "in" to "out" until the session is of no more use.
func transformUntilItFails(ctx context.Context, t *testing.T, addr, id string, older bool) {
	options := []kgo.Opt{
		kgo.SeedBrokers(addr), kgo.TransactionalID(id), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("in"),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(100 * time.Millisecond), kgo.TransactionTimeout(5 * time.Second),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(200 * time.Millisecond), kgo.SessionTimeout(6 * time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
	}
	if older {
		options = append(options, kgo.MaxVersions(kversion.V3_7_0()))
	}
	s, err := kgo.NewGroupTransactSession(options...)
	if err != nil {
		t.Error(err)
		return
	}
	defer s.Close()
	for ctx.Err() == nil {
		fetches := s.PollRecords(ctx, 10)
		if ctx.Err() != nil || s.Begin() != nil {
			return
		}
		var failed atomic.Bool
		fetches.EachRecord(func(r *kgo.Record) {
			s.Produce(ctx, &kgo.Record{Topic: "out", Value: r.Value}, func(_ *kgo.Record, err error) {
				if err != nil {
					failed.Store(true)
				}
			})
		})
		if s.Client().Flush(ctx) != nil || failed.Load() {
			_, err := s.End(ctx, kgo.TryAbort)
			if err != nil {
				return
			}
			continue
		}
		if _, err := s.End(ctx, kgo.TryCommit); err != nil {
			return
		}
	}
}
