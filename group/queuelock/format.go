package queuelock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/sluicemq/sluice/group/codec"
	"github.com/sluicemq/sluice/log/entry"
)

// The layouts of FORMAT.md. Nothing outside this file knows a byte of them.
const (
	keySpace      = 'l'
	changeVersion = 1
	lockVersion   = 1
	leastOp       = 3
)

var (
	le = binary.LittleEndian
	be = binary.BigEndian
)

// change is the payload of an entry of type TypeQueueLock.
type change struct {
	group string
	ops   []op // in the order in which they are done
}

// op is one operation.
type op struct {
	kind      opKind
	partition entry.Partition
	epoch     entry.Index // of the lock that is meant
	member    string
	until     entry.Time
}

type opKind uint8

const (
	opAcquire opKind = 1 // for a member, which waits if it cannot have it
	opRelease opKind = 2 // given up
	opLeave   opKind = 3 // the holder was thrown out; its lease ends at until
	opExpire  opKind = 4 // the lease is over
	opMove    opKind = 5 // to the new id of a static member
	opForget  opKind = 6 // nobody waits any more
)

func (c *change) encode() []byte {
	dst := codec.AppendString([]byte{changeVersion}, c.group)
	dst = binary.AppendUvarint(dst, uint64(len(c.ops)))
	for i := range c.ops {
		o := &c.ops[i]
		dst = append(dst, byte(o.kind))
		dst = binary.AppendUvarint(dst, uint64(o.partition))
		switch o.kind {
		case opAcquire:
			dst = codec.AppendString(dst, o.member)
		case opForget:
			dst = append(dst, 0)
		default:
			dst = binary.AppendUvarint(dst, uint64(o.epoch))
		}
		switch o.kind {
		case opLeave:
			dst = binary.AppendUvarint(dst, uint64(o.until))
		case opMove:
			dst = codec.AppendString(dst, o.member)
		}
	}
	return dst
}

func decodeChange(payload []byte) (*change, error) {
	r := codec.Reader{Left: payload}
	r.Version(changeVersion)
	c := &change{group: r.String("the group")}
	for n := r.Count("the number of operations", leastOp); n > 0 && r.Err() == nil; n-- {
		o := op{kind: opKind(r.Byte("an operation")), partition: entry.Partition(r.Uvarint("a partition", math.MaxUint64))}
		switch o.kind {
		case opAcquire:
			o.member = r.String("a member")
		case opForget:
			if r.Byte("a zero") != 0 {
				r.Fail("not a zero")
			}
		case opRelease, opLeave, opExpire, opMove:
			o.epoch = entry.Index(r.Uvarint("an epoch", math.MaxUint64))
		default:
			r.Fail("operation %d", o.kind)
		}
		switch o.kind {
		case opLeave:
			o.until = entry.Time(r.Uvarint("the end of a lease", math.MaxInt64))
		case opMove:
			o.member = r.String("a member")
		}
		if r.Err() == nil && (o.kind == opAcquire || o.kind == opMove) && o.member == "" {
			r.Fail("a member without an id")
		}
		if r.Err() == nil && o.kind == opLeave && o.until == 0 {
			r.Fail("a lease that ends at 0")
		}
		c.ops = append(c.ops, o)
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	return c, nil
}

func lockKey(group string, p entry.Partition) []byte {
	key := be.AppendUint16([]byte{keySpace}, uint16(min(len(group), math.MaxUint16)))
	return be.AppendUint64(append(key, group...), uint64(p))
}

func decodeKey(key []byte) (group string, p entry.Partition, err error) {
	if len(key) < 3 || len(key) != 3+int(be.Uint16(key[1:]))+8 {
		return "", 0, fmt.Errorf("%w: key %x is not a lock's", codec.ErrCorrupt, key)
	}
	n := len(key) - 8
	return string(key[3:n]), entry.Partition(be.Uint64(key[n:])), nil
}

func (l *Lock) appendValue(dst []byte) []byte {
	dst = append(dst, lockVersion)
	dst = le.AppendUint64(dst, uint64(l.Epoch))
	dst = le.AppendUint64(dst, uint64(l.Since))
	dst = le.AppendUint64(dst, uint64(l.Until))
	dst = codec.AppendString(dst, l.Member)
	return codec.AppendString(dst, l.Next)
}

func decodeLock(p entry.Partition, value []byte) (*Lock, error) {
	r := codec.Reader{Left: value}
	r.Version(lockVersion)
	l := &Lock{
		Partition: p, Epoch: entry.Index(r.Uint64("the epoch")),
		Since: entry.Time(r.Uint64("the time")), Until: entry.Time(r.Uint64("the end of the lease")),
		Member: r.String("the member"), Next: r.String("who waits"),
	}
	if r.Err() == nil && (l.Since < 0 || l.Until < 0 || l.Member == "") {
		r.Fail("member %q, times %d and %d", l.Member, l.Since, l.Until)
	}
	return l, r.Done()
}

// Checkpoint writes what changed since the last one.
func (t *Table) Checkpoint(w entry.Writer) {
	for group, partitions := range t.unsaved {
		for p := range partitions {
			if l := t.groups[group][p]; l != nil {
				w.Set(lockKey(group, p), l.appendValue(nil))
			} else {
				w.Delete(lockKey(group, p))
			}
		}
	}
	clear(t.unsaved)
}

// Load reads what checkpoints have written. It is called once, before all else.
func (t *Table) Load(r entry.Reader) error {
	var bad error
	err := r.Scan([]byte{keySpace}, []byte{keySpace + 1}, func(key, value []byte) bool {
		group, p, err := decodeKey(key)
		var l *Lock
		if err == nil {
			l, err = decodeLock(p, value)
		}
		if err != nil {
			bad = fmt.Errorf("key %x: %w", key, err)
			return false
		}
		if t.groups[group] == nil {
			t.groups[group] = make(map[entry.Partition]*Lock)
		}
		t.groups[group][p] = l
		return true
	})
	if err := errors.Join(err, bad); err != nil {
		return fmt.Errorf("load queue locks: %w", err)
	}
	return nil
}
