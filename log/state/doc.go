// Package state is the state store: an ordered map of keys to values that holds,
// at every moment, the state after exactly one entry of the CommitLog.
//
//	appliers ─▶ Batch ─ Checkpoint(applied) ─▶ memory ─ Flush, or when full ─▶ disk
//	               │                              ▲
//	   Get, Scan ──┘            View (a snapshot) ┘
//
// It is Pebble without a write-ahead log of its own, since the CommitLog is one:
// a Batch gathers what applying entries changes, and Checkpoint commits it in
// one step with the index of the newest of them. After a crash the store is at
// the state of some checkpoint, not older than the last one that Flush reported
// as durable; the entries behind it are applied again. FORMAT.md lists the keys.
//
// # Rules for callers
//
//   - A Batch belongs to the apply loop. A View may be made and used anywhere.
//   - A checkpoint may become durable at any time after Checkpoint, without
//     Flush. So the log must be durable up to its index before.
//   - Segments may be freed up to the index that Flush returned, and no further.
//   - Keys begin with a byte that names the part that owns them; 'a' is ours.
//
// # Failure
//
// A flush or compaction that fails (a full disk, say) is told to
// Events.Background and tried again, less and less often; meanwhile Health says
// so, Flush returns the error, and checkpoints go on in memory until that is
// used up. So whoever appends should ask Health and stop in time; when there is
// room again all goes on. Where Pebble cannot know any more what is on disk (its
// manifest could not be written or synced) the store is dead: Events.Dead is
// called once, nothing is written any more, and every later call but reads
// returns ErrDead. A new process finds the state of the last checkpoint on disk.
package state
