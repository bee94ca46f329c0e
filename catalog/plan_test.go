package catalog_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/catalog"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

func TestCreateIsRefusedWithKafkasCode(t *testing.T) {
	null := []catalog.Config{{Name: "retention.ms"}}
	for name, test := range map[string]struct {
		topic catalog.NewTopic
		want  kerr.Code
	}{
		"one partition":            {catalog.NewTopic{Name: "x", Partitions: 1, ReplicationFactor: 1}, kerr.None},
		"defaults":                 {catalog.NewTopic{Name: "x", Partitions: -1, ReplicationFactor: -1}, kerr.None},
		"empty name":               {catalog.NewTopic{Name: "", Partitions: 1, ReplicationFactor: 1}, kerr.InvalidTopic},
		"dot":                      {catalog.NewTopic{Name: ".", Partitions: 1, ReplicationFactor: 1}, kerr.InvalidTopic},
		"two dots":                 {catalog.NewTopic{Name: "..", Partitions: 1, ReplicationFactor: 1}, kerr.InvalidTopic},
		"three dots":               {catalog.NewTopic{Name: "...", Partitions: 1, ReplicationFactor: 1}, kerr.None},
		"slash":                    {catalog.NewTopic{Name: "a/b", Partitions: 1, ReplicationFactor: 1}, kerr.InvalidTopic},
		"not ASCII":                {catalog.NewTopic{Name: "größe", Partitions: 1, ReplicationFactor: 1}, kerr.InvalidTopic},
		"249 bytes":                {catalog.NewTopic{Name: strings.Repeat("n", 249), Partitions: 1, ReplicationFactor: 1}, kerr.None},
		"250 bytes":                {catalog.NewTopic{Name: strings.Repeat("n", 250), Partitions: 1, ReplicationFactor: 1}, kerr.InvalidTopic},
		"kept for Kafka":           {catalog.NewTopic{Name: "__consumer_offsets", Partitions: 1, ReplicationFactor: 1}, kerr.InvalidTopic},
		"kept for Sluice":          {catalog.NewTopic{Name: "__check_payments", Partitions: 1, ReplicationFactor: 1}, kerr.InvalidTopic},
		"only looks kept":          {catalog.NewTopic{Name: "__mine", Partitions: 1, ReplicationFactor: 1}, kerr.None},
		"exists":                   {catalog.NewTopic{Name: "taken.one", Partitions: 1, ReplicationFactor: 1}, kerr.TopicAlreadyExists},
		"collides":                 {catalog.NewTopic{Name: "taken_one", Partitions: 1, ReplicationFactor: 1}, kerr.InvalidTopic},
		"no partitions":            {catalog.NewTopic{Name: "x", Partitions: 0, ReplicationFactor: 1}, kerr.InvalidPartitions},
		"-2 partitions":            {catalog.NewTopic{Name: "x", Partitions: -2, ReplicationFactor: 1}, kerr.InvalidPartitions},
		"most partitions":          {catalog.NewTopic{Name: "x", Partitions: 10000, ReplicationFactor: 1}, kerr.None},
		"too many partitions":      {catalog.NewTopic{Name: "x", Partitions: 10001, ReplicationFactor: 1}, kerr.PolicyViolation},
		"no replicas":              {catalog.NewTopic{Name: "x", Partitions: 1, ReplicationFactor: 0}, kerr.InvalidReplicationFactor},
		"-2 replicas":              {catalog.NewTopic{Name: "x", Partitions: 1, ReplicationFactor: -2}, kerr.InvalidReplicationFactor},
		"3 replicas":               {catalog.NewTopic{Name: "x", Partitions: 1, ReplicationFactor: 3}, kerr.InvalidReplicationFactor},
		"unknown config":           {catalog.NewTopic{Name: "x", Partitions: 1, ReplicationFactor: 1, Configs: pairs([]string{"colour", "red"})}, kerr.InvalidConfig},
		"removed config":           {catalog.NewTopic{Name: "x", Partitions: 1, ReplicationFactor: 1, Configs: pairs([]string{"message.format.version", "2.8"})}, kerr.InvalidConfig},
		"null config":              {catalog.NewTopic{Name: "x", Partitions: 1, ReplicationFactor: 1, Configs: null}, kerr.InvalidConfig},
		"bad config":               {catalog.NewTopic{Name: "x", Partitions: 1, ReplicationFactor: 1, Configs: pairs([]string{"retention.ms", "-2"})}, kerr.InvalidConfig},
		"remote storage":           {catalog.NewTopic{Name: "x", Partitions: 1, ReplicationFactor: 1, Configs: pairs([]string{"remote.storage.enable", "true"})}, kerr.InvalidConfig},
		"huge config":              {catalog.NewTopic{Name: "x", Partitions: 1, ReplicationFactor: 1, Configs: pairs([]string{"cleanup.policy", strings.Repeat("delete,", 10000)})}, kerr.InvalidConfig},
		"configs that contradict":  {catalog.NewTopic{Name: "x", Partitions: 1, ReplicationFactor: 1, Configs: pairs([]string{"min.compaction.lag.ms", "9", "max.compaction.lag.ms", "8"})}, kerr.InvalidConfig},
		"more in-sync than nodes":  {catalog.NewTopic{Name: "x", Partitions: 1, ReplicationFactor: 1, Configs: pairs([]string{"min.insync.replicas", "2"})}, kerr.None},
		"what Streams sets":        {catalog.NewTopic{Name: "x", Partitions: 1, ReplicationFactor: 1, Configs: pairs([]string{"cleanup.policy", "compact,delete", "segment.bytes", "52428800", "message.timestamp.type", "CreateTime", "retention.ms", "86400000"})}, kerr.None},
		"what Connect sets":        {catalog.NewTopic{Name: "x", Partitions: 25, ReplicationFactor: 1, Configs: pairs([]string{"cleanup.policy", "compact", "min.insync.replicas", "1", "unclean.leader.election.enable", "false"})}, kerr.None},
		"assigned":                 {catalog.NewTopic{Name: "x", Partitions: -1, ReplicationFactor: -1, Assignments: []catalog.Assignment{{1, []int32{0}}, {0, []int32{0}}}}, kerr.None},
		"assigned with a count":    {catalog.NewTopic{Name: "x", Partitions: 2, ReplicationFactor: -1, Assignments: []catalog.Assignment{{0, []int32{0}}}}, kerr.InvalidRequest},
		"assigned with a factor":   {catalog.NewTopic{Name: "x", Partitions: -1, ReplicationFactor: 1, Assignments: []catalog.Assignment{{0, []int32{0}}}}, kerr.InvalidRequest},
		"assigned with a gap":      {catalog.NewTopic{Name: "x", Partitions: -1, ReplicationFactor: -1, Assignments: []catalog.Assignment{{0, []int32{0}}, {2, []int32{0}}}}, kerr.InvalidReplicaAssignment},
		"assigned below zero":      {catalog.NewTopic{Name: "x", Partitions: -1, ReplicationFactor: -1, Assignments: []catalog.Assignment{{-1, []int32{0}}}}, kerr.InvalidReplicaAssignment},
		"assigned twice":           {catalog.NewTopic{Name: "x", Partitions: -1, ReplicationFactor: -1, Assignments: []catalog.Assignment{{0, []int32{0}}, {0, []int32{0}}}}, kerr.InvalidReplicaAssignment},
		"assigned to a stranger":   {catalog.NewTopic{Name: "x", Partitions: -1, ReplicationFactor: -1, Assignments: []catalog.Assignment{{0, []int32{7}}}}, kerr.InvalidReplicaAssignment},
		"assigned to a node twice": {catalog.NewTopic{Name: "x", Partitions: -1, ReplicationFactor: -1, Assignments: []catalog.Assignment{{0, []int32{0, 0}}}}, kerr.InvalidReplicaAssignment},
		"assigned to nobody":       {catalog.NewTopic{Name: "x", Partitions: -1, ReplicationFactor: -1, Assignments: []catalog.Assignment{{0, nil}}}, kerr.InvalidReplicaAssignment},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.mustCreate("taken.one", 1)
			_, err := n.create(test.topic)
			wantCode(t, err, test.want)
			if err != nil && kerr.Message(err) == kerr.Of(err).Text() {
				t.Error("the refusal has no message of its own")
			}
		})
	}
}

func TestDefaultsOfNewTopicsAreTheBrokers(t *testing.T) {
	n := newNode(t, "num.partitions", "7")
	plan := n.PlanCreate([]catalog.NewTopic{{Name: "x", ID: n.id(), Partitions: -1, ReplicationFactor: -1}})[0]
	if plan.Err != nil || plan.Partitions != 7 || plan.ReplicationFactor != 1 {
		t.Errorf("got %+v", plan)
	}
}

func TestReplicationFactorIsCappedIfTheBrokerSaysSo(t *testing.T) {
	n := newNode(t, "replication.factor.exceeding.nodes", "cap", "default.replication.factor", "3")
	for _, factor := range []int16{-1, 1, 3} {
		plan := n.PlanCreate([]catalog.NewTopic{{Name: "x", ID: n.id(), Partitions: 1, ReplicationFactor: factor}})[0]
		if plan.Err != nil || plan.ReplicationFactor != 1 {
			t.Errorf("factor %d: got %+v", factor, plan)
		}
	}
	plan := n.PlanCreate([]catalog.NewTopic{{Name: "x", ID: n.id(), Partitions: 1, ReplicationFactor: 0}})[0]
	wantCode(t, plan.Err, kerr.InvalidReplicationFactor)
}

func TestTopicNamedTwiceInARequestIsRefusedTwice(t *testing.T) {
	n := newNode(t)
	topic := catalog.NewTopic{Name: "twice", ID: n.id(), Partitions: 1, ReplicationFactor: 1}
	other := catalog.NewTopic{Name: "once", ID: n.id(), Partitions: 1, ReplicationFactor: 1}
	plans := n.PlanCreate([]catalog.NewTopic{topic, other, topic})
	wantCode(t, plans[0].Err, kerr.InvalidRequest)
	wantCode(t, plans[1].Err, kerr.None)
	wantCode(t, plans[2].Err, kerr.InvalidRequest)
}

func TestRequestForTooManyPartitionsIsRefusedWhole(t *testing.T) {
	n := newNode(t)
	var topics []catalog.NewTopic
	for i := range 3 {
		topics = append(topics, catalog.NewTopic{Name: fmt.Sprint("t", i), ID: n.id(), Partitions: 4000, ReplicationFactor: 1})
	}
	for _, p := range n.PlanCreate(topics) {
		wantCode(t, p.Err, kerr.PolicyViolation)
	}
	for _, p := range n.PlanCreate(topics[:2]) {
		wantCode(t, p.Err, kerr.None)
	}
	topics[0].Partitions, topics[1].Partitions = math.MaxInt32, math.MaxInt32
	for _, p := range n.PlanCreate(topics) {
		wantCode(t, p.Err, kerr.PolicyViolation)
	}
}

func TestPartitionsOfAllTopicsAreBounded(t *testing.T) {
	n := newNode(t, "max.partitions", "10")
	n.mustCreate("a", 6)
	plans := n.PlanCreate([]catalog.NewTopic{
		{Name: "b", ID: n.id(), Partitions: 3, ReplicationFactor: 1},
		{Name: "c", ID: n.id(), Partitions: 2, ReplicationFactor: 1},
		{Name: "d", ID: n.id(), Partitions: 1, ReplicationFactor: 1},
	})
	wantCode(t, plans[0].Err, kerr.None)
	wantCode(t, plans[1].Err, kerr.PolicyViolation)
	wantCode(t, plans[2].Err, kerr.None)
	wantCode(t, n.grow("a", 11), kerr.PolicyViolation)
	wantCode(t, n.grow("a", 10), kerr.None)
}

func TestPlanChangesNothing(t *testing.T) {
	n := newNode(t)
	n.mustCreate("a", 1)
	before := n.dump()
	value := "compact"
	n.PlanCreate([]catalog.NewTopic{{Name: "b", ID: n.id(), Partitions: 1, ReplicationFactor: 1}})
	n.PlanDelete(n.Topic("a"))
	n.PlanCreatePartitions([]catalog.MorePartitions{{Name: "a", Total: 5}})
	n.PlanIncremental([]catalog.Alter{{Resource: catalog.ResourceTopic, Name: "a", Changes: []catalog.ConfigChange{add("cleanup.policy", value)}}})
	n.PlanReplace([]catalog.Alter{{Resource: catalog.ResourceBroker, Changes: []catalog.ConfigChange{set("log.cleanup.policy", value)}}})
	if after := n.dump(); after != before {
		t.Errorf("got\n%s\nwant\n%s", after, before)
	}
}

func TestDelete(t *testing.T) {
	n := newNode(t)
	n.mustCreate("a", 2)
	wantCode(t, n.delete("b"), kerr.UnknownTopicOrPartition)
	wantCode(t, n.delete("a"), kerr.None)
	wantCode(t, n.delete("a"), kerr.UnknownTopicOrPartition)
	if _, err := n.create(catalog.NewTopic{Name: "__schedule", ByBroker: true, Partitions: 1, ReplicationFactor: 1}); err != nil {
		t.Fatal(err)
	}
	if !n.Topic("__schedule").Internal() {
		t.Error("the broker's topic is not internal")
	}
	wantCode(t, n.delete("__schedule"), kerr.InvalidTopic)
	wantCode(t, n.grow("__schedule", 3), kerr.InvalidTopic)
	if _, err := n.create(catalog.NewTopic{Name: "__check_p", ByBroker: true, Partitions: 1, ReplicationFactor: 1}); err != nil {
		t.Fatal(err)
	}
	if n.Topic("__check_p").Internal() {
		t.Error("the topic that applications consume is internal")
	}
	off := newNode(t, "delete.topic.enable", "false")
	off.mustCreate("a", 1)
	wantCode(t, off.delete("a"), kerr.TopicDeletionDisabled)
}

func TestTopicMadeAnewSharesNothing(t *testing.T) {
	n := newNode(t)
	old := n.mustCreate("a", 2, "retention.ms", "1")
	wantCode(t, n.delete("a"), kerr.None)
	anew := n.mustCreate("a", 2)
	if old.ID() == anew.ID() || anew.Config().RetentionMs == 1 {
		t.Error("the id or the configs came back")
	}
	for _, number := range old.All() {
		if topic, _ := n.TopicOf(number); topic != nil {
			t.Errorf("the old partition %d has a topic", number)
		}
		for _, other := range anew.All() {
			if other == number {
				t.Errorf("partition number %d came back", number)
			}
		}
	}
	if n.TopicByID(old.ID()) != nil {
		t.Error("the old id leads to a topic")
	}
	if old.Partitions() != 2 || old.Config().RetentionMs != 1 {
		t.Error("who holds the old topic cannot read it")
	}
}

func TestCreatePartitions(t *testing.T) {
	for name, test := range map[string]struct {
		request catalog.MorePartitions
		want    kerr.Code
	}{
		"more":                    {catalog.MorePartitions{Name: "a", Total: 5}, kerr.None},
		"as many":                 {catalog.MorePartitions{Name: "a", Total: 3}, kerr.InvalidPartitions},
		"fewer":                   {catalog.MorePartitions{Name: "a", Total: 2}, kerr.InvalidPartitions},
		"negative":                {catalog.MorePartitions{Name: "a", Total: -1}, kerr.InvalidPartitions},
		"unknown topic":           {catalog.MorePartitions{Name: "b", Total: 5}, kerr.UnknownTopicOrPartition},
		"most":                    {catalog.MorePartitions{Name: "a", Total: 10003}, kerr.None},
		"too many":                {catalog.MorePartitions{Name: "a", Total: 10004}, kerr.PolicyViolation},
		"assigned":                {catalog.MorePartitions{Name: "a", Total: 5, Assignments: [][]int32{{0}, {0}}}, kerr.None},
		"too few assigned":        {catalog.MorePartitions{Name: "a", Total: 5, Assignments: [][]int32{{0}}}, kerr.InvalidReplicaAssignment},
		"assigned to a stranger":  {catalog.MorePartitions{Name: "a", Total: 4, Assignments: [][]int32{{1}}}, kerr.InvalidReplicaAssignment},
		"assigned to nobody":      {catalog.MorePartitions{Name: "a", Total: 4, Assignments: [][]int32{{}}}, kerr.InvalidReplicaAssignment},
		"more than an int32 less": {catalog.MorePartitions{Name: "a", Total: math.MinInt32}, kerr.InvalidPartitions},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.mustCreate("a", 3)
			plan := n.PlanCreatePartitions([]catalog.MorePartitions{test.request})[0]
			wantCode(t, plan.Err, test.want)
			if plan.Err != nil {
				return
			}
			wantCode(t, n.apply(entry.TypeCreatePartitions, plan.Payload).Err, kerr.None)
			if got := n.Topic("a").Partitions(); got != test.request.Total {
				t.Errorf("the topic has %d partitions", got)
			}
		})
	}
}

func TestTopicNamedTwiceInCreatePartitionsIsRefused(t *testing.T) {
	n := newNode(t)
	n.mustCreate("a", 1)
	for _, p := range n.PlanCreatePartitions([]catalog.MorePartitions{{Name: "a", Total: 2}, {Name: "a", Total: 3}}) {
		wantCode(t, p.Err, kerr.InvalidRequest)
	}
}

func TestAddedPartitionsKeepTheOldNumbers(t *testing.T) {
	n := newNode(t)
	before := n.mustCreate("a", 3, "cleanup.policy", "compact")
	n.mustCreate("between", 1)
	wantCode(t, n.grow("a", 5), kerr.None)
	wantCode(t, n.grow("a", 6), kerr.None) // follows on the run before
	after := n.Topic("a")
	seen := make(map[entry.Partition]bool)
	for index, number := range after.All() {
		if old, ok := before.Partition(index); ok && old != number {
			t.Errorf("partition %d went from number %d to %d", index, old, number)
		}
		if got, ok := after.Partition(index); !ok || got != number || seen[number] {
			t.Errorf("Partition(%d) = %d, %v; All has %d, seen %v", index, got, ok, number, seen[number])
		}
		seen[number] = true
		if owner, at := n.TopicOf(number); owner != after || at != index {
			t.Errorf("TopicOf(%d) = %v, %d", number, owner, at)
		}
	}
	if _, ok := after.Partition(6); ok || len(seen) != 6 || before.Partitions() != 3 {
		t.Error("the number of partitions is wrong")
	}
	if !after.Config().Cleanup.Compact() || after.Config().Cleanup.Delete() {
		t.Error("adding partitions changed cleanup.policy")
	}
}

func TestSecondOfTwoPlansIsRefusedWhenApplied(t *testing.T) {
	n := newNode(t)
	plan := func(name string) []byte {
		p := n.PlanCreate([]catalog.NewTopic{{Name: name, ID: n.id(), Partitions: 2, ReplicationFactor: 1}})[0]
		if p.Err != nil {
			t.Fatal(p.Err)
		}
		return p.Payload
	}
	first, same, colliding := plan("a.b"), plan("a.b"), plan("a_b")
	wantCode(t, n.apply(entry.TypeCreateTopic, first).Err, kerr.None)
	before := n.dump()
	wantCode(t, n.apply(entry.TypeCreateTopic, same).Err, kerr.TopicAlreadyExists)
	wantCode(t, n.apply(entry.TypeCreateTopic, colliding).Err, kerr.InvalidTopic)
	wantCode(t, n.apply(entry.TypeCreateTopic, first).Err, kerr.TopicAlreadyExists)
	if after := n.dump(); after != before {
		t.Errorf("a refusal changed the state: got\n%s\nwant\n%s", after, before)
	}

	more := n.PlanCreatePartitions([]catalog.MorePartitions{{Name: "a.b", Total: 3}})[0].Payload
	alter := n.PlanIncremental([]catalog.Alter{{Resource: catalog.ResourceTopic, Name: "a.b", Changes: []catalog.ConfigChange{set("retention.ms", "1")}}})[0].Payload
	del := n.PlanDelete(n.Topic("a.b")).Payload
	wantCode(t, n.apply(entry.TypeCreatePartitions, more).Err, kerr.None)
	wantCode(t, n.apply(entry.TypeCreatePartitions, more).Err, kerr.InvalidPartitions)
	wantCode(t, n.apply(entry.TypeDeleteTopic, del).Err, kerr.None)
	n.mustCreate("a.b", 1)
	before = n.dump()
	for kind, payload := range map[entry.Type][]byte{
		entry.TypeDeleteTopic: del, entry.TypeCreatePartitions: more, entry.TypeAlterConfigs: alter,
	} {
		wantCode(t, n.apply(kind, payload).Err, kerr.UnknownTopicOrPartition)
	}
	if after := n.dump(); after != before {
		t.Errorf("a plan for the old topic changed the new one: got\n%s\nwant\n%s", after, before)
	}
}

func TestIDInUseIsRefusedWhenApplied(t *testing.T) {
	n := newNode(t)
	a := n.mustCreate("a", 1)
	create := catalog.CreateTopic{ID: a.ID(), Partitions: 1, Name: "b"}
	wantCode(t, n.apply(entry.TypeCreateTopic, create.Append(nil)).Err, kerr.InvalidRequest)
}

func TestUnreadableEntryIsNoRefusal(t *testing.T) {
	n := newNode(t)
	n.mustCreate("a", 1)
	before := n.dump()
	for _, kind := range append(n.Types(), entry.TypeProduce) {
		err := n.apply(kind, []byte{99}).Err
		if err == nil || kerr.Of(err) != kerr.UnknownServerError || !strings.Contains(err.Error(), "catalog: apply entry") {
			t.Errorf("%v: got %v", kind, err)
		}
	}
	if after := n.dump(); after != before {
		t.Error("an unreadable entry changed the state")
	}
}

func TestTopicsAreListedByNameFromACursor(t *testing.T) {
	n := newNode(t)
	for _, name := range []string{"b", "a", "d", "c.x", "C"} {
		n.mustCreate(name, 1)
	}
	for from, want := range map[string]string{"": "C a b c.x d", "b": "b c.x d", "c": "c.x d", "e": ""} {
		if got := strings.Join(names(n.Catalog, from), " "); got != want {
			t.Errorf("from %q: got %q, want %q", from, got, want)
		}
	}
	for topic := range n.Topics("") {
		if err := n.delete(topic.Name()); err != nil { // the listing stays as it was
			t.Fatal(err)
		}
		n.mustCreate("new."+topic.Name(), 1)
	}
	if got := strings.Join(names(n.Catalog, ""), " "); got != "new.C new.a new.b new.c.x new.d" {
		t.Errorf("got %q", got)
	}
}

func TestOfAConfigGivenTwiceTheLastValueCounts(t *testing.T) {
	n := newNode(t)
	topic := catalog.NewTopic{Name: "x", ID: n.id(), Partitions: 1, ReplicationFactor: 1,
		Configs: pairs([]string{"retention.ms", "soon", "cleanup.policy", "compact", "retention.ms", "2"})}
	plan := n.PlanCreate([]catalog.NewTopic{topic})[0]
	if plan.Err != nil {
		t.Fatal(plan.Err)
	}
	if value, _ := plan.Overrides.Get("retention.ms"); value != "2" || len(plan.Overrides) != 2 {
		t.Errorf("%v", plan.Overrides)
	}
}
