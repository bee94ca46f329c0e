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

// checkSingle refuses bytes that are not exactly one whole batch.
func checkSingle(b []byte) error {
	if err := checkFrame(b); err != nil {
		return err
	}
	if size := Header(b).Size(); size != len(b) {
		return kerr.New(kerr.InvalidRecord,
			"%d bytes follow the batch; a partition takes exactly one batch per request", len(b)-size)
	}
	return nil
}
