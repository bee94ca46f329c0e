package kafka

import (
	"math"
	"slices"

	"github.com/sluicemq/sluice/log/entry"
)

// State is what has become of a transactional id's newest transaction.
type State uint8

// The states. Their values are stored.
const (
	Empty          State = 1 // a producer that has begun none
	Ongoing        State = 2
	CompleteCommit State = 3
	CompleteAbort  State = 4
)

var stateNames = [...]string{Empty: "Empty", Ongoing: "Ongoing", CompleteCommit: "CompleteCommit", CompleteAbort: "CompleteAbort"}

// String returns the name that Kafka's tools know.
func (s State) String() string {
	if int(s) < len(stateNames) && stateNames[s] != "" {
		return stateNames[s]
	}
	return "Unknown"
}

// ended is the state behind the end of a transaction.
func ended(commit bool) State {
	if commit {
		return CompleteCommit
	}
	return CompleteAbort
}

const (
	// noEpoch stands for "none" where an epoch is expected.
	noEpoch int16 = -1
	// noProducer stands for "none" where a producer id is expected.
	noProducer int64 = -1
	// lastEpoch is the largest epoch that a client is given. Markers may have one
	// above it.
	lastEpoch int16 = math.MaxInt16 - 1
	// never is the time of a transaction that did not begin.
	never entry.Time = -1
	// noOffset is the first offset of a partition without records of the transaction.
	noOffset entry.Offset = -1
)

// transaction is a transactional id and its newest transaction.
type transaction struct {
	id         string
	producerID int64
	epoch      int16

	// What the producer had before its epoch was raised, for requests whose answer
	// was lost: noEpoch when somebody else raised it.
	before         int16
	beforeProducer int64

	state     State
	timeoutMs int32
	started   entry.Time // of the newest transaction, or never
	updated   entry.Time // of the entry that changed it last

	// Of the open transaction: its partitions with the offset of its first record
	// there, or noOffset; and its groups with the offsets that are to be committed.
	partitions map[entry.Partition]entry.Offset
	groups     map[string]map[offsetKey]*pending

	unsaved bool // in Machine.unsaved
	saved   bool // the state store has some version of it
}

// offsetKey names a partition as committed offsets do.
type offsetKey struct {
	topic     entry.TopicID
	partition int32
}

// pending is an offset that is committed when the transaction is.
type pending struct {
	PendingOffset
	index entry.Index // of the entry that brought it
	stale bool        // something was committed since: it will not be
}

// PendingOffset is an offset that is committed within a transaction.
type PendingOffset struct {
	Topic       entry.TopicID
	Partition   int32
	Offset      int64
	LeaderEpoch int32
	Metadata    string
}

// exhausted reports whether the producer id has no epoch left.
func (t *transaction) exhausted() bool { return t.epoch >= lastEpoch }

// sortedPartitions returns the partitions of the open transaction in order.
func (t *transaction) sortedPartitions() []entry.Partition {
	all := make([]entry.Partition, 0, len(t.partitions))
	for p := range t.partitions {
		all = append(all, p)
	}
	slices.Sort(all)
	return all
}

// sortedGroups returns the groups of the open transaction in order.
func (t *transaction) sortedGroups() []string {
	all := make([]string, 0, len(t.groups))
	for g := range t.groups {
		all = append(all, g)
	}
	slices.Sort(all)
	return all
}
