package kafka

import (
	"encoding/binary"
	"math"

	"github.com/sluicemq/sluice/log/entry"
)

// The payloads of entries, behind the control batch where there is one. FORMAT.md
// has them byte by byte. Append appends one, decode reads it.

const payloadVersion = 1

var le = binary.LittleEndian

// Init asks for the producer id and epoch of a transactional id. An open
// transaction is aborted; the entry's control batch is for that.
type Init struct {
	ID        string
	TimeoutMs int32
	// What the producer has already, -1 and -1 for a new instance.
	ProducerID int64
	Epoch      int16
}

// Append appends the payload of an entry of type TypeInitTransactions.
func (q *Init) Append(dst []byte) []byte {
	dst = append(dst, payloadVersion)
	dst = appendString(dst, q.ID)
	dst = le.AppendUint32(dst, uint32(q.TimeoutMs))
	dst = le.AppendUint64(dst, uint64(q.ProducerID))
	return le.AppendUint16(dst, uint16(q.Epoch))
}

func decodeInit(payload []byte) (*Init, error) {
	r := reader{left: payload}
	r.version(payloadVersion)
	q := &Init{ID: r.string("the transactional id"), TimeoutMs: int32(r.uint32("the time-out")),
		ProducerID: int64(r.uint64("the producer id")), Epoch: int16(r.uint16("the epoch"))}
	if q.ID == "" || q.TimeoutMs <= 0 || (q.ProducerID < 0) != (q.Epoch < 0) || q.ProducerID < noProducer || q.Epoch < noEpoch {
		r.fail("transactional id %q, time-out %d, producer id %d, epoch %d", q.ID, q.TimeoutMs, q.ProducerID, q.Epoch)
	}
	return q, r.done()
}

// End asks to end a transaction.
type End struct {
	ID         string
	ProducerID int64
	Epoch      int16
	Commit     bool
	// Newer is set for the protocol in which the epoch is raised with each end.
	Newer bool
	// TimedOut is set for a transaction that took too long; only the one that began
	// at Started is aborted.
	TimedOut bool
	Started  entry.Time
}

const (
	endCommit   = 1
	endNewer    = 2
	endTimedOut = 4
	endFlags    = endCommit | endNewer | endTimedOut
)

// Marker returns the control batch that the entry begins with.
func (q *End) Marker() Marker {
	m := Marker{ProducerID: q.ProducerID, Epoch: q.Epoch, Commit: q.Commit}
	if q.Newer || q.TimedOut {
		m.Epoch++
	}
	return m
}

// Append appends the payload of an entry of type TypeEndTransaction.
func (q *End) Append(dst []byte) []byte {
	var flags byte
	if q.Commit {
		flags |= endCommit
	}
	if q.Newer {
		flags |= endNewer
	}
	if q.TimedOut {
		flags |= endTimedOut
	}
	dst = append(dst, payloadVersion, flags)
	dst = appendString(dst, q.ID)
	dst = le.AppendUint64(dst, uint64(q.ProducerID))
	dst = le.AppendUint16(dst, uint16(q.Epoch))
	return le.AppendUint64(dst, uint64(q.Started))
}

func decodeEnd(payload []byte) (*End, error) {
	r := reader{left: payload}
	r.version(payloadVersion)
	flags := r.byte("the flags")
	q := &End{Commit: flags&endCommit != 0, Newer: flags&endNewer != 0, TimedOut: flags&endTimedOut != 0,
		ID: r.string("the transactional id"), ProducerID: int64(r.uint64("the producer id")), Epoch: int16(r.uint16("the epoch")),
		Started: entry.Time(r.uint64("the start"))}
	if flags&^endFlags != 0 || q.TimedOut && (q.Commit || q.Newer) || !q.TimedOut && q.Started != 0 || q.Started < 0 {
		r.fail("flags %#x, started at %d", flags, q.Started)
	}
	return q, r.done()
}

// Add asks to add partitions and groups to a transaction, and begins one if none
// is open.
type Add struct {
	ID         string
	ProducerID int64
	Epoch      int16
	Partitions []entry.Partition
	Groups     []string
}

// Append appends the payload of an entry of type TypeAddToTransaction.
func (q *Add) Append(dst []byte) []byte {
	dst = append(dst, payloadVersion)
	dst = appendString(dst, q.ID)
	dst = le.AppendUint64(dst, uint64(q.ProducerID))
	dst = le.AppendUint16(dst, uint16(q.Epoch))
	dst = appendPartitions(dst, q.Partitions)
	dst = binary.AppendUvarint(dst, uint64(len(q.Groups)))
	for _, g := range q.Groups {
		dst = appendString(dst, g)
	}
	return dst
}

func decodeAdd(payload []byte) (*Add, error) {
	r := reader{left: payload}
	r.version(payloadVersion)
	q := &Add{ID: r.string("the transactional id"), ProducerID: int64(r.uint64("the producer id")), Epoch: int16(r.uint16("the epoch"))}
	q.Partitions = r.partitions()
	for n := r.count("the number of groups", 1); n > 0 && r.err == nil; n-- {
		q.Groups = append(q.Groups, r.string("a group"))
	}
	return q, r.done()
}

// Offsets is the head of an entry that commits offsets within a transaction; the
// commit itself follows it.
type Offsets struct {
	ID         string
	ProducerID int64
	Epoch      int16
	Group      string
	// Adds is set for the protocol in which the group need not be added before.
	Adds bool
}

// Append appends the head of an entry of type TypePendOffsets. The rest is for the
// caller to append.
func (q *Offsets) Append(dst []byte) []byte {
	dst = append(dst, payloadVersion, bit(q.Adds))
	dst = appendString(dst, q.ID)
	dst = appendString(dst, q.Group)
	dst = le.AppendUint64(dst, uint64(q.ProducerID))
	return le.AppendUint16(dst, uint16(q.Epoch))
}

// DecodeOffsets reads the head, and returns what follows it.
func DecodeOffsets(payload []byte) (q Offsets, rest []byte, err error) {
	r := reader{left: payload}
	r.version(payloadVersion)
	q.Adds = r.flag("whether the group is added")
	q.ID, q.Group = r.string("the transactional id"), r.string("the group")
	q.ProducerID, q.Epoch = int64(r.uint64("the producer id")), int16(r.uint16("the epoch"))
	return q, r.left, r.err
}

// Markers asks to put a control batch, with which the entry begins, into
// partitions, whatever the transactional id's state: for an operator.
type Markers struct {
	Newer      bool // the epoch must be above that of the producer
	Partitions []entry.Partition
}

// Append appends the payload of an entry of type TypeWriteMarkers.
func (q *Markers) Append(dst []byte) []byte {
	return appendPartitions(append(dst, payloadVersion, bit(q.Newer)), q.Partitions)
}

func decodeMarkers(payload []byte) (*Markers, error) {
	r := reader{left: payload}
	r.version(payloadVersion)
	q := &Markers{Newer: r.flag("whether the epoch must be higher"), Partitions: r.partitions()}
	return q, r.done()
}

// Expire asks to forget transactional ids that were idle for long.
type Expire struct {
	ExpirationMs int64
	IDs          []string
}

// Append appends the payload of an entry of type TypeExpireTransactions.
func (q *Expire) Append(dst []byte) []byte {
	dst = append(dst, payloadVersion)
	dst = le.AppendUint64(dst, uint64(q.ExpirationMs))
	dst = binary.AppendUvarint(dst, uint64(len(q.IDs)))
	for _, id := range q.IDs {
		dst = appendString(dst, id)
	}
	return dst
}

func decodeExpire(payload []byte) (*Expire, error) {
	r := reader{left: payload}
	r.version(payloadVersion)
	q := &Expire{ExpirationMs: int64(r.uint64("the expiration"))}
	if q.ExpirationMs < 1 || q.ExpirationMs > math.MaxInt64/4 {
		r.fail("expiration of %d ms", q.ExpirationMs)
	}
	for n := r.count("the number of ids", 1); n > 0 && r.err == nil; n-- {
		q.IDs = append(q.IDs, r.string("a transactional id"))
	}
	return q, r.done()
}

func appendPartitions(dst []byte, all []entry.Partition) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(all)))
	for _, p := range all {
		dst = binary.AppendUvarint(dst, uint64(p))
	}
	return dst
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func bit(set bool) byte {
	if set {
		return 1
	}
	return 0
}
