package broker

import (
	"context"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/group"
	"github.com/sluicemq/sluice/group/classic"
	"github.com/sluicemq/sluice/protocol"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// groupOperations are the operations that are authorised on groups, as bits.
const groupOperations int32 = 1<<3 | 1<<6 | 1<<8 | 1<<10 | 1<<11

// describeGroups answers DescribeGroups (G-20).
func (b *Broker) describeGroups(_ context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.DescribeGroupsRequest)
	response := request.ResponseKind().(*kmsg.DescribeGroupsResponse)
	for _, name := range request.Groups {
		out := kmsg.NewDescribeGroupsResponseGroup()
		out.Group = name
		d, ok := b.groups.Describe(name)
		if !ok && c.Version >= 6 {
			message := "the group does not exist"
			out.State = classic.Dead.String()
			out.ErrorCode, out.ErrorMessage = kerr.GroupIDNotFound.Int16(), &message
			response.Groups = append(response.Groups, out)
			continue
		}
		if request.IncludeAuthorizedOperations {
			out.AuthorizedOperations = groupOperations
		}
		if !ok {
			out.State = classic.Dead.String()
			response.Groups = append(response.Groups, out)
			continue
		}
		out.State, out.ProtocolType, out.Protocol = d.State.String(), d.ProtocolType, d.Protocol
		for i := range d.Members {
			m := kmsg.NewDescribeGroupsResponseGroupMember()
			m.MemberID, m.InstanceID = d.Members[i].ID, textOrNil(d.Members[i].Instance)
			m.ClientID, m.ClientHost = d.Members[i].ClientID, d.Members[i].ClientHost
			m.ProtocolMetadata, m.MemberAssignment = d.Members[i].Metadata, d.Members[i].Assignment
			out.Members = append(out.Members, m)
		}
		response.Groups = append(response.Groups, out)
	}
	return protocol.Answer(response)
}

// listGroups answers ListGroups (G-21).
func (b *Broker) listGroups(_ context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.ListGroupsRequest)
	response := request.ResponseKind().(*kmsg.ListGroupsResponse)
	for _, one := range b.groups.List(request.StatesFilter, request.TypesFilter) {
		out := kmsg.NewListGroupsResponseGroup()
		out.Group, out.ProtocolType = one.Name, one.ProtocolType
		out.GroupState, out.GroupType = one.State.String(), one.Kind.String()
		response.Groups = append(response.Groups, out)
	}
	return protocol.Answer(response)
}

// deleteGroups answers DeleteGroups (G-22).
func (b *Broker) deleteGroups(_ context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.DeleteGroupsRequest)
	response := request.ResponseKind().(*kmsg.DeleteGroupsResponse)
	response.Groups = make([]kmsg.DeleteGroupsResponseGroup, 0, len(request.Groups))
	seen := make(map[string]bool, len(request.Groups))
	for _, name := range request.Groups {
		if !seen[name] {
			seen[name] = true
			out := kmsg.NewDeleteGroupsResponseGroup()
			out.Group = name
			response.Groups = append(response.Groups, out)
		}
	}
	promise := protocol.NewPromise()
	var waiting atomic.Int32
	waiting.Store(1) // for this function
	done := func() {
		if waiting.Add(-1) == 0 {
			promise.Resolve(protocol.Response{Message: response})
		}
	}
	for i := range response.Groups {
		out := &response.Groups[i]
		waiting.Add(1)
		b.groups.Delete(out.Group, func(err error) {
			if err != nil {
				message := kerr.Message(err)
				out.ErrorCode, out.ErrorMessage = kerr.Of(err).Int16(), &message
			}
			done()
		})
	}
	done()
	return promise
}

// offsetDelete answers OffsetDelete (O-15).
func (b *Broker) offsetDelete(_ context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.OffsetDeleteRequest)
	response := request.ResponseKind().(*kmsg.OffsetDeleteResponse)
	if request.Group == "" {
		response.ErrorCode = kerr.InvalidGroupID.Int16()
		return protocol.Answer(response)
	}
	var topics []group.NamedPartitions
	var places []int // of topics in the response
	response.Topics = make([]kmsg.OffsetDeleteResponseTopic, 0, len(request.Topics))
	for i := range request.Topics {
		in := &request.Topics[i]
		if len(in.Partitions) == 0 {
			continue
		}
		response.Topics = append(response.Topics, kmsg.NewOffsetDeleteResponseTopic())
		out := &response.Topics[len(response.Topics)-1]
		out.Topic = in.Topic
		out.Partitions = make([]kmsg.OffsetDeleteResponseTopicPartition, len(in.Partitions))
		topic := b.catalog.Topic(in.Topic)
		named := group.NamedPartitions{Name: in.Topic}
		for j := range in.Partitions {
			p := &out.Partitions[j]
			*p = kmsg.NewOffsetDeleteResponseTopicPartition()
			p.Partition = in.Partitions[j].Partition
			if topic == nil || p.Partition < 0 || p.Partition >= topic.Partitions() {
				p.ErrorCode = kerr.UnknownTopicOrPartition.Int16()
				continue
			}
			named.ID = topic.ID()
			named.Partitions = append(named.Partitions, p.Partition)
		}
		if len(named.Partitions) > 0 {
			topics = append(topics, named)
			places = append(places, len(response.Topics)-1)
		}
	}
	promise := protocol.NewPromise()
	b.groups.DeleteOffsets(request.Group, topics, func(codes []kerr.Code, err error) {
		if err != nil {
			response.ErrorCode, response.Topics = kerr.Of(err).Int16(), nil
		} else {
			for i, code := range codes {
				partitions := response.Topics[places[i]].Partitions
				for j := range partitions {
					if partitions[j].ErrorCode == 0 {
						partitions[j].ErrorCode = code.Int16()
					}
				}
			}
		}
		promise.Resolve(protocol.Response{Message: response})
	})
	return promise
}
