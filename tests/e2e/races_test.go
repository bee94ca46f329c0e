package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/tests/e2e/node"
	"github.com/sluicemq/sluice/tests/e2e/raw"
)

// together runs a step in many goroutines that begin at the same time, each
// with a connection of its own.
func together(t *testing.T, n *node.Node, count int, step func(i int, c *raw.Conn)) {
	t.Helper()
	begin := make(chan struct{})
	var running sync.WaitGroup
	for i := range count {
		c := raw.Dial(t, n.Addr())
		running.Go(func() {
			<-begin
			step(i, c)
		})
	}
	close(begin)
	running.Wait()
}

// B17
func TestManyWhoAskForATopicAtOnceGetTheSameOne(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	var mu sync.Mutex
	ids := map[[16]byte]int{}
	together(t, n, 50, func(_ int, c *raw.Conn) {
		request := kmsg.NewPtrMetadataRequest()
		request.SetVersion(12)
		request.AllowAutoTopicCreation = true
		in := kmsg.NewMetadataRequestTopic()
		in.Topic = kmsg.StringPtr("wanted")
		request.Topics = append(request.Topics, in)
		r, err := c.Try(request)
		if err != nil {
			t.Error(err)
			return
		}
		topic := r.(*kmsg.MetadataResponse).Topics[0]
		mu.Lock()
		defer mu.Unlock()
		ids[topic.TopicID]++
		if topic.ErrorCode != 0 || len(topic.Partitions) != 1 {
			t.Errorf("%+v", topic)
		}
	})
	if len(ids) != 1 {
		t.Errorf("50 clients were told of %d topics", len(ids))
	}
}

func TestOfManyWhoCreateATopicAtOnceOneDoes(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	for round := range 10 {
		name := fmt.Sprint("raced-", round)
		var created, there, deleted, gone atomic.Int32
		together(t, n, 20, func(_ int, c *raw.Conn) {
			request := createTopics(name, 1)
			request.SetVersion(7)
			r, err := c.Try(request)
			switch {
			case err != nil:
				t.Error(err)
			case codeOf(r) == 0:
				created.Add(1)
			case codeOf(r) == topicExists:
				there.Add(1)
			default:
				t.Errorf("create: error %d", codeOf(r))
			}
		})
		together(t, n, 20, func(_ int, c *raw.Conn) {
			r, err := c.Try(deleteTopic(name))
			switch {
			case err != nil:
				t.Error(err)
			case codeOf(r) == 0:
				deleted.Add(1)
			case codeOf(r) == unknownTopic:
				gone.Add(1)
			default:
				t.Errorf("delete: error %d", codeOf(r))
			}
		})
		if created.Load() != 1 || there.Load() != 19 || deleted.Load() != 1 || gone.Load() != 19 {
			t.Errorf("round %d: %d created, %d were told it exists; %d deleted, %d were told it is gone", round, created.Load(), there.Load(), deleted.Load(), gone.Load())
		}
	}
}

func TestPartitionsAddedByManyAtOnceAddUpToNone(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	makeTopic(t, c, "grown", 1)
	var grown atomic.Int32
	together(t, n, 20, func(i int, c *raw.Conn) {
		r, err := c.Try(createPartitions("grown", 5))
		switch {
		case err != nil:
			t.Error(err)
		case codeOf(r) == 0:
			grown.Add(1)
		case codeOf(r) != invalidPartitions:
			t.Errorf("error %d", codeOf(r))
		}
	})
	if got := len(metadata(c, 12, false, "grown").Topics[0].Partitions); grown.Load() != 1 || got != 5 {
		t.Errorf("%d of 20 clients grew the topic, which has %d partitions", grown.Load(), got)
	}
}

// A small backlog holds producers back, and neither loses nor refuses anything.
func TestProducersAreHeldBackAndNotRefused(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{Set: []string{"commitlog.backlog.bytes=1048576", "queued.max.request.bytes=4194304", "commitlog.tail.bytes=1048576"}})
	c := raw.Dial(t, n.Addr())
	tp := makeTopic(t, c, "held", 16)
	const each = 20
	value := strings.Repeat("x", 900_000)
	together(t, n, 16, func(i int, c *raw.Conn) {
		// All at once, not one after the other's answer.
		request := produceRequest(-1, into{tp, int32(i), raw.Values(time.Now().UnixMilli(), value).Bytes()})
		request.SetVersion(produceVersion)
		ids := make(chan int32, each)
		go func() { // ends when all are sent, or the connection is closed
			defer close(ids)
			for range each {
				id, err := c.Send(request)
				if err != nil {
					t.Error(err)
					return
				}
				ids <- id
			}
		}()
		offset := int64(0)
		for id := range ids {
			frame, err := c.Receive(raw.Limit)
			if err != nil {
				t.Error(err)
				return
			}
			r, err := raw.Decode(request, id, frame)
			if err != nil {
				t.Error(err)
				return
			}
			if a := r.(*kmsg.ProduceResponse).Topics[0].Partitions[0]; a.ErrorCode != 0 || a.BaseOffset != offset {
				t.Errorf("partition %d: %+v, want offset %d", i, a, offset)
			}
			offset++
		}
	})
	for p := range int32(16) {
		if end := listOffset(t, c, tp, p, latest).Offset; end != each {
			t.Errorf("partition %d ends at %d", p, end)
		}
	}
}

// What clients made the program hold goes with them.
func TestClientsThatLeaveLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	tp := makeTopic(t, c, "visited", 10)
	visit := func(count int) {
		t.Helper()
		together(t, n, count, func(i int, c *raw.Conn) {
			defer c.Close()
			p := int32(i % 10)
			produce := produceRequest(-1, into{tp, p, raw.Values(time.Now().UnixMilli(), "x").Bytes()})
			produce.SetVersion(produceVersion)
			fetch := sessionRequest(0, 0, from{tp, p, 0})
			fetch.SetVersion(fetchVersion)
			all := kmsg.NewPtrMetadataRequest()
			all.SetVersion(12)
			for _, request := range []kmsg.Request{produce, fetch, all} {
				if _, err := c.Try(request); err != nil {
					t.Error(err)
				}
			}
			wait := fetchRequest(from{tp, p, 1 << 30}) // out of range: answered at once
			if i%2 == 0 {
				wait.MaxWaitMillis, wait.MinBytes = 1_000_000, 1<<30
			}
			wait.SetVersion(fetchVersion)
			if _, err := c.Send(wait); err != nil {
				t.Error(err)
			}
		})
		waitFor(t, "all to be gone", func() bool { return n.Metric("sluice_connections") == 1 })
	}
	files := func() int {
		entries, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(n.PID()), "fd"))
		if err != nil {
			t.Skip("needs /proc:", err)
		}
		return len(entries)
	}
	visit(100)
	goroutines, heap, open := n.Metric("go_goroutines"), heapOf(n), files()
	for range 5 {
		visit(200)
	}
	waitFor(t, "their goroutines to end", func() bool { return n.Metric("go_goroutines") <= goroutines+5 })
	if got := files(); got > open+5 {
		t.Errorf("%d files are open, before there were %d", got, open)
	}
	// Fetch sessions stay, as clients may come back for them: a thousand at most.
	if grown := heapOf(n) - heap; grown > 16<<20 {
		t.Errorf("the heap has grown by %.0f bytes", grown)
	}
}
