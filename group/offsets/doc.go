// Package offsets is the machine that keeps what groups have committed: for each
// group, topic and partition an offset with its leader epoch, a text of the
// client's, and the time.
//
// A Table is memory with a state store behind it. Entries change the memory
// alone; what they changed is written by Checkpoint, so that a partition which
// is committed a thousand times between two checkpoints is written once. (The
// log has the commits meanwhile.) Committing again to a partition that is there
// allocates nothing, unless the text changes.
//
// Topics are known by their id, so that a topic that is made anew under an old
// name has no offsets. A group is there as long as it has an offset; who its
// members are, and whether somebody may commit at all, is asked of a function
// that the caller gives, since it is the business of other machines.
//
// An offset lives until its group, its topic or itself is deleted, or until it
// expires. Which ones have expired is for the caller to say (Rule): it depends on
// when the group became empty. Time is that of entries; there is no clock here.
//
// # Who calls what
//
// The apply loop is the only writer: Commit, Delete, Expire, DeleteGroup,
// DeleteTopic, Checkpoint, and Load once before all else. The methods of
// read.go may be called by any goroutine at any time. Lock order: Table.mu, then
// group.mu; the writer reads without them, since nobody else changes anything.
//
// FORMAT.md has the keys, the values and the payload of the entry.
package offsets
