package fetchwire

import (
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// Response is a Fetch response of any version; what a version does not have is
// left out of its encoding. The zero value is an empty response.
//
// A response is filled by AddTopic and AddPartition and reused after Reset. It
// is used by one goroutine at a time.
type Response struct {
	ThrottleMs int32
	ErrorCode  kerr.Code // of the session, from version 7 on
	SessionID  int32     // 0 is none; from version 7 on
	Topics     []Topic

	// Endpoints tells where the leaders are that partitions name in CurrentLeader.
	// It is written from version 12 on if it is not empty, and belongs to versions
	// from 16 on.
	Endpoints []Endpoint
}

// Topic holds the partitions of one topic. The same topic may occur again
// behind others, when the order of the partitions asks for it.
type Topic struct {
	ID         entry.TopicID // versions from 13 on
	Name       string        // versions up to 12
	Partitions []Partition
}

// Partition is what is answered for one partition.
type Partition struct {
	Partition     int32
	ErrorCode     kerr.Code
	HighWatermark entry.Offset
	LastStable    entry.Offset
	LogStart      entry.Offset // versions from 5 on
	// Aborted lists the aborted transactions that overlap the records. It is nil
	// for readers of uncommitted records, and not nil but perhaps empty for others.
	Aborted          []AbortedTxn
	PreferredReplica int32          // -1 is none; versions from 11 on
	DivergingEpoch   DivergingEpoch // versions from 12 on
	CurrentLeader    CurrentLeader  // versions from 12 on
	// Records are the pieces of whole record batches, in order. They are borrowed
	// until what Encode returned has been written. No pieces are no records.
	Records [][]byte
}

// AbortedTxn says from which offset on a producer's records are aborted.
type AbortedTxn struct {
	ProducerID  int64
	FirstOffset entry.Offset
}

// DivergingEpoch says where a leader epoch ended, to a reader that is beyond.
// Both fields are -1 if the reader's epoch does not diverge.
type DivergingEpoch struct {
	Epoch     int32
	EndOffset entry.Offset
}

// CurrentLeader names the leader to a client that asked another node. Both
// fields are -1 if there is no need.
type CurrentLeader struct {
	ID    int32
	Epoch int32
}

// Endpoint is the address of a node.
type Endpoint struct {
	NodeID int32
	Host   string
	Port   int32
	Rack   *string
}

// Reset empties the response for the next use. It keeps the memory of the lists
// but no reference to records.
func (r *Response) Reset() {
	for i := range r.Topics {
		partitions := r.Topics[i].Partitions
		for j := range partitions {
			clear(partitions[j].Records)
			partitions[j].Aborted = nil
		}
	}
	*r = Response{Topics: r.Topics[:0], Endpoints: r.Endpoints[:0]}
}

// AddTopic appends a topic without partitions. The pointer is valid until the
// next call.
func (r *Response) AddTopic(id entry.TopicID, name string) *Topic {
	if len(r.Topics) < cap(r.Topics) {
		r.Topics = r.Topics[:len(r.Topics)+1]
	} else {
		r.Topics = append(r.Topics, Topic{})
	}
	t := &r.Topics[len(r.Topics)-1]
	t.ID, t.Name, t.Partitions = id, name, t.Partitions[:0]
	return t
}

// AddPartition appends a partition without records, and with -1 for whatever
// has that for "none" or "unknown": it is complete for an answer that is an
// error. The pointer is valid until the next call.
func (t *Topic) AddPartition(partition int32) *Partition {
	if len(t.Partitions) < cap(t.Partitions) {
		t.Partitions = t.Partitions[:len(t.Partitions)+1]
	} else {
		t.Partitions = append(t.Partitions, Partition{})
	}
	p := &t.Partitions[len(t.Partitions)-1]
	*p = Partition{
		Partition:        partition,
		HighWatermark:    -1,
		LastStable:       -1,
		LogStart:         -1,
		PreferredReplica: -1,
		DivergingEpoch:   DivergingEpoch{Epoch: -1, EndOffset: -1},
		CurrentLeader:    CurrentLeader{ID: -1, Epoch: -1},
		Records:          p.Records[:0],
	}
	return p
}
