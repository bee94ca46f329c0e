package e2e

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/tests/e2e/node"
	"github.com/sluicemq/sluice/tests/e2e/raw"
)

// identity says which record of which producer a record is. Sequences count
// from 0 for each producer and partition.
type identity struct {
	producer uint16
	sequence uint32
}

func (id identity) key() []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(nil, id.producer), id.sequence)
}

// value is what the record holds: between nothing and a KiB, or seldom many,
// that follow from the identity.
func (id identity) value(partition int32) []byte {
	random := rand.New(rand.NewPCG(uint64(id.producer)<<32|uint64(id.sequence), uint64(partition)))
	size := random.IntN(20) * random.IntN(50)
	if random.IntN(1000) == 0 {
		size *= 100
	}
	value := make([]byte, size)
	for i := range value {
		value[i] = byte(random.Uint32()) & 0x3f // can be compressed a little
	}
	return value
}

// identify returns the identity of a record that was read, if it is one of the
// load's, whole.
func identify(r *kgo.Record) (identity, bool) {
	if len(r.Key) != 6 {
		return identity{}, false
	}
	id := identity{binary.BigEndian.Uint16(r.Key), binary.BigEndian.Uint32(r.Key[2:])}
	return id, bytes.Equal(r.Value, id.value(r.Partition))
}

// ledger is what clients were told and shown, and what the log turned out to
// hold.
type ledger struct {
	t          testing.TB
	topics     []topic
	idempotent map[uint16]bool // set before the load starts

	mu     sync.Mutex
	places map[string][]*history // guarded by mu, like what is in it; by topic, at the partition
	total  int                   // acknowledgements
}

// history is one partition's part of the ledger.
type history struct {
	sent   map[uint16]uint32  // how many records each producer has sent
	acked  map[int64]identity // told to producers since the last check
	seen   map[int64]identity // shown to consumers since the last check
	log    []identity         // what the log held, as of the last check
	start  int64              // where the log starts: what is before was removed
	latest map[uint16]uint32  // sequences in log: one more than the highest of each producer
}

func newLedger(t testing.TB, topics ...topic) *ledger {
	l := &ledger{t: t, topics: topics, idempotent: map[uint16]bool{}, places: map[string][]*history{}}
	for _, tp := range topics {
		for range 8 {
			l.places[tp.name] = append(l.places[tp.name], &history{
				sent: map[uint16]uint32{}, latest: map[uint16]uint32{}, acked: map[int64]identity{}, seen: map[int64]identity{}})
		}
	}
	return l
}

// next takes the identity of the record that a producer sends next.
func (l *ledger) next(topic string, partition int32, producer uint16) identity {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.places[topic][partition]
	id := identity{producer, h.sent[producer]}
	h.sent[producer]++
	return id
}

// ack notes that a producer was told that its record is stored.
func (l *ledger) ack(r *kgo.Record, id identity) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total++
	note(l.t, l.places[r.Topic][r.Partition].acked, r, id, "acknowledged")
}

// see notes that a consumer was shown a record.
func (l *ledger) see(r *kgo.Record) {
	id, ok := identify(r)
	if !ok {
		l.t.Errorf("a consumer of %s/%d was shown a record at %d that nobody sent", r.Topic, r.Partition, r.Offset)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	note(l.t, l.places[r.Topic][r.Partition].seen, r, id, "shown")
}

func note(t testing.TB, where map[int64]identity, r *kgo.Record, id identity, how string) {
	if before, ok := where[r.Offset]; ok && before != id {
		t.Errorf("two records were %s at offset %d of %s/%d: %v and %v", how, r.Offset, r.Topic, r.Partition, before, id)
	}
	where[r.Offset] = id
}

// check reads what the log holds since the last check, and compares it with
// what clients know: acknowledged and shown records are there, at their
// offsets; nothing is there that was not sent; each producer's records are in
// order, and those of idempotent producers there once.
func (l *ledger) check(c *raw.Conn) {
	type known struct{ acked, seen map[int64]identity }
	before := map[*history]known{}
	l.mu.Lock()
	for _, partitions := range l.places {
		for _, h := range partitions {
			before[h] = known{maps.Clone(h.acked), maps.Clone(h.seen)}
		}
	}
	l.mu.Unlock()
	for _, tp := range l.topics {
		for p, h := range l.places[tp.name] {
			l.read(c, tp, int32(p), h)
			for how, records := range map[string]map[int64]identity{"acknowledged": before[h].acked, "shown": before[h].seen} {
				l.compare(tp.name, p, h, how, records)
			}
			l.mu.Lock()
			for offset := range before[h].acked {
				delete(h.acked, offset)
			}
			for offset := range before[h].seen {
				delete(h.seen, offset)
			}
			l.mu.Unlock()
		}
	}
}

func (l *ledger) compare(topic string, partition int, h *history, how string, records map[int64]identity) {
	for _, offset := range slices.Sorted(maps.Keys(records)) {
		switch id := records[offset]; {
		case offset >= int64(len(h.log)):
			l.t.Errorf("%s/%d: record %v was %s at offset %d, but the log ends at %d", topic, partition, id, how, offset, len(h.log))
			return
		case h.log[offset] != id:
			l.t.Errorf("%s/%d: record %v was %s at offset %d, but there is %v", topic, partition, id, how, offset, h.log[offset])
			return
		}
	}
}

// read adds to a history what the log holds behind it.
func (l *ledger) read(c *raw.Conn, tp topic, partition int32, h *history) {
	for {
		request := fetchRequest(from{tp, partition, int64(len(h.log))})
		request.SetVersion(fetchVersion)
		response, err := c.Try(request)
		if err != nil {
			l.t.Fatalf("fetch: %v", err)
		}
		p := response.(*kmsg.FetchResponse).Topics[0].Partitions[0]
		if p.ErrorCode != 0 || p.LogStartOffset != h.start {
			l.t.Errorf("%s/%d: fetch at %d: error %d, log start %d, want %d", tp.name, partition, len(h.log), p.ErrorCode, p.LogStartOffset, h.start)
			return
		}
		records := l.decode(&p)
		if len(records) == 0 || l.t.Failed() {
			return
		}
		for _, r := range records {
			if r.Offset >= int64(len(h.log)) {
				l.add(tp.name, partition, h, r)
			}
		}
	}
}

func (l *ledger) decode(p *kmsg.FetchResponseTopicPartition) []*kgo.Record {
	if _, err := raw.Split(p.RecordBatches); err != nil {
		l.t.Errorf("partition %d: %v", p.Partition, err)
		return nil
	}
	out, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Partition: p.Partition}, p, kgo.DefaultDecompressor(), nil)
	if out.Err != nil {
		l.t.Errorf("partition %d: %v", p.Partition, out.Err)
	}
	return out.Records
}

func (l *ledger) add(topic string, partition int32, h *history, r *kgo.Record) {
	id, ok := identify(r)
	l.mu.Lock()
	sent := h.sent[id.producer]
	l.mu.Unlock()
	latest := h.latest[id.producer]
	switch {
	case !ok:
		l.t.Errorf("%s/%d: at offset %d there is a record that nobody sent", topic, partition, r.Offset)
	case r.Offset != int64(len(h.log)):
		l.t.Errorf("%s/%d: offset %d comes after %d", topic, partition, r.Offset, len(h.log)-1)
	case id.sequence >= sent:
		l.t.Errorf("%s/%d: at offset %d there is record %v, but its producer has sent %d", topic, partition, r.Offset, id, sent)
	case id.sequence > latest:
		l.t.Errorf("%s/%d: at offset %d there is record %v, but %d to %d are missing before it", topic, partition, r.Offset, id, latest, id.sequence-1)
	case id.sequence < latest && l.idempotent[id.producer]:
		l.t.Errorf("%s/%d: at offset %d there is record %v for the second time", topic, partition, r.Offset, id)
	}
	h.log = append(h.log, id)
	h.latest[id.producer] = max(latest, id.sequence+1)
}

// removeChecked deletes records that were checked, so that segments can be freed.
func (l *ledger) removeChecked(c *raw.Conn) {
	for _, tp := range l.topics {
		request := kmsg.NewPtrDeleteRecordsRequest()
		request.TimeoutMillis = 30_000
		in := kmsg.NewDeleteRecordsRequestTopic()
		in.Topic = tp.name
		for p, h := range l.places[tp.name] {
			partition := kmsg.NewDeleteRecordsRequestTopicPartition()
			partition.Partition, partition.Offset = int32(p), int64(len(h.log))
			in.Partitions = append(in.Partitions, partition)
		}
		request.Topics = append(request.Topics, in)
		for _, p := range raw.Ask[*kmsg.DeleteRecordsResponse](c, 2, request).Topics[0].Partitions {
			h := l.places[tp.name][p.Partition]
			if h.start = int64(len(h.log)); p.ErrorCode != 0 || p.LowWatermark != h.start {
				l.t.Errorf("%s/%d: delete records before %d: error %d, low watermark %d", tp.name, p.Partition, h.start, p.ErrorCode, p.LowWatermark)
			}
		}
	}
}

// newestSegment returns the number of the newest segment.
func newestSegment(n *node.Node) string {
	begun := "0"
	for _, line := range n.Lines(0) {
		if line.Message == "segment begun" {
			begun = line.Text("segment")
		}
	}
	return begun
}

// checkComplete holds the log to what was sent, once everything has been
// acknowledged.
func (l *ledger) checkComplete() {
	for name, partitions := range l.places {
		for p, h := range partitions {
			for producer, sent := range h.sent {
				if h.latest[producer] != sent {
					l.t.Errorf("%s/%d: producer %d has sent %d records, the log has %d", name, p, producer, sent, h.latest[producer])
				}
			}
		}
	}
}

// checkAgain reads everything once more: what was read before must be there
// still.
func (l *ledger) checkAgain(c *raw.Conn) {
	for _, tp := range l.topics {
		for p, h := range l.places[tp.name] {
			again := &history{sent: h.sent, latest: map[uint16]uint32{}, start: h.start}
			again.log = append(again.log, h.log[:h.start]...)
			for _, id := range again.log {
				again.latest[id.producer] = max(again.latest[id.producer], id.sequence+1)
			}
			l.read(c, tp, int32(p), again)
			if !slices.Equal(again.log, h.log) {
				l.t.Errorf("%s/%d: what is read now is not what was read before", tp.name, p)
			}
		}
	}
}

// count returns how many records were acknowledged, and how many the log holds.
func (l *ledger) count() (acknowledged, read int) {
	for _, partitions := range l.places {
		for _, h := range partitions {
			read += len(h.log)
		}
	}
	return l.total, read
}
