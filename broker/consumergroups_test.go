package broker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/protocol/kerr"
)

// quick are settings with which groups of the consumer protocol move fast.
var quick = []string{
	"group.initial.rebalance.delay.ms", "0",
	"group.consumer.min.session.timeout.ms", "1000", "group.consumer.min.heartbeat.interval.ms", "50",
	"group.consumer.heartbeat.interval.ms", "100", "group.consumer.session.timeout.ms", "3000", "group.consumer.max.session.timeout.ms", "60000",
	"group.consumer.assignment.interval.ms", "0",
}

func TestTwoConsumersShareByTheConsumerProtocol(t *testing.T) {
	n := start(t, quick...)
	n.topic("a", 3)
	n.fill(0, 15)
	c := newConsumers(t, n.addr)
	next := kgo.ServerSideBalancer()
	stop := c.add("one", next)
	defer stop()
	c.wantRead(15)
	admin := n.admin()
	stopTwo := c.add("two", next)
	defer stopTwo()
	until(t, "three partitions are shared", func() bool { return c.shared(3) })
	groups, err := admin.ListGroupsByType(t.Context(), []string{"consumer"})
	if err != nil || len(groups) != 1 || groups["g"].GroupType != "consumer" || groups["g"].ProtocolType != "consumer" {
		t.Errorf("%+v, %v", groups, err)
	}
	n.fill(15, 30)
	c.wantRead(30)
	stop()
	until(t, "the other has all", func() bool { return c.shared(3) })
	n.fill(30, 45)
	c.wantRead(45)
}

// admin returns a client for administrators.
func (n *node) admin() *kadm.Client {
	n.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(n.addr))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(client.Close)
	return kadm.NewClient(client)
}

// modern is a member of the consumer protocol that sends what a test says.
type modern struct {
	*client
	id    string
	epoch int32
	owned map[[16]byte][]int32
}

func (m *modern) beat(change func(*kmsg.ConsumerGroupHeartbeatRequest)) *kmsg.ConsumerGroupHeartbeatResponse {
	m.t.Helper()
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Group, r.MemberID, r.MemberEpoch = "g", m.id, m.epoch
	r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	for id, partitions := range m.owned {
		topic := kmsg.NewConsumerGroupHeartbeatRequestTopic()
		topic.TopicID, topic.Partitions = id, partitions
		r.Topics = append(r.Topics, topic)
	}
	if change != nil {
		change(r)
	}
	a := ask[*kmsg.ConsumerGroupHeartbeatResponse](m.client, 1, r)
	if a.ErrorCode == 0 {
		m.epoch = a.MemberEpoch
		if a.Assignment != nil {
			m.owned = map[[16]byte][]int32{}
			for _, topic := range a.Assignment.Topics {
				m.owned[topic.TopicID] = topic.Partitions
			}
		}
	}
	return a
}

func subscribe(topics ...string) func(*kmsg.ConsumerGroupHeartbeatRequest) {
	return func(r *kmsg.ConsumerGroupHeartbeatRequest) {
		r.RebalanceTimeoutMillis, r.SubscribedTopicNames = 10_000, topics
	}
}

func TestConsumerGroupIsDescribed(t *testing.T) {
	n := start(t, quick...)
	id := n.topic("a", 2)
	m := &modern{client: n.client(), id: "m"}
	if a := m.beat(subscribe("a")); a.ErrorCode != 0 || a.MemberEpoch != 2 || *a.MemberID != "m" || a.HeartbeatIntervalMillis != 100 || len(m.owned[id]) != 2 {
		t.Fatalf("%+v", a)
	}
	if a := m.beat(nil); a.ErrorCode != 0 || a.Assignment != nil {
		t.Errorf("%+v", a)
	}
	for version := range int16(2) {
		r := kmsg.NewPtrConsumerGroupDescribeRequest()
		r.Groups, r.IncludeAuthorizedOperations = []string{"g", "h", ""}, true
		groups := ask[*kmsg.ConsumerGroupDescribeResponse](m.client, version, r).Groups
		g := groups[0]
		if g.ErrorCode != 0 || g.State != "Stable" || g.Epoch != 2 || g.AssignmentEpoch != 2 || g.AssignorName != "uniform" || len(g.Members) != 1 ||
			g.AuthorizedOperations <= 0 {
			t.Fatalf("%+v", g)
		}
		member := g.Members[0]
		kind := int8(1)
		if version == 0 {
			kind = -1
		}
		if member.MemberID != "m" || member.MemberEpoch != 2 || member.SubscribedTopics[0] != "a" || member.MemberType != kind || member.ClientID != "test" ||
			member.Assignment.TopicPartitions[0].Topic != "a" || len(member.TargetAssignment.TopicPartitions[0].Partitions) != 2 {
			t.Errorf("%+v", member)
		}
		wantCode(t, groups[1].ErrorCode, kerr.GroupIDNotFound)
		wantCode(t, groups[2].ErrorCode, kerr.InvalidGroupID)
	}
	// As a classic group it is not there.
	if g := describe(m.client, 6, "g"); kerr.Code(g.ErrorCode) != kerr.GroupIDNotFound || g.State != "Dead" {
		t.Errorf("%+v", g)
	}
}

func TestConsumerHeartbeatsAreRefused(t *testing.T) {
	n := start(t, quick...)
	n.topic("a", 2)
	m := &modern{client: n.client(), id: "m"}
	for name, c := range map[string]struct {
		change func(*kmsg.ConsumerGroupHeartbeatRequest)
		want   kerr.Code
	}{
		"no group":    {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = "" }, kerr.InvalidRequest},
		"no member":   {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = "" }, kerr.InvalidRequest},
		"no time":     {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = -1 }, kerr.InvalidRequest},
		"bad pattern": {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = ptr("a(") }, kerr.InvalidRegularExpression},
		"assignor":    {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = ptr("mine") }, kerr.UnsupportedAssignor},
		"missing":     {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = 4 }, kerr.GroupIDNotFound},
	} {
		a := m.beat(func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			subscribe("a")(r)
			c.change(r)
		})
		if kerr.Code(a.ErrorCode) != c.want || a.ErrorMessage == nil || a.MemberID != nil || a.MemberEpoch != 0 {
			t.Errorf("%s: %v, %+v", name, kerr.Code(a.ErrorCode), a)
		}
	}
	off := start(t, "group.coordinator.rebalance.protocols", "classic")
	m.client = off.client()
	if a := m.beat(subscribe("a")); kerr.Code(a.ErrorCode) != kerr.UnsupportedVersion {
		t.Errorf("%+v", a)
	}
}

func TestMemberCommitsAndFetchesInItsEpoch(t *testing.T) {
	n := start(t, quick...)
	n.topic("a", 2)
	m := &modern{client: n.client(), id: "m"}
	m.beat(subscribe("a"))
	commit := func(version int16, epoch int32) kerr.Code {
		r := commitRequest("g", committed{topic: "a", offset: 42})
		r.MemberID, r.Generation = "m", epoch
		return kerr.Code(ask[*kmsg.OffsetCommitResponse](m.client, version, r).Topics[0].Partitions[0].ErrorCode)
	}
	for _, c := range []struct {
		version int16
		epoch   int32
		want    kerr.Code
	}{{9, 2, kerr.None}, {8, 2, kerr.UnsupportedVersion}, {9, 3, kerr.StaleMemberEpoch}, {9, 0, kerr.StaleMemberEpoch}, {9, -1, kerr.UnknownMemberID}} {
		if c.epoch == -1 {
			r := commitRequest("g", committed{topic: "a", offset: 42})
			if got := kerr.Code(ask[*kmsg.OffsetCommitResponse](m.client, 9, r).Topics[0].Partitions[0].ErrorCode); got != c.want {
				t.Errorf("nobody: %v", got)
			}
			continue
		}
		if got := commit(c.version, c.epoch); got != c.want {
			t.Errorf("version %d, epoch %d: %v, want %v", c.version, c.epoch, got, c.want)
		}
	}
	fetch := func(member *string, epoch int32) (kerr.Code, int64) {
		r := kmsg.NewPtrOffsetFetchRequest()
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group, g.MemberID, g.MemberEpoch = "g", member, epoch
		topic := kmsg.NewOffsetFetchRequestGroupTopic()
		topic.Topic, topic.Partitions = "a", []int32{0}
		g.Topics = append(g.Topics, topic)
		r.Groups = append(r.Groups, g)
		out := ask[*kmsg.OffsetFetchResponse](m.client, 9, r).Groups[0]
		if out.ErrorCode != 0 {
			return kerr.Code(out.ErrorCode), -1
		}
		return 0, out.Topics[0].Partitions[0].Offset
	}
	if code, offset := fetch(ptr("m"), 2); code != 0 || offset != 42 {
		t.Errorf("%v, %d", code, offset)
	}
	if code, _ := fetch(ptr("m"), 3); code != kerr.StaleMemberEpoch {
		t.Errorf("%v", code)
	}
	if code, _ := fetch(ptr("x"), 1); code != kerr.UnknownMemberID {
		t.Errorf("%v", code)
	}
	if code, offset := fetch(nil, -1); code != 0 || offset != 42 {
		t.Errorf("%v, %d", code, offset)
	}
}

func TestFeaturesAreFinalized(t *testing.T) {
	n := start(t)
	for version := int16(0); version <= 5; version++ {
		r := kmsg.NewPtrApiVersionsRequest()
		r.ClientSoftwareName, r.ClientSoftwareVersion = "test", "1"
		a := ask[*kmsg.ApiVersionsResponse](n.client(), version, r)
		level := int16(-1)
		for _, f := range a.FinalizedFeatures {
			if f.Name == "group.version" {
				level = f.MaxVersionLevel
			}
		}
		if want := map[bool]int16{true: 1, false: -1}[version >= 3]; level != want {
			t.Errorf("version %d: group.version is %d", version, level)
		}
		if supported := len(a.SupportedFeatures) > 0; supported != (version >= 4) {
			t.Errorf("version %d: supported %+v", version, a.SupportedFeatures)
		}
	}
}

func TestConfigsOfAGroupHoldAtOnce(t *testing.T) {
	n := start(t, quick...)
	n.topic("a", 1)
	m := &modern{client: n.client(), id: "m"}
	m.beat(subscribe("a"))
	answer := n.alter(kmsg.ConfigResourceTypeGroupConfig, "g", kmsg.IncrementalAlterConfigOpSet, "consumer.heartbeat.interval.ms", ptr("700"))
	wantCode(t, answer.ErrorCode, kerr.None)
	if a := m.beat(nil); a.HeartbeatIntervalMillis != 700 {
		t.Errorf("%+v", a)
	}
	if c := n.config(kmsg.ConfigResourceTypeGroupConfig, "g", "consumer.heartbeat.interval.ms"); *c.Value != "700" || c.Source != 8 {
		t.Errorf("%+v", c)
	}
	answer = n.alter(kmsg.ConfigResourceTypeGroupConfig, "g", kmsg.IncrementalAlterConfigOpSet, "consumer.session.timeout.ms", ptr("600"))
	wantCode(t, answer.ErrorCode, kerr.InvalidConfig)
	r := kmsg.NewPtrListConfigResourcesRequest()
	r.ResourceTypes = []int8{32}
	if all := ask[*kmsg.ListConfigResourcesResponse](m.client, 1, r).ConfigResources; len(all) != 1 || all[0].Name != "g" {
		t.Errorf("%+v", all)
	}
}

// An ordered group: the successor of a member that went silent is held back.
func TestOrderedGroupHoldsOffsetsBack(t *testing.T) {
	n := start(t, append([]string{"queue.lock.lease.ms", "4000"}, quick...)...)
	n.topic("a", 1)
	wantCode(t, n.alter(kmsg.ConfigResourceTypeGroupConfig, "g", kmsg.IncrementalAlterConfigOpSet, "ordered", ptr("true")).ErrorCode, kerr.None)
	wantCode(t, n.alter(kmsg.ConfigResourceTypeGroupConfig, "g", kmsg.IncrementalAlterConfigOpSet, "consumer.session.timeout.ms", ptr("1000")).ErrorCode, kerr.None)
	one, two := &modern{client: n.client(), id: "one"}, &modern{client: n.client(), id: "two"}
	one.beat(subscribe("a"))
	begin := time.Now()
	fetch := func(version int16, m *modern, stable bool) kerr.Code {
		r := kmsg.NewPtrOffsetFetchRequest()
		r.Group, r.RequireStable = "g", stable
		topic := kmsg.NewOffsetFetchRequestTopic()
		topic.Topic, topic.Partitions = "a", []int32{0}
		r.Topics = append(r.Topics, topic)
		if version >= 8 {
			g := kmsg.NewOffsetFetchRequestGroup()
			g.Group = "g"
			if m != nil {
				g.MemberID, g.MemberEpoch = &m.id, m.epoch
			}
			in := kmsg.NewOffsetFetchRequestGroupTopic()
			in.Topic, in.Partitions = "a", []int32{0}
			g.Topics = append(g.Topics, in)
			r.Groups = append(r.Groups, g)
			out := ask[*kmsg.OffsetFetchResponse](two.client, version, r).Groups[0]
			wantCode(t, out.ErrorCode, kerr.None)
			return kerr.Code(out.Topics[0].Partitions[0].ErrorCode)
		}
		return kerr.Code(ask[*kmsg.OffsetFetchResponse](two.client, version, r).Topics[0].Partitions[0].ErrorCode)
	}
	if code := fetch(9, one, true); code != kerr.None {
		t.Errorf("%v", code)
	}
	two.beat(subscribe("a"))
	until(t, "the other has the partition", func() bool { two.beat(nil); return len(two.owned) == 1 })
	if time.Since(begin) > 3500*time.Millisecond {
		t.Skip("too slow to tell")
	}
	for _, c := range []struct {
		version int16
		member  *modern
		stable  bool
		want    kerr.Code
	}{{9, two, true, kerr.UnstableOffsetCommit}, {8, nil, true, kerr.UnstableOffsetCommit}, {7, nil, true, kerr.UnstableOffsetCommit},
		{7, nil, false, kerr.CoordinatorLoadInProgress}, {5, nil, false, kerr.CoordinatorLoadInProgress}} {
		if code := fetch(c.version, c.member, c.stable); code != c.want {
			t.Errorf("version %d, stable %v: %v", c.version, c.stable, code)
		}
	}
	commit := func() kerr.Code {
		r := commitRequest("g", committed{topic: "a", offset: 42})
		r.MemberID, r.Generation = "two", two.epoch
		return kerr.Code(ask[*kmsg.OffsetCommitResponse](two.client, 9, r).Topics[0].Partitions[0].ErrorCode)
	}
	if code := commit(); code != kerr.CoordinatorLoadInProgress {
		t.Errorf("%v", code)
	}
	until(t, "the lease is over", func() bool { two.beat(nil); return fetch(9, two, true) == kerr.None })
	if waited := time.Since(begin); waited < 3900*time.Millisecond {
		t.Errorf("the lease ended after %v", waited)
	}
	if code := commit(); code != kerr.None {
		t.Errorf("%v", code)
	}
}

func TestConsumersSubscribeByAPatternThatTheBrokerResolves(t *testing.T) {
	n := start(t, quick...)
	n.topic("a", 2)
	c := newConsumers(t, n.addr)
	stop := c.add("one", kgo.ServerSideBalancer(), kgo.ConsumeTopics("^a$"), kgo.ConsumeRegex())
	defer stop()
	for i := range 10 {
		n.produce("a", int32(i%2), fmt.Sprintf("v%d", i))
	}
	c.wantRead(10)
	n.topic("ab", 1) // is of no interest
	admin := n.admin()
	groups, err := admin.DescribeConsumerGroups(context.Background(), "g")
	if err != nil || len(groups) != 1 || groups["g"].State != "Stable" || groups["g"].Epoch < 1 || len(groups["g"].Members) != 1 {
		t.Errorf("%+v, %v", groups, err)
	}
}

// An application is moved from one protocol to the other and back while it runs.
func TestConsumersOfBothProtocolsShareAGroup(t *testing.T) {
	for name, balancer := range map[string]kgo.GroupBalancer{"range": kgo.RangeBalancer(), "cooperative": kgo.CooperativeStickyBalancer()} {
		t.Run(name, func(t *testing.T) {
			n := start(t, quick...)
			n.topic("a", 3)
			n.fill(0, 15)
			c := newConsumers(t, n.addr)
			stop := c.add("classic", kgo.Balancers(balancer))
			c.wantRead(15)
			stopTwo := c.add("consumer", kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer()))
			until(t, "three partitions are shared", func() bool { return c.shared(3) })
			if kind := n.kind("g"); kind != "consumer" {
				t.Errorf("the group is of type %s", kind)
			}
			n.fill(15, 30)
			c.wantRead(30)
			stopThree := c.add("classic again", kgo.Balancers(balancer))
			until(t, "three partitions are shared by three", func() bool { return c.shared(3) })
			n.fill(30, 45)
			c.wantRead(45)
			stopTwo()
			until(t, "the old ones have all", func() bool { return c.shared(3) })
			if kind := n.kind("g"); kind != "classic" {
				t.Errorf("the group is of type %s", kind)
			}
			n.fill(45, 60)
			c.wantRead(60)
			stop()
			stopThree()
		})
	}
}

func (n *node) kind(group string) string {
	n.t.Helper()
	groups, err := n.admin().ListGroups(n.t.Context())
	if err != nil {
		n.t.Fatal(err)
	}
	return groups[group].GroupType
}
