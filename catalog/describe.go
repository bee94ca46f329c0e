package catalog

import (
	"github.com/sluicemq/sluice/catalog/config"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// DescribeTopic returns the configs of a topic, sorted by name: those of keys
// that exist, or all if keys is empty. Synonyms are filled if asked for. A topic
// that does not exist is refused with UNKNOWN_TOPIC_OR_PARTITION, a name that
// cannot exist with INVALID_TOPIC_EXCEPTION.
func (c *Catalog) DescribeTopic(name string, keys []string, synonyms bool) ([]config.Entry, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	t := c.Topic(name)
	if t == nil {
		return nil, kerr.New(kerr.UnknownTopicOrPartition, "topic %q does not exist", name)
	}
	return c.Broker().DescribeTopic(t.Overrides(), keys, synonyms), nil
}

// DescribeNew returns the configs that a topic with the overrides has or would
// have, as the answer to CreateTopics shows them.
func (c *Catalog) DescribeNew(overrides config.Overrides) []config.Entry {
	return c.Broker().DescribeTopic(overrides, nil, false)
}

// DescribeBroker returns the configs of a broker: for this node's id all of
// them, for "" those that were altered for the whole cluster. Keys and synonyms
// are as for DescribeTopic. Any other name is refused with INVALID_REQUEST.
func (c *Catalog) DescribeBroker(name string, keys []string, synonyms bool) ([]config.Entry, error) {
	if err := c.checkNode(name); err != nil {
		return nil, err
	}
	if name == "" {
		return config.DescribeClusterDefaults((*c.dynamic.Load())[""], keys, synonyms), nil
	}
	return c.Broker().Describe(keys, synonyms), nil
}
