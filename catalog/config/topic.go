package config

import "fmt"

// Topic is the settings of one topic as they hold: its overrides, and the
// broker's values for the rest. It is immutable.
type Topic struct {
	MaxMessageBytes      int32 // a whole batch, as sent
	MaxDecompressedBytes int32 // a record of a compressed batch
	RetentionMs          int64 // -1: no limit
	RetentionBytes       int64 // per partition; -1: no limit
	Cleanup              CleanupPolicy
	Timestamp            TimestampType
	TimestampBeforeMaxMs int64
	TimestampAfterMaxMs  int64
	Compression          Compression
	GzipLevel            int32
	LZ4Level             int32
	ZstdLevel            int32
	MinInsyncReplicas    int32 // counts at most as many as there are replicas
	DeleteRetentionMs    int64
	MinCompactionLagMs   int64
	MaxCompactionLagMs   int64
}

// CleanupPolicy is the set of a topic's cleanup policies.
type CleanupPolicy uint8

// The cleanup policies; both, one or none may hold.
const (
	CleanupDelete CleanupPolicy = 1 << iota
	CleanupCompact
)

// Delete reports whether records go when retention says so.
func (p CleanupPolicy) Delete() bool { return p&CleanupDelete != 0 }

// Compact reports whether the topic is compacted, so that every record must
// have a key.
func (p CleanupPolicy) Compact() bool { return p&CleanupCompact != 0 }

func (p *CleanupPolicy) setText(s string) {
	*p = 0
	for _, item := range splitList(s) {
		switch item {
		case "delete":
			*p |= CleanupDelete
		case "compact":
			*p |= CleanupCompact
		}
	}
}

// TimestampType says whose clock a topic's records carry, with the number that
// bit 3 of a record batch's attributes uses.
type TimestampType int8

// The types of timestamp.
const (
	CreateTime    TimestampType = 0
	LogAppendTime TimestampType = 1
)

func (t *TimestampType) setText(s string) {
	*t = CreateTime
	if s == "LogAppendTime" {
		*t = LogAppendTime
	}
}

// Compression says how a topic's batches are stored, with the numbers that the
// lowest three bits of a record batch's attributes use.
type Compression int8

// The ways to store batches.
const (
	AsProduced   Compression = -1 // as the producer sent them
	Uncompressed Compression = 0
	Gzip         Compression = 1
	Snappy       Compression = 2
	LZ4          Compression = 3
	Zstd         Compression = 4
)

func (c *Compression) setText(s string) {
	switch s {
	case "uncompressed":
		*c = Uncompressed
	case "gzip":
		*c = Gzip
	case "snappy":
		*c = Snappy
	case "lz4":
		*c = LZ4
	case "zstd":
		*c = Zstd
	default:
		*c = AsProduced
	}
}

// CompressionLevel returns the level for the codec in Compression; 0 for those
// that have none.
func (t *Topic) CompressionLevel() int32 {
	switch t.Compression {
	case Gzip:
		return t.GzipLevel
	case LZ4:
		return t.LZ4Level
	case Zstd:
		return t.ZstdLevel
	}
	return 0
}

// Topic resolves the settings of a topic with the overrides. Overrides that are
// unknown or do not parse, which only a state written by another version can
// hold, count as not set.
func (b *Broker) Topic(overrides Overrides) *Topic {
	t := new(Topic)
	for _, k := range topicTable {
		if k.topic == nil {
			continue
		}
		assign(k.topic(t), b.topicValue(k, overrides))
	}
	return t
}

// topicValue returns the value in effect in canonical form.
func (b *Broker) topicValue(k *Key, overrides Overrides) string {
	if value, ok := overrides.Get(k.Name); ok {
		if text, err := k.Canonical(value); err == nil {
			return text
		}
	}
	if value, _, ok := b.firstSynonym(k); ok {
		if text, err := k.Canonical(value); err == nil {
			return text
		}
	}
	return k.Default
}

// CheckTopic returns an error if the overrides, each of which is valid, do not
// go together.
func (b *Broker) CheckTopic(overrides Overrides) error {
	t := b.Topic(overrides)
	if t.MinCompactionLagMs > t.MaxCompactionLagMs {
		return fmt.Errorf("min.compaction.lag.ms (%d) is more than max.compaction.lag.ms (%d)",
			t.MinCompactionLagMs, t.MaxCompactionLagMs)
	}
	return nil
}
