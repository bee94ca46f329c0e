package catalog

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sluicemq/sluice/catalog/config"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// ResourceGroup is a group of consumers, which need not exist to have configs.
const ResourceGroup Resource = 32

// groupConfig is the configs of a group. It does not change.
type groupConfig struct {
	overrides config.Overrides
	resolved  *config.Group
}

// groupConfigs has the groups that have configs of their own, and what holds for
// all others. It does not change.
type groupConfigs struct {
	named  map[string]groupConfig
	others *config.Group
}

// Group returns the settings of a group as they hold at the moment. The result does
// not change.
func (c *Catalog) Group(name string) *config.Group {
	all := c.groups.Load()
	if g, ok := all.named[name]; ok {
		return g.resolved
	}
	return all.others
}

// ConfiguredGroups returns the names of the groups that have configs of their own,
// sorted.
func (c *Catalog) ConfiguredGroups() []string {
	return slices.Sorted(maps.Keys(c.groups.Load().named))
}

// DescribeGroup returns the configs of a group, whether it exists or not. Keys and
// synonyms are as for DescribeTopic.
func (c *Catalog) DescribeGroup(name string, keys []string, synonyms bool) ([]config.Entry, error) {
	if name == "" {
		return nil, kerr.New(kerr.InvalidRequest, "the group's name is empty; configs for all groups are set on the broker")
	}
	return c.Broker().DescribeGroup(c.groups.Load().named[name].overrides, keys, synonyms), nil
}

// setGroups publishes what follows from the overrides of groups and the broker's
// settings. Only the applier calls it.
func (c *Catalog) setGroups(change func(map[string]config.Overrides)) {
	overrides := make(map[string]config.Overrides)
	for name, g := range c.groups.Load().named {
		overrides[name] = g.overrides
	}
	change(overrides)
	broker := c.Broker()
	next := &groupConfigs{named: make(map[string]groupConfig, len(overrides)), others: broker.Group(nil)}
	for name, o := range overrides {
		if len(o) > 0 {
			next.named[name] = groupConfig{o, broker.Group(o)}
		}
	}
	c.groups.Store(next)
}

func (c *Catalog) applyAlterGroup(alter *AlterConfigs, tx Tx) {
	overrides := altered(c.groups.Load().named[alter.Name].overrides, alter.Replace, alter.Ops)
	if len(overrides) == 0 {
		tx.Delete(groupKey(alter.Name))
	} else {
		tx.Set(groupKey(alter.Name), appendDynamic(nil, overrides))
	}
	c.setGroups(func(all map[string]config.Overrides) { all[alter.Name] = overrides })
}

func (c *Catalog) planAlterGroup(a Alter, replace bool) (AlterPlan, error) {
	if a.Name == "" {
		return AlterPlan{}, kerr.New(kerr.InvalidRequest, "the group's name is empty; configs for all groups are set on the broker")
	}
	if len(a.Name) > maxSettingName {
		return AlterPlan{}, kerr.New(kerr.InvalidRequest, "the group's name has %d bytes, at most %d can have configs", len(a.Name), maxSettingName)
	}
	broker := c.Broker()
	effective := func(name string) string {
		for _, e := range broker.DescribeGroup(nil, []string{name}, false) {
			return e.Value
		}
		return ""
	}
	ops, err := makeOps(a.Changes, replace, config.GroupKey, config.UnknownGroupSetting, effective)
	if err != nil {
		return AlterPlan{}, err
	}
	overrides := altered(c.groups.Load().named[a.Name].overrides, replace, ops)
	if err := broker.CheckGroup(overrides); err != nil {
		return AlterPlan{}, kerr.New(kerr.InvalidConfig, "%v", err)
	}
	payload := AlterConfigs{Resource: ResourceGroup, Name: a.Name, Replace: replace, Ops: ops}
	return AlterPlan{Payload: payload.Append(nil), Overrides: overrides}, nil
}

func (c *Catalog) loadGroups(r entry.Reader) error {
	loaded := make(map[string]config.Overrides)
	var bad error
	err := r.Scan(groupKey(""), []byte{keySpace, keyGroup + 1}, func(key, value []byte) bool {
		name := string(key[2:])
		overrides, err := decodeDynamic(value)
		if err != nil {
			bad = fmt.Errorf("catalog: load the configs of group %q: %w", name, err)
			return false
		}
		loaded[name] = overrides
		return true
	})
	if err != nil {
		return fmt.Errorf("catalog: load the configs of groups: %w", err)
	}
	if bad != nil {
		return bad
	}
	c.setGroups(func(all map[string]config.Overrides) { maps.Copy(all, loaded) })
	return nil
}
