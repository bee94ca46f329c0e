package catalog

import (
	"math"

	"github.com/sluicemq/sluice/catalog/config"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// maxPartitionsPerRequest bounds what one request may create, as in Kafka.
const maxPartitionsPerRequest = 10_000

// NewTopic asks for a topic.
type NewTopic struct {
	Name              string
	ID                entry.TopicID // random, made by the shell
	ByBroker          bool          // whether the broker makes it for itself, so that Reserved names are allowed
	Partitions        int32         // -1: the broker's default, or as many as Assignments
	ReplicationFactor int16         // -1: the broker's default, or as Assignments have it
	Assignments       []Assignment  // empty: the broker chooses
	Configs           []Config
}

// Assignment puts a partition on nodes.
type Assignment struct {
	Partition int32
	Replicas  []int32
}

// Config is a config as a client gives it; Value is nil for null.
type Config struct {
	Name  string
	Value *string
}

// CreatePlan is the outcome of planning a NewTopic.
type CreatePlan struct {
	Err     error  // the refusal, or nil
	Payload []byte // for an entry of TypeCreateTopic

	// What the topic will be. DescribeNew shows its configs.
	Partitions        int32
	ReplicationFactor int16
	Overrides         config.Overrides
}

// PlanCreate checks the topics of one request and returns a plan for each. It
// changes nothing, so that it is also the answer to validate_only.
func (c *Catalog) PlanCreate(topics []NewTopic) []CreatePlan {
	plans := make([]CreatePlan, len(topics))
	broker := c.Broker()
	times := make(map[string]int, len(topics))
	asked := int64(0)
	for i := range topics {
		times[topics[i].Name]++
		asked += wanted(broker, &topics[i])
	}
	_, existing := c.Count()
	room := int64(broker.MaxPartitions) - int64(existing)
	for i := range topics {
		t, p := &topics[i], &plans[i]
		switch {
		case asked > maxPartitionsPerRequest:
			p.Err = kerr.New(kerr.PolicyViolation, "the request asks for %d partitions; at most %d can be created at a time",
				asked, maxPartitionsPerRequest)
		case times[t.Name] > 1:
			p.Err = kerr.New(kerr.InvalidRequest, "the topic %q occurs more than once in the request", t.Name)
		default:
			p.Err = c.planCreate(broker, t, p)
		}
		if p.Err == nil && int64(p.Partitions) > room {
			p.Err = tooMany(broker, existing, p.Partitions)
		}
		if p.Err != nil {
			*p = CreatePlan{Err: p.Err}
			continue
		}
		room -= int64(p.Partitions)
		create := CreateTopic{
			ID: t.ID, Internal: internalName(t.Name), Partitions: p.Partitions, Name: t.Name, Overrides: p.Overrides,
		}
		p.Payload = create.Append(nil)
	}
	return plans
}

// wanted returns how many partitions the topic would have, 0 if it is refused
// for the number.
func wanted(broker *config.Broker, t *NewTopic) int64 {
	switch {
	case len(t.Assignments) > 0:
		return int64(len(t.Assignments))
	case t.Partitions == -1:
		return int64(broker.NumPartitions)
	}
	return max(0, int64(t.Partitions))
}

func tooMany(broker *config.Broker, existing int, more int32) error {
	return kerr.New(kerr.PolicyViolation, "%d partitions more than the %d there are would exceed max.partitions, which is %d",
		more, existing, broker.MaxPartitions)
}

func (c *Catalog) planCreate(broker *config.Broker, t *NewTopic, p *CreatePlan) error {
	if err := CheckName(t.Name); err != nil {
		return err
	}
	if Reserved(t.Name) && !t.ByBroker {
		return kerr.New(kerr.InvalidTopic, "the topic name %q is kept for the broker", t.Name)
	}
	if err := c.checkFree(t.Name, t.ID); err != nil {
		return err
	}
	if t.ID == (entry.TopicID{}) {
		return kerr.New(kerr.InvalidRequest, "the topic id is zero")
	}
	if err := planReplicas(broker, t, p); err != nil {
		return err
	}
	var err error
	p.Overrides, err = checkConfigs(broker, t.Configs)
	return err
}

// planReplicas decides how many partitions and replicas the topic will have.
func planReplicas(broker *config.Broker, t *NewTopic, p *CreatePlan) error {
	if len(t.Assignments) > 0 {
		if t.Partitions != -1 || t.ReplicationFactor != -1 {
			return kerr.New(kerr.InvalidRequest, "topic %q has assignments, so that partitions and replication factor must be -1", t.Name)
		}
		p.Partitions, p.ReplicationFactor = int32(len(t.Assignments)), 1
		return checkAssignments(broker, t.Assignments)
	}
	if t.Partitions == 0 || t.Partitions < -1 {
		return kerr.New(kerr.InvalidPartitions, "topic %q cannot have %d partitions; expected a positive number, or -1 for the default",
			t.Name, t.Partitions)
	}
	p.Partitions = t.Partitions
	if p.Partitions == -1 {
		p.Partitions = broker.NumPartitions
	}
	factor := t.ReplicationFactor
	if factor == -1 {
		factor = broker.DefaultReplicationFactor
	}
	switch {
	case factor <= 0:
		return kerr.New(kerr.InvalidReplicationFactor,
			"topic %q cannot have the replication factor %d; expected a positive number, or -1 for the default", t.Name, factor)
	case factor > nodes && broker.Exceeding == config.RefuseExceeding:
		return kerr.New(kerr.InvalidReplicationFactor, "topic %q cannot have %d replicas, since there is %d node; "+
			"ask for 1 (or set the broker's replication.factor.exceeding.nodes to cap)", t.Name, factor, nodes)
	}
	p.ReplicationFactor = min(factor, nodes)
	return nil
}

// nodes is how many nodes there are. A cluster will ask the membership.
const nodes = 1

// checkAssignments accepts each partition from 0 on once, on this node.
func checkAssignments(broker *config.Broker, all []Assignment) error {
	seen := make([]bool, len(all))
	for _, a := range all {
		if a.Partition < 0 || int(a.Partition) >= len(all) {
			return kerr.New(kerr.InvalidReplicaAssignment, "the assignment of partition %d; expected those from 0 to %d",
				a.Partition, len(all)-1)
		}
		if seen[a.Partition] {
			return kerr.New(kerr.InvalidReplicaAssignment, "partition %d is assigned twice", a.Partition)
		}
		seen[a.Partition] = true
		if err := checkReplicas(broker, a.Partition, a.Replicas); err != nil {
			return err
		}
	}
	return nil
}

func checkReplicas(broker *config.Broker, partition int32, replicas []int32) error {
	if len(replicas) == 0 {
		return kerr.New(kerr.InvalidReplicaAssignment, "partition %d is assigned to no node", partition)
	}
	for i, node := range replicas {
		if node != broker.NodeID {
			return kerr.New(kerr.InvalidReplicaAssignment, "partition %d is assigned to node %d, which does not exist", partition, node)
		}
		if i > 0 {
			return kerr.New(kerr.InvalidReplicaAssignment, "partition %d is assigned to node %d twice", partition, node)
		}
	}
	return nil
}

// checkConfigs returns the configs of a topic to be made. Of one that is given
// twice the last value counts, as in Kafka.
func checkConfigs(broker *config.Broker, configs []Config) (config.Overrides, error) {
	last := make(map[string]int, len(configs))
	for i, given := range configs {
		last[given.Name] = i
	}
	settings := make([]config.Setting, 0, len(last))
	for i, given := range configs {
		if last[given.Name] != i {
			continue
		}
		if given.Value == nil {
			return nil, kerr.New(kerr.InvalidConfig, "%s: the value is null", given.Name)
		}
		s, err := checkTopicSetting(given.Name, *given.Value)
		if err != nil {
			return nil, err
		}
		settings = append(settings, s)
	}
	overrides := config.MakeOverrides(settings)
	if err := broker.CheckTopic(overrides); err != nil {
		return nil, kerr.New(kerr.InvalidConfig, "%v", err)
	}
	return overrides, nil
}

func checkTopicSetting(name, value string) (config.Setting, error) {
	k := config.TopicKey(name)
	if k == nil {
		return config.Setting{}, kerr.New(kerr.InvalidConfig, "%v", config.UnknownTopicSetting(name))
	}
	return checkSetting(k, value)
}

func checkSetting(k *config.Key, value string) (config.Setting, error) {
	if len(value) > config.MaxValueBytes {
		return config.Setting{}, kerr.New(kerr.InvalidConfig, "%s: the value has %d bytes; at most %d", k.Name, len(value), config.MaxValueBytes)
	}
	text, err := k.Canonical(value)
	if err != nil {
		return config.Setting{}, kerr.New(kerr.InvalidConfig, "%v", err)
	}
	return config.Setting{Name: k.Name, Value: text}, nil
}

// DeletePlan is the outcome of planning to delete a topic.
type DeletePlan struct {
	Err     error  // the refusal, or nil
	Payload []byte // for an entry of TypeDeleteTopic
	Topic   *Topic // as it is; nil if there is none
}

// PlanDelete checks whether a topic, which may be nil if the name or id is not
// known, can be deleted. The caller picks the code for an unknown one: by name
// it is UNKNOWN_TOPIC_OR_PARTITION, which the plan has; by id UNKNOWN_TOPIC_ID.
func (c *Catalog) PlanDelete(t *Topic) DeletePlan {
	switch {
	case !c.Broker().DeleteTopics:
		return DeletePlan{Topic: t, Err: kerr.New(kerr.TopicDeletionDisabled, "delete.topic.enable is false")}
	case t == nil:
		return DeletePlan{Err: kerr.New(kerr.UnknownTopicOrPartition, "the topic does not exist")}
	case t.internal:
		return DeletePlan{Topic: t, Err: kerr.New(kerr.InvalidTopic, "topic %q belongs to the broker and cannot be deleted", t.name)}
	}
	del := DeleteTopic{ID: t.id}
	return DeletePlan{Topic: t, Payload: del.Append(nil)}
}

// MorePartitions asks for partitions to be added to a topic.
type MorePartitions struct {
	Name        string
	Total       int32     // how many the topic is to have
	Assignments [][]int32 // the nodes of each added partition; empty: the broker chooses
}

// PartitionsPlan is the outcome of planning MorePartitions.
type PartitionsPlan struct {
	Err     error  // the refusal, or nil
	Payload []byte // for an entry of TypeCreatePartitions
	Topic   *Topic // as it is; nil if there is none
}

// PlanCreatePartitions checks the topics of one request and returns a plan for
// each. It changes nothing, so that it is also the answer to validate_only.
func (c *Catalog) PlanCreatePartitions(requests []MorePartitions) []PartitionsPlan {
	plans := make([]PartitionsPlan, len(requests))
	broker := c.Broker()
	times := make(map[string]int, len(requests))
	for _, r := range requests {
		times[r.Name]++
	}
	_, existing := c.Count()
	room, left := int64(broker.MaxPartitions)-int64(existing), int64(maxPartitionsPerRequest)
	for i, r := range requests {
		p := &plans[i]
		if times[r.Name] > 1 {
			p.Err = kerr.New(kerr.InvalidRequest, "the topic %q occurs more than once in the request", r.Name)
			continue
		}
		if p.Topic = c.Topic(r.Name); p.Topic == nil {
			p.Err = kerr.New(kerr.UnknownTopicOrPartition, "topic %q does not exist", r.Name)
			continue
		}
		if p.Err = checkMore(broker, p.Topic, r); p.Err != nil {
			continue
		}
		more := int64(r.Total) - int64(p.Topic.partitions)
		switch {
		case more > left:
			p.Err = kerr.New(kerr.PolicyViolation, "at most %d partitions can be created in one request", maxPartitionsPerRequest)
			continue
		case more > room:
			p.Err = tooMany(broker, existing, int32(min(more, math.MaxInt32)))
			continue
		}
		left, room = left-more, room-more
		create := CreatePartitions{ID: p.Topic.id, Total: r.Total}
		p.Payload = create.Append(nil)
	}
	return plans
}

func checkMore(broker *config.Broker, t *Topic, r MorePartitions) error {
	if t.internal {
		return kerr.New(kerr.InvalidTopic, "topic %q belongs to the broker; its partitions cannot be changed", t.name)
	}
	if err := checkTotal(t, r.Total); err != nil {
		return err
	}
	if len(r.Assignments) == 0 {
		return nil
	}
	if more := int(r.Total - t.partitions); len(r.Assignments) != more {
		return kerr.New(kerr.InvalidReplicaAssignment, "topic %q would get %d partitions more, but %d are assigned", t.name, more, len(r.Assignments))
	}
	for i, replicas := range r.Assignments {
		if err := checkReplicas(broker, t.partitions+int32(i), replicas); err != nil {
			return err
		}
	}
	return nil
}
