package group

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/group/assign"
	"github.com/sluicemq/sluice/group/classic"
	"github.com/sluicemq/sluice/group/consumer"
	"github.com/sluicemq/sluice/group/offsets"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// oneTopic is a catalog with the topic t1 of eight partitions.
type oneTopic struct{}

var topicT1 = entry.TopicID{15: 1}

func (oneTopic) Topic(name string) (entry.TopicID, int32, bool) { return topicT1, 8, name == "t1" }
func (oneTopic) Name(id entry.TopicID) (string, bool)           { return "t1", id == topicT1 }
func (oneTopic) Version() uint64                                { return 1 }
func (oneTopic) Count() int                                     { return 1 }
func (oneTopic) Names(visit func(string) bool)                  { visit("t1") }

// withConsumers are options for groups of the consumer protocol.
func withConsumers(change func(*consumer.Settings)) func(*Options) {
	settings := consumer.DefaultSettings()
	settings.AssignmentInterval = 0
	if change != nil {
		change(settings)
	}
	return func(o *Options) {
		o.Topics, o.Upgrade = oneTopic{}, true
		o.Consumer = func(string) *consumer.Settings { return settings }
	}
}

// modernMember is a member of the consumer protocol.
type modernMember struct {
	r         *rig
	group, id string
	epoch     int32
	owned     assign.Assignment
}

func (m *modernMember) ask(h *consumer.Heartbeat) chan consumer.Beaten {
	answer := make(chan consumer.Beaten, 2)
	h.MemberID, h.Epoch, h.ClientID, h.ClientHost = m.id, m.epoch, "c", "/h"
	m.r.ConsumerHeartbeat(m.group, h, true, func(a consumer.Beaten) { answer <- a })
	return answer
}

func (m *modernMember) hear(answer chan consumer.Beaten) consumer.Beaten {
	a := <-answer
	if a.Err == nil {
		m.epoch = a.Epoch
		if a.Assigned != nil {
			m.owned = *a.Assigned
		}
	}
	return a
}

func (m *modernMember) joining() *consumer.Heartbeat {
	return &consumer.Heartbeat{RebalanceTimeout: time.Minute, HasTopics: true, Topics: []string{"t1"}, Owned: new(assign.Assignment)}
}

func (m *modernMember) join() consumer.Beaten {
	m.epoch = 0
	return m.hear(m.ask(m.joining()))
}

func (m *modernMember) beat() consumer.Beaten {
	return m.hear(m.ask(&consumer.Heartbeat{RebalanceTimeout: -1, Owned: &m.owned}))
}

func (m *modernMember) leave() consumer.Beaten {
	m.epoch = -1
	return m.hear(m.ask(&consumer.Heartbeat{RebalanceTimeout: -1}))
}

// commit9 commits as members of the consumer protocol must.
func (r *rig) commit9(q *offsets.Request) error {
	answer := make(chan error, 1)
	r.Commit(q, 9, func(_ []entry.TopicID, err error) { answer <- err })
	return <-answer
}

// twoOfT1 is what a leader assigns: partitions 0 and 5 of t1.
const twoOfT1 = "\x00\x00\x00\x00\x00\x01\x00\x02t1\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x05\xff\xff\xff\xff"

// stableConsumer is stable with an assignment that can be read: partitions 0 and 5
// of t1.
func (r *rig) stableConsumer(t *testing.T, group, client string) int32 {
	t.Helper()
	_, first := r.join(group, client)
	generation := (<-first).Generation
	_, work := r.sync(group, client+"-1", generation, client+"-1", twoOfT1)
	want(t, (<-work).Err, kerr.None)
	return generation
}

// settle lets members send heartbeats until the group is stable.
func settle(t *testing.T, r *rig, group string, members ...*modernMember) {
	t.Helper()
	for range 10 {
		for _, m := range members {
			want(t, m.beat().Err, kerr.None)
		}
		if d, ok := r.DescribeConsumer(group); ok && d.Life == "Stable" {
			return
		}
	}
	d, _ := r.DescribeConsumer(group)
	t.Fatalf("not stable: %+v", d)
}

func TestConsumersShareAndComeBackAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := store{}
		r := start(t, disk, withConsumers(nil))
		a, b := &modernMember{r: r, group: "g", id: "a"}, &modernMember{r: r, group: "g", id: "b"}
		if got := a.join(); got.Err != nil || a.owned.Count() != 8 || a.epoch != 2 {
			t.Fatalf("%+v", got)
		}
		want(t, b.join().Err, kerr.None)
		settle(t, r, "g", a, b)
		if a.owned.Count() != 4 || b.owned.Count() != 4 || len(a.owned.Both(b.owned)) != 0 {
			t.Errorf("%v, %v", a.owned, b.owned)
		}
		all := r.List(nil, nil)
		if len(all) != 1 || all[0].Kind.String() != "consumer" || all[0].State != "Stable" || all[0].ProtocolType != "consumer" {
			t.Errorf("%+v", all)
		}
		if _, ok := r.Describe("g"); ok {
			t.Error("described as a classic group")
		}
		want(t, r.commit9(commitOf("g", "a", a.epoch, 1, 0, 42)), kerr.None)
		want(t, r.commit9(commitOf("g", "a", a.epoch+1, 1, 0, 42)), kerr.StaleMemberEpoch)
		want(t, r.commit9(commitOf("g", "x", 1, 1, 0, 42)), kerr.UnknownMemberID)
		want(t, r.CheckFetch("g", &a.id, a.epoch), kerr.None)
		want(t, r.CheckFetch("g", &a.id, a.epoch-1), kerr.StaleMemberEpoch)
		want(t, r.delete("g"), kerr.NonEmptyGroup)
		r.stop()

		r = start(t, disk, withConsumers(nil))
		a.r, b.r = r, r
		entries := len(r.log.applied())
		epoch := a.epoch
		for range 3 {
			want(t, a.beat().Err, kerr.None)
			want(t, b.beat().Err, kerr.None)
		}
		if a.epoch != epoch || len(r.log.applied()) != entries {
			t.Errorf("epoch %d after %d, %d entries", a.epoch, epoch, len(r.log.applied())-entries)
		}
		// One falls silent.
		for range 10 {
			time.Sleep(5 * time.Second)
			want(t, a.beat().Err, kerr.None)
		}
		settle(t, r, "g", a)
		if a.owned.Count() != 8 || r.Stats().Silent != 1 || r.Stats().Members != 1 {
			t.Errorf("%v, %+v", a.owned, r.Stats())
		}
		want(t, a.leave().Err, kerr.None)
		if d, ok := r.DescribeConsumer("g"); !ok || d.Life != "Empty" || r.Stats().Members != 0 || len(r.shard("g").groups) != 0 {
			t.Errorf("%+v, %+v", d, r.Stats())
		}
		want(t, r.delete("g"), kerr.None)
		r.stop()
		for k := range disk {
			t.Logf("%q", k)
		}
		if len(disk) != 1 {
			t.Errorf("%d keys are left", len(disk))
		}
	})
}

func TestMissingAndClassicGroupsHaveNoConsumerMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, store{}, withConsumers(nil))
		defer r.stop()
		m := &modernMember{r: r, group: "g", id: "m", epoch: 3}
		want(t, m.beat().Err, kerr.GroupIDNotFound)
		want(t, m.leave().Err, kerr.GroupIDNotFound)
		r.stable(t, "h", "a")
		m.group, m.epoch = "h", 3
		want(t, m.beat().Err, kerr.GroupIDNotFound)
		m.group = ""
		want(t, m.beat().Err, kerr.InvalidRequest)
		m.group, m.id = "g", ""
		want(t, m.beat().Err, kerr.InvalidRequest)
	})
}

func TestClassicGroupBecomesAConsumerGroupAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := store{}
		r := start(t, disk, withConsumers(nil))
		generation := r.stableConsumer(t, "g", "a")
		// Another is about to join the old way.
		_, waiting := r.join("g", "b")
		want(t, r.Heartbeat("g", "a-1", "", generation), kerr.RebalanceInProgress)
		m := &modernMember{r: r, group: "g", id: "m"}
		want(t, m.join().Err, kerr.None)
		if m.owned.Count() != 4 || m.owned.Has(topicT1, 0) || m.owned.Has(topicT1, 5) {
			t.Errorf("the new member has %v", m.owned)
		}
		want(t, (<-waiting).Err, kerr.RebalanceInProgress)
		if all := r.List(nil, []string{"consumer"}); len(all) != 1 {
			t.Fatalf("%+v", r.List(nil, nil))
		}
		// The old member joins again, in the consumer group.
		want(t, r.Heartbeat("g", "a-1", "", generation), kerr.RebalanceInProgress)
		_, answer := r.rejoin("g", "a", "a-1", "")
		joined := <-answer
		want(t, joined.Err, kerr.None)
		_, synced := r.sync("g", "a-1", joined.Generation)
		want(t, (<-synced).Err, kerr.None)
		want(t, r.Heartbeat("g", "a-1", "", joined.Generation), kerr.None)
		if d, _ := r.DescribeConsumer("g"); len(d.Members) != 2 || !d.Members[0].Classic || d.Members[1].Classic {
			t.Errorf("%+v", d)
		}
		// A restart keeps both.
		r.stop()
		r = start(t, disk, withConsumers(nil))
		defer r.stop()
		m.r = r
		want(t, m.beat().Err, kerr.None)
		want(t, r.Heartbeat("g", "a-1", "", joined.Generation), kerr.None)
		// The last of the new protocol leaves: the old ones are asked to join again.
		want(t, m.leave().Err, kerr.None)
		if d, ok := r.Describe("g"); !ok || d.State != classic.PreparingRebalance || len(d.Members) != 1 {
			t.Fatalf("%+v %v", d, ok)
		}
		_, answer = r.rejoin("g", "a", "a-1", "")
		joined = <-answer
		want(t, joined.Err, kerr.None)
		_, synced = r.sync("g", "a-1", joined.Generation, "a-1", "all")
		want(t, (<-synced).Err, kerr.None)
		if got := r.leave("g", "a-1"); got != nil {
			t.Errorf("%v", got)
		}
		// Empty, it becomes whatever joins next.
		want(t, m.join().Err, kerr.None)
		if all := r.List(nil, []string{"consumer"}); len(all) != 1 {
			t.Errorf("%+v", r.List(nil, nil))
		}
		want(t, m.leave().Err, kerr.None)
		r.stable(t, "g", "c")
		if all := r.List(nil, []string{"classic"}); len(all) != 1 || all[0].State != "Stable" {
			t.Errorf("%+v", r.List(nil, nil))
		}
	})
}

func TestUpgradeIsAMatterOfPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, store{}, func(o *Options) {
			withConsumers(nil)(o)
			o.Upgrade = false
		})
		defer r.stop()
		generation := r.stable(t, "g", "a")
		m := &modernMember{r: r, group: "g", id: "m"}
		want(t, m.join().Err, kerr.GroupIDNotFound)
		want(t, r.Heartbeat("g", "a-1", "", generation), kerr.None)
	})
}

// An upgrade that is refused leaves the classic group as it was.
func TestRefusedUpgradeChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, store{}, withConsumers(func(s *consumer.Settings) { s.MaxMembers = 1 }))
		defer r.stop()
		generation := r.stableConsumer(t, "g", "a")
		m := &modernMember{r: r, group: "g", id: "m"}
		want(t, m.join().Err, kerr.GroupMaxSizeReached)
		want(t, r.Heartbeat("g", "a-1", "", generation), kerr.None)
	})
}

func TestLargeGroupsAreAssignedAwayFromTheShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, store{}, withConsumers(func(s *consumer.Settings) { s.MaxInline = 0 }))
		var members []*modernMember
		for i := range 20 {
			m := &modernMember{r: r, group: "g", id: fmt.Sprintf("m%02d", i)}
			want(t, m.join().Err, kerr.None)
			members = append(members, m)
			synctest.Wait()
		}
		settle(t, r, "g", members...)
		r.stop()
		want(t, members[0].leave().Err, kerr.CoordinatorNotAvailable)
	})
}
