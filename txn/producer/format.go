package producer

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/sluicemq/sluice/log/entry"
)

// The layouts of FORMAT.md. Nothing outside this file knows a byte of them.
const (
	keySpace      = 'p'
	kindMeta      = 0
	kindProducers = 1

	producerKeyBytes = 2 + 8 + 8

	valueVersion  = 2
	valueHead     = 32
	valueHeadV1   = 16
	batchBytes    = 20
	maxValueBytes = valueHead + batchesKept*batchBytes

	flagOpen    = 1
	flagRewound = 2
	flagMarked  = 4
	allFlags    = flagOpen | flagRewound | flagMarked

	metaVersion = 1
	metaBytes   = 24

	expireVersion = 1
	expireBytes   = 20

	maxExpirationMs = math.MaxInt64 / uint64(time.Millisecond)
)

var (
	le = binary.LittleEndian
	be = binary.BigEndian
)

// checkVersion looks at the first byte of a value, which says how to read it.
func checkVersion(b []byte, known byte) error {
	if len(b) == 0 || b[0] == 0 {
		return fmt.Errorf("%w: %x does not begin with a version", ErrCorrupt, b)
	}
	if b[0] > known {
		return fmt.Errorf("%w: version %d, known up to %d", ErrNewer, b[0], known)
	}
	return nil
}

func metaKey() []byte { return []byte{keySpace, kindMeta} }

// producersRange returns the range of the keys of all producers.
func producersRange() (from, to []byte) {
	return []byte{keySpace, kindProducers}, []byte{keySpace, kindProducers + 1}
}

// partitionRange returns the range of the keys of a partition's producers.
func partitionRange(p entry.Partition) (from, to []byte) {
	if p == math.MaxUint64 {
		_, to = producersRange()
	} else {
		to = be.AppendUint64([]byte{keySpace, kindProducers}, uint64(p)+1)
	}
	return be.AppendUint64([]byte{keySpace, kindProducers}, uint64(p)), to
}

func appendProducerKey(dst []byte, k key) []byte {
	dst = append(dst, keySpace, kindProducers)
	dst = be.AppendUint64(dst, uint64(k.partition))
	return be.AppendUint64(dst, uint64(k.id))
}

func decodeProducerKey(b []byte) (key, error) {
	if len(b) != producerKeyBytes || b[0] != keySpace || b[1] != kindProducers {
		return key{}, fmt.Errorf("%w: key %x is not a producer's", ErrCorrupt, b)
	}
	k := key{entry.Partition(be.Uint64(b[2:])), int64(be.Uint64(b[10:]))}
	if k.id < 0 {
		return key{}, fmt.Errorf("%w: key %x: producer id %d", ErrCorrupt, b, k.id)
	}
	return k, nil
}

// appendValue appends the value under the producer's key.
func (st *state) appendValue(dst []byte) []byte {
	dst = append(dst, valueVersion, st.count)
	dst = le.AppendUint16(dst, uint16(st.epoch))
	dst = le.AppendUint32(dst, uint32(st.lastSequence))
	dst = le.AppendUint64(dst, uint64(st.lastEntry))
	dst = le.AppendUint64(dst, uint64(st.lastTime))
	dst = append(dst, st.flags(), 0, 0, 0)
	first := st.first
	if !st.open && !st.rewound {
		first = 0
	}
	dst = le.AppendUint32(dst, uint32(first))
	for i := range int(st.count) {
		dst = le.AppendUint64(dst, uint64(st.offsets[i]))
		dst = le.AppendUint64(dst, uint64(st.times[i]))
		dst = le.AppendUint32(dst, uint32(st.deltas[i]))
	}
	return dst
}

func (st *state) flags() (flags byte) {
	if st.open {
		flags |= flagOpen
	}
	if st.rewound {
		flags |= flagRewound
	}
	if st.marked {
		flags |= flagMarked
	}
	return flags
}

// decodeValue sets what appendValue has appended. After an error the state is
// not to be used.
func (st *state) decodeValue(b []byte) error {
	if err := checkVersion(b, valueVersion); err != nil {
		return err
	}
	head, least := valueHead, 0
	if b[0] == 1 {
		head, least = valueHeadV1, 1
	}
	count := (len(b) - head) / batchBytes
	if len(b) < head || (len(b)-head)%batchBytes != 0 || count < least || count > batchesKept {
		return fmt.Errorf("%w: value has %d bytes, which is no number of batches from %d to %d", ErrCorrupt, len(b), least, batchesKept)
	}
	st.count = b[1]
	st.epoch = int16(le.Uint16(b[2:]))
	st.lastSequence = int32(le.Uint32(b[4:]))
	st.lastEntry = entry.Index(le.Uint64(b[8:]))
	if int(st.count) != count {
		return fmt.Errorf("%w: value of %d bytes says that it has %d batches", ErrCorrupt, len(b), st.count)
	}
	for i := range count {
		at := b[head+i*batchBytes:]
		st.offsets[i] = entry.Offset(le.Uint64(at))
		st.times[i] = entry.Time(le.Uint64(at[8:]))
		st.deltas[i] = int32(le.Uint32(at[16:]))
		if st.offsets[i] < -1 || st.times[i] < 0 || st.deltas[i] < 0 {
			return fmt.Errorf("%w: batch %d with base offset %d, time %d, last offset delta %d",
				ErrCorrupt, i, st.offsets[i], st.times[i], st.deltas[i])
		}
	}
	if b[0] == 1 {
		st.lastTime = st.times[0]
	} else if err := st.decodeTransaction(b[16:valueHead]); err != nil {
		return err
	}
	if st.epoch < 0 || st.lastSequence < noSequence || st.lastSequence == noSequence && (count > 0 || st.open || st.rewound) {
		return fmt.Errorf("%w: epoch %d, last sequence %d, %d batches", ErrCorrupt, st.epoch, st.lastSequence, count)
	}
	return nil
}

// decodeTransaction sets what version 2 added: 16 bytes.
func (st *state) decodeTransaction(b []byte) error {
	st.lastTime = entry.Time(le.Uint64(b))
	flags := b[8]
	st.open, st.rewound, st.marked = flags&flagOpen != 0, flags&flagRewound != 0, flags&flagMarked != 0
	st.first = int32(le.Uint32(b[12:]))
	switch {
	case st.lastTime < 0 || flags&^allFlags != 0 || b[9]|b[10]|b[11] != 0 || st.first < 0,
		st.open && st.rewound, st.first != 0 && !st.open && !st.rewound:
		return fmt.Errorf("%w: time %d, flags %#x, first sequence %d", ErrCorrupt, st.lastTime, flags, st.first)
	}
	return nil
}

func encodeMeta(nextID int64, limits Limits) []byte {
	b := make([]byte, 0, metaBytes)
	b = append(b, metaVersion, 0, 0, 0)
	b = le.AppendUint32(b, uint32(limits.Producers))
	b = le.AppendUint64(b, uint64(nextID))
	return le.AppendUint64(b, uint64(limits.Expiration.Milliseconds()))
}

func decodeMeta(b []byte) (nextID int64, limits Limits, err error) {
	if err := checkVersion(b, metaVersion); err != nil {
		return 0, Limits{}, err
	}
	if len(b) != metaBytes || b[1]|b[2]|b[3] != 0 {
		return 0, Limits{}, fmt.Errorf("%w: value %x has not the form of version %d", ErrCorrupt, b, metaVersion)
	}
	nextID = int64(le.Uint64(b[8:]))
	limits, err = decodeLimits(le.Uint64(b[16:]), le.Uint32(b[4:]))
	if err == nil && nextID < 0 {
		err = fmt.Errorf("next producer id %d", nextID)
	}
	if err != nil {
		return 0, Limits{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return nextID, limits, nil
}

func decodeLimits(expirationMs uint64, producers uint32) (Limits, error) {
	limits := Limits{Expiration: time.Duration(expirationMs) * time.Millisecond, Producers: int(producers)}
	if expirationMs < 1 || expirationMs > maxExpirationMs {
		return limits, fmt.Errorf("expiration of %d ms is not from 1 to %d", expirationMs, maxExpirationMs)
	}
	if producers < 1 || producers > math.MaxInt32 {
		return limits, fmt.Errorf("limit of %d producers is not from 1 to %d", producers, math.MaxInt32)
	}
	return limits, nil
}

// EncodeExpire returns the payload of an entry of type TypeExpireProducers. It
// sets the limits and then forgets the producers that are beyond them as of the
// time of the entry, the longest silent first, but at most most of them, so that
// one entry does not hold up the apply loop.
func EncodeExpire(limits Limits, most int) ([]byte, error) {
	b := make([]byte, 0, expireBytes)
	b = append(b, expireVersion, 0, 0, 0)
	b = le.AppendUint32(b, uint32(min(max(limits.Producers, 0), math.MaxUint32)))
	b = le.AppendUint64(b, uint64(max(limits.Expiration, 0).Milliseconds()))
	b = le.AppendUint32(b, uint32(min(max(most, 0), math.MaxUint32)))
	if _, _, err := decodeExpire(b); err != nil {
		return nil, fmt.Errorf("encode producer limits: %w", err)
	}
	return b, nil
}

func decodeExpire(b []byte) (limits Limits, most int, err error) {
	if err := checkVersion(b, expireVersion); err != nil {
		return Limits{}, 0, err
	}
	if len(b) != expireBytes || b[1]|b[2]|b[3] != 0 {
		return Limits{}, 0, fmt.Errorf("%w: payload %x has not the form of version %d", ErrCorrupt, b, expireVersion)
	}
	limits, err = decodeLimits(le.Uint64(b[8:]), le.Uint32(b[4:]))
	return limits, int(le.Uint32(b[16:])), err
}
