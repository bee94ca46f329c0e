// Package segment knows the bytes of one segment file of the CommitLog: the
// header page, the entries behind it, and when an entry is valid. FORMAT.md
// beside this file is the specification; format.go holds every number in it.
//
// The package encodes and decodes, and reads a segment from one end to the
// other (Reader). It keeps no state, starts no goroutines, and writes no files:
// log/commitlog does that.
//
// No input makes it panic or allocate more than the file is long: a length
// field is believed only after the checksum that covers it was right.
//
// Errors of reading are DamageErrors, which name file, byte and index, and wrap
// one of ErrMagic, ErrVersion, ErrChecksum, ErrShort and ErrChain. All but
// ErrVersion also match ErrCorrupt. Whether damage is the torn tail of the last
// write or a lost entry is for the caller to judge, since that takes knowledge
// of what was durable.
package segment
