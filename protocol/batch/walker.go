package batch

// walker goes through the records of one batch, which it was given
// uncompressed. It holds no memory of its own.
type walker struct {
	rest       []byte // what follows the current record
	seen       int32  // records read so far, with the current one
	count      int32  // records there should be
	base       int64  // base timestamp
	appendTime int64  // timestamp of all records, if fixed
	fixed      bool   // the batch has LogAppendTime
	prefix     string // of header names to watch for
	prefixed   bool   // one was met
	last       int32  // offset delta of the current record
	limit      int32  // no record lies beyond it
	record     Record
}

func makeWalker(h Header, records []byte) walker {
	return walker{
		rest:       records,
		count:      h.Count(),
		base:       h.BaseTimestamp(),
		appendTime: h.MaxTimestamp(),
		fixed:      h.Attributes().Has(LogAppendTime),
		last:       -1,
		limit:      h.LastOffsetDelta(),
	}
}

// next reads the next record into w.record. ok is false after the last one and
// at a fault.
func (w *walker) next() (ok bool, f fault) {
	if w.seen >= w.count {
		if len(w.rest) > 0 {
			return false, faultTrailing
		}
		return false, sound
	}
	size, prefixed, f := w.record.parse(w.rest, w.prefix)
	if f != sound {
		return false, f
	}
	if w.record.OffsetDelta <= w.last || w.record.OffsetDelta > w.limit {
		return false, faultOrder
	}
	w.rest = w.rest[size:]
	w.seen++
	w.last = w.record.OffsetDelta
	w.prefixed = w.prefixed || prefixed
	if w.fixed {
		w.record.Timestamp = w.appendTime
	} else {
		w.record.Timestamp += w.base
	}
	return true, sound
}
