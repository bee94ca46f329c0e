package batch_test

import (
	"fmt"
	"time"

	"github.com/sluicemq/sluice/protocol/batch"
)

// What a broker does with a batch that was produced: check it, give it its place,
// and read it for those who ask.
func Example() {
	sent := time.UnixMilli(1_700_000_000_000)
	codecs := batch.NewCodecs(batch.Limits{})

	var b batch.Builder
	var h batch.Headers
	b.Add(&batch.Record{Timestamp: sent.UnixMilli(), Key: []byte("order-1"), Value: []byte("created")})
	b.Add(&batch.Record{
		Timestamp: sent.UnixMilli() + 5, Key: []byte("order-1"), // and no value: a tombstone
		Headers: h.Append("sluice-delay", []byte("5m")),
	})
	produced, err := b.Build(nil, codecs, batch.Options{Codec: batch.Zstd})
	if err != nil {
		fmt.Println(err)
		return
	}

	rules := batch.DefaultRules(sent.UnixMilli())
	rules.HeaderPrefix = "sluice-"
	header, err := batch.Single(produced)
	if err != nil {
		fmt.Println(err)
		return
	}
	sum, err := codecs.Validate(header, &rules)
	if err != nil {
		fmt.Println(err)
		return
	}
	header.Stamp(rules.LogAppendTime, sum.MaxTimestamp)
	header.SetBaseOffset(41)
	fmt.Printf("%d records from offset %d, broker headers: %v\n", sum.Count, header.BaseOffset(), sum.Prefixed)

	it := codecs.Records(produced)
	defer it.Close()
	for it.Next() {
		r := it.Record()
		delay, _ := r.Headers.Get("sluice-delay")
		fmt.Printf("%d %s %q null=%v delay=%q\n",
			header.BaseOffset()+int64(r.OffsetDelta), r.Key, r.Value, r.Value == nil, delay)
	}
	if err := it.Err(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 2 records from offset 41, broker headers: true
	// 41 order-1 "created" null=false delay=""
	// 42 order-1 "" null=true delay="5m"
}

// A record that breaks a rule is named, so that the producer can tell which of its
// messages was at fault.
func ExampleRecordsError() {
	codecs := batch.NewCodecs(batch.Limits{})
	var b batch.Builder
	b.Add(&batch.Record{Timestamp: 1000, Key: []byte("k")})
	b.Add(&batch.Record{Timestamp: 1000})
	produced, _ := b.Build(nil, codecs, batch.Options{})

	rules := batch.DefaultRules(1000)
	rules.Compacted = true
	_, err := codecs.Validate(produced, &rules)
	fmt.Println(err)
	// Output:
	// INVALID_RECORD: record 1 of the batch has no key, which a compacted topic requires
}
