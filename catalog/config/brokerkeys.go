package config

import "math"

// Headings of docs/config.md.
const (
	groupNode      = "Node and network"
	groupTopics    = "Topics"
	groupDefaults  = "Defaults of topic configs"
	groupLog       = "CommitLog and storage"
	groupClients   = "Limits for clients"
	groupGroups    = "Consumer groups"
	groupOperation = "Operation"
	groupKafka     = "Kafka's own"
)

// brokerKeys returns the broker's settings.
func brokerKeys() []*Key {
	var all []*Key
	for _, group := range [][]*Key{nodeKeys(), topicRuleKeys(), topicDefaultKeys(), logKeys(), clientKeys(), groupKeys(), consumerKeys(), operationKeys(), kafkaKeys()} {
		all = append(all, group...)
	}
	return all
}

func nodeKeys() []*Key {
	return []*Key{
		{
			Name: "node.id", Group: groupNode, Type: Int, Default: "0", check: int32From(0),
			Synonyms: as("node.id", "broker.id"),
			broker:   func(b *Broker) any { return &b.NodeID },
			Doc:      "The number of this node, which clients see as the broker's id.",
		},
		{
			Name: "broker.id", Group: groupNode, Type: Int, Unset: true, check: int32From(0),
			Doc: "Kafka's older name for node.id. If both are given they must be equal.",
		},
		{
			Name: "broker.rack", Group: groupNode, Type: String, Unset: true, check: text("a name"),
			broker: func(b *Broker) any { return &b.Rack },
			Doc:    "The rack or zone of this node, as Metadata shows it.",
		},
		{
			Name: "listeners", Group: groupNode, Type: List, Default: "PLAINTEXT://127.0.0.1:9092",
			check: listWhere(`a list of NAME://host:port, as in PLAINTEXT://127.0.0.1:9092`, func(item string) bool {
				_, err := parseListener(item)
				return err == nil
			}),
			Doc: "Where the broker listens for clients. An empty host, or 0.0.0.0 or [::], is every interface; set " +
				"advertised.listeners then. Port 0 lets the system choose.",
		},
		{
			Name: "advertised.listeners", Group: groupNode, Type: List, Unset: true,
			check: listWhere(`a list of NAME://host:port, as in PLAINTEXT://broker.example:9092`, func(item string) bool {
				_, err := parseListener(item)
				return err == nil
			}),
			Doc: "The addresses that clients are told to connect to, one for each name in listeners; clients take them " +
				"literally. Not set: those of listeners, with the machine's name where a listener is on every interface.",
		},
		{
			Name: "listener.security.protocol.map", Group: groupNode, Type: List, Default: "PLAINTEXT:PLAINTEXT",
			check: listWhere("a list of NAME:PLAINTEXT (no other protocol is there yet)", func(item string) bool {
				_, _, ok := parseProtocol(item)
				return ok
			}),
			Doc: "Which protocol the listeners with names of their own speak, as in INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT.",
		},
	}
}

func topicRuleKeys() []*Key {
	return []*Key{
		{
			Name: "num.partitions", Group: groupTopics, Type: Int, Default: "1", check: int32From(1),
			broker: func(b *Broker) any { return &b.NumPartitions },
			Doc:    "The partitions of a topic that is created without saying how many.",
		},
		{
			Name: "default.replication.factor", Group: groupTopics, Type: Int, Default: "1", check: whole(1, math.MaxInt16),
			broker: func(b *Broker) any { return &b.DefaultReplicationFactor },
			Doc:    "The replication factor of a topic that is created without saying which.",
		},
		{
			Name: "replication.factor.exceeding.nodes", Group: groupTopics, Type: String, Default: "refuse",
			check:  oneOf("refuse", "cap"),
			broker: func(b *Broker) any { return &b.Exceeding },
			Doc: "What happens when a topic is to have more replicas than there are nodes: refuse answers " +
				"INVALID_REPLICATION_FACTOR, as Kafka does; cap makes the topic with as many replicas as there are nodes, " +
				"and says so in the answer. Not in Kafka.",
		},
		{
			Name: "auto.create.topics.enable", Group: groupTopics, Type: Boolean, Default: "true", check: boolean(),
			broker: func(b *Broker) any { return &b.AutoCreateTopics },
			Doc:    "Whether a client that asks for a topic that does not exist may have it created.",
		},
		{
			Name: "delete.topic.enable", Group: groupTopics, Type: Boolean, Default: "true", check: boolean(),
			broker: func(b *Broker) any { return &b.DeleteTopics },
			Doc:    "Whether topics may be deleted. If not, DeleteTopics is refused with TOPIC_DELETION_DISABLED.",
		},
		{
			Name: "max.partitions", Group: groupTopics, Type: Int, Default: "500000", check: int32From(1),
			broker: func(b *Broker) any { return &b.MaxPartitions },
			Doc: "The largest number of partitions of all topics together. What would exceed it is refused with " +
				"POLICY_VIOLATION. Not in Kafka.",
		},
	}
}

// topicDefaultKeys are the broker's values for topics that do not set the topic
// config. All of them can be altered while the broker runs, but for the coarser
// units of log.retention.
func topicDefaultKeys() []*Key {
	keys := []*Key{
		{
			Name: "log.retention.minutes", Type: Int, Unset: true, check: int32From(-1), Synonyms: retentionNames(),
			Doc: "Broker's default of retention.ms, in minutes; log.retention.ms goes before it.",
		},
		{
			Name: "log.retention.hours", Type: Int, Default: "168", check: int32From(-1), Synonyms: retentionNames(),
			Doc: "Broker's default of retention.ms, in hours; log.retention.ms and log.retention.minutes go before it.",
		},
		{
			Name: "log.retention.ms", Type: Long, Unset: true, check: int64From(-1), Synonyms: retentionNames(), Update: Dynamic,
			Doc: "Broker's default of retention.ms.",
		},
	}
	for _, k := range topicKeys() {
		if k.Effect == Inert || k.Name == "retention.ms" {
			continue
		}
		keys = append(keys, &Key{
			Name: k.Synonyms[0].Name, Type: k.Type, Default: k.Default, check: k.check, Effect: k.Effect, Update: Dynamic,
			Doc: "Broker's default of the topic config " + k.Name + ".",
		})
	}
	for _, k := range keys {
		k.Group = groupDefaults
	}
	return keys
}

func retentionNames() []SynonymKey {
	return []SynonymKey{{"log.retention.ms", 1}, {"log.retention.minutes", msPerMinute}, {"log.retention.hours", msPerHour}}
}

func logKeys() []*Key {
	return []*Key{
		{
			Name: "log.dirs", Group: groupLog, Type: List, Unset: true,
			check:    check{"exactly one folder (Sluice has one log)", oneFolder},
			Synonyms: as("log.dirs", "log.dir"),
			broker:   func(b *Broker) any { return &b.DataDir },
			Doc:      "The data folder. It goes before log.dir.",
		},
		{
			Name: "log.dir", Group: groupLog, Type: List, Default: "./data",
			check: check{"exactly one folder (Sluice has one log)", oneFolder},
			Doc:   "The data folder, if log.dirs is not set.",
		},
		{
			Name: "flush", Group: groupLog, Type: String, Default: "sync", check: oneOf("sync", "async"),
			broker: func(b *Broker) any { return &b.Flush },
			Doc: "When a write counts: sync, once it is durable on disk; async, once it is written, so that the loss of power " +
				"may take the last flush.interval.ms. One setting for all topics. Not in Kafka.",
		},
		{
			Name: "flush.interval.ms", Group: groupLog, Type: Long, Default: "500", check: whole(1, 60_000),
			broker: func(b *Broker) any { return &b.FlushInterval },
			Doc:    "With flush=async, how often the log is made durable, in milliseconds. Not in Kafka.",
		},
		{
			Name: "commitlog.segment.bytes", Group: groupLog, Type: Long, Default: "268435456", check: whole(1<<20, 1<<31),
			broker: func(b *Broker) any { return &b.SegmentBytes },
			Doc: "The size of the CommitLog's files. Space is freed a file at a time, and a batch must fit into one. " +
				"Not in Kafka.",
		},
		{
			Name: "commitlog.tail.bytes", Group: groupLog, Type: Long, Default: "67108864", check: int64From(1 << 20),
			broker: func(b *Broker) any { return &b.TailBytes },
			Doc:    "How much of the newest data is kept in memory, so that consumers that keep up need no reads. Not in Kafka.",
		},
		{
			Name: "commitlog.backlog.bytes", Group: groupLog, Type: Long, Default: "67108864", check: int64From(1 << 20),
			broker: func(b *Broker) any { return &b.BacklogBytes },
			Doc:    "How much may wait for the log before producers are held back. Not in Kafka.",
		},
		{
			Name: "state.cache.bytes", Group: groupLog, Type: Long, Default: "67108864", check: int64From(1 << 20),
			broker: func(b *Broker) any { return &b.StateCacheBytes },
			Doc:    "The cache of the state store. Not in Kafka.",
		},
		{
			Name: "disk.min.free.bytes", Group: groupLog, Type: Long, Default: "536870912", check: int64From(0),
			broker: func(b *Broker) any { return &b.MinFreeBytes },
			Doc: "With less free space on the data folder's disk writes are refused, until there is room again. " +
				"Reads go on. Not in Kafka.",
		},
		{
			Name: "log.retention.check.interval.ms", Group: groupLog, Type: Long, Default: "300000", check: int64From(1),
			broker: func(b *Broker) any { return &b.RetentionCheckInterval },
			Doc:    "How often retention is looked at, in milliseconds.",
		},
	}
}

func oneFolder(s string) (string, bool) {
	folders := splitList(s)
	return s, len(folders) == 1 && folders[0] == s
}

func clientKeys() []*Key {
	return []*Key{
		{
			Name: "socket.request.max.bytes", Group: groupClients, Type: Int, Default: "104857600", check: int32From(1),
			broker: func(b *Broker) any { return &b.MaxRequestBytes },
			Doc:    "The largest request. A connection that sends a larger one is closed.",
		},
		{
			Name: "queued.max.request.bytes", Group: groupClients, Type: Long, Default: "268435456", check: int64From(1),
			broker: func(b *Broker) any { return &b.QueuedRequestBytes },
			Doc: "How many bytes of requests may be in memory at a time, of all connections; beyond it connections are " +
				"not read. A single larger request is let in when no other is there.",
		},
		{
			Name: "queued.max.response.bytes", Group: groupClients, Type: Long, Default: "268435456", check: int64From(1),
			broker: func(b *Broker) any { return &b.QueuedResponseBytes },
			Doc: "How many bytes of records may be in responses that are not sent yet, of all connections; beyond it a fetch " +
				"returns one batch at a time. So consumers that are slow to read cannot fill the memory. Not in Kafka.",
		},
		{
			Name: "connections.max.idle.ms", Group: groupClients, Type: Long, Default: "600000", check: int64From(-1),
			broker: func(b *Broker) any { return &b.MaxIdle },
			Doc:    "A connection on which nothing happened for so many milliseconds is closed; -1 for never.",
		},
		{
			Name: "max.connections", Group: groupClients, Type: Int, Default: "2147483647", check: int32From(0),
			broker: func(b *Broker) any { return &b.MaxConnections },
			Doc:    "How many connections there may be; further ones are closed at once.",
		},
		{
			Name: "max.connections.per.ip", Group: groupClients, Type: Int, Default: "2147483647", check: int32From(0),
			broker: func(b *Broker) any { return &b.MaxConnectionsPerIP },
			Doc:    "How many connections there may be from one address; further ones are closed at once.",
		},
		{
			Name: "fetch.max.bytes", Group: groupClients, Type: Int, Default: "57671680", check: int32From(1024),
			broker: func(b *Broker) any { return &b.FetchMaxBytes },
			Doc:    "The most that one fetch returns, whatever the client asks for, but always one batch.",
		},
		{
			Name: "max.incremental.fetch.session.cache.slots", Group: groupClients, Type: Int, Default: "1000", check: int32From(0),
			broker: func(b *Broker) any { return &b.FetchSessions },
			Doc:    "How many fetch sessions there may be. Clients that get none fetch without.",
		},
		{
			Name: "max.request.partition.size.limit", Group: groupClients, Type: Int, Default: "2000", check: int32From(1),
			broker: func(b *Broker) any { return &b.DescribePartitions },
			Doc:    "How many partitions one answer to DescribeTopicPartitions holds.",
		},
		{
			Name: "producer.id.expiration.ms", Group: groupClients, Type: Int, Default: day, check: int32From(1), Update: Dynamic,
			broker: func(b *Broker) any { return &b.ProducerIDExpiration },
			Doc:    "After how many milliseconds without a write the broker forgets an idempotent producer.",
		},
		{
			Name: "transaction.max.timeout.ms", Group: groupClients, Type: Int, Default: "900000", check: int32From(1),
			broker: func(b *Broker) any { return &b.TransactionMaxTimeout },
			Doc: "The largest transaction.timeout.ms that a producer may ask for. A transaction that is open for longer than " +
				"its producer's time-out is aborted.",
		},
		{
			Name: "transactional.id.expiration.ms", Group: groupClients, Type: Int, Default: "604800000", check: int32From(1),
			broker: func(b *Broker) any { return &b.TransactionalIDExpiration },
			Doc:    "After how many milliseconds without a transaction the broker forgets a transactional id.",
		},
	}
}

func groupKeys() []*Key {
	return []*Key{
		{
			Name: "group.min.session.timeout.ms", Group: groupGroups, Type: Int, Default: "6000", check: int32From(1),
			broker: func(b *Broker) any { return &b.GroupMinSession },
			Doc: "The shortest session timeout, in milliseconds, that a member of a classic group may ask for. Others are " +
				"refused with INVALID_SESSION_TIMEOUT.",
		},
		{
			Name: "group.max.session.timeout.ms", Group: groupGroups, Type: Int, Default: "1800000", check: int32From(1),
			broker: func(b *Broker) any { return &b.GroupMaxSession },
			Doc:    "The longest session timeout, in milliseconds, that a member of a classic group may ask for.",
		},
		{
			Name: "group.initial.rebalance.delay.ms", Group: groupGroups, Type: Int, Default: "3000", check: int32From(0),
			broker: func(b *Broker) any { return &b.GroupInitialDelay },
			Doc: "How long an empty classic group waits for more members when the first one joins, in milliseconds. Members " +
				"that come meanwhile prolong it.",
		},
		{
			Name: "group.max.size", Group: groupGroups, Type: Int, Default: "2147483647", check: int32From(1),
			broker: func(b *Broker) any { return &b.GroupMaxSize },
			Doc:    "How many members a classic group may have. Further ones are refused with GROUP_MAX_SIZE_REACHED.",
		},
		{
			Name: "offset.metadata.max.bytes", Group: groupGroups, Type: Int, Default: "4096", check: int32From(0),
			broker: func(b *Broker) any { return &b.OffsetMetadataBytes },
			Doc:    "The longest text, in bytes, that a client may store with a committed offset.",
		},
		{
			Name: "offsets.retention.minutes", Group: groupGroups, Type: Int, Default: "10080", check: int32From(1),
			broker: func(b *Broker) any { return &b.OffsetsRetentionMinutes },
			Doc: "How long committed offsets are kept after their group has become empty, in minutes; where there never was a " +
				"group, after the commit.",
		},
		{
			Name: "offsets.retention.check.interval.ms", Group: groupGroups, Type: Long, Default: "600000", check: int64From(1),
			broker: func(b *Broker) any { return &b.OffsetsRetentionCheck },
			Doc:    "How often expired offsets, and groups that have neither members nor offsets, are looked for, in milliseconds.",
		},
	}
}

func operationKeys() []*Key {
	return []*Key{
		{
			Name: "http.listen", Group: groupOperation, Type: String, Default: "127.0.0.1:9190",
			check:  check{"host:port, or empty for none", hostPortOrNone},
			broker: func(b *Broker) any { return &b.HTTPListen },
			Doc:    "Where metrics, health and profiles are served over HTTP; empty for nowhere. Not in Kafka.",
		},
		{
			Name: "log.level", Group: groupOperation, Type: String, Default: "info", check: oneOf("debug", "info", "warn", "error"),
			broker: func(b *Broker) any { return &b.LogLevel },
			Doc:    "Which lines the broker's own log has. Not in Kafka.",
		},
		{
			Name: "log.format", Group: groupOperation, Type: String, Default: "console", check: oneOf("console", "json"),
			broker: func(b *Broker) any { return &b.LogFormat },
			Doc:    "How the broker's own log is written. Not in Kafka.",
		},
		{
			Name: "shutdown.grace.ms", Group: groupOperation, Type: Long, Default: "10000", check: whole(0, 3_600_000),
			broker: func(b *Broker) any { return &b.ShutdownGrace },
			Doc:    "How long a stop waits for requests that are being answered, in milliseconds. Not in Kafka.",
		},
	}
}

// kafkaKeys are the broker's names for Inert topic configs. They are shown,
// because the topic configs point to them, and cannot be set.
func kafkaKeys() []*Key {
	instead := map[string]string{
		"log.segment.bytes":               "commitlog.segment.bytes",
		"log.flush.interval.messages":     "flush",
		"log.flush.interval.ms":           "flush",
		"log.flush.scheduler.interval.ms": "flush",
	}
	var keys []*Key
	for _, k := range topicKeys() {
		if k.Effect != Inert {
			continue
		}
		for i, s := range k.Synonyms {
			key := &Key{
				Name: s.Name, Type: k.Type, Default: k.Default, check: k.check, Effect: Inert, Group: groupKafka,
				Doc: "Broker's default of the topic config " + k.Name + ".", instead: instead[s.Name],
			}
			switch {
			case i > 0 && s.Scale > 1: // hours, of which Kafka has the default
				key.Type, key.Default = Int, scaleDown(k.Default, s.Scale)
			case i+1 < len(k.Synonyms):
				key.Default, key.Unset = "", true
			}
			keys = append(keys, key)
		}
	}
	return keys
}
