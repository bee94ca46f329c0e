package batch_test

import (
	"fmt"
	"testing"

	"github.com/sluicemq/sluice/protocol/batch"
)

// shapes are batches as producers send them: linger of small records, and few
// large ones. SetBytes counts uncompressed bytes.
var shapes = []struct{ count, size int }{{1, 1024}, {100, 100}, {1000, 1000}}

func benchEach(b *testing.B, run func(b *testing.B, codec batch.Codec, data []byte)) {
	for _, codec := range allCodecs {
		for _, s := range shapes {
			b.Run(fmt.Sprintf("codec=%s/records=%d/size=%d", codec, s.count, s.size), func(b *testing.B) {
				data := many(b, codec, s.count, s.size)
				b.SetBytes(int64(len(many(b, batch.None, s.count, s.size))))
				b.ReportAllocs()
				run(b, codec, data)
			})
		}
	}
}

func BenchmarkValidate(b *testing.B) {
	c, r := newCodecs(), rules()
	r.HeaderPrefix = "sluice-"
	benchEach(b, func(b *testing.B, _ batch.Codec, data []byte) {
		for b.Loop() {
			if _, err := c.Validate(data, r); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkValidateSkipRecords(b *testing.B) {
	c, r := newCodecs(), rules()
	r.SkipRecords = true
	benchEach(b, func(b *testing.B, _ batch.Codec, data []byte) {
		for b.Loop() {
			if _, err := c.Validate(data, r); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkIterate(b *testing.B) {
	c := newCodecs()
	benchEach(b, func(b *testing.B, _ batch.Codec, data []byte) {
		for b.Loop() {
			it := c.Records(data)
			for it.Next() {
			}
			it.Close()
		}
	})
}

func BenchmarkFindTimestamp(b *testing.B) {
	c := newCodecs()
	benchEach(b, func(b *testing.B, _ batch.Codec, data []byte) {
		for b.Loop() {
			if _, _, found, err := c.FindTimestamp(data, now-1); !found || err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkRecompressFromNone(b *testing.B) {
	c := newCodecs()
	var dst []byte
	benchEach(b, func(b *testing.B, codec batch.Codec, data []byte) {
		plain, err := c.Recompress(nil, data, batch.None, 0)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if dst, err = c.Recompress(dst[:0], plain, codec, 0); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkStamp(b *testing.B) {
	data := many(b, batch.None, 1000, 1000)
	b.SetBytes(int64(len(data)))
	for i := int64(0); b.Loop(); i++ {
		batch.Header(data).Stamp(true, now+i)
	}
}

func BenchmarkBuild(b *testing.B) {
	c := newCodecs()
	var (
		builder batch.Builder
		dst     []byte
		err     error
	)
	r := record(string(incompressible(300)), now)
	for b.Loop() {
		builder.Reset()
		for range 100 {
			builder.Add(r)
		}
		if dst, err = builder.Build(dst[:0], c, batch.Options{}); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(dst)))
	b.ReportAllocs()
}
