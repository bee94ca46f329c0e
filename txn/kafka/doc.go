// Package kafka is the machine of Kafka's transactions: transactional ids with
// their producer id, epoch, time-out and state; which partitions and groups the
// open transaction of each has; and, for each partition, which transactions are
// open in it and which were aborted.
//
// # One entry ends a transaction
//
// A transaction is ended by one entry of the log. When it is applied, a control
// batch (the marker) gets an offset in every partition of the transaction, the
// aborted ranges are listed, the last stable offsets move, the offsets that were
// committed in it become visible, and the epoch is raised: all at once, so that no
// crash and no reader finds it half done. Kafka needs a state between for that
// (PrepareCommit, PrepareAbort); here there is none.
//
// The marker is the same for all partitions but for its base offset, which is set
// when a batch is served. So the entry's payload begins with one control batch,
// whatever the number of partitions, and every ConsumeQueue that is in the
// transaction points to it. The entry need not name the partitions, and cannot be
// wrong about them when batches are added while it is on its way.
//
//	          Init                 Add, batch, offsets          End
//	(unknown) ────▶ Empty ────────────────────▶ Ongoing ────────────▶ CompleteCommit
//	                  ▲                          ▲    └─ or time-out ─▶ CompleteAbort
//	                  └── Init (aborts) ─────────┘ ◀── Add, batch, offsets ──┘
//
// # The two protocols
//
// In the older one partitions and groups are added before they are written to, and
// the epoch stays from transaction to transaction. In the newer one (KIP-890) the
// first batch adds its partition, the first offsets their group, and each end of a
// transaction raises the epoch, so that whatever comes late is refused. A client
// chooses with each request; both work side by side, and on the same id. What
// cannot be told apart in the older one, and is so in Kafka too: a batch or an
// EndTxn that is held up while the next transaction of the same epoch begins
// belongs to that one.
//
// An epoch of 32766 is the last that is handed out; then the transactional id gets
// another producer id. Markers may have 32767.
//
// # Readers
//
// LastStable and Aborted tell a reader of committed records how far it may read, and
// what of it to pass over. The end of the partition must be asked for before
// LastStable, and Aborted after it: then what is below the one is in the other, if
// it was aborted. A batch is made known to this machine before it is put into its
// partition, for the same reason.
//
// # Who calls what
//
// The apply loop is the only writer: Apply, Judge, Plain, Appended, JudgeOffsets,
// Pend, OffsetsCommitted, DropGroup, DeletePartition, LogStart, Checkpoint, and Load
// once before all else. The methods of read.go may be called by any goroutine at any
// time. The writer takes the lock for changes and reads without it, since nobody
// else changes anything.
//
// A Machine is deterministic: there is no clock, and a time-out is an entry that says
// which transaction it is meant for. FORMAT.md has the keys, the values and the
// payloads.
package kafka
