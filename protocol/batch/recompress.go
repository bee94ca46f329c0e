package batch

import (
	"encoding/binary"
	"math"

	"github.com/sluicemq/sluice/protocol/kerr"
)

// Recompress appends to dst the batch b with its records compressed by the codec
// at the level; None leaves them uncompressed. Nothing else changes but length
// and CRC: records keep their bytes, and the producer its sequence. b must be
// one whole batch that passed Validate. The result may be larger than
// max.message.bytes allows, which is for the caller to check.
func (c *Codecs) Recompress(dst, b []byte, codec Codec, level int) ([]byte, error) {
	h := Header(b)
	records, buf, err := c.records(h)
	if err != nil {
		return dst, err
	}
	if buf != nil {
		defer c.putBuffer(buf)
	}
	start := len(dst)
	out := append(dst, h[:HeaderSize]...)
	out, err = c.Compress(out, codec, level, records)
	if err != nil {
		return dst, err
	}
	if err := finish(out[start:], h.Attributes(), codec); err != nil {
		return dst, err
	}
	return out, nil
}

// finish sets codec, length and CRC of a batch that is complete otherwise.
func finish(b []byte, attributes Attributes, codec Codec) error {
	if len(b) > math.MaxInt32 {
		return kerr.New(kerr.MessageTooLarge, "a batch cannot be %d bytes long", len(b))
	}
	binary.BigEndian.PutUint32(b[atLength:], uint32(len(b)-lengthEnd))
	binary.BigEndian.PutUint16(b[atAttributes:], uint16(attributes&^codecMask|Attributes(codec)))
	Header(b).seal()
	return nil
}
