// Package log is the front of the storage engine: the CommitLog, the
// ConsumeQueues over it, the state store, and the apply loop that joins them.
//
//	Propose ─▶ commitlog ─ durable group ─▶ apply ─▶ consumequeue · parts · state batch
//	Read ◀── consumequeue.Find ◀── tail of the commitlog in memory, or its files
//
// Open brings a data folder to the state of its newest entry and starts the
// goroutines; Close stops them and leaves a folder that opens quickly. A folder
// belongs to one Log at a time (a lock file sees to that).
//
// # A segment's life
//
//	active ─▶ complete ─▶ indexed ─▶ freed
//
// A segment is complete when its last entry is applied and a checkpoint taken
// behind it; the state store is made durable then, and after that the segment's
// index file is written, so that no start needs to read the segment again. When
// no partition has anything left in an indexed segment, the state store notes
// durably that it is gone on purpose, and its files are removed. An active
// segment of which everything is dead is completed early, so that the space of
// deleted topics comes back without further writes. Whatever of a folder is
// there without its predecessor in this order, or missing without a note, stops
// the start with an error that names the file.
//
// # Failures
//
// A full disk refuses records (KAFKA_STORAGE_ERROR) and takes them again when
// there is room; so does a state store that cannot be written for a while. A
// failed write or fdatasync of the CommitLog, or an apply loop that cannot go on,
// ends all writing until a restart; reads go on. Propose refuses then, so that
// nothing gets into the log of which the proposer is told that it failed. One
// partition or segment that cannot be read does not hold up the others.
//
// # Goroutines and locks
//
// Open starts, and Close ends, the apply loop; the sealer, which writes the
// index file of each complete segment; and the keeper, which watches the free
// space, moves log start offsets as retention asks, frees segments, and makes
// the state store durable now and then. The commitlog has its own.
//
// Lock order: keeper.freeing or keeper.looking, then apply.Loop's mutex, then consumequeue's
// (Set.attaching, Set.mu, a queue's); sealer.mu and the locks of commitlog, state
// and watch are below all of them. Propose must not be called while any is held.
package log
