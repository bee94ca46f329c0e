package config

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/sluicemq/sluice/catalog/config"
)

// Reference returns docs/config.md: every setting of the broker and every topic
// config, as the tables have them.
func Reference() []byte {
	var b bytes.Buffer
	b.WriteString(intro)
	b.WriteString("\n## Broker settings\n")
	for _, group := range groups() {
		fmt.Fprintf(&b, "\n### %s\n\n", group)
		b.WriteString(introOf[group])
		for _, k := range config.BrokerKeys() {
			if k.Group == group {
				writeBrokerKey(&b, k)
			}
		}
	}
	b.WriteString(topicIntro)
	for _, part := range []struct {
		heading string
		effect  config.Effect
	}{
		{"Honoured", config.Acts},
		{"Kept for compaction", config.Awaits},
		{"Accepted for compatibility, no effect", config.Inert},
	} {
		fmt.Fprintf(&b, "\n### %s\n\n", part.heading)
		for _, k := range config.TopicKeys() {
			if k.Effect == part.effect {
				writeTopicKey(&b, k)
			}
		}
	}
	b.WriteString(groupIntro)
	for _, k := range config.GroupKeys() {
		writeTopicKey(&b, k)
	}
	return append(bytes.TrimRight(bytes.ReplaceAll(b.Bytes(), []byte("\n\n\n"), []byte("\n\n")), "\n"), '\n')
}

const intro = `# Configuration

This page is written by the tables in ` + "`catalog/config`" + `; to change it, change them and run
` + "`make docs`" + `.

` + "`sluice serve`" + ` needs no configuration: it listens on 127.0.0.1:9092 and keeps its data under ` + "`./data`" + `. Settings
come from three places, of which a later one goes before an earlier one:

| place | example |
| --- | --- |
| a YAML file | ` + "`log.retention.ms: 3600000`" + `, or nested: ` + "`log: {retention: {ms: 3600000}}`" + ` |
| the environment | ` + "`SLUICE_LOG_RETENTION_MS=3600000`" + `: SLUICE_ and the name in capitals, ` + "`_` for `.`" + ` |
| flags | ` + "`--set log.retention.ms=3600000`" + ` |

Lists are YAML lists or texts with commas. Names are Kafka's where Kafka has the setting. A name that is not on this
page, or a wrong value, stops the start with a line that names the place, the setting and what was expected.

Settings marked *dynamic* can also be altered while the broker runs, for the whole cluster or for one node
(` + "`kafka-configs.sh --entity-type brokers`" + `); these values go before all three places and survive restarts. The others
take effect at the next start.
`

const groupIntro = `
## Group configs

They are set with AlterConfigs and IncrementalAlterConfigs on resources of type GROUP, for groups that exist or will. A
group that does not set one has the broker's value for it, and in its absence the default.

`

const topicIntro = `
## Topic configs

They are set with CreateTopics, AlterConfigs and IncrementalAlterConfigs, and take effect at once. A topic that does not
set one has the broker's value for it, and in its absence the default. A config that is not on this page is refused with
INVALID_CONFIG.
`

var introOf = map[string]string{
	"Defaults of topic configs": "For topics that do not set the topic config themselves.\n\n",
	"Kafka's own":               "Shown by DescribeConfigs because topic configs refer to them; setting one stops the start.\n\n",
}

// groups returns the headings in the order in which the table introduces them.
func groups() []string {
	order := []string{"Node and network", "Topics", "Defaults of topic configs", "CommitLog and storage",
		"Limits for clients", "Operation"}
	for _, k := range config.BrokerKeys() {
		if !slices.Contains(order, k.Group) {
			order = append(order, k.Group)
		}
	}
	return order
}

func writeBrokerKey(b *bytes.Buffer, k *config.Key) {
	fmt.Fprintf(b, "**`%s`** (%s, %s", k.Name, k.Type, defaultOf(k))
	if k.Update == config.Dynamic {
		b.WriteString(", *dynamic*")
	}
	fmt.Fprintf(b, "): %s", k.Doc)
	if k.Effect != config.Inert {
		fmt.Fprintf(b, " Takes %s.", k.Expect())
	}
	b.WriteString("\n\n")
}

func writeTopicKey(b *bytes.Buffer, k *config.Key) {
	fmt.Fprintf(b, "**`%s`** (%s, %s): %s Takes %s.", k.Name, k.Type, defaultOf(k), k.Doc, k.Expect())
	if len(k.Synonyms) > 0 && k.Effect != config.Inert {
		names := make([]string, len(k.Synonyms))
		for i, s := range k.Synonyms {
			names[i] = "`" + s.Name + "`"
		}
		fmt.Fprintf(b, " Broker's default: %s.", strings.Join(names, ", "))
	}
	b.WriteString("\n\n")
}

func defaultOf(k *config.Key) string {
	switch {
	case k.Unset:
		return "not set"
	case k.Default == "":
		return "default empty"
	}
	return "default `" + k.Default + "`"
}
