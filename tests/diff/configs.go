package diff

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	kindTopic  = kmsg.ConfigResourceTypeTopic
	kindBroker = kmsg.ConfigResourceTypeBroker
	kindLogger = kmsg.ConfigResourceTypeBrokerLogger
	kindGroup  = kmsg.ConfigResourceTypeGroupConfig
	kindClient = kmsg.ConfigResourceType(16)
)

// brokerKeys are the broker settings that tools look at.
var brokerKeys = []string{
	"advertised.listeners", "auto.create.topics.enable", "compression.type", "default.replication.factor",
	"delete.topic.enable", "listeners", "log.cleanup.policy", "log.message.timestamp.type", "log.retention.bytes",
	"log.retention.hours", "log.retention.minutes", "log.retention.ms", "log.segment.bytes", "message.max.bytes",
	"min.insync.replicas", "num.partitions", "offsets.retention.minutes", "socket.request.max.bytes",
	"transaction.max.timeout.ms", "group.min.session.timeout.ms", "group.max.session.timeout.ms",
	"group.initial.rebalance.delay.ms", "fetch.max.bytes", "connections.max.idle.ms", "node.id", "broker.id",
	"log.dirs", "broker.rack", "unclean.leader.election.enable", "ssl.keystore.password",
}

func describeConfigsCases() []Case {
	const k = kmsg.DescribeConfigs
	c := func(name string, play func(s *Script)) Case {
		return Case{Name: "DescribeConfigs/" + name, Key: k, Play: play}
	}
	full := func(req *kmsg.DescribeConfigsRequest) *kmsg.DescribeConfigsRequest {
		req.IncludeSynonyms, req.IncludeDocumentation = true, true
		return req
	}
	node := func(s *Script) string { return strconv.Itoa(int(s.nodeID)) }
	// broker asks for settings of the broker and hides its id.
	broker := func(s *Script, label string, req *kmsg.DescribeConfigsRequest) {
		if resp, ok := s.Hidden(label, req).(*kmsg.DescribeConfigsResponse); ok {
			for i := range resp.Resources {
				if resp.Resources[i].ResourceName == node(s) {
					resp.Resources[i].ResourceName = "own"
				}
				for j := range resp.Resources[i].Configs {
					c := &resp.Resources[i].Configs[j]
					switch c.Name {
					case "listeners", "advertised.listeners", "log.dirs", "node.id", "broker.id":
						// Each broker's own; that they have a value is what can be compared.
						c.Value = ptr(map[bool]string{true: "set", false: "null"}[c.Value != nil])
						for x := range c.ConfigSynonyms {
							c.ConfigSynonyms[x].Value = nil
						}
					}
				}
			}
			s.Record(label, resp)
		}
	}
	return []Case{
		c("topic", func(s *Script) { s.Do("answer", describe(kindTopic, s.Topic(1))) }),
		c("topic-with-overrides", func(s *Script) {
			s.Do("answer", describe(kindTopic, s.Topic(1, "retention.ms", "5000", "cleanup.policy", "compact,delete", "segment.bytes", "1073741824"),
				"retention.ms", "cleanup.policy", "segment.bytes", "max.message.bytes"))
		}),
		c("topic-with-all-about", func(s *Script) {
			s.Do("answer", full(describe(kindTopic, s.Topic(1, "retention.ms", "5000"))))
		}),
		c("topic-empty-list", func(s *Script) {
			req := describe(kindTopic, s.Topic(1))
			req.Resources[0].ConfigNames = []string{}
			if resp, ok := s.Hidden("answer", req).(*kmsg.DescribeConfigsResponse); ok {
				s.Note("some", len(resp.Resources) == 1 && len(resp.Resources[0].Configs) > 10)
			}
		}),
		c("topic-some-unknown-keys", func(s *Script) {
			s.Do("answer", describe(kindTopic, s.Topic(1), "retention.ms", "no.such.key", "retention.ms"))
		}),
		c("topic-unknown", func(s *Script) { s.Do("answer", describe(kindTopic, s.Name(""))) }),
		c("topic-bad-name", func(s *Script) { s.Do("answer", describe(kindTopic, s.Name("!"))) }),
		c("topic-empty-name", func(s *Script) { s.Do("answer", describe(kindTopic, "")) }),
		c("same-resource-twice", func(s *Script) {
			req := describe(kindTopic, s.Topic(1), "retention.ms")
			req.Resources = append(req.Resources, req.Resources[0])
			s.Do("answer", req)
		}),
		c("several", func(s *Script) {
			req := describe(kindTopic, s.Topic(1), "retention.ms")
			req.Resources = append(req.Resources, describe(kindTopic, s.Name("")).Resources...)
			req.Resources = append(req.Resources, describe(kindTopic, s.Topic(1), "cleanup.policy").Resources...)
			s.Do("answer", req)
		}),
		c("nothing", func(s *Script) {
			req := describe(kindTopic, "x")
			req.Resources = nil
			s.Do("answer", req)
		}),
		c("broker", func(s *Script) { broker(s, "answer", describe(kindBroker, node(s), brokerKeys...)) }),
		c("broker-with-synonyms", func(s *Script) {
			broker(s, "answer", full(describe(kindBroker, node(s), "log.retention.hours", "log.retention.ms", "message.max.bytes", "log.dirs")))
		}),
		c("broker-all", func(s *Script) {
			if resp, ok := s.Hidden("answer", describe(kindBroker, node(s))).(*kmsg.DescribeConfigsResponse); ok {
				s.Note("some", len(resp.Resources) == 1 && len(resp.Resources[0].Configs) > 30)
			}
		}),
		c("broker-default", func(s *Script) { s.Do("answer", describe(kindBroker, "")) }),
		c("broker-stranger", func(s *Script) { s.Do("answer", describe(kindBroker, "4711")) }),
		c("broker-not-a-number", func(s *Script) { s.Do("answer", describe(kindBroker, "one")) }),
		c("logger-stranger", func(s *Script) { s.Do("answer", describe(kindLogger, "4711")) }),
		c("logger-empty", func(s *Script) { s.Do("answer", describe(kindLogger, "")) }),
		c("group-unknown", func(s *Script) { s.Do("answer", describe(kindGroup, "no-such-group")) }),
		c("group-with-all-about", func(s *Script) {
			s.Do("answer", full(describe(kindGroup, "no-such-group", "consumer.session.timeout.ms", "share.auto.offset.reset")))
		}),
		c("group-empty-name", func(s *Script) { s.Do("answer", describe(kindGroup, "")) }),
		c("client-metrics-unknown", func(s *Script) { s.Do("answer", describe(kindClient, "no-such-subscription")) }),
		c("client-metrics-empty-name", func(s *Script) { s.Do("answer", describe(kindClient, "")) }),
		c("unknown-kind", func(s *Script) { s.Do("answer", describe(99, "x")) }),
		c("kind-zero", func(s *Script) { s.Do("answer", describe(0, "x")) }),
	}
}

func alterConfigsCases() []Case {
	const k = kmsg.AlterConfigs
	request := func(kind kmsg.ConfigResourceType, name string, kvs ...string) *kmsg.AlterConfigsRequest {
		req := kmsg.NewPtrAlterConfigsRequest()
		r := kmsg.NewAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kind, name
		for i := 0; i < len(kvs); i += 2 {
			c := kmsg.NewAlterConfigsRequestResourceConfig()
			c.Name, c.Value = kvs[i], &kvs[i+1]
			r.Configs = append(r.Configs, c)
		}
		req.Resources = append(req.Resources, r)
		return req
	}
	c := func(name string, play func(s *Script)) Case {
		return Case{Name: "AlterConfigs/" + name, Key: k, Play: play}
	}
	refused := func(name string, kvs ...string) Case {
		return c(name, func(s *Script) {
			topic := s.Topic(1, "retention.ms", "5000")
			s.Do("answer", request(kindTopic, topic, kvs...))
			s.overrides("then", topic)
		})
	}
	return []Case{
		c("replaces-all", func(s *Script) {
			topic := s.Topic(1, "retention.ms", "5000", "cleanup.policy", "compact")
			s.Do("answer", request(kindTopic, topic, "max.message.bytes", "7000"))
			s.awaitOverride(topic, "max.message.bytes", "7000")
			s.overrides("then", topic)
		}),
		c("to-nothing", func(s *Script) {
			topic := s.Topic(1, "retention.ms", "5000")
			s.Do("answer", request(kindTopic, topic))
			s.awaitOverride(topic, "retention.ms", "")
			s.overrides("then", topic)
		}),
		c("to-the-default", func(s *Script) {
			topic := s.Topic(1, "retention.ms", "5000")
			s.Do("answer", request(kindTopic, topic, "retention.ms", "604800000"))
			s.awaitOverride(topic, "retention.ms", "604800000")
			s.overrides("then", topic)
		}),
		refused("unknown-key", "no.such.key", "1"),
		refused("bad-value", "retention.ms", "soon"),
		refused("good-and-bad", "max.message.bytes", "7000", "retention.ms", "soon"),
		refused("same-key-twice", "retention.ms", "1", "retention.ms", "2"),
		c("null-value", func(s *Script) {
			topic := s.Topic(1, "retention.ms", "5000")
			req := request(kindTopic, topic, "retention.ms", "")
			req.Resources[0].Configs[0].Value = nil
			s.Do("answer", req)
			s.overrides("then", topic)
		}),
		c("validate-only", func(s *Script) {
			topic := s.Topic(1, "retention.ms", "5000")
			req := request(kindTopic, topic, "retention.ms", "6000")
			req.ValidateOnly = true
			s.Do("answer", req)
			s.overrides("then", topic)
		}),
		c("unknown-topic", func(s *Script) { s.Do("answer", request(kindTopic, s.Name(""), "retention.ms", "1")) }),
		c("bad-topic-name", func(s *Script) { s.Do("answer", request(kindTopic, s.Name("!"), "retention.ms", "1")) }),
		c("empty-topic-name", func(s *Script) { s.Do("answer", request(kindTopic, "", "retention.ms", "1")) }),
		c("same-resource-twice", func(s *Script) {
			topic := s.Topic(1)
			s.Impatient()
			req := request(kindTopic, topic, "retention.ms", "1")
			req.Resources = append(req.Resources, request(kindTopic, topic, "retention.ms", "2").Resources...)
			s.Do("answer", req)
			s.overrides("then", topic)
		}),
		c("some-wrong", func(s *Script) {
			topic := s.Topic(1)
			req := request(kindTopic, s.Name(""), "retention.ms", "1")
			req.Resources = append(req.Resources, request(kindTopic, topic, "retention.ms", "4000").Resources...)
			s.Do("answer", req)
			s.awaitOverride(topic, "retention.ms", "4000")
		}),
		c("unknown-kind", func(s *Script) { s.Do("answer", request(99, "x", "a", "b")) }),
		c("broker-stranger", func(s *Script) { s.Do("answer", request(kindBroker, "4711", "log.retention.ms", "1")) }),
		c("broker-unknown-key", func(s *Script) { s.Do("answer", request(kindBroker, "", "no.such.key", "1")) }),
		c("nothing", func(s *Script) {
			req := request(kindTopic, "x")
			req.Resources = nil
			s.Do("answer", req)
		}),
	}
}

// incremental builds a request from key, operation and value in turn; a nil value stays null.
func incremental(kind kmsg.ConfigResourceType, name string, changes ...any) *kmsg.IncrementalAlterConfigsRequest {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	for i := 0; i < len(changes); i += 3 {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name = changes[i].(string)
		c.Op = kmsg.IncrementalAlterConfigOp(changes[i+1].(int))
		if v, ok := changes[i+2].(string); ok {
			c.Value = &v
		}
		r.Configs = append(r.Configs, c)
	}
	req.Resources = append(req.Resources, r)
	return req
}

func incrementalAlterConfigsCases() []Case {
	const k = kmsg.IncrementalAlterConfigs
	const set, del, add, sub = 0, 1, 2, 3
	c := func(name string, play func(s *Script)) Case {
		return Case{Name: "IncrementalAlterConfigs/" + name, Key: k, Play: play}
	}
	// changed applies changes to a topic with one override, and waits for one of them to show.
	changed := func(name, key, value string, changes ...any) Case {
		return c(name, func(s *Script) {
			topic := s.Topic(1, "retention.ms", "5000")
			s.Do("answer", incremental(kindTopic, topic, changes...))
			s.awaitOverride(topic, key, value)
			s.overrides("then", topic)
		})
	}
	refused := func(name string, changes ...any) Case {
		return c(name, func(s *Script) {
			topic := s.Topic(1, "retention.ms", "5000")
			s.Do("answer", incremental(kindTopic, topic, changes...))
			s.overrides("then", topic)
		})
	}
	return []Case{
		changed("set", "max.message.bytes", "7000", "max.message.bytes", set, "7000"),
		changed("set-again", "retention.ms", "6000", "retention.ms", set, "6000"),
		changed("delete", "retention.ms", "", "retention.ms", del, nil),
		changed("delete-with-value", "retention.ms", "", "retention.ms", del, "5000"),
		changed("delete-of-what-is-not-set", "retention.ms", "5000", "max.message.bytes", del, nil),
		changed("append-to-the-default", "cleanup.policy", "delete,compact", "cleanup.policy", add, "compact"),
		changed("append-what-is-there", "cleanup.policy", "delete", "cleanup.policy", add, "delete"),
		changed("subtract-what-is-not-there", "cleanup.policy", "delete", "cleanup.policy", sub, "compact"),
		changed("several", "max.message.bytes", "7000", "max.message.bytes", set, "7000", "retention.ms", del, nil),
		c("append-and-subtract", func(s *Script) {
			topic := s.Topic(1, "cleanup.policy", "delete")
			s.Do("append", incremental(kindTopic, topic, "cleanup.policy", add, "compact"))
			s.awaitOverride(topic, "cleanup.policy", "delete,compact")
			s.Do("subtract", incremental(kindTopic, topic, "cleanup.policy", sub, "delete"))
			s.awaitOverride(topic, "cleanup.policy", "compact")
		}),
		c("subtract-the-last", func(s *Script) {
			topic := s.Topic(1, "retention.ms", "5000")
			s.Do("answer", incremental(kindTopic, topic, "cleanup.policy", sub, "delete", "retention.ms", set, "6000"))
			s.awaitOverride(topic, "retention.ms", "6000")
			s.overrides("then", topic)
		}),
		refused("append-to-no-list", "retention.ms", add, "1"),
		refused("subtract-from-no-list", "retention.ms", sub, "1"),
		refused("append-bad-value", "cleanup.policy", add, "keep"),
		refused("unknown-operation", "retention.ms", 9, "1"),
		refused("unknown-key", "no.such.key", set, "1"),
		refused("delete-of-unknown-key", "no.such.key", del, nil),
		refused("bad-value", "retention.ms", set, "soon"),
		refused("null-value", "retention.ms", set, nil),
		refused("null-value-to-append", "cleanup.policy", add, nil),
		refused("same-key-twice", "retention.ms", set, "1", "retention.ms", set, "2"),
		refused("set-and-delete", "retention.ms", set, "1", "retention.ms", del, nil),
		refused("good-and-bad", "max.message.bytes", set, "7000", "retention.ms", set, "soon"),
		refused("no-changes"),
		c("validate-only", func(s *Script) {
			topic := s.Topic(1, "retention.ms", "5000")
			req := incremental(kindTopic, topic, "retention.ms", set, "6000")
			req.ValidateOnly = true
			s.Do("answer", req)
			s.overrides("then", topic)
		}),
		c("validate-only-bad-value", func(s *Script) {
			req := incremental(kindTopic, s.Topic(1), "retention.ms", set, "soon")
			req.ValidateOnly = true
			s.Do("answer", req)
		}),
		c("unknown-topic", func(s *Script) { s.Do("answer", incremental(kindTopic, s.Name(""), "retention.ms", set, "1")) }),
		c("bad-topic-name", func(s *Script) { s.Do("answer", incremental(kindTopic, s.Name("!"), "retention.ms", set, "1")) }),
		c("empty-topic-name", func(s *Script) { s.Do("answer", incremental(kindTopic, "", "retention.ms", set, "1")) }),
		c("same-resource-twice", func(s *Script) {
			topic := s.Topic(1)
			req := incremental(kindTopic, topic, "retention.ms", set, "1")
			req.Resources = append(req.Resources, incremental(kindTopic, topic, "max.message.bytes", set, "2").Resources...)
			s.Do("answer", req)
			s.overrides("then", topic)
		}),
		c("some-wrong", func(s *Script) {
			topic := s.Topic(1)
			req := incremental(kindTopic, s.Name(""), "retention.ms", set, "1")
			req.Resources = append(req.Resources, incremental(kindTopic, topic, "retention.ms", set, "4000").Resources...)
			s.Do("answer", req)
			s.awaitOverride(topic, "retention.ms", "4000")
		}),
		c("unknown-kind", func(s *Script) { s.Do("answer", incremental(99, "x", "a", set, "b")) }),
		c("broker-stranger", func(s *Script) { s.Do("answer", incremental(kindBroker, "4711", "log.retention.ms", set, "1")) }),
		c("broker-unknown-key", func(s *Script) {
			s.Do("answer", incremental(kindBroker, "", "no.such.key", set, "1"))
			s.prepare(1, incremental(kindBroker, "", "no.such.key", del, nil))
		}),
		c("broker-read-only-key", func(s *Script) { s.Do("answer", incremental(kindBroker, "", "node.id", set, "7")) }),
		c("broker-bad-value", func(s *Script) { s.Do("answer", incremental(kindBroker, "", "log.retention.ms", set, "soon")) }),
		c("broker-default-setting", func(s *Script) {
			s.Do("set", incremental(kindBroker, "", "log.retention.ms", set, "555555555"))
			s.Do("delete", incremental(kindBroker, "", "log.retention.ms", del, nil))
		}),
		c("group-unknown-key", func(s *Script) { s.Do("answer", incremental(kindGroup, "g", "no.such.key", set, "1")) }),
		c("group-bad-value", func(s *Script) {
			s.Do("word", incremental(kindGroup, "g", "consumer.session.timeout.ms", set, "soon"))
			s.Do("below the range", incremental(kindGroup, "g", "consumer.session.timeout.ms", set, "1"))
		}),
		c("group", func(s *Script) {
			group := s.Name("-group")
			resp, ok := s.Do("set", incremental(kindGroup, group, "consumer.session.timeout.ms", set, "50000")).(*kmsg.IncrementalAlterConfigsResponse)
			if !ok || len(resp.Resources) != 1 || resp.Resources[0].ErrorCode != 0 {
				return // nothing to wait for
			}
			s.eventually("the config shows", func() bool {
				resp := s.prepare(4, describe(kindGroup, group, "consumer.session.timeout.ms")).(*kmsg.DescribeConfigsResponse)
				return len(resp.Resources[0].Configs) == 1 && resp.Resources[0].Configs[0].Source == 8
			})
			s.Do("delete", incremental(kindGroup, group, "consumer.session.timeout.ms", del, nil))
		}),
		c("group-empty-name", func(s *Script) {
			s.Do("answer", incremental(kindGroup, "", "consumer.session.timeout.ms", set, "50000"))
		}),
		c("nothing", func(s *Script) {
			req := incremental(kindTopic, "x")
			req.Resources = nil
			s.Do("answer", req)
		}),
	}
}

func listConfigResourcesCases() []Case {
	const k = kmsg.ListConfigResources
	// ask records the error, and which of the script's own topics are listed.
	ask := func(s *Script, label string, kinds ...int8) {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.ResourceTypes = kinds
		if resp, ok := s.Hidden(label, req).(*kmsg.ListConfigResourcesResponse); ok {
			s.Note(label+".ErrorCode", codeName(resp.ErrorCode))
			seen := make(map[int8]bool)
			for _, r := range resp.ConfigResources {
				if name := s.rename(r.Name); name != r.Name {
					s.Note(label+".own", name)
				}
				seen[r.Type] = true
			}
			for _, kind := range []int8{2, 4, 8} {
				s.Note(label+".kind "+strconv.Itoa(int(kind)), seen[kind])
			}
		}
	}
	c := func(name string, lo int16, kinds ...int8) Case {
		return Case{Name: "ListConfigResources/" + name, Key: k, Min: lo, Play: func(s *Script) {
			s.Topic(1)
			ask(s, "answer", kinds...)
		}}
	}
	return []Case{
		c("all", 0), c("topics", 1, 2), c("brokers", 1, 4), c("loggers", 1, 8), c("client-metrics", 1, 16),
		c("groups", 1, 32), c("topics-and-brokers", 1, 2, 4), c("unknown-kind", 1, 99), c("known-and-unknown-kind", 1, 2, 99),
		c("same-kind-twice", 1, 2, 2), c("kind-zero", 1, 0),
	}
}
