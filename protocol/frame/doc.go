// Package frame reads and writes what stands around the body of a Kafka
// message: the size prefix, the request header (versions 1 and 2) and the
// response header (versions 0 and 1).
//
// All functions are pure: bytes in, values out, no I/O and no allocation. They
// are made for bytes of strangers: every length is checked against what is
// there before it is used, and nothing panics.
//
//	request:  size int32 | key int16 | version int16 | correlation id int32 |
//	          client id nullable string (int16 length) | tags, if flexible | body
//	response: size int32 | correlation id int32 | tags, if flexible | body
//
// The client id keeps its int16 length in flexible headers too. Tags of a
// header carry nothing that Sluice needs; they are checked for form and
// skipped, so that a client may send tags that were invented later.
//
// Which versions of a key are flexible is the business of package protocol.
package frame
