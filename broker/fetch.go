package broker

import (
	"context"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/broker/fetchsession"
	"github.com/sluicemq/sluice/broker/fetchwire"
	"github.com/sluicemq/sluice/catalog"
	"github.com/sluicemq/sluice/log"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol"
	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/protocol/kerr"
	"github.com/sluicemq/sluice/txn/kafka"
)

// fetching is a Fetch request on its way. Values are pooled: memory of the
// response is reused, and records are borrowed from the log until it is sent.
type fetching struct {
	broker   *Broker
	version  int16
	session  *fetchsession.Fetch
	request  fetchsession.Request
	minBytes int
	maxBytes int
	// committed is set for readers of committed records.
	committed bool
	// follower is set for who says to be a replica; none is known.
	follower bool

	response fetchwire.Response
	encoder  fetchwire.Encoder
	batches  log.Batches
	held     int // bytes of batches that count as Broker.fetched
	overlap  []kafka.Aborted

	// As of the last read:
	watched []entry.Partition // those that can get records
	missing int               // those that do not exist
	settled bool              // an error or the like: answer without waiting
}

// maxPooledFetch is the largest encoder that is kept for the next request.
const maxPooledFetch = 4 << 20

// fetch answers Fetch (F-1 to F-27): record batches of the partitions in the
// request, or of those in its fetch session. It reads at once, and if there is
// too little, again whenever a partition gets records, until the time is up.
func (b *Broker) fetch(ctx context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.FetchRequest)
	f, _ := b.fetches.Get().(*fetching)
	if f == nil {
		f = &fetching{}
	}
	f.broker, f.version = b, c.Version
	f.committed = request.IsolationLevel == readCommitted
	f.follower = max(request.ReplicaID, request.ReplicaState.ID) >= 0
	f.maxBytes = min(int(request.MaxBytes), int(b.settings.FetchMaxBytes))
	f.minBytes = min(int(request.MinBytes), f.maxBytes)
	if request.IsolationLevel != readCommitted && request.IsolationLevel != readUncommitted {
		return protocol.Ready(f.refuseEach(request, kerr.New(kerr.UnknownServerError, "isolation level %d is unknown", request.IsolationLevel)))
	}
	f.takePartitions(request, c.ClientID)
	var err error
	if f.session, err = b.sessions.Begin(&f.request, entry.TimeOf(c.Received)); err != nil {
		return protocol.Ready(f.refuse(err))
	}
	if f.read() || request.MaxWaitMillis <= 0 || len(f.watched) == 0 {
		return protocol.Ready(f.answer())
	}
	promise := protocol.NewPromise()
	wait := time.Duration(request.MaxWaitMillis) * time.Millisecond
	// Ends when there is enough, or the time is up, or the client gone, or the
	// broker stops; then it resolves the promise.
	go func() { promise.Resolve(f.wait(ctx, c.Received.Add(wait))) }()
	return promise
}

// Isolation levels.
const (
	readUncommitted = 0
	readCommitted   = 1
)

// reserve takes room for records out of what all responses together may hold:
// what is wanted, or what is left, but at least one byte. So a batch is returned
// however much is on its way, and everybody gets on, but clients that are slow to
// read cannot fill the memory. Who reserves gives back what was not used.
func (b *Broker) reserve(wanted int) int {
	for {
		taken := b.fetched.Load()
		granted := max(1, min(int64(wanted), b.settings.QueuedResponseBytes-taken))
		if b.fetched.CompareAndSwap(taken, taken+granted) {
			return int(granted)
		}
	}
}

// takePartitions copies what the request says of partitions to where the fetch
// session takes it from.
func (f *fetching) takePartitions(request *kmsg.FetchRequest, client string) {
	f.request = fetchsession.Request{
		SessionID: request.SessionID, Epoch: request.SessionEpoch, TopicIDs: f.version >= 13, ClientID: client,
		Partitions: f.request.Partitions[:0], Forgotten: f.request.Forgotten[:0],
	}
	if f.version < 7 {
		f.request.SessionID, f.request.Epoch = 0, fetchsession.FinalEpoch
	}
	topics := partitionsToFetch(request)
	for i := range topics {
		t := &topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			f.request.Partitions = append(f.request.Partitions, fetchsession.Partition{
				TopicID: t.TopicID, Topic: t.Topic, Index: p.Partition,
				FetchOffset: entry.Offset(p.FetchOffset), LogStart: entry.Offset(p.LogStartOffset), MaxBytes: p.PartitionMaxBytes,
				CurrentLeaderEpoch: p.CurrentLeaderEpoch, LastFetchedEpoch: p.LastFetchedEpoch,
			})
		}
	}
	for i := range request.ForgottenTopics {
		t := &request.ForgottenTopics[i]
		for _, p := range t.Partitions {
			f.request.Forgotten = append(f.request.Forgotten, fetchsession.ForgottenPartition{TopicID: t.TopicID, Topic: t.Topic, Index: p})
		}
	}
}

// wait reads again whenever a watched partition changes, and returns the answer.
func (f *fetching) wait(ctx context.Context, deadline time.Time) protocol.Response {
	waiter := f.broker.log.Watch(f.watched)
	defer waiter.Cancel()
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	missing := f.missing
	for !f.read() && f.missing == missing { // once more first: records may have come before the watch began
		// What is not enough is not held on to: it may be large, and the wait long.
		few := f.batches.Bytes > 0
		f.letGo()
		select {
		case <-waiter.Woken():
			f.watched = waiter.Rearm(f.watched[:0])
			continue
		case <-timer.C:
		case <-f.broker.ctx.Done():
		case <-ctx.Done():
			few = false // nobody reads it
		}
		if few {
			f.read()
		}
		break
	}
	return f.answer()
}

// read fills the response from the beginning, and reports whether it is to be
// sent now: there is enough, or something that the client should not wait for.
func (f *fetching) read() (enough bool) {
	f.response.Reset()
	f.letGo()
	f.settled, f.missing = false, 0
	f.watched = f.watched[:0]
	var topic *catalog.Topic
	var out *fetchwire.Topic
	var at fetchsession.Partition // the partition before, to see when the topic changes
	var partition fetchwire.Topic // holds one partition until it is known whether it is told
	first := true
	for cursor := range f.session.Partitions() {
		if first || cursor.TopicID != at.TopicID || cursor.Topic != at.Topic {
			topic, _ = f.broker.topicOf(f.version >= 13, cursor.Topic, cursor.TopicID)
			out, first = nil, false
		}
		at = cursor.Partition
		partition.Partitions = partition.Partitions[:0]
		p := partition.AddPartition(cursor.Index)
		answer := f.readPartition(topic, &cursor.Partition, p)
		if !cursor.Answer(answer) {
			continue
		}
		if out == nil {
			out = f.response.AddTopic(cursor.TopicID, cursor.Topic)
		}
		told := out.AddPartition(cursor.Index)
		records := append(told.Records, p.Records...)
		*told = *p
		told.Records = records
	}
	return f.settled || f.batches.Bytes >= f.minBytes && f.batches.Bytes > 0 || f.minBytes <= 0
}

// readPartition answers for one partition.
func (f *fetching) readPartition(topic *catalog.Topic, in *fetchsession.Partition, out *fetchwire.Partition) fetchsession.Answer {
	number, err := f.locate(topic, in)
	var start, end entry.Offset
	if err == nil {
		var ok bool
		if start, end, ok = f.broker.log.Bounds(number); !ok {
			err = kerr.New(kerr.UnknownTopicOrPartition, "")
		}
	}
	if err != nil {
		// Unlike the other errors it is nothing to end a wait for others: who makes
		// a topic may take a while, and the client asks again.
		f.missing++
		out.ErrorCode, out.Aborted = kerr.Of(err), noAborted
		return fetchsession.Answer{HighWatermark: -1, LogStart: -1, Failed: true}
	}
	// Asked for behind the end, and before what was aborted: see package txn/kafka.
	stable := f.broker.txns.LastStable(number, start, end)
	readable := end
	if f.committed {
		readable = stable
	}
	had := len(f.batches.Pieces)
	diverges := false
	if err = f.admit(in, end); err == nil {
		diverges, err = f.diverges(in, end)
	}
	if err == nil && !diverges {
		err = f.readRecords(number, in, readable)
	}
	if err != nil {
		f.settled = true
		out.ErrorCode = fetchCode(kerr.Of(err), f.version)
		if out.ErrorCode == kerr.NotLeaderOrFollower && f.version >= 16 {
			out.CurrentLeader = fetchwire.CurrentLeader{ID: f.broker.settings.NodeID, Epoch: log.LeaderEpoch}
		}
		return fetchsession.Answer{HighWatermark: -1, LogStart: -1, Failed: true}
	}
	if diverges {
		f.settled = true
		out.DivergingEpoch = fetchwire.DivergingEpoch{Epoch: log.LeaderEpoch, EndOffset: end}
		out.HighWatermark, out.LastStable, out.LogStart = end, stable, start
		return fetchsession.Answer{HighWatermark: end, LogStart: start, Directed: true}
	}
	out.HighWatermark, out.LastStable, out.LogStart = end, stable, start
	out.Records = append(out.Records[:0], f.batches.Pieces[had:]...)
	if f.committed {
		out.Aborted = f.aborted(number, in.FetchOffset, stable, out.Records)
	}
	f.watched = append(f.watched, number)
	return fetchsession.Answer{HighWatermark: end, LogStart: start, Records: len(out.Records) > 0}
}

// readRecords reads from one partition into f.batches, as much as the limits
// leave.
func (f *fetching) readRecords(number entry.Partition, in *fetchsession.Partition, to entry.Offset) error {
	room := min(int(in.MaxBytes), f.maxBytes-f.batches.Bytes)
	reserved := 0
	if room > 0 && in.FetchOffset < to {
		reserved = f.broker.reserve(room)
		if reserved < room {
			f.settled = true // there is no use in waiting for more
		}
		room = reserved
	}
	_, err := f.broker.log.Read(number, in.FetchOffset, to, room, f.batches.Bytes == 0, &f.batches)
	used := f.batches.Bytes - f.held
	f.held += used
	f.broker.fetched.Add(int64(used - reserved))
	return err
}

// aborted lists the aborted transactions that overlap records which were read from
// an offset on, below the last stable one.
func (f *fetching) aborted(number entry.Partition, from, stable entry.Offset, records [][]byte) []fetchwire.AbortedTxn {
	if len(records) == 0 {
		return noAborted
	}
	f.overlap = f.broker.txns.Aborted(number, from, stable, f.overlap[:0])
	if len(f.overlap) == 0 {
		return noAborted
	}
	var last batch.Header
	for rest := records[len(records)-1]; len(rest) > 0; {
		head, more, err := batch.Split(rest)
		if err != nil {
			break // not what the log gives
		}
		last, rest = head, more
	}
	list := make([]fetchwire.AbortedTxn, 0, len(f.overlap))
	for _, a := range f.overlap {
		if last == nil || int64(a.First) <= last.LastOffset() {
			list = append(list, fetchwire.AbortedTxn{ProducerID: a.ProducerID, FirstOffset: a.First})
		}
	}
	return list
}

// letGo gives the records back to the log.
func (f *fetching) letGo() {
	f.batches.Release()
	f.broker.fetched.Add(int64(-f.held))
	f.held = 0
}

// noAborted is the list of aborted transactions where there are none: not nil,
// as readers of committed records expect it.
var noAborted = []fetchwire.AbortedTxn{}

// admit refuses what the partition cannot be asked by this client.
func (f *fetching) admit(in *fetchsession.Partition, end entry.Offset) error {
	switch {
	case f.follower:
		return kerr.New(kerr.NotLeaderOrFollower, "no other node has a replica")
	case in.CurrentLeaderEpoch > log.LeaderEpoch:
		return kerr.New(kerr.UnknownLeaderEpoch, "")
	case in.CurrentLeaderEpoch >= 0 && in.CurrentLeaderEpoch < log.LeaderEpoch:
		return kerr.New(kerr.FencedLeaderEpoch, "")
	case min(f.maxBytes, int(in.MaxBytes)) < 0 && in.FetchOffset < end:
		return kerr.New(kerr.UnknownServerError, "the limits are negative")
	}
	return nil
}

// diverges reports whether the log ended before the offset from which the client
// goes on, in the leader epoch that it read last (F-9).
func (f *fetching) diverges(in *fetchsession.Partition, end entry.Offset) (bool, error) {
	if f.version < 12 || in.LastFetchedEpoch < 0 {
		return false, nil
	}
	if in.LastFetchedEpoch > log.LeaderEpoch {
		return false, kerr.New(kerr.OffsetOutOfRange, "")
	}
	return end < in.FetchOffset, nil
}

func (f *fetching) locate(topic *catalog.Topic, in *fetchsession.Partition) (entry.Partition, error) {
	if topic == nil {
		if f.version >= 13 {
			return 0, kerr.New(kerr.UnknownTopicID, "")
		}
		return 0, kerr.New(kerr.UnknownTopicOrPartition, "")
	}
	number, ok := topic.Partition(in.Index)
	if !ok {
		return 0, kerr.New(kerr.UnknownTopicOrPartition, "")
	}
	return number, nil
}

// fetchCode returns the code that a version of Fetch knows. Clients take any
// code that Kafka does not send here for a bug of theirs (F-26).
func fetchCode(code kerr.Code, version int16) kerr.Code {
	switch code {
	case kerr.KafkaStorageError:
		if version <= 5 {
			return kerr.NotLeaderOrFollower
		}
	case kerr.OffsetOutOfRange, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch,
		kerr.NotLeaderOrFollower:
	default:
		return kerr.UnknownServerError
	}
	return code
}

// answer ends the fetch session's part and encodes the response.
func (f *fetching) answer() protocol.Response {
	id, err := f.session.End(entry.TimeOf(time.Now()))
	if err != nil {
		return f.refuse(err)
	}
	f.response.SessionID = id
	return f.encode()
}

// refuse answers with an error of the session and nothing else.
func (f *fetching) refuse(err error) protocol.Response {
	f.letGo()
	f.response.Reset()
	f.response.ErrorCode = kerr.Of(err)
	return f.encode()
}

// refuseEach answers with an error of the whole request. Versions that have
// names repeat it for each partition; the first ones know no other place.
func (f *fetching) refuseEach(request *kmsg.FetchRequest, err error) protocol.Response {
	if f.version < 13 {
		for i := range request.Topics {
			topic := f.response.AddTopic(request.Topics[i].TopicID, request.Topics[i].Topic)
			for j := range request.Topics[i].Partitions {
				p := topic.AddPartition(request.Topics[i].Partitions[j].Partition)
				p.ErrorCode, p.Aborted = kerr.Of(err), noAborted
			}
		}
	}
	f.response.ErrorCode = kerr.Of(err)
	return f.encode()
}

func (f *fetching) encode() protocol.Response {
	pieces, _, err := f.encoder.Encode(f.version, &f.response)
	if err != nil {
		f.free()
		return protocol.Response{Close: err}
	}
	return protocol.Response{Frame: net.Buffers(pieces), Release: f.free}
}

// free gives the records back to the log, and f to the next request.
func (f *fetching) free() {
	f.letGo()
	f.response.Reset()
	f.encoder.Reset()
	f.session = nil
	if f.encoder.Cap() <= maxPooledFetch {
		f.broker.fetches.Put(f)
	}
}
