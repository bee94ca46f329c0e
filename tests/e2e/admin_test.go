package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/tests/e2e/node"
	"github.com/sluicemq/sluice/tests/e2e/raw"
)

const (
	topicExists        = 36
	invalidPartitions  = 37
	invalidReplication = 38
	invalidAssignment  = 39
	invalidConfig      = 40
)

// described returns all configs of a resource, by name.
func described(t *testing.T, c *raw.Conn, kind kmsg.ConfigResourceType, name string) map[string]kmsg.DescribeConfigsResponseResourceConfig {
	t.Helper()
	request := kmsg.NewPtrDescribeConfigsRequest()
	request.IncludeSynonyms = true
	in := kmsg.NewDescribeConfigsRequestResource()
	in.ResourceType, in.ResourceName = kind, name
	request.Resources = append(request.Resources, in)
	r := raw.Ask[*kmsg.DescribeConfigsResponse](c, 4, request)
	if len(r.Resources) != 1 || r.Resources[0].ErrorCode != 0 {
		t.Fatalf("describe configs of %v %q: %+v", kind, name, r.Resources)
	}
	configs := map[string]kmsg.DescribeConfigsResponseResourceConfig{}
	for _, entry := range r.Resources[0].Configs {
		configs[entry.Name] = entry
	}
	return configs
}

func valueOf(p *string) string {
	if p == nil {
		return "null"
	}
	return *p
}

// B85
func TestCreateTopicsAnswersWithAllConfigsAsDescribeConfigsDoes(t *testing.T) {
	t.Parallel()
	c := raw.Dial(t, node.Start(t, node.Options{Set: []string{"num.partitions=4"}}).Addr())
	for version := int16(5); version <= 7; version++ {
		name := fmt.Sprint("v", version)
		request := createTopics(name, -1, "retention.ms", "5000", "cleanup.policy", "compact,delete")
		request.Topics[0].ReplicationFactor = -1
		topic := raw.Ask[*kmsg.CreateTopicsResponse](c, version, request).Topics[0]
		if topic.ErrorCode != 0 || topic.NumPartitions != 4 || topic.ReplicationFactor != 1 || topic.ConfigErrorCode != 0 {
			t.Errorf("v%d: %+v", version, topic)
		}
		if version >= 7 && topic.TopicID == [16]byte{} {
			t.Errorf("v%d: no topic id", version)
		}
		configs := described(t, c, kmsg.ConfigResourceTypeTopic, name)
		if len(topic.Configs) != len(configs) || len(configs) < 20 {
			t.Errorf("v%d: %d configs in the answer, %d described", version, len(topic.Configs), len(configs))
		}
		for _, got := range topic.Configs {
			want, ok := configs[got.Name]
			if !ok || valueOf(got.Value) != valueOf(want.Value) || got.Source != int8(want.Source) || got.IsSensitive != want.IsSensitive || got.ReadOnly != want.ReadOnly {
				t.Errorf("v%d: %s is %s (source %d) in the answer, %s (source %d) described", version, got.Name, valueOf(got.Value), got.Source, valueOf(want.Value), want.Source)
			}
		}
	}
}

func TestCreateTopicsRefusesEachBadTopicOnItsOwn(t *testing.T) {
	t.Parallel()
	c := raw.Dial(t, node.Start(t, node.Options{}).Addr())
	makeTopic(t, c, "there", 1)
	makeTopic(t, c, "dotted.name", 1)
	request := createTopics("good", 2)
	want := map[string]int16{"good": 0}
	add := func(code int16, change func(*kmsg.CreateTopicsRequestTopic), name string) {
		in := createTopics(name, 1).Topics[0]
		if change != nil {
			change(&in)
		}
		request.Topics = append(request.Topics, in)
		want[name] = code
	}
	config := func(name string, value *string) func(*kmsg.CreateTopicsRequestTopic) {
		return func(in *kmsg.CreateTopicsRequestTopic) {
			c := kmsg.NewCreateTopicsRequestTopicConfig()
			c.Name, c.Value = name, value
			in.Configs = append(in.Configs, c)
		}
	}
	assign := func(replicas ...[]int32) func(*kmsg.CreateTopicsRequestTopic) {
		return func(in *kmsg.CreateTopicsRequestTopic) {
			in.NumPartitions, in.ReplicationFactor = -1, -1
			for i, r := range replicas {
				a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
				a.Partition, a.Replicas = int32(i), r
				in.ReplicaAssignment = append(in.ReplicaAssignment, a)
			}
		}
	}
	yes, bad := "100", "not a number"
	add(topicExists, nil, "there")
	add(invalidTopic, nil, "dotted_name") // differs in . and _ only
	add(invalidTopic, nil, "a name")
	add(invalidTopic, nil, "")
	add(invalidTopic, nil, "..")
	add(invalidPartitions, func(in *kmsg.CreateTopicsRequestTopic) { in.NumPartitions = 0 }, "no-partitions")
	add(invalidPartitions, func(in *kmsg.CreateTopicsRequestTopic) { in.NumPartitions = -2 }, "minus-two")
	add(invalidReplication, func(in *kmsg.CreateTopicsRequestTopic) { in.ReplicationFactor = 0 }, "no-replicas")
	add(invalidReplication, func(in *kmsg.CreateTopicsRequestTopic) { in.ReplicationFactor = 3 }, "three-replicas")
	add(invalidConfig, config("no.such.config", &yes), "unknown-config")
	add(invalidConfig, config("retention.ms", &bad), "bad-config")
	add(invalidConfig, config("retention.ms", nil), "null-config")
	add(0, config("retention.ms", &yes), "good-config")
	add(0, assign([]int32{0}, []int32{0}), "assigned")
	add(invalidAssignment, assign([]int32{5}), "assigned-elsewhere")
	answers := raw.Ask[*kmsg.CreateTopicsResponse](c, 7, request).Topics
	if len(answers) != len(want) {
		t.Errorf("%d answers for %d topics", len(answers), len(want))
	}
	for _, a := range answers {
		if a.ErrorCode != want[a.Topic] {
			t.Errorf("topic %q: error %d (%s), want %d", a.Topic, a.ErrorCode, valueOf(a.ErrorMessage), want[a.Topic])
		}
	}
	twice := createTopics("twice", 1)
	twice.Topics = append(twice.Topics, twice.Topics[0])
	if a := raw.Ask[*kmsg.CreateTopicsResponse](c, 7, twice).Topics; len(a) != 1 || a[0].ErrorCode != invalidRequest {
		t.Errorf("a topic named twice: %+v", a)
	}
	only := createTopics("only-asked", 3)
	only.ValidateOnly = true
	if a := raw.Ask[*kmsg.CreateTopicsResponse](c, 7, only).Topics[0]; a.ErrorCode != 0 || a.NumPartitions != 3 || len(a.Configs) == 0 {
		t.Errorf("validate only: %+v", a)
	}
	var there []string
	for _, topic := range raw.Ask[*kmsg.MetadataResponse](c, 12, kmsg.NewPtrMetadataRequest()).Topics {
		there = append(there, *topic.Topic)
	}
	slices.Sort(there)
	if expected := []string{"assigned", "dotted.name", "good", "good-config", "there"}; !slices.Equal(there, expected) {
		t.Errorf("there are %q, want %q", there, expected)
	}
}

func TestDeleteTopicsByNameAndByID(t *testing.T) {
	t.Parallel()
	c := raw.Dial(t, node.Start(t, node.Options{}).Addr())
	byName, byID := makeTopic(t, c, "by-name", 1), makeTopic(t, c, "by-id", 1)
	request := kmsg.NewPtrDeleteTopicsRequest()
	request.TimeoutMillis = 30_000
	add := func(name *string, id [16]byte) {
		in := kmsg.NewDeleteTopicsRequestTopic()
		in.Topic, in.TopicID = name, id
		request.Topics = append(request.Topics, in)
	}
	missing := "missing"
	add(&byName.name, [16]byte{})
	add(nil, byID.id)
	add(&missing, [16]byte{})
	add(nil, [16]byte{9})
	add(&missing, [16]byte{9})
	want := []int16{0, 0, unknownTopic, unknownTopicID, invalidRequest}
	for i, a := range raw.Ask[*kmsg.DeleteTopicsResponse](c, 6, request).Topics {
		if a.ErrorCode != want[i] {
			t.Errorf("deletion %d: %+v, want error %d", i, a, want[i])
		}
	}
	old := kmsg.NewPtrDeleteTopicsRequest()
	old.TimeoutMillis, old.TopicNames = 30_000, []string{makeTopic(t, c, "old", 1).name, "missing"}
	for version := int16(1); version <= 5; version++ {
		a := raw.Ask[*kmsg.DeleteTopicsResponse](c, version, old).Topics
		if len(a) != 2 || a[0].ErrorCode != 0 || a[1].ErrorCode != unknownTopic {
			t.Errorf("v%d: %+v", version, a)
		}
		makeTopic(t, c, "old", 1)
	}
	// None of it can be reached any more.
	batch := raw.Values(time.Now().UnixMilli(), "x").Bytes()
	if a := produce(c, produceVersion, into{byName, 0, batch}); a[0].ErrorCode != unknownTopic {
		t.Errorf("produce by name: %+v", a)
	}
	if a := produce(c, 13, into{topic{id: byID.id}, 0, batch}); a[0].ErrorCode != unknownTopicID {
		t.Errorf("produce by id: %+v", a)
	}
	if p := fetchOne(t, c, byName, 0, 0); p.ErrorCode != unknownTopic {
		t.Errorf("fetch: error %d", p.ErrorCode)
	}
	if p := listOffset(t, c, byName, 0, latest); p.ErrorCode != unknownTopic {
		t.Errorf("list offsets: %+v", p)
	}
	off := raw.Dial(t, node.Start(t, node.Options{Set: []string{"delete.topic.enable=false"}}).Addr())
	makeTopic(t, off, "kept", 1)
	const deletionDisabled = 73
	if r, err := off.Try(deleteTopic("kept")); err != nil || codeOf(r) != deletionDisabled {
		t.Errorf("where topics may not be deleted: %+v, %v", r, err)
	}
}

// B92
func TestNewPartitionsAreThereAtOnceAndFoundByConsumers(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	tp := makeTopic(t, c, "more", 2)
	consumer := newFranz(t, n, kgo.ConsumeTopics("more"), kgo.MetadataMaxAge(200*time.Millisecond), kgo.MetadataMinAge(100*time.Millisecond),
		kgo.FetchMaxWait(500*time.Millisecond))
	write(t, c, tp, 0, raw.Values(time.Now().UnixMilli(), "x"))
	poll(t, consumer, 1)

	admin := newAdmin(t, n)
	r, err := admin.CreatePartitions(deadline(t), 3, "more")
	if err != nil || r["more"].Err != nil || r["more"].Topic != "more" {
		t.Fatalf("kadm.CreatePartitions: %+v, %v", r, err)
	}
	for p := range int32(5) {
		write(t, c, tp, p, raw.Values(time.Now().UnixMilli(), "y"))
	}
	partitions := map[int32]bool{}
	for _, r := range poll(t, consumer, 5) {
		partitions[r.Partition] = true
	}
	if len(partitions) != 5 {
		t.Errorf("the consumer has read partitions %v", partitions)
	}
	for p := int32(2); p < 5; p++ {
		if got := kcatConsume(t, n, "more", p, 1); len(got) != 1 {
			t.Errorf("kcat read %d records of partition %d", len(got), p)
		}
	}
	ask := func(validate bool, name string, count int32, assignment ...int32) int16 {
		t.Helper()
		request := createPartitions(name, count).(*kmsg.CreatePartitionsRequest)
		request.ValidateOnly = validate
		for _, node := range assignment {
			a := kmsg.NewCreatePartitionsRequestTopicAssignment()
			a.Replicas = []int32{node}
			request.Topics[0].Assignment = append(request.Topics[0].Assignment, a)
		}
		topics := raw.Ask[*kmsg.CreatePartitionsResponse](c, 3, request).Topics
		if len(topics) != 1 || topics[0].Topic != name {
			t.Fatalf("create partitions of %s: %+v", name, topics)
		}
		return topics[0].ErrorCode
	}
	for _, test := range []struct {
		what string
		got  int16
		want int16
	}{
		{"fewer", ask(false, "more", 4), invalidPartitions},
		{"as many", ask(false, "more", 5), invalidPartitions},
		{"of a missing topic", ask(false, "missing", 5), unknownTopic},
		{"only asked", ask(true, "more", 9), 0},
		{"only asked, fewer", ask(true, "more", 1), invalidPartitions},
		{"too few assigned", ask(false, "more", 7, 0), invalidAssignment},
		{"assigned elsewhere", ask(false, "more", 6, 3), invalidAssignment},
	} {
		if test.got != test.want {
			t.Errorf("%s: error %d, want %d", test.what, test.got, test.want)
		}
	}
	if got := len(metadata(c, 12, false, "more").Topics[0].Partitions); got != 5 {
		t.Errorf("there are %d partitions, want 5", got)
	}
	if got := ask(false, "more", 7, 0, 0); got != 0 {
		t.Errorf("assigned here: error %d", got)
	}
}

// alterConfigs replaces all configs of a topic; configs are name, value, ...
func alterConfigs(topic string, configs ...string) *kmsg.AlterConfigsRequest {
	request := kmsg.NewPtrAlterConfigsRequest()
	in := kmsg.NewAlterConfigsRequestResource()
	in.ResourceType, in.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	for i := 0; i < len(configs); i += 2 {
		config := kmsg.NewAlterConfigsRequestResourceConfig()
		config.Name, config.Value = configs[i], &configs[i+1]
		in.Configs = append(in.Configs, config)
	}
	request.Resources = append(request.Resources, in)
	return request
}

// change is one change of IncrementalAlterConfigs.
type change struct {
	op    kmsg.IncrementalAlterConfigOp
	name  string
	value *string
}

func incremental(topic string, changes ...change) *kmsg.IncrementalAlterConfigsRequest {
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	in := kmsg.NewIncrementalAlterConfigsRequestResource()
	in.ResourceType, in.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	for _, change := range changes {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Op, config.Name, config.Value = change.op, change.name, change.value
		in.Configs = append(in.Configs, config)
	}
	request.Resources = append(request.Resources, in)
	return request
}

// overrides returns the configs that a topic sets itself, with their values.
func overrides(t *testing.T, c *raw.Conn, topic string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, entry := range described(t, c, kmsg.ConfigResourceTypeTopic, topic) {
		if entry.Source == kmsg.ConfigSourceDynamicTopicConfig {
			out[name] = valueOf(entry.Value)
		}
	}
	return out
}

// B86
func TestAlterConfigsReplacesAndIncrementalAlterConfigsChanges(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	makeTopic(t, c, "configs", 1, "retention.ms", "1000000000", "retention.bytes", "7", "max.message.bytes", "100000")
	expect := func(what string, want map[string]string) {
		t.Helper()
		if got := overrides(t, c, "configs"); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: the topic sets %v, want %v", what, got, want)
		}
	}
	expect("made", map[string]string{"retention.ms": "1000000000", "retention.bytes": "7", "max.message.bytes": "100000"})
	replace := func(want int16, configs ...string) {
		t.Helper()
		if r := raw.Ask[*kmsg.AlterConfigsResponse](c, 2, alterConfigs("configs", configs...)).Resources[0]; r.ErrorCode != want {
			t.Errorf("AlterConfigs of %v: error %d (%s), want %d", configs, r.ErrorCode, valueOf(r.ErrorMessage), want)
		}
	}
	replace(0, "retention.ms", "2000000000")
	expect("replaced", map[string]string{"retention.ms": "2000000000"})
	replace(invalidConfig, "retention.bytes", "1", "no.such.config", "1")
	replace(invalidConfig, "retention.bytes", "many")
	expect("refused", map[string]string{"retention.ms": "2000000000"})
	// A value that is the default's is set all the same.
	replace(0, "retention.ms", "604800000")
	expect("set to the default", map[string]string{"retention.ms": "604800000"})

	set, remove, add, subtract := kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete, kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract
	text := func(s string) *string { return &s }
	step := func(want int16, changes ...change) {
		t.Helper()
		if r := raw.Ask[*kmsg.IncrementalAlterConfigsResponse](c, 1, incremental("configs", changes...)).Resources[0]; r.ErrorCode != want {
			t.Errorf("IncrementalAlterConfigs of %v: error %d (%s), want %d", changes, r.ErrorCode, valueOf(r.ErrorMessage), want)
		}
	}
	step(0, change{set, "retention.bytes", text("9")}, change{set, "cleanup.policy", text("compact")})
	step(0, change{add, "cleanup.policy", text("delete")})
	expect("changed", map[string]string{"retention.ms": "604800000", "retention.bytes": "9", "cleanup.policy": "compact,delete"})
	step(0, change{subtract, "cleanup.policy", text("compact")}, change{remove, "retention.ms", nil}, change{remove, "segment.ms", nil})
	expect("taken away", map[string]string{"retention.bytes": "9", "cleanup.policy": "delete"})
	step(invalidConfig, change{set, "retention.bytes", text("10")}, change{set, "no.such.config", text("1")})
	step(invalidConfig, change{add, "retention.bytes", text("10")})
	step(invalidRequest, change{set, "retention.bytes", text("10")}, change{set, "retention.bytes", text("11")})
	step(invalidRequest, change{set, "retention.bytes", nil})
	only := incremental("configs", change{set, "retention.bytes", text("10")})
	only.ValidateOnly = true
	if r := raw.Ask[*kmsg.IncrementalAlterConfigsResponse](c, 1, only).Resources[0]; r.ErrorCode != 0 {
		t.Errorf("validate only: %+v", r)
	}
	expect("refused", map[string]string{"retention.bytes": "9", "cleanup.policy": "delete"})
	n.Kill()
	n.Restart()
	c = raw.Dial(t, n.Addr())
	expect("after a crash", map[string]string{"retention.bytes": "9", "cleanup.policy": "delete"})

	// A filter of names, and none; synonyms most specific first.
	all := described(t, c, kmsg.ConfigResourceTypeTopic, "configs")
	if len(all) < 20 || all["min.insync.replicas"].Source != kmsg.ConfigSourceDefaultConfig {
		t.Errorf("%d configs, %+v", len(all), all["min.insync.replicas"])
	}
	some := raw.Ask[*kmsg.DescribeConfigsResponse](c, 4, describeConfigs("configs", "retention.bytes", "no.such.config")).Resources[0]
	if some.ErrorCode != 0 || len(some.Configs) != 1 || some.Configs[0].Name != "retention.bytes" {
		t.Errorf("two names, one of them unknown: %+v", some)
	}
	var names []string
	for _, s := range all["retention.bytes"].ConfigSynonyms {
		names = append(names, fmt.Sprint(s.Name, "=", valueOf(s.Value), " ", s.Source))
	}
	if want := []string{"retention.bytes=9 DYNAMIC_TOPIC_CONFIG", "log.retention.bytes=-1 DEFAULT_CONFIG"}; !slices.Equal(names, want) {
		t.Errorf("synonyms %q, want %q", names, want)
	}
	missing := raw.Ask[*kmsg.DescribeConfigsResponse](c, 4, describeConfigs("missing")).Resources[0]
	if missing.ErrorCode != unknownTopic {
		t.Errorf("configs of a missing topic: %+v", missing)
	}
}

// B88
func TestConfigsOfTheBrokerAreShownAndChanged(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{Set: []string{"node.id=3", "log.retention.bytes=12345"}})
	c := raw.Dial(t, n.Addr())
	configs := described(t, c, kmsg.ConfigResourceTypeBroker, "3")
	for name, want := range map[string]string{
		"log.retention.hours": "168", "auto.create.topics.enable": "true", "default.replication.factor": "1", "message.max.bytes": "1048588",
		"log.retention.bytes": "12345", "node.id": "3", "num.partitions": "1",
	} {
		if got, ok := configs[name]; !ok || valueOf(got.Value) != want {
			t.Errorf("%s is %s, want %s", name, valueOf(got.Value), want)
		}
	}
	if got := configs["log.retention.bytes"].Source; got != kmsg.ConfigSourceStaticBrokerConfig {
		t.Errorf("a setting of the command line has source %v", got)
	}
	admin := newAdmin(t, n)
	for _, brokers := range [][]int32{{3}, nil} {
		r, err := admin.DescribeBrokerConfigs(deadline(t), brokers...)
		if err != nil || len(r) != 1 || r[0].Err != nil {
			t.Errorf("kadm.DescribeBrokerConfigs of %v: %+v, %v", brokers, r, err)
		}
	}
	request := kmsg.NewPtrDescribeConfigsRequest()
	for _, kind := range []kmsg.ConfigResourceType{kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBroker, 99} {
		in := kmsg.NewDescribeConfigsRequestResource()
		in.ResourceType, in.ResourceName = kind, []string{"3", "4", "three"}[len(request.Resources)%3]
		request.Resources = append(request.Resources, in)
	}
	r := raw.Ask[*kmsg.DescribeConfigsResponse](c, 4, request).Resources
	if len(r) != 4 || r[0].ErrorCode != 0 || r[1].ErrorCode != invalidRequest || r[2].ErrorCode != invalidRequest || r[3].ErrorCode == 0 {
		t.Errorf("of this broker, another, a name and a kind that there is not: %+v", r)
	}

	// A change of the broker's default is a change for the topics that set nothing.
	tp := makeTopic(t, c, "follows", 1)
	limit := "2000"
	alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
	in := kmsg.NewIncrementalAlterConfigsRequestResource()
	in.ResourceType, in.ResourceName = kmsg.ConfigResourceTypeBroker, "" // of all nodes
	change := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	change.Name, change.Value = "message.max.bytes", &limit
	in.Configs = append(in.Configs, change)
	alter.Resources = append(alter.Resources, in)
	if r := raw.Ask[*kmsg.IncrementalAlterConfigsResponse](c, 1, alter).Resources[0]; r.ErrorCode != 0 {
		t.Fatalf("%+v", r)
	}
	check := func() {
		t.Helper()
		big := raw.Values(time.Now().UnixMilli(), string(make([]byte, 3000)))
		if a := produce(c, produceVersion, into{tp, 0, big.Bytes()})[0]; a.ErrorCode != messageTooLarge {
			t.Errorf("3000 bytes where the broker allows 2000: %+v", a)
		}
		if got := described(t, c, kmsg.ConfigResourceTypeTopic, "follows")["max.message.bytes"]; valueOf(got.Value) != limit || got.Source != kmsg.ConfigSourceDynamicDefaultBrokerConfig {
			t.Errorf("the topic shows %s from %v", valueOf(got.Value), got.Source)
		}
	}
	check()
	n.Stop()
	n.Restart()
	c = raw.Dial(t, n.Addr())
	check()
}

// B88
func TestDescribeClusterShowsThisNode(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{Set: []string{"node.id=5"}})
	c := raw.Dial(t, n.Addr())
	cluster := *metadata(c, 12, false).ClusterID
	for version := range int16(3) {
		r := raw.Ask[*kmsg.DescribeClusterResponse](c, version, describeCluster())
		if r.ErrorCode != 0 || r.ClusterID != cluster || r.ControllerID != 5 || len(r.Brokers) != 1 || r.Brokers[0].NodeID != 5 {
			t.Errorf("v%d: %+v", version, r)
		}
		if version == 0 {
			continue
		}
		for kind, want := range map[int8]int16{2: 114, 7: 115} { // controllers, and what there is not
			request := describeCluster()
			request.EndpointType = kind
			if r := raw.Ask[*kmsg.DescribeClusterResponse](c, version, request); r.ErrorCode != want {
				t.Errorf("v%d, endpoint type %d: error %d, want %d", version, kind, r.ErrorCode, want)
			}
		}
	}
	n.Stop()
	n.Restart()
	if again := *metadata(raw.Dial(t, n.Addr()), 12, false).ClusterID; again != cluster {
		t.Errorf("the cluster id was %s and is %s", cluster, again)
	}
}

// B91
func TestCleanupPolicyIsKeptAsItWasSet(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{Set: []string{"log.retention.check.interval.ms=50", "log.retention.ms=1"}})
	c := raw.Dial(t, n.Addr())
	policy := func(topic string) string { return configOf(c, topic, "cleanup.policy") }
	tp := makeTopic(t, c, "compact", 1, "cleanup.policy", "compact")
	if got := policy("compact"); got != "compact" {
		t.Errorf("made with compact: %q", got)
	}
	if r, err := c.Try(createPartitions("compact", 3)); err != nil || codeOf(r) != 0 {
		t.Fatal(r, err)
	}
	n.Stop()
	n.Restart()
	c = raw.Dial(t, n.Addr())
	if got := policy("compact"); got != "compact" {
		t.Errorf("after more partitions and a restart: %q", got)
	}
	b := raw.Batch{Records: []raw.Record{{Key: []byte("a"), Value: []byte("1"), Time: 1}, {Key: []byte("b"), Value: []byte("2"), Time: 1}}}
	write(t, c, tp, 0, b)
	metadata(c, 12, true, "auto")
	if got := policy("auto"); got != "delete" {
		t.Errorf("of a topic that a client's asking made: %q", got)
	}
	auto := topic{name: "auto"}
	write(t, c, auto, 0, b)
	waitFor(t, "retention of the topic that deletes", func() bool { return listOffset(t, c, auto, 0, earliest).Offset == 2 })
	if got := valuesOf(readAll(t, c, tp, 0)); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("the compacted topic has %q", got)
	}
	// There and back again.
	if r, err := c.Try(setConfig("compact", "cleanup.policy", "delete")); err != nil || codeOf(r) != 0 {
		t.Fatal(r, err)
	}
	waitFor(t, "retention after the switch", func() bool { return listOffset(t, c, tp, 0, earliest).Offset == 2 })
	if r, err := c.Try(setConfig("compact", "cleanup.policy", "compact")); err != nil || codeOf(r) != 0 {
		t.Fatal(r, err)
	}
	if got := write(t, c, tp, 0, b); got != 2 {
		t.Errorf("the topic goes on at %d", got)
	}
	if got := valuesOf(readAll(t, c, tp, 0)); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("after the switch back it has %q", got)
	}
}

func TestConfigResourcesAreListedByKind(t *testing.T) {
	t.Parallel()
	c := raw.Dial(t, node.Start(t, node.Options{}).Addr())
	makeTopic(t, c, "a", 1)
	makeTopic(t, c, "b", 1)
	list := func(version int16, kinds ...int8) ([]string, int16) {
		request := kmsg.NewPtrListConfigResourcesRequest()
		request.ResourceTypes = kinds
		r := raw.Ask[*kmsg.ListConfigResourcesResponse](c, version, request)
		var out []string
		for _, resource := range r.ConfigResources {
			kind := int8(16)
			if version > 0 {
				kind = resource.Type
			}
			out = append(out, fmt.Sprint(kind, " ", resource.Name))
		}
		slices.Sort(out)
		return out, r.ErrorCode
	}
	for _, test := range []struct {
		version int16
		kinds   []int8
		want    []string
		code    int16
	}{
		{0, nil, nil, 0},
		{1, []int8{2}, []string{"2 a", "2 b"}, 0},
		{1, []int8{4}, []string{"4 0"}, 0},
		{1, nil, []string{"2 a", "2 b", "4 0", "8 0"}, 0},
		{1, []int8{77}, nil, notSupportedByVersion},
	} {
		if got, code := list(test.version, test.kinds...); !slices.Equal(got, test.want) || code != test.code {
			t.Errorf("v%d of %v: %q, error %d; want %q, %d", test.version, test.kinds, got, code, test.want, test.code)
		}
	}
}

// M-17
func TestDescribeTopicPartitionsGoesOnWhereItsCursorSays(t *testing.T) {
	t.Parallel()
	c := raw.Dial(t, node.Start(t, node.Options{}).Addr())
	for i, name := range []string{"c", "a", "b"} {
		makeTopic(t, c, name, int32(3+i)) // c 3, a 4, b 5
	}
	ask := func(limit int32, cursor *kmsg.DescribeTopicPartitionsRequestCursor, names ...string) *kmsg.DescribeTopicPartitionsResponse {
		request := kmsg.NewPtrDescribeTopicPartitionsRequest()
		request.ResponsePartitionLimit, request.Cursor = limit, cursor
		for _, name := range names {
			in := kmsg.NewDescribeTopicPartitionsRequestTopic()
			in.Topic = name
			request.Topics = append(request.Topics, in)
		}
		return raw.Ask[*kmsg.DescribeTopicPartitionsResponse](c, 0, request)
	}
	for limit := int32(1); limit < 15; limit++ {
		var got []string
		var cursor *kmsg.DescribeTopicPartitionsRequestCursor
		for range 20 {
			r := ask(limit, cursor)
			pages := 0
			for _, topic := range r.Topics {
				for _, p := range topic.Partitions {
					pages++
					got = append(got, fmt.Sprint(*topic.Topic, p.Partition))
					if p.LeaderID != 0 || p.ErrorCode != 0 || len(p.Replicas) != 1 {
						t.Errorf("%s: %+v", *topic.Topic, p)
					}
				}
			}
			if pages > int(limit) {
				t.Errorf("%d partitions at a limit of %d", pages, limit)
			}
			if r.NextCursor == nil {
				break
			}
			cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: r.NextCursor.Topic, Partition: r.NextCursor.Partition}
		}
		if want := []string{"a0", "a1", "a2", "a3", "b0", "b1", "b2", "b3", "b4", "c0", "c1", "c2"}; !slices.Equal(got, want) {
			t.Errorf("limit %d: %v", limit, got)
		}
	}
	if r := ask(100, nil, "c", "missing", "a"); len(r.Topics) != 3 || *r.Topics[0].Topic != "a" || r.Topics[2].ErrorCode != unknownTopic {
		t.Errorf("named topics: %+v", r.Topics)
	}
}

//
func TestDescribeLogDirsCountsTheBytesOfEachPartition(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	tp := makeTopic(t, c, "sized", 3)
	batch := raw.Values(time.Now().UnixMilli(), string(make([]byte, 1000)))
	for range 5 {
		write(t, c, tp, 1, batch)
	}
	for version := int16(1); version <= 4; version++ {
		for _, all := range []bool{true, false} {
			request := kmsg.NewPtrDescribeLogDirsRequest()
			if !all {
				in := kmsg.NewDescribeLogDirsRequestTopic()
				in.Topic, in.Partitions = "sized", []int32{0, 1, 2}
				request.Topics = append(request.Topics, in)
			}
			r := raw.Ask[*kmsg.DescribeLogDirsResponse](c, version, request)
			if r.ErrorCode != 0 || len(r.Dirs) != 1 || r.Dirs[0].ErrorCode != 0 || r.Dirs[0].Dir != n.Dir() || len(r.Dirs[0].Topics) != 1 {
				t.Fatalf("v%d: %+v", version, r)
			}
			if dir := r.Dirs[0]; version >= 4 && (dir.TotalBytes <= 0 || dir.UsableBytes <= 0 || dir.UsableBytes > dir.TotalBytes) {
				t.Errorf("v%d: %d of %d bytes are usable", version, dir.UsableBytes, dir.TotalBytes)
			}
			sizes := map[int32]int64{}
			for _, p := range r.Dirs[0].Topics[0].Partitions {
				sizes[p.Partition] = p.Size
			}
			if want := int64(5 * len(batch.Bytes())); len(sizes) != 3 || sizes[0] != 0 || sizes[1] != want || sizes[2] != 0 {
				t.Errorf("v%d: sizes %v, want %d in partition 1", version, sizes, want)
			}
		}
	}
	admin := newAdmin(t, n)
	if dirs, err := admin.DescribeAllLogDirs(deadline(t), nil); err != nil || len(dirs) != 1 || dirs[0].Error() != nil {
		t.Errorf("kadm.DescribeAllLogDirs: %v, %v", dirs, err)
	}
}

// Every admin call of franz-go's client that is served works as it is.
func TestAdminCallsWorkThroughFranzGo(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	admin := newAdmin(t, n)
	ctx := deadline(t)
	retention := "1000000000"
	if r, err := admin.CreateTopics(ctx, 3, -1, map[string]*string{"retention.ms": &retention}, "a", "b"); err != nil || r.Error() != nil {
		t.Fatalf("CreateTopics: %v, %v", r, err)
	}
	if r, err := admin.CreateTopic(ctx, 1, 1, nil, "a"); r.Err != kerr.TopicAlreadyExists {
		t.Errorf("CreateTopic of one that exists: %v, %v", r, err)
	}
	if r, err := admin.ListTopics(ctx); err != nil || len(r) != 2 || len(r["a"].Partitions) != 3 {
		t.Errorf("ListTopics: %v, %v", r, err)
	}
	if r, err := admin.BrokerMetadata(ctx); err != nil || len(r.Brokers) != 1 {
		t.Errorf("BrokerMetadata: %v, %v", r, err)
	}
	if r, err := admin.DescribeTopicConfigs(ctx, "a", "b"); err != nil || len(r) != 2 || r[0].Err != nil {
		t.Errorf("DescribeTopicConfigs: %v, %v", r, err)
	}
	value := "2000000000"
	if r, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &value}}, "a"); err != nil || r[0].Err != nil {
		t.Errorf("AlterTopicConfigs: %v, %v", r, err)
	}
	if r, err := admin.AlterTopicConfigsState(ctx, []kadm.AlterConfig{{Name: "retention.ms", Value: &value}}, "b"); err != nil || r[0].Err != nil {
		t.Errorf("AlterTopicConfigsState: %v, %v", r, err)
	}
	for _, list := range []func() (kadm.ListedOffsets, error){
		func() (kadm.ListedOffsets, error) { return admin.ListStartOffsets(ctx, "a", "b") },
		func() (kadm.ListedOffsets, error) { return admin.ListEndOffsets(ctx, "a", "b") },
		func() (kadm.ListedOffsets, error) { return admin.ListCommittedOffsets(ctx, "a", "b") },
		func() (kadm.ListedOffsets, error) { return admin.ListMaxTimestampOffsets(ctx, "a", "b") },
	} {
		if r, err := list(); err != nil || r.Error() != nil || len(r) != 2 {
			t.Errorf("list offsets: %v, %v", r, err)
		}
	}
	if r, err := admin.UpdatePartitions(ctx, 5, "a", "b"); err != nil || r.Error() != nil {
		t.Errorf("UpdatePartitions: %v, %v", r, err)
	}
	if r := admin.FindGroupCoordinators(ctx, "g1", "g2"); r.Error() != nil || len(r) != 2 {
		t.Errorf("FindGroupCoordinators: %v", r)
	}
	if r, err := admin.OffsetForLeaderEpoch(ctx, kadm.OffsetForLeaderEpochRequest{"a": {0: 0, 1: 0}}); err != nil || r["a"][0].Err != nil {
		t.Errorf("OffsetForLeaderEpoch: %v, %v", r, err)
	}
	if versions, err := admin.ApiVersions(ctx); err != nil || len(versions) != 1 {
		t.Errorf("ApiVersions: %v, %v", versions, err)
	}
	if r, err := admin.DeleteTopics(ctx, "a", "b"); err != nil || r.Error() != nil {
		t.Errorf("DeleteTopics: %v, %v", r, err)
	}
}

func TestTooManyPartitionsAreRefused(t *testing.T) {
	t.Parallel()
	c := raw.Dial(t, node.Start(t, node.Options{Set: []string{"max.partitions=10"}}).Addr())
	makeTopic(t, c, "some", 8)
	for _, partitions := range []int32{3, 2_000_000_000} {
		a := raw.Ask[*kmsg.CreateTopicsResponse](c, 7, createTopics("more", partitions)).Topics[0]
		if a.ErrorCode != policyViolation {
			t.Errorf("%d more partitions: %+v", partitions, a)
		}
	}
	if r, err := c.Try(createPartitions("some", 11)); err != nil || codeOf(r) != policyViolation {
		t.Errorf("11 partitions: %+v, %v", r, err)
	}
	makeTopic(t, c, "rest", 2)
}
