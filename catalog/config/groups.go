package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Consumers are the broker's settings for groups of the consumer protocol
// (KIP-848) and for ordered groups.
type Consumers struct {
	Protocols          []string // which members may use
	Session            time.Duration
	MinSession         time.Duration
	MaxSession         time.Duration
	Heartbeat          time.Duration
	MinHeartbeat       time.Duration
	MaxHeartbeat       time.Duration
	AssignmentInterval time.Duration
	RegexRefresh       time.Duration
	MaxSize            int32
	Assignors          []string
	Migration          Migration
	LockLease          time.Duration
}

// Migration says which groups may change their protocol while they have members.
type Migration struct {
	Upgrade   bool // from the classic protocol
	Downgrade bool // to it
}

func (m *Migration) setText(s string) {
	*m = Migration{Upgrade: s == "bidirectional" || s == "upgrade", Downgrade: s == "bidirectional" || s == "downgrade"}
}

// Group is the settings of one group as they hold: its overrides, and the
// broker's values for the rest. It is immutable.
type Group struct {
	Session            time.Duration
	Heartbeat          time.Duration
	AssignmentInterval time.Duration
	Ordered            bool // its partitions are under the queue lock
}

// GroupKey returns the group setting with the name, or nil.
func GroupKey(name string) *Key { return groupIndex[name] }

// GroupKeys returns all group settings, sorted by name. The slice is the caller's,
// the keys are not.
func GroupKeys() []*Key { return slices.Clone(groupTable) }

var (
	groupTable = complete(groupConfigKeys())
	groupIndex = indexByName(groupTable)
)

// Group resolves the settings of a group with the overrides. Overrides that are
// unknown or do not parse, which only a state written by another version can hold,
// count as not set.
func (b *Broker) Group(overrides Overrides) *Group {
	g := new(Group)
	for _, k := range groupTable {
		if k.group != nil {
			assign(k.group(g), b.topicValue(k, overrides))
		}
	}
	return g
}

// CheckGroup returns an error if the overrides, each of which is valid, are not
// what the broker lets groups have.
func (b *Broker) CheckGroup(overrides Overrides) error {
	g, c := b.Group(overrides), &b.Consumers
	switch {
	case g.Session < c.MinSession || g.Session > c.MaxSession:
		return fmt.Errorf("consumer.session.timeout.ms: %d is not from %d to %d, the broker's group.consumer.min.session.timeout.ms and max",
			g.Session.Milliseconds(), c.MinSession.Milliseconds(), c.MaxSession.Milliseconds())
	case g.Heartbeat < c.MinHeartbeat || g.Heartbeat > c.MaxHeartbeat:
		return fmt.Errorf("consumer.heartbeat.interval.ms: %d is not from %d to %d, the broker's group.consumer.min.heartbeat.interval.ms and max",
			g.Heartbeat.Milliseconds(), c.MinHeartbeat.Milliseconds(), c.MaxHeartbeat.Milliseconds())
	case g.Session <= g.Heartbeat:
		return fmt.Errorf("consumer.session.timeout.ms: %d is not more than consumer.heartbeat.interval.ms, which is %d",
			g.Session.Milliseconds(), g.Heartbeat.Milliseconds())
	}
	return nil
}

// DescribeGroup returns the settings of a group with the overrides, sorted by name:
// those named by names that exist, or all if names is empty.
func (b *Broker) DescribeGroup(overrides Overrides, names []string, synonyms bool) []Entry {
	entries := make([]Entry, 0, len(groupTable))
	for _, k := range groupTable {
		if !asked(names, k.Name) {
			continue
		}
		e := Entry{Name: k.Name, Value: b.topicValue(k, overrides), Type: k.Type, Doc: k.Doc, Source: SourceDefault}
		if _, source, ok := b.firstSynonym(k); ok {
			e.Source = source
		}
		own, overridden := overrides.Get(k.Name)
		if overridden {
			e.Source = SourceGroup
		}
		if synonyms {
			if overridden {
				e.Synonyms = append(e.Synonyms, Synonym{k.Name, own, SourceGroup})
			}
			e.Synonyms = b.appendSynonyms(e.Synonyms, k.Synonyms)
		}
		entries = append(entries, e)
	}
	known := len(entries)
	for _, s := range overrides { // what another version stored is shown as it is, not hidden
		if GroupKey(s.Name) == nil && asked(names, s.Name) {
			entries = append(entries, Entry{Name: s.Name, Value: s.Value, Source: SourceGroup})
		}
	}
	if len(entries) > known {
		slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	}
	return entries
}

// UnknownGroupSetting returns the error for a group config that does not exist.
func UnknownGroupSetting(name string) error {
	return fmt.Errorf("%s: is not a group config%s", clip(name), didYouMean(name, groupTable))
}

// checkConsumers finds settings of Consumers that are wrong together.
func (b *Broker) checkConsumers(wrong func(name, format string, args ...any)) {
	c := &b.Consumers
	between := func(name string, value, least, most time.Duration) {
		if value < least || value > most {
			wrong("group.consumer."+name, "%d is not from %d to %d, which are group.consumer.min.%s and group.consumer.max.%s",
				value.Milliseconds(), least.Milliseconds(), most.Milliseconds(), name, name)
		}
	}
	between("session.timeout.ms", c.Session, c.MinSession, c.MaxSession)
	between("heartbeat.interval.ms", c.Heartbeat, c.MinHeartbeat, c.MaxHeartbeat)
	if c.Session <= c.Heartbeat {
		wrong("group.consumer.session.timeout.ms", "%d is not more than group.consumer.heartbeat.interval.ms, which is %d",
			c.Session.Milliseconds(), c.Heartbeat.Milliseconds())
	}
	if len(c.Assignors) == 0 {
		wrong("group.consumer.assignors", "is empty; give one at least")
	}
}

// groupConfigKeys returns the settings of groups.
func groupConfigKeys() []*Key {
	return []*Key{
		{
			Name: "consumer.session.timeout.ms", Type: Int, Default: "45000", check: int32From(1), Synonyms: as("group.consumer.session.timeout.ms"),
			group: func(g *Group) any { return &g.Session },
			Doc:   "After how many milliseconds without a heartbeat a member of the consumer protocol is removed from the group.",
		},
		{
			Name: "consumer.heartbeat.interval.ms", Type: Int, Default: "5000", check: int32From(1), Synonyms: as("group.consumer.heartbeat.interval.ms"),
			group: func(g *Group) any { return &g.Heartbeat },
			Doc:   "How often members of the consumer protocol are told to send heartbeats, in milliseconds.",
		},
		{
			Name: "consumer.assignment.interval.ms", Type: Int, Default: "1000", check: whole(0, 15_000), Synonyms: as("group.consumer.assignment.interval.ms"),
			group: func(g *Group) any { return &g.AssignmentInterval },
			Doc:   "The least time between two computations of who gets which partition, in milliseconds.",
		},
		{
			Name: "ordered", Type: Boolean, Default: "false", check: boolean(),
			group: func(g *Group) any { return &g.Ordered },
			Doc: "Whether the group's partitions are under the queue lock: a member gets the committed offset of a partition, and may " +
				"commit, only when whoever had the partition before has given it up, or its lease (queue.lock.lease.ms) is over. Not in Kafka.",
		},
	}
}

// consumerKeys returns the broker's settings for groups of the consumer protocol.
func consumerKeys() []*Key {
	return []*Key{
		{
			Name: "group.coordinator.rebalance.protocols", Group: groupGroups, Type: List, Default: "classic,consumer", check: listOf("classic", "consumer"),
			broker: func(b *Broker) any { return &b.Consumers.Protocols },
			Doc: "The protocols by which groups may be coordinated. Without \"consumer\", members of that protocol are refused with " +
				"UNSUPPORTED_VERSION. The classic protocol cannot be switched off.",
		},
		{
			Name: "group.consumer.session.timeout.ms", Group: groupGroups, Type: Int, Default: "45000", check: int32From(1),
			broker: func(b *Broker) any { return &b.Consumers.Session },
			Doc: "After how many milliseconds without a heartbeat a member of the consumer protocol is removed from its group. The " +
				"group config consumer.session.timeout.ms goes before it.",
		},
		{
			Name: "group.consumer.min.session.timeout.ms", Group: groupGroups, Type: Int, Default: "45000", check: int32From(1),
			broker: func(b *Broker) any { return &b.Consumers.MinSession },
			Doc:    "The shortest session timeout, in milliseconds, that groups of the consumer protocol may be given.",
		},
		{
			Name: "group.consumer.max.session.timeout.ms", Group: groupGroups, Type: Int, Default: "60000", check: int32From(1),
			broker: func(b *Broker) any { return &b.Consumers.MaxSession },
			Doc:    "The longest session timeout, in milliseconds, that groups of the consumer protocol may be given.",
		},
		{
			Name: "group.consumer.heartbeat.interval.ms", Group: groupGroups, Type: Int, Default: "5000", check: int32From(1),
			broker: func(b *Broker) any { return &b.Consumers.Heartbeat },
			Doc: "How often members of the consumer protocol are told to send heartbeats, in milliseconds. The group config " +
				"consumer.heartbeat.interval.ms goes before it. Members that wait for partitions are told to come after a second.",
		},
		{
			Name: "group.consumer.min.heartbeat.interval.ms", Group: groupGroups, Type: Int, Default: "5000", check: int32From(1),
			broker: func(b *Broker) any { return &b.Consumers.MinHeartbeat },
			Doc:    "The shortest heartbeat interval, in milliseconds, that groups of the consumer protocol may be given.",
		},
		{
			Name: "group.consumer.max.heartbeat.interval.ms", Group: groupGroups, Type: Int, Default: "15000", check: int32From(1),
			broker: func(b *Broker) any { return &b.Consumers.MaxHeartbeat },
			Doc:    "The longest heartbeat interval, in milliseconds, that groups of the consumer protocol may be given.",
		},
		{
			Name: "group.consumer.assignment.interval.ms", Group: groupGroups, Type: Int, Default: "1000", check: whole(0, 15_000),
			broker: func(b *Broker) any { return &b.Consumers.AssignmentInterval },
			Doc: "The least time between two computations of who gets which partition in a group of the consumer protocol, in " +
				"milliseconds. The first member of a group does not wait for it.",
		},
		{
			Name: "group.consumer.regex.refresh.interval.ms", Group: groupGroups, Type: Int, Default: "600000", check: int32From(10_000),
			broker: func(b *Broker) any { return &b.Consumers.RegexRefresh },
			Doc: "After how many milliseconds the topics that a pattern matches are looked for again even if no topic has changed, " +
				"since permissions may have.",
		},
		{
			Name: "group.consumer.max.size", Group: groupGroups, Type: Int, Default: "2147483647", check: int32From(1),
			broker: func(b *Broker) any { return &b.Consumers.MaxSize },
			Doc:    "How many members a group of the consumer protocol may have. Further ones are refused with GROUP_MAX_SIZE_REACHED.",
		},
		{
			Name: "group.consumer.assignors", Group: groupGroups, Type: List, Default: "uniform,range", check: listOf("uniform", "range"),
			broker: func(b *Broker) any { return &b.Consumers.Assignors },
			Doc: "The assignors that members of the consumer protocol may ask for. The first one is taken if none asks. uniform evens " +
				"out members over all topics; range gives each a run of partitions of each topic.",
		},
		{
			Name: "group.consumer.migration.policy", Group: groupGroups, Type: String, Default: "bidirectional",
			check:  oneOf("bidirectional", "upgrade", "downgrade", "disabled"),
			broker: func(b *Broker) any { return &b.Consumers.Migration },
			Doc: "Which groups may change their protocol while they have members: from classic to consumer with the first member of " +
				"that (upgrade), back with its last one (downgrade), both, or none. Groups without members always may.",
		},
		{
			Name: "queue.lock.lease.ms", Group: groupGroups, Type: Int, Default: "60000", check: int32From(1000),
			broker: func(b *Broker) any { return &b.Consumers.LockLease },
			Doc: "For how many milliseconds after it was last heard of a member of an ordered group that was removed keeps the locks of its " +
				"partitions. Not in Kafka.",
		},
	}
}
