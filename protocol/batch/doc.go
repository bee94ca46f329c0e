// Package batch reads, checks, changes and builds record batches of Kafka's
// format v2: the unit in which records are produced, stored and fetched.
//
// A batch stays the bytes that a client sent for as long as possible. Header is
// a view of those bytes; Validate walks the records where they lie; the fields
// a broker owns are patched in place. Only compressed batches are copied, into
// pooled memory, and only while they are being looked at. Nothing here
// allocates per record.
//
//	produce ─▶ Single ─▶ Codecs.Validate ─▶ Summary ─┬─▶ Stamp        timestamp type, max timestamp
//	                      (Rules: the topic)         └─▶ Recompress   compression.type of the topic
//
//	stored  ─▶ Split ─▶ Header             offsets, sequences, flags
//	        └▶ Iterator, FindTimestamp     records, headers
//	Builder, AppendMarker ─▶ batches that the broker makes itself
//
// # Format
//
// All numbers are big endian. The batch is its 61-byte header followed by the
// records, which are compressed as a whole if the codec says so:
//
//	offset size field                   offset size field
//	     0    8 base offset                 27    8 base timestamp
//	     8    4 length of what follows      35    8 max timestamp
//	    12    4 partition leader epoch      43    8 producer id, -1 none
//	    16    1 magic, 2                    51    2 producer epoch
//	    17    4 CRC-32C of 21 to the end    53    4 base sequence
//	    21    2 attributes                  57    4 record count
//	    23    4 last offset delta           61      records
//
// Attributes: bits 0 to 2 codec, 3 log append time, 4 transactional, 5 control,
// 6 delete horizon (then the base timestamp is that horizon's). A record is
// its length as a varint, one byte of attributes (unused), then varints:
// timestamp delta, offset delta, key length, key, value length, value, number
// of headers, and per header name length, name, value length, value. A length
// of -1 stands for null; names are never null.
//
// Base offset, length and leader epoch lie before the CRC and outside it, so
// that a broker can set its own values without touching the rest.
//
// # Rules for callers
//
// Codecs owns the pools of decoders and buffers; a process has one and shares
// it between goroutines. Every []byte that comes out of a view, a Record or an
// Iterator is borrowed: from the batch, or, if that is compressed, from the
// iterator until Close. Methods of Header require at least HeaderSize bytes;
// Split and Single establish that for bytes of unknown origin.
//
// Refusals are kerr errors; those that concern single records are a
// *RecordsError. Bytes that came from disk and do not parse give the same
// errors: it is the reader of the log who knows that they mean damage.
package batch
