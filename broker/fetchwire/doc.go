// Package fetchwire encodes Fetch responses without copying record batches.
//
// A general encoder would gather a response in one buffer, and so copy every
// record byte once more on its way from the log to the socket. An Encoder
// writes only what stands between the records into a buffer of its own, and
// yields the body as the list of pieces that one vectored write sends:
//
//	scratch: [head, topic, partition 0] [partition 1, topic, partition 0] [tags]
//	                                   │                                 │
//	records of the log:        [piece][piece]                        [piece]
//
// Pieces of a few hundred bytes are copied all the same, because that is cheaper
// than to have the kernel gather them.
//
// Responses of version 4 to 18 are encoded, byte for byte as kmsg's
// FetchResponse encodes them. Both Response and Encoder are meant to be reused:
// once they have grown to the size of the responses, encoding allocates nothing.
package fetchwire
