package batch_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/protocol/kerr"
)

func TestRecompressChangesOnlyHowRecordsAreCompressed(t *testing.T) {
	c := newCodecs()
	producer := &batch.Producer{ID: 77, Epoch: 3, Sequence: 1000}
	for _, from := range allCodecs {
		b := build(t, batch.Options{Codec: from, BaseOffset: 40, LeaderEpoch: 2, Producer: producer, Attributes: batch.Transactional}, three()...)
		before := bytes.Clone(b)
		for _, to := range allCodecs {
			out, err := c.Recompress([]byte("front"), b, to, batch.DefaultLevel)
			if err != nil || string(out[:5]) != "front" {
				t.Fatalf("%s to %s: %v", from, to, err)
			}
			if !bytes.Equal(b, before) {
				t.Fatalf("%s to %s: the original changed", from, to)
			}
			h := batch.Header(out[5:])
			if h.Codec() != to || h.Size() != len(h) || !h.ChecksumFits() || !h.Attributes().Has(batch.Transactional) {
				t.Errorf("%s to %s: codec %s, size %d of %d, checksum %v", from, to, h.Codec(), h.Size(), len(h), h.ChecksumFits())
			}
			if !bytes.Equal(h[:8], b[:8]) || !bytes.Equal(h[12:17], b[12:17]) || !bytes.Equal(h[23:61], b[23:61]) {
				t.Errorf("%s to %s: other fields changed", from, to)
			}
			if got := readAll(t, c, h); !slices.Equal(got, readAll(t, c, b)) {
				t.Errorf("%s to %s: read %+v", from, to, got)
			}
		}
	}
}

func TestRecompressReportsDamage(t *testing.T) {
	b := build(t, batch.Options{Codec: batch.Gzip}, three()...)
	b[75] ^= 0xff
	if out, err := newCodecs().Recompress(nil, b, batch.Zstd, 3); kerr.Of(err) != kerr.InvalidRecord || out != nil {
		t.Errorf("got %d bytes, %v", len(out), err)
	}
	b = build(t, batch.Options{}, three()...)
	if _, err := newCodecs().Recompress(nil, b, 7, 0); kerr.Of(err) != kerr.UnsupportedCompressionType {
		t.Errorf("to codec 7: %v", err)
	}
}
