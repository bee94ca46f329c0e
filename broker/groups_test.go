package broker_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/protocol/kerr"
)

// member is a member of a group that has joined.
type member struct {
	*client
	group      string
	instance   *string
	id         string
	generation int32
	joined     *kmsg.JoinGroupResponse
}

func joinRequest(group, id string, instance *string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.InstanceID, req.ProtocolType = group, id, instance, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 20_000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", []byte{0, 0, 0, 0, 0, 1, 0, 1, 'a', 0, 0, 0, 0}
	req.Protocols = append(req.Protocols, p)
	return req
}

// join joins as a new member, and waits until the rebalance has come so far.
func (c *client) join(group string) *member {
	c.t.Helper()
	m := &member{client: c, group: group}
	m.rejoin(c.t, 3)
	return m
}

func (m *member) rejoin(t *testing.T, version int16) {
	t.Helper()
	req := joinRequest(m.group, m.id, m.instance)
	resp := ask[*kmsg.JoinGroupResponse](m.client, version, req)
	if kerr.Code(resp.ErrorCode) == kerr.MemberIDRequired && version >= 4 {
		req.MemberID = resp.MemberID
		resp = ask[*kmsg.JoinGroupResponse](m.client, version, req)
	}
	m.take(t, resp)
}

func (m *member) take(t *testing.T, resp *kmsg.JoinGroupResponse) {
	t.Helper()
	wantCode(t, resp.ErrorCode, kerr.None)
	m.id, m.generation, m.joined = resp.MemberID, resp.Generation, resp
}

func (m *member) syncRequest(assign ...string) *kmsg.SyncGroupRequest {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.InstanceID, req.Generation = m.group, m.id, m.instance, m.generation
	req.ProtocolType, req.Protocol = ptr("consumer"), ptr("range")
	for i := 0; i+1 < len(assign); i += 2 {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = assign[i], []byte(assign[i+1])
		req.GroupAssignment = append(req.GroupAssignment, a)
	}
	return req
}

// sync syncs, as the leader with assignments, and returns the member's.
func (m *member) sync(t *testing.T, assign ...string) string {
	t.Helper()
	resp := ask[*kmsg.SyncGroupResponse](m.client, 5, m.syncRequest(assign...))
	wantCode(t, resp.ErrorCode, kerr.None)
	return string(resp.MemberAssignment)
}

func (m *member) heartbeat(t *testing.T) int16 {
	t.Helper()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.InstanceID, req.Generation = m.group, m.id, m.instance, m.generation
	return ask[*kmsg.HeartbeatResponse](m.client, 4, req).ErrorCode
}

func (m *member) leave(t *testing.T) {
	t.Helper()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = m.group, m.id
	wantCode(t, ask[*kmsg.LeaveGroupResponse](m.client, 2, req).ErrorCode, kerr.None)
}

func describe(c *client, version int16, group string) kmsg.DescribeGroupsResponseGroup {
	c.t.Helper()
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups, req.IncludeAuthorizedOperations = []string{group}, true
	return ask[*kmsg.DescribeGroupsResponse](c, version, req).Groups[0]
}

func TestMembersJoinAndSyncAtEveryVersion(t *testing.T) {
	n := start(t, "group.initial.rebalance.delay.ms", "50")
	eachVersion(t, 0, 9, func(t *testing.T, version int16) {
		sync, heartbeat, leave := min(version, 5), min(version, 4), min(version, 5)
		group := fmt.Sprintf("g%d", version)
		a, b := &member{client: n.client(), group: group}, &member{client: n.client(), group: group}
		for _, m := range []*member{a, b} {
			req := joinRequest(group, "", nil)
			if version >= 4 {
				resp := ask[*kmsg.JoinGroupResponse](m.client, version, req)
				wantCode(t, resp.ErrorCode, kerr.MemberIDRequired)
				if m.id = resp.MemberID; m.id == "" || resp.Generation != -1 {
					t.Errorf("%+v", resp)
				}
			}
			m.send(version, joinRequest(group, m.id, nil))
		}
		for _, m := range []*member{a, b} {
			resp, err := m.receive(joinRequestOf(version))
			if err != nil {
				t.Fatal(err)
			}
			m.take(t, resp.(*kmsg.JoinGroupResponse))
		}
		leader, follower := a, b
		if a.joined.LeaderID != a.id {
			leader, follower = b, a
		}
		l, f := leader.joined, follower.joined
		if len(l.Members) != 2 || len(f.Members) != 0 || f.LeaderID != leader.id || l.Generation != 1 || *l.Protocol != "range" ||
			len(l.Members[0].ProtocolMetadata) != 13 || l.SkipAssignment || (version >= 7 && *l.ProtocolType != "consumer") {
			t.Fatalf("%+v, %+v", l, f)
		}
		wantCode(t, ask[*kmsg.HeartbeatResponse](leader.client, heartbeat, heartbeatOf(leader)).ErrorCode, kerr.None)
		req := follower.syncRequest()
		follower.send(sync, req)
		resp := ask[*kmsg.SyncGroupResponse](leader.client, sync, leader.syncRequest(leader.id, "0", follower.id, "1"))
		if string(resp.MemberAssignment) != "0" || resp.ErrorCode != 0 || sync >= 5 && *resp.Protocol != "range" {
			t.Errorf("%+v", resp)
		}
		other, err := follower.receive(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp = other.(*kmsg.SyncGroupResponse); string(resp.MemberAssignment) != "1" {
			t.Errorf("%+v", resp)
		}
		gone := kmsg.NewPtrLeaveGroupRequest()
		gone.Group, gone.MemberID = group, follower.id
		one, two := kmsg.NewLeaveGroupRequestMember(), kmsg.NewLeaveGroupRequestMember()
		one.MemberID, two.MemberID = follower.id, "nobody"
		gone.Members = append(gone.Members, one, two)
		left := ask[*kmsg.LeaveGroupResponse](leader.client, leave, gone)
		wantCode(t, left.ErrorCode, kerr.None)
		if leave >= 3 {
			wantCode(t, left.Members[0].ErrorCode, kerr.None)
			wantCode(t, left.Members[1].ErrorCode, kerr.UnknownMemberID)
		}
		wantCode(t, ask[*kmsg.HeartbeatResponse](leader.client, heartbeat, heartbeatOf(leader)).ErrorCode, kerr.RebalanceInProgress)
	})
}

// until looks again and again until something is so.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !so(); {
		if time.Now().After(end) {
			t.Fatalf("not so after %v: %s", limit, what)
		}
		time.Sleep(time.Millisecond)
	}
}

func joinRequestOf(version int16) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version = version
	return req
}

func heartbeatOf(m *member) *kmsg.HeartbeatRequest {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = m.group, m.id, m.generation
	return req
}

func TestRefusalsOfGroupRequests(t *testing.T) {
	n := start(t)
	c := n.client()
	for what, want := range map[string]struct {
		got  int16
		code kerr.Code
	}{
		"join without group": {ask[*kmsg.JoinGroupResponse](c, 9, joinRequest("", "", nil)).ErrorCode, kerr.InvalidGroupID},
		"join of a stranger": {ask[*kmsg.JoinGroupResponse](c, 9, joinRequest("g", "x", nil)).ErrorCode, kerr.UnknownMemberID},
		"session timeout": {ask[*kmsg.JoinGroupResponse](c, 9, func() *kmsg.JoinGroupRequest {
			req := joinRequest("g", "", nil)
			req.SessionTimeoutMillis = 5000
			return req
		}()).ErrorCode, kerr.InvalidSessionTimeout},
		"no protocols": {ask[*kmsg.JoinGroupResponse](c, 9, func() *kmsg.JoinGroupRequest {
			req := joinRequest("g", "", nil)
			req.Protocols = nil
			return req
		}()).ErrorCode, kerr.InconsistentGroupProtocol},
		"sync without protocol": {ask[*kmsg.SyncGroupResponse](c, 5, func() *kmsg.SyncGroupRequest {
			req := (&member{group: "g", id: "x"}).syncRequest()
			req.Protocol = nil
			return req
		}()).ErrorCode, kerr.InconsistentGroupProtocol},
		"sync":                  {ask[*kmsg.SyncGroupResponse](c, 5, (&member{group: "g", id: "x"}).syncRequest()).ErrorCode, kerr.UnknownMemberID},
		"heartbeat":             {(&member{client: c, group: "g", id: "x"}).heartbeat(t), kerr.UnknownMemberID},
		"heartbeat to no group": {(&member{client: c}).heartbeat(t), kerr.InvalidGroupID},
		"leave unknown": {ask[*kmsg.LeaveGroupResponse](c, 5, func() *kmsg.LeaveGroupRequest {
			req := kmsg.NewPtrLeaveGroupRequest()
			req.Group, req.Members = "g", []kmsg.LeaveGroupRequestMember{{MemberID: "x"}}
			return req
		}()).Members[0].ErrorCode, kerr.UnknownMemberID},
		"leave unknown alone": {ask[*kmsg.LeaveGroupResponse](c, 2, func() *kmsg.LeaveGroupRequest {
			req := kmsg.NewPtrLeaveGroupRequest()
			req.Group, req.MemberID = "g", "x"
			return req
		}()).ErrorCode, kerr.UnknownMemberID},
		"delete unknown":         {deleteGroup(c, "g"), kerr.GroupIDNotFound},
		"delete offsets unknown": {deleteOffsets(c, "g", "a").ErrorCode, kerr.GroupIDNotFound},
	} {
		if kerr.Code(want.got) != want.code {
			t.Errorf("%s: %s, want %s", what, kerr.Code(want.got), want.code)
		}
	}
	// None of it leaves a group behind (B20).
	if resp := ask[*kmsg.ListGroupsResponse](c, 5, kmsg.NewPtrListGroupsRequest()); len(resp.Groups) != 0 {
		t.Errorf("%+v", resp.Groups)
	}
}

func deleteOffsets(c *client, group, topic string) *kmsg.OffsetDeleteResponse {
	c.t.Helper()
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = group
	p := kmsg.NewOffsetDeleteRequestTopicPartition()
	rt := kmsg.NewOffsetDeleteRequestTopic()
	rt.Topic = topic
	rt.Partitions = append(rt.Partitions, p)
	req.Topics = append(req.Topics, rt)
	return ask[*kmsg.OffsetDeleteResponse](c, 0, req)
}

func TestGroupsAreDescribedListedAndDeleted(t *testing.T) {
	n := start(t, "group.initial.rebalance.delay.ms", "0")
	n.topic("a", 1)
	n.topic("b", 1)
	c := n.client()
	m := c.join("g")
	wantCodes(t, ask[*kmsg.OffsetCommitResponse](c, 8, commitRequest("simple", committed{topic: "b", offset: 1})), kerr.None)
	eachVersion(t, 0, 6, func(t *testing.T, version int16) {
		g := describe(c, version, "g")
		if g.State != "CompletingRebalance" || len(g.Members) != 1 || len(g.Members[0].ProtocolMetadata) != 0 || g.Protocol != "" {
			t.Errorf("%+v", g)
		}
		g = describe(c, version, "none")
		if version < 6 && g.ErrorCode != 0 || version >= 6 && (kerr.Code(g.ErrorCode) != kerr.GroupIDNotFound || g.ErrorMessage == nil) || g.State != "Dead" {
			t.Errorf("%+v", g)
		}
		if g = describe(c, version, "simple"); g.State != "Empty" || g.ProtocolType != "" || g.ErrorCode != 0 {
			t.Errorf("%+v", g)
		}
	})
	m.sync(t, m.id, "work")
	g := describe(c, 5, "g")
	if g.State != "Stable" || g.Protocol != "range" || g.ProtocolType != "consumer" || string(g.Members[0].MemberAssignment) != "work" ||
		g.Members[0].ClientID != "test" || g.Members[0].ClientHost != "/127.0.0.1" || len(g.Members[0].ProtocolMetadata) == 0 || g.AuthorizedOperations != 3400 {
		t.Errorf("%+v", g)
	}
	eachVersion(t, 0, 5, func(t *testing.T, version int16) {
		req := kmsg.NewPtrListGroupsRequest()
		resp := ask[*kmsg.ListGroupsResponse](c, version, req)
		if len(resp.Groups) != 2 || resp.Groups[0].Group != "g" || resp.Groups[0].ProtocolType != "consumer" || resp.Groups[1].Group != "simple" ||
			version >= 4 && resp.Groups[0].GroupState != "Stable" || version >= 5 && resp.Groups[1].GroupType != "classic" {
			t.Errorf("%+v", resp.Groups)
		}
		req.StatesFilter, req.TypesFilter = []string{"empty"}, []string{"CLASSIC"}
		if resp = ask[*kmsg.ListGroupsResponse](c, version, req); version >= 4 && len(resp.Groups) != 1 {
			t.Errorf("%+v", resp.Groups)
		}
	})
	commit := commitRequest("g", committed{topic: "a", offset: 1}, committed{topic: "b", offset: 1})
	commit.MemberID, commit.Generation = m.id, m.generation
	wantCodes(t, ask[*kmsg.OffsetCommitResponse](c, 8, commit), kerr.None, kerr.None)
	wantCode(t, deleteOffsets(c, "g", "a").Topics[0].Partitions[0].ErrorCode, kerr.GroupSubscribedToTopic)
	wantCode(t, deleteOffsets(c, "g", "b").Topics[0].Partitions[0].ErrorCode, kerr.None)
	wantCode(t, deleteOffsets(c, "g", "nope").Topics[0].Partitions[0].ErrorCode, kerr.UnknownTopicOrPartition)
	if got := fetchOffsets(c, 8, "g", nil); got != "a/0=1@0" {
		t.Error(got)
	}
	wantCode(t, deleteGroup(c, "g"), kerr.NonEmptyGroup)
	m.leave(t)
	for version := int16(0); version <= 3; version++ {
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{"g", "none", "g"}
		resp := ask[*kmsg.DeleteGroupsResponse](c, version, req)
		if len(resp.Groups) != 2 || version > 0 && kerr.Code(resp.Groups[0].ErrorCode) != kerr.GroupIDNotFound || version == 0 && resp.Groups[0].ErrorCode != 0 {
			t.Errorf("v%d: %+v", version, resp.Groups)
		}
	}
	if g := describe(c, 5, "g"); g.State != "Dead" || fetchOffsets(c, 8, "g", nil) != "" {
		t.Errorf("%+v", g)
	}
}

func TestStaticMembersSurviveTheirRestartAndTheBrokers(t *testing.T) {
	n := start(t, "group.initial.rebalance.delay.ms", "0")
	a := &member{client: n.client(), group: "g", instance: ptr("i1")}
	b := &member{client: n.client(), group: "g", instance: ptr("i2")}
	a.rejoin(t, 9)
	b.send(9, joinRequest("g", "", b.instance))
	until(t, "b is in", func() bool { return kerr.Code(a.heartbeat(t)) == kerr.RebalanceInProgress })
	a.rejoin(t, 9)
	resp, err := b.receive(joinRequestOf(9))
	if err != nil {
		t.Fatal(err)
	}
	b.take(t, resp.(*kmsg.JoinGroupResponse))
	a.sync(t, a.id, "0", b.id, "1")
	if got := b.sync(t); got != "1" {
		t.Errorf("b got %q", got)
	}
	// b restarts, twice, and the broker in between.
	for _, restart := range []bool{false, true} {
		old := *b
		if restart {
			n.stop()
			n = startIn(t, n.dir, "group.initial.rebalance.delay.ms", "0")
			a.client, old.client = n.client(), n.client()
		}
		b = &member{client: n.client(), group: "g", instance: ptr("i2")}
		b.rejoin(t, 9)
		if b.generation != a.generation || b.id == old.id || b.sync(t) != "1" {
			t.Errorf("%+v", b)
		}
		wantCode(t, old.heartbeat(t), kerr.FencedInstanceID)
		wantCode(t, a.heartbeat(t), kerr.None)
		wantCode(t, b.heartbeat(t), kerr.None)
	}
	// So does the leader, which is not to divide the work anew.
	a = &member{client: n.client(), group: "g", instance: ptr("i1")}
	a.rejoin(t, 9)
	if !a.joined.SkipAssignment || len(a.joined.Members) != 2 || *a.joined.Members[1].InstanceID != "i2" || a.sync(t) != "0" {
		t.Errorf("%+v", a.joined)
	}
	// An administrator takes b out by its instance id.
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = "g"
	one := kmsg.NewLeaveGroupRequestMember()
	one.InstanceID = ptr("i2")
	req.Members = append(req.Members, one)
	wantCode(t, ask[*kmsg.LeaveGroupResponse](a.client, 5, req).Members[0].ErrorCode, kerr.None)
	wantCode(t, b.heartbeat(t), kerr.UnknownMemberID)
	wantCode(t, a.heartbeat(t), kerr.RebalanceInProgress)
}

// B64: clients that give up while they wait do not fill the group.
func TestClientsThatGiveUpLeaveNoMembersBehind(t *testing.T) {
	n := start(t, "group.initial.rebalance.delay.ms", "0")
	a := n.client().join("g")
	a.sync(t, a.id, "all")
	for range 5 {
		var phantoms []*client
		for range 10 {
			c := n.client()
			c.send(1, joinRequest("g", "", nil))
			phantoms = append(phantoms, c)
		}
		until(t, "all have joined", func() bool { return len(describe(a.client, 5, "g").Members) == 11 })
		for _, c := range phantoms {
			c.socket.Close()
		}
		until(t, "all are forgotten", func() bool { return len(describe(a.client, 5, "g").Members) == 1 })
	}
	a.rejoin(t, 3)
	if len(a.joined.Members) != 1 || a.generation != 2 {
		t.Errorf("%+v", a.joined)
	}
}

func TestStoppingTheBrokerAnswersWhoWaits(t *testing.T) {
	n := start(t, "group.initial.rebalance.delay.ms", "60000")
	c := n.client()
	req := joinRequest("g", "", nil)
	c.send(3, req)
	until(t, "it has joined", func() bool { return len(describe(n.client(), 5, "g").Members) == 1 })
	began := time.Now()
	n.stop()
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("the stop took %v", d)
	}
	resp, err := c.receive(req)
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, resp.(*kmsg.JoinGroupResponse).ErrorCode, kerr.CoordinatorNotAvailable)
}

func TestMetricsTellOfGroups(t *testing.T) {
	n := start(t, "group.initial.rebalance.delay.ms", "0", "http.listen", "127.0.0.1:0")
	n.topic("a", 1)
	c := n.client()
	m := c.join("g")
	m.sync(t, m.id, "all")
	wantCodes(t, ask[*kmsg.OffsetCommitResponse](c, 8, commitRequest("simple", committed{topic: "a", offset: 1})), kerr.None)
	wantCodes(t, ask[*kmsg.OffsetCommitResponse](c, 8, commitRequest("g", committed{topic: "a", offset: 1})), kerr.UnknownMemberID)
	resp, err := http.Get("http://" + n.HTTPAddr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	for _, line := range []string{
		`sluice_groups{state="Stable"} 1`, `sluice_groups{state="Empty"} 1`, `sluice_groups{state="PreparingRebalance"} 0`,
		"sluice_group_members 1", "sluice_group_offsets 1", "sluice_group_rebalances_total 1", "sluice_group_commits_total 1",
		"sluice_group_refused_commits_total 1", "sluice_group_held_requests 0",
	} {
		if !strings.Contains(string(text), "\n"+line+"\n") {
			t.Errorf("there is no line %s", line)
		}
	}
}
