package diff

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func describeGroupsCases() []Case {
	const k = kmsg.DescribeGroups
	c := func(name string, play func(s *Script, group string)) Case {
		return Case{Name: "DescribeGroups/" + name, Key: k, All: true, Play: func(s *Script) { play(s, s.Group()) }}
	}
	cases := []Case{
		c("empty-group-id", func(s *Script, _ string) { s.Do("answer", describeGroups("")) }),
		c("none", func(s *Script, _ string) { s.Do("answer", describeGroups()) }),
		c("several", func(s *Script, group string) {
			s.member(group).join().sync()
			s.Do("answer", describeGroups(group, s.Name("-g"), group))
		}),
		c("two-members", func(s *Script, group string) {
			twoMembers(s, group)
			s.Do("answer", describeGroups(group))
		}),
	}
	operations := func(s *Script, m *member, label string) {
		req := describeGroups(m.group)
		req.IncludeAuthorizedOperations = true
		s.Do(label, req)
	}
	return append(cases, inEveryStage("DescribeGroups", k, func(s *Script, m *member) {
		s.Do("answer", describeGroups(m.group))
		operations(s, m, "operations")
	})...)
}

func listGroupsCases() []Case {
	const k = kmsg.ListGroups
	// list records those groups that are the script's.
	list := func(s *Script, label string, states, types []string) {
		req := kmsg.NewPtrListGroupsRequest()
		req.StatesFilter, req.TypesFilter = states, types
		resp, ok := s.Hidden(label, req).(*kmsg.ListGroupsResponse)
		if !ok {
			return
		}
		resp.Groups = slices.DeleteFunc(resp.Groups, func(g kmsg.ListGroupsResponseGroup) bool { return !slices.Contains(s.topics, g.Group) })
		s.Record(label, resp)
	}
	filter := func(name string, lo int16, states, types []string) Case {
		return Case{Name: "ListGroups/" + name, Key: k, Min: lo, All: true, Play: func(s *Script) {
			s.member(s.Group()).join().sync()
			s.member(s.Group()).join()
			s.commit(s.Group(), s.Topic(1), 5)
			list(s, "answer", states, types)
		}}
	}
	cases := []Case{
		filter("state-stable", 4, []string{"Stable"}, nil),
		filter("state-in-small-letters", 4, []string{"stable"}, nil),
		filter("states", 4, []string{"Empty", "CompletingRebalance"}, nil),
		filter("state-unknown", 4, []string{"Happy"}, nil),
		filter("state-empty-text", 4, []string{""}, nil),
		filter("type-classic", 5, nil, []string{"classic"}),
		filter("type-in-capitals", 5, nil, []string{"CLASSIC"}),
		filter("type-consumer", 5, nil, []string{"consumer"}),
		filter("type-unknown", 5, nil, []string{"happy"}),
		filter("type-empty-text", 5, nil, []string{""}),
		filter("state-and-type", 5, []string{"Empty"}, []string{"classic"}),
	}
	stages := inEveryStage("ListGroups", k, func(s *Script, _ *member) { list(s, "answer", nil, nil) })
	// Kafka lists what it has written: a group that is only pending may be missing, or not.
	stages = slices.DeleteFunc(stages, func(c Case) bool { return c.Name == "ListGroups/pending" })
	return append(cases, stages...)
}

func deleteGroupsCases() []Case {
	const k = kmsg.DeleteGroups
	request := func(names ...string) *kmsg.DeleteGroupsRequest {
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = names
		return req
	}
	c := func(name string, play func(s *Script, group string)) Case {
		return Case{Name: "DeleteGroups/" + name, Key: k, All: true, Play: func(s *Script) { play(s, s.Group()) }}
	}
	cases := []Case{
		c("empty-group-id", func(s *Script, _ string) { s.Do("answer", request("")) }),
		c("none", func(s *Script, _ string) { s.Do("answer", request()) }),
		c("same-twice", func(s *Script, group string) {
			s.commit(group, s.Topic(1), 5)
			s.Do("answer", request(group, group))
		}),
		c("several", func(s *Script, group string) {
			s.commit(group, s.Topic(1), 5)
			live := s.Name("-g")
			s.member(live).join().sync()
			s.Do("answer", request(group, live, s.Name("-g")))
			s.state("then", live)
		}),
		c("name-long", func(s *Script, _ string) { s.Do("answer", request(strings.Repeat("g", 300))) }),
	}
	return append(cases, inEveryStage("DeleteGroups", k, func(s *Script, m *member) {
		s.Do("answer", request(m.group))
		s.state("then", m.group)
		s.committed("then", m.group)
	})...)
}
