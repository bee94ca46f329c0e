package batch

import (
	"fmt"
	"math"
)

// Rules are what a topic, and the version of the request, ask of a batch. There
// are no defaults for single fields; DefaultRules has those of Kafka.
type Rules struct {
	// ProduceVersion is the version of the Produce request; zstd needs 7.
	ProduceVersion int16
	// MaxBytes is max.message.bytes: the batch's size as it was received.
	MaxBytes int
	// MaxRecordBytes is max.decompressed.message.bytes: the size of a record, without
	// the length before it, in a batch that is compressed. 0 is for no limit.
	MaxRecordBytes int
	// Now is the current time in milliseconds.
	Now int64
	// LogAppendTime is message.timestamp.type.
	LogAppendTime bool
	// BeforeMaxMs and AfterMaxMs are message.timestamp.before.max.ms and
	// message.timestamp.after.max.ms: how far a record's timestamp may be from
	// Now. They do not apply with LogAppendTime.
	BeforeMaxMs, AfterMaxMs int64
	// Compacted is set if cleanup.policy has compact: each record needs a key.
	Compacted bool
	// SkipRecords leaves the records unread, whatever they hold, unless a rule
	// needs them (Compacted). Count and max timestamp are then those of the
	// producer's header.
	SkipRecords bool
	// HeaderPrefix makes Summary.Prefixed tell of headers whose name begins
	// like this. It is not looked for if it is empty or records are not read.
	HeaderPrefix string
}

// DefaultRules returns the rules of a topic whose configs were left alone, for the
// newest version of Produce.
func DefaultRules(now int64) Rules {
	return Rules{
		ProduceVersion: math.MaxInt16,
		MaxBytes:       1<<20 + 12,
		Now:            now,
		BeforeMaxMs:    math.MaxInt64,
		AfterMaxMs:     3600_000,
	}
}

// admits reports whether a record may have the timestamp. The difference is
// taken so that it cannot overflow.
func (r *Rules) admits(timestamp int64) bool {
	if timestamp == NoTimestamp {
		return true
	}
	if timestamp <= r.Now {
		behind := uint64(r.Now) - uint64(timestamp)
		return behind <= uint64(r.BeforeMaxMs)
	}
	ahead := uint64(timestamp) - uint64(r.Now)
	return ahead <= uint64(r.AfterMaxMs)
}

// bounds says in words which timestamps are admitted.
func (r *Rules) bounds() string {
	lo, hi := r.Now-r.BeforeMaxMs, r.Now+r.AfterMaxMs
	switch {
	case lo > r.Now || r.BeforeMaxMs == math.MaxInt64: // no bound, or one that no timestamp reaches
		return fmt.Sprintf("but the latest that the topic takes is %d", hi)
	case hi < r.Now:
		return fmt.Sprintf("but the earliest that the topic takes is %d", lo)
	}
	return fmt.Sprintf("but the topic takes those from %d to %d", lo, hi)
}
