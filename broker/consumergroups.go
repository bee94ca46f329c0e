package broker

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/catalog"
	"github.com/sluicemq/sluice/group/assign"
	"github.com/sluicemq/sluice/group/consumer"
	"github.com/sluicemq/sluice/group/offsets"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// inlineAssignment bounds the members, subscriptions and partitions of a group of
// which the target is computed while its requests wait: a millisecond or two.
const inlineAssignment = 10_000

// consumerSettings returns the settings of a group of the consumer protocol as they
// hold.
func (b *Broker) consumerSettings(name string) *consumer.Settings {
	c, g := &b.settings.Consumers, b.catalog.Group(name)
	return &consumer.Settings{
		SessionTimeout: g.Session, HeartbeatInterval: g.Heartbeat, AssignmentInterval: g.AssignmentInterval,
		RegexRefresh: c.RegexRefresh, Assignors: c.Assignors,
		MaxMembers: int(c.MaxSize), MaxBytes: int(min(maxGroupBytes, b.settings.SegmentBytes/4)), MaxInline: inlineAssignment,
		Downgrade: c.Migration.Downgrade, ClassicMaxMembers: int(b.settings.GroupMaxSize),
	}
}

// subscribable is the catalog as groups of the consumer protocol see it.
type subscribable struct{ *catalog.Catalog }

// Topic implements consumer.Topics.
func (s subscribable) Topic(name string) (id entry.TopicID, partitions int32, ok bool) {
	if t := s.Catalog.Topic(name); t != nil {
		return t.ID(), t.Partitions(), true
	}
	return id, 0, false
}

// Name implements consumer.Topics.
func (s subscribable) Name(id entry.TopicID) (string, bool) { return topicNames(s).TopicName(id) }

// Count implements consumer.Topics.
func (s subscribable) Count() int {
	topics, _ := s.Catalog.Count()
	return topics
}

// Names implements consumer.Topics. A pattern does not match the broker's own
// topics.
func (s subscribable) Names(visit func(name string) bool) {
	for t := range s.Topics("") {
		if !t.Internal() && !visit(t.Name()) {
			return
		}
	}
}

// lockable is the catalog as the locks of ordered groups see it.
type lockable struct{ *catalog.Catalog }

// Ordered implements group.Ordering.
func (l lockable) Ordered(group string) bool { return l.Group(group).Ordered }

// Partition implements group.Ordering.
func (l lockable) Partition(topic entry.TopicID, index int32) (entry.Partition, bool) {
	if t := l.TopicByID(topic); t != nil {
		return t.Partition(index)
	}
	return 0, false
}

// Exists implements group.Ordering.
func (l lockable) Exists(p entry.Partition) bool {
	t, _ := l.TopicOf(p)
	return t != nil
}

// consumerGroupHeartbeat answers ConsumerGroupHeartbeat (N-1 to N-16): at once if it
// changes nothing, else when the change is durable.
func (b *Broker) consumerGroupHeartbeat(_ context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.ConsumerGroupHeartbeatRequest)
	response := request.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
	if !b.servesConsumers() {
		response.ErrorCode = kerr.UnsupportedVersion.Int16()
		return protocol.Answer(response)
	}
	h := &consumer.Heartbeat{
		MemberID: request.MemberID, Epoch: request.MemberEpoch,
		ClientID: c.ClientID, ClientHost: clientHost(c.Conn.RemoteAddr),
		Instance: request.InstanceID, Rack: request.RackID, RebalanceTimeout: -1,
		Topics: request.SubscribedTopicNames, HasTopics: request.SubscribedTopicNames != nil,
		Regex: request.SubscribedTopicRegex, Assignor: request.ServerAssignor,
	}
	if request.RebalanceTimeoutMillis >= 0 {
		h.RebalanceTimeout = millis(request.RebalanceTimeoutMillis)
	}
	if h.MemberID == "" {
		h.NewID = newMemberID(c.ClientID, text(request.InstanceID))
	}
	if request.Topics != nil {
		owned := ownedPartitions(request.Topics)
		h.Owned = &owned
	}
	promise := protocol.NewPromise()
	b.groups.ConsumerHeartbeat(request.Group, h, c.Version >= 1, func(a consumer.Beaten) {
		if a.Err != nil {
			message := kerr.Message(a.Err)
			response.ErrorCode, response.ErrorMessage = kerr.Of(a.Err).Int16(), &message
		} else {
			response.MemberID, response.MemberEpoch = &a.MemberID, a.Epoch
			response.HeartbeatIntervalMillis = int32(a.Interval.Milliseconds())
			if a.Assigned != nil {
				response.Assignment = assignedPartitions(*a.Assigned)
			}
		}
		promise.Resolve(protocol.Response{Message: response})
	})
	return promise
}

func (b *Broker) servesConsumers() bool {
	return slices.Contains(b.settings.Consumers.Protocols, "consumer")
}

func ownedPartitions(topics []kmsg.ConsumerGroupHeartbeatRequestTopic) assign.Assignment {
	owned := make([]assign.Topic, len(topics))
	for i := range topics {
		owned[i] = assign.Topic{ID: topics[i].TopicID, Partitions: topics[i].Partitions}
	}
	return assign.Make(owned)
}

func assignedPartitions(set assign.Assignment) *kmsg.ConsumerGroupHeartbeatResponseAssignment {
	out := kmsg.NewConsumerGroupHeartbeatResponseAssignment()
	out.Topics = make([]kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic, len(set))
	for i, t := range set {
		out.Topics[i] = kmsg.NewConsumerGroupHeartbeatResponseAssignmentTopic()
		out.Topics[i].TopicID, out.Topics[i].Partitions = t.ID, t.Partitions
	}
	return &out
}

// consumerGroupDescribe answers ConsumerGroupDescribe (N-21).
func (b *Broker) consumerGroupDescribe(_ context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.ConsumerGroupDescribeRequest)
	response := request.ResponseKind().(*kmsg.ConsumerGroupDescribeResponse)
	response.Groups = make([]kmsg.ConsumerGroupDescribeResponseGroup, len(request.Groups))
	for i, name := range request.Groups {
		out := &response.Groups[i]
		*out = kmsg.NewConsumerGroupDescribeResponseGroup()
		out.Group = name
		refuse := func(code kerr.Code, message string) { out.ErrorCode, out.ErrorMessage = code.Int16(), &message }
		switch d, ok := b.groups.DescribeConsumer(name); {
		case !b.servesConsumers():
			refuse(kerr.UnsupportedVersion, "the consumer protocol is switched off")
		case name == "":
			out.ErrorCode = kerr.InvalidGroupID.Int16()
		case !ok:
			refuse(kerr.GroupIDNotFound, "there is no group of the consumer protocol with the id")
		default:
			b.describeConsumerGroup(out, &d)
			if request.IncludeAuthorizedOperations {
				out.AuthorizedOperations = groupOperations
			}
		}
	}
	return protocol.Answer(response)
}

func (b *Broker) describeConsumerGroup(out *kmsg.ConsumerGroupDescribeResponseGroup, d *consumer.Description) {
	out.State, out.Epoch, out.AssignmentEpoch, out.AssignorName = d.Life, d.Epoch, d.TargetEpoch, d.Assignor
	out.Members = make([]kmsg.ConsumerGroupDescribeResponseGroupMember, len(d.Members))
	for i := range d.Members {
		in, m := &d.Members[i], &out.Members[i]
		*m = kmsg.NewConsumerGroupDescribeResponseGroupMember()
		m.MemberID, m.InstanceID, m.RackID, m.MemberEpoch = in.ID, textOrNil(in.Instance), textOrNil(in.Rack), in.Epoch
		m.ClientID, m.ClientHost, m.SubscribedTopics, m.SubscribedTopicRegex = in.ClientID, in.ClientHost, in.Topics, &in.Regex
		m.Assignment, m.TargetAssignment = b.describedAssignment(in.Assigned), b.describedAssignment(in.Target)
		if m.MemberType = 1; in.Classic {
			m.MemberType = 0
		}
	}
}

func (b *Broker) describedAssignment(set assign.Assignment) kmsg.Assignment {
	out := kmsg.NewAssignment()
	for _, t := range set {
		topic := b.catalog.TopicByID(t.ID)
		if topic == nil {
			continue // deleted; its members have yet to be told
		}
		part := kmsg.NewAssignmentTopicPartition()
		part.TopicID, part.Topic, part.Partitions = t.ID, topic.Name(), t.Partitions
		out.TopicPartitions = append(out.TopicPartitions, part)
	}
	return out
}

// admitOffsets takes the partitions out of a commit that its member may not commit,
// and answers for them (N-17; locks of ordered groups).
func (b *Broker) admitOffsets(q *offsets.Request, version int16, response *kmsg.OffsetCommitResponse) {
	b.groups.Admit(q, version, func(id entry.TopicID, partition int32, err error) {
		for i := range response.Topics {
			t := &response.Topics[i]
			topic, _ := b.topicOf(version >= 10, t.Topic, t.TopicID)
			if topic == nil || topic.ID() != id {
				continue
			}
			for j := range t.Partitions {
				if p := &t.Partitions[j]; p.Partition == partition && p.ErrorCode == 0 {
					p.ErrorCode = kerr.Of(err).Int16()
				}
			}
		}
	})
	q.Topics = slices.DeleteFunc(q.Topics, func(t offsets.Topic) bool { return len(t.Offsets) == 0 })
}

// holdBack refuses the offset of a partition of an ordered group that somebody else
// has the lock of. Clients that ask for stable offsets know UNSTABLE_OFFSET_COMMIT,
// and try again; others get a code for which they do that, too.
func (b *Broker) holdBack(p *kmsg.OffsetFetchResponseGroupTopicPartition, in *kmsg.OffsetFetchRequestGroup, stable bool, topic entry.TopicID) {
	member := ""
	if in.MemberEpoch >= 0 {
		member = text(in.MemberID)
	}
	if b.groups.MayFetch(in.Group, member, topic, p.Partition) {
		return
	}
	*p = fetchedOffset(&offsets.Offset{Partition: p.Partition, Offset: -1, LeaderEpoch: -1})
	p.ErrorCode = kerr.CoordinatorLoadInProgress.Int16()
	if stable {
		p.ErrorCode = kerr.UnstableOffsetCommit.Int16()
	}
}
