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
// Goroutines: the apply loop and the sealer, which writes the index file of
// each complete segment, are started by Open and end in Close; so does the
// keeper, which watches the free space, moves log start offsets as retention
// asks, and frees segments that nobody needs. The commitlog has its own.
//
// Lock order: apply.Loop's mutex, then consumequeue.Set's, then a queue's.
// Propose must not be called while any of them is held.
package log
