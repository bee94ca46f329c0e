// Package protocol holds what Kafka defines about its requests, and the words
// in which the network side (package conn) and the handlers (package broker)
// speak to each other.
//
//   - Key names an API. Message bodies are those of kmsg; this package adds
//     names as Kafka spells them, first flexible versions and default limits.
//   - Route says that an API is served: versions, limits, handler. Routes is
//     the checked table of all of them, and the only truth about what is
//     served: ApiVersions is answered from it.
//   - Call is one decoded request, Pending its answer to be, Response the
//     answer.
//
// # Two stages
//
// A handler is called in the order in which requests arrive on a connection.
// When it returns, its first stage is over; the Pending it returned yields the
// response, at once (Ready, Answer) or later (Promise). The next request of the
// connection is handled as soon as the first stage is over if the route is
// pipelined, else after the Pending is resolved. Responses leave in the order
// of the requests in any case.
//
// So whatever must follow the order of requests belongs in the first stage: a
// produce handler proposes its batches there, and waits for the log in the
// second.
//
// # What a handler must do
//
// It resolves every Pending it returns, also when its context is cancelled,
// which happens when the connection goes away or the server stops; then it
// should be soon. It may keep the bytes of a request (record batches) only as
// long as Call says. A panic in a handler, in Pending or in a response closes
// the connection it belongs to and nothing else.
//
// # What comes with authentication
//
// Every connection is the principal ConnInfo.Principal names, from its first
// byte. SASL will add to Route which keys are served before authentication, and
// conn will ask before it decodes.
package protocol
