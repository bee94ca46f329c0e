// Package consumer is the machine of a consumer group of Kafka's newer protocol
// (KIP-848), in which the group, and not one of its members, divides the work,
// and members only send heartbeats.
//
// # How a group moves
//
//	members, subscriptions or topics change ──▶ the group epoch grows
//	   ▶ the assignor computes a target for the epoch       (target.go)
//	   ▶ each member moves towards its target, with its own heartbeats, from the
//	     epoch it is in to that of the target               (reconcile.go)
//
// A member first gives up what the target takes from it, and says so, and only
// then comes into the new epoch; what it is to get and others still have, it gets
// when they have given it up. So a partition is never assigned to two members,
// and those that keep what they have do not stop for anybody.
//
// # Hard and soft state
//
// State is what must survive a restart: group epoch, members with what they said
// of themselves, where they stand and what they are to get, patterns with the
// topics that they match. It is a value that never changes; an entry of type
// TypeConsumerGroup (a Change) makes the next one of it, which shares what stayed.
// So after a restart members carry on in their epochs with their assignments.
//
// Group is the machine around it. It has deadlines, requests that wait, and what
// follows from the state (who has which partition). It is plain data: methods take
// the time and say what to answer, what to propose, and when to be called again.
// It never changes the state itself: a request makes a draft, the draft a Change,
// and the state changes when that is applied. At most one Change is on its way.
// Requests that would change something wait meanwhile and are then handled
// together, as one Change, so that a thousand members join with a few entries.
//
// Heartbeats that change nothing, nearly all, propose nothing, allocate nothing
// and do not wait: sessions are soft. After a restart every member has a whole
// session, and a whole rebalance timeout, from then on.
//
// Targets of large groups, and patterns among many topics, are computed away from
// the group: the machine hands out a Job or a Resolution and is given the result.
//
// # Members of the classic protocol
//
// They may be members of a consumer group, so that an application can be moved
// from the one protocol to the other, and back, while it runs: oldprotocol.go has
// their requests, migrate.go turns groups of the one kind into the other.
//
// # What is a little better than asked for
//
// Members that wait for an assignment are told to come back after a second, so
// that they get it then and not a heartbeat interval later. A member that sends
// its first heartbeat again, because the answer was lost, is a known member also
// if it is static. What a static member that left for a while had is kept for a
// whole session from then on.
//
// FORMAT.md has the bytes.
package consumer
