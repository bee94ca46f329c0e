// Package consumequeue knows where the record batches of each partition lie in
// the CommitLog.
//
// A Set holds the Queue of every partition. A queue is the list of the
// partition's batches: 32 bytes each (Entry), in the order of their offsets.
// Entries of segments that are still written, or not indexed yet, are in memory
// (the tails). When a segment is complete its entries are written beside it as
// one immutable file, sorted by partition, and the queues keep 16 bytes for it:
//
//	                Put                     Seal, Builder.Write, Attach
//	apply loop ───────────▶ tail in memory ─────────────────────────────▶ NNNNNNNNNN.idx
//	                             ▲                                             │ mapped
//	Find, FindTime, Size ────────┴─────────────────────────────────────────────┘
//
// The files are described in FORMAT.md. A segment and its file are enough to
// find every batch in it, the number of files does not grow with the number of
// partitions, and a partition in which nothing happens costs about 120 bytes of
// memory, plus 16 for each segment that holds data of it.
//
// # Rules for callers
//
//   - One goroutine, the apply loop, calls Put, Seal, DrainNew and RestoreTail.
//     Everything else may be called by any goroutine at any time.
//   - The segments given to Put never go back, and none is used after Seal.
//   - Lists of entries are contiguous as a rule; a hole between two batches (as
//     compaction leaves them) is passed over by Find.
//   - A File is counted: Attach takes over the caller's reference, Detach gives
//     it up, and the map goes away with the last reader. Removing the file's
//     name (Remove) at any time is safe.
//
// # Locks
//
// Each queue has a mutex that is held for a few dozen instructions: readers copy
// out where to look and search without it, so that a slow page of a mapped file
// never holds up the apply loop. Set.mu guards what belongs to no single queue,
// as shortly. Set.attaching is held while files come and go. The order is
// attaching, mu, a queue's; looking up a queue or a file takes none of them.
//
// # Failure
//
// Damage in a file is found where it is read and returned as an error that wraps
// ErrCorrupt and names file and section; nothing read from a file can cause a
// panic, an endless loop or unbounded memory. Header, directory and tables are
// checked when the file is opened; the entries, which may be large, are checked
// in blocks when a block is touched first. Verify checks all of it.
package consumequeue
