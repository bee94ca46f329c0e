package broker

import (
	"context"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/catalog"
	"github.com/sluicemq/sluice/log"
	"github.com/sluicemq/sluice/protocol"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// describeCluster answers DescribeCluster (M-18): this node.
func (b *Broker) describeCluster(_ context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.DescribeClusterRequest)
	response := request.ResponseKind().(*kmsg.DescribeClusterResponse)
	const brokers, controllers = 1, 2
	refuse := func(code kerr.Code, message string) protocol.Pending {
		response.ErrorCode, response.ErrorMessage = code.Int16(), &message
		return protocol.Answer(response)
	}
	if c.Version >= 1 {
		switch request.EndpointType {
		case brokers:
		case controllers:
			return refuse(kerr.MismatchedEndpointType, "this listener is for brokers, not for controllers")
		default:
			return refuse(kerr.UnsupportedEndpointType, "unknown endpoint type")
		}
	}
	response.EndpointType = brokers
	address := b.advertised(c.Conn.Listener)
	node := kmsg.NewDescribeClusterResponseBroker()
	node.NodeID, node.Host, node.Port, node.Rack = b.settings.NodeID, address.host, address.port, b.rack()
	response.Brokers = append(response.Brokers, node)
	response.ClusterID, response.ControllerID = b.log.Meta().ClusterID, b.settings.NodeID
	if request.IncludeClusterAuthorizedOperations {
		response.ClusterAuthorizedOperations = clusterOperations
	}
	return protocol.Answer(response)
}

// The kinds of coordinators.
const (
	coordinatesGroups       = 0
	coordinatesTransactions = 1
	coordinatesShares       = 2
)

// findCoordinator answers FindCoordinator: the only node coordinates all groups
// and transactional ids. Nothing is stored for a look-up.
func (b *Broker) findCoordinator(_ context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.FindCoordinatorRequest)
	response := request.ResponseKind().(*kmsg.FindCoordinatorResponse)
	if c.Version < 4 {
		one := b.coordinatorOf(c, request.CoordinatorType, request.CoordinatorKey)
		response.ErrorCode, response.ErrorMessage = one.ErrorCode, one.ErrorMessage
		response.NodeID, response.Host, response.Port = one.NodeID, one.Host, one.Port
		if one.ErrorCode == 0 {
			// What these versions of Kafka have told ever since.
			text := "NONE"
			response.ErrorMessage = &text
		}
		return protocol.Answer(response)
	}
	for _, key := range request.CoordinatorKeys {
		response.Coordinators = append(response.Coordinators, b.coordinatorOf(c, request.CoordinatorType, key))
	}
	return protocol.Answer(response)
}

func (b *Broker) coordinatorOf(c *protocol.Call, kind int8, key string) kmsg.FindCoordinatorResponseCoordinator {
	out := kmsg.NewFindCoordinatorResponseCoordinator()
	message := ""
	out.Key, out.ErrorMessage = key, &message
	out.NodeID, out.Host, out.Port = -1, "", -1
	switch {
	case kind == coordinatesGroups || kind == coordinatesTransactions:
		address := b.advertised(c.Conn.Listener)
		out.NodeID, out.Host, out.Port = b.settings.NodeID, address.host, address.port
	case kind != coordinatesShares:
		message = "unknown kind of coordinator"
		out.ErrorCode = kerr.InvalidRequest.Int16()
	case c.Version >= 6 && shareKey(key):
		// Brokers ask so, for the state of a share group; there is none.
		out.ErrorCode = kerr.CoordinatorNotAvailable.Int16()
	default:
		out.ErrorCode = kerr.InvalidRequest.Int16()
	}
	return out
}

// shareKey reports whether the key is group:topic id:partition.
func shareKey(key string) bool {
	parts := strings.Split(key, ":")
	if len(parts) < 3 {
		return false
	}
	id, err := base64.RawURLEncoding.DecodeString(parts[len(parts)-2])
	_, err2 := strconv.ParseUint(parts[len(parts)-1], 10, 31)
	return err == nil && err2 == nil && len(id) == 16
}

// describeTopicPartitions answers DescribeTopicPartitions (M-17): topics in the
// order of their names, in pages that a cursor continues.
func (b *Broker) describeTopicPartitions(_ context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.DescribeTopicPartitionsRequest)
	response := request.ResponseKind().(*kmsg.DescribeTopicPartitionsResponse)
	names := make([]string, 0, len(request.Topics))
	for i := range request.Topics {
		names = append(names, request.Topics[i].Topic)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if c := request.Cursor; c != nil {
		_, listed := slices.BinarySearch(names, c.Topic)
		if c.Partition < 0 || len(names) > 0 && !listed {
			for _, name := range names {
				out := kmsg.NewDescribeTopicPartitionsResponseTopic()
				out.Topic, out.ErrorCode = &name, kerr.InvalidRequest.Int16()
				response.Topics = append(response.Topics, out)
			}
			return protocol.Answer(response)
		}
	}
	room := min(b.settings.DescribePartitions, max(1, request.ResponsePartitionLimit))
	from := int32(0)
	first := ""
	if request.Cursor != nil {
		first, from = request.Cursor.Topic, request.Cursor.Partition
	}
	add := func(name string, topic *catalog.Topic) (more bool) {
		begin := int32(0)
		if name == first {
			begin = from
		}
		if room <= 0 {
			response.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: name, Partition: begin}
			return false
		}
		out, next := b.describePartitions(name, topic, begin, &room)
		response.Topics = append(response.Topics, out)
		if next >= 0 {
			response.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: name, Partition: next}
		}
		return next < 0
	}
	if len(request.Topics) == 0 {
		for topic := range b.catalog.Topics(first) {
			if !add(topic.Name(), topic) {
				break
			}
		}
		return protocol.Answer(response)
	}
	for _, name := range names {
		if name >= first && !add(name, b.catalog.Topic(name)) {
			break
		}
	}
	return protocol.Answer(response)
}

// describePartitions describes partitions of a topic from begin on, as far as
// there is room. next is the first that did not fit, or -1.
func (b *Broker) describePartitions(name string, topic *catalog.Topic, begin int32, room *int32) (out kmsg.DescribeTopicPartitionsResponseTopic, next int32) {
	out = kmsg.NewDescribeTopicPartitionsResponseTopic()
	out.Topic, out.AuthorizedOperations = &name, topicOperations
	if topic == nil {
		code := kerr.UnknownTopicOrPartition
		if catalog.CheckName(name) != nil {
			code = kerr.InvalidTopic
		}
		out.ErrorCode = code.Int16()
		*room--
		return out, -1
	}
	out.TopicID, out.IsInternal = topic.ID(), topic.Internal()
	nodes := []int32{b.settings.NodeID}
	for i := begin; i < topic.Partitions(); i++ {
		if *room <= 0 {
			return out, i
		}
		*room--
		p := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		p.Partition, p.LeaderID, p.LeaderEpoch = i, nodes[0], log.LeaderEpoch
		p.Replicas, p.ISR = nodes, nodes
		p.EligibleLeaderReplicas, p.LastKnownELR = []int32{}, []int32{}
		out.Partitions = append(out.Partitions, p)
	}
	return out, -1
}
