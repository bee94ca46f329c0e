package apply

import (
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/batch"
)

// Tx is what an applier may change while it applies one entry: its keys in the
// state batch, and the set of partitions that exist.
type Tx interface {
	entry.Writer
	// CreatePartition begins an empty partition. Its number was never used.
	CreatePartition(p entry.Partition)
	// DeletePartition ends a partition with everything that hangs on it: its
	// ConsumeQueue, its producers, who waits for it. Its space is freed later.
	DeletePartition(p entry.Partition)
	// AppendControl appends the control batch that the entry's payload begins with
	// to a partition, and returns its offset; ok is false if the partition is gone.
	// One entry may be appended to many partitions. Nobody is woken by it: that is
	// for Notify, when whatever else a reader looks at has changed as well.
	AppendControl(p entry.Partition) (base entry.Offset, ok bool)
	// Notify wakes who waits for a partition.
	Notify(p entry.Partition)
}

// Applier is a part of Sluice with hard state of its own. Apply and Checkpoint
// are called by the apply loop only; Load is called once, before anything else.
type Applier interface {
	// Types lists the entry types that the part applies.
	Types() []entry.Type
	// Load rebuilds the part's memory from the state store and begins the
	// partitions that exist.
	Load(r entry.Reader, tx Tx) error
	// Apply changes the part's state as e says. A refusal is a Result with an
	// error that carries a Kafka code; it must leave the state untouched.
	Apply(e *entry.Entry, tx Tx) entry.Result
	// Checkpoint writes what changed in memory since the last call and was not
	// written by Apply.
	Checkpoint(w entry.Writer)
}

// Verdict is what a Judge finds about a batch of an idempotent or transactional
// producer.
type Verdict struct {
	Err       error        // a refusal: nothing is appended
	Duplicate bool         // a retry of the batch at Offset: nothing is appended
	Offset    entry.Offset // base offset that the first attempt was given
}

// Judge knows the idempotent producers and their transactions (KIP-98, KIP-890).
// Calls come from the apply loop; those of Judge and Appended only for batches that
// carry a producer id.
type Judge interface {
	// Judge looks at the batch of an entry before it is given an offset.
	Judge(p entry.Partition, head batch.Header, e *entry.Entry) Verdict
	// Appended is told of each batch that is appended, and by which entry, before
	// readers can see it.
	Appended(p entry.Partition, head batch.Header, base entry.Offset, e *entry.Entry)
	// LogStart is told that the start of a partition moved.
	LogStart(p entry.Partition, start entry.Offset, w entry.Writer)
	// DeletePartition forgets what is known of a partition.
	DeletePartition(p entry.Partition, w entry.Writer)
}
