package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Values are broker settings by name.
type Values map[string]string

// The layers in which broker settings are given, most specific first.
const (
	layerNode    = iota // altered for this node
	layerCluster        // altered for the whole cluster
	layerStatic         // file, environment, flags
	layerCount
)

// Broker is the broker's settings as they hold. It is immutable.
type Broker struct {
	NodeID              int32
	Rack                string     // empty if not set
	Listeners           []Listener // at least one, names differ
	AdvertisedListeners []Listener // same names in the same order; an empty Host is for the machine's name

	NumPartitions            int32
	DefaultReplicationFactor int16
	Exceeding                ExceedingNodes
	AutoCreateTopics         bool
	DeleteTopics             bool
	MaxPartitions            int32
	TopicDefaults            *Topic // of a topic without overrides

	DataDir                string
	Flush                  FlushMode
	FlushInterval          time.Duration
	SegmentBytes           int64
	TailBytes              int64
	BacklogBytes           int64
	StateCacheBytes        int64
	MinFreeBytes           int64
	RetentionCheckInterval time.Duration

	MaxRequestBytes      int32
	QueuedRequestBytes   int64
	QueuedResponseBytes  int64
	MaxIdle              time.Duration // negative: never
	MaxConnections       int32
	MaxConnectionsPerIP  int32
	FetchMaxBytes        int32
	FetchSessions        int32
	DescribePartitions   int32
	ProducerIDExpiration time.Duration

	TransactionMaxTimeout     time.Duration
	TransactionalIDExpiration time.Duration

	GroupMinSession         time.Duration
	GroupMaxSession         time.Duration
	GroupInitialDelay       time.Duration
	GroupMaxSize            int32
	OffsetMetadataBytes     int32
	OffsetsRetentionMinutes int32
	OffsetsRetentionCheck   time.Duration
	Consumers               Consumers

	HTTPListen    string // empty: none
	LogLevel      string // debug, info, warn, error
	LogFormat     string // console, json
	ShutdownGrace time.Duration

	layers [layerCount]Values // canonical texts; immutable
}

// FlushMode says when a write counts.
type FlushMode uint8

// The flush modes.
const (
	FlushSync  FlushMode = iota // once it is durable
	FlushAsync                  // once it is written
)

func (m *FlushMode) setText(s string) {
	*m = FlushSync
	if s == "async" {
		*m = FlushAsync
	}
}

// ExceedingNodes says what happens to a topic that is to have more replicas
// than there are nodes.
type ExceedingNodes uint8

// What can happen to it.
const (
	RefuseExceeding ExceedingNodes = iota // INVALID_REPLICATION_FACTOR
	CapExceeding                          // as many replicas as there are nodes
)

func (e *ExceedingNodes) setText(s string) {
	*e = RefuseExceeding
	if s == "cap" {
		*e = CapExceeding
	}
}

// NewBroker returns the settings that result from those given at the start. The
// error joins one error per wrong setting, in the order of names; SettingOf
// tells which setting each is about.
func NewBroker(given Values) (*Broker, error) {
	static := make(Values, len(given))
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value, err := CheckStatic(name, given[name])
		if err != nil {
			errs = append(errs, &SettingError{Name: name, Err: err})
			continue
		}
		static[name] = value
	}
	b := &Broker{layers: [layerCount]Values{layerStatic: static}}
	b.resolve()
	if len(errs) == 0 { // a wrong value would bring errors that follow from it
		errs = b.checkTogether()
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return b, nil
}

// SettingError is an error about one broker setting.
type SettingError struct {
	Name string
	Err  error // names the setting
}

func (e *SettingError) Error() string { return e.Err.Error() }

// Unwrap returns the error without the name.
func (e *SettingError) Unwrap() error { return e.Err }

// CheckStatic returns the canonical form of a value given at the start, or an
// error that names the setting and what is expected.
func CheckStatic(name, value string) (string, error) {
	k := BrokerKey(name)
	switch {
	case k == nil:
		return "", unknownBrokerSetting(name)
	case k.Effect == Inert:
		hint := ""
		if k.instead != "" {
			hint = "; see " + k.instead
		}
		return "", fmt.Errorf("%s: has no effect in Sluice, remove it (it tunes something that only Kafka has%s)", name, hint)
	}
	return k.Canonical(value)
}

// WithDynamic returns the settings with those that were altered while the
// broker ran, for the whole cluster and for this node, in place of any earlier
// ones. What is unknown, not dynamic or does not parse counts as not set; only
// a state written by another version holds such settings.
func (b *Broker) WithDynamic(cluster, node Overrides) *Broker {
	next := &Broker{layers: b.layers}
	next.layers[layerCluster] = dynamicValues(cluster)
	next.layers[layerNode] = dynamicValues(node)
	next.resolve()
	return next
}

func dynamicValues(overrides Overrides) Values {
	values := make(Values, len(overrides))
	for _, s := range overrides {
		k := BrokerKey(s.Name)
		if k == nil || k.Update != Dynamic {
			continue
		}
		if text, err := k.Canonical(s.Value); err == nil {
			values[s.Name] = text
		}
	}
	return values
}

// resolve fills the fields from the layers.
func (b *Broker) resolve() {
	for _, k := range brokerTable {
		if k.broker != nil {
			assign(k.broker(b), b.text(k))
		}
	}
	b.resolveListeners()
	b.TopicDefaults = b.Topic(nil)
}

// text returns the value in effect of a broker setting; empty if it has none.
func (b *Broker) text(k *Key) string {
	if value, _, ok := b.firstSynonym(k); ok {
		return value
	}
	return k.Default
}

// segmentOverhead is more than the headers of a segment and of an entry take.
const segmentOverhead = 8 << 10

// checkTogether finds settings that are valid alone and wrong together.
func (b *Broker) checkTogether() []error {
	var errs []error
	wrong := func(name, format string, args ...any) {
		errs = append(errs, &SettingError{Name: name, Err: fmt.Errorf(name+": "+format, args...)})
	}
	static := b.layers[layerStatic]
	if a, ok := static["node.id"]; ok {
		if old, ok := static["broker.id"]; ok && old != a {
			wrong("broker.id", "%s is not node.id, which is %s; give one of them", old, a)
		}
	}
	if b.DefaultReplicationFactor > 1 && b.Exceeding == RefuseExceeding {
		wrong("default.replication.factor", "%d is more than the 1 node there is, so that no topic could be created; "+
			"set 1, or replication.factor.exceeding.nodes to cap", b.DefaultReplicationFactor)
	}
	if err := b.CheckTopic(nil); err != nil {
		wrong("log.cleaner.min.compaction.lag.ms", "%w", err)
	}
	if least := int64(b.TopicDefaults.MaxMessageBytes) + segmentOverhead; b.SegmentBytes < least {
		wrong("commitlog.segment.bytes", "%d is too small for a batch of message.max.bytes, which is %d; expected at least %d",
			b.SegmentBytes, b.TopicDefaults.MaxMessageBytes, least)
	}
	if b.GroupMinSession > b.GroupMaxSession {
		wrong("group.min.session.timeout.ms", "%d is more than group.max.session.timeout.ms, which is %d",
			b.GroupMinSession.Milliseconds(), b.GroupMaxSession.Milliseconds())
	}
	b.checkConsumers(wrong)
	if name, err := b.checkListeners(); err != nil {
		wrong(name, "%w", err)
	}
	return errs
}

// NodeName returns the node's id as the name of a resource of type broker.
func (b *Broker) NodeName() string { return strconv.Itoa(int(b.NodeID)) }
