// Package commitlog is the CommitLog: segments in a row, appended to by one
// goroutine, made durable in groups, and handed to one apply loop in order.
//
//	Propose ─▶ queue ─▶ append goroutine ─▶ blocks ─▶ one pwritev ─▶ one fdatasync ─▶ Next ─▶ apply loop
//	   ▲ blocks while full                     │                                               │
//	Waiter.Done ◀──────────────────────────────┼───────────────── Proposal.Complete ◀──────────┘
//	                                           └─▶ tail cache ─▶ Cached; file ─▶ ReadPayload
//
// # Use
//
// Open finds the segments; Replay, once and before anything else, reads them and
// starts the log; then anybody calls Propose, and one goroutine, the apply loop,
// calls Next. Drain makes Next return false when all is handed out; Close ends it
// all. The example of Log shows it.
//
// Replay gives the entries that are there in the same form (Group) in which Next
// gives those that are appended, so that one function handles both:
//
//   - g.Sealed, when it is set, says that the predecessor of the group's segment is
//     complete. Its index can be written; nothing will be added to it any more.
//   - Each of g.Entries has its place and, in Next, the Proposal to complete when
//     it is applied.
//   - g.Release is called when the apply loop needs the group's memory no more.
//
// What there is, by who needs it:
//
//   - proposers: Log.Propose with a Proposal and its Waiter; Log.Roll;
//   - the apply loop: Log.Replay, Log.Next, Group, Committed, Sealed,
//     Proposal.Complete, Group.Release; Log.SyncTo before what it derived is made
//     durable;
//   - readers: Log.Cached for the newest entries, Log.ReadPayload for all;
//   - retention: Log.Segments, Log.SegmentOf, Log.Drop;
//   - whoever watches: Options.Events, Log.WrittenIndex, Log.DurableIndex, Log.Dead;
//   - tools on a stopped server: Walk.
//
// # Rules
//
// The order of Propose calls is the order of entries. A proposal that was accepted
// is completed exactly once, whatever happens: by the apply loop after it was
// handed out, or by the append goroutine with an error when it was not appended.
// The apply loop calls Next until it returns false, completes every proposal, and
// never calls Propose or Roll, which would wait for itself.
//
// Bytes: a proposal's payload belongs to the log until the proposal is completed. A
// group's payloads are in the log's memory, until Release; the apply loop may write
// to them before it lets others know of the entry (it puts the base offset and the
// leader epoch into the first 16 bytes of a record batch), since the write of the
// group to the disk is over by then. Readers of the tail cache see such changes. On
// the disk are the bytes that were proposed; readers of the disk make the changes
// in their own copy.
//
// # Failures
//
// No room on the disk: the group that found none is refused with ErrStorageFull, the
// end of the log does not move, and later proposals are tried again. Any other error
// of a write, and every error of fdatasync, is the end: what was in flight is
// completed with ErrDead, which means that it may or may not be there after a
// restart, and the log takes no more. It is never synced again. What is in the log
// can still be read. With FlushAsync, entries that were handed over since the last
// fdatasync can be lost then.
//
// At start, what does not follow from the last valid entry is cut off if it cannot
// have been durable, and refused as damage (segment.ErrCorrupt) otherwise. See
// Replay, FORMAT.md here for the durable bound, and FORMAT.md of log/segment for
// when an entry is valid.
//
// # Goroutines and locks
//
// Replay starts the append goroutine (which owns the writer and ends when the log
// is drained), the prepare goroutine (which makes the next segment's file), and with
// FlushAsync the flush goroutine; Close ends these two. Lock order: syncing, then mu.
// The locks of queue, tail, table, preparer and bound are leaves.
package commitlog
