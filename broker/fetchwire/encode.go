package fetchwire

import (
	"encoding/binary"
	"fmt"
	"math"
	"net"
)

// The versions that Encode knows.
const (
	MinVersion = 4
	MaxVersion = 18
)

// The versions in which parts of the response appeared.
const (
	versionLogStart         = 5
	versionSession          = 7
	versionPreferredReplica = 11
	versionFlexible         = 12
	versionTopicID          = 13
)

// The tags of a partition and of the response, and the sizes of those that
// have a fixed one.
const (
	tagDivergingEpoch  = 0
	tagCurrentLeader   = 1
	tagEndpoints       = 0
	divergingEpochSize = 4 + 8 + 1
	currentLeaderSize  = 4 + 4 + 1
)

var be = binary.BigEndian

// Encoder encodes responses one after another. The zero value is ready for use.
// It is used by one goroutine at a time.
type Encoder struct {
	body    []byte      // all of the response but the records
	cuts    []cut       // where in body records belong
	pieces  net.Buffers // body and records in order
	version int16
}

// cut says that a piece of records belongs before body[at].
type cut struct {
	at    int
	piece []byte
}

// inlineBytes is up to which size a piece of records is copied into the body.
// A piece of its own costs the vectored write more than the copy: responses of
// pieces of 100 to 300 bytes go out in a quarter to a third less time when they
// are copied; at 1 KiB there is nothing to choose, and beyond the copy loses.
const inlineBytes = 512

// Encode returns the body of the response as the client of the version reads it
// (the response header does not belong to it), and its size in bytes. The
// returned pieces are borrowed from the encoder until the next call, and from
// the response's records; writing them with net.Buffers.WriteTo is allowed.
//
// It fails for a version that is not from MinVersion to MaxVersion, and for a
// response of 2 GiB and more.
func (e *Encoder) Encode(version int16, r *Response) (net.Buffers, int, error) {
	if version < MinVersion || version > MaxVersion {
		return nil, 0, fmt.Errorf("encode fetch response: version %d is not from %d to %d", version, MinVersion, MaxVersion)
	}
	e.version = version
	e.Reset()

	b := be.AppendUint32(e.body, uint32(r.ThrottleMs))
	if version >= versionSession {
		b = be.AppendUint16(b, uint16(r.ErrorCode))
		b = be.AppendUint32(b, uint32(r.SessionID))
	}
	b = e.appendLen(b, len(r.Topics))
	for i := range r.Topics {
		t := &r.Topics[i]
		if version >= versionTopicID {
			b = append(b, t.ID[:]...)
		} else {
			b = e.appendString(b, t.Name)
		}
		b = e.appendLen(b, len(t.Partitions))
		for j := range t.Partitions {
			b = e.appendPartition(b, &t.Partitions[j])
		}
		b = e.appendNoTags(b)
	}
	b = e.appendEndpoints(b, r.Endpoints)
	e.body = b

	size := e.cut()
	if size > math.MaxInt32 {
		return nil, 0, fmt.Errorf("encode fetch response: %d bytes do not fit into a frame", size)
	}
	return e.pieces, size, nil
}

// Reset lets go of the records of the last response. The encoder's memory stays
// for the next one.
func (e *Encoder) Reset() {
	clear(e.cuts)
	clear(e.pieces)
	e.body, e.cuts, e.pieces = e.body[:0], e.cuts[:0], e.pieces[:0]
}

// Cap returns how many bytes of memory the encoder holds on to, so that a pool
// can let go of one that a huge response has blown up.
func (e *Encoder) Cap() int { return cap(e.body) + 32*cap(e.cuts) + 24*cap(e.pieces) }

// cut lists the pieces in order, and returns their size together. It runs when
// the body has stopped moving.
func (e *Encoder) cut() (size int) {
	size = len(e.body)
	from := 0
	for _, c := range e.cuts {
		if from < c.at {
			e.pieces = append(e.pieces, e.body[from:c.at:c.at])
		}
		e.pieces = append(e.pieces, c.piece)
		size += len(c.piece)
		from = c.at
	}
	if from < len(e.body) {
		e.pieces = append(e.pieces, e.body[from:])
	}
	return size
}

func (e *Encoder) appendPartition(b []byte, p *Partition) []byte {
	b = be.AppendUint32(b, uint32(p.Partition))
	b = be.AppendUint16(b, uint16(p.ErrorCode))
	b = be.AppendUint64(b, uint64(p.HighWatermark))
	b = be.AppendUint64(b, uint64(p.LastStable))
	if e.version >= versionLogStart {
		b = be.AppendUint64(b, uint64(p.LogStart))
	}
	b = e.appendAborted(b, p.Aborted)
	if e.version >= versionPreferredReplica {
		b = be.AppendUint32(b, uint32(p.PreferredReplica))
	}
	records := 0
	for _, piece := range p.Records {
		records += len(piece)
	}
	b = e.appendLen(b, records)
	for _, piece := range p.Records {
		if len(piece) > inlineBytes {
			e.cuts = append(e.cuts, cut{len(b), piece})
		} else {
			b = append(b, piece...)
		}
	}
	return e.appendPartitionTags(b, p)
}

func (e *Encoder) appendAborted(b []byte, aborted []AbortedTxn) []byte {
	if aborted == nil {
		return e.appendLen(b, -1)
	}
	b = e.appendLen(b, len(aborted))
	for _, a := range aborted {
		b = be.AppendUint64(b, uint64(a.ProducerID))
		b = be.AppendUint64(b, uint64(a.FirstOffset))
		b = e.appendNoTags(b)
	}
	return b
}

func (e *Encoder) appendPartitionTags(b []byte, p *Partition) []byte {
	if e.version < versionFlexible {
		return b
	}
	diverges := p.DivergingEpoch != DivergingEpoch{Epoch: -1, EndOffset: -1}
	moved := p.CurrentLeader != CurrentLeader{ID: -1, Epoch: -1}
	count := len(b)
	b = append(b, 0)
	if diverges {
		b[count]++
		b = append(b, tagDivergingEpoch, divergingEpochSize)
		b = be.AppendUint32(b, uint32(p.DivergingEpoch.Epoch))
		b = be.AppendUint64(b, uint64(p.DivergingEpoch.EndOffset))
		b = e.appendNoTags(b)
	}
	if moved {
		b[count]++
		b = append(b, tagCurrentLeader, currentLeaderSize)
		b = be.AppendUint32(b, uint32(p.CurrentLeader.ID))
		b = be.AppendUint32(b, uint32(p.CurrentLeader.Epoch))
		b = e.appendNoTags(b)
	}
	return b
}

// appendEndpoints appends the tags of the response, of which this is the one.
func (e *Encoder) appendEndpoints(b []byte, endpoints []Endpoint) []byte {
	if len(endpoints) == 0 {
		return e.appendNoTags(b)
	}
	if e.version < versionFlexible {
		return b
	}
	b = append(b, 1, tagEndpoints)
	// The size stands before what it is the size of, and its own width depends
	// on it. Endpoints are few: write them, see how long they are, write again.
	at := len(b)
	b = e.appendEndpointList(b, endpoints)
	size := len(b) - at
	b = binary.AppendUvarint(b[:at], uint64(size))
	return e.appendEndpointList(b, endpoints)
}

func (e *Encoder) appendEndpointList(b []byte, endpoints []Endpoint) []byte {
	b = e.appendLen(b, len(endpoints))
	for i := range endpoints {
		n := &endpoints[i]
		b = be.AppendUint32(b, uint32(n.NodeID))
		b = e.appendString(b, n.Host)
		b = be.AppendUint32(b, uint32(n.Port))
		if n.Rack == nil {
			b = e.appendLen(b, -1)
		} else {
			b = e.appendString(b, *n.Rack)
		}
		b = e.appendNoTags(b)
	}
	return b
}

// appendLen appends the length of an array or of bytes; -1 stands for null.
func (e *Encoder) appendLen(b []byte, n int) []byte {
	if e.version >= versionFlexible {
		return binary.AppendUvarint(b, uint64(n+1))
	}
	return be.AppendUint32(b, uint32(n))
}

func (e *Encoder) appendString(b []byte, s string) []byte {
	if e.version >= versionFlexible {
		b = binary.AppendUvarint(b, uint64(len(s)+1))
	} else {
		b = be.AppendUint16(b, uint16(len(s)))
	}
	return append(b, s...)
}

// appendNoTags appends an empty list of tagged fields, where versions have them.
func (e *Encoder) appendNoTags(b []byte) []byte {
	if e.version >= versionFlexible {
		return append(b, 0)
	}
	return b
}
