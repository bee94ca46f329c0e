package e2e

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/tests/e2e/raw"
)

// Requests about one topic, each at a version that it is sent in.

func deleteTopic(name string) kmsg.Request {
	request := kmsg.NewPtrDeleteTopicsRequest()
	request.SetVersion(6)
	request.TimeoutMillis = 30_000
	in := kmsg.NewDeleteTopicsRequestTopic()
	in.Topic = &name
	request.Topics = append(request.Topics, in)
	return request
}

func createPartitions(name string, count int32) kmsg.Request {
	request := kmsg.NewPtrCreatePartitionsRequest()
	request.SetVersion(3)
	request.TimeoutMillis = 30_000
	in := kmsg.NewCreatePartitionsRequestTopic()
	in.Topic, in.Count = name, count
	request.Topics = append(request.Topics, in)
	return request
}

func setConfig(name, config, value string) kmsg.Request {
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.SetVersion(1)
	in := kmsg.NewIncrementalAlterConfigsRequestResource()
	in.ResourceType, in.ResourceName = kmsg.ConfigResourceTypeTopic, name
	change := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	change.Name, change.Value = config, &value
	in.Configs = append(in.Configs, change)
	request.Resources = append(request.Resources, in)
	return request
}

func deleteRecords(name string, before int64) kmsg.Request {
	request := kmsg.NewPtrDeleteRecordsRequest()
	request.SetVersion(2)
	request.TimeoutMillis = 30_000
	in := kmsg.NewDeleteRecordsRequestTopic()
	in.Topic = name
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Partition, p.Offset = 0, before
	in.Partitions = append(in.Partitions, p)
	request.Topics = append(request.Topics, in)
	return request
}

// describeConfigs asks for the configs of a topic; without names, for all.
func describeConfigs(topic string, names ...string) *kmsg.DescribeConfigsRequest {
	request := kmsg.NewPtrDescribeConfigsRequest()
	in := kmsg.NewDescribeConfigsRequestResource()
	in.ResourceType, in.ResourceName, in.ConfigNames = kmsg.ConfigResourceTypeTopic, topic, names
	request.Resources = append(request.Resources, in)
	return request
}

// configOf returns the value of a topic's config, "" if there is none.
func configOf(c *raw.Conn, topic, name string) string {
	r := raw.Ask[*kmsg.DescribeConfigsResponse](c, 4, describeConfigs(topic, name))
	for _, entry := range r.Resources[0].Configs {
		if entry.Name == name && entry.Value != nil {
			return *entry.Value
		}
	}
	return ""
}
