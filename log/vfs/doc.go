// Package vfs is the one door through which Sluice's log touches files.
//
// An FS puts what a log needs and a general file system does not offer on top
// of a Pebble file system (github.com/cockroachdb/pebble/v2/vfs): vectored
// writes at an offset, fdatasync, filling with zeroes, syncing a directory,
// read-only memory maps, and the free space. The state store works on the same
// Pebble file system (Base), so that one simulated crash cuts the CommitLog and
// the state store at the same instant.
//
// Where a file is backed by a descriptor of the operating system, vectored
// calls and maps go straight to the kernel; where it is not (the in-memory file
// systems of tests), the same result is reached with single writes and reads.
//
// Rules that hold for everything here:
//
//   - Writes are not durable before SyncData returned nil; a created, renamed
//     or removed name is not durable before SyncDir of its directory did.
//   - An error of SyncData or SyncDir says nothing about what reached the disk.
//     Trying again on the same file proves nothing, so callers must not.
//   - A memory map is only ever read.
//   - FS is safe for concurrent use. A File may be read, written at disjoint
//     ranges and synced concurrently; Close must come after everything else.
package vfs
