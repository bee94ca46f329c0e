package batch

// Record is one record of a batch. Key, Value and Headers are borrowed from the
// batch or iterator that it came from. A nil Key or Value is Kafka's null, which
// is not the same as an empty one.
type Record struct {
	OffsetDelta int32 // its offset less the batch's base offset
	Timestamp   int64 // in milliseconds; the append time if the batch has LogAppendTime
	Key         []byte
	Value       []byte
	Headers     Headers
}

// fault is what makes a record unreadable.
type fault uint8

const (
	sound fault = iota
	faultMissing
	faultLength
	faultNumber
	faultKey
	faultValue
	faultHeaderCount
	faultHeaderName
	faultHeaderValue
	faultRest
	faultOrder
	faultTrailing
	faultSize
)

var faultTexts = [...]string{
	sound:            "is sound",
	faultMissing:     "is missing: the batch holds fewer records than its header says",
	faultLength:      "has a length that does not fit into the batch",
	faultNumber:      "has a number that is cut short or too large",
	faultKey:         "has a key that does not fit into it",
	faultValue:       "has a value that does not fit into it",
	faultHeaderCount: "has a number of headers that does not fit into it",
	faultHeaderName:  "has a header name that is null or does not fit into it",
	faultHeaderValue: "has a header value that does not fit into it",
	faultRest:        "is shorter than its length says",
	faultOrder:       "has an offset that does not follow the record before it, or lies past the last one of the batch",
	faultSize:        "is larger than max.decompressed.message.bytes allows",
	faultTrailing:    "is followed by bytes that belong to no record",
}

func (f fault) String() string { return faultTexts[f] }

// parse reads the record at the front of b and returns its size with the length
// before it. Timestamp is set to the delta. prefixed tells whether the name of a
// header begins with prefix; an empty prefix is not looked for.
func (r *Record) parse(b []byte, prefix string) (size int, prefixed bool, f fault) {
	if len(b) == 0 {
		return 0, false, faultMissing
	}
	length, at := varint32(b, 0)
	if at < 0 || length < 1 || length > len(b)-at {
		return 0, false, faultLength
	}
	size = at + length
	b = b[at:size:size]

	timestamp, at := varint(b, 1) // past the attributes, in which nothing is defined
	delta, at := varint32(b, at)
	if at < 0 {
		return 0, false, faultNumber
	}
	key, at, ok := nullable(b, at)
	if !ok {
		return 0, false, faultKey
	}
	value, at, ok := nullable(b, at)
	if !ok {
		return 0, false, faultValue
	}
	n, at := varint32(b, at)
	if at < 0 || n < 0 || n > (len(b)-at)/minHeaderSize {
		return 0, false, faultHeaderCount
	}
	headers := b[at:]
	if n == 0 {
		if len(headers) > 0 {
			return 0, false, faultRest
		}
		headers = nil
	} else if prefixed, f = checkHeaders(headers, n, prefix); f != sound {
		return 0, false, f
	}
	r.OffsetDelta, r.Timestamp = int32(delta), timestamp
	r.Key, r.Value = key, value
	r.Headers = Headers{n: n, b: headers}
	return size, prefixed, sound
}

// nullable reads a length and as many bytes; -1 is nil.
func nullable(b []byte, at int) (v []byte, next int, ok bool) {
	n, at := varint32(b, at)
	if n == -1 {
		return nil, at, true
	}
	if at < 0 || n < 0 || n > len(b)-at {
		return nil, -1, false
	}
	return b[at : at+n : at+n], at + n, true
}
