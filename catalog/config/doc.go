// Package config knows every setting of topics and of the broker: name, type,
// default, which values it takes, what it does, and where a value comes from.
//
// There is one table for topic configs and one for broker configs. Everything
// else is derived from them: the check of a value, the typed structs Topic and
// Broker that the rest of Sluice reads, the answers of DescribeConfigs, the
// start-up checks of the configuration file, and docs/config.md.
//
// Names are Kafka's wherever Kafka has the setting. No setting is accepted and
// then ignored in silence: a Key's Effect says whether Sluice acts on it, will
// act on it once compaction runs, or keeps it only so that tools that set it as
// a matter of course go on working. The last two kinds say so in the text that
// DescribeConfigs returns. What is in no table is refused.
//
// A topic config is resolved from the most specific place that sets it:
//
//	topic override            CreateTopics, AlterConfigs      SourceTopic
//	broker, this node         AlterConfigs of broker "1"      SourceDynamicBroker
//	broker, whole cluster     AlterConfigs of broker ""       SourceDynamicDefault
//	broker, as started        file, environment, flags        SourceStatic
//	table                                                     SourceDefault
//
// where the broker rows are looked up under the broker's names for the setting
// (retention.ms: log.retention.ms, log.retention.minutes, log.retention.hours).
//
// Values are kept as text in one canonical form per value ("1000", "true",
// "compact,delete"), which is what DescribeConfigs shows. Broker, Topic and
// Overrides are immutable once made and may be shared between goroutines.
//
// The package is a leaf and knows nothing of the protocol: its errors are plain
// texts that name the setting, the value and what was expected.
package config
