// Package raw speaks Kafka's protocol by hand: every request at a chosen
// version over a plain socket, with headers and record batches as a test wants
// them, right or wrong. Nothing is negotiated, retried or hidden.
//
// Answers are held to their format: the correlation id is that of the request,
// the body parses, and not a byte is left over.
package raw
