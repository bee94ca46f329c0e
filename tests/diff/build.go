package diff

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Small builders that the cases of many APIs share.

func ptr[T any](v T) *T { return &v }

// frame builds a frame by hand: the header of an API version, and whatever follows.
func frame(key, version int16, flexible bool, body []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, 7)
	b = binary.BigEndian.AppendUint16(b, 4)
	b = append(b, "diff"...)
	if flexible {
		b = append(b, 0)
	}
	return append(b, body...)
}

func createTopic(name string, partitions int32, replication int16, configs ...string) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, replication
	for i := 0; i < len(configs); i += 2 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = configs[i], &configs[i+1]
		t.Configs = append(t.Configs, c)
	}
	return t
}

func createTopics(topics ...kmsg.CreateTopicsRequestTopic) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis, req.Topics = 10000, topics
	return req
}

// metadataOf asks for named topics and creates none.
func metadataOf(names ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, n := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = ptr(n)
		req.Topics = append(req.Topics, t)
	}
	return req
}

// describe asks for the configs of one resource; no names mean all.
func describe(kind kmsg.ConfigResourceType, name string, keys ...string) *kmsg.DescribeConfigsRequest {
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kind, name, keys
	req.Resources = append(req.Resources, r)
	return req
}

// overrides records the configs that a topic sets itself.
func (s *Script) overrides(label, topic string) {
	resp := s.prepare(4, describe(kmsg.ConfigResourceTypeTopic, topic)).(*kmsg.DescribeConfigsResponse)
	for _, r := range resp.Resources {
		s.Note(label, codeName(r.ErrorCode))
		for _, c := range r.Configs {
			if c.Source == 1 {
				value := "null"
				if c.Value != nil {
					value = *c.Value
				}
				s.Note(label+"."+c.Name, value)
			}
		}
	}
}

// awaitOverride waits until a topic's own config has a value; "" means until it has none.
func (s *Script) awaitOverride(topic, key, value string) {
	s.eventually("the config shows", func() bool {
		resp := s.prepare(4, describe(kmsg.ConfigResourceTypeTopic, topic, key)).(*kmsg.DescribeConfigsResponse)
		for _, r := range resp.Resources {
			for _, c := range r.Configs {
				if c.Name == key {
					own := c.Source == 1
					return own == (value != "") && (!own || c.Value != nil && *c.Value == value)
				}
			}
		}
		return false
	})
}
