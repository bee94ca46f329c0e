package entry

import "fmt"

// Type says what an entry changes. Values are stored on disk and are never
// reused; each part of Sluice has a block of its own.
type Type uint8

// The types of entries. Each is applied by the part named in its block.
const (
	// TypeInvalid is never written, so that zeroes are not an entry.
	TypeInvalid Type = 0
	// TypeNoop changes nothing (a new Raft leader's first entry).
	TypeNoop Type = 1

	// TypeProduce appends a record batch v2 to a partition. The payload is the
	// batch as the client sent it. Applied by log/apply.
	TypeProduce Type = 2
	// TypeLogStart moves log start offsets forward (retention, DeleteRecords).
	// Applied by log/apply.
	TypeLogStart Type = 3

	// Types 16 to 31: catalog.
	TypeCreateTopic      Type = 16
	TypeDeleteTopic      Type = 17
	TypeCreatePartitions Type = 18
	TypeAlterConfigs     Type = 19

	// Types 32 to 47: txn/producer.
	TypeAllocateProducerID Type = 32
	TypeExpireProducers    Type = 33

	// Types 48 to 63: group.
	TypeCommitOffsets Type = 48
	TypeDeleteOffsets Type = 49
	TypeExpireOffsets Type = 50
	TypeDeleteGroup   Type = 51
	TypeClassicGroup  Type = 52
	TypeClassicMember Type = 53
	// Types 56 to 60: group/consumer and group/queuelock.
	TypeConsumerGroup  Type = 56
	TypeDowngradeGroup Type = 57
	TypeQueueLock      Type = 58

	// Types 64 to 79: txn/kafka. The payloads of TypeInitTransactions,
	// TypeEndTransaction and TypeWriteMarkers begin with a control batch.
	TypeInitTransactions   Type = 64
	TypeEndTransaction     Type = 65
	TypeAddToTransaction   Type = 66
	TypePendOffsets        Type = 67
	TypeWriteMarkers       Type = 68
	TypeExpireTransactions Type = 69
)

// ProduceAdds is the flag of a TypeProduce entry whose batch adds its partition to
// its producer's transaction, and begins one if none is open.
const ProduceAdds uint8 = 1

var typeNames = map[Type]string{
	TypeNoop:               "noop",
	TypeProduce:            "produce",
	TypeLogStart:           "log-start",
	TypeCreateTopic:        "create-topic",
	TypeDeleteTopic:        "delete-topic",
	TypeCreatePartitions:   "create-partitions",
	TypeAlterConfigs:       "alter-configs",
	TypeAllocateProducerID: "allocate-producer-id",
	TypeExpireProducers:    "expire-producers",
	TypeCommitOffsets:      "commit-offsets",
	TypeDeleteOffsets:      "delete-offsets",
	TypeExpireOffsets:      "expire-offsets",
	TypeDeleteGroup:        "delete-group",
	TypeClassicGroup:       "classic-group",
	TypeClassicMember:      "classic-member",
	TypeConsumerGroup:      "consumer-group",
	TypeDowngradeGroup:     "downgrade-group",
	TypeQueueLock:          "queue-lock",
	TypeInitTransactions:   "init-transactions",
	TypeEndTransaction:     "end-transaction",
	TypeAddToTransaction:   "add-to-transaction",
	TypePendOffsets:        "pend-offsets",
	TypeWriteMarkers:       "write-markers",
	TypeExpireTransactions: "expire-transactions",
}

// String returns the name that dumps and error messages show.
func (t Type) String() string {
	if name, ok := typeNames[t]; ok {
		return name
	}
	return fmt.Sprintf("type-%d", uint8(t))
}
