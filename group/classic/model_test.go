package classic

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicemq/sluice/protocol/kerr"
)

// partitions is what the clients of the model divide.
const partitions = 5

// client is a well-behaved consumer, one request at a time.
type client struct {
	name, instance string
	old            bool // joins without being told its id first
	alive          bool

	id         string
	generation int32
	phase      phase
	leads      bool
	others     []Subscription
	work       string // as it was assigned
	held       Ticket
}

type phase int

const (
	outside phase = iota // is to join
	joining              // waits for the answer
	joined               // is to sync
	syncing              // waits for the answer
	working              // sends heartbeats
)

// model is clients around a group, with the log between the group and its state.
type model struct {
	t       *rapid.T
	limits  Limits
	now     time.Time
	group   *Group
	hard    *Metadata
	entries []Entry
	clients []*client
	waiting map[Ticket]*client
	last    Ticket
	ids     int

	newest   int32                       // generation of the group after the last call
	assigned map[int32]map[string]string // what the leader of a generation assigned
}

func newModel(t *rapid.T) *model {
	m := &model{
		t: t, now: epoch(), waiting: map[Ticket]*client{}, assigned: map[int32]map[string]string{},
		limits: Limits{
			MinSessionTimeout: time.Second, MaxSessionTimeout: time.Hour, MaxMembers: math.MaxInt32,
			InitialDelay: rapid.SampledFrom([]time.Duration{0, 3 * time.Second}).Draw(t, "delay"),
			MaxBytes:     1 << 20, MaxPending: 100,
		},
	}
	m.group = New("g", &m.limits)
	for i := range rapid.IntRange(1, 5).Draw(t, "clients") {
		c := &client{name: fmt.Sprintf("c%d", i), alive: true, old: rapid.Bool().Draw(t, "old")}
		if rapid.IntRange(0, 2).Draw(t, "static") == 0 {
			c.instance = "i" + c.name
		}
		m.clients = append(m.clients, c)
	}
	return m
}

// step lets a client do what it would do next.
func (m *model) step(c *client) {
	var out Output
	if !c.alive || c.held != 0 {
		return
	}
	switch c.phase {
	case outside:
		m.last++
		m.ids++
		c.held, c.phase = m.last, joining
		m.waiting[c.held] = c
		m.group.Join(m.now, &Join{
			Ticket: c.held, MemberID: c.id, NewID: fmt.Sprintf("%s-%d", c.name, m.ids), Instance: c.instance, ClientID: c.name,
			SessionTimeout: 10 * time.Second, RebalanceTimeout: 20 * time.Second, ProtocolType: ConsumerType,
			Protocols: []Protocol{{"range", []byte(c.name)}}, IDRequired: !c.old, SkipAssignment: !c.old,
		}, &out)
	case joined:
		m.last++
		c.held, c.phase = m.last, syncing
		m.waiting[c.held] = c
		q := &Sync{Ticket: c.held, MemberID: c.id, Instance: c.instance, Generation: c.generation}
		if c.leads {
			q.Assignments = m.divide(c)
		}
		m.group.Sync(m.now, q, &out)
	case working:
		m.told(c, m.group.Heartbeat(m.now, c.id, c.instance, c.generation))
	}
	m.take(&out)
}

// divide is the leader's work: partitions to members, one after the other.
func (m *model) divide(c *client) []Assignment {
	shares := map[string][]string{}
	for p := range partitions {
		id := c.others[p%len(c.others)].MemberID
		shares[id] = append(shares[id], strconv.Itoa(p))
	}
	var all []Assignment
	for _, s := range c.others {
		if work := strings.Join(shares[s.MemberID], " "); work != "" {
			all = append(all, Assignment{s.MemberID, []byte(work)})
		}
	}
	return all
}

// told is what a client makes of an error.
func (m *model) told(c *client, err error) {
	switch kerr.Of(err) {
	case kerr.None:
	case kerr.RebalanceInProgress, kerr.CoordinatorNotAvailable, kerr.MemberIDRequired:
		c.phase = outside
	case kerr.IllegalGeneration, kerr.UnknownMemberID:
		c.phase, c.id, c.work = outside, "", ""
	case kerr.FencedInstanceID:
		m.t.Fatalf("%s was fenced: nobody else has its instance id", c.name)
	default:
		m.t.Fatalf("%s: %v", c.name, err)
	}
}

// take hands over answers, and keeps entries.
func (m *model) take(out *Output) {
	// A call ends at most one rebalance, and may find that nobody is left in it.
	if g := m.group.Generation(); g < m.newest || g > m.newest+2 {
		m.t.Fatalf("generation %d comes after %d", g, m.newest)
	}
	m.newest = m.group.Generation()
	for i := range out.Joined {
		a := &out.Joined[i]
		c := m.waiting[a.Ticket]
		delete(m.waiting, a.Ticket)
		if c == nil || c.held != a.Ticket {
			continue
		}
		c.held = 0
		if a.Err != nil {
			m.told(c, a.Err)
			if kerr.Of(a.Err) == kerr.MemberIDRequired {
				c.id = a.MemberID
			}
			continue
		}
		if a.Generation != m.group.Generation() {
			m.t.Fatalf("%s joined generation %d, the group has %d", c.name, a.Generation, m.group.Generation())
		}
		c.id, c.generation, c.phase = a.MemberID, a.Generation, joined
		c.leads, c.others = len(a.Members) > 0 && !a.SkipAssignment, a.Members
		if c.leads != (a.Leader == a.MemberID && !a.SkipAssignment) {
			m.t.Fatalf("%s: leader is %s, and there are %d members", c.name, a.Leader, len(a.Members))
		}
	}
	for i := range out.Synced {
		a := &out.Synced[i]
		c := m.waiting[a.Ticket]
		delete(m.waiting, a.Ticket)
		if c == nil || c.held != a.Ticket {
			continue
		}
		c.held = 0
		if a.Err != nil {
			m.told(c, a.Err)
			continue
		}
		c.phase, c.work = working, string(a.Assignment)
		// What the leader gave to the member's id, or to its earlier one if it is static.
		of := m.assigned[c.generation]
		if want, ok := of[c.id]; ok && want != c.work {
			m.t.Fatalf("%s got %q in generation %d, the leader gave it %q", c.name, c.work, c.generation, want)
		}
	}
	m.entries = append(m.entries, out.Entries...)
}

// stored applies what is on its way, or has the log refuse it.
func (m *model) stored(refuse bool) {
	entries := m.entries
	m.entries = nil
	for i := range entries {
		e := &entries[i]
		if refuse {
			var out Output
			m.group.Stored(m.now, e.Number, kerr.New(kerr.CoordinatorNotAvailable, ""), m.hard, &out)
			m.take(&out)
			continue
		}
		var err error
		var next *Metadata
		if e.Metadata != nil {
			_, next, err = DecodeGroup(AppendGroup(nil, "g", e.Metadata))
			if err == nil {
				err = m.hard.Admit(next)
			}
		} else {
			next, err = m.hard.Replace(e.Replacement)
		}
		if err != nil {
			m.t.Fatalf("entry %d is refused: %v", e.Number, err)
		}
		m.hard = next
		of := map[string]string{}
		seen := map[string]string{}
		for _, member := range next.Members {
			of[member.ID] = string(member.Assignment)
			for _, p := range strings.Fields(string(member.Assignment)) {
				if other, ok := seen[p]; ok {
					m.t.Fatalf("partition %s has two owners in generation %d: %s and %s", p, next.Generation, other, member.ID)
				}
				seen[p] = member.ID
			}
		}
		m.assigned[next.Generation] = of
		var out Output
		m.group.Stored(m.now, e.Number, nil, m.hard, &out)
		m.take(&out)
	}
}

func (m *model) tick(d time.Duration) {
	until := m.now.Add(d)
	for wake := m.group.Wake(); !wake.IsZero() && !wake.After(until); wake = m.group.Wake() {
		if wake.After(m.now) {
			m.now = wake
		}
		var out Output
		m.group.Tick(m.now, &out)
		m.take(&out)
	}
	m.now = until
}

// drop lets a client go without a word, in the middle of whatever it does.
func (m *model) drop(c *client) {
	var out Output
	if c.held != 0 {
		delete(m.waiting, c.held)
		m.group.Gone(m.now, c.held, &out)
	}
	c.held, c.phase, c.id, c.work = 0, outside, "", ""
	m.take(&out)
}

// lose breaks the connection of a client, which knows what it knew before.
func (m *model) lose(c *client) {
	var out Output
	if c.held == 0 {
		return
	}
	delete(m.waiting, c.held)
	m.group.Gone(m.now, c.held, &out)
	c.held = 0
	if c.phase == syncing {
		c.phase = joined
	} else {
		c.phase = outside
	}
	m.take(&out)
}

func (m *model) leave(c *client) {
	var out Output
	if c.held != 0 || c.id == "" {
		return
	}
	m.group.Leave(m.now, []Leaver{{c.id, c.instance}}, &out)
	c.phase, c.id, c.work = outside, "", ""
	m.take(&out)
}

// restart begins the group anew from its state. Held requests get no answer.
func (m *model) restart() {
	m.entries = nil
	m.waiting = map[Ticket]*client{}
	m.group = New("g", &m.limits)
	if m.hard != nil {
		m.group = Restore("g", &m.limits, m.hard, m.now)
	}
	m.newest = m.group.Generation()
	for _, c := range m.clients {
		if c.held != 0 {
			c.held = 0
			if c.phase == syncing {
				c.phase = joined
			} else {
				c.phase = outside
			}
		}
		if c.generation > m.newest {
			c.generation = 0 // is told so, or that it is unknown
		}
	}
}

// settle lets all go on undisturbed, and checks what must be then.
func (m *model) settle() {
	for range 120 {
		for range 4 {
			for _, c := range m.clients {
				m.step(c)
			}
			m.stored(false)
		}
		m.tick(time.Second)
	}
	alive := 0
	owners := map[string]string{}
	for _, c := range m.clients {
		if !c.alive {
			continue
		}
		alive++
		if c.phase != working || c.generation != m.group.Generation() {
			m.t.Fatalf("%s starves: phase %d, generation %d of %d, group %v", c.name, c.phase, c.generation, m.group.Generation(), m.group.State())
		}
		for _, p := range strings.Fields(c.work) {
			if other, ok := owners[p]; ok {
				m.t.Fatalf("partition %s is worked on by %s and %s", p, other, c.name)
			}
			owners[p] = c.name
		}
	}
	if alive == 0 {
		if !m.group.Idle() || m.group.State() != Empty || m.group.Members() != 0 {
			m.t.Fatalf("nobody is there, but the group is %v with %d members", m.group.State(), m.group.Members())
		}
		return
	}
	if m.group.State() != Stable || m.group.Members() != alive || len(owners) != partitions {
		m.t.Fatalf("%v with %d members, %d clients; partitions of %v", m.group.State(), m.group.Members(), alive,
			slices.Sorted(maps.Keys(owners)))
	}
}

// TestNobodyStarvesAndNothingIsOwnedTwice drives random clients that join, leave,
// crash and lose their connections, with a broker that restarts, and then leaves
// them alone.
func TestNobodyStarvesAndNothingIsOwnedTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			c := m.clients[rapid.IntRange(0, len(m.clients)-1).Draw(t, "client")]
			switch action := rapid.IntRange(0, 19).Draw(t, "action"); action {
			case 0:
				m.drop(c)
			case 1:
				m.lose(c)
			case 2:
				m.leave(c)
			case 3:
				m.drop(c)
				c.alive = !c.alive
			case 4:
				m.restart()
			case 5, 6:
				m.tick(time.Duration(rapid.IntRange(1, 25).Draw(t, "seconds")) * time.Second)
			case 7:
				m.stored(rapid.Bool().Draw(t, "refuse"))
			case 8, 9:
				m.stored(false)
			default:
				m.step(c)
			}
		}
		m.settle()
		for _, c := range m.clients {
			m.drop(c)
			c.alive = false
		}
		m.settle()
	})
}
