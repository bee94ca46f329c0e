package config

import (
	"fmt"
	"strings"
)

// foreignSettings are settings found in Kafka's configuration files that Sluice
// does not have, with the reason, so that whoever brings such a file is told
// more than "unknown".
var foreignSettings = map[string]string{
	"process.roles":                       "every Sluice node is a broker",
	"controller.quorum.voters":            "there is no separate controller",
	"controller.quorum.bootstrap.servers": "there is no separate controller",
	"controller.listener.names":           "there is no separate controller",
	"inter.broker.listener.name":          "there is one node",
	"zookeeper.connect":                   "there is no ZooKeeper",
	"zookeeper.connection.timeout.ms":     "there is no ZooKeeper",
	"num.network.threads":                 "threads need no setting",
	"num.io.threads":                      "threads need no setting",
	"num.replica.fetchers":                "there is one node",
	"num.recovery.threads.per.data.dir":   "recovery reads one log",
	"background.threads":                  "threads need no setting",
	"queued.max.requests":                 "requests are bounded by their bytes: queued.max.request.bytes",
	"socket.send.buffer.bytes":            "the system sizes socket buffers",
	"socket.receive.buffer.bytes":         "the system sizes socket buffers",
	"log.cleaner.enable":                  "a topic's cleanup.policy decides",
	"log.cleaner.threads":                 "log compaction does not run yet",
	"log.cleaner.dedupe.buffer.size":      "log compaction does not run yet",
	"log.message.format.version":          "record batches have one format",
	"inter.broker.protocol.version":       "there is one node",
	"metadata.log.dir":                    "topics are in the log in log.dirs",
	"replica.lag.time.max.ms":             "there is one node",
	"auto.leader.rebalance.enable":        "there is one node",
}

func unknownBrokerSetting(name string) error {
	if why, ok := foreignSettings[name]; ok {
		return fmt.Errorf("%s: is a setting of Kafka's that Sluice does not have (%s); remove it", clip(name), why)
	}
	if TopicKey(name) != nil {
		return fmt.Errorf("%s: is a setting of topics, not of the broker; %s", name, topicHint(name))
	}
	return fmt.Errorf("%s: is not a setting of the broker%s", clip(name), didYouMean(name, brokerTable))
}

func topicHint(name string) string {
	k := TopicKey(name)
	if k.Effect != Inert && len(k.Synonyms) > 0 {
		return "the broker's default for it is " + k.Synonyms[0].Name
	}
	return "the broker has no default for it"
}

// UnknownTopicSetting returns the error for a topic config that does not exist.
func UnknownTopicSetting(name string) error {
	return fmt.Errorf("%s: is not a topic config%s", clip(name), didYouMean(name, topicTable))
}

// UnknownBrokerSetting returns the error for a broker config that does not exist.
func UnknownBrokerSetting(name string) error { return unknownBrokerSetting(name) }

// didYouMean finds the setting whose name is closest, if it is close.
func didYouMean(name string, keys []*Key) string {
	if len(name) > 100 {
		return ""
	}
	name = strings.ToLower(name)
	best, least := "", 3
	for _, k := range keys {
		if d := editDistance(name, k.Name, least); d < least {
			best, least = k.Name, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// editDistance counts the insertions, deletions and replacements between a and
// b, or returns at least limit when there are so many.
func editDistance(a, b string, limit int) int {
	if d := len(a) - len(b); d >= limit || -d >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
