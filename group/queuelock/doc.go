// Package queuelock keeps the locks of ordered groups: for each group and
// partition at most one member, and since when.
//
// The protocols of groups see to it that a partition is given to one member at a
// time. What they cannot see to is a member that was thrown out and does not know
// it yet: it goes on with what it has read while its successor begins. So in an
// ordered group the successor has to wait until whoever had the partition has given
// it up, or until its lease is over.
//
//	           assigned                     revoked, or left
//	(none) ──────────────▶ held by A ─────────────────────────▶ (none), or held by B
//	                          │  ▲                                  ▲
//	      A was thrown out,   │  │ A is back                        │ the lease
//	      B is assigned: waits▼  │                                  │ is over
//	                       left by A until T ───────────────────────┘
//
// A lock acts where Kafka lets a broker act: the successor's OffsetFetch is not
// answered before it has the lock (MayFetch), and only the holder may commit
// (MayCommit). Whatever moves a lock gives it a new fencing epoch, which is the
// index of the entry that did, and so is larger than every one before.
//
// # What is durable
//
// A lease is 60 seconds from the last time that the broker heard of the holder. As
// long as the holder is a member of its group, nobody else is assigned the
// partition, and the lease does not matter; so heartbeats renew nothing here. They
// are noted by the group's machine. When a member is thrown out, the end of its
// lease follows from when it was last heard of, and is written down (Until) before
// anybody else may have the partition. If the broker goes down before that is
// written, then after the restart the member is one that nobody knows, and its
// lease is counted from the restart (Fate.Lost), which is later than any heartbeat.
// So a restart can make a lease longer, and never shorter.
//
// Time is that of the broker's clock, as entries carry it, which does not run
// backwards.
//
// # Who calls what
//
// A Table is the hard state of all locks. Apply, Drop, Checkpoint and Load are the
// apply loop's; all other methods may be called by any goroutine. The shell, after
// each change of an ordered group, has Plan say what is to be done, proposes it as
// an entry of type TypeQueueLock, and answers the members when that is applied.
// Plan is called again when a lease ends (Wake) and after a restart; it says nothing
// if nothing is to be done.
//
// Consumers that assign partitions to themselves name no group and no member when
// they fetch, and are beyond all this.
//
// FORMAT.md has the bytes.
package queuelock
