package e2e

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/tests/e2e/raw"
)

// topic is a topic that a test made.
type topic struct {
	name string
	id   [16]byte
}

// makeTopic creates a topic; configs are name, value, name, value.
func makeTopic(t *testing.T, c *raw.Conn, name string, partitions int32, configs ...string) topic {
	t.Helper()
	r := raw.Ask[*kmsg.CreateTopicsResponse](c, 7, createTopics(name, partitions, configs...))
	if len(r.Topics) != 1 || r.Topics[0].ErrorCode != 0 {
		t.Fatalf("create topic %s: %+v", name, r.Topics)
	}
	return topic{name, r.Topics[0].TopicID}
}

func createTopics(name string, partitions int32, configs ...string) *kmsg.CreateTopicsRequest {
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis = 30_000
	in := kmsg.NewCreateTopicsRequestTopic()
	in.Topic, in.NumPartitions, in.ReplicationFactor = name, partitions, 1
	for i := 0; i < len(configs); i += 2 {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name, config.Value = configs[i], &configs[i+1]
		in.Configs = append(in.Configs, config)
	}
	request.Topics = append(request.Topics, in)
	return request
}

// dropTopic deletes a topic.
func dropTopic(t *testing.T, c *raw.Conn, name string) {
	t.Helper()
	request := kmsg.NewPtrDeleteTopicsRequest()
	request.TimeoutMillis = 30_000
	in := kmsg.NewDeleteTopicsRequestTopic()
	in.Topic = &name
	request.Topics = append(request.Topics, in)
	r := raw.Ask[*kmsg.DeleteTopicsResponse](c, 6, request)
	if len(r.Topics) != 1 || r.Topics[0].ErrorCode != 0 {
		t.Fatalf("delete topic %s: %+v", name, r.Topics)
	}
}

// into is a batch on its way to a partition.
type into struct {
	topic     topic
	partition int32
	records   []byte
}

// produceRequest puts the batches into one request, in their order.
func produceRequest(acks int16, batches ...into) *kmsg.ProduceRequest {
	request := kmsg.NewPtrProduceRequest()
	request.Acks, request.TimeoutMillis = acks, 30_000
	for _, b := range batches {
		if n := len(request.Topics); n == 0 || request.Topics[n-1].Topic != b.topic.name || request.Topics[n-1].TopicID != b.topic.id {
			in := kmsg.NewProduceRequestTopic()
			in.Topic, in.TopicID = b.topic.name, b.topic.id
			request.Topics = append(request.Topics, in)
		}
		in := &request.Topics[len(request.Topics)-1]
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = b.partition, b.records
		in.Partitions = append(in.Partitions, p)
	}
	return request
}

// produce writes batches with acks=all and returns the answers, in their order.
func produce(c *raw.Conn, version int16, batches ...into) []kmsg.ProduceResponseTopicPartition {
	r := raw.Ask[*kmsg.ProduceResponse](c, version, produceRequest(-1, batches...))
	var answers []kmsg.ProduceResponseTopicPartition
	for i := range r.Topics {
		answers = append(answers, r.Topics[i].Partitions...)
	}
	return answers
}

// produceVersion is the newest version of Produce that names topics by name.
const produceVersion = 12

// write produces one batch, which must be accepted, and returns its base offset.
func write(t *testing.T, c *raw.Conn, topic topic, partition int32, b raw.Batch) int64 {
	t.Helper()
	answers := produce(c, produceVersion, into{topic, partition, b.Bytes()})
	if len(answers) != 1 || answers[0].ErrorCode != 0 || answers[0].Partition != partition {
		t.Fatalf("produce to %s/%d: %+v", topic.name, partition, answers)
	}
	return answers[0].BaseOffset
}

// from is a partition to fetch from an offset.
type from struct {
	topic     topic
	partition int32
	offset    int64
}

// fetchRequest asks for the partitions, without session and without waiting.
func fetchRequest(places ...from) *kmsg.FetchRequest {
	request := kmsg.NewPtrFetchRequest()
	request.MinBytes, request.MaxBytes, request.SessionEpoch = 1, 50<<20, -1
	for _, f := range places {
		if n := len(request.Topics); n == 0 || request.Topics[n-1].Topic != f.topic.name || request.Topics[n-1].TopicID != f.topic.id {
			in := kmsg.NewFetchRequestTopic()
			in.Topic, in.TopicID = f.topic.name, f.topic.id
			request.Topics = append(request.Topics, in)
		}
		in := &request.Topics[len(request.Topics)-1]
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = f.partition, f.offset, 50<<20
		in.Partitions = append(in.Partitions, p)
	}
	return request
}

// fetchVersion is the newest version of Fetch that names topics by name.
const fetchVersion = 12

// fetchOne fetches from one partition, without waiting.
func fetchOne(t *testing.T, c *raw.Conn, topic topic, partition int32, offset int64) kmsg.FetchResponseTopicPartition {
	t.Helper()
	return onlyPartition(t, raw.Ask[*kmsg.FetchResponse](c, fetchVersion, fetchRequest(from{topic, partition, offset})))
}

// onlyPartition returns the one partition that a fetch answered for.
func onlyPartition(t *testing.T, r *kmsg.FetchResponse) kmsg.FetchResponseTopicPartition {
	t.Helper()
	if r.ErrorCode != 0 || len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		t.Fatalf("expected one partition in the answer to a fetch: %+v", r)
	}
	return r.Topics[0].Partitions[0]
}

// recordsOf returns the records in what a fetch returned, from the beginning of
// its first batch.
func recordsOf(t *testing.T, p kmsg.FetchResponseTopicPartition) []*kgo.Record {
	t.Helper()
	if _, err := raw.Split(p.RecordBatches); err != nil {
		t.Fatal(err)
	}
	out, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Offset: 0, KeepControlRecords: true}, &p, kgo.DefaultDecompressor(), nil)
	if out.Err != nil {
		t.Fatalf("records of a fetch: %v", out.Err)
	}
	return out.Records
}

// readAll fetches a partition from its first record to its end.
func readAll(t *testing.T, c *raw.Conn, topic topic, partition int32) []*kgo.Record {
	t.Helper()
	var records []*kgo.Record
	offset := listOffset(t, c, topic, partition, -2).Offset
	for {
		p := fetchOne(t, c, topic, partition, offset)
		if p.ErrorCode != 0 {
			t.Fatalf("fetch %s/%d at %d: error %d", topic.name, partition, offset, p.ErrorCode)
		}
		some := recordsOf(t, p)
		for _, r := range some {
			if r.Offset >= offset {
				records = append(records, r)
			}
		}
		if len(some) == 0 {
			return records
		}
		offset = records[len(records)-1].Offset + 1
	}
}

// valuesOf returns the values of records as text.
func valuesOf(records []*kgo.Record) []string {
	values := make([]string, len(records))
	for i, r := range records {
		values[i] = string(r.Value)
	}
	return values
}

// listOffset asks for the offset at a timestamp, which may be a special one.
func listOffset(t *testing.T, c *raw.Conn, topic topic, partition int32, timestamp int64) kmsg.ListOffsetsResponseTopicPartition {
	t.Helper()
	r := raw.Ask[*kmsg.ListOffsetsResponse](c, 11, listOffsetsRequest(topic, partition, timestamp))
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		t.Fatalf("list offsets: %+v", r)
	}
	return r.Topics[0].Partitions[0]
}

func listOffsetsRequest(topic topic, partition int32, timestamp int64) *kmsg.ListOffsetsRequest {
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID = -1
	in := kmsg.NewListOffsetsRequestTopic()
	in.Topic = topic.name
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp = partition, timestamp
	in.Partitions = append(in.Partitions, p)
	request.Topics = append(request.Topics, in)
	return request
}

// metadata asks for topics by name.
func metadata(c *raw.Conn, version int16, create bool, names ...string) *kmsg.MetadataResponse {
	request := kmsg.NewPtrMetadataRequest()
	request.AllowAutoTopicCreation = create
	request.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range names {
		in := kmsg.NewMetadataRequestTopic()
		in.Topic = &name
		request.Topics = append(request.Topics, in)
	}
	return raw.Ask[*kmsg.MetadataResponse](c, version, request)
}
