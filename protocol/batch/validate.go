package batch

import "github.com/sluicemq/sluice/protocol/kerr"

// Summary is what Validate learnt about a batch.
type Summary struct {
	// Count is the number of records, and of offsets that the batch takes up.
	Count int32
	// MaxTimestamp is the timestamp to store in the header: the largest of the
	// records, or Rules.Now with log append time. NoTimestamp if no record has
	// one.
	MaxTimestamp int64
	// MaxTimestampDelta is the offset delta of the first record that has
	// MaxTimestamp, or -1. It is -1 too if the records were not read.
	MaxTimestampDelta int32
	// Prefixed tells that the name of some header begins with the prefix asked
	// for.
	Prefixed bool
	// Walked tells that the records were read.
	Walked bool
	// RecordBytes is the size of the uncompressed records, 0 if not Walked.
	RecordBytes int
}

// zstdVersion is the first version of Produce that may carry zstd.
const zstdVersion = 7

// Validate checks h, the batch that Single found in what a client sent, as
// Kafka's brokers do: it must have the right CRC, claim nothing that only a
// broker may claim, and its records must be sound and keep to the rules. It
// changes nothing in h; the caller follows with
// h.Stamp(rules.LogAppendTime, summary.MaxTimestamp).
//
// A batch of which single records break a rule is refused with a *RecordsError,
// all others with a plain refusal. Validate allocates only when it refuses or
// when the pools are empty.
func (c *Codecs) Validate(h Header, rules *Rules) (Summary, error) {
	if err := checkHeader(h, rules); err != nil {
		return Summary{}, err
	}
	ownTime := !h.Attributes().Has(LogAppendTime)
	if rules.SkipRecords && !rules.Compacted && ownTime {
		return c.trust(h, rules)
	}
	return c.walk(h, rules)
}

// checkHeader applies the rules that need no record, in Kafka's order: what is
// wrong with more than one of them is refused by the same code.
func checkHeader(h Header, rules *Rules) error {
	attributes := h.Attributes()
	switch codec := attributes.Codec(); {
	case codec == Zstd && rules.ProduceVersion < zstdVersion:
		return kerr.New(kerr.UnsupportedCompressionType,
			"zstd needs version %d of Produce or later, not %d", zstdVersion, rules.ProduceVersion)
	case h.BaseOffset() != 0:
		return kerr.New(kerr.InvalidRecord, "base offset is %d, but a producer's must be 0", h.BaseOffset())
	case len(h) > rules.MaxBytes:
		return kerr.New(kerr.MessageTooLarge,
			"the batch is %d bytes long; the topic's max.message.bytes is %d", len(h), rules.MaxBytes)
	case !h.ChecksumFits():
		return kerr.New(kerr.CorruptMessage,
			"the batch carries CRC %08x, but its bytes have %08x", h.CRC(), h.checksum())
	case !codec.Known():
		return kerr.New(kerr.UnsupportedCompressionType, "there is no compression type %d", codec)
	case h.Count() <= 0:
		return kerr.New(kerr.InvalidRecord, "record count is %d", h.Count())
	case int64(h.LastOffsetDelta())+1 != int64(h.Count()):
		return kerr.New(kerr.InvalidRecord,
			"last offset delta %d does not fit record count %d", h.LastOffsetDelta(), h.Count())
	case attributes.Has(Control):
		return kerr.New(kerr.InvalidRecord, "control batches are for brokers to write")
	case attributes.Has(DeleteHorizon):
		return kerr.New(kerr.InvalidRecord, "delete horizons are for brokers to set")
	}
	return checkProducer(h)
}

// checkProducer refuses producer fields that contradict each other. Whether the
// sequence follows on is judged where the producer's state is.
func checkProducer(h Header) error {
	if h.ProducerID() < 0 {
		if h.Attributes().Has(Transactional) {
			return kerr.New(kerr.InvalidRecord, "a transactional batch needs a producer id")
		}
		return nil
	}
	if h.ProducerEpoch() < 0 {
		return kerr.New(kerr.InvalidRecord,
			"producer id %d comes with epoch %d", h.ProducerID(), h.ProducerEpoch())
	}
	if h.BaseSequence() < 0 {
		return kerr.New(kerr.InvalidRecord,
			"producer id %d comes with base sequence %d", h.ProducerID(), h.BaseSequence())
	}
	return nil
}

// stamped reports whether the batch claims to have been stamped by a broker
// where that cannot pass. Kafka lets it pass on topics with create time unless
// there is no timestamp; the claim is then taken off.
func stamped(h Header, rules *Rules) bool {
	return h.Attributes().Has(LogAppendTime) && (rules.LogAppendTime || h.MaxTimestamp() == NoTimestamp)
}

// trust sums up a batch by its header alone.
func (c *Codecs) trust(h Header, rules *Rules) (Summary, error) {
	sum := Summary{Count: h.Count(), MaxTimestamp: h.MaxTimestamp(), MaxTimestampDelta: -1}
	if rules.LogAppendTime {
		sum.MaxTimestamp, sum.MaxTimestampDelta = rules.Now, 0
		return sum, nil
	}
	if !rules.admits(sum.MaxTimestamp) {
		return Summary{}, kerr.New(kerr.InvalidTimestamp, "max timestamp is %d, %s",
			sum.MaxTimestamp, rules.bounds())
	}
	return sum, nil
}

// walk reads the records.
func (c *Codecs) walk(h Header, rules *Rules) (Summary, error) {
	records, buf, err := c.records(h)
	if err != nil {
		return Summary{}, err
	}
	if buf != nil {
		defer c.putBuffer(buf)
	}
	w := makeWalker(h, records)
	w.prefix = rules.HeaderPrefix
	w.fixed = false // a claim of log append time will be taken off
	var (
		sum     = Summary{MaxTimestamp: NoTimestamp, MaxTimestampDelta: -1, Walked: true, RecordBytes: len(records)}
		claimed = stamped(h, rules)
		bad     *RecordsError
	)
	limited := buf != nil && rules.MaxRecordBytes > 0 && rules.MaxRecordBytes < len(records)
	for {
		front := w.rest
		ok, f := w.next()
		if ok && w.record.OffsetDelta != w.seen-1 {
			w.seen, ok, f = w.seen-1, false, faultOrder
		}
		if f != sound {
			return Summary{}, recordFault(w.seen, f)
		}
		if !ok {
			break
		}
		if limited {
			if length, _ := varint32(front, 0); length > rules.MaxRecordBytes {
				return Summary{}, recordFault(w.seen-1, faultSize)
			}
		}
		timestamp := w.record.Timestamp
		if timestamp > sum.MaxTimestamp {
			sum.MaxTimestamp, sum.MaxTimestampDelta = timestamp, w.record.OffsetDelta
		}
		switch {
		case rules.Compacted && w.record.Key == nil:
			bad = bad.add(w.seen-1, kerr.InvalidRecord, "has no key, which a compacted topic requires")
		case claimed:
			bad = bad.add(w.seen-1, kerr.InvalidTimestamp, "has the timestamp type log append time, which is for brokers to set")
		case !rules.LogAppendTime && !rules.admits(timestamp):
			bad = bad.add(w.seen-1, kerr.InvalidTimestamp, "has timestamp %d, %s", timestamp, rules.bounds())
		}
	}
	if bad != nil {
		return Summary{}, bad.finish()
	}
	sum.Count, sum.Prefixed = w.seen, w.prefixed
	if rules.LogAppendTime {
		sum.MaxTimestamp, sum.MaxTimestampDelta = rules.Now, 0
	}
	return sum, nil
}
