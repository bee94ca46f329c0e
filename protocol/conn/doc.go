// Package conn serves Kafka's protocol on sockets: it accepts connections,
// reads and decodes requests, calls their handlers in order, and writes the
// responses in order.
//
//	socket ─▶ reader: size, header, route, limits, budget ─▶ decode ─▶ Handle ─▶ Pending
//	                                                                               │ queue, in order,
//	socket ◀─ writer: all that is ready, in one vectored write ◀── encode ◀────────┘ bounded
//
// # Goroutines
//
// Every connection has a reader and a writer. The reader takes one request
// after the other as far as the handler's first stage; behind a route that is
// not pipelined it waits for the response to be there first, and meanwhile
// watches the socket, so that a client that goes away is noticed while its
// request waits. The writer waits for pending responses. Where a response is
// ready by the time the reader runs out of requests, the reader writes it
// itself, together with all before it that are ready: that saves a wake-up a
// request. Who writes is settled by outbox; there is never more than one.
//
// Both end when the connection does: the reader first, the writer when every
// Pending was resolved. A connection counts against the limits until then.
//
// # What a client can make the server spend
//
// Nothing is allocated before the size of a frame, its key and its version are
// known to be good. A connection costs a read buffer of 8 KiB and what its
// requests in progress take:
//
//   - at most Options.MaxPending requests, of which all but the last are of
//     pipelined routes (Produce);
//   - a frame that does not fit the read buffer grows as its bytes arrive, at
//     most four times what has come, and counts against the budget
//     (Options.QueuedBytes) of the whole server. The bytes of a Produce count
//     until its Pending is resolved and its handler has released them. Other
//     requests count with what they hold in memory, until their Pending is
//     resolved, if that is 64 KiB or more;
//   - decoding can be made to allocate protocol.DecodeFactor times the size of a
//     frame. For Produce, protocol.CheckProduce makes that about three. For other
//     frames that do not fit the read buffer, at most 4 MiB by default, one is
//     decoded at a time, and refused if it turns out to be inflated. That leaves
//     0.8 MiB for each connection and 400 MiB for one of them as the worst that
//     hostile clients can do, for as long as decoding takes;
//   - where the budget is used up, connections wait. One at a time, the one that
//     waits longest, goes past it, and its bytes are not counted: so a request
//     larger than the budget passes, small ones go on beside it, and nothing
//     deadlocks. The bytes in flight are at most the budget and one frame of the
//     largest size.
//
// Every MiB of a frame that has begun must arrive within Options.FrameTimeout;
// a client that does not read is cut after Options.WriteTimeout.
//
// # Refusals
//
// A request that cannot be served (no such key, version not served, malformed,
// too large) is not answered, as there is no answer to give: what was asked
// before is answered, one line is logged, and the connection is closed. An
// ApiVersions request of an unknown version is the exception; it is answered in
// version 0, which every client understands. Lines are limited to one a second
// for each kind of refusal, and say how many were left out.
package conn
