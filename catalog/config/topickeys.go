package config

import "math"

const (
	maxLong = "9223372036854775807"
	week    = "604800000"
	day     = "86400000"
)

// as lists the broker's names for a topic setting, all in the same unit.
func as(names ...string) []SynonymKey {
	keys := make([]SynonymKey, len(names))
	for i, name := range names {
		keys[i] = SynonymKey{Name: name, Scale: 1}
	}
	return keys
}

const (
	msPerMinute = 60 * 1000
	msPerHour   = 60 * msPerMinute
)

// topicKeys returns Kafka's topic configs. What Kafka calls segment, index and
// flush settings describe the files that Kafka keeps per partition; Sluice has
// none, so they are Inert.
func topicKeys() []*Key {
	return []*Key{
		{
			Name: "cleanup.policy", Type: List, Default: "delete", check: listOf("compact", "delete"),
			Synonyms: as("log.cleanup.policy"),
			topic:    func(t *Topic) any { return &t.Cleanup },
			Doc: "What becomes of old records: delete removes them when retention.ms or retention.bytes says so; " +
				"compact keeps at least the newest record of each key, and makes the broker refuse records without a key. " +
				"Both may be given; with neither, nothing is removed. Compaction itself does not run yet: a topic that is " +
				"only compacted keeps all its records.",
		},
		{
			Name: "retention.ms", Type: Long, Default: week, check: int64From(-1),
			Synonyms: []SynonymKey{
				{"log.retention.ms", 1},
				{"log.retention.minutes", msPerMinute},
				{"log.retention.hours", msPerHour},
			},
			topic: func(t *Topic) any { return &t.RetentionMs },
			Doc: "How long records are kept under the delete policy, in milliseconds from a batch's largest timestamp; " +
				"-1 for no limit.",
		},
		{
			Name: "retention.bytes", Type: Long, Default: "-1", check: int64From(-1),
			Synonyms: as("log.retention.bytes"),
			topic:    func(t *Topic) any { return &t.RetentionBytes },
			Doc: "How many bytes of a partition are kept under the delete policy; the oldest go first; -1 for no limit. " +
				"It holds for each partition, not for the topic.",
		},
		{
			Name: "max.message.bytes", Type: Int, Default: "1048588", check: int32From(0),
			Synonyms: as("message.max.bytes"),
			topic:    func(t *Topic) any { return &t.MaxMessageBytes },
			Doc: "The largest record batch that may be written, in bytes as the producer sends it, so after compression. " +
				"A larger one is refused with MESSAGE_TOO_LARGE.",
		},
		{
			Name: "max.decompressed.message.bytes", Type: Int, Default: "2147483639", check: int32From(1),
			Synonyms: as("max.decompressed.message.bytes"),
			topic:    func(t *Topic) any { return &t.MaxDecompressedBytes },
			Doc: "The largest record, in bytes, that a compressed batch may hold. A batch with a larger one is refused with " +
				"INVALID_RECORD. Apart from that no batch may decompress to more than 128 MiB.",
		},
		{
			Name: "message.timestamp.type", Type: String, Default: "CreateTime", check: oneOf("CreateTime", "LogAppendTime"),
			Synonyms: as("log.message.timestamp.type"),
			topic:    func(t *Topic) any { return &t.Timestamp },
			Doc: "Which timestamp records have: CreateTime, the one the producer set, or LogAppendTime, the broker's clock " +
				"at the time of the append.",
		},
		{
			Name: "message.timestamp.before.max.ms", Type: Long, Default: maxLong, check: int64From(0),
			Synonyms: as("log.message.timestamp.before.max.ms"),
			topic:    func(t *Topic) any { return &t.TimestampBeforeMaxMs },
			Doc: "How far, in milliseconds, a record's timestamp may lie before the broker's clock. Older records are " +
				"refused with INVALID_TIMESTAMP. Not looked at with LogAppendTime.",
		},
		{
			Name: "message.timestamp.after.max.ms", Type: Long, Default: "3600000", check: int64From(0),
			Synonyms: as("log.message.timestamp.after.max.ms"),
			topic:    func(t *Topic) any { return &t.TimestampAfterMaxMs },
			Doc: "How far, in milliseconds, a record's timestamp may lie after the broker's clock. Later records are " +
				"refused with INVALID_TIMESTAMP. Not looked at with LogAppendTime.",
		},
		{
			Name: "compression.type", Type: String, Default: "producer",
			check:    oneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
			Synonyms: as("compression.type"),
			topic:    func(t *Topic) any { return &t.Compression },
			Doc: "How record batches are stored: producer keeps them as they were sent; the name of a codec, or " +
				"uncompressed, makes the broker convert those that were sent otherwise.",
		},
		{
			Name: "compression.gzip.level", Type: Int, Default: "-1", check: levels(1, 9, -1),
			Synonyms: as("compression.gzip.level"),
			topic:    func(t *Topic) any { return &t.GzipLevel },
			Doc:      "The gzip level where compression.type makes the broker compress; -1 for the codec's default.",
		},
		{
			Name: "compression.lz4.level", Type: Int, Default: "9", check: levels(1, 17),
			Synonyms: as("compression.lz4.level"),
			topic:    func(t *Topic) any { return &t.LZ4Level },
			Doc:      "The LZ4 level where compression.type makes the broker compress.",
		},
		{
			Name: "compression.zstd.level", Type: Int, Default: "3", check: levels(-131072, 22),
			Synonyms: as("compression.zstd.level"),
			topic:    func(t *Topic) any { return &t.ZstdLevel },
			Doc:      "The zstd level where compression.type makes the broker compress.",
		},
		{
			Name: "min.insync.replicas", Type: Int, Default: "1", check: int32From(1),
			Synonyms: as("min.insync.replicas"),
			topic:    func(t *Topic) any { return &t.MinInsyncReplicas },
			Doc: "How many replicas must hold a write with acks=all before it is acknowledged. As in Kafka it counts at most " +
				"as many as the topic has replicas, so on a single node a value above 1 asks for no more than 1.",
		},
		{
			Name: "delete.retention.ms", Type: Long, Default: day, check: int64From(0), Effect: Awaits,
			Synonyms: as("log.cleaner.delete.retention.ms"),
			topic:    func(t *Topic) any { return &t.DeleteRetentionMs },
			Doc:      "How long, in milliseconds, compaction keeps the tombstone of a deleted key.",
		},
		{
			Name: "min.compaction.lag.ms", Type: Long, Default: "0", check: int64From(0), Effect: Awaits,
			Synonyms: as("log.cleaner.min.compaction.lag.ms"),
			topic:    func(t *Topic) any { return &t.MinCompactionLagMs },
			Doc:      "How long, in milliseconds, a record is safe from compaction.",
		},
		{
			Name: "max.compaction.lag.ms", Type: Long, Default: maxLong, check: int64From(1), Effect: Awaits,
			Synonyms: as("log.cleaner.max.compaction.lag.ms"),
			topic:    func(t *Topic) any { return &t.MaxCompactionLagMs },
			Doc: "After how many milliseconds at the latest a record is open to compaction. Must not be less than " +
				"min.compaction.lag.ms.",
		},
		{
			Name: "segment.bytes", Type: Int, Default: "1073741824", check: whole(1<<20, math.MaxInt32), Effect: Inert,
			Synonyms: as("log.segment.bytes"),
			Doc:      "The size of a partition's files.",
		},
		{
			Name: "segment.ms", Type: Long, Default: week, check: int64From(1), Effect: Inert,
			Synonyms: []SynonymKey{{"log.roll.ms", 1}, {"log.roll.hours", msPerHour}},
			Doc:      "The time after which a partition begins another file, in milliseconds.",
		},
		{
			Name: "segment.jitter.ms", Type: Long, Default: "0", check: int64From(0), Effect: Inert,
			Synonyms: []SynonymKey{{"log.roll.jitter.ms", 1}, {"log.roll.jitter.hours", msPerHour}},
			Doc:      "A random time taken off segment.ms, in milliseconds.",
		},
		{
			Name: "segment.index.bytes", Type: Int, Default: "10485760", check: int32From(4), Effect: Inert,
			Synonyms: as("log.index.size.max.bytes"),
			Doc:      "The size of a file's index.",
		},
		{
			Name: "index.interval.bytes", Type: Int, Default: "4096", check: int32From(0), Effect: Inert,
			Synonyms: as("log.index.interval.bytes"),
			Doc:      "The bytes between two entries of a file's index.",
		},
		{
			Name: "flush.messages", Type: Long, Default: maxLong, check: int64From(1), Effect: Inert,
			Synonyms: as("log.flush.interval.messages"),
			Doc: "The number of records after which a partition is made durable. In Sluice the broker's setting flush " +
				"decides for all topics, and by default every write is durable before it is acknowledged.",
		},
		{
			Name: "flush.ms", Type: Long, Default: maxLong, check: int64From(0), Effect: Inert,
			Synonyms: as("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
			Doc: "The time after which a partition is made durable, in milliseconds. In Sluice the broker's settings flush " +
				"and flush.interval.ms decide for all topics.",
		},
		{
			Name: "file.delete.delay.ms", Type: Long, Default: "60000", check: int64From(0), Effect: Inert,
			Synonyms: as("log.segment.delete.delay.ms"),
			Doc:      "The time before a partition's removed file leaves the disk, in milliseconds.",
		},
		{
			Name: "preallocate", Type: Boolean, Default: "false", check: boolean(), Effect: Inert,
			Synonyms: as("log.preallocate"),
			Doc:      "Whether a partition's files are made at their full size. The CommitLog's always are.",
		},
		{
			Name: "min.cleanable.dirty.ratio", Type: Double, Default: "0.5", check: ratio(), Effect: Inert,
			Synonyms: as("log.cleaner.min.cleanable.ratio"),
			Doc:      "How much of a partition must be uncompacted before Kafka's log cleaner picks it.",
		},
		{
			Name: "unclean.leader.election.enable", Type: Boolean, Default: "false", check: boolean(), Effect: Inert,
			Synonyms: as("unclean.leader.election.enable"),
			Doc:      "Whether a replica that lacks acknowledged records may become leader. In Sluice none ever may.",
		},
		{
			Name: "leader.replication.throttled.replicas", Type: List, Default: "", check: throttledReplicas(), Effect: Inert,
			Doc: "The replicas whose leaders are throttled while partitions move between brokers.",
		},
		{
			Name: "follower.replication.throttled.replicas", Type: List, Default: "", check: throttledReplicas(), Effect: Inert,
			Doc: "The replicas whose followers are throttled while partitions move between brokers.",
		},
		{
			Name: "remote.storage.enable", Type: Boolean, Default: "false",
			check: onlyFalse("there is no remote storage"), Effect: Inert,
			Doc: "Whether old data moves to remote storage. Sluice has none, so true is refused.",
		},
		{
			Name: "local.retention.ms", Type: Long, Default: "-2", check: int64From(-2), Effect: Inert,
			Synonyms: as("log.local.retention.ms"),
			Doc:      "How long data stays on the local disk when there is remote storage, in milliseconds.",
		},
		{
			Name: "local.retention.bytes", Type: Long, Default: "-2", check: int64From(-2), Effect: Inert,
			Synonyms: as("log.local.retention.bytes"),
			Doc:      "How many bytes stay on the local disk when there is remote storage.",
		},
		{
			Name: "remote.log.copy.disable", Type: Boolean, Default: "false", check: boolean(), Effect: Inert,
			Doc: "Whether copying to remote storage is paused.",
		},
		{
			Name: "remote.log.delete.on.disable", Type: Boolean, Default: "false", check: boolean(), Effect: Inert,
			Doc: "Whether remote data goes when remote storage is turned off.",
		},
		{
			Name: "remote.copy.lag.ms", Type: Long, Default: "0", check: int64From(-1), Effect: Inert,
			Synonyms: as("log.remote.copy.lag.ms"),
			Doc:      "How long data waits before it is copied to remote storage, in milliseconds.",
		},
		{
			Name: "remote.copy.lag.bytes", Type: Long, Default: "-1", check: int64From(-1), Effect: Inert,
			Synonyms: as("log.remote.copy.lag.bytes"),
			Doc:      "How many bytes wait before they are copied to remote storage.",
		},
		{
			Name: "errors.deadletterqueue.group.enable", Type: Boolean, Default: "false",
			check: onlyFalse("there are no dead-letter queues of share groups"), Effect: Inert,
			Doc: "Whether share groups may write to the topic what they could not process.",
		},
	}
}
