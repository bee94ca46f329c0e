package broker_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// want is a partition to fetch, from an offset.
type want struct {
	topic     string
	id        [16]byte
	partition int32
	offset    int64
}

// fetchRequest does not wait.
func fetchRequest(wants ...want) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.MinBytes, req.SessionEpoch = 1<<20, 1, -1
	for _, w := range wants {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = w.partition, w.offset, 1<<20
		if i := len(req.Topics) - 1; i >= 0 && req.Topics[i].Topic == w.topic && req.Topics[i].TopicID == w.id {
			req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
			continue
		}
		t := kmsg.NewFetchRequestTopic()
		t.Topic, t.TopicID = w.topic, w.id
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	return req
}

// waiting makes a request wait for an hour.
func waiting(req *kmsg.FetchRequest) *kmsg.FetchRequest {
	req.MaxWaitMillis = 3600_000
	return req
}

// fetch returns the record batches of a partition from an offset on.
func (n *node) fetch(topic string, partition int32, offset int64) []byte {
	n.t.Helper()
	resp := ask[*kmsg.FetchResponse](n.client(), 12, fetchRequest(want{topic: topic, partition: partition, offset: offset}))
	p := resp.Topics[0].Partitions[0]
	wantCode(n.t, p.ErrorCode, kerr.None)
	return p.RecordBatches
}

// bases returns the base offsets of record batches.
func bases(t *testing.T, b []byte) []int64 {
	t.Helper()
	var out []int64
	for len(b) > 0 {
		h, rest, err := batch.Split(b)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, h.BaseOffset())
		b = rest
	}
	return out
}

func TestFetchAtEveryVersion(t *testing.T) {
	n := start(t)
	id := n.topic("a", 2)
	n.produce("a", 1, "x", "y")
	n.produce("a", 1, "z")
	eachVersion(t, 4, 18, func(t *testing.T, version int16) {
		w := want{topic: "a", partition: 1, offset: 1}
		if version >= 13 {
			w.topic, w.id = "", id
		}
		for _, isolation := range []int8{0, 1} {
			req := fetchRequest(w)
			req.IsolationLevel = isolation
			resp := ask[*kmsg.FetchResponse](n.client(), version, req)
			wantCode(t, resp.ErrorCode, kerr.None)
			if len(resp.Topics) != 1 || resp.Topics[0].Topic != w.topic || resp.Topics[0].TopicID != w.id || resp.SessionID != 0 {
				t.Fatalf("got %+v", resp)
			}
			p := resp.Topics[0].Partitions[0]
			wantCode(t, p.ErrorCode, kerr.None)
			if p.Partition != 1 || p.HighWatermark != 3 || p.LastStableOffset != 3 || version >= 5 && p.LogStartOffset != 0 || p.PreferredReadReplica != -1 ||
				p.DivergingEpoch.Epoch != -1 || (p.AbortedTransactions != nil) != (isolation == 1) {
				t.Errorf("isolation %d: %+v", isolation, p)
			}
			if got := bases(t, p.RecordBatches); !slices.Equal(got, []int64{0, 2}) {
				t.Errorf("got batches %v", got)
			}
		}
	})
}

func TestFetchRefuses(t *testing.T) {
	n := start(t)
	n.topic("a", 1)
	n.produce("a", 0, "x", "y")
	partition := func(r *kmsg.FetchRequest) *kmsg.FetchRequestTopicPartition { return &r.Topics[0].Partitions[0] }
	for name, c := range map[string]struct {
		want   want
		edit   func(*kmsg.FetchRequest)
		code   kerr.Code
		lookup bool // found out before the log is asked
	}{
		"unknown topic":       {want: want{topic: "b"}, code: kerr.UnknownTopicOrPartition, lookup: true},
		"unknown partition":   {want: want{topic: "a", partition: 9}, code: kerr.UnknownTopicOrPartition, lookup: true},
		"negative partition":  {want: want{topic: "a", partition: -1}, code: kerr.UnknownTopicOrPartition, lookup: true},
		"past the end":        {want: want{topic: "a", offset: 3}, code: kerr.OffsetOutOfRange},
		"negative offset":     {want: want{topic: "a", offset: -1}, code: kerr.OffsetOutOfRange},
		"newer leader epoch":  {want: want{topic: "a"}, edit: func(r *kmsg.FetchRequest) { partition(r).CurrentLeaderEpoch = 1 }, code: kerr.UnknownLeaderEpoch},
		"epoch never read":    {want: want{topic: "a"}, edit: func(r *kmsg.FetchRequest) { partition(r).LastFetchedEpoch = 1 }, code: kerr.OffsetOutOfRange},
		"negative limit":      {want: want{topic: "a"}, edit: func(r *kmsg.FetchRequest) { r.MaxBytes = -1 }, code: kerr.UnknownServerError},
		"negative part limit": {want: want{topic: "a"}, edit: func(r *kmsg.FetchRequest) { partition(r).PartitionMaxBytes = -1 }, code: kerr.UnknownServerError},
		"replica":             {want: want{topic: "a"}, edit: func(r *kmsg.FetchRequest) { r.ReplicaID = 3 }, code: kerr.NotLeaderOrFollower},
	} {
		req := fetchRequest(c.want)
		if c.edit != nil {
			c.edit(req)
		}
		resp := ask[*kmsg.FetchResponse](n.client(), 12, req)
		p := resp.Topics[0].Partitions[0]
		if kerr.Code(p.ErrorCode) != c.code || p.HighWatermark != -1 || p.LastStableOffset != -1 || p.LogStartOffset != -1 ||
			p.RecordBatches == nil || len(p.RecordBatches) > 0 || (p.AbortedTransactions != nil) != c.lookup {
			t.Errorf("%s: %s, %+v", name, kerr.Code(p.ErrorCode), p)
		}
	}
}

func TestFetchOfUnknownIsolationIsRefusedAsAWhole(t *testing.T) {
	n := start(t)
	id := n.topic("a", 1)
	n.produce("a", 0, "x")
	for version, topics := range map[int16]int{4: 1, 7: 1, 12: 1, 13: 0, 18: 0} {
		w := want{topic: "a"}
		if version >= 13 {
			w = want{id: id}
		}
		req := fetchRequest(w)
		req.IsolationLevel = 2
		resp := ask[*kmsg.FetchResponse](n.client(), version, req)
		if version >= 7 {
			wantCode(t, resp.ErrorCode, kerr.UnknownServerError)
		}
		if len(resp.Topics) != topics {
			t.Fatalf("v%d: %+v", version, resp.Topics)
		}
		if topics > 0 {
			wantCode(t, resp.Topics[0].Partitions[0].ErrorCode, kerr.UnknownServerError)
		}
	}
}

func TestFetchByReplicaNamesTheLeader(t *testing.T) {
	n := start(t)
	id := n.topic("a", 1)
	req := fetchRequest(want{id: id})
	req.ReplicaState.ID = 3
	p := ask[*kmsg.FetchResponse](n.client(), 18, req).Topics[0].Partitions[0]
	wantCode(t, p.ErrorCode, kerr.NotLeaderOrFollower)
	if p.CurrentLeader.LeaderID != 7 || p.CurrentLeader.LeaderEpoch != 0 {
		t.Errorf("got %+v", p.CurrentLeader)
	}
}

func TestFetchTellsWhereTheLogDiverges(t *testing.T) {
	n := start(t)
	n.topic("a", 1)
	n.produce("a", 0, "x")
	req := waiting(fetchRequest(want{topic: "a", offset: 9}))
	req.Topics[0].Partitions[0].LastFetchedEpoch = 0
	p := ask[*kmsg.FetchResponse](n.client(), 12, req).Topics[0].Partitions[0]
	wantCode(t, p.ErrorCode, kerr.None)
	if p.DivergingEpoch.Epoch != 0 || p.DivergingEpoch.EndOffset != 1 || len(p.RecordBatches) > 0 {
		t.Errorf("got %+v", p)
	}
}

func TestFetchKeepsToItsLimits(t *testing.T) {
	n := start(t)
	n.topic("a", 2)
	size := int32(len(records("x")))
	for range 3 {
		n.produce("a", 0, "x")
		n.produce("a", 1, "x")
	}
	for name, c := range map[string]struct {
		total, part int32
		got         [2]int
	}{
		"room for all":         {1 << 20, 1 << 20, [2]int{3, 3}},
		"two each":             {1 << 20, 2*size + 1, [2]int{2, 2}},
		"four in all":          {4 * size, 1 << 20, [2]int{3, 1}},
		"one at least":         {1, 1, [2]int{1, 0}},
		"none is one too":      {0, 0, [2]int{1, 0}},
		"small parts":          {1 << 20, 1, [2]int{1, 0}},
		"the first is never 0": {1, 1 << 20, [2]int{1, 0}},
	} {
		req := fetchRequest(want{topic: "a"}, want{topic: "a", partition: 1})
		req.MaxBytes = c.total
		for i := range req.Topics[0].Partitions {
			req.Topics[0].Partitions[i].PartitionMaxBytes = c.part
		}
		resp := ask[*kmsg.FetchResponse](n.client(), 12, req)
		for i, p := range resp.Topics[0].Partitions {
			if got := len(bases(t, p.RecordBatches)); got != c.got[i] {
				t.Errorf("%s: partition %d has %d batches", name, i, got)
			}
		}
	}
}

// With no room for further responses everybody still gets on, batch by batch.
func TestFetchReturnsOneBatchWhenTooMuchIsOnItsWay(t *testing.T) {
	n := start(t, "queued.max.response.bytes", "1")
	n.topic("a", 1)
	for range 3 {
		n.produce("a", 0, "x")
	}
	for offset := range int64(3) {
		if got := bases(t, n.fetch("a", 0, offset)); !slices.Equal(got, []int64{offset}) {
			t.Errorf("from %d: %v", offset, got)
		}
	}
}

func TestFetchTakesTheLastEntryOfAPartition(t *testing.T) {
	n := start(t)
	n.topic("a", 1)
	n.produce("a", 0, "x")
	n.produce("a", 0, "y")
	resp := ask[*kmsg.FetchResponse](n.client(), 12, fetchRequest(want{topic: "a"}, want{topic: "a", offset: 1}))
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		t.Fatalf("got %+v", resp.Topics)
	}
	if got := bases(t, resp.Topics[0].Partitions[0].RecordBatches); !slices.Equal(got, []int64{1}) {
		t.Errorf("got %v", got)
	}
}

// answered returns a channel that gets the answer to a request that was sent.
func answered(c *client, req kmsg.Request) <-chan kmsg.Response {
	done := make(chan kmsg.Response, 1)
	go func() {
		resp, _ := c.receive(req)
		done <- resp
	}()
	return done
}

func TestFetchWaitsForRecords(t *testing.T) {
	n := start(t)
	n.topic("a", 2)
	c := n.client()
	req := waiting(fetchRequest(want{topic: "a"}, want{topic: "a", partition: 1}))
	c.send(12, req)
	done := answered(c, req)
	n.produce("a", 1, "x")
	resp := (<-done).(*kmsg.FetchResponse)
	if got := len(resp.Topics[0].Partitions[1].RecordBatches); got == 0 {
		t.Errorf("got %+v", resp)
	}
}

func TestFetchWaitsForEnough(t *testing.T) {
	n := start(t)
	n.topic("a", 1)
	n.produce("a", 0, "x")
	c := n.client()
	req := waiting(fetchRequest(want{topic: "a"}))
	req.MinBytes = int32(len(records("x"))) + 1
	c.send(12, req)
	done := answered(c, req)
	n.produce("a", 0, "y")
	resp := (<-done).(*kmsg.FetchResponse)
	if got := bases(t, resp.Topics[0].Partitions[0].RecordBatches); !slices.Equal(got, []int64{0, 1}) {
		t.Errorf("got %v", got)
	}
}

// What is there when the time is up is returned, however little.
func TestFetchReturnsWhatThereIsInTheEnd(t *testing.T) {
	n := start(t)
	n.topic("a", 1)
	n.produce("a", 0, "x")
	req := fetchRequest(want{topic: "a"})
	req.MinBytes, req.MaxWaitMillis = 1<<20, 30
	p := ask[*kmsg.FetchResponse](n.client(), 12, req).Topics[0].Partitions[0]
	if got := bases(t, p.RecordBatches); !slices.Equal(got, []int64{0}) {
		t.Errorf("got %v", got)
	}
}

func TestFetchIsAnsweredAtOnce(t *testing.T) {
	n := start(t)
	n.topic("a", 2)
	n.produce("a", 0, "x")
	for name, req := range map[string]*kmsg.FetchRequest{
		"for nothing":             fetchRequest(),
		"for what does not exist": fetchRequest(want{topic: "b"}),
		"out of range":            fetchRequest(want{topic: "a", offset: 9}, want{topic: "a", partition: 1}),
		"no minimum":              func() *kmsg.FetchRequest { r := fetchRequest(want{topic: "a", offset: 1}); r.MinBytes = 0; return r }(),
	} {
		c := n.client()
		c.send(12, waiting(req))
		if _, err := c.receive(req); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFetchForWhatDoesNotExistDoesNotKeepOthersFromWaiting(t *testing.T) {
	n := start(t)
	n.topic("a", 1)
	c := n.client()
	req := waiting(fetchRequest(want{topic: "b"}, want{topic: "a"}))
	c.send(12, req)
	done := answered(c, req)
	n.produce("a", 0, "x")
	resp := (<-done).(*kmsg.FetchResponse)
	wantCode(t, resp.Topics[0].Partitions[0].ErrorCode, kerr.UnknownTopicOrPartition)
	if got := bases(t, resp.Topics[1].Partitions[0].RecordBatches); !slices.Equal(got, []int64{0}) {
		t.Errorf("got %v", got)
	}
}

func TestWaitEndsWhenTheTopicGoes(t *testing.T) {
	n := start(t)
	n.topic("a", 1)
	n.topic("b", 1)
	c := n.client()
	req := waiting(fetchRequest(want{topic: "a"}, want{topic: "b"}))
	c.send(12, req)
	done := answered(c, req)
	del := kmsg.NewPtrDeleteTopicsRequest()
	del.TopicNames = []string{"a"}
	wantCode(t, ask[*kmsg.DeleteTopicsResponse](n.client(), 5, del).Topics[0].ErrorCode, kerr.None)
	resp := (<-done).(*kmsg.FetchResponse)
	wantCode(t, resp.Topics[0].Partitions[0].ErrorCode, kerr.UnknownTopicOrPartition)
	wantCode(t, resp.Topics[1].Partitions[0].ErrorCode, kerr.None)
}

func TestStopAnswersWhoWaits(t *testing.T) {
	n := start(t)
	n.topic("a", 1)
	c := n.client()
	req := waiting(fetchRequest(want{topic: "a"}))
	c.send(12, req)
	// The connection reads one request after the other: when the second is
	// answered the first one is being handled.
	done := answered(c, req)
	n.produce("a", 0, "x")
	<-done
	req = waiting(fetchRequest(want{topic: "a", offset: 1}))
	c.send(12, req)
	done = answered(c, req)
	before := time.Now()
	n.stop()
	if resp, ok := (<-done).(*kmsg.FetchResponse); ok && resp.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Errorf("got %+v", resp)
	}
	if took := time.Since(before); took > limit {
		t.Errorf("stopping took %v", took)
	}
}

func TestFetchSessionsTellOnlyWhatIsNew(t *testing.T) {
	n := start(t)
	id := n.topic("a", 3)
	for _, version := range []int16{7, 12, 13, 18} {
		t.Run(fmt.Sprintf("v%d", version), func(t *testing.T) {
			name := func(partition int32, offset int64) want {
				if version >= 13 {
					return want{id: id, partition: partition, offset: offset}
				}
				return want{topic: "a", partition: partition, offset: offset}
			}
			end := n.produce("a", 1, "x")
			c := n.client()
			open := fetchRequest(name(0, 0), name(1, end), name(2, 0))
			open.SessionEpoch = 0
			resp := ask[*kmsg.FetchResponse](c, version, open)
			if resp.SessionID == 0 || len(resp.Topics[0].Partitions) != 3 {
				t.Fatalf("got %+v", resp)
			}
			session := resp.SessionID
			next := func(epoch int32, wants ...want) *kmsg.FetchResponse {
				req := fetchRequest(wants...)
				req.SessionID, req.SessionEpoch = session, epoch
				return ask[*kmsg.FetchResponse](c, version, req)
			}
			if resp = next(1, name(1, end+1)); len(resp.Topics) > 0 || resp.ErrorCode != 0 || resp.SessionID != session {
				t.Errorf("nothing new: %+v", resp)
			}
			n.produce("a", 1, "y")
			if resp = next(2); len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].Partition != 1 {
				t.Errorf("one record: %+v", resp)
			}
			if resp = next(9); kerr.Code(resp.ErrorCode) != kerr.InvalidFetchSessionEpoch || len(resp.Topics) > 0 {
				t.Errorf("wrong epoch: %+v", resp)
			}
			session++
			if resp = next(3); kerr.Code(resp.ErrorCode) != kerr.FetchSessionIDNotFound {
				t.Errorf("wrong session: %+v", resp)
			}
		})
	}
}
