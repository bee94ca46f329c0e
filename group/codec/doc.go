// Package codec reads and writes the bytes of the groups' entries and of their
// state: versioned, bounds-checked, one encoding for each value.
//
// A Reader remembers the first thing that is wrong and reads zeros from there
// on, so that its user looks at the error once, with Done. No length that it
// reads makes it allocate more than a small multiple of the bytes that are
// there. Numbers are little endian or uvarints in their shortest form; texts and
// bytes are preceded by their length as a uvarint.
package codec
