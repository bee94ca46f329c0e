package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/tests/e2e/node"
	"github.com/sluicemq/sluice/tests/e2e/raw"
)

const (
	offsetOutOfRange  = 1
	sessionNotFound   = 70
	sessionEpoch      = 71
	fencedEpoch       = 74
	unknownEpoch      = 75
	sessionTopicError = 106
)

// B34
func TestTheFirstBatchIsReturnedHoweverLittleIsAskedFor(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{Set: []string{"message.max.bytes=6000000", "commitlog.segment.bytes=268435456"}})
	c := raw.Dial(t, n.Addr())
	tp := makeTopic(t, c, "large", 3)
	now := time.Now().UnixMilli()
	value := strings.Repeat("x", 5<<20)
	write(t, c, tp, 1, raw.Values(now, value))
	write(t, c, tp, 2, raw.Values(now, value))
	for _, version := range []int16{4, 7, 12} {
		request := fetchRequest(from{tp, 0, 0}, from{tp, 1, 0}, from{tp, 2, 0})
		request.MaxBytes = 1024
		for i := range request.Topics[0].Partitions {
			request.Topics[0].Partitions[i].PartitionMaxBytes = 1024
		}
		r := raw.Ask[*kmsg.FetchResponse](c, version, request)
		sizes := make([]int, 3)
		for _, p := range r.Topics[0].Partitions {
			sizes[p.Partition] = len(p.RecordBatches)
		}
		if sizes[0] != 0 || sizes[1] < len(value) || sizes[2] != 0 {
			t.Errorf("version %d: partitions gave %d bytes, want only the first that has some to exceed the limit", version, sizes)
		}
	}
	for name, consume := range map[string]func() []message{
		"kcat": func() []message {
			return kcatConsume(t, n, "large", 1, 1, "-X", "fetch.max.bytes=1024", "-X", "max.partition.fetch.bytes=1024", "-X", "message.max.bytes=1024",
				"-X", "receive.message.max.bytes=8000000")
		},
		"franz-go": func() []message {
			return franzConsume(t, n, "large", 1, 1, kgo.FetchMaxBytes(1024), kgo.FetchMaxPartitionBytes(1024))
		},
		"sarama": func() []message { return saramaConsume(t, n, "large", 1, 1, fetchSizes(1024)) },
	} {
		if got := consume(); len(got) != 1 || string(got[0].value) != value {
			t.Errorf("%s got %d messages", name, len(got))
		}
	}
}

// B35
func TestAFetchWithinABatchReturnsThatBatch(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{Set: []string{"commitlog.segment.bytes=2097152", "commitlog.tail.bytes=1048576"}})
	c := raw.Dial(t, n.Addr())
	now := time.Now().UnixMilli()
	tp := makeTopic(t, c, "within", 5)
	other := makeTopic(t, c, "filler", 1)
	for codec := range raw.Codecs() {
		for range 2 {
			b := raw.Values(now, "a", "b")
			b.Codec = kgo.CompressionCodecType(codec)
			write(t, c, tp, int32(codec), b)
		}
	}
	check := func(when string) {
		t.Helper()
		for p := range int32(5) {
			for offset, base := range []int64{0, 0, 2, 2} {
				got := fetchOne(t, c, tp, p, int64(offset))
				batches, err := raw.Split(got.RecordBatches)
				if err != nil || len(batches) == 0 || batches[0].FirstOffset != base || batches[len(batches)-1].FirstOffset != 2 {
					t.Errorf("%s: fetch of partition %d at %d: error %d, %d batches (%v)", when, p, offset, got.ErrorCode, len(batches), err)
				}
			}
			if got := fetchOne(t, c, tp, p, 4); got.ErrorCode != 0 || len(got.RecordBatches) != 0 || got.HighWatermark != 4 {
				t.Errorf("%s: fetch of partition %d at its end: %+v", when, p, got)
			}
			for _, offset := range []int64{5, -1, 1 << 60} {
				if got := fetchOne(t, c, tp, p, offset); got.ErrorCode != offsetOutOfRange || len(got.RecordBatches) != 0 {
					t.Errorf("%s: fetch of partition %d at %d: error %d", when, p, offset, got.ErrorCode)
				}
			}
		}
	}
	check("from memory")
	if got := kcat(t, n, "", "-C", "-t", "within", "-p", "0", "-o", "1", "-c", "1", "-f", "%o %s", "-e"); got != "1 b" {
		t.Errorf("kcat -o 1 -c 1 printed %q", got)
	}
	n.Kill()
	n.Restart()
	c = raw.Dial(t, n.Addr())
	check("after a crash")
	// Until the segment is sealed, and what was in it no longer in memory.
	filler := raw.Values(now, strings.Repeat("x", 500_000))
	for range 12 {
		write(t, c, other, 0, filler)
	}
	check("from a sealed segment")
	for p := range int32(5) { // a batch on each side of the boundary
		if got := write(t, c, tp, p, raw.Values(now, "c")); got != 4 {
			t.Errorf("partition %d goes on at %d", p, got)
		}
		if got := valuesOf(readAll(t, c, tp, p)); !slices.Equal(got, []string{"a", "b", "a", "b", "c"}) {
			t.Errorf("partition %d over the boundary: %q", p, got)
		}
	}
	n.Stop()
	n.Restart()
	c = raw.Dial(t, n.Addr())
	for p := range int32(5) {
		if got := valuesOf(readAll(t, c, tp, p)); !slices.Equal(got, []string{"a", "b", "a", "b", "c"}) {
			t.Errorf("partition %d after a restart: %q", p, got)
		}
	}
}

// sessionRequest is a fetch within a session.
func sessionRequest(id, epoch int32, places ...from) *kmsg.FetchRequest {
	request := fetchRequest(places...)
	request.SessionID, request.SessionEpoch = id, epoch
	return request
}

// openSession opens a fetch session and returns its id.
func openSession(t *testing.T, c *raw.Conn, places ...from) int32 {
	t.Helper()
	r := raw.Ask[*kmsg.FetchResponse](c, fetchVersion, sessionRequest(0, 0, places...))
	if r.ErrorCode != 0 {
		t.Fatalf("open a fetch session: %+v", r)
	}
	return r.SessionID
}

// B37
func TestAnIdleFetchWaitsAlsoWhenItsPartitionsAreInTheSession(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	tp := makeTopic(t, c, "idle", 2)
	id := openSession(t, c, from{tp, 0, 0}, from{tp, 1, 0})
	if id == 0 {
		t.Fatal("no session was given")
	}
	idle := sessionRequest(id, 1)
	idle.MaxWaitMillis = 1000
	began := time.Now()
	r := raw.Ask[*kmsg.FetchResponse](c, fetchVersion, idle)
	if d := time.Since(began); d < 990*time.Millisecond || len(r.Topics) != 0 || r.ErrorCode != 0 || r.SessionID != id {
		t.Errorf("an idle fetch of 1 s was answered after %v with %+v", d, r)
	}
	// It is answered at once when there is something.
	idle = sessionRequest(id, 2)
	idle.MaxWaitMillis = 60_000
	idle.SetVersion(fetchVersion)
	correlation, err := c.Send(idle)
	if err != nil {
		t.Fatal(err)
	}
	write(t, raw.Dial(t, n.Addr()), tp, 1, raw.Values(time.Now().UnixMilli(), "x"))
	frame, err := c.Receive(raw.Limit)
	if err != nil {
		t.Fatal(err)
	}
	response, err := raw.Decode(idle, correlation, frame)
	if err != nil {
		t.Fatal(err)
	}
	if p := onlyPartition(t, response.(*kmsg.FetchResponse)); p.Partition != 1 || len(p.RecordBatches) == 0 {
		t.Errorf("%+v", p)
	}

	// A client that polls all the time asks seldom.
	hook := &fetchCount{}
	cl := newFranz(t, n, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"idle": {0: kgo.NewOffset().At(0)}}),
		kgo.FetchMaxWait(500*time.Millisecond), kgo.WithHooks(hook))
	ctx := deadline(t)
	go cl.PollFetches(ctx) // ends with the client
	began = time.Now()
	waitFor(t, "5 fetches", func() bool { return hook.count.Load() >= 5 })
	if d := time.Since(began); d < 1500*time.Millisecond {
		t.Errorf("franz-go sent 5 fetches of 500 ms within %v", d)
	}
}

func TestALongPollCountsBytesOfAllPartitionsAndEndsAtItsTime(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	tp := makeTopic(t, c, "bytes", 2)
	now := time.Now().UnixMilli()
	write(t, c, tp, 0, raw.Values(now, "some"))
	request := fetchRequest(from{tp, 0, 0}, from{tp, 1, 0})
	request.MinBytes, request.MaxWaitMillis = 1000, 300
	began := time.Now()
	r := raw.Ask[*kmsg.FetchResponse](c, fetchVersion, request)
	if d := time.Since(began); d < 290*time.Millisecond || len(r.Topics[0].Partitions[0].RecordBatches) == 0 {
		t.Errorf("too few bytes: answered after %v with %+v", d, r)
	}
	request.MaxWaitMillis = 60_000
	request.SetVersion(fetchVersion)
	id, err := c.Send(request)
	if err != nil {
		t.Fatal(err)
	}
	writer := raw.Dial(t, n.Addr())
	write(t, writer, tp, 1, raw.Values(now, strings.Repeat("x", 1000)))
	frame, err := c.Receive(raw.Limit)
	if err != nil {
		t.Fatalf("enough bytes in two partitions: %v", err)
	}
	if _, err := raw.Decode(request, id, frame); err != nil {
		t.Fatal(err)
	}
	// The deletion of a topic ends the wait for it.
	request = fetchRequest(from{tp, 0, 1})
	request.MaxWaitMillis = 60_000
	request.SetVersion(fetchVersion)
	if id, err = c.Send(request); err != nil {
		t.Fatal(err)
	}
	dropTopic(t, writer, "bytes")
	if frame, err = c.Receive(raw.Limit); err != nil {
		t.Fatalf("a deleted topic: %v", err)
	}
	response, err := raw.Decode(request, id, frame)
	if err != nil {
		t.Fatal(err)
	}
	if p := onlyPartition(t, response.(*kmsg.FetchResponse)); p.ErrorCode != unknownTopic {
		t.Errorf("a deleted topic: error %d", p.ErrorCode)
	}
}

// B38
func TestFetchSessionsInUseOutliveThoseThatAreNot(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{Set: []string{"max.incremental.fetch.session.cache.slots=10"}})
	c := raw.Dial(t, n.Addr())
	tp := makeTopic(t, c, "sessions", 10)
	busy := map[int32]int32{} // next epoch, by session
	for p := range int32(10) {
		id := openSession(t, c, from{tp, p, 0}, from{tp, (p + 1) % 10, 0})
		if id == 0 || busy[id] != 0 {
			t.Fatalf("session %d of 10 has id %d", p, id)
		}
		busy[id] = 1
	}
	for range 100 {
		openSession(t, c, from{tp, 0, 0})
		for id := range busy {
			r := raw.Ask[*kmsg.FetchResponse](c, fetchVersion, sessionRequest(id, busy[id]))
			if r.ErrorCode != 0 || r.SessionID != id {
				t.Fatalf("session %d, epoch %d: error %d", id, busy[id], r.ErrorCode)
			}
			busy[id]++
		}
	}
}

func TestFetchSessionsRememberAddForgetAndEnd(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	tp := makeTopic(t, c, "session", 3)
	now := time.Now().UnixMilli()
	id := openSession(t, c, from{tp, 0, 0})
	ask := func(version int16, request *kmsg.FetchRequest) *kmsg.FetchResponse {
		t.Helper()
		return raw.Ask[*kmsg.FetchResponse](c, version, request)
	}
	if r := ask(fetchVersion, sessionRequest(id+1, 1)); r.ErrorCode != sessionNotFound || len(r.Topics) != 0 {
		t.Errorf("unknown session: %+v", r)
	}
	if r := ask(fetchVersion, sessionRequest(id, 7)); r.ErrorCode != sessionEpoch || len(r.Topics) != 0 {
		t.Errorf("wrong epoch: %+v", r)
	}
	if r := ask(13, sessionRequest(id, 1)); r.ErrorCode != sessionTopicError {
		t.Errorf("a session by name asked with ids: %+v", r)
	}
	// Another partition joins; what is there already is not told again.
	if r := ask(fetchVersion, sessionRequest(id, 1, from{tp, 1, 0})); onlyPartition(t, r).Partition != 1 {
		t.Errorf("a partition that joins: %+v", r)
	}
	for p := range int32(3) {
		write(t, c, tp, p, raw.Values(now, "x"))
	}
	if r := ask(fetchVersion, sessionRequest(id, 2)); len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 2 {
		t.Errorf("both partitions have records: %+v", r)
	}
	// One is forgotten, the other has moved on.
	request := sessionRequest(id, 3, from{tp, 0, 1})
	forgotten := kmsg.NewFetchRequestForgottenTopic()
	forgotten.Topic, forgotten.Partitions = tp.name, []int32{1}
	request.ForgottenTopics = append(request.ForgottenTopics, forgotten)
	if r := ask(fetchVersion, request); r.ErrorCode != 0 || len(r.Topics) != 0 {
		t.Errorf("a partition was forgotten: %+v", r)
	}
	write(t, c, tp, 0, raw.Values(now, "y"))
	write(t, c, tp, 1, raw.Values(now, "y"))
	if p := onlyPartition(t, ask(fetchVersion, sessionRequest(id, 4))); p.Partition != 0 || len(p.RecordBatches) == 0 {
		t.Errorf("the partition that stays: %+v", p)
	}
	// The session ends with an answer; then it is unknown.
	if r := ask(fetchVersion, sessionRequest(id, -1, from{tp, 2, 0})); r.ErrorCode != 0 || r.SessionID != 0 || onlyPartition(t, r).Partition != 2 {
		t.Errorf("the end of the session: %+v", r)
	}
	if r := ask(fetchVersion, sessionRequest(id, 5)); r.ErrorCode != sessionNotFound {
		t.Errorf("after the end of the session: %+v", r)
	}
}

// B41
func TestOffsetsOfATopicBeginAtZeroAndHaveNoGaps(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	tp := makeTopic(t, c, "gapless", 1)
	cl := newFranz(t, n, kgo.DefaultProduceTopic("gapless"), kgo.ProducerBatchMaxBytes(512))
	produceAll := func(count int) {
		t.Helper()
		records := make([]*kgo.Record, count)
		for i := range records {
			records[i] = kgo.StringRecord(strconv.Itoa(i))
		}
		if err := cl.ProduceSync(deadline(t), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	check := func(count int64) {
		t.Helper()
		begin, end := listOffset(t, c, tp, 0, -2).Offset, listOffset(t, c, tp, 0, -1).Offset
		if begin != 0 || end != count {
			t.Errorf("the topic goes from %d to %d, want 0 to %d", begin, end, count)
		}
		for i, r := range readAll(t, c, tp, 0) {
			if r.Offset != int64(i) {
				t.Fatalf("record %d has offset %d", i, r.Offset)
			}
		}
	}
	check(0)
	produceAll(100)
	check(100)
	// What is refused takes no offset, nor do changes of the topic or restarts.
	produce(c, produceVersion, into{tp, 0, raw.Batch{Records: []raw.Record{{Time: 1}}, Change: func(b *kmsg.RecordBatch) { b.NumRecords = 2 }}.Bytes()})
	if r, err := c.Try(setConfig("gapless", "retention.ms", "1000000000")); err != nil || codeOf(r) != 0 {
		t.Error(r, err)
	}
	n.Kill()
	n.Restart()
	c = raw.Dial(t, n.Addr())
	produceAll(50)
	check(150)
}

// B49
func TestAllPartitionsOfThousandsAreFetched(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	const partitions, each = 3000, 10
	tp := makeTopic(t, c, "wide", partitions)
	batch := raw.Batch{}
	for i := range each {
		batch.Records = append(batch.Records, raw.Record{Value: []byte(strconv.Itoa(i)), Time: time.Now().UnixMilli()})
	}
	bytes := batch.Bytes()
	var all []into
	for p := range int32(partitions) {
		all = append(all, into{tp, p, bytes})
	}
	for _, a := range produce(c, produceVersion, all...) {
		if a.ErrorCode != 0 || a.BaseOffset != 0 {
			t.Fatalf("%+v", a)
		}
	}
	began := time.Now()
	cl := newFranz(t, n, kgo.ConsumeTopics("wide"))
	got := make([]int, partitions)
	for _, r := range poll(t, cl, partitions*each) {
		if r.Offset != int64(got[r.Partition]) {
			t.Fatalf("partition %d: offset %d after %d records", r.Partition, r.Offset, got[r.Partition])
		}
		got[r.Partition]++
	}
	t.Logf("franz-go read %d partitions in %v", partitions, time.Since(began))

	began = time.Now()
	if counts := saramaCount(t, n, "wide", partitions*each); len(counts) != partitions {
		t.Errorf("sarama got records of %d partitions", len(counts))
	} else {
		for p, count := range counts {
			if count != each {
				t.Errorf("sarama got %d records of partition %d", count, p)
			}
		}
	}
	t.Logf("sarama read %d partitions in %v", partitions, time.Since(began))
}

// F-8
func TestLeaderEpochsOfRequestsAreCompared(t *testing.T) {
	t.Parallel()
	c := raw.Dial(t, node.Start(t, node.Options{}).Addr())
	tp := makeTopic(t, c, "epochs", 1)
	write(t, c, tp, 0, raw.Values(time.Now().UnixMilli(), "x"))
	for epoch, want := range map[int32]int16{-1: 0, 0: 0, 1: unknownEpoch, 1 << 30: unknownEpoch} {
		request := fetchRequest(from{tp, 0, 0})
		request.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch
		if p := onlyPartition(t, raw.Ask[*kmsg.FetchResponse](c, fetchVersion, request)); p.ErrorCode != want {
			t.Errorf("fetch with leader epoch %d: error %d, want %d", epoch, p.ErrorCode, want)
		}
		list := listOffsetsRequest(tp, 0, -1)
		list.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch
		if p := raw.Ask[*kmsg.ListOffsetsResponse](c, 7, list).Topics[0].Partitions[0]; p.ErrorCode != want {
			t.Errorf("list offsets with leader epoch %d: error %d, want %d", epoch, p.ErrorCode, want)
		}
	}
}

// A reader may meet any mix of batches at any limit: it gets them all, once.
func TestEveryLimitOfAFetchGivesAllRecordsInTheEnd(t *testing.T) {
	t.Parallel()
	c := raw.Dial(t, node.Start(t, node.Options{}).Addr())
	tp := makeTopic(t, c, "mix", 1)
	random := rand.New(rand.NewPCG(1, 2))
	var want []string
	for i := range 200 {
		var b raw.Batch
		for j := range 1 + random.IntN(5) {
			value := fmt.Sprint(i, ".", j, " ", strings.Repeat("v", random.IntN(300)))
			want = append(want, value)
			b.Records = append(b.Records, raw.Record{Value: []byte(value), Time: time.Now().UnixMilli()})
		}
		b.Codec = kgo.CompressionCodecType(random.IntN(5))
		write(t, c, tp, 0, b)
	}
	for _, limit := range []int32{1, 100, 1000, 10_000, 1 << 30} {
		var got []string
		for offset := int64(0); offset < int64(len(want)); {
			request := fetchRequest(from{tp, 0, offset})
			request.Topics[0].Partitions[0].PartitionMaxBytes = limit
			p := onlyPartition(t, raw.Ask[*kmsg.FetchResponse](c, fetchVersion, request))
			records := recordsOf(t, p)
			if len(records) == 0 {
				t.Fatalf("limit %d: nothing at offset %d: error %d", limit, offset, p.ErrorCode)
			}
			if batches, _ := raw.Split(p.RecordBatches); len(batches) > 1 && len(p.RecordBatches) > int(limit) {
				t.Errorf("limit %d: %d bytes in %d batches", limit, len(p.RecordBatches), len(batches))
			}
			for _, r := range records {
				if r.Offset >= offset {
					got = append(got, string(r.Value))
				}
			}
			offset = records[len(records)-1].Offset + 1
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: %d records, want %d", limit, len(got), len(want))
		}
	}
}

// A client that asks for much and goes away before it reads the answer costs
// nobody anything.
func TestAClientThatLeavesDuringALongPollIsForgotten(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	tp := makeTopic(t, c, "left", 1)
	waiting := func() int {
		_, stacks := n.Get("/debug/pprof/goroutine?debug=2")
		return strings.Count(stacks, "broker.(*fetching).wait(")
	}
	var leavers []*raw.Conn
	for range 50 {
		leaver := raw.Dial(t, n.Addr())
		request := fetchRequest(from{tp, 0, 0})
		request.MaxWaitMillis = 2_000_000_000
		request.SetVersion(fetchVersion)
		if _, err := leaver.Send(request); err != nil {
			t.Fatal(err)
		}
		leavers = append(leavers, leaver)
	}
	waitFor(t, "all to wait", func() bool { return waiting() == len(leavers) })
	for _, leaver := range leavers {
		if err := leaver.Close(); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "all to be forgotten", func() bool { return waiting() == 0 && n.Metric("sluice_connections") <= 1 })
	write(t, c, tp, 0, raw.Values(time.Now().UnixMilli(), "x"))
}
