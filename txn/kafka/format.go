package kafka

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/sluicemq/sluice/log/entry"
)

// The layouts of FORMAT.md: keys and values of the state store.
const (
	keySpace         = 'x'
	kindTransactions = 0
	kindAborted      = 1

	abortedKeyBytes = 2 + 8 + 8

	transactionVersion = 1
	abortedVersion     = 1
	abortedBytes       = 1 + 3*8

	// The least that a partition, a group and an offset of a transaction take.
	leastPartition = 1 + 8
	leastGroup     = 2
	leastOffset    = 16 + 1 + 8 + 4 + 1 + 8 + 1
)

var be = binary.BigEndian

func transactionKey(id string) []byte { return append([]byte{keySpace, kindTransactions}, id...) }

func kindRange(kind byte) (from, to []byte) {
	return []byte{keySpace, kind}, []byte{keySpace, kind + 1}
}

func abortedKey(p entry.Partition, last entry.Offset) []byte {
	key := be.AppendUint64([]byte{keySpace, kindAborted}, uint64(p))
	return be.AppendUint64(key, uint64(last))
}

// abortedRange returns the range of the keys of a partition.
func abortedRange(p entry.Partition) (from, to []byte) {
	if p == math.MaxUint64 {
		_, to = kindRange(kindAborted)
	} else {
		to = abortedKey(p+1, 0)
	}
	return abortedKey(p, 0), to
}

func decodeAbortedKey(k []byte) (p entry.Partition, last entry.Offset, err error) {
	if len(k) != abortedKeyBytes {
		return 0, 0, fmt.Errorf("%w: key %x is not that of an aborted transaction", ErrCorrupt, k)
	}
	p, last = entry.Partition(be.Uint64(k[2:])), entry.Offset(be.Uint64(k[10:]))
	if last < 0 {
		return 0, 0, fmt.Errorf("%w: key %x: offset %d", ErrCorrupt, k, last)
	}
	return p, last, nil
}

func (a *aborted) appendValue(dst []byte) []byte {
	dst = append(dst, abortedVersion)
	dst = le.AppendUint64(dst, uint64(a.producerID))
	dst = le.AppendUint64(dst, uint64(a.first))
	return le.AppendUint64(dst, uint64(a.stable))
}

// decodeAborted reads the value under the key with the offset last.
func decodeAborted(last entry.Offset, value []byte) (aborted, error) {
	r := reader{left: value}
	r.version(abortedVersion)
	a := aborted{producerID: int64(r.uint64("the producer id")), last: last,
		first: entry.Offset(r.uint64("the first offset")), stable: entry.Offset(r.uint64("the stable offset"))}
	if a.producerID < 0 || a.first < 0 || a.first >= last || a.stable < 0 || a.stable > last+1 {
		r.fail("producer id %d, from %d to %d, stable %d", a.producerID, a.first, last, a.stable)
	}
	return a, r.done()
}

// appendValue appends the value of a transactional id.
func (t *transaction) appendValue(dst []byte) []byte {
	dst = append(dst, transactionVersion, byte(t.state))
	dst = le.AppendUint64(dst, uint64(t.producerID))
	dst = le.AppendUint16(dst, uint16(t.epoch))
	dst = le.AppendUint64(dst, uint64(t.beforeProducer))
	dst = le.AppendUint16(dst, uint16(t.before))
	dst = le.AppendUint32(dst, uint32(t.timeoutMs))
	dst = le.AppendUint64(dst, uint64(t.started))
	dst = le.AppendUint64(dst, uint64(t.updated))
	if t.state != Ongoing {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(len(t.partitions)))
	for _, p := range t.sortedPartitions() {
		dst = binary.AppendUvarint(dst, uint64(p))
		dst = le.AppendUint64(dst, uint64(t.partitions[p]))
	}
	dst = binary.AppendUvarint(dst, uint64(len(t.groups)))
	for _, g := range t.sortedGroups() {
		dst = appendString(dst, g)
		dst = appendOffsets(dst, t.groups[g])
	}
	return dst
}

func appendOffsets(dst []byte, of map[offsetKey]*pending) []byte {
	all := make([]*pending, 0, len(of))
	for _, o := range of {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b *pending) int {
		return cmp.Or(bytes.Compare(a.Topic[:], b.Topic[:]), cmp.Compare(a.Partition, b.Partition))
	})
	dst = binary.AppendUvarint(dst, uint64(len(all)))
	for _, o := range all {
		dst = append(dst, o.Topic[:]...)
		dst = binary.AppendUvarint(dst, uint64(o.Partition))
		dst = le.AppendUint64(dst, uint64(o.Offset))
		dst = le.AppendUint32(dst, uint32(o.LeaderEpoch))
		dst = appendString(dst, o.Metadata)
		dst = le.AppendUint64(dst, uint64(o.index))
		dst = append(dst, bit(o.stale))
	}
	return dst
}

// decodeTransaction reads the value of a transactional id.
func decodeTransaction(id string, value []byte) (*transaction, error) {
	r := reader{left: value}
	r.version(transactionVersion)
	t := &transaction{id: id, saved: true, state: State(r.byte("the state")),
		producerID: int64(r.uint64("the producer id")), epoch: int16(r.uint16("the epoch")),
		beforeProducer: int64(r.uint64("the producer id before")), before: int16(r.uint16("the epoch before")),
		timeoutMs: int32(r.uint32("the time-out")),
		started:   entry.Time(r.uint64("the start")), updated: entry.Time(r.uint64("the last change"))}
	if id == "" || t.state < Empty || t.state > CompleteAbort || t.producerID < 0 || t.epoch < 0 || t.timeoutMs <= 0 ||
		t.before < noEpoch || (t.before == noEpoch) != (t.beforeProducer == noProducer) || t.beforeProducer < noProducer ||
		t.started < never || t.updated < 0 || t.state == Ongoing && t.started == never || t.state == Empty && t.started != never {
		r.fail("transactional id %q: state %d, producer id %d, epoch %d, before %d, %d, time-out %d, started %d, updated %d",
			id, t.state, t.producerID, t.epoch, t.beforeProducer, t.before, t.timeoutMs, t.started, t.updated)
	}
	if t.state == Ongoing {
		t.decodeOpen(&r)
	}
	return t, r.done()
}

// decodeOpen reads what an open transaction has.
func (t *transaction) decodeOpen(r *reader) {
	t.partitions = make(map[entry.Partition]entry.Offset)
	for n, before := r.count("the number of partitions", leastPartition), entry.Partition(0); n > 0 && r.err == nil; n-- {
		p, first := entry.Partition(r.uvarint("a partition", math.MaxUint64)), entry.Offset(r.uint64("a first offset"))
		if first < noOffset || len(t.partitions) > 0 && p <= before {
			r.fail("partition %d with first offset %d, behind partition %d", p, first, before)
		}
		t.partitions[p], before = first, p
	}
	t.groups = make(map[string]map[offsetKey]*pending)
	for n, before := r.count("the number of groups", leastGroup), ""; n > 0 && r.err == nil; n-- {
		g := r.string("a group")
		if len(t.groups) > 0 && g <= before {
			r.fail("group %q behind group %q", g, before)
		}
		t.groups[g], before = decodeOffsets(r), g
	}
}

// decodeOffsets reads the offsets of a group; nil for none.
func decodeOffsets(r *reader) map[offsetKey]*pending {
	n := r.count("the number of offsets", leastOffset)
	if n == 0 {
		return nil
	}
	all := make(map[offsetKey]*pending, n)
	var before offsetKey
	for ; n > 0 && r.err == nil; n-- {
		o := &pending{PendingOffset: PendingOffset{Topic: r.topicID(), Partition: int32(r.uvarint("a partition", math.MaxInt32)),
			Offset: int64(r.uint64("an offset")), LeaderEpoch: int32(r.uint32("a leader epoch")), Metadata: r.string("the metadata")},
			index: entry.Index(r.uint64("an index")), stale: r.flag("whether an offset is stale")}
		key := offsetKey{o.Topic, o.Partition}
		if len(all) > 0 && cmp.Or(bytes.Compare(before.topic[:], key.topic[:]), cmp.Compare(before.partition, key.partition)) >= 0 {
			r.fail("offsets of a group are not in order")
		}
		all[key], before = o, key
	}
	return all
}
