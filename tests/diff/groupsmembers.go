package diff

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// twoMembers makes a group of two, the first its leader, in CompletingRebalance.
func twoMembers(s *Script, group string) (a, b *member) {
	a, b = s.member(group).join().sync(), s.member(group)
	held := b.begin(dynamicJoin, b.joinRequest())
	s.awaitState(group, "PreparingRebalance")
	a.join()
	b.take(held())
	return a, b
}

func joinGroupCases() []Case {
	const k = kmsg.JoinGroup
	type request = kmsg.JoinGroupRequest
	c := func(name string, lo int16, play func(s *Script, group string)) Case {
		return Case{Name: "JoinGroup/" + name, Key: k, Min: lo, All: true, Play: func(s *Script) { play(s, s.Group()) }}
	}
	// first joins alone, and again with the id that it was given.
	first := func(name string, lo int16, change func(r *request)) Case {
		return c(name, lo, func(s *Script, group string) {
			m := s.member(group)
			m.c.limit = time.Second // for what Kafka leaves without an answer
			req := m.joinRequest()
			change(req)
			r := m.take(m.ask(s.V, "answer", req))
			if r != nil && codeName(r.ErrorCode) == "MEMBER_ID_REQUIRED" {
				req = m.joinRequest()
				change(req)
				req.MemberID = m.id
				m.take(m.ask(s.V, "again", req))
			}
			s.state("then", group)
		})
	}
	// second joins a stable group of one.
	second := func(name string, change func(r *request)) Case {
		return c(name, 0, func(s *Script, group string) {
			a := s.member(group).join().sync()
			m := s.member(group)
			req := m.joinRequest()
			change(req)
			m.take(m.ask(s.V, "answer", req))
			a.ask(3, "heartbeat", a.heartbeatRequest())
			s.state("then", group)
		})
	}
	again := func(name string, enter func(s *Script, group string) *member, change func(r *request)) Case {
		return c(name, 0, func(s *Script, group string) {
			m := enter(s, group)
			req := m.joinRequest()
			change(req)
			m.take(m.ask(s.V, "answer", req))
			s.state("then", group)
		})
	}
	completing := func(s *Script, group string) *member { return s.member(group).join() }
	stable := func(s *Script, group string) *member { return s.member(group).join().sync() }
	same := func(*request) {}
	changed := func(r *request) { r.Protocols[0].Metadata = []byte{1} }
	static := func(r *request) { r.InstanceID = ptr("i") }
	return []Case{
		first("first", 0, same),
		first("empty-group-id", 0, func(r *request) { r.Group = "" }),
		first("session-short", 0, func(r *request) { r.SessionTimeoutMillis = 5999 }),
		first("session-long", 0, func(r *request) { r.SessionTimeoutMillis = 1800001 }),
		first("session-shortest", 0, func(r *request) { r.SessionTimeoutMillis = 6000 }),
		first("session-negative", 0, func(r *request) { r.SessionTimeoutMillis = -1 }),
		first("no-protocol-type", 0, func(r *request) { r.ProtocolType = "" }),
		first("no-protocols", 0, func(r *request) { r.Protocols = nil }),
		first("protocol-without-name", 0, func(r *request) { r.Protocols[0].Name = "" }),
		first("protocol-without-metadata", 0, func(r *request) { r.Protocols[0].Metadata = []byte{} }),
		first("protocol-twice", 0, func(r *request) { r.Protocols = append(r.Protocols, protocol("range", []byte{2})) }),
		first("another-type", 0, func(r *request) { r.ProtocolType, r.Protocols[0].Name = "connect", "eager" }),
		first("unknown-member", 0, func(r *request) { r.MemberID = "diff-nobody" }),
		first("unknown-member-and-short-session", 0, func(r *request) { r.MemberID, r.SessionTimeoutMillis = "diff-nobody", 1 }),
		first("static", 5, static),
		first("static-empty-instance", 5, func(r *request) { r.InstanceID = ptr("") }),
		first("static-odd-instance", 5, func(r *request) { r.InstanceID = ptr("a/b") }),
		first("static-unknown-member", 5, func(r *request) { static(r); r.MemberID = "diff-nobody" }),
		first("reason", 8, func(r *request) { r.Reason = ptr("because") }),
		second("other-protocol-type", func(r *request) { r.ProtocolType = "connect" }),
		second("no-common-protocol", func(r *request) { r.Protocols[0].Name = "cooperative-sticky" }),
		second("wrong-member", func(r *request) { r.MemberID = "diff-nobody" }),
		again("completing-same", completing, same),
		again("completing-changed", completing, changed),
		again("stable-leader-same", stable, same),
		again("stable-leader-changed", stable, changed),
		again("member-with-other-protocol", stable, func(r *request) { r.Protocols[0].Name = "cooperative-sticky" }),
		again("member-with-other-type", stable, func(r *request) { r.ProtocolType = "connect" }),
		again("member-with-other-timeouts", stable, func(r *request) { r.SessionTimeoutMillis = 7000 }),
		again("after-leaving", func(s *Script, group string) *member {
			m := s.member(group).join().sync()
			m.leave()
			return m
		}, same),
		c("two", 0, func(s *Script, group string) {
			a, b := s.member(group).join().sync(), s.member(group)
			id := b.joinRequest()
			if s.V >= 4 {
				b.take(b.ask(s.V, "id", id))
			}
			held := b.begin(s.V, b.joinRequest())
			s.awaitState(group, "PreparingRebalance")
			a.ask(3, "heartbeat", a.heartbeatRequest())
			a.take(a.ask(s.V, "leader", a.joinRequest()))
			answer := held()
			b.take(answer)
			s.Record("follower", answer)
			s.state("then", group)
			b.take(b.ask(s.V, "follower again", b.joinRequest()))
		}),
		c("follower-again-when-stable", 0, func(s *Script, group string) {
			a, b := twoMembers(s, group)
			held := b.begin(plainSync, b.syncRequest())
			a.sync()
			held()
			b.take(b.ask(s.V, "answer", b.joinRequest()))
			s.state("then", group)
		}),
		c("votes", 0, votes([]string{"one", "sticky", "range"}, []string{"other", "sticky", "range"})),
		c("votes-tie", 0, votes([]string{"range", "sticky"}, []string{"sticky", "range"})),
		c("static-comes-back", 5, func(s *Script, group string) {
			old := s.member(group)
			old.instance = ptr("i")
			old.join().sync()
			fresh := s.member(group)
			fresh.instance = ptr("i")
			fresh.take(fresh.ask(s.V, "answer", fresh.joinRequest()))
			s.state("then", group)
			old.ask(3, "old heartbeat", old.heartbeatRequest())
			old.ask(s.V, "old join", old.joinRequest())
			fresh.ask(plainSync, "sync", fresh.syncRequest())
			s.state("at last", group)
		}),
		c("static-comes-back-changed", 5, func(s *Script, group string) {
			old := s.member(group)
			old.instance = ptr("i")
			old.join().sync()
			fresh := s.member(group)
			fresh.instance = ptr("i")
			req := fresh.joinRequest()
			changed(req)
			fresh.take(fresh.ask(s.V, "answer", req))
			s.state("then", group)
		}),
		c("static-with-wrong-id", 5, func(s *Script, group string) {
			m := s.member(group)
			m.instance = ptr("i")
			m.join().sync()
			m.id = "diff-nobody"
			m.ask(s.V, "answer", m.joinRequest())
			s.state("then", group)
		}),
		c("pending-id-with-instance", 5, func(s *Script, group string) {
			m := s.member(group)
			m.take(m.prepare(4, m.joinRequest()))
			m.instance = ptr("i")
			m.ask(s.V, "answer", m.joinRequest())
			s.state("then", group)
		}),
	}
}

// votes has two members join that know the protocols given.
func votes(first, second []string) func(s *Script, group string) {
	know := func(m *member, names []string) *kmsg.JoinGroupRequest {
		req := m.joinRequest()
		req.Protocols = nil
		for _, name := range names {
			req.Protocols = append(req.Protocols, protocol(name, subscription))
		}
		return req
	}
	return func(s *Script, group string) {
		a, b := s.member(group), s.member(group)
		a.take(a.prepare(dynamicJoin, know(a, first)))
		a.sync()
		held := b.begin(dynamicJoin, know(b, second))
		s.awaitState(group, "PreparingRebalance")
		a.take(a.ask(s.V, "answer", know(a, first)))
		held()
	}
}

func syncGroupCases() []Case {
	const k = kmsg.SyncGroup
	type request = kmsg.SyncGroupRequest
	c := func(name string, lo int16, play func(s *Script, m *member)) Case {
		return Case{Name: "SyncGroup/" + name, Key: k, Min: lo, All: true, Play: func(s *Script) {
			m := s.member(s.Group()).join()
			play(s, m)
			s.state("then", m.group)
		}}
	}
	one := func(name string, lo int16, change func(r *request)) Case {
		return c(name, lo, func(s *Script, m *member) {
			req := m.syncRequest(m.id, "work")
			change(req)
			m.ask(s.V, "answer", req)
		})
	}
	cases := []Case{
		one("empty-group-id", 0, func(r *request) { r.Group = "" }),
		one("wrong-member", 0, func(r *request) { r.MemberID = "diff-nobody" }),
		one("empty-member", 0, func(r *request) { r.MemberID = "" }),
		one("wrong-generation", 0, func(r *request) { r.Generation++ }),
		one("unknown-instance", 3, func(r *request) { r.InstanceID = ptr("other") }),
		one("no-assignments", 0, func(r *request) { r.GroupAssignment = nil }),
		one("assignment-empty", 0, func(r *request) { r.GroupAssignment[0].MemberAssignment = []byte{} }),
		one("assignment-for-a-stranger", 0, func(r *request) { r.GroupAssignment[0].MemberID = "diff-nobody" }),
		one("assignment-twice", 0, func(r *request) {
			r.GroupAssignment = append(r.GroupAssignment, r.GroupAssignment[0])
			r.GroupAssignment[1].MemberAssignment = []byte("second")
		}),
		one("wrong-protocol-type", 5, func(r *request) { r.ProtocolType = ptr("connect") }),
		one("wrong-protocol", 5, func(r *request) { r.Protocol = ptr("sticky") }),
		one("no-protocol-type", 5, func(r *request) { r.ProtocolType = nil }),
		one("no-protocol", 5, func(r *request) { r.Protocol = nil }),
		c("again", 0, func(s *Script, m *member) {
			m.sync()
			m.ask(s.V, "answer", m.syncRequest(m.id, "other"))
		}),
		{Name: "SyncGroup/follower-first", Key: k, All: true, Play: func(s *Script) {
			a, b := twoMembers(s, s.Group())
			held := b.begin(s.V, b.syncRequest(b.id, "not its own to say"))
			a.ask(3, "heartbeat", a.heartbeatRequest())
			a.ask(s.V, "leader", a.syncRequest(a.id, "work of a", b.id, "work of b"))
			s.Record("follower", held())
			s.state("then", a.group)
		}},
		{Name: "SyncGroup/follower-without-work", Key: k, All: true, Play: func(s *Script) {
			a, b := twoMembers(s, s.Group())
			a.ask(s.V, "leader", a.syncRequest(a.id, "work of a"))
			b.ask(s.V, "follower", b.syncRequest())
			s.state("then", a.group)
		}},
	}
	return append(cases, inEveryStage("SyncGroup", k, func(s *Script, m *member) {
		m.ask(s.V, "answer", m.syncRequest(m.id, "work"))
		s.state("then", m.group)
	})...)
}

func heartbeatCases() []Case {
	const k = kmsg.Heartbeat
	one := func(name string, lo int16, change func(r *kmsg.HeartbeatRequest)) Case {
		return Case{Name: "Heartbeat/" + name, Key: k, Min: lo, All: true, Play: func(s *Script) {
			m := s.member(s.Group())
			if lo >= staticVersion[k] {
				m.instance = ptr("i")
			}
			req := m.join().sync().heartbeatRequest()
			change(req)
			m.ask(s.V, "answer", req)
		}}
	}
	cases := []Case{
		one("empty-group-id", 0, func(r *kmsg.HeartbeatRequest) { r.Group = "" }),
		one("wrong-member", 0, func(r *kmsg.HeartbeatRequest) { r.MemberID = "diff-nobody" }),
		one("empty-member", 0, func(r *kmsg.HeartbeatRequest) { r.MemberID = "" }),
		one("old-generation", 0, func(r *kmsg.HeartbeatRequest) { r.Generation-- }),
		one("new-generation", 0, func(r *kmsg.HeartbeatRequest) { r.Generation++ }),
		one("no-generation", 0, func(r *kmsg.HeartbeatRequest) { r.Generation = -1 }),
		one("unknown-instance", 3, func(r *kmsg.HeartbeatRequest) { r.InstanceID = ptr("other") }),
		one("instance-of-another", 3, func(r *kmsg.HeartbeatRequest) { r.MemberID = "diff-nobody" }),
		one("without-instance", 3, func(r *kmsg.HeartbeatRequest) { r.InstanceID = nil }),
	}
	return append(cases, inEveryStage("Heartbeat", k, func(s *Script, m *member) { m.ask(s.V, "answer", m.heartbeatRequest()) })...)
}

func leaveGroupCases() []Case {
	const k = kmsg.LeaveGroup
	c := func(name string, lo int16, play func(s *Script, m *member)) Case {
		return Case{Name: "LeaveGroup/" + name, Key: k, Min: lo, All: true, Play: func(s *Script) {
			m := s.member(s.Group())
			if lo >= staticVersion[k] {
				m.instance = ptr("i")
			}
			play(s, m.join().sync())
			s.state("then", m.group)
		}}
	}
	leaves := func(name string, lo int16, who func(m *member) []kmsg.LeaveGroupRequestMember) Case {
		return c(name, lo, func(s *Script, m *member) { m.ask(s.V, "answer", leaveRequest(m.group, who(m)...)) })
	}
	type leavers = []kmsg.LeaveGroupRequestMember
	cases := []Case{
		c("empty-group-id", 0, func(s *Script, m *member) { m.ask(s.V, "answer", leaveRequest("", leaver(m.id, nil))) }),
		leaves("wrong-member", 0, func(*member) leavers { return leavers{leaver("diff-nobody", nil)} }),
		leaves("empty-member", 0, func(*member) leavers { return leavers{leaver("", nil)} }),
		leaves("nobody", 3, func(*member) leavers { return nil }),
		leaves("by-instance", 3, func(*member) leavers { return leavers{leaver("", ptr("i"))} }),
		leaves("by-unknown-instance", 3, func(*member) leavers { return leavers{leaver("", ptr("other"))} }),
		leaves("instance-of-another", 3, func(*member) leavers { return leavers{leaver("diff-nobody", ptr("i"))} }),
		leaves("static-without-instance", 3, func(m *member) leavers { return leavers{leaver(m.id, nil)} }),
		leaves("several", 3, func(m *member) leavers {
			return leavers{leaver("diff-nobody", nil), leaver(m.id, ptr("i")), leaver("", ptr("other"))}
		}),
		leaves("twice", 3, func(m *member) leavers { return leavers{leaver(m.id, ptr("i")), leaver(m.id, ptr("i"))} }),
		{Name: "LeaveGroup/follower", Key: k, All: true, Play: func(s *Script) {
			a, b := twoMembers(s, s.Group())
			b.ask(s.V, "answer", b.leaveRequest())
			s.state("then", a.group)
			a.ask(3, "heartbeat", a.heartbeatRequest())
		}},
		{Name: "LeaveGroup/leader", Key: k, All: true, Play: func(s *Script) {
			a, b := twoMembers(s, s.Group())
			held := b.begin(plainSync, b.syncRequest())
			a.ask(s.V, "answer", a.leaveRequest())
			s.Record("follower", held())
			s.state("then", a.group)
		}},
		{Name: "LeaveGroup/completes-the-join", Key: k, All: true, Play: func(s *Script) {
			a := s.member(s.Group()).join().sync()
			b := s.member(a.group)
			held := b.begin(dynamicJoin, b.joinRequest())
			s.awaitState(a.group, "PreparingRebalance")
			a.ask(s.V, "answer", a.leaveRequest())
			s.Record("other", held())
		}},
	}
	return append(cases, inEveryStage("LeaveGroup", k, func(s *Script, m *member) {
		m.ask(s.V, "answer", m.leaveRequest())
		s.state("then", m.group)
	})...)
}
