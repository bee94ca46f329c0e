package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/tests/e2e/node"
	"github.com/sluicemq/sluice/tests/e2e/raw"
)

// Special timestamps of ListOffsets.
const (
	latest        = -1
	earliest      = -2
	maxTimestamp  = -3
	earliestLocal = -4
	latestTiered  = -5
	earliestToGo  = -6
)

const (
	invalidRequest        = 42
	policyViolation       = 44
	notSupportedByVersion = unsupportedVersion
)

// found is an offset with its time, as ListOffsets tells them.
type found struct{ offset, time int64 }

// expectTimes asks for the offsets at timestamps.
func expectTimes(t *testing.T, c *raw.Conn, what string, tp topic, want map[int64]found) {
	t.Helper()
	for timestamp, w := range want {
		p := listOffset(t, c, tp, 0, timestamp)
		if got := (found{p.Offset, p.Timestamp}); p.ErrorCode != 0 || got != w {
			t.Errorf("%s: timestamp %d: offset %d, time %d, error %d; want %v", what, timestamp, p.Offset, p.Timestamp, p.ErrorCode, w)
		}
		if epoch := p.LeaderEpoch; w.offset >= 0 && epoch != 0 || w.offset < 0 && epoch > 0 {
			t.Errorf("%s: timestamp %d: leader epoch %d", what, timestamp, epoch)
		}
	}
}

// records makes a batch of records with these times, in this order.
func records(times ...int64) raw.Batch {
	var b raw.Batch
	for _, time := range times {
		b.Records = append(b.Records, raw.Record{Key: []byte("k"), Value: []byte(fmt.Sprint("at ", time)), Time: time})
	}
	return b
}

var none = found{-1, -1}

// B52
func TestTheOffsetOfATimeIsTheFirstRecordNotBeforeIt(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	inOrder := map[int64]found{0: {0, 1000}, 1500: {1, 2000}, 2000: {1, 2000}, 3000: {2, 3000}, 3001: none, latest: {3, -1}, earliest: {0, -1}}
	outOfOrder := map[int64]found{0: {0, 1000}, 1001: {1, 3000}, 2500: {1, 3000}, 3000: {1, 3000}, 3001: none, latest: {3, -1}}
	empty := map[int64]found{0: none, 1500: none, maxTimestamp: none, latest: {0, -1}, earliest: {0, -1}}
	topics := map[string]struct {
		topic   topic
		batches []raw.Batch
		want    map[int64]found
	}{
		"a batch each":               {batches: []raw.Batch{records(1000), records(2000), records(3000)}, want: inOrder},
		"one batch":                  {batches: []raw.Batch{records(1000, 2000, 3000)}, want: inOrder},
		"out of order, a batch each": {batches: []raw.Batch{records(1000), records(3000), records(2000)}, want: outOfOrder},
		"out of order, one batch":    {batches: []raw.Batch{records(1000, 3000, 2000)}, want: outOfOrder},
		"nothing":                    {want: empty},
	}
	for name, test := range topics {
		test.topic = makeTopic(t, c, strings.NewReplacer(" ", "-", ",", "").Replace(name), 1)
		for codec, b := range test.batches {
			b.Codec = kgo.CompressionCodecType(codec)
			write(t, c, test.topic, 0, b)
		}
		topics[name] = test
	}
	check := func(when string) {
		t.Helper()
		for name, test := range topics {
			expectTimes(t, c, name+when, test.topic, test.want)
		}
	}
	check("")
	n.Kill()
	n.Restart()
	c = raw.Dial(t, n.Addr())
	check(" after a crash")

	// The same through clients.
	name := topics["out of order, one batch"].topic.name
	admin, cl := newAdmin(t, n), newSarama(t, n, sarama.MaxVersion)
	for timestamp, want := range outOfOrder {
		if got := strings.TrimSpace(kcat(t, n, "", "-Q", "-t", fmt.Sprint(name, ":0:", timestamp))); got != fmt.Sprintf("%s [0] offset %d", name, want.offset) {
			t.Errorf("kcat -Q of timestamp %d printed %q, want offset %d", timestamp, got, want.offset)
		}
		if got, err := cl.GetOffset(name, 0, timestamp); err != nil || got != want.offset {
			t.Errorf("sarama's offset of timestamp %d is %d, %v, want %d", timestamp, got, err, want.offset)
		}
		if timestamp < 0 {
			continue
		}
		listed, err := admin.ListOffsetsAfterMilli(deadline(t), timestamp, name)
		if err != nil {
			t.Fatal(err)
		}
		o, _ := listed.Lookup(name, 0)
		if want == none {
			want.offset = 3 // kadm gives the end instead
		}
		if o.Err != nil || o.Offset != want.offset || o.Timestamp != want.time {
			t.Errorf("kadm's offset of timestamp %d is %+v, want %v", timestamp, o, want)
		}
	}
}

// B53
func TestTimesAreFoundAtTheEndsOfALog(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{Set: []string{"log.retention.check.interval.ms=50"}})
	c := raw.Dial(t, n.Addr())
	for _, size := range []int{0, 1, 2, 10_000} {
		tp := makeTopic(t, c, fmt.Sprint("log-of-", size), 1, "retention.ms", "-1")
		last := int64(size) // record i has the time i+1
		for from := 0; from < size; from += 100 {
			var times []int64
			for i := from; i < min(from+100, size); i++ {
				times = append(times, int64(i+1))
			}
			write(t, c, tp, 0, records(times...))
		}
		want := map[int64]found{last + 1: none, latest: {last, -1}, earliest: {0, -1}, maxTimestamp: none}
		if size > 0 {
			want[last], want[1], want[0], want[maxTimestamp] = found{last - 1, last}, found{0, 1}, found{0, 1}, found{last - 1, last}
		}
		expectTimes(t, c, tp.name, tp, want)

		// In the middle of a batch, and then at the end.
		if size > 2 {
			removeBefore(t, c, tp, last/2+3)
			expectTimes(t, c, tp.name+" half removed", tp, map[int64]found{
				0: {last/2 + 3, last/2 + 4}, last: {last - 1, last}, last + 1: none, earliest: {last/2 + 3, -1}, maxTimestamp: {last - 1, last}})
		}
		removeBefore(t, c, tp, -1)
		expectTimes(t, c, tp.name+" removed", tp, map[int64]found{0: none, last: none, last + 1: none, maxTimestamp: none, latest: {last, -1}, earliest: {last, -1}})

		// And by retention.
		tp = makeTopic(t, c, fmt.Sprint("expired-", size), 1, "retention.ms", "1")
		if size > 0 {
			write(t, c, tp, 0, records(1, 2, 3))
			waitFor(t, "the records to expire", func() bool { return listOffset(t, c, tp, 0, earliest).Offset == 3 })
			expectTimes(t, c, tp.name, tp, map[int64]found{0: none, 3: none, 4: none, maxTimestamp: none, latest: {3, -1}})
			if got := write(t, c, tp, 0, records(time.Now().UnixMilli()+3_000_000)); got != 3 {
				t.Errorf("%s goes on at %d", tp.name, got)
			}
		}
	}
}

// removeBefore deletes the records of partition 0 before an offset.
func removeBefore(t *testing.T, c *raw.Conn, tp topic, offset int64) {
	t.Helper()
	response, err := c.Try(deleteRecords(tp.name, offset))
	if err != nil {
		t.Fatal(err)
	}
	if code := codeOf(response); code != 0 {
		t.Fatalf("delete records of %s before %d: error %d", tp.name, offset, code)
	}
}

// B55
func TestTheHighestTimeIsThatOfARecord(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	for codec := range raw.Codecs() {
		one := records(10, 30, 20)
		one.Codec = kgo.CompressionCodecType(codec)
		tp := makeTopic(t, c, fmt.Sprint("highest-", codec), 1)
		expectTimes(t, c, tp.name+" empty", tp, map[int64]found{maxTimestamp: none})
		write(t, c, tp, 0, one)
		write(t, c, tp, 0, records(5))
		expectTimes(t, c, tp.name, tp, map[int64]found{maxTimestamp: {1, 30}})
		write(t, c, tp, 0, records(30, 30)) // a tie: the earliest counts
		expectTimes(t, c, tp.name+" tied", tp, map[int64]found{maxTimestamp: {1, 30}, 30: {1, 30}})

		// What the head of a batch says of its times does not count.
		for i, claimed := range []int64{-1, 0, 7, 1 << 50} {
			tp := makeTopic(t, c, fmt.Sprint("claimed-", codec, "-", i), 1)
			wrong := one
			wrong.Change = func(b *kmsg.RecordBatch) { b.MaxTimestamp = claimed }
			write(t, c, tp, 0, wrong)
			expectTimes(t, c, fmt.Sprint(tp.name, " claims ", claimed), tp, map[int64]found{maxTimestamp: {1, 30}, 15: {1, 30}, 30: {1, 30}, 31: none})
		}
	}
	tp := makeTopic(t, c, "appended", 1, "message.timestamp.type", "LogAppendTime")
	a := produce(c, produceVersion, into{tp, 0, records(10, 30, 20).Bytes()})[0]
	expectTimes(t, c, tp.name, tp, map[int64]found{maxTimestamp: {0, a.LogAppendTime}})
}

// L-1, L-2, L-7
func TestSpecialTimestampsAreServedFromTheirVersionOn(t *testing.T) {
	t.Parallel()
	c := raw.Dial(t, node.Start(t, node.Options{}).Addr())
	tp := makeTopic(t, c, "special", 1)
	write(t, c, tp, 0, records(10, 30, 20))
	for _, test := range []struct {
		timestamp int64
		since     int16
		want      found
	}{
		{latest, 1, found{3, -1}}, {earliest, 1, found{0, -1}}, {maxTimestamp, 7, found{1, 30}},
		{earliestLocal, 8, found{0, -1}}, {latestTiered, 9, none}, {earliestToGo, 11, none}, {-7, 99, none},
	} {
		for version := int16(1); version <= 11; version++ {
			p := raw.Ask[*kmsg.ListOffsetsResponse](c, version, listOffsetsRequest(tp, 0, test.timestamp)).Topics[0].Partitions[0]
			switch {
			case version < test.since:
				if p.ErrorCode != notSupportedByVersion {
					t.Errorf("timestamp %d, version %d: %+v", test.timestamp, version, p)
				}
			case p.ErrorCode != 0 || (found{p.Offset, p.Timestamp}) != test.want:
				t.Errorf("timestamp %d, version %d: %+v, want %v", test.timestamp, version, p, test.want)
			}
		}
	}
	twice := listOffsetsRequest(tp, 0, latest)
	twice.Topics[0].Partitions = append(twice.Topics[0].Partitions, twice.Topics[0].Partitions[0])
	for _, p := range raw.Ask[*kmsg.ListOffsetsResponse](c, 7, twice).Topics[0].Partitions {
		if p.ErrorCode != invalidRequest {
			t.Errorf("a partition named twice: %+v", p)
		}
	}
	for _, other := range []topic{{name: "missing"}, {name: tp.name}} {
		request := listOffsetsRequest(other, 5, latest)
		if p := raw.Ask[*kmsg.ListOffsetsResponse](c, 7, request).Topics[0].Partitions[0]; p.ErrorCode != unknownTopic || p.Offset != -1 {
			t.Errorf("partition 5 of %s: %+v", other.name, p)
		}
	}
}

// B56
func TestTheLatestOffsetIsNeverAboveWhatIsThere(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	tp := makeTopic(t, c, "latest", 1)
	cl := newFranz(t, n, kgo.DefaultProduceTopic("latest"), kgo.ProducerLinger(0), kgo.AlwaysRetryEOF(), kgo.ProducerBatchMaxBytes(2048))
	stop := make(chan struct{})
	var running sync.WaitGroup
	defer running.Wait()
	defer close(stop)
	running.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				cl.Produce(t.Context(), kgo.StringRecord(fmt.Sprint(i)), nil)
			}
		}
	})
	highest := int64(0)
	for round := range 3 {
		for range 300 {
			end := listOffset(t, c, tp, 0, latest).Offset
			if end < highest {
				t.Fatalf("the latest offset went from %d to %d", highest, end)
			}
			if highest = end; end == 0 {
				continue
			}
			p := fetchOne(t, c, tp, 0, end-1)
			if records := recordsOf(t, p); len(records) == 0 || records[len(records)-1].Offset < end-1 || p.HighWatermark < end {
				t.Fatalf("the latest offset is %d, but a fetch at %d has %d records and high watermark %d", end, end-1, len(records), p.HighWatermark)
			}
			highest = max(highest, p.HighWatermark)
		}
		n.Kill()
		n.Restart()
		c = raw.Dial(t, n.Addr())
		if end := listOffset(t, c, tp, 0, latest).Offset; end < highest {
			t.Fatalf("round %d: the log ends at %d after a crash, but was said to end at %d before", round, end, highest)
		}
	}
}

// B58
func TestLeaderEpochsOfAllAnswersAgree(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	var c *raw.Conn
	var tp topic
	check := func(when string) {
		t.Helper()
		epochs := map[string]int32{}
		for version := int16(7); version <= 13; version++ {
			epochs[fmt.Sprint("Metadata v", version)] = metadata(c, version, false, tp.name).Topics[0].Partitions[0].LeaderEpoch
		}
		for version := int16(4); version <= 11; version++ {
			for _, timestamp := range []int64{latest, earliest, 10} {
				r := raw.Ask[*kmsg.ListOffsetsResponse](c, version, listOffsetsRequest(tp, 0, timestamp))
				epochs[fmt.Sprint("ListOffsets v", version, " of ", timestamp)] = r.Topics[0].Partitions[0].LeaderEpoch
			}
		}
		batches, err := raw.Split(fetchOne(t, c, tp, 0, 0).RecordBatches)
		if err != nil || len(batches) == 0 {
			t.Fatalf("%d batches, %v", len(batches), err)
		}
		for i, b := range batches {
			epochs[fmt.Sprint("batch ", i)] = b.PartitionLeaderEpoch
		}
		request := kmsg.NewPtrOffsetForLeaderEpochRequest()
		in := kmsg.NewOffsetForLeaderEpochRequestTopic()
		in.Topic = tp.name
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.LeaderEpoch = epochs["batch 0"]
		in.Partitions = append(in.Partitions, p)
		request.Topics = append(request.Topics, in)
		for version := int16(2); version <= 4; version++ {
			p := raw.Ask[*kmsg.OffsetForLeaderEpochResponse](c, version, request).Topics[0].Partitions[0]
			epochs[fmt.Sprint("OffsetForLeaderEpoch v", version)] = p.LeaderEpoch
			if end := listOffset(t, c, tp, 0, latest).Offset; p.ErrorCode != 0 || p.EndOffset != end {
				t.Errorf("%s: OffsetForLeaderEpoch v%d: %+v, want end offset %d", when, version, p, end)
			}
		}
		for where, epoch := range epochs {
			if epoch != 0 {
				t.Errorf("%s: leader epoch %d in %s", when, epoch, where)
			}
		}
	}
	c = raw.Dial(t, n.Addr())
	tp = makeTopic(t, c, "epochs", 1)
	write(t, c, tp, 0, records(10))
	check("at first")
	n.Kill()
	n.Restart()
	c = raw.Dial(t, n.Addr())
	write(t, c, tp, 0, records(20))
	check("after a crash")
	n.Stop()
	n.Restart()
	c = raw.Dial(t, n.Addr())
	write(t, c, tp, 0, records(30))
	check("after a stop")
	if got := franzConsume(t, n, "epochs", 0, 3); len(got) != 3 {
		t.Errorf("franz-go read %d records", len(got))
	}
}

// L-11
func TestDeletedRecordsAreGoneForGood(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	tp := makeTopic(t, c, "delete", 2)
	for i := range 5 {
		write(t, c, tp, 0, records(int64(i), int64(i)))
	}
	one := func(offset int64) kmsg.DeleteRecordsResponseTopicPartition {
		t.Helper()
		r, err := c.Try(deleteRecords("delete", offset))
		if err != nil {
			t.Fatal(err)
		}
		return r.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]
	}
	for _, test := range []struct {
		offset, low int64
		code        int16
	}{
		{11, -1, offsetOutOfRange}, {-2, -1, offsetOutOfRange}, {0, 0, 0}, {3, 3, 0}, {2, 3, 0}, {3, 3, 0}, {10, 10, 0}, {-1, 10, 0},
	} {
		if p := one(test.offset); p.ErrorCode != test.code || p.LowWatermark != test.low {
			t.Errorf("delete before %d: error %d, low watermark %d; want %d and %d", test.offset, p.ErrorCode, p.LowWatermark, test.code, test.low)
		}
		if test.offset == 3 {
			if p := fetchOne(t, c, tp, 0, 2); p.ErrorCode != offsetOutOfRange {
				t.Errorf("fetch before the start: error %d", p.ErrorCode)
			}
			if p := fetchOne(t, c, tp, 0, 3); p.ErrorCode != 0 || p.LogStartOffset != 3 || len(recordsOf(t, p)) == 0 {
				t.Errorf("fetch at the start: error %d, log start %d", p.ErrorCode, p.LogStartOffset)
			}
		}
	}
	n.Kill()
	n.Restart()
	c = raw.Dial(t, n.Addr())
	if start, end := listOffset(t, c, tp, 0, earliest).Offset, listOffset(t, c, tp, 0, latest).Offset; start != 10 || end != 10 {
		t.Errorf("after a crash the partition goes from %d to %d", start, end)
	}
	if got := write(t, c, tp, 0, records(1)); got != 10 {
		t.Errorf("after a crash the partition goes on at %d", got)
	}
	compacted := makeTopic(t, c, "compacted", 1, "cleanup.policy", "compact")
	r, err := c.Try(deleteRecords(compacted.name, 0))
	if err != nil || codeOf(r) != policyViolation {
		t.Errorf("of a compacted topic: %+v, %v", r, err)
	}
	if r, err = c.Try(deleteRecords("missing", 0)); err != nil || codeOf(r) != unknownTopic {
		t.Errorf("of a missing topic: %+v, %v", r, err)
	}
	admin := newAdmin(t, n)
	offsets := kadm.Offsets{}
	offsets.AddOffset("delete", 0, 11, -1)
	deleted, err := admin.DeleteRecords(deadline(t), offsets)
	if got, ok := deleted.Lookup("delete", 0); err != nil || !ok || got.Err != nil || got.LowWatermark != 11 {
		t.Errorf("kadm.DeleteRecords: %+v, %v", deleted, err)
	}
}

// Retention by size and by time frees what is old, for each partition on its own,
// and gives the disk back.
func TestRetentionRemovesOldRecordsAndFreesTheDisk(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{Set: []string{"log.retention.check.interval.ms=50", "commitlog.segment.bytes=2097152"}})
	c := raw.Dial(t, n.Addr())
	sized := makeTopic(t, c, "sized", 2, "retention.bytes", "1000000", "retention.ms", "-1")
	value := strings.Repeat("x", 100_000)
	for i := range 100 {
		b := raw.Values(time.Now().UnixMilli(), value)
		if got := write(t, c, sized, int32(i%2), b); got != int64(i/2) {
			t.Fatalf("offset %d, want %d", got, i/2)
		}
	}
	for p := range int32(2) {
		waitFor(t, "retention by size", func() bool {
			size := listOffset(t, c, sized, p, latest).Offset - listOffset(t, c, sized, p, earliest).Offset
			return size <= 11
		})
		if kept := listOffset(t, c, sized, p, latest).Offset - listOffset(t, c, sized, p, earliest).Offset; kept < 9 {
			t.Errorf("partition %d has %d records of 100 kB left, at a limit of 1 MB", p, kept)
		}
	}
	waitFor(t, "the segments to be freed", func() bool { return n.Metric("sluice_log_segments") <= 4 })
	if r, err := c.Try(setConfig("sized", "retention.bytes", "-1")); err != nil || codeOf(r) != 0 {
		t.Fatal(r, err)
	}
	if r, err := c.Try(setConfig("sized", "retention.ms", "1")); err != nil || codeOf(r) != 0 {
		t.Fatal(r, err)
	}
	for p := range int32(2) {
		waitFor(t, "retention by time", func() bool { return listOffset(t, c, sized, p, earliest).Offset == 50 })
	}
	n.Kill()
	n.Restart()
	c = raw.Dial(t, n.Addr())
	for p := range int32(2) {
		if start, end := listOffset(t, c, sized, p, earliest).Offset, listOffset(t, c, sized, p, latest).Offset; start != 50 || end != 50 {
			t.Errorf("after a crash partition %d goes from %d to %d", p, start, end)
		}
	}
}
