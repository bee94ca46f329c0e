package group

import (
	"slices"
	"strings"

	"github.com/sluicemq/sluice/group/classic"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// Listed is one group of a list.
type Listed struct {
	Name         string
	Kind         Kind
	ProtocolType string
	State        Life
}

// Life is where a group is in its life, as clients see it: a state of the machine
// of its kind.
type Life string

// String returns the name that clients see.
func (l Life) String() string { return string(l) }

// Lives returns all states in which a group can be that exists.
func Lives() []Life {
	return []Life{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Assigning", "Reconciling"}
}

// List returns the groups whose state and kind are among the names given, in
// whatever case; no names let all pass. They are sorted by name.
func (c *Coordinator) List(states, kinds []string) []Listed {
	var all []Listed
	for _, name := range c.state.names() {
		r := c.state.lookup(name)
		one := Listed{Name: name, Kind: Classic, State: "Empty"}
		switch {
		case r.modern() != nil:
			one = listedModern(name, r.consumer)
		case r != nil:
			one.ProtocolType = r.classic.ProtocolType
		}
		all = append(all, one)
	}
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for _, l := range s.groups {
			if l.consumer != nil {
				continue // as the state has it
			}
			one := Listed{Name: l.name, Kind: Classic, ProtocolType: l.classic.ProtocolType(), State: Life(l.classic.State().String())}
			if at, ok := slices.BinarySearchFunc(all, l.name, func(a Listed, name string) int { return strings.Compare(a.Name, name) }); ok {
				all[at] = one
			} else {
				all = slices.Insert(all, at, one)
			}
		}
		s.mu.Unlock()
	}
	return slices.DeleteFunc(all, func(one Listed) bool {
		return !among(states, one.State.String()) || !among(kinds, one.Kind.String())
	})
}

func among(names []string, name string) bool {
	return len(names) == 0 || slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

// Describe returns a classic group; ok is false if there is none.
func (c *Coordinator) Describe(name string) (d classic.Description, ok bool) {
	s := c.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.groups[name]; l != nil {
		if l.consumer != nil {
			return d, false
		}
		return l.classic.Describe(), true
	}
	if r := c.state.lookup(name); r != nil {
		if r.consumer != nil {
			return d, false
		}
		return classic.Description{State: classic.Empty, ProtocolType: r.classic.ProtocolType}, true
	}
	return classic.Description{State: classic.Empty}, c.state.offsets.Has(name)
}

// known reports whether there is a group, or will be by what is on its way. The
// lock is held.
func (s *shard) known(name string) bool {
	return s.groups[name] != nil || s.flights[name].count > 0 || s.coordinator.state.exist(name)
}

// Delete deletes a group without members, with its offsets, and forgets the member
// ids that were handed out in it. done is called once.
func (c *Coordinator) Delete(name string, done func(error)) {
	s := c.shard(name)
	var t step
	s.mu.Lock()
	l := s.groups[name]
	stored := s.flights[name].count > 0 || c.state.exist(name) || l != nil && l.saved()
	switch {
	case l != nil && !l.empty():
		err := kerr.New(kerr.NonEmptyGroup, "the group has %d members", l.members)
		t.call(func() { done(err) })
		s.end(&t)
		return
	case l == nil && !stored:
		t.call(func() { done(kerr.New(kerr.GroupIDNotFound, "")) })
	case !stored:
		t.call(func() { done(nil) })
	default:
		s.outbox = append(s.outbox, proposal{
			kind: entry.TypeDeleteGroup, payload: encodeDeleteGroup(name),
			done: func(r entry.Result) { done(Refusal(r.Err)) },
		})
	}
	if l != nil && l.classic != nil {
		l.classic.Forget()
		s.settle(l, &t, nil)
	}
	s.end(&t)
}

// NamedPartitions are partitions of a topic with its name.
type NamedPartitions struct {
	Name string
	TopicPartitions
}

// DeleteOffsets deletes offsets of a group. done is called once: with a code for
// each topic, or with an error for all.
func (c *Coordinator) DeleteOffsets(name string, topics []NamedPartitions, done func([]kerr.Code, error)) {
	s := c.shard(name)
	s.mu.Lock()
	codes := make([]kerr.Code, len(topics))
	d := deleteOffsets{group: name}
	var places []int // of d.topics in topics
	l := s.groups[name]
	for i := range topics {
		if l != nil && l.classic != nil && l.classic.Subscribes(topics[i].Name) {
			codes[i] = kerr.GroupSubscribedToTopic
			continue
		}
		d.topics = append(d.topics, topics[i].TopicPartitions)
		places = append(places, i)
	}
	var err error
	if !s.known(name) {
		err = kerr.New(kerr.GroupIDNotFound, "")
	} else if l != nil && l.classic != nil {
		err = l.classic.CheckDeleteOffsets()
	}
	if err != nil || len(d.topics) == 0 {
		s.mu.Unlock()
		done(codes, err)
		return
	}
	s.outbox = append(s.outbox, proposal{
		kind: entry.TypeDeleteOffsets, payload: d.encode(),
		done: func(r entry.Result) {
			applied, _ := r.Value.([]kerr.Code)
			for i, code := range applied {
				codes[places[i]] = code
			}
			done(codes, Refusal(r.Err))
		},
	})
	s.mu.Unlock()
	s.flush()
}
