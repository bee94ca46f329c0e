// Package group coordinates groups of consumers: who is a member, who works on
// what, and how far the work has come. It is the shell around the machines of
// its sub-packages.
//
//	handler ─▶ Coordinator ─▶ shard of the group: lock ─▶ machine ─▶ answers, entries
//	              ▲                                                     │ outbox, in order
//	   promise ◀──┘                                                     ▼
//	              ◀── Stored ◀── log ◀── apply: State ◀── log ◀── Proposer.Propose
//
// There is one namespace of group ids. A group has a Kind, by which requests find
// its machine: classic (JoinGroup and SyncGroup), and others to come. A group that
// has only committed offsets is classic and empty, as is Kafka's "simple" group.
//
// # Hard and soft state
//
// State is the hard part: records of groups, and committed offsets. The apply loop
// alone changes it, entry by entry; it checks again whatever may have changed since
// the entry was proposed, and depends on nothing but the state and the entry.
//
// Coordinator is the soft part: groups with members or with members to come, kept
// in shards by group id. It begins with what State has (Start), and is ahead of it
// while entries are on their way. An empty group without joiners has no soft part.
//
// Entries of one shard are proposed in the order in which its machines decided
// on them, so that an entry always meets the state that it was meant for. What
// State checks is for entries that this cannot order: those of a coordinator that
// does not know that it was replaced, and topics, which have an order of their own.
//
// # Goroutines and locks
//
// Each shard has one goroutine, started by Start and ended by Stop, which does what
// time brings and proposes what came up in the apply loop. One more looks for
// offsets that have expired. Handlers do all else.
//
//	shard.sending ─▶ shard.mu ─▶ State.mu ─▶ offsets.Table.mu ─▶ its groups' mu
//
// sending is held while entries are proposed, which may block until the log has
// caught up; the apply loop never takes it. Whatever calls back to a handler is
// called without a lock.
package group
