// Package entry holds the words that every part of Sluice shares about its
// one log: what an entry is, how it is ordered, where it lies, and what comes
// back when it has been applied.
//
// An entry is one durable change of state. It is appended to the CommitLog,
// made durable, and then applied by one deterministic loop; nothing else ever
// changes state that must survive a restart. Four measures of place exist and
// are types of their own, so that none can be taken for another:
//
//   - Index orders entries in the CommitLog (1, 2, 3, ...),
//   - Pos says where an entry lies: segment number and byte in the segment,
//   - Offset is a place in a partition, as Kafka's clients see it,
//   - Partition is the number the catalog gave a partition when it was made.
//
// The package is a leaf: every other package may import it, and it imports
// nothing of Sluice.
package entry
