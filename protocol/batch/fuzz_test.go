package batch_test

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// fuzzLimits are small, so that the fuzzer reaches them.
var fuzzLimits = batch.Limits{MaxBytes: 1 << 20, SlackBytes: 64 << 10, MaxRatio: 100}

// fuzzRules are those under which the most passes.
func fuzzRules() *batch.Rules {
	r := anyTime()
	r.HeaderPrefix = "sluice-"
	return r
}

// seedBatches are good batches of each codec, and some of kinds that only brokers
// make.
func seedBatches(f *testing.F) [][]byte {
	withHeaders := record("v", now)
	withHeaders.Headers = withHeaders.Headers.Append("sluice-delay", []byte("5")).Append("n", nil)
	var seeds [][]byte
	for _, codec := range allCodecs {
		seeds = append(seeds,
			build(f, batch.Options{Codec: codec}, three()...),
			build(f, batch.Options{Codec: codec, Producer: &batch.Producer{ID: 1}}, withHeaders, &batch.Record{}))
	}
	var gaps batch.Builder
	gaps.AddAt(3, record("a", now))
	gaps.Extend(9)
	compacted, err := gaps.Build(nil, newCodecs(), batch.Options{})
	if err != nil {
		f.Fatal(err)
	}
	return append(seeds, compacted, batch.AppendMarker(nil, batch.Marker{Commit: true, ProducerID: 3}))
}

// FuzzValidate: what passes is counted and read alike by every other way of
// looking at it, and stays valid through each change that a broker makes.
func FuzzValidate(f *testing.F) {
	for _, b := range seedBatches(f) {
		f.Add(b)
	}
	c := batch.NewCodecs(fuzzLimits)
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = admit(c, b, rules()) // as it is, mostly stopped by the checksum
		b = sealed(bytes.Clone(b))
		before := bytes.Clone(b)
		sum, err := admit(c, b, fuzzRules())
		if !bytes.Equal(b, before) {
			t.Fatal("the batch was changed")
		}
		if err != nil {
			if code := kerr.Of(err); code == kerr.UnknownServerError || kerr.Message(err) == "" {
				t.Fatalf("refused without a code: %v", err)
			}
			return
		}
		b, _ = batch.Single(b)
		got := readAll(t, c, b)
		if len(got) != int(sum.Count) {
			t.Fatalf("%d records are read, %d were counted", len(got), sum.Count)
		}
		for i, r := range got {
			if int(r.Delta) != i {
				t.Fatalf("record %d has offset delta %d", i, r.Delta)
			}
		}
		plain, err := c.Recompress(nil, b, batch.None, 0)
		if err != nil {
			t.Fatal(err)
		}
		if !batch.Header(plain).Attributes().Has(batch.LogAppendTime) {
			sameAsKmsg(t, plain, got)
		}
		for _, codec := range allCodecs {
			packed, err := c.Recompress(nil, plain, codec, 0)
			if err != nil {
				t.Fatalf("to %s: %v", codec, err)
			}
			again, err := c.Validate(packed, fuzzRules())
			if kerr.Of(err) != kerr.MessageTooLarge && (err != nil || again != sum) {
				t.Fatalf("to %s: %+v, %v; was %+v", codec, again, err, sum)
			}
		}
		if batch.Header(b).Stamp(true, now) && !batch.Header(b).ChecksumFits() {
			t.Fatal("the checksum was not renewed")
		}
	})
}

// FuzzIterate: records that are read have rising offsets within the batch, and
// building a batch of them gives the same records.
func FuzzIterate(f *testing.F) {
	for _, b := range seedBatches(f) {
		f.Add(b)
	}
	c := batch.NewCodecs(fuzzLimits)
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		var (
			builder batch.Builder
			got     []read
			last    = int32(-1)
		)
		it := c.Records(b)
		defer it.Close()
		for it.Next() {
			r := it.Record()
			if r.OffsetDelta <= last || r.OffsetDelta > batch.Header(b).LastOffsetDelta() {
				t.Fatalf("offset delta %d after %d", r.OffsetDelta, last)
			}
			last = r.OffsetDelta
			builder.AddAt(r.OffsetDelta, r)
			got = append(got, shown(r))
		}
		if len(got) > 0 {
			again, err := builder.Build(nil, c, batch.Options{})
			if err != nil {
				t.Fatal(err)
			}
			sameAsKmsg(t, again, got)
			if reread := readAll(t, c, again); len(reread) != len(got) || reread[len(got)-1] != got[len(got)-1] {
				t.Fatalf("got %+v, then %+v", got, reread)
			}
		}
		if len(b) > 0 {
			if first, rest, err := batch.Split(b); err == nil && len(first)+len(rest) != len(b) {
				t.Fatal("a split loses bytes")
			}
		}
		if !bytes.Equal(b, before) {
			t.Fatal("the batch was changed")
		}
	})
}

// FuzzDecompress: what is decompressed keeps to the bound, is read alike by
// franz-go, and comes back when compressed again.
func FuzzDecompress(f *testing.F) {
	for _, codec := range allCodecs {
		for _, text := range []string{"", "some text", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"} {
			packed, err := newCodecs().Compress(nil, codec, 0, []byte(text))
			if err != nil {
				f.Fatal(err)
			}
			f.Add(byte(codec), packed)
		}
		f.Add(byte(codec), bomb(f, codec, 200_000))
	}
	c, roomy := batch.NewCodecs(fuzzLimits), newCodecs()
	theirs := kgo.DefaultDecompressor()
	f.Fuzz(func(t *testing.T, kind byte, packed []byte) {
		codec := batch.Codec(kind % 6)
		got, err := c.Decompress(nil, codec, packed)
		if err != nil {
			if code := kerr.Of(err); code != kerr.InvalidRecord && code != kerr.MessageTooLarge && code != kerr.UnsupportedCompressionType {
				t.Fatal(err)
			}
			return
		}
		if bound := max(fuzzLimits.SlackBytes, len(packed)*fuzzLimits.MaxRatio); codec != batch.None && len(got) > min(bound, fuzzLimits.MaxBytes) {
			t.Fatalf("%d bytes of %d", len(got), len(packed))
		}
		if len(got) > 0 {
			other, err := theirs.Decompress(packed, kgo.CompressionCodecType(codec))
			if err != nil || !bytes.Equal(other, got) {
				t.Fatalf("franz-go reads %d bytes, %v; read here were %d", len(other), err, len(got))
			}
		}
		again, err := roomy.Compress(nil, codec, 0, got)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := roomy.Decompress(nil, codec, again); err != nil || !bytes.Equal(back, got) {
			t.Fatalf("%d bytes come back of %d: %v", len(back), len(got), err)
		}
	})
}
