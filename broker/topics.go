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
func (b *Broker) createTopics(ctx context.Context, c *protocol.Call) protocol.Pending {
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
	b.do(ctx, request.TimeoutMillis, proposed)
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
			out.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
		} else {
			out.NumPartitions, out.ReplicationFactor = plans[i].Partitions, plans[i].ReplicationFactor
			out.TopicID = wanted[i].ID // as in Kafka also where it was only validated
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
	name *string // as told
	id   [16]byte
}

// deleteTopics answers DeleteTopics, by name and from version 6 on also
// by id.
func (b *Broker) deleteTopics(ctx context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.DeleteTopicsRequest)
	response := request.ResponseKind().(*kmsg.DeleteTopicsResponse)
	for i := range request.TopicNames {
		request.Topics = append(request.Topics, kmsg.DeleteTopicsRequestTopic{Topic: &request.TopicNames[i]})
	}
	deletions := b.planDeletions(request.Topics)
	var proposed []*command
	for _, d := range deletions {
		if d.err == nil {
			proposed = append(proposed, &d.command)
		}
	}
	b.do(ctx, request.TimeoutMillis, proposed)
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
	if len(proposed) > 0 {
		b.log.Kick() // there may be files to free
	}
	return protocol.Answer(response)
}

// planDeletions plans for each topic that is named. One that is named more than
// once, be it by name and by id, is refused, with one answer that shows what it
// was named by.
func (b *Broker) planDeletions(topics []kmsg.DeleteTopicsRequestTopic) []*deletion {
	var deletions []*deletion
	named := make(map[topicKey]*deletion)       // as in the request
	found := make(map[*catalog.Topic]*deletion) // those that exist
	for i := range topics {
		name, id := topics[i].Topic, topics[i].TopicID
		key := topicKey{id: id}
		if name != nil {
			key.name = *name
		}
		if d := named[key]; d != nil {
			d.refuseTwice()
			d.name, d.id = name, id
			continue
		}
		d, topic := b.planDeletion(name, id)
		named[key] = d
		if topic != nil {
			if other := found[topic]; other != nil {
				other.refuseTwice()
				continue
			}
			found[topic] = d
		}
		deletions = append(deletions, d)
	}
	return deletions
}

func (d *deletion) refuseTwice() {
	d.err = kerr.New(kerr.InvalidRequest, "the topic occurs more than once in the request")
}

// planDeletion plans for one topic, and returns it if it exists.
func (b *Broker) planDeletion(name *string, id [16]byte) (*deletion, *catalog.Topic) {
	d := &deletion{command: command{kind: entry.TypeDeleteTopic}, name: name, id: id}
	var topic *catalog.Topic
	switch byID := id != [16]byte{}; {
	case byID == (name != nil):
		d.err = kerr.New(kerr.InvalidRequest, "a topic must be given by its name or by its id")
		return d, nil
	case byID:
		if topic = b.catalog.TopicByID(id); topic == nil {
			d.err = kerr.New(kerr.UnknownTopicID, "")
			return d, nil
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
	return d, topic
}

// createPartitions answers CreatePartitions.
func (b *Broker) createPartitions(ctx context.Context, c *protocol.Call) protocol.Pending {
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
	b.do(ctx, request.TimeoutMillis, proposed)
	answered := make(map[string]bool, len(wanted))
	for i := range wanted {
		if answered[wanted[i].Name] {
			continue // named twice: one answer
		}
		answered[wanted[i].Name] = true
		out := kmsg.NewCreatePartitionsResponseTopic()
		out.Topic = wanted[i].Name
		if err := commands[i].err; err != nil {
			code, message := kerr.Of(err), kerr.Message(err)
			out.ErrorCode = code.Int16()
			if code != kerr.UnknownTopicOrPartition {
				out.ErrorMessage = &message
			}
		}
		response.Topics = append(response.Topics, out)
	}
	return protocol.Answer(response)
}
