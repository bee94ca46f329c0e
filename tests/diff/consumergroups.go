package diff

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// consumerMember is a member of the newer consumer protocol, which sends what a case says.
type consumerMember struct {
	*member
	epoch int32
	owned []kmsg.ConsumerGroupHeartbeatRequestTopic
}

type beatChange = func(*kmsg.ConsumerGroupHeartbeatRequest)

// consumerGroup returns the name of a group whose targets are computed as often as they must be, and
// before the request that asks for it is answered.
func (s *Script) consumerGroup() string {
	group := s.Group()
	for name, value := range map[string]string{"consumer.assignment.interval.ms": "0", "consumer.assignor.offload.enable": "false"} {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		in := kmsg.NewIncrementalAlterConfigsRequestResource()
		in.ResourceType, in.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = name, &value
		in.Configs = append(in.Configs, c)
		req.Resources = append(req.Resources, in)
		s.prepare(1, req) // the second is one of Kafka's alone
	}
	return group
}

func (s *Script) consumerMember(group, id string) *consumerMember {
	m := &consumerMember{member: s.member(group)}
	m.id = id
	return m
}

// beat sends a heartbeat and records the answer, unless the label is empty.
func (m *consumerMember) beat(label string, changes ...beatChange) {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = m.group, m.id, m.epoch
	for _, change := range changes {
		change(req)
	}
	var resp kmsg.Response
	if label == "" {
		resp = m.prepare(m.s.V, req)
	} else {
		resp = m.ask(m.s.V, label, req)
	}
	a, ok := resp.(*kmsg.ConsumerGroupHeartbeatResponse)
	if !ok || a.ErrorCode != 0 {
		return
	}
	m.epoch = a.MemberEpoch
	if a.MemberID != nil {
		m.id = *a.MemberID
	}
	if a.Assignment == nil {
		return
	}
	m.owned = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	for _, t := range a.Assignment.Topics {
		topic := kmsg.NewConsumerGroupHeartbeatRequestTopic()
		topic.TopicID, topic.Partitions = t.TopicID, t.Partitions
		m.owned = append(m.owned, topic)
	}
}

func beatEpoch(epoch int32) beatChange {
	return func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = epoch }
}

// joins makes it a heartbeat that joins.
func joins(topics ...string) beatChange {
	return func(r *kmsg.ConsumerGroupHeartbeatRequest) {
		r.MemberEpoch, r.RebalanceTimeoutMillis, r.SubscribedTopicNames = 0, 60_000, topics
		r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
}

func beatInstance(id string) beatChange {
	return func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = &id }
}

func (m *consumerMember) owns() beatChange {
	return func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = m.owned }
}

// share lets two members move until both have what they are to get.
func share(a, b *consumerMember) {
	for range 4 {
		a.beat("", a.owns())
		b.beat("", b.owns())
	}
}

func consumerHeartbeatCases() []Case {
	const k = kmsg.ConsumerGroupHeartbeat
	c := func(name string, play func(s *Script, group string)) Case {
		return Case{Name: "ConsumerGroupHeartbeat/" + name, Key: k, All: true, Play: func(s *Script) { play(s, s.consumerGroup()) }}
	}
	cases := []Case{
		c("join-and-leave", func(s *Script, group string) {
			topic := s.Topic(2)
			m := s.consumerMember(group, "m")
			m.beat("join", joins(topic))
			m.beat("nothing-new")
			m.beat("owned", m.owns())
			m.beat("again", joins(topic))
			m.beat("all-fields", joins(topic), beatEpoch(m.epoch), m.owns())
			m.beat("all-but-owned", joins(topic), beatEpoch(m.epoch), func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = nil })
			m.beat("leave", beatEpoch(-1))
			m.beat("leave-again", beatEpoch(-1))
			m.beat("after-that")
		}),
		c("missing-group", func(s *Script, group string) {
			m := s.consumerMember(group, "m")
			m.beat("heartbeat", beatEpoch(1))
			m.beat("leave", beatEpoch(-1))
			m.beat("leave-for-now", beatEpoch(-2), beatInstance("i"))
			m.beat("all-fields", joins(s.Topic(1)), beatEpoch(1))
		}),
		c("unknown-member", func(s *Script, group string) {
			s.consumerMember(group, "m").beat("", joins(s.Topic(1)))
			m := s.consumerMember(group, "x")
			m.beat("heartbeat", beatEpoch(1))
			m.beat("leave", beatEpoch(-1))
			m.beat("instance", beatEpoch(1), beatInstance("i"))
			m.beat("leave-instance", beatEpoch(-1), beatInstance("i"))
			m.beat("leave-for-now", beatEpoch(-2), beatInstance("i"))
		}),
		c("epochs", func(s *Script, group string) {
			topic := s.Topic(2)
			m, other := s.consumerMember(group, "m"), s.consumerMember(group, "n")
			m.beat("", joins(topic))
			m.beat("ahead", beatEpoch(m.epoch+1))
			before := m.epoch
			other.beat("second", joins(topic))
			m.beat("give-up", m.owns())
			m.beat("given-up", m.owns())
			m.beat("before-without-owned", beatEpoch(before))
			m.beat("before-with-owned", beatEpoch(before), m.owns())
			m.beat("before-with-none", beatEpoch(before), func(r *kmsg.ConsumerGroupHeartbeatRequest) {
				r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
			})
			m.beat("before-with-others", beatEpoch(before), func(r *kmsg.ConsumerGroupHeartbeatRequest) {
				topic := kmsg.NewConsumerGroupHeartbeatRequestTopic()
				topic.TopicID, topic.Partitions = m.owned[0].TopicID, []int32{0, 1}
				r.Topics = append(r.Topics, topic)
			})
			other.beat("now-it-has", other.owns())
		}),
		c("revocation", func(s *Script, group string) {
			topic := s.Topic(4)
			m, other := s.consumerMember(group, "m"), s.consumerMember(group, "n")
			m.beat("first", joins(topic))
			other.beat("second", joins(topic))
			m.beat("is-asked-to-give-up")
			m.beat("says-nothing")
			m.beat("all-fields", joins(topic), beatEpoch(m.epoch), func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = nil })
			other.beat("waits", other.owns())
			m.beat("has-given-up", m.owns())
			other.beat("gets", other.owns())
			m.beat("nothing-new", m.owns())
			other.beat("leaves", beatEpoch(-1))
			m.beat("gets-all", m.owns())
		}),
		c("subscriptions", func(s *Script, group string) {
			one, two := s.Topic(1), s.Topic(1)
			m := s.consumerMember(group, "m")
			m.beat("none", joins())
			m.beat("one", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = []string{one} })
			m.beat("same", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = []string{one} })
			m.beat("more", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = []string{two, one} }, m.owns())
			m.beat("missing-topic", func(r *kmsg.ConsumerGroupHeartbeatRequest) {
				r.SubscribedTopicNames = []string{one, two, s.Name("-none")}
			}, m.owns())
			m.beat("nothing-new", m.owns())
			m.beat("less", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = []string{two} }, m.owns())
			m.beat("given-up", m.owns())
			m.beat("nothing", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = []string{} }, m.owns())
			m.beat("all-given-up", m.owns())
		}),
		c("new-partitions", func(s *Script, group string) {
			topic := s.Topic(1)
			m := s.consumerMember(group, "m")
			m.beat("", joins(topic))
			req := kmsg.NewPtrCreatePartitionsRequest()
			req.TimeoutMillis = 30000
			in := kmsg.NewCreatePartitionsRequestTopic()
			in.Topic, in.Count = topic, 3
			req.Topics = append(req.Topics, in)
			s.prepare(3, req)
			s.eventually("the new partitions are assigned", func() bool {
				m.beat("", m.owns())
				return len(m.owned) == 1 && len(m.owned[0].Partitions) == 3
			})
			m.beat("after-that", m.owns())
		}),
		c("static", func(s *Script, group string) {
			topic := s.Topic(2)
			i := beatInstance("i")
			m, next := s.consumerMember(group, "m"), s.consumerMember(group, "n")
			m.beat("join", joins(topic), i)
			next.beat("in-use", joins(topic), i)
			next.beat("fenced", beatEpoch(m.epoch), i)
			next.beat("leave-of-another", beatEpoch(-1), i)
			m.beat("without-instance")
			m.beat("for-now", beatEpoch(-2), i)
			m.beat("after-that", beatEpoch(1), i)
			next.beat("comes-back", joins(topic), i)
			m.beat("old-self", beatEpoch(1), i)
			next.beat("nothing-new", i)
			next.beat("leave", beatEpoch(-1), i)
		}),
		c("static-with-another-subscription", func(s *Script, group string) {
			one, two := s.Topic(1), s.Topic(1)
			i := beatInstance("i")
			m, next := s.consumerMember(group, "m"), s.consumerMember(group, "n")
			m.beat("", joins(one), i)
			m.beat("", beatEpoch(-2), i)
			next.beat("comes-back", joins(one, two), i)
			next.beat("nothing-new", i, next.owns())
		}),
		c("assignor", func(s *Script, group string) {
			topic := s.Topic(4)
			assignor := func(name string) beatChange {
				return func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = &name }
			}
			m, other := s.consumerMember(group, "m"), s.consumerMember(group, "n")
			m.beat("unknown", joins(topic), assignor("sticky"))
			m.beat("empty", joins(topic), assignor(""))
			m.beat("range", joins(topic), assignor("range"))
			other.beat("", joins(topic), assignor("range"))
			share(m, other)
			m.beat("half", joins(topic), beatEpoch(m.epoch), m.owns())
			other.beat("other-half", joins(topic), beatEpoch(other.epoch), other.owns())
		}),
		c("classic-group", func(s *Script, group string) {
			old := s.member(group).join()
			old.sync()
			m := s.consumerMember(group, "m")
			m.beat("heartbeat", beatEpoch(1))
			m.beat("leave", beatEpoch(-1))
		}),
	}
	for _, bad := range badHeartbeats() {
		cases = append(cases, c("bad-"+bad.name, func(s *Script, group string) {
			s.consumerMember(group, "m").beat("answer", joins(s.Topic(1)), bad.change)
		}))
	}
	pattern := func(name string, play func(s *Script, group string)) Case {
		one := c("pattern-"+name, play)
		one.Min = 1
		return one
	}
	regex := func(text string) beatChange {
		return func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = &text }
	}
	onlyRegex := func(text string) beatChange {
		return func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.SubscribedTopicNames, r.SubscribedTopicRegex = nil, &text
		}
	}
	return append(cases,
		pattern("bad", func(s *Script, group string) {
			m := s.consumerMember(group, "m")
			for i, text := range []string{"(", "[a", "a{2,1}", `\`, "(?=a)", "*"} {
				m.beat(fmt.Sprint(i), joins(), regex(text))
			}
		}),
		pattern("resolved", func(s *Script, group string) {
			topic := s.Topic(1)
			s.Topic(1)
			m := s.consumerMember(group, "m")
			m.beat("", joins(), onlyRegex(topic))
			s.eventually("the pattern is resolved", func() bool {
				m.beat("")
				return len(m.owned) == 1
			})
			m.beat("all-fields", joins(), onlyRegex(topic), beatEpoch(m.epoch), m.owns())
		}),
		pattern("part-of-a-name", func(s *Script, group string) {
			topic := s.Topic(1)
			m := s.consumerMember(group, "m")
			m.beat("", joins(), onlyRegex(topic[1:]))
			for range 3 {
				m.beat("")
			}
			m.beat("all-fields", joins(), onlyRegex(topic[1:]), beatEpoch(m.epoch), m.owns())
		}),
		pattern("and-names", func(s *Script, group string) {
			one, two := s.Topic(1), s.Topic(1)
			m := s.consumerMember(group, "m")
			m.beat("", joins(one), regex(two+"|nothing"))
			s.eventually("the pattern is resolved", func() bool {
				m.beat("", m.owns())
				return len(m.owned) == 2
			})
			m.beat("no-pattern-any-more", regex(""), m.owns())
			m.beat("given-up", m.owns())
		}),
	)
}

type badHeartbeat struct {
	name   string
	change beatChange
}

// badHeartbeats are ways to make a good first heartbeat a bad one.
func badHeartbeats() []badHeartbeat {
	empty := ""
	return []badHeartbeat{
		{"group", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = "" }},
		{"member", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID, r.MemberEpoch = "", 1 }},
		{"member-that-leaves", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID, r.MemberEpoch = "", -1 }},
		{"epoch", beatEpoch(-3)},
		{"epoch-for-now", beatEpoch(-2)},
		{"instance", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = &empty }},
		{"rack", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RackID = &empty }},
		{"no-timeout", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = -1 }},
		{"no-subscription", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = nil }},
		{"no-owned", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = nil }},
		{"owned", func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			topic := kmsg.NewConsumerGroupHeartbeatRequestTopic()
			topic.TopicID[0], topic.Partitions = 1, []int32{0}
			r.Topics = append(r.Topics, topic)
		}},
		{"epoch-without-fields", func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			*r = kmsg.ConsumerGroupHeartbeatRequest{Version: r.Version, Group: r.Group, MemberID: "m", RebalanceTimeoutMillis: -1}
		}},
	}
}

func consumerDescribeCases() []Case {
	const k = kmsg.ConsumerGroupDescribe
	const beats = 1
	c := func(name string, play func(s *Script, group string)) Case {
		return Case{Name: "ConsumerGroupDescribe/" + name, Key: k, All: true, Play: func(s *Script) { play(s, s.consumerGroup()) }}
	}
	describe := func(names ...string) *kmsg.ConsumerGroupDescribeRequest {
		req := kmsg.NewPtrConsumerGroupDescribeRequest()
		req.Groups = names
		return req
	}
	// beat is a heartbeat at a version that does not depend on that under test.
	beat := func(m *consumerMember, changes ...beatChange) {
		v := m.s.V
		m.s.V = beats
		m.beat("", changes...)
		m.s.V = v
	}
	return []Case{
		c("missing", func(s *Script, group string) { s.Do("answer", describe(group)) }),
		c("none", func(s *Script, _ string) { s.Do("answer", describe()) }),
		c("empty-group-id", func(s *Script, _ string) { s.Do("answer", describe("")) }),
		c("classic", func(s *Script, group string) {
			s.member(group).join().sync()
			s.Do("answer", describe(group))
		}),
		c("stable", func(s *Script, group string) {
			m := s.consumerMember(group, "m")
			beat(m, joins(s.Topic(2)))
			s.Do("answer", describe(group))
			req := describe(group)
			req.IncludeAuthorizedOperations = true
			s.Do("operations", req)
		}),
		c("reconciling", func(s *Script, group string) {
			topic := s.Topic(2)
			m, other := s.consumerMember(group, "m"), s.consumerMember(group, "n")
			beat(m, joins(topic), beatInstance("i"))
			beat(other, joins(topic))
			s.Do("target", describe(group))
			beat(m)
			s.Do("revoking", describe(group))
			beat(m, m.owns())
			s.Do("revoked", describe(group))
			beat(other)
			s.Do("stable", describe(group))
		}),
		c("away", func(s *Script, group string) {
			m := s.consumerMember(group, "m")
			beat(m, joins(s.Topic(1)), beatInstance("i"))
			beat(m, beatEpoch(-2), beatInstance("i"))
			s.Do("answer", describe(group))
		}),
		c("empty", func(s *Script, group string) {
			m := s.consumerMember(group, "m")
			beat(m, joins(s.Topic(1)))
			beat(m, beatEpoch(-1))
			s.Do("answer", describe(group))
		}),
		c("several", func(s *Script, group string) {
			beat(s.consumerMember(group, "m"), joins(s.Topic(1)))
			s.Do("answer", describe(group, s.Name("-none"), group))
		}),
		c("as-others-see-it", func(s *Script, group string) {
			beat(s.consumerMember(group, "m"), joins(s.Topic(1)))
			s.Record("DescribeGroups v5", s.prepare(5, describeGroups(group)))
			s.Record("DescribeGroups v6", s.prepare(6, describeGroups(group)))
			del := kmsg.NewPtrDeleteGroupsRequest()
			del.Groups = []string{group}
			s.Record("DeleteGroups", s.prepare(2, del))
		}),
	}
}

// consumerOffsetsCases are the commits and fetches of members of the consumer protocol.
func consumerOffsetsCases() []Case {
	commit := Case{Name: "ConsumerGroupOffsets/commit", Key: kmsg.OffsetCommit, All: true, Play: func(s *Script) {
		group, topic := s.consumerGroup(), s.Topic(2)
		m, other := s.consumerMember(group, "m"), s.consumerMember(group, "n")
		beat := func(m *consumerMember, changes ...beatChange) {
			v := s.V
			s.V = 1
			m.beat("", changes...)
			s.V = v
		}
		do := func(label, member string, epoch int32, partitions ...int32) {
			req := kmsg.NewPtrOffsetCommitRequest()
			req.Group, req.MemberID, req.Generation = group, member, epoch
			in := kmsg.NewOffsetCommitRequestTopic()
			in.Topic = topic
			for id, name := range s.ids {
				if name == "id of "+s.rename(topic) {
					in.TopicID = id
				}
			}
			for _, n := range partitions {
				p := kmsg.NewOffsetCommitRequestTopicPartition()
				p.Partition, p.Offset = n, 5
				in.Partitions = append(in.Partitions, p)
			}
			req.Topics = append(req.Topics, in)
			s.Do(label, req)
		}
		do("before-there-is-a-group", "m", 1, 0)
		beat(m, joins(topic))
		do("right", "m", m.epoch, 0, 1)
		do("ahead", "m", m.epoch+1, 0)
		do("behind", "m", m.epoch-1, 0)
		do("unknown-member", "x", m.epoch, 0)
		do("nobody", "", -1, 0)
		before := m.epoch
		beat(other, joins(topic))
		beat(m, m.owns())
		do("while-it-revokes", "m", m.epoch, 0, 1)
		beat(m, m.owns())
		do("an-epoch-behind", "m", before, 0, 1)
		beat(other)
		do("both", "n", other.epoch, 0, 1)
		beat(m, beatEpoch(-1))
		beat(other, beatEpoch(-1))
		do("nobody-in-an-empty-group", "", -1, 0)
		do("member-that-has-left", "m", before, 0)
	}}
	fetch := Case{Name: "ConsumerGroupOffsets/fetch", Key: kmsg.OffsetFetch, Min: 9, All: true, Play: func(s *Script) {
		group, topic := s.consumerGroup(), s.Topic(1)
		m := s.consumerMember(group, "m")
		v := s.V
		s.V = 1
		m.beat("", joins(topic))
		s.V = v
		do := func(label string, member *string, epoch int32) {
			req := kmsg.NewPtrOffsetFetchRequest()
			g := kmsg.NewOffsetFetchRequestGroup()
			g.Group, g.MemberID, g.MemberEpoch = group, member, epoch
			in := kmsg.NewOffsetFetchRequestGroupTopic()
			in.Topic, in.Partitions = topic, []int32{0}
			for id, name := range s.ids {
				if name == "id of "+s.rename(topic) {
					in.TopicID = id
				}
			}
			g.Topics = append(g.Topics, in)
			req.Groups = append(req.Groups, g)
			s.Do(label, req)
		}
		id, unknown, empty := "m", "x", ""
		do("right", &id, m.epoch)
		do("ahead", &id, m.epoch+1)
		do("behind", &id, m.epoch-1)
		do("unknown", &unknown, m.epoch)
		do("nobody", nil, -1)
		do("nobody-with-epoch", nil, m.epoch)
		do("member-without-epoch", &id, -1)
		do("empty-member", &empty, -1)
	}}
	return []Case{commit, fetch}
}
