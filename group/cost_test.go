package group

import (
	"fmt"
	"testing"

	"github.com/sluicemq/sluice/group/classic"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// full is a state with a classic group of n members in generation 1.
func full(t testing.TB, n int) *State {
	t.Helper()
	ids := make([]string, n)
	m := &classic.Metadata{Generation: 1, ProtocolType: "consumer", Protocol: "range"}
	for i := range ids {
		m.Members = append(m.Members, classic.Member{
			ID:        fmt.Sprintf("consumer-%d-b2a7c1de-0c3f-4a6b-9d3e-5f1a2b3c4d5e", i),
			Protocols: []classic.Protocol{{Name: "range"}},
		})
	}
	m.Leader = m.Members[0].ID
	s := NewState(&topics{})
	if r := s.Apply(&entry.Entry{Type: entry.TypeClassicGroup, Payload: classic.AppendGroup(nil, "g", m)}, store{}); r.Err != nil {
		t.Fatal(r.Err)
	}
	return s
}

func TestApplyingAMembersCommitAllocatesNothing(t *testing.T) {
	s := full(t, 100)
	member := s.lookup("g").classic.Members[50].ID
	q := commitOf("g", member, 1, 1, 0, 1)
	for p := range int32(20) {
		q.Topics[0].Offsets = append(q.Topics[0].Offsets, q.Topics[0].Offsets[0])
		q.Topics[0].Offsets[p].Partition = p
	}
	e := entry.Entry{Type: entry.TypeCommitOffsets, Payload: q.Append(nil)}
	apply := func() {
		if r := s.Apply(&e, nil); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	apply()
	// The name of the stub's topic is one.
	if n := testing.AllocsPerRun(100, apply); n > 2 {
		t.Errorf("%v allocations", n)
	}
}

func TestHeartbeatAllocatesNothing(t *testing.T) {
	s := full(t, 100)
	c := New(options(func(o *Options) { o.State = s }))
	sh := c.shard("g")
	sh.mu.Lock()
	l, err := sh.open("g", false)
	sh.mu.Unlock()
	if err != nil || l == nil {
		t.Fatal(l, err)
	}
	member := s.lookup("g").classic.Members[50].ID
	if n := testing.AllocsPerRun(100, func() {
		if err := c.Heartbeat("g", member, "", 1); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
	want(t, c.Heartbeat("g", "x", "", 1), kerr.UnknownMemberID)
}

func BenchmarkApplyCommit(b *testing.B) {
	for _, members := range []int{1, 1000} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			s := full(b, members)
			q := commitOf("g", s.lookup("g").classic.Members[members/2].ID, 1, 1, 0, 1)
			e := entry.Entry{Type: entry.TypeCommitOffsets, Payload: q.Append(nil)}
			b.ReportAllocs()
			for b.Loop() {
				if r := s.Apply(&e, nil); r.Err != nil {
					b.Fatal(r.Err)
				}
			}
		})
	}
}

// BenchmarkRebalance has all members of a group join and sync again.
func BenchmarkRebalance(b *testing.B) {
	for _, members := range []int{10, 1000} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			l := newLog(store{})
			l.state = full(b, members)
			o := options(nil)
			o.State, o.Proposer = l.state, l
			c := New(o)
			go l.run()
			defer l.set(func() { l.ended = true })
			sh := c.shard("g")
			sh.mu.Lock()
			_, err := sh.open("g", false)
			sh.mu.Unlock()
			if err != nil {
				b.Fatal(err)
			}
			all := l.state.lookup("g").classic.Members
			b.ReportAllocs()
			for b.Loop() {
				joined, synced := make(chan classic.Joined, members), make(chan classic.Synced, members)
				for i := range all {
					c.Join("g", &classic.Join{
						MemberID: all[i].ID, SessionTimeout: 1 << 34, RebalanceTimeout: 1 << 34, ProtocolType: "consumer",
						Protocols: []classic.Protocol{{Name: "range", Metadata: []byte{byte(i)}}},
					}, func(a classic.Joined) { joined <- a })
				}
				for range all {
					a := <-joined
					if a.Err != nil {
						b.Fatal(a.Err)
					}
					c.Sync("g", &classic.Sync{MemberID: a.MemberID, Generation: a.Generation}, func(s classic.Synced) { synced <- s })
				}
				for range all {
					if s := <-synced; s.Err != nil {
						b.Fatal(s.Err)
					}
				}
			}
		})
	}
}
