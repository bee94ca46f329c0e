package catalog_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicemq/sluice/catalog"
	"github.com/sluicemq/sluice/catalog/config"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// modelTopic is what the simplest catalog would remember of a topic.
type modelTopic struct {
	id        entry.TopicID
	numbers   []entry.Partition
	overrides map[string]string
}

// TestCatalogIsItsModelAndItsState runs random requests against a catalog and a
// model of maps and slices, and now and then goes on with a catalog that was
// loaded from the state.
func TestCatalogIsItsModelAndItsState(t *testing.T) {
	topicNames := []string{"a", "a.b", "a_b", "a-b", "b.", "b_", "long-name-of-a-topic"}
	settings := map[string][]string{
		"retention.ms": {"1", "2", "-1"}, "cleanup.policy": {"compact", "delete", "compact,delete", ""},
		"max.message.bytes": {"10", "1048588"}, "segment.bytes": {"1048576"},
	}
	rapid.Check(t, func(rt *rapid.T) {
		n := newNode(t)
		model := make(map[string]*modelTopic)
		next := entry.Partition(1)
		retention := "604800000"
		name := rapid.SampledFrom(topicNames)
		key := rapid.SampledFrom(slices.Sorted(mapsKeys(settings)))
		expect := func(err error, want kerr.Code) {
			if kerr.Of(err) != want {
				rt.Fatalf("got %v, want %v", err, want)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"create": func(rt *rapid.T) {
				name, count := name.Draw(rt, "name"), rapid.Int32Range(1, 5).Draw(rt, "count")
				topic, err := n.create(catalog.NewTopic{Name: name, Partitions: count, ReplicationFactor: 1})
				if model[name] != nil {
					expect(err, kerr.TopicAlreadyExists)
					return
				}
				for other := range model {
					if sameButDots(name, other) {
						expect(err, kerr.InvalidTopic)
						return
					}
				}
				expect(err, kerr.None)
				m := &modelTopic{id: topic.ID(), overrides: make(map[string]string)}
				for range count {
					m.numbers = append(m.numbers, next)
					next++
				}
				model[name] = m
			},
			"delete": func(rt *rapid.T) {
				name := name.Draw(rt, "name")
				err := n.delete(name)
				if model[name] == nil {
					expect(err, kerr.UnknownTopicOrPartition)
					return
				}
				expect(err, kerr.None)
				delete(model, name)
			},
			"grow": func(rt *rapid.T) {
				name, total := name.Draw(rt, "name"), rapid.Int32Range(0, 9).Draw(rt, "total")
				err := n.grow(name, total)
				m := model[name]
				switch {
				case m == nil:
					expect(err, kerr.UnknownTopicOrPartition)
				case int(total) <= len(m.numbers):
					expect(err, kerr.InvalidPartitions)
				default:
					expect(err, kerr.None)
					for len(m.numbers) < int(total) {
						m.numbers = append(m.numbers, next)
						next++
					}
				}
			},
			"set": func(rt *rapid.T) {
				name, key := name.Draw(rt, "name"), key.Draw(rt, "key")
				value := rapid.SampledFrom(settings[key]).Draw(rt, "value")
				err := n.alter(catalog.ResourceTopic, name, set(key, value))
				if model[name] == nil {
					expect(err, kerr.UnknownTopicOrPartition)
					return
				}
				expect(err, kerr.None)
				model[name].overrides[key] = value
			},
			"unset": func(rt *rapid.T) {
				name, key := name.Draw(rt, "name"), key.Draw(rt, "key")
				if err := n.alter(catalog.ResourceTopic, name, unset(key)); model[name] != nil {
					expect(err, kerr.None)
					delete(model[name].overrides, key)
				}
			},
			"replace": func(rt *rapid.T) {
				name, key := name.Draw(rt, "name"), key.Draw(rt, "key")
				value := rapid.SampledFrom(settings[key]).Draw(rt, "value")
				if err := n.replace(catalog.ResourceTopic, name, set(key, value)); model[name] != nil {
					expect(err, kerr.None)
					model[name].overrides = map[string]string{key: value}
				}
			},
			"broker": func(rt *rapid.T) {
				retention = rapid.SampledFrom([]string{"10", "20"}).Draw(rt, "retention")
				expect(n.alter(catalog.ResourceBroker, "", set("log.retention.ms", retention)), kerr.None)
			},
			"reload": func(rt *rapid.T) {
				broker, err := config.NewBroker(nil)
				if err != nil {
					rt.Fatal(err)
				}
				before := n.dump()
				n = n.reload(broker)
				if after := n.dump(); after != before {
					rt.Fatalf("after loading: got\n%s\nwant\n%s", after, before)
				}
			},
			"": func(rt *rapid.T) {
				compare(rt, n, model, retention)
				if want := stateSize(model, next > 1, retention != "604800000"); len(n.state) != want {
					rt.Fatalf("the state has %d keys, want %d:\n%s", len(n.state), want, n.dump())
				}
			},
		})
	})
}

// stateSize counts the keys of the state, and of the partitions that exist.
func stateSize(model map[string]*modelTopic, numbers, broker bool) int {
	size := len(model)
	for _, m := range model {
		size += len(m.numbers)
	}
	if numbers {
		size++
	}
	if broker {
		size++
	}
	return size
}

func mapsKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func sameButDots(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		dots := (a[i] == '.' || a[i] == '_') && (b[i] == '.' || b[i] == '_')
		if a[i] != b[i] && !dots {
			return false
		}
	}
	return true
}

func compare(rt *rapid.T, n *node, model map[string]*modelTopic, retention string) {
	if got, want := fmt.Sprint(names(n.Catalog, "")), fmt.Sprint(slices.Sorted(mapsKeys(model))); got != want {
		rt.Fatalf("the topics are %s, want %s", got, want)
	}
	for name, m := range model {
		topic := n.Topic(name)
		if topic.ID() != m.id || n.TopicByID(m.id) != topic || int(topic.Partitions()) != len(m.numbers) {
			rt.Fatalf("topic %s is %+v, want %+v", name, topic, m)
		}
		for i, number := range m.numbers {
			if got, ok := topic.Partition(int32(i)); !ok || got != number {
				rt.Fatalf("partition %d of %s has number %d, want %d", i, name, got, number)
			}
			if owner, at := n.TopicOf(number); owner != topic || at != int32(i) {
				rt.Fatalf("number %d belongs to %v, %d", number, owner, at)
			}
			if _, ok := n.state[partitionKey(number)]; !ok {
				rt.Fatalf("partition %d was not created", number)
			}
		}
		if len(topic.Overrides()) != len(m.overrides) {
			rt.Fatalf("overrides of %s are %v, want %v", name, topic.Overrides(), m.overrides)
		}
		for key, value := range m.overrides {
			if got, ok := topic.Overrides().Get(key); !ok || got != value {
				rt.Fatalf("%s of %s is %q, want %q", key, name, got, value)
			}
		}
		want := retention
		if own, ok := m.overrides["retention.ms"]; ok {
			want = own
		}
		if got := fmt.Sprint(topic.Config().RetentionMs); got != want {
			rt.Fatalf("retention.ms of %s is %s in effect, want %s", name, got, want)
		}
	}
}
