package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// crashSession is how long brokers wait for a companion that has crashed. Both brokers are started
// with leave to go so low.
const crashSession = 1500 * time.Millisecond

// companion is a member of the runner's own in the group of the client that is watched. It leads the
// group, since it joins first.
type companion struct {
	cl   *kgo.Client
	wire wire
	mu   sync.Mutex
	owns map[int32]bool // guarded by mu
	had  []int          // guarded by mu: how many partitions it was left with by each rebalance
}

// named is a way to divide partitions under another name: kafkajs has one of its own.
type named struct {
	kgo.GroupBalancer
	name string
}

func (n named) ProtocolName() string { return n.name }

// companion joins a group and waits until it has all partitions of the topic.
func (p *play) companion(group, topic string, partitions int) *companion {
	c := &companion{owns: make(map[int32]bool)}
	lost := func(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, partition := range gone[topic] {
			delete(c.owns, partition)
		}
	}
	ways := []kgo.GroupBalancer{kgo.RangeBalancer(), named{kgo.RangeBalancer(), "roundrobin"}, named{kgo.RangeBalancer(), "RoundRobinAssigner"}}
	if p.s.client == "franz-go" {
		// It rebalances cooperatively, unless told otherwise: all of a group do, or none.
		ways = []kgo.GroupBalancer{kgo.CooperativeStickyBalancer()}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(p.b.addr), kgo.ClientID("companion"), kgo.Dialer(c.wire.dial), kgo.RetryTimeout(2*time.Second),
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.Balancers(ways...),
		kgo.SessionTimeout(crashSession), kgo.HeartbeatInterval(100*time.Millisecond), kgo.RebalanceTimeout(10*time.Second),
		kgo.OnPartitionsRevoked(lost), kgo.OnPartitionsLost(lost),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) {
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, partition := range got[topic] {
				c.owns[partition] = true
			}
			if n := len(c.had); n == 0 || c.had[n-1] != len(c.owns) {
				c.had = append(c.had, len(c.owns))
			}
		}))
	if err != nil {
		p.fail("set up: companion: %w", err)
	}
	c.cl = cl
	p.companions = append(p.companions, c)
	p.eventually("the companion has all partitions", func() bool { return c.count() == partitions })
	return c
}

func (c *companion) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.owns)
}

// crash takes the companion away without a word. It is closed with the scenario.
func (c *companion) crash() { c.wire.sever() }

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

// committedInAll is how far a group is in all partitions of a topic together.
func (p *play) committedInAll(group, topic string, partitions int32) (sum int64) {
	for partition := range partitions {
		sum += max(p.b.committed(p.ctx, group, topic, partition), 0)
	}
	return sum
}

func (p *play) groupConsume(group, topic string, count int) []record {
	return p.do(request{Op: "group-consume", Group: group, Topic: topic, Count: count}).Records
}

// filled makes a topic of two partitions with ten records each.
func (p *play) filled() (topic, group string) {
	topic = p.topic(2)
	p.b.writeBatch(p.ctx, p, topic, 0, 10)
	p.b.writeBatch(p.ctx, p, topic, 1, 10)
	return topic, topic + "-group"
}

func groupJoinSecond(p *play) string {
	topic, group := p.filled()
	c := p.companion(group, topic, 2)
	got := p.groupConsume(group, topic, 10)
	p.eventually("the companion has all partitions again", func() bool { return c.count() == 2 })
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("read %d..%d, committed %d; the other member had %v partitions", got[0].Offset, got[len(got)-1].Offset,
		p.committedInAll(group, topic, 2), c.had)
}

func groupCrash(p *play) string {
	topic, group := p.filled()
	p.companion(group, topic, 2).crash()
	return fmt.Sprintf("read %d, committed %d", len(p.groupConsume(group, topic, 20)), p.committedInAll(group, topic, 2))
}

func groupReset(p *play) string {
	topic := p.topic(1)
	p.b.writeBatch(p.ctx, p, topic, 0, 10)
	group := topic + "-group"
	before := p.groupConsume(group, topic, 7)
	p.eventually("the group is empty", func() bool {
		found, err := p.b.adm.DescribeGroups(p.ctx, group)
		return err == nil && found[group].State == "Empty"
	})
	var wanted kadm.Offsets
	wanted.AddOffset(topic, 0, 3, -1)
	if err := p.b.adm.CommitAllOffsets(p.ctx, group, wanted); err != nil {
		p.fail("set up: reset: %w", err)
	}
	after := p.groupConsume(group, topic, 4)
	return fmt.Sprintf("%d..%d; reset; %d..%d, committed %d", before[0].Offset, before[len(before)-1].Offset,
		after[0].Offset, after[len(after)-1].Offset, p.b.committed(p.ctx, group, topic, 0))
}

// toolsOnly ends a scenario early that others than Kafka's tools have nothing for.
func (p *play) toolsOnly() {
	if p.s.client != "kafka-tools" {
		panic(stop{errUnsupported})
	}
}

// toolGroup runs Kafka's consumer groups tool.
func (p *play) toolGroup(group string, args ...string) string {
	return p.do(request{Op: "tool", Name: "consumer-groups", Group: group, Count: 1, Args: args}).Text
}

// columns returns those columns of a table that have the names, row by row.
func columns(text string, names ...string) string {
	var at []int
	var rows []string
	for _, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		if len(at) == 0 {
			if !slices.Contains(fields, names[0]) {
				continue
			}
			for _, name := range names {
				at = append(at, slices.Index(fields, name))
			}
			continue
		}
		var row []string
		for _, i := range at {
			if i >= 0 && i < len(fields) {
				row = append(row, fields[i])
			}
		}
		if len(row) > 0 {
			rows = append(rows, strings.Join(row, " "))
		}
	}
	slices.Sort(rows)
	return strings.Join(rows, ", ")
}

func toolGroupDescribe(p *play) string {
	p.toolsOnly()
	topic, group := p.filled()
	var wanted kadm.Offsets
	wanted.AddOffset(topic, 1, 4, -1)
	if err := p.b.adm.CommitAllOffsets(p.ctx, group, wanted); err != nil {
		p.fail("set up: commit: %w", err)
	}
	lag := func() string {
		return columns(p.toolGroup(group, "--describe"), "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "HOST", "CLIENT-ID")
	}
	empty := lag()
	c := p.companion(group, topic, 2)
	live := lag()
	members := columns(p.toolGroup(group, "--describe", "--members"), "HOST", "CLIENT-ID", "#PARTITIONS")
	state := columns(p.toolGroup(group, "--describe", "--state"), "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
	deleted := p.try(request{Op: "delete-group", Group: group})
	c.cl.Close()
	return fmt.Sprintf("empty: %s; live: %s; members: %s; state: %s; delete: %s; empty again: %s", empty, live, members, state, deleted,
		p.try(request{Op: "delete-group", Group: group}))
}

func toolGroupReset(p *play) string {
	p.toolsOnly()
	topic, group := p.filled()
	c := p.companion(group, topic, 2)
	reset := func(to ...string) string {
		text := p.toolGroup(group, append([]string{"--reset-offsets", "--topic", topic}, to...)...)
		return fmt.Sprintf("%v: %s, committed %d", to, columns(text, "TOPIC", "PARTITION", "NEW-OFFSET"), p.committedInAll(group, topic, 2))
	}
	out := []string{"live: " + reset("--to-latest", "--execute")}
	c.cl.Close()
	for _, to := range [][]string{
		{"--to-latest", "--dry-run"}, {"--to-latest", "--execute"}, {"--shift-by", "-3", "--execute"}, {"--to-offset", "4", "--execute"},
		{"--to-datetime", "2030-01-01T00:00:00.000", "--execute"}, {"--to-earliest", "--execute"}, {"--to-current", "--dry-run"},
	} {
		out = append(out, reset(to...))
	}
	deleted := columns(p.toolGroup(group, "--delete-offsets", "--topic", topic), "TOPIC", "PARTITION", "STATUS")
	return strings.Join(out, "; ") + "; offsets deleted: " + deleted
}
