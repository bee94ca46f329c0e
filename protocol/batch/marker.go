package batch

import (
	"encoding/binary"

	"github.com/sluicemq/sluice/protocol/kerr"
)

// Marker is the one record of a control batch that ends a transaction in a
// partition.
type Marker struct {
	Commit           bool // or abort
	ProducerID       int64
	ProducerEpoch    int16
	CoordinatorEpoch int32
	Timestamp        int64 // in milliseconds
}

// The control record's key is a version and a type, its value a version and
// the coordinator epoch.
const (
	markerVersion = 0
	markerAbort   = 0
	markerCommit  = 1

	markerKeySize   = 4
	markerValueSize = 6
)

// AppendMarker appends to dst the control batch of the marker, at offset 0.
func AppendMarker(dst []byte, m Marker) []byte {
	var (
		key   [markerKeySize]byte
		value [markerValueSize]byte
		kind  uint16 = markerAbort
	)
	if m.Commit {
		kind = markerCommit
	}
	binary.BigEndian.PutUint16(key[0:], markerVersion)
	binary.BigEndian.PutUint16(key[2:], kind)
	binary.BigEndian.PutUint16(value[0:], markerVersion)
	binary.BigEndian.PutUint32(value[2:], uint32(m.CoordinatorEpoch))

	var b Builder
	b.Add(&Record{Timestamp: m.Timestamp, Key: key[:], Value: value[:]})
	// One small uncompressed record can always be built.
	out, _ := b.Build(dst, nil, Options{
		Attributes: Transactional | Control,
		Producer:   &Producer{ID: m.ProducerID, Epoch: m.ProducerEpoch, Sequence: -1},
	})
	return out
}

// ParseMarker reads the marker of a control batch, which must have passed Split.
// It fails with InvalidRecord if the batch is not one that AppendMarker, or
// Kafka, would write; of versions later than the known one the known fields are
// read.
func ParseMarker(h Header) (Marker, error) {
	if a := h.Attributes(); !a.Has(Control) || a.Codec() != None {
		return Marker{}, kerr.New(kerr.InvalidRecord, "the batch is no control batch")
	}
	w := makeWalker(h, h[HeaderSize:h.Size()])
	if h.Count() != 1 {
		return Marker{}, kerr.New(kerr.InvalidRecord, "the control batch has %d records", h.Count())
	}
	if ok, f := w.next(); !ok {
		return Marker{}, recordFault(w.seen, f)
	}
	key, value := w.record.Key, w.record.Value
	if len(key) < markerKeySize || len(value) < markerValueSize {
		return Marker{}, kerr.New(kerr.InvalidRecord,
			"the control record has a key of %d and a value of %d bytes", len(key), len(value))
	}
	kind := binary.BigEndian.Uint16(key[2:])
	if kind != markerAbort && kind != markerCommit {
		return Marker{}, kerr.New(kerr.InvalidRecord, "the control record has type %d", kind)
	}
	return Marker{
		Commit:           kind == markerCommit,
		ProducerID:       h.ProducerID(),
		ProducerEpoch:    h.ProducerEpoch(),
		CoordinatorEpoch: int32(binary.BigEndian.Uint32(value[2:])),
		Timestamp:        w.record.Timestamp,
	}, nil
}
