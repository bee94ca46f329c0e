package broker

import (
	"context"
	"crypto/rand"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/catalog"
	"github.com/sluicemq/sluice/log"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// Operations that are authorised on each kind of resource, as bits of Kafka's
// ACL operation codes: all of them, since there is no authorizer.
const (
	topicOperations   int32 = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11
	clusterOperations int32 = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12
)

// metadata answers Metadata: who is there, and the partitions of the topics
// that are asked for (M-1 to M-20 of Kafka's rules). A topic that may be made
// for the asking is made before the answer, so that it is complete.
func (b *Broker) metadata(ctx context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.MetadataRequest)
	response := request.ResponseKind().(*kmsg.MetadataResponse)
	node, address := b.settings.NodeID, b.advertised(c.Conn.Listener)
	member := kmsg.NewMetadataResponseBroker()
	member.NodeID, member.Host, member.Port, member.Rack = node, address.host, address.port, b.rack()
	response.Brokers = append(response.Brokers, member)
	clusterID := b.log.Meta().ClusterID
	response.ClusterID, response.ControllerID = &clusterID, node
	if c.Version >= 8 && c.Version <= 10 && request.IncludeClusterAuthorizedOperations {
		response.AuthorizedOperations = clusterOperations
	}
	all := request.Topics == nil || c.Version == 0 && len(request.Topics) == 0
	if all {
		for topic := range b.catalog.Topics("") {
			response.Topics = append(response.Topics, b.describeForMetadata(request, topic))
		}
		return protocol.Answer(response)
	}
	byID := slices.ContainsFunc(request.Topics, func(t kmsg.MetadataRequestTopic) bool { return t.TopicID != [16]byte{} })
	unnamed := slices.ContainsFunc(request.Topics, func(t kmsg.MetadataRequestTopic) bool { return t.Topic == nil })
	switch {
	case c.Version < 12 && (byID || unnamed): // ids came with version 12
		return protocol.Answer(refuseMetadata(request, kerr.InvalidRequest))
	case byID:
		seen := make(map[[16]byte]bool, len(request.Topics))
		for i := range request.Topics {
			if id := request.Topics[i].TopicID; id != [16]byte{} && !seen[id] {
				seen[id] = true
				response.Topics = append(response.Topics, b.metadataByID(request, id))
			}
		}
		return protocol.Answer(response)
	case unnamed:
		return protocol.Answer(refuseMetadata(request, kerr.UnknownServerError)) // Kafka's code
	}
	names := make([]string, 0, len(request.Topics))
	seen := make(map[string]bool, len(request.Topics))
	for i := range request.Topics {
		if name := *request.Topics[i].Topic; !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	var failures map[string]error
	if b.catalog.Broker().AutoCreateTopics && (c.Version < 4 || request.AllowAutoTopicCreation) {
		failures = b.autoCreate(ctx, names)
	}
	for _, name := range names {
		response.Topics = append(response.Topics, b.metadataByName(request, name, failures[name]))
	}
	return protocol.Answer(response)
}

// refuseMetadata answers a request that names its topics in a way that its
// version does not have: nothing but the error, for each of them.
func refuseMetadata(request *kmsg.MetadataRequest, code kerr.Code) *kmsg.MetadataResponse {
	response := request.ResponseKind().(*kmsg.MetadataResponse)
	for i := range request.Topics {
		out := kmsg.NewMetadataResponseTopic()
		out.ErrorCode, out.TopicID, out.Topic = code.Int16(), request.Topics[i].TopicID, request.Topics[i].Topic
		if out.Topic == nil {
			out.Topic = new(string)
		}
		response.Topics = append(response.Topics, out)
	}
	response.ErrorCode = code.Int16() // from version 13 on
	return response
}

func (b *Broker) metadataByID(request *kmsg.MetadataRequest, id [16]byte) kmsg.MetadataResponseTopic {
	if topic := b.catalog.TopicByID(id); topic != nil {
		return b.describeForMetadata(request, topic)
	}
	out := kmsg.NewMetadataResponseTopic()
	out.TopicID, out.ErrorCode = id, kerr.UnknownTopicID.Int16()
	return out
}

// metadataByName describes a topic, or says why there is none: because it could
// not be made, if failure is set.
func (b *Broker) metadataByName(request *kmsg.MetadataRequest, name string, failure error) kmsg.MetadataResponseTopic {
	if topic := b.catalog.Topic(name); topic != nil {
		return b.describeForMetadata(request, topic)
	}
	err := catalog.CheckName(name)
	if err == nil {
		err = failure
	}
	if err == nil {
		err = kerr.New(kerr.UnknownTopicOrPartition, "")
	}
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.ErrorCode = &name, kerr.Of(err).Int16()
	return out
}

// autoCreateAtOnce is how many partitions are made together.
const autoCreateAtOnce = 1000

// autoCreate makes those of the topics that do not exist, with the broker's
// defaults, and returns why some could not be made.
func (b *Broker) autoCreate(ctx context.Context, names []string) map[string]error {
	var wanted []catalog.NewTopic
	for _, name := range names {
		if b.catalog.Topic(name) == nil && catalog.CheckName(name) == nil {
			wanted = append(wanted, catalog.NewTopic{Name: name, ID: newTopicID(), Partitions: -1, ReplicationFactor: -1})
		}
	}
	failures := make(map[string]error)
	for some := range slices.Chunk(wanted, max(1, autoCreateAtOnce/int(b.catalog.Broker().NumPartitions))) {
		commands := make([]*command, len(some))
		var proposed []*command
		for i, plan := range b.catalog.PlanCreate(some) {
			commands[i] = &command{kind: entry.TypeCreateTopic, payload: plan.Payload, err: plan.Err}
			if plan.Err == nil {
				proposed = append(proposed, commands[i])
			}
		}
		b.do(ctx, 0, proposed)
		for i := range some {
			failures[some[i].Name] = commands[i].err // if another request was faster, the topic is there all the same
		}
		if ctx.Err() != nil {
			break
		}
	}
	return failures
}

// newTopicID returns a random id (a version 4 UUID, as Kafka's are).
func newTopicID() (id entry.TopicID) {
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the process if it must
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}

func (b *Broker) describeForMetadata(request *kmsg.MetadataRequest, topic *catalog.Topic) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	name := topic.Name()
	out.Topic, out.TopicID, out.IsInternal = &name, topic.ID(), topic.Internal()
	if request.IncludeTopicAuthorizedOperations {
		out.AuthorizedOperations = topicOperations
	}
	nodes := []int32{b.settings.NodeID} // shared by all partitions: responses are only read
	out.Partitions = make([]kmsg.MetadataResponseTopicPartition, topic.Partitions())
	for i := range out.Partitions {
		p := kmsg.NewMetadataResponseTopicPartition()
		p.Partition, p.Leader, p.LeaderEpoch = int32(i), nodes[0], log.LeaderEpoch
		p.Replicas, p.ISR = nodes, nodes
		out.Partitions[i] = p
	}
	return out
}
