package raw

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Record is a record of a batch. A nil key, value or header value is null.
type Record struct {
	Key, Value []byte
	Time       int64 // in ms
	Headers    []kmsg.Header
}

// Batch says what a record batch holds. The zero value is an empty batch
// without producer.
type Batch struct {
	Records []Record
	Codec   kgo.CompressionCodecType
	// Producer, Epoch and Sequence are those of an idempotent producer; nil: none.
	Producer *Producer
	// Change is called with the batch before its checksum is taken, to make it
	// wrong on purpose. Records are in Records already.
	Change func(*kmsg.RecordBatch)
}

// Producer is an idempotent producer's part of a batch.
type Producer struct {
	ID       int64
	Epoch    int16
	Sequence int32
}

// Values returns a batch of records with these values, and no keys.
func Values(time int64, values ...string) Batch {
	var b Batch
	for _, v := range values {
		b.Records = append(b.Records, Record{Value: []byte(v), Time: time})
	}
	return b
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// headSize is the size of a batch's header; crcFrom is where its checksum begins.
const (
	headSize = 61
	crcAt    = 17
	crcFrom  = 21
)

// Bytes returns the batch as it goes into a request.
func (b Batch) Bytes() []byte {
	batch := kmsg.NewRecordBatch()
	batch.Magic, batch.PartitionLeaderEpoch = 2, -1
	batch.ProducerID, batch.ProducerEpoch, batch.FirstSequence = -1, -1, -1
	if p := b.Producer; p != nil {
		batch.ProducerID, batch.ProducerEpoch, batch.FirstSequence = p.ID, p.Epoch, p.Sequence
	}
	batch.NumRecords, batch.LastOffsetDelta = int32(len(b.Records)), int32(len(b.Records)-1)
	var records []byte
	for i := range b.Records {
		in := &b.Records[i]
		if i == 0 {
			batch.FirstTimestamp, batch.MaxTimestamp = in.Time, in.Time
		}
		batch.MaxTimestamp = max(batch.MaxTimestamp, in.Time)
		r := kmsg.NewRecord()
		r.TimestampDelta64, r.OffsetDelta = in.Time-batch.FirstTimestamp, int32(i)
		r.Key, r.Value, r.Headers = in.Key, in.Value, in.Headers
		body := r.AppendTo(nil)
		_, skip := binary.Varint(body) // the length, which kmsg writes as it stands
		records = binary.AppendVarint(records, int64(len(body)-skip))
		records = append(records, body[skip:]...)
	}
	batch.Records = b.compress(records)
	batch.Attributes |= int16(b.Codec)
	if b.Change != nil {
		b.Change(&batch)
	}
	batch.Length = int32(headSize + len(batch.Records) - 12)
	out := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(out[crcAt:], crc32.Checksum(out[crcFrom:], castagnoli))
	return out
}

func (b Batch) compress(records []byte) []byte {
	compressor, err := kgo.DefaultCompressor(Codecs()[b.Codec])
	if err != nil {
		panic(fmt.Sprintf("a codec that is not there: %v", err))
	}
	if compressor == nil {
		return records
	}
	out, _ := compressor.Compress(new(bytes.Buffer), records)
	return append([]byte(nil), out...)
}

// Codecs returns the codecs of record batches, each at its number.
func Codecs() []kgo.CompressionCodec {
	return []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
}

// Split cuts what a fetch returned into its batches. The last may be cut off
// and is left out then.
func Split(records []byte) (batches []kmsg.RecordBatch, err error) {
	for len(records) >= headSize {
		size := 12 + int(int32(binary.BigEndian.Uint32(records[8:])))
		if size < headSize {
			return batches, fmt.Errorf("a batch of %d bytes", size)
		}
		if size > len(records) {
			return batches, nil
		}
		batch := kmsg.NewRecordBatch()
		if err := batch.ReadFrom(records[:size]); err != nil {
			return batches, err
		}
		if sum := crc32.Checksum(records[crcFrom:size], castagnoli); sum != uint32(batch.CRC) {
			return batches, fmt.Errorf("the batch at offset %d has checksum %08x, its bytes have %08x", batch.FirstOffset, uint32(batch.CRC), sum)
		}
		batches = append(batches, batch)
		records = records[size:]
	}
	return batches, nil
}
