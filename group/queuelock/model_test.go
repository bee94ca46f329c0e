package queuelock

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicemq/sluice/log/entry"
)

const lease = 60

// TestNeverTwoHolders is the model: members are assigned partitions, give them up,
// leave, are thrown out when they fall silent, and come back; the broker restarts
// before or after it has written down what happened. What it checks needs no
// knowledge of how locks are kept: who may commit, and when that may change.
func TestNeverTwoHolders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{world: newWorld(), t: t, heard: map[string]entry.Time{}, left: map[string]bool{},
			assigned: map[entry.Partition]string{}, holder: map[entry.Partition]Lock{}, lost: map[string]entry.Time{}}
		m.now = 1000
		made := 0
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) { m.check() },
			"join": func(*rapid.T) {
				made++
				m.heard[fmt.Sprintf("m%02d", made)] = m.now
			},
			"assign": func(*rapid.T) {
				p := entry.Partition(rapid.IntRange(1, 4).Draw(t, "partition"))
				if m.member("member") != "" {
					// Whoever had it has given it up, or has gone.
					m.assigned[p] = m.picked
				}
				m.plan()
			},
			"take away": func(*rapid.T) {
				delete(m.assigned, entry.Partition(rapid.IntRange(1, 4).Draw(t, "partition")))
				m.plan()
			},
			"leave": func(*rapid.T) {
				if who := m.member("leaves"); who != "" {
					m.left[who] = true
					m.remove(who)
					m.plan()
				}
			},
			"leave, and the broker dies": func(*rapid.T) {
				if who := m.member("leaves"); who != "" {
					m.remove(who)
					m.reboot()
				}
			},
			"thrown out": func(*rapid.T) {
				if who := m.member("is thrown out"); who != "" {
					m.lost[who] = m.heard[who] + lease
					m.remove(who)
					m.plan()
				}
			},
			"thrown out, and the broker dies": func(*rapid.T) {
				if who := m.member("is thrown out"); who != "" {
					m.remove(who)
					m.reboot()
				}
			},
			"hear of": func(*rapid.T) {
				if who := m.member("is heard of"); who != "" {
					m.heard[who] = m.now
				}
			},
			"wait":   func(*rapid.T) { m.now += entry.Time(rapid.IntRange(1, 40).Draw(t, "seconds")) },
			"reboot": func(*rapid.T) { m.reboot() },
			"plan":   func(*rapid.T) { m.plan() },
		})
		// In the end everybody has what is assigned.
		m.now += 10 * lease
		m.plan()
		m.check()
		for p, who := range m.assigned {
			if !m.table.MayCommit("g", who, p) || !m.table.MayFetch("g", "", p) {
				t.Fatalf("%d is assigned to %s and locked by %+v", p, who, m.table.List("g"))
			}
		}
		if n := len(m.table.List("g")); n != len(m.assigned) {
			t.Fatalf("%d locks, %d are assigned", n, len(m.assigned))
		}
	})
}

type model struct {
	*world
	t        *rapid.T
	heard    map[string]entry.Time // of members: when they were last heard of
	left     map[string]bool       // of their own accord, as far as the broker knows
	lost     map[string]entry.Time // thrown out, as far as the broker knows: the end of the lease
	ghosts   map[string]entry.Time // gone without the lease being over: when that is, at the earliest
	assigned map[entry.Partition]string
	holder   map[entry.Partition]Lock
	picked   string
	fallback entry.Time // what a broker that has restarted takes leases of unknown members to end at
}

// member picks one.
func (m *model) member(what string) string {
	all := slices.Sorted(maps.Keys(m.heard))
	if len(all) == 0 {
		m.picked = ""
	} else {
		m.picked = rapid.SampledFrom(all).Draw(m.t, what)
	}
	return m.picked
}

func (m *model) remove(who string) {
	if m.ghosts == nil {
		m.ghosts = map[string]entry.Time{}
	}
	m.ghosts[who] = m.heard[who] + lease
	delete(m.heard, who)
	maps.DeleteFunc(m.assigned, func(_ entry.Partition, member string) bool { return member == who })
}

func (m *model) plan() {
	s := &Situation{Fate: func(member string) Fate {
		if _, ok := m.heard[member]; ok {
			return Stays()
		}
		if m.left[member] {
			return Left()
		}
		if until, ok := m.lost[member]; ok {
			return Lost(until)
		}
		return Lost(m.fallback)
	}}
	for p, who := range m.assigned {
		s.Owners = append(s.Owners, Owner{p, who})
	}
	m.do(s)
	if m.do(s) {
		m.t.Fatalf("planned twice")
	}
}

// reboot loses what is not written down.
func (m *model) reboot() {
	clear(m.left)
	clear(m.lost)
	m.fallback = m.now + lease
	if err := m.restart(); err != nil {
		m.t.Fatal(err)
	}
	m.plan()
}

func (m *model) check() {
	all := slices.Collect(maps.Keys(m.heard))
	for who := range m.ghosts {
		all = append(all, who)
	}
	for p := entry.Partition(1); p <= 4; p++ {
		committers := 0
		for _, who := range all {
			if m.table.MayCommit("g", who, p) {
				committers++
			}
		}
		if committers > 1 {
			m.t.Fatalf("%d members may commit %d", committers, p)
		}
	}
	now := map[entry.Partition]Lock{}
	for _, l := range m.table.List("g") {
		now[l.Partition] = l
	}
	for p := entry.Partition(1); p <= 4; p++ {
		before, had := m.holder[p]
		l, has := now[p]
		switch {
		case !had || has && l.Epoch == before.Epoch:
		case has && l.Epoch < before.Epoch:
			m.t.Fatalf("fencing epoch of %d goes from %d to %d", p, before.Epoch, l.Epoch)
		case !has || l.Member != before.Member:
			end, ghost := m.ghosts[before.Member]
			if ghost && !m.left[before.Member] && m.now < end {
				m.t.Fatalf("at %d the lock of %s on %d has gone to %q, its lease lasts until %d", m.now, before.Member, p, l.Member, end)
			}
		}
	}
	m.holder = now
}
