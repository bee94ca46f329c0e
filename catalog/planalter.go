package catalog

import (
	"strconv"

	"github.com/sluicemq/sluice/catalog/config"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// Resource is what configs belong to, with Kafka's numbers.
type Resource int8

// The resources whose configs the catalog keeps.
const (
	ResourceTopic  Resource = 2
	ResourceBroker Resource = 4
)

// Alter asks for changes of the configs of one resource.
type Alter struct {
	Resource Resource
	Name     string // topic, group, or "" for all brokers, or a node's id
	Changes  []ConfigChange
}

// ConfigChange is a change as a client gives it; Value is nil for null.
type ConfigChange struct {
	Kind  config.OpKind // not looked at by PlanReplace
	Name  string
	Value *string
}

// AlterPlan is the outcome of planning an Alter.
type AlterPlan struct {
	Err       error            // the refusal, or nil
	Payload   []byte           // for an entry of TypeAlterConfigs
	Overrides config.Overrides // what the resource will have
}

// PlanIncremental checks the resources of one IncrementalAlterConfigs and
// returns a plan for each. It changes nothing, so that it is also the answer to
// validate_only.
func (c *Catalog) PlanIncremental(alters []Alter) []AlterPlan { return c.planAlters(alters, false) }

// PlanReplace does the same for AlterConfigs, which replaces all configs of a
// resource: those not named go back to their defaults.
func (c *Catalog) PlanReplace(alters []Alter) []AlterPlan { return c.planAlters(alters, true) }

func (c *Catalog) planAlters(alters []Alter, replace bool) []AlterPlan {
	type resource struct {
		kind Resource
		name string
	}
	times := make(map[resource]int, len(alters))
	for _, a := range alters {
		times[resource{a.Resource, a.Name}]++
	}
	plans := make([]AlterPlan, len(alters))
	for i, a := range alters {
		var err error
		if times[resource{a.Resource, a.Name}] > 1 {
			err = kerr.New(kerr.InvalidRequest, "the resource %q occurs more than once in the request", a.Name)
		} else {
			plans[i], err = c.planAlter(a, replace)
		}
		if err != nil {
			plans[i] = AlterPlan{Err: err}
		}
	}
	return plans
}

func (c *Catalog) planAlter(a Alter, replace bool) (AlterPlan, error) {
	if err := checkChanges(a.Changes, replace); err != nil {
		return AlterPlan{}, err
	}
	switch a.Resource {
	case ResourceTopic:
		return c.planAlterTopic(a, replace)
	case ResourceBroker:
		return c.planAlterBroker(a, replace)
	case ResourceGroup:
		return c.planAlterGroup(a, replace)
	}
	return AlterPlan{}, kerr.New(kerr.InvalidRequest, "configs of resource type %d cannot be altered", a.Resource)
}

// checkChanges refuses what makes no sense for any resource.
func checkChanges(changes []ConfigChange, replace bool) error {
	seen := make(map[string]bool, len(changes))
	for _, ch := range changes {
		kind := ch.Kind
		if replace {
			kind = config.OpSet
		}
		switch {
		case seen[ch.Name]:
			return kerr.New(kerr.InvalidRequest, "the config %q occurs more than once", ch.Name)
		case kind < config.OpSet || kind > config.OpSubtract:
			return kerr.New(kerr.InvalidRequest, "the operation %d on the config %q is unknown", kind, ch.Name)
		case ch.Value == nil && kind != config.OpDelete:
			return kerr.New(kerr.InvalidRequest, "the value of the config %q is null", ch.Name)
		}
		seen[ch.Name] = true
	}
	return nil
}

func (c *Catalog) planAlterTopic(a Alter, replace bool) (AlterPlan, error) {
	if a.Name == "" {
		return AlterPlan{}, kerr.New(kerr.InvalidRequest, "the topic's name is empty; configs for all topics are set on the broker")
	}
	if err := CheckName(a.Name); err != nil {
		return AlterPlan{}, err
	}
	t := c.Topic(a.Name)
	if t == nil {
		return AlterPlan{}, kerr.New(kerr.UnknownTopicOrPartition, "topic %q does not exist", a.Name)
	}
	broker := c.Broker()
	effective := func(name string) string {
		for _, e := range broker.DescribeTopic(nil, []string{name}, false) {
			return e.Value
		}
		return ""
	}
	ops, err := makeOps(a.Changes, replace, config.TopicKey, config.UnknownTopicSetting, effective)
	if err != nil {
		return AlterPlan{}, err
	}
	overrides := altered(t.Overrides(), replace, ops)
	if err := checkLists(overrides, ops, config.TopicKey); err != nil {
		return AlterPlan{}, err
	}
	if err := broker.CheckTopic(overrides); err != nil {
		return AlterPlan{}, kerr.New(kerr.InvalidConfig, "%v", err)
	}
	payload := AlterConfigs{Resource: ResourceTopic, ID: t.id, Replace: replace, Ops: ops}
	return AlterPlan{Payload: payload.Append(nil), Overrides: overrides}, nil
}

func (c *Catalog) planAlterBroker(a Alter, replace bool) (AlterPlan, error) {
	if err := c.checkNode(a.Name); err != nil {
		return AlterPlan{}, err
	}
	for _, ch := range a.Changes {
		k := config.BrokerKey(ch.Name)
		if k == nil && (replace || ch.Kind != config.OpDelete) {
			return AlterPlan{}, kerr.New(kerr.InvalidConfig, "%v", config.UnknownBrokerSetting(ch.Name))
		}
		if k != nil && k.Update != config.Dynamic {
			return AlterPlan{}, kerr.New(kerr.InvalidRequest, "%s: can only be set in the broker's configuration file, at its start", ch.Name)
		}
	}
	broker := c.Broker()
	effective := func(name string) string {
		for _, e := range broker.Describe([]string{name}, false) {
			return e.Value
		}
		return ""
	}
	ops, err := makeOps(a.Changes, replace, config.BrokerKey, config.UnknownBrokerSetting, effective)
	if err != nil {
		return AlterPlan{}, badForBroker(err)
	}
	overrides := altered((*c.dynamic.Load())[a.Name], replace, ops)
	if err := checkLists(overrides, ops, config.BrokerKey); err != nil {
		return AlterPlan{}, badForBroker(err)
	}
	if err := c.withDynamic(a.Name, overrides).CheckTopic(nil); err != nil {
		return AlterPlan{}, kerr.New(kerr.InvalidRequest, "%v", err)
	}
	payload := AlterConfigs{Resource: ResourceBroker, Name: a.Name, Replace: replace, Ops: ops}
	return AlterPlan{Payload: payload.Append(nil), Overrides: overrides}, nil
}

// badForBroker gives the refusal of a value the code that Kafka has for it in
// configs of brokers, which is not that for topics.
func badForBroker(err error) error {
	return kerr.New(kerr.InvalidRequest, "%s", kerr.Message(err))
}

// withDynamic returns the broker's settings as they would be.
func (c *Catalog) withDynamic(resource string, overrides config.Overrides) *config.Broker {
	dynamic := *c.dynamic.Load()
	cluster, node := dynamic[""], dynamic[c.started.NodeName()]
	if resource == "" {
		cluster = overrides
	} else {
		node = overrides
	}
	return c.started.WithDynamic(cluster, node)
}

// checkNode accepts "" and this node's id.
func (c *Catalog) checkNode(name string) error {
	if name == "" {
		return nil
	}
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return kerr.New(kerr.InvalidRequest, "%q is no broker id", name)
	}
	if int32(id) != c.started.NodeID || name != c.started.NodeName() {
		return kerr.New(kerr.InvalidRequest, "this is broker %s, not broker %s", c.started.NodeName(), name)
	}
	return nil
}

// makeOps checks the changes and puts them into the form in which they are
// applied.
func makeOps(changes []ConfigChange, replace bool, find func(string) *config.Key, unknown func(string) error,
	effective func(string) string) ([]config.Op, error) {
	ops := make([]config.Op, 0, len(changes))
	for _, ch := range changes {
		op := config.Op{Kind: ch.Kind, Name: ch.Name}
		if replace {
			op.Kind = config.OpSet
		}
		if op.Kind == config.OpDelete {
			// A config that does not exist is not set either.
			if ch.Name != "" && len(ch.Name) <= maxSettingName {
				ops = append(ops, op)
			}
			continue
		}
		k := find(ch.Name)
		if k == nil {
			return nil, kerr.New(kerr.InvalidConfig, "%v", unknown(ch.Name))
		}
		if isListOp(op.Kind) {
			if k.Type != config.List {
				return nil, kerr.New(kerr.InvalidConfig, "%s: is not a list, so that nothing can be added to it or taken from it", k.Name)
			}
			op.Base = effective(k.Name)
		}
		s, err := checkSetting(k, *ch.Value)
		if err != nil {
			return nil, err
		}
		op.Name, op.Value = s.Name, s.Value
		ops = append(ops, op)
	}
	return ops, nil
}

// checkLists refuses lists that are wrong only as a whole.
func checkLists(overrides config.Overrides, ops []config.Op, find func(string) *config.Key) error {
	for _, op := range ops {
		if !isListOp(op.Kind) {
			continue
		}
		value, _ := overrides.Get(op.Name)
		if _, err := checkSetting(find(op.Name), value); err != nil {
			return err
		}
	}
	return nil
}
