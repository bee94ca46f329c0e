package consumer

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicemq/sluice/group/assign"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// client is a member as Kafka's clients are: it uses what it was last assigned,
// gives up what was taken from it in its own time, and drops everything when it is
// fenced.
type client struct {
	id, instance string
	epoch        int32
	joined       bool
	silent       bool // stopped or cut off: does nothing, and uses nothing
	owned        assign.Assignment
	assigned     assign.Assignment // what it was last told
	topics       []string
	regex        string
	full         bool              // something went wrong: say everything again
	waiting      Ticket            // a heartbeat that was not answered
	reported     assign.Assignment // what it last said that it owns
	doubtful     bool              // it was silent and has not heard anything yet
	slow         time.Duration
	changed      bool // the subscription, since it was last said
}

// model drives a group with such clients.
type model struct {
	*world
	t       *rapid.T
	clients []*client
	ticket  Ticket
	last    *State
}

func (m *model) beat(c *client, lose bool) {
	if c.silent || c.waiting != 0 {
		return
	}
	m.ticket++
	h := &Heartbeat{Ticket: m.ticket, MemberID: c.id, Epoch: c.epoch, ClientID: "c", ClientHost: "h", RebalanceTimeout: -1}
	if c.instance != "" {
		h.Instance = &c.instance
	}
	if !c.joined || c.full || c.changed {
		c.changed = false
		h.RebalanceTimeout = 60 * time.Second
		h.HasTopics, h.Topics, h.Regex = true, c.topics, &c.regex
	}
	h.Owned = &c.owned
	if !c.joined {
		h.Epoch = 0
		h.Owned = ptr(assign.Assignment(nil))
	} else if !c.full && c.owned.Equal(c.reported) && rapid.Bool().Draw(m.t, "silent about what it owns") {
		h.Owned = nil
	}
	c.reported = c.owned
	if err := h.Check(true, m.settings.Assignors); err != nil {
		m.t.Fatalf("request of %s: %v", c.id, err)
	}
	c.waiting = h.Ticket
	m.call(func(out *Output) { m.group.Heartbeat(m.now, h, out) })
	if lose {
		delete(m.beaten, h.Ticket)
		c.waiting = 0
		c.full = true
		return
	}
	m.hear()
}

// hear hands answers to the clients that wait for them.
func (m *model) hear() {
	for _, c := range m.clients {
		a, ok := m.beaten[c.waiting]
		if c.waiting == 0 || !ok {
			continue
		}
		delete(m.beaten, c.waiting)
		c.waiting = 0
		if kerr.Of(a.Err) != kerr.CoordinatorNotAvailable {
			c.doubtful = false
		}
		switch kerr.Of(a.Err) {
		case kerr.None:
			if a.Epoch < c.epoch {
				m.t.Fatalf("epoch of %s goes from %d to %d", c.id, c.epoch, a.Epoch)
			}
			c.joined, c.full, c.epoch = true, false, a.Epoch
			if a.Assigned != nil {
				c.assigned = *a.Assigned
			}
			m.use(c)
		case kerr.CoordinatorNotAvailable:
			c.full = true
		case kerr.FencedMemberEpoch, kerr.UnknownMemberID, kerr.UnreleasedInstanceID, kerr.FencedInstanceID:
			c.drop()
		default:
			m.t.Fatalf("%s: %v", c.id, a.Err)
		}
	}
}

func (c *client) drop() {
	c.joined, c.epoch, c.owned, c.assigned = false, 0, nil, nil
}

// use takes what was assigned, once nothing is left to give up.
func (m *model) use(c *client) {
	if len(c.owned.Minus(c.assigned)) == 0 {
		c.owned = c.assigned
	}
}

// revoke gives up what was taken from the client.
func (m *model) revoke(c *client) {
	if !c.silent && c.joined {
		c.owned = c.owned.Both(c.assigned)
		m.use(c)
	}
}

func (m *model) leave(c *client, epoch int32) {
	if c.silent || !c.joined || c.waiting != 0 {
		return
	}
	m.ticket++
	h := &Heartbeat{Ticket: m.ticket, MemberID: c.id, Epoch: epoch, ClientID: "c", ClientHost: "h", RebalanceTimeout: -1}
	if c.instance != "" {
		h.Instance = &c.instance
	}
	c.drop()
	c.silent = true
	m.call(func(out *Output) { m.group.Heartbeat(m.now, h, out) })
}

// pass lets time pass. Nobody who is not silent misses a heartbeat, or takes
// longer to give something up than the rebalance timeout.
func (m *model) pass(d time.Duration) {
	for _, c := range m.clients {
		if len(c.owned.Minus(c.assigned)) == 0 {
			c.slow = 0
		} else if c.slow += d; c.slow > 30*time.Second {
			m.revoke(c)
		}
		m.beat(c, false)
	}
	m.tick(d)
}

// check is called after each step.
func (m *model) check() {
	m.hear()
	using := map[string]string{}
	for _, c := range m.clients {
		if c.silent || c.doubtful {
			continue
		}
		for _, t := range c.owned {
			for _, p := range t.Partitions {
				at := fmt.Sprintf("%x/%d", t.ID[14:], p)
				if other, taken := using[at]; taken {
					m.t.Fatalf("%s and %s both use %s", other, c.id, at)
				}
				using[at] = c.id
			}
		}
	}
	s := m.state
	if s == nil {
		return
	}
	checkState(m.t, s)
	if l := m.last; l != nil && l != s {
		if s.Epoch < l.Epoch || s.TargetEpoch < l.TargetEpoch || s.Index < l.Index {
			m.t.Fatalf("state goes from %+v to %+v", l, s)
		}
		for _, a := range l.Members {
			if b := s.Member(a.ID); b != nil && b.Current.Epoch < a.Current.Epoch && b.Current.Epoch > 0 && a.Info.Instance == "" {
				m.t.Fatalf("epoch of %s goes from %d to %d", a.ID, a.Current.Epoch, b.Current.Epoch)
			}
		}
	}
	m.last = s
	if m.group.state != s {
		m.t.Fatalf("the group has not heard of the newest state")
	}
	checkDerived(m.t, m.group)
}

type failer interface{ Fatalf(string, ...any) }

// checkState checks that no partition is held by two, and more.
func checkState(t failer, s *State) {
	if s.TargetEpoch > s.Epoch {
		t.Fatalf("target epoch %d is above %d", s.TargetEpoch, s.Epoch)
	}
	holders := map[place]string{}
	for i, m := range s.Members {
		if i > 0 && s.Members[i-1].ID >= m.ID {
			t.Fatalf("members are out of order")
		}
		c := m.Current
		if c.Epoch > s.Epoch || c.Epoch == 0 || c.Previous > c.Epoch && c.Epoch > 0 {
			t.Fatalf("%s is in epoch %d after %d, the group in %d", m.ID, c.Epoch, c.Previous, s.Epoch)
		}
		if (c.Phase == Revoking) != (len(c.Revoked.Set) > 0) {
			t.Fatalf("%s is %v and gives up %v", m.ID, c.Phase, c.Revoked.Set)
		}
		for _, h := range []Holding{c.Assigned, c.Revoked} {
			if h.Set.Count() != len(h.Epochs) {
				t.Fatalf("%s: %d epochs for %v", m.ID, len(h.Epochs), h.Set)
			}
			for _, topic := range h.Set {
				for _, p := range topic.Partitions {
					at := place{topic.ID, p}
					if other, taken := holders[at]; taken {
						t.Fatalf("%v is held by %s and %s", at, other, m.ID)
					}
					holders[at] = m.ID
					if since, _ := h.Since(topic.ID, p); since > s.Epoch {
						t.Fatalf("%v of %s is from epoch %d", at, m.ID, since)
					}
				}
			}
		}
	}
}

// checkDerived checks that what the machine derives from the state step by step
// is what it derives at once.
func checkDerived(t failer, g *Group) {
	fresh := New(g.id, g.settings, g.topics)
	fresh.adopt(g.state, begin)
	if fresh.classic != g.classic || fresh.bytes != g.bytes || len(fresh.seats) != len(g.seats) {
		t.Fatalf("derived %d %d %d, not %d %d %d", g.classic, g.bytes, len(g.seats),
			fresh.classic, fresh.bytes, len(fresh.seats))
	}
	who := func(g *Group) map[place]string {
		all := map[place]string{}
		for id, topic := range g.owners {
			n := 0
			for p, at := range topic.by {
				if at != nil {
					all[place{id, int32(p)}] = at.member.ID
					n++
				}
			}
			if n != topic.count || n == 0 {
				t.Fatalf("topic %x: %d partitions have owners, counted %d", id, n, topic.count)
			}
		}
		return all
	}
	if a, b := who(g), who(fresh); !maps.Equal(a, b) {
		t.Fatalf("owners %v, not %v", a, b)
	}
	for instance, at := range fresh.static {
		if g.static[instance] == nil || g.static[instance].member != at.member {
			t.Fatalf("instance %s is not %s", instance, at.member.ID)
		}
	}
	if len(g.static) != len(fresh.static) {
		t.Fatalf("static members %v", slices.Collect(maps.Keys(g.static)))
	}
}

// checkRestart checks that a state is read back as it was.
func checkRestart(t failer, s *State) {
	disk := store{}
	Checkpoint(disk, "g", nil, s)
	var back *State
	if err := Load(disk, func(_ string, s *State) { back = s }); err != nil {
		t.Fatalf("%v", err)
	}
	if !reflect.DeepEqual(normal(s), normal(back)) {
		t.Fatalf("loaded\n%s\nwritten\n%s", show(back), show(s))
	}
}

// normal returns the state with empty lists as nil.
func normal(s *State) *State {
	if s == nil {
		return nil
	}
	next := *s
	next.Members = nil
	for _, m := range s.Members {
		one, info, current := *m, *m.Info, *m.Current
		one.Info, one.Current = &info, &current
		if len(info.Topics) == 0 {
			info.Topics = nil
		}
		for _, set := range []*assign.Assignment{&one.Target, &current.Assigned.Set, &current.Revoked.Set} {
			if len(*set) == 0 {
				*set = nil
			}
		}
		for _, h := range []*Holding{&current.Assigned, &current.Revoked} {
			if len(h.Epochs) == 0 {
				h.Epochs = nil
			}
		}
		next.Members = append(next.Members, &one)
	}
	next.Regexes = nil
	for _, r := range s.Regexes {
		one := *r
		if len(one.Topics) == 0 {
			one.Topics = nil
		}
		next.Regexes = append(next.Regexes, &one)
	}
	return &next
}

func show(s *State) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%+v\n", *s)
	for _, m := range s.Members {
		fmt.Fprintf(&b, "%s %+v %+v %+v\n", m.ID, *m.Info, *m.Current, m.Target)
	}
	return b.String()
}

var topicNames = []string{"apple", "banana", "berry", "cherry"}

func (m *model) drawSubscription(c *client) {
	c.topics, c.regex = nil, ""
	for _, name := range topicNames {
		if rapid.Bool().Draw(m.t, "subscribe") {
			c.topics = append(c.topics, name)
		}
	}
	if rapid.IntRange(0, 3).Draw(m.t, "by pattern") == 0 {
		c.regex = rapid.SampledFrom([]string{"b.*", ".*rry", "a|cherry", "x"}).Draw(m.t, "regex")
	}
	c.changed = true
}

// TestRandomMembersNeverShareAPartitionAndSettle is the model: members join,
// leave, fall silent, give up slowly, lose answers; topics grow, come and go;
// entries wait or fail; the broker restarts.
func TestRandomMembersNeverShareAPartitionAndSettle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{world: newWorld(newCatalog("apple", 3, "banana", 2)), t: t}
		m.settings.AssignmentInterval = time.Duration(rapid.IntRange(0, 3).Draw(t, "interval")) * time.Second
		m.settings.MaxInline = rapid.SampledFrom([]int{0, 1000}).Draw(t, "inline")
		m.settings.MaxMembers = 8
		m.settings.RegexRefresh = time.Minute
		made := 0
		add := func(instance string) {
			made++
			c := &client{id: fmt.Sprintf("m%02d", made), instance: instance}
			m.drawSubscription(c)
			m.clients = append(m.clients, c)
		}
		pick := func() *client {
			if len(m.clients) == 0 {
				add("")
			}
			return m.clients[rapid.IntRange(0, len(m.clients)-1).Draw(t, "client")]
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) { m.check() },
			"new": func(*rapid.T) {
				if len(m.clients) < 6 {
					add("")
				}
			},
			"new static": func(*rapid.T) {
				instance := rapid.SampledFrom([]string{"i1", "i2"}).Draw(t, "instance")
				for _, c := range m.clients {
					if c.instance == instance && !c.silent {
						return
					}
				}
				add(instance)
			},
			"beat":   func(*rapid.T) { m.beat(pick(), false) },
			"beat 2": func(*rapid.T) { m.beat(pick(), false) },
			"all beat": func(*rapid.T) {
				for _, c := range m.clients {
					m.beat(c, false)
				}
			},
			"lost":        func(*rapid.T) { m.beat(pick(), true) },
			"revoke":      func(*rapid.T) { m.revoke(pick()) },
			"leave":       func(*rapid.T) { m.leave(pick(), -1) },
			"fall silent": func(*rapid.T) { pick().silent = true },
			"come back": func(*rapid.T) {
				// It is fenced if it was gone for too long. What a stopped process
				// believed it drops with its first answer, before it goes on.
				c := pick()
				if c.silent && c.waiting == 0 {
					for _, other := range m.clients {
						if other != c && other.instance == c.instance && c.instance != "" && !other.silent {
							return
						}
					}
					c.silent, c.doubtful, c.full = false, true, true
					m.beat(c, false)
				}
			},
			"leave for now": func(*rapid.T) {
				if c := pick(); c.instance != "" {
					m.leave(c, -2)
				}
			},
			"resubscribe": func(*rapid.T) { m.drawSubscription(pick()) },
			"topic": func(*rapid.T) {
				name := rapid.SampledFrom(topicNames).Draw(t, "topic")
				if n := m.topics.sizes[name]; n > 0 && rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
					m.topics.set(name, 0)
				} else {
					m.topics.set(name, n+1)
				}
			},
			"short while": func(*rapid.T) { m.pass(time.Second) },
			"while":       func(*rapid.T) { m.pass(20 * time.Second) },
			"hold":        func(*rapid.T) { m.hold = true },
			"apply":       func(*rapid.T) { m.apply() },
			"go on": func(*rapid.T) {
				m.hold = false
				m.apply()
			},
			"fail": func(*rapid.T) {
				m.fail = true
				m.apply()
				m.fail = false
			},
			"hold jobs": func(*rapid.T) { m.holdJobs = true },
			"run jobs": func(*rapid.T) {
				m.holdJobs = false
				m.runJobs()
			},
			"restart": func(*rapid.T) {
				m.restart()
				for _, c := range m.clients {
					if c.waiting != 0 {
						c.waiting, c.full = 0, true
					}
				}
			},
		})
		m.settle()
		if m.state != nil {
			checkRestart(t, m.state)
		}
	})
}

// settle lets calm return and checks that everybody gets what they are to get.
func (m *model) settle() {
	m.hold, m.holdJobs = false, false
	m.apply()
	m.runJobs()
	m.hear()
	for range 5 { // the silent are removed
		m.pass(20 * time.Second)
		m.check()
	}
	var live []*client
	for _, c := range m.clients {
		if c.waiting != 0 {
			m.t.Fatalf("%s waits for an answer", c.id)
		}
		if !c.silent {
			live = append(live, c)
		}
	}
	for range 12 {
		for _, c := range live {
			m.beat(c, false)
			m.revoke(c)
			m.check()
		}
		m.tick(5 * time.Second)
	}
	if m.state == nil {
		return
	}
	if len(live) > 0 && m.state.Life() != "Stable" {
		m.t.Fatalf("group is %s: %s", m.state.Life(), show(m.state))
	}
	want := map[place]bool{}
	for _, c := range live {
		member := m.state.Member(c.id)
		if !c.owned.Equal(member.Target) || c.epoch != m.state.TargetEpoch {
			m.t.Fatalf("%s owns %v in epoch %d, target is %v", c.id, c.owned, c.epoch, member.Target)
		}
		for _, name := range topicNames {
			id, n, ok := m.topics.Topic(name)
			re, _ := compile(c.regex)
			if ok && (slices.Contains(c.topics, name) || c.regex != "" && re.MatchString(name)) {
				for p := range n {
					want[place{id, p}] = true
				}
			}
		}
	}
	for _, c := range live {
		for _, t := range c.owned {
			for _, p := range t.Partitions {
				if !want[place{t.ID, p}] {
					m.t.Fatalf("%s owns what it does not subscribe to", c.id)
				}
				delete(want, place{t.ID, p})
			}
		}
	}
	if len(want) > 0 {
		m.t.Fatalf("nobody owns %v", want)
	}
}
