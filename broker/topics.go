package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/catalog"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// createTopics answers CreateTopics.
func (b *Broker) createTopics(_ context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.CreateTopicsRequest)
	response := request.ResponseKind().(*kmsg.CreateTopicsResponse)
	wanted := make([]catalog.NewTopic, len(request.Topics))
	for i := range request.Topics {
		wanted[i] = newTopic(&request.Topics[i])
	}
	plans := b.catalog.PlanCreate(wanted)
	commands := make([]*command, len(plans))
	var proposed []*command
	for i := range plans {
		commands[i] = &command{kind: entry.TypeCreateTopic, payload: plans[i].Payload, err: plans[i].Err}
		if plans[i].Err == nil && !request.ValidateOnly {
			proposed = append(proposed, commands[i])
		}
	}
	b.do(request.TimeoutMillis, proposed)
	answered := make(map[string]bool, len(wanted))
	for i := range wanted {
		if answered[wanted[i].Name] {
			continue // named twice: one answer
		}
		answered[wanted[i].Name] = true
		out := kmsg.NewCreateTopicsResponseTopic()
		out.Topic = wanted[i].Name
		if err := commands[i].err; err != nil {
			out.ErrorCode = kerr.Of(err).Int16()
			message := kerr.Message(err)
			out.ErrorMessage = &message
			out.NumPartitions, out.ReplicationFactor = -1, -1
		} else {
			out.NumPartitions, out.ReplicationFactor = plans[i].Partitions, plans[i].ReplicationFactor
			if !request.ValidateOnly {
				out.TopicID = wanted[i].ID
			}
			out.Configs = createdConfigs(b.catalog.DescribeNew(plans[i].Overrides))
		}
		response.Topics = append(response.Topics, out)
	}
	return protocol.Answer(response)
}

func newTopic(in *kmsg.CreateTopicsRequestTopic) catalog.NewTopic {
	t := catalog.NewTopic{Name: in.Topic, ID: newTopicID(), Partitions: in.NumPartitions, ReplicationFactor: in.ReplicationFactor}
	for _, a := range in.ReplicaAssignment {
		t.Assignments = append(t.Assignments, catalog.Assignment{Partition: a.Partition, Replicas: a.Replicas})
	}
	for _, c := range in.Configs {
		t.Configs = append(t.Configs, catalog.Config{Name: c.Name, Value: c.Value})
	}
	return t
}

// deletion is one topic of a DeleteTopics request on its way.
type deletion struct {
	command
	name *string
	id   [16]byte
}

// deleteTopics answers DeleteTopics, by name and from version 6 on also
// by id.
func (b *Broker) deleteTopics(_ context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.DeleteTopicsRequest)
	response := request.ResponseKind().(*kmsg.DeleteTopicsResponse)
	var deletions []*deletion
	for i := range request.TopicNames {
		deletions = append(deletions, b.planDeletion(&request.TopicNames[i], [16]byte{}))
	}
	for i := range request.Topics {
		deletions = append(deletions, b.planDeletion(request.Topics[i].Topic, request.Topics[i].TopicID))
	}
	refuseTwice(deletions)
	var proposed []*command
	for _, d := range deletions {
		if d.err == nil {
			proposed = append(proposed, &d.command)
		}
	}
	b.do(request.TimeoutMillis, proposed)
	for _, d := range deletions {
		out := kmsg.NewDeleteTopicsResponseTopic()
		out.Topic, out.TopicID = d.name, d.id
		if d.err != nil {
			code, message := kerr.Of(d.err), kerr.Message(d.err)
			if code == kerr.TopicDeletionDisabled && c.Version < 3 {
				code = kerr.InvalidRequest
			}
			out.ErrorCode, out.ErrorMessage = code.Int16(), &message
		}
		response.Topics = append(response.Topics, out)
	}
	b.log.Kick()
	return protocol.Answer(response)
}

func (b *Broker) planDeletion(name *string, id [16]byte) *deletion {
	d := &deletion{command: command{kind: entry.TypeDeleteTopic}, name: name, id: id}
	var topic *catalog.Topic
	switch byID := id != [16]byte{}; {
	case byID == (name != nil):
		d.err = kerr.New(kerr.InvalidRequest, "a topic must be given by its name or by its id")
		return d
	case byID:
		if topic = b.catalog.TopicByID(id); topic == nil {
			d.err = kerr.New(kerr.UnknownTopicID, "")
			return d
		}
	default:
		topic = b.catalog.Topic(*name)
	}
	plan := b.catalog.PlanDelete(topic)
	d.payload, d.err = plan.Payload, plan.Err
	if topic != nil && d.err == nil {
		found := topic.Name()
		d.name, d.id = &found, topic.ID()
	}
	return d
}

// refuseTwice refuses topics that a request names more than once.
func refuseTwice(deletions []*deletion) {
	times := map[[16]byte]int{}
	for _, d := range deletions {
		times[d.id]++
	}
	for _, d := range deletions {
		if d.err == nil && times[d.id] > 1 {
			d.err = kerr.New(kerr.InvalidRequest, "the topic occurs more than once in the request")
		}
	}
}

// createPartitions answers CreatePartitions.
func (b *Broker) createPartitions(_ context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.CreatePartitionsRequest)
	response := request.ResponseKind().(*kmsg.CreatePartitionsResponse)
	wanted := make([]catalog.MorePartitions, len(request.Topics))
	for i := range request.Topics {
		in := &request.Topics[i]
		wanted[i] = catalog.MorePartitions{Name: in.Topic, Total: in.Count}
		for _, a := range in.Assignment {
			wanted[i].Assignments = append(wanted[i].Assignments, a.Replicas)
		}
	}
	plans := b.catalog.PlanCreatePartitions(wanted)
	commands := make([]*command, len(plans))
	var proposed []*command
	for i := range plans {
		commands[i] = &command{kind: entry.TypeCreatePartitions, payload: plans[i].Payload, err: plans[i].Err}
		if plans[i].Err == nil && !request.ValidateOnly {
			proposed = append(proposed, commands[i])
		}
	}
	b.do(request.TimeoutMillis, proposed)
	answered := make(map[string]bool, len(wanted))
	for i := range wanted {
		if answered[wanted[i].Name] {
			continue // named twice: one answer
		}
		answered[wanted[i].Name] = true
		out := kmsg.NewCreatePartitionsResponseTopic()
		out.Topic = wanted[i].Name
		if err := commands[i].err; err != nil {
			message := kerr.Message(err)
			out.ErrorCode, out.ErrorMessage = kerr.Of(err).Int16(), &message
		}
		response.Topics = append(response.Topics, out)
	}
	return protocol.Answer(response)
}
