// Package classic is the machine of a consumer group that rebalances by
// JoinGroup and SyncGroup: Kafka's original protocol, in which one member, the
// leader, divides the work.
//
//	         first member joins                all have joined, or time is up
//	Empty ─────────────────────▶ PreparingRebalance ─────────────────▶ CompletingRebalance
//	  ▲                            ▲          │  ▲                            │
//	  │      the last one is gone  │          │  │ change of members          │ the leader's
//	  └────────────────────────────┼──────────┘  │ or of their metadata       │ assignments are
//	                               │             └────────────────────────────┤ in the log
//	                               └──────────────────── Stable ◀─────────────┘
//
// A Group is plain data with methods that take the time and say what to do: which
// requests to answer, which entries to propose (Output), and when to be called
// again (Wake, Tick). It has no goroutine, clock or randomness; member ids that
// it may have to hand out come in with the request.
//
// # Hard and soft state
//
// What must survive a restart is Metadata: generation, protocol, leader, and the
// members with their subscriptions and assignments. It changes by entries: one
// when the leader has divided the work, one when the group becomes empty, one
// when a static member comes back under a new id, which it is not told before. Everything else (who has joined
// or synced in the rebalance at hand, heartbeats, ids that were handed out) is
// soft and belongs to Group: after a restart the group is Stable in the
// generation that the log has, and its members carry on without a rebalance, or,
// if one was under way, are told ILLEGAL_GENERATION and begin it again.
//
// A Group is ahead of the Metadata in the state while an entry is on its way, and
// from the end of a join phase until its assignments are in. So both are asked
// when offsets are committed, each for what it knows:
//
//	Group.CheckCommit, before the entry is proposed: is the member one of the
//	    group as it is now, in its newest generation; CompletingRebalance is
//	    answered with REBALANCE_IN_PROGRESS, since the member has no assignment.
//	Metadata.AdmitCommit, when it is applied: has nothing newer come first. A
//	    generation older than the state's is refused, one that is equal must come
//	    from a member of it, a newer one was vouched for by the Group and is let in
//	    (commits in a revoke callback, of a generation that was never assigned).
//
// # What is a little better than asked for
//
// A member whose connection goes away while its JoinGroup or SyncGroup is held
// counts as silent from then on (Gone); one that was never told its id is removed
// at once. So clients that give up do not fill a group with members that nobody
// is.
//
// FORMAT.md has the bytes of Metadata and of the entries.
package classic
