// Package producer keeps what the broker must remember of idempotent
// producers, and hands out producer ids.
//
// For each partition and producer id it holds the epoch and the last five
// batches (sequences, base offset, time). From that Judge says, for the next
// batch of the log, whether it is to be appended, is a retry of a batch that is
// already there, or is refused:
//
//	same epoch, same first and last sequence as one of the five   duplicate
//	same epoch, first sequence follows the last one               append
//	same epoch, any other sequence                    OUT_OF_ORDER_SEQUENCE_NUMBER
//	higher epoch, first sequence 0              append; the memory starts over
//	higher epoch, any other sequence                  OUT_OF_ORDER_SEQUENCE_NUMBER
//	lower epoch                                             INVALID_PRODUCER_EPOCH
//	nothing remembered                    append, any sequence (with FromZero only 0)
//	producer id below 0                                     append, not remembered
//
// The marker that ends a transaction in a partition (Ended) raises the epoch like
// a batch does, so that the newer of Kafka's transaction protocols, where every
// marker has a higher epoch, begins each transaction at sequence 0. In the older
// one the epoch stays. Then an abort takes the transaction's batches out of the
// memory, and a batch may begin with any of its sequences, or with the next one as
// usual: a client that did not learn that its batch was appended uses the sequence
// again, for other records, and an answer that points to the aborted ones would
// lose them. A producer with an open transaction is never forgotten.
//
// Sequences count from 0 to 2147483647 and then from 0 again, also within a
// batch. Epochs are never compared with what was handed out: clients raise them
// on their own. DUPLICATE_SEQUENCE_NUMBER and UNKNOWN_PRODUCER_ID are never
// returned, because clients react to them with resets that are rarely tested.
//
// A Machine is deterministic. It reads no clock: a producer is forgotten when
// the time of the entry being applied is at least Limits.Expiration after the
// time of the entry with its last batch or marker. The limits themselves are
// state that an entry changes (EncodeExpire), so that a replay judges as the
// first run did, whatever the configuration says by then. When more producers are
// remembered than Limits.Producers, the one that has been silent the longest is
// forgotten; all this costs it is that a retry of its last five batches would be
// appended again.
//
// # Who calls what
//
// The apply loop is the only writer. For each produce entry it calls Judge and,
// if the batch is appended, Appended at once after it, before it judges the next
// entry; for each marker it calls CheckMarker and Ended likewise. It calls Apply
// for this package's entry types, DeletePartition when a partition is deleted,
// Checkpoint with the state batch of a checkpoint, and Load once before all else.
// The methods of read.go may be called by any goroutine at any time: the writer
// changes the table only under a mutex that they take, and reads without it, since
// nobody else changes anything.
//
// Nothing is written to the state store between checkpoints; the log has it.
// Checkpoint writes what changed since the previous one. FORMAT.md has the
// keys, the values and the payloads of the entries.
package producer
