package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicemq/sluice/tests/e2e/node"
	"github.com/sluicemq/sluice/tests/e2e/raw"
)

// Variables that make the storm larger: 200 and 180 are an hour's worth of
// trouble in three minutes.
const (
	stormMembers = "SLUICE_STORM_MEMBERS" // 40 if it is not set
	stormSeconds = "SLUICE_STORM_SECONDS" // 40 if it is not set
)

const stormPartitions = 24

// stormMember is a client in the storm, and what it believes to own.
type stormMember struct {
	cl   *kgo.Client
	wire wire
	mu   sync.Mutex
	owns map[int32]bool // guarded by mu
	done chan struct{}
}

// wire is how a client reaches the broker, until it is cut.
type wire struct {
	mu    sync.Mutex
	cut   bool       // guarded by mu
	conns []net.Conn // guarded by mu
}

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && w.cut {
		conn.Close()
		return nil, errors.New("the wire is cut")
	}
	if err == nil {
		w.conns = append(w.conns, conn)
	}
	return conn, err
}

func (w *wire) sever() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = true
	for _, conn := range w.conns {
		conn.Close()
	}
}

func joinStorm(t testing.TB, n *node.Node, topic, group string) *stormMember {
	t.Helper()
	m := &stormMember{owns: make(map[int32]bool), done: make(chan struct{})}
	change := func(owned bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, p := range changed[topic] {
				if owned {
					m.owns[p] = true
				} else {
					delete(m.owns, p)
				}
			}
		}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.Addr()), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.Dialer(m.wire.dial), kgo.RetryTimeout(2*time.Second),
		kgo.SessionTimeout(3*time.Second), kgo.HeartbeatInterval(300*time.Millisecond), kgo.RebalanceTimeout(10*time.Second),
		kgo.OnPartitionsAssigned(change(true)), kgo.OnPartitionsRevoked(change(false)), kgo.OnPartitionsLost(change(false)))
	if err != nil {
		t.Fatal(err)
	}
	m.cl = cl
	// Ends when the client is closed.
	go func() {
		defer close(m.done)
		for !cl.PollFetches(context.Background()).IsClientClosed() {
		}
	}()
	return m
}

// end takes the member away: it leaves, or it is gone without a word.
func (m *stormMember) end(leave bool) {
	if !leave {
		m.wire.sever()
	}
	m.cl.Close()
	<-m.done
}

// B61, B62, B64
func TestAStormOfRebalancesEndsWithEveryPartitionOwnedOnce(t *testing.T) {
	t.Parallel()
	size, seconds := fromEnvironment(t, stormMembers, 40), fromEnvironment(t, stormSeconds, 40)
	n := node.Start(t, node.Options{Set: []string{"group.initial.rebalance.delay.ms=100", "group.min.session.timeout.ms=1000"}})
	c := raw.Dial(t, n.Addr())
	makeTopic(t, c, "storm", stormPartitions)
	admin := newAdmin(t, n)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	joinStorm(t, n, "storm", "first").end(true) // what is made once is there before we count
	goroutines, heap := n.Metric("go_goroutines"), heapOf(n)

	var members []*stormMember
	var ending sync.WaitGroup
	joins, leaves, crashes := 0, 0, 0
	for deadline := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(deadline); {
		if len(members) == 0 || len(members) < size && random.IntN(size) >= len(members)/2 {
			members, joins = append(members, joinStorm(t, n, "storm", "storm")), joins+1
		} else {
			at := random.IntN(len(members))
			gone, leave := members[at], random.IntN(4) > 0
			members[at] = members[len(members)-1]
			members = members[:len(members)-1]
			if leave {
				leaves++
			} else {
				crashes++
			}
			// Ends when the client has left, at the latest when it gives up.
			ending.Go(func() { gone.end(leave) })
		}
		<-time.After(time.Duration(random.IntN(max(8000/size, 1))) * time.Millisecond) // the storm's pace
	}
	ending.Wait()
	for len(members) < 5 {
		members = append(members, joinStorm(t, n, "storm", "storm"))
	}
	rebalances := n.Metric("sluice_group_rebalances_total")
	expired := n.Metric("sluice_group_expired_members_total")
	t.Logf("%d joins, %d leaves, %d crashes, %.0f rebalances; %.0f members expired; %d are left", joins, leaves, crashes, rebalances, expired, len(members))
	if rebalances < float64(seconds)/10 {
		t.Errorf("%.0f rebalances in %d s", rebalances, seconds)
	}

	var last string
	ctx := deadline(t)
	for settled := false; !settled; {
		last = stormOwners(ctx, admin, members)
		settled = last == ""
		select {
		case <-ctx.Done():
			t.Fatalf("the group does not come to rest: %s", last)
		case <-time.After(100 * time.Millisecond):
		}
	}

	for _, m := range members {
		ending.Go(func() { m.end(true) })
	}
	ending.Wait()
	waitFor(t, "the members to be gone", func() bool {
		return n.Metric("sluice_group_members") == 0 && n.Metric("sluice_group_held_requests") == 0
	})
	waitFor(t, "their goroutines to end", func() bool { return n.Metric("go_goroutines") <= goroutines+10 })
	if grown := heapOf(n) - heap; grown > 16<<20 {
		t.Errorf("the heap has grown by %.0f bytes", grown)
	}
}

// stormOwners says what is wrong with the group: as the broker tells it, and as
// its members see it; "" if it is at rest.
func stormOwners(ctx context.Context, admin *kadm.Client, members []*stormMember) string {
	described, err := admin.DescribeGroups(ctx, "storm")
	if err != nil {
		return err.Error()
	}
	g := described["storm"]
	if g.State != "Stable" || len(g.Members) != len(members) {
		return fmt.Sprintf("%s with %d members of %d", g.State, len(g.Members), len(members))
	}
	told, seen := make(map[int32]int), make(map[int32]int)
	for _, m := range g.Members {
		assigned, ok := m.Assigned.AsConsumer()
		if !ok {
			return "an assignment that cannot be read"
		}
		for _, topic := range assigned.Topics {
			for _, p := range topic.Partitions {
				told[p]++
			}
		}
	}
	for _, m := range members {
		m.mu.Lock()
		for p := range m.owns {
			seen[p]++
		}
		m.mu.Unlock()
	}
	for p := range int32(stormPartitions) {
		if told[p] != 1 || seen[p] != 1 {
			return fmt.Sprintf("partition %d has %d owners by what the broker tells, %d by what members see", p, told[p], seen[p])
		}
	}
	return ""
}

func fromEnvironment(t testing.TB, variable string, otherwise int) int {
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	value, err := strconv.Atoi(text)
	if err != nil || value < 1 {
		t.Fatalf("%s=%s is no number above 0", variable, text)
	}
	return value
}
