package diff

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Versions at which the scripts of groups prepare and look.
const (
	dynamicJoin   = 3 // the newest at which a member need not be told its id first
	staticJoin    = 5
	plainSync     = 3
	plainCommit   = 8
	plainFetch    = 7
	plainDescribe = 5
	plainLeave    = 4
)

// subscription is a well-formed one to topic "a", made by hand: brokers keep it as it is.
var subscription = []byte{0, 0, 0, 0, 0, 1, 0, 1, 'a', 0, 0, 0, 0}

// subscribe returns a subscription to a topic.
func subscribe(topic string) []byte {
	b := append([]byte{0, 0, 0, 0, 0, 1, byte(len(topic) >> 8), byte(len(topic))}, topic...)
	return append(b, 0, 0, 0, 0)
}

// member is one member of a group, with a connection of its own: a held answer then holds nobody up.
type member struct {
	s          *Script
	c          *conn
	group, id  string
	instance   *string
	generation int32
}

// member returns one that has not joined.
func (s *Script) member(group string) *member {
	c, err := dial(s.addr)
	if err != nil {
		s.fail("%v", err)
	}
	s.conns = append(s.conns, c)
	return &member{s: s, c: c, group: group, generation: -1}
}

// Group returns the name of a group that does not exist, when there is a coordinator for it: Kafka
// makes a topic at the first question.
func (s *Script) Group() string {
	s.eventually("there is a group coordinator", func() bool {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorKey = "a"
		if s.prepare(3, find).(*kmsg.FindCoordinatorResponse).ErrorCode != 0 {
			return false
		}
		fetch := kmsg.NewPtrOffsetFetchRequest()
		fetch.Group = "a"
		return s.prepare(plainFetch, fetch).(*kmsg.OffsetFetchResponse).ErrorCode == 0
	})
	return s.Name("-g")
}

// ask sends a request over the member's connection and records the answer.
func (m *member) ask(version int16, label string, req kmsg.Request) kmsg.Response {
	req.SetVersion(version)
	resp, err := m.c.ask(req, header{})
	if err != nil {
		m.s.Note(label, "connection "+err.Error())
		return nil
	}
	m.s.Record(label, resp)
	return resp
}

// prepare sends a request over the member's connection that must be answered.
func (m *member) prepare(version int16, req kmsg.Request) kmsg.Response {
	req.SetVersion(version)
	resp, err := m.c.ask(req, header{})
	if err != nil {
		m.s.fail("prepare: %s v%d: %v", kmsg.NameForKey(req.Key()), version, err)
	}
	return resp
}

// begin sends a request whose answer is held; end takes it.
func (m *member) begin(version int16, req kmsg.Request) (end func() kmsg.Response) {
	req.SetVersion(version)
	m.c.correlation++
	id := m.c.correlation
	if err := m.c.send(header{}.encode(req, id)); err != nil {
		m.s.fail("prepare: %v", err)
	}
	return func() kmsg.Response {
		frame, err := m.c.receive(m.c.limit)
		if err != nil {
			m.s.fail("a held answer to %s: %v", kmsg.NameForKey(req.Key()), err)
		}
		resp, err := decode(req, id, frame)
		if err != nil {
			m.s.fail("%v", err)
		}
		return resp
	}
}

func (m *member) joinRequest() *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.InstanceID, req.ProtocolType = m.group, m.id, m.instance, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 30_000, 30_000
	req.Protocols = []kmsg.JoinGroupRequestProtocol{protocol("range", subscription)}
	return req
}

func protocol(name string, metadata []byte) kmsg.JoinGroupRequestProtocol {
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = name, metadata
	return p
}

// take takes over what a join was answered.
func (m *member) take(resp kmsg.Response) *kmsg.JoinGroupResponse {
	r, ok := resp.(*kmsg.JoinGroupResponse)
	if !ok {
		return nil
	}
	m.s.nameOfMember(r.MemberID)
	m.id = r.MemberID
	if r.Generation >= 0 {
		m.generation = r.Generation
	}
	return r
}

// join joins as the first member, or again.
func (m *member) join() *member {
	version := int16(dynamicJoin)
	if m.instance != nil {
		version = staticJoin
	}
	r := m.take(m.prepare(version, m.joinRequest()))
	if r.ErrorCode != 0 {
		m.s.fail("prepare: join: %s", codeName(r.ErrorCode))
	}
	return m
}

func (m *member) syncRequest(assignments ...string) *kmsg.SyncGroupRequest {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.InstanceID, req.Generation = m.group, m.id, m.instance, m.generation
	req.ProtocolType, req.Protocol = ptr("consumer"), ptr("range")
	for i := 0; i < len(assignments); i += 2 {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = assignments[i], []byte(assignments[i+1])
		req.GroupAssignment = append(req.GroupAssignment, a)
	}
	return req
}

// sync makes the group stable; the member is its leader.
func (m *member) sync() *member {
	r := m.prepare(plainSync, m.syncRequest(m.id, "work of "+m.label())).(*kmsg.SyncGroupResponse)
	if r.ErrorCode != 0 {
		m.s.fail("prepare: sync: %s", codeName(r.ErrorCode))
	}
	return m
}

func (m *member) label() string {
	if m.instance != nil {
		return *m.instance
	}
	return "m"
}

func (m *member) heartbeatRequest() *kmsg.HeartbeatRequest {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.InstanceID, req.Generation = m.group, m.id, m.instance, m.generation
	return req
}

func leaveRequest(group string, members ...kmsg.LeaveGroupRequestMember) *kmsg.LeaveGroupRequest {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.Members = group, members
	if len(members) > 0 {
		req.MemberID = members[0].MemberID
	}
	return req
}

func leaver(id string, instance *string) kmsg.LeaveGroupRequestMember {
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID, m.InstanceID = id, instance
	return m
}

func (m *member) leaveRequest() *kmsg.LeaveGroupRequest {
	return leaveRequest(m.group, leaver(m.id, m.instance))
}

// leave leaves.
func (m *member) leave() { m.prepare(plainLeave, m.leaveRequest()) }

func describeGroups(names ...string) *kmsg.DescribeGroupsRequest {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = names
	return req
}

// state records what there is of a group.
func (s *Script) state(label, group string) {
	s.At(plainDescribe, label, describeGroups(group))
}

// awaitState waits until a group is in a state.
func (s *Script) awaitState(group, state string) {
	s.eventually("the group is "+state, func() bool {
		return s.prepare(plainDescribe, describeGroups(group)).(*kmsg.DescribeGroupsResponse).Groups[0].State == state
	})
}

// stages are groups in every state, for questions whose answer depends on it. The member asks.
var stages = []struct {
	name  string
	enter func(s *Script) *member
}{
	{"no-group", func(s *Script) *member {
		m := s.member(s.Group())
		m.id, m.generation = "diff-nobody", 1
		return m
	}},
	{"pending", func(s *Script) *member {
		m := s.member(s.Group())
		m.take(m.prepare(4, m.joinRequest()))
		return m
	}},
	{"completing", func(s *Script) *member { return s.member(s.Group()).join() }},
	{"stable", func(s *Script) *member { return s.member(s.Group()).join().sync() }},
	{"preparing", func(s *Script) *member {
		m := s.member(s.Group()).join().sync()
		other := s.member(m.group)
		other.begin(dynamicJoin, other.joinRequest())
		s.awaitState(m.group, "PreparingRebalance")
		return m
	}},
	{"empty", func(s *Script) *member {
		m := s.member(s.Group()).join().sync()
		m.leave()
		return m
	}},
	{"static", func(s *Script) *member {
		m := s.member(s.Group())
		m.instance = ptr("i")
		return m.join().sync()
	}},
	{"simple", func(s *Script) *member {
		m := s.member(s.Group())
		s.commit(m.group, s.Topic(1), 5)
		m.id, m.generation = "diff-nobody", 1
		return m
	}},
}

// inEveryStage returns a case for each state that a group can be in.
func inEveryStage(api string, k kmsg.Key, play func(s *Script, m *member)) []Case {
	var out []Case
	for _, stage := range stages {
		lo := int16(0)
		if stage.name == "static" {
			lo = staticVersion[k]
		}
		out = append(out, Case{Name: api + "/" + stage.name, Key: k, Min: lo, All: true, Play: func(s *Script) { play(s, stage.enter(s)) }})
	}
	return out
}

// staticVersion is the first version of an API that knows instance ids.
var staticVersion = map[kmsg.Key]int16{kmsg.JoinGroup: 5, kmsg.SyncGroup: 3, kmsg.Heartbeat: 3, kmsg.LeaveGroup: 3, kmsg.OffsetCommit: 7}

var randomPart = regexp.MustCompile(`^(.*-)?[0-9A-Za-z_-]{22,36}$`)

// nameOfMember names a member id by what goes before its random part, and a number.
func (s *Script) nameOfMember(id string) string {
	if name, ok := s.members[id]; ok {
		return name
	}
	const uuid = 36
	if len(id) < uuid || !randomPart.MatchString(id[len(id)-uuid:]) {
		return s.rename(id)
	}
	name := fmt.Sprintf("%s*%s", s.rename(id[:len(id)-uuid]), strconv.Itoa(len(s.members)))
	s.members[id] = name
	return name
}
