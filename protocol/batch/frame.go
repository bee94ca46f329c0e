package batch

import "github.com/sluicemq/sluice/protocol/kerr"

// checkFrame refuses bytes at whose front there is no whole batch of format v2.
// After it, the methods of Header and the batch's Size may be trusted not to
// reach past b; nothing is said about what the fields hold.
func checkFrame(b []byte) error {
	if len(b) <= atMagic {
		return kerr.New(kerr.InvalidRecord, "%d bytes are no record batch", len(b))
	}
	h := Header(b)
	if m := h.Magic(); m != Magic {
		return kerr.New(kerr.InvalidRecord,
			"the records have message format %d; only record batches of format %d are taken", m, Magic)
	}
	size := h.Size()
	if size < HeaderSize {
		return kerr.New(kerr.CorruptMessage,
			"the batch says that it is %d bytes long, which is less than its header", size)
	}
	if size > len(b) {
		return kerr.New(kerr.InvalidRecord,
			"the batch says that it is %d bytes long, but only %d are there", size, len(b))
	}
	return nil
}

// Single returns the one batch that b, which a client sent to be produced to one
// partition, consists of. As in Kafka, what follows it is dropped if it is too
// short to be another batch. Refused are bytes without a whole batch at their
// front, batches of other formats, and more than one batch.
//
// Of the batch nothing is checked but that it is there. The result shares b's
// memory.
func Single(b []byte) (Header, error) {
	size, err := front(b)
	if err != nil {
		return nil, err
	}
	if size == 0 {
		return nil, kerr.New(kerr.InvalidRecord, "the %d bytes of records hold no whole batch", len(b))
	}
	h := Header(b[:size:size])
	if m := h.Magic(); m != Magic {
		return nil, kerr.New(kerr.InvalidRecord,
			"the records have message format %d; only record batches of format %d are taken", m, Magic)
	}
	if size < HeaderSize {
		return nil, kerr.New(kerr.CorruptMessage,
			"the batch says that it is %d bytes long, which is less than its header", size)
	}
	switch more, err := front(b[size:]); {
	case err != nil:
		return nil, err
	case more > 0:
		return nil, kerr.New(kerr.InvalidRecord, "a second batch follows the first; a partition takes exactly one per request")
	}
	return h, nil
}

// smallest is the size of the smallest message of any format, without its
// offset and length.
const smallest = 14

// front returns the size of the batch, of whatever format, at the front of b,
// and 0 if b is too short to hold a whole one. It refuses bytes that cannot be
// the beginning of any.
func front(b []byte) (size int, err error) {
	if len(b) < lengthEnd {
		return 0, nil
	}
	size = Header(b).Size()
	if size < lengthEnd+smallest {
		return 0, kerr.New(kerr.CorruptMessage, "a batch says that it is %d bytes long, which is less than any is", size)
	}
	if len(b) <= atMagic {
		return 0, nil
	}
	if m := Header(b).Magic(); m < 0 || m > Magic {
		return 0, kerr.New(kerr.CorruptMessage, "a batch has message format %d, which does not exist", m)
	}
	if size > len(b) {
		return 0, nil
	}
	return size, nil
}
