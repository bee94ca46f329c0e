package catalog_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/catalog"
	"github.com/sluicemq/sluice/catalog/config"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// overrides returns the topic's own configs as text.
func (n *node) overrides(name string) string {
	var b strings.Builder
	for _, s := range n.Topic(name).Overrides() {
		fmt.Fprintf(&b, "%s=%s ", s.Name, s.Value)
	}
	return strings.TrimSpace(b.String())
}

func TestIncrementalAlterChangesWhatItNames(t *testing.T) {
	const topic = catalog.ResourceTopic
	for name, test := range map[string]struct {
		changes []catalog.ConfigChange
		code    kerr.Code
		want    string // overrides after
	}{
		"nothing":                    {nil, kerr.None, "cleanup.policy=delete retention.ms=1"},
		"set":                        {[]catalog.ConfigChange{set("segment.bytes", "1048576")}, kerr.None, "cleanup.policy=delete retention.ms=1 segment.bytes=1048576"},
		"set again":                  {[]catalog.ConfigChange{set("retention.ms", " +2 ")}, kerr.None, "cleanup.policy=delete retention.ms=2"},
		"set to the default":         {[]catalog.ConfigChange{set("max.message.bytes", "1048588")}, kerr.None, "cleanup.policy=delete max.message.bytes=1048588 retention.ms=1"},
		"delete":                     {[]catalog.ConfigChange{unset("retention.ms")}, kerr.None, "cleanup.policy=delete"},
		"delete unset":               {[]catalog.ConfigChange{unset("flush.ms")}, kerr.None, "cleanup.policy=delete retention.ms=1"},
		"delete unknown":             {[]catalog.ConfigChange{unset("colour"), unset(""), unset(strings.Repeat("c", 300))}, kerr.None, "cleanup.policy=delete retention.ms=1"},
		"append":                     {[]catalog.ConfigChange{add("cleanup.policy", "compact")}, kerr.None, "cleanup.policy=delete,compact retention.ms=1"},
		"append what is there":       {[]catalog.ConfigChange{add("cleanup.policy", "delete, compact")}, kerr.None, "cleanup.policy=delete,compact retention.ms=1"},
		"append to unset":            {[]catalog.ConfigChange{add("leader.replication.throttled.replicas", "0:0")}, kerr.None, "cleanup.policy=delete leader.replication.throttled.replicas=0:0 retention.ms=1"},
		"subtract":                   {[]catalog.ConfigChange{subtract("cleanup.policy", "delete")}, kerr.None, "cleanup.policy= retention.ms=1"},
		"subtract what is not there": {[]catalog.ConfigChange{subtract("cleanup.policy", "compact")}, kerr.None, "cleanup.policy=delete retention.ms=1"},
		"append to a number":         {[]catalog.ConfigChange{add("retention.ms", "1")}, kerr.InvalidConfig, ""},
		"subtract from a number":     {[]catalog.ConfigChange{subtract("retention.ms", "1")}, kerr.InvalidConfig, ""},
		"append a bad item":          {[]catalog.ConfigChange{add("cleanup.policy", "burn")}, kerr.InvalidConfig, ""},
		"append to all":              {[]catalog.ConfigChange{add("leader.replication.throttled.replicas", "*"), set("cleanup.policy", "")}, kerr.None, "cleanup.policy= leader.replication.throttled.replicas=* retention.ms=1"},
		"unknown":                    {[]catalog.ConfigChange{set("colour", "red")}, kerr.InvalidConfig, ""},
		"bad value":                  {[]catalog.ConfigChange{set("retention.ms", "soon")}, kerr.InvalidConfig, ""},
		"one of two is bad":          {[]catalog.ConfigChange{set("retention.ms", "9"), set("segment.ms", "0")}, kerr.InvalidConfig, ""},
		"contradiction":              {[]catalog.ConfigChange{set("min.compaction.lag.ms", "5"), set("max.compaction.lag.ms", "4")}, kerr.InvalidConfig, ""},
		"the same key twice":         {[]catalog.ConfigChange{set("retention.ms", "9"), unset("retention.ms")}, kerr.InvalidRequest, ""},
		"null":                       {[]catalog.ConfigChange{{Kind: config.OpSet, Name: "retention.ms"}}, kerr.InvalidRequest, ""},
		"null to append":             {[]catalog.ConfigChange{{Kind: config.OpAppend, Name: "cleanup.policy"}}, kerr.InvalidRequest, ""},
		"unknown operation":          {[]catalog.ConfigChange{{Kind: 4, Name: "retention.ms"}}, kerr.InvalidRequest, ""},
		"negative operation":         {[]catalog.ConfigChange{{Kind: -1, Name: "retention.ms"}}, kerr.InvalidRequest, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.mustCreate("a", 1, "retention.ms", "1", "cleanup.policy", "delete")
			wantCode(t, n.alter(topic, "a", test.changes...), test.code)
			want := test.want
			if test.code != kerr.None {
				want = "cleanup.policy=delete retention.ms=1"
			}
			if got := n.overrides("a"); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestAlterIsRefusedForWrongResources(t *testing.T) {
	n := newNode(t)
	n.mustCreate("a", 1)
	wantCode(t, n.alter(catalog.ResourceTopic, "b", set("retention.ms", "1")), kerr.UnknownTopicOrPartition)
	wantCode(t, n.alter(catalog.ResourceTopic, "", set("retention.ms", "1")), kerr.InvalidRequest)
	wantCode(t, n.alter(catalog.ResourceTopic, "a b", set("retention.ms", "1")), kerr.InvalidTopic)
	wantCode(t, n.alter(catalog.ResourceBroker, "1", set("log.retention.ms", "1")), kerr.InvalidRequest)
	wantCode(t, n.alter(catalog.ResourceBroker, "00", set("log.retention.ms", "1")), kerr.InvalidRequest)
	wantCode(t, n.alter(catalog.ResourceBroker, "x", set("log.retention.ms", "1")), kerr.InvalidRequest)
	wantCode(t, n.alter(16, "a", set("interval.ms", "1")), kerr.InvalidRequest)
	twice := catalog.Alter{Resource: catalog.ResourceTopic, Name: "a", Changes: []catalog.ConfigChange{set("retention.ms", "1")}}
	other := catalog.Alter{Resource: catalog.ResourceBroker, Name: "", Changes: []catalog.ConfigChange{set("log.retention.ms", "1")}}
	plans := n.PlanIncremental([]catalog.Alter{twice, other, twice})
	wantCode(t, plans[0].Err, kerr.InvalidRequest)
	wantCode(t, plans[1].Err, kerr.None)
	wantCode(t, plans[2].Err, kerr.InvalidRequest)
}

func TestReplaceDropsWhatItDoesNotName(t *testing.T) {
	n := newNode(t)
	n.mustCreate("a", 1, "retention.ms", "1", "cleanup.policy", "compact", "flush.ms", "9")
	wantCode(t, n.replace(catalog.ResourceTopic, "a", set("retention.ms", "2")), kerr.None)
	if got := n.overrides("a"); got != "retention.ms=2" {
		t.Errorf("got %q", got)
	}
	wantCode(t, n.replace(catalog.ResourceTopic, "a", set("colour", "red")), kerr.InvalidConfig)
	wantCode(t, n.replace(catalog.ResourceTopic, "a", catalog.ConfigChange{Name: "retention.ms"}), kerr.InvalidRequest)
	if got := n.overrides("a"); got != "retention.ms=2" {
		t.Errorf("got %q", got)
	}
	wantCode(t, n.replace(catalog.ResourceTopic, "a"), kerr.None)
	if got := n.overrides("a"); got != "" {
		t.Errorf("got %q", got)
	}
	wantCode(t, n.alter(catalog.ResourceBroker, "", set("log.retention.ms", "5"), set("message.max.bytes", "6")), kerr.None)
	wantCode(t, n.replace(catalog.ResourceBroker, "", set("message.max.bytes", "7")), kerr.None)
	if c := n.Topic("a").Config(); c.RetentionMs != 604800000 || c.MaxMessageBytes != 7 {
		t.Errorf("got %+v", c)
	}
}

func TestTwoAppendsPlannedTogetherBothCount(t *testing.T) {
	n := newNode(t)
	n.mustCreate("a", 1)
	plan := func(item string) []byte {
		p := n.PlanIncremental([]catalog.Alter{{Resource: catalog.ResourceTopic, Name: "a",
			Changes: []catalog.ConfigChange{add("leader.replication.throttled.replicas", item)}}})[0]
		if p.Err != nil {
			t.Fatal(p.Err)
		}
		return p.Payload
	}
	first, second := plan("0:0"), plan("1:0")
	n.apply(entry.TypeAlterConfigs, first)
	n.apply(entry.TypeAlterConfigs, second)
	if got := n.overrides("a"); got != "leader.replication.throttled.replicas=0:0,1:0" {
		t.Errorf("got %q", got)
	}
}

func TestAppendStartsFromTheValueInEffect(t *testing.T) {
	n := newNode(t, "log.cleanup.policy", "compact")
	n.mustCreate("a", 1)
	wantCode(t, n.alter(catalog.ResourceTopic, "a", add("cleanup.policy", "delete")), kerr.None)
	if got := n.overrides("a"); got != "cleanup.policy=compact,delete" {
		t.Errorf("got %q", got)
	}
	wantCode(t, n.alter(catalog.ResourceBroker, "0", add("log.cleanup.policy", "delete")), kerr.None)
	if c := n.Broker().TopicDefaults.Cleanup; !c.Compact() || !c.Delete() {
		t.Errorf("got %v", c)
	}
}

func TestAlteredBrokerConfigsActOnTopicsAtOnce(t *testing.T) {
	n := newNode(t, "log.retention.hours", "1")
	plain := n.mustCreate("plain", 1)
	own := n.mustCreate("own", 1, "retention.ms", "5")
	retention := func() string {
		return fmt.Sprint(plain.Config().RetentionMs, own.Config().RetentionMs, n.mustCreate(fmt.Sprint("new", n.index), 1).Config().RetentionMs)
	}
	if got := retention(); got != "3600000 5 3600000" {
		t.Errorf("at the start: got %s", got)
	}
	wantCode(t, n.alter(catalog.ResourceBroker, "", set("log.retention.ms", "100")), kerr.None)
	if got := retention(); got != "100 5 100" {
		t.Errorf("cluster: got %s", got)
	}
	wantCode(t, n.alter(catalog.ResourceBroker, "0", set("log.retention.ms", "200")), kerr.None)
	if got := retention(); got != "200 5 200" {
		t.Errorf("node: got %s", got)
	}
	wantCode(t, n.alter(catalog.ResourceTopic, "own", unset("retention.ms")), kerr.None)
	own = n.Topic("own")
	wantCode(t, n.alter(catalog.ResourceBroker, "0", unset("log.retention.ms")), kerr.None)
	if got := retention(); got != "100 100 100" {
		t.Errorf("node deleted: got %s", got)
	}
	wantCode(t, n.alter(catalog.ResourceBroker, "", unset("log.retention.ms")), kerr.None)
	if got := retention(); got != "3600000 3600000 3600000" {
		t.Errorf("cluster deleted: got %s", got)
	}
}

func TestBrokerConfigsAreRefused(t *testing.T) {
	n := newNode(t)
	for _, name := range []string{"", "0"} {
		wantCode(t, n.alter(catalog.ResourceBroker, name, set("num.partitions", "3")), kerr.InvalidRequest)
		wantCode(t, n.alter(catalog.ResourceBroker, name, unset("num.partitions")), kerr.InvalidRequest)
		wantCode(t, n.alter(catalog.ResourceBroker, name, set("log.segment.bytes", "1073741824")), kerr.InvalidRequest)
		wantCode(t, n.alter(catalog.ResourceBroker, name, set("colour", "red")), kerr.InvalidConfig)
		wantCode(t, n.alter(catalog.ResourceBroker, name, set("log.retention.ms", "-2")), kerr.InvalidRequest)
		wantCode(t, n.alter(catalog.ResourceBroker, name, set("log.cleaner.max.compaction.lag.ms", "1"), set("log.cleaner.min.compaction.lag.ms", "2")), kerr.InvalidRequest)
	}
}

func find(t *testing.T, entries []config.Entry, name string) config.Entry {
	t.Helper()
	for _, e := range entries {
		if e.Name == name {
			return e
		}
	}
	t.Fatalf("no entry for %s", name)
	return config.Entry{}
}

func TestDescribeTopic(t *testing.T) {
	n := newNode(t, "log.retention.hours", "1")
	n.mustCreate("a", 1, "max.message.bytes", "1048588")
	wantCode(t, n.alter(catalog.ResourceBroker, "", set("log.retention.ms", "100")), kerr.None)
	all, err := n.DescribeTopic("a", nil, true)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != len(config.TopicKeys()) {
		t.Errorf("got %d entries of %d", len(all), len(config.TopicKeys()))
	}
	if e := find(t, all, "max.message.bytes"); e.Source != config.SourceTopic || e.Value != "1048588" {
		t.Errorf("a value set to the default: got %+v", e)
	}
	e := find(t, all, "retention.ms")
	want := "[{log.retention.ms 100 3} {log.retention.hours 1 4} {log.retention.hours 168 5}]"
	if e.Value != "100" || e.Source != config.SourceDynamicDefault || fmt.Sprint(e.Synonyms) != want {
		t.Errorf("got %+v, want synonyms %s", e, want)
	}
	if e := find(t, all, "cleanup.policy"); e.Value != "delete" || e.Source != config.SourceDefault || e.Type != config.List || e.Doc == "" {
		t.Errorf("got %+v", e)
	}
	some, err := n.DescribeTopic("a", []string{"retention.ms", "colour"}, false)
	if err != nil || len(some) != 1 || some[0].Synonyms != nil {
		t.Errorf("got %+v, %v", some, err)
	}
	_, err = n.DescribeTopic("b", nil, false)
	wantCode(t, err, kerr.UnknownTopicOrPartition)
	_, err = n.DescribeTopic("", nil, false)
	wantCode(t, err, kerr.InvalidTopic)
}

func TestAnswerToCreateListsWhatDescribeListsLater(t *testing.T) {
	n := newNode(t)
	plan := n.PlanCreate([]catalog.NewTopic{{Name: "a", ID: n.id(), Partitions: 1, ReplicationFactor: 1,
		Configs: pairs([]string{"cleanup.policy", " compact , delete "})}})[0]
	answered := n.DescribeNew(plan.Overrides)
	n.apply(entry.TypeCreateTopic, plan.Payload)
	described, err := n.DescribeTopic("a", nil, false)
	if err != nil || fmt.Sprint(answered) != fmt.Sprint(described) {
		t.Errorf("got %v and %v, %v", answered, described, err)
	}
	if e := find(t, described, "cleanup.policy"); e.Value != "compact,delete" {
		t.Errorf("got %q", e.Value)
	}
}

func TestDescribeBroker(t *testing.T) {
	n := newNode(t, "node.id", "7", "num.partitions", "3")
	all, err := n.DescribeBroker("7", nil, true)
	if err != nil || len(all) < 60 {
		t.Fatalf("got %d entries, %v", len(all), err)
	}
	if e := find(t, all, "num.partitions"); e.Value != "3" || e.Source != config.SourceStatic || !e.ReadOnly {
		t.Errorf("got %+v", e)
	}
	for name, value := range map[string]string{
		"log.retention.hours": "168", "auto.create.topics.enable": "true", "default.replication.factor": "1",
		"message.max.bytes": "1048588", "node.id": "7", "log.segment.bytes": "1073741824",
	} {
		if e := find(t, all, name); e.Value != value || e.Null || e.Doc == "" {
			t.Errorf("%s: got %+v", name, e)
		}
	}
	if e := find(t, all, "log.retention.ms"); !e.Null || e.ReadOnly {
		t.Errorf("got %+v", e)
	}
	defaults, err := n.DescribeBroker("", nil, false)
	if err != nil || len(defaults) != 0 {
		t.Errorf("got %v, %v", defaults, err)
	}
	wantCode(t, n.alter(catalog.ResourceBroker, "", set("log.retention.ms", "100")), kerr.None)
	wantCode(t, n.alter(catalog.ResourceBroker, "7", set("log.retention.ms", "200")), kerr.None)
	defaults, err = n.DescribeBroker("", nil, true)
	if err != nil || len(defaults) != 1 || defaults[0].Value != "100" || defaults[0].Source != config.SourceDynamicDefault {
		t.Errorf("got %+v, %v", defaults, err)
	}
	all, _ = n.DescribeBroker("7", []string{"log.retention.ms"}, true)
	want := "[{log.retention.ms 200 2} {log.retention.ms 100 3} {log.retention.hours 168 5}]"
	if len(all) != 1 || all[0].Value != "200" || all[0].Source != config.SourceDynamicBroker || fmt.Sprint(all[0].Synonyms) != want {
		t.Errorf("got %+v, want synonyms %s", all, want)
	}
	_, err = n.DescribeBroker("8", nil, false)
	wantCode(t, err, kerr.InvalidRequest)
	_, err = n.DescribeBroker("x", nil, false)
	wantCode(t, err, kerr.InvalidRequest)
}
