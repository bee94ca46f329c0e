// Package kerr holds Kafka's error codes and the errors that carry one.
//
// Everything that is refused to a client is, or wraps, an Error: a code that
// the client's library acts on, and a message for the human who reads its log.
// Parts of Sluice return such errors from any depth; the handler that shapes
// the response asks Of for the code and Message for the text:
//
//	return kerr.New(kerr.InvalidConfig, "%s: %q is not a number of bytes", name, value)
//	...
//	response.ErrorCode = kerr.Of(err).Int16()
//
// An error that carries no code reaches the client as UnknownServerError, and
// its text stays with the broker: it may name files or other internals. Most
// clients take that code for final, so a condition that passes must be given
// a code of its own where it arises.
//
// The package is a leaf: every other package may import it.
package kerr
