package batch

import "github.com/sluicemq/sluice/protocol/kerr"

// Iterator reads the records of one batch in order:
//
//	it := codecs.Records(b)
//	defer it.Close()
//	for it.Next() {
//		use(it.Record())
//	}
//	return it.Err()
//
// It belongs to one goroutine and must not be copied after the first Next. Each
// record is checked as Validate checks it, except that offsets need only rise:
// compaction leaves gaps. The CRC is not looked at.
type Iterator struct {
	w      walker
	codecs *Codecs
	buf    *buffer // holds the decompressed records, or nil
	err    error
}

// Records returns an Iterator over the batch at the front of b, which must stay
// unchanged until Close. If b holds no batch, or one that does not decompress,
// there are no records and Err tells why.
func (c *Codecs) Records(b []byte) Iterator {
	if err := checkFrame(b); err != nil {
		return Iterator{err: err}
	}
	h := Header(b)
	records, buf, err := c.records(h)
	if err != nil {
		return Iterator{err: err}
	}
	return Iterator{w: makeWalker(h, records), codecs: c, buf: buf}
}

// records returns the uncompressed records of a batch, and the buffer they lie
// in if they had to be decompressed; that goes back with putBuffer.
func (c *Codecs) records(h Header) ([]byte, *buffer, error) {
	records := h[HeaderSize:h.Size()]
	codec := h.Codec()
	if codec == None {
		return records, nil, nil
	}
	buf := c.getBuffer()
	out, err := c.Decompress(buf.b[:0], codec, records)
	buf.b = out
	if err != nil {
		c.putBuffer(buf)
		return nil, nil, err
	}
	return out, buf, nil
}

// Next moves to the next record, and reports whether there is one.
func (it *Iterator) Next() bool {
	if it.err != nil {
		return false
	}
	ok, f := it.w.next()
	if f != sound {
		it.err = recordFault(it.w.seen, f)
	}
	return ok
}

// Record returns the current record. What it points to changes with the next
// call of Next; the bytes in it stay until Close.
func (it *Iterator) Record() *Record { return &it.w.record }

// Err returns what ended the iteration early, or nil.
func (it *Iterator) Err() error { return it.err }

// Close gives back memory. Records of a compressed batch must not be used after
// it. It may be called more than once.
func (it *Iterator) Close() {
	if it.buf != nil {
		it.codecs.putBuffer(it.buf)
		it.buf = nil
	}
	it.w.rest, it.w.count = nil, 0
}

// recordFault refuses a batch because the record after the first n is damaged.
func recordFault(n int32, f fault) error {
	if f == faultTrailing {
		n-- // it is the last record that something follows
	}
	return kerr.New(kerr.InvalidRecord, "record %d of the batch %s", n, f)
}
