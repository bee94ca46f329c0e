package broker

import (
	"context"
	"crypto/rand"

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
	byID := false
	for i := range request.Topics {
		byID = byID || request.Topics[i].TopicID != [16]byte{}
	}
	for i := range request.Topics {
		unnamed := request.Topics[i].Topic == nil
		switch {
		case c.Version < 12 && (unnamed || byID):
			return protocol.Answer(refuseMetadata(request, kerr.InvalidRequest)) // ids came with version 12
		case !byID && unnamed:
			return protocol.Answer(refuseMetadata(request, kerr.UnknownServerError)) // Kafka's code
		}
	}
	if byID {
		seen := make(map[[16]byte]bool, len(request.Topics))
		for i := range request.Topics {
			if id := request.Topics[i].TopicID; id != [16]byte{} && !seen[id] {
				seen[id] = true
				response.Topics = append(response.Topics, b.metadataByID(request, id))
			}
		}
		return protocol.Answer(response)
	}
	create := b.catalog.Broker().AutoCreateTopics && (c.Version < 4 || request.AllowAutoTopicCreation)
	seen := make(map[string]bool, len(request.Topics))
	for i := range request.Topics {
		if name := request.Topics[i].Topic; name != nil && !seen[*name] {
			seen[*name] = true
			response.Topics = append(response.Topics, b.metadataByName(ctx, request, *name, create))
		}
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

func (b *Broker) metadataByName(ctx context.Context, request *kmsg.MetadataRequest, name string, create bool) kmsg.MetadataResponseTopic {
	topic := b.catalog.Topic(name)
	err := catalog.CheckName(name)
	if topic == nil && err == nil {
		err = kerr.New(kerr.UnknownTopicOrPartition, "")
		if create {
			topic, err = b.autoCreate(ctx, name)
		}
	}
	if topic != nil {
		return b.describeForMetadata(request, topic)
	}
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.ErrorCode = &name, kerr.Of(err).Int16()
	return out
}

// autoCreate makes a topic with the broker's defaults.
func (b *Broker) autoCreate(ctx context.Context, name string) (*catalog.Topic, error) {
	plan := b.catalog.PlanCreate([]catalog.NewTopic{{Name: name, ID: newTopicID(), Partitions: -1, ReplicationFactor: -1}})[0]
	if plan.Err != nil {
		return nil, plan.Err
	}
	_, err := b.doOne(ctx, entry.TypeCreateTopic, plan.Payload)
	if topic := b.catalog.Topic(name); topic != nil {
		return topic, nil // also when another request was faster
	}
	return nil, err
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
