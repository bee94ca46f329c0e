package classic

import (
	"maps"
	"slices"
	"time"

	"github.com/sluicemq/sluice/protocol/kerr"
)

// State is where a group is in its life, with Kafka's names.
type State uint8

// The states. A group that does not exist is Dead.
const (
	Empty State = iota
	PreparingRebalance
	CompletingRebalance
	Stable
	Dead
)

var stateNames = [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"}

// String returns the name that clients see.
func (s State) String() string { return stateNames[s] }

// Limits are the broker's settings for groups. They do not change.
type Limits struct {
	MinSessionTimeout, MaxSessionTimeout time.Duration
	// InitialDelay is how long an empty group waits for more members.
	InitialDelay time.Duration
	MaxMembers   int
	// MaxBytes bounds the bytes of a group's metadata, which are one entry.
	MaxBytes int
	// MaxPending bounds the member ids that were handed out and not used yet.
	MaxPending int
}

// newMemberLimit is how long the JoinGroup of a member that was never in the
// group may be held.
const newMemberLimit = 5 * time.Minute

// storeRetry is how long after a failure it is tried again to write down that
// the group is empty.
const storeRetry = time.Second

// Group is the machine of one group. Its methods are called by one goroutine at
// a time, with times that do not run back.
type Group struct {
	id     string
	limits *Limits

	state        State
	generation   int32
	protocolType string
	protocol     string
	leader       string
	members      []*member // in the order in which they joined
	byID         map[string]*member
	static       map[string]*member // by instance id
	supports     map[string]int     // how many members support a protocol
	tickets      map[Ticket]*member // whose request is held
	awaiting     int                // members whose JoinGroup is held
	bytes        int                // of members, about
	// subscribed is what the members of the newest generation subscribed to; nil
	// if it is not known.
	subscribed map[string]bool

	pending map[string]time.Time // ids handed out: when they are forgotten

	// The join phase.
	initial         bool // it began when the group was empty
	newcomers       bool // somebody joined since the delay was last extended
	delay, left     time.Duration
	joinUntil       time.Time // zero if there is none
	syncUntil       time.Time // when members that have not synced are removed; zero if all have
	syncing         int       // members that have not synced
	wake            time.Time // not after the next deadline; zero for none
	lastEntry       uint64
	inFlight        map[uint64]stored    // entries on their way
	releases        map[uint64][]release // who is told when an entry is stored
	stateStatic     map[string]string    // ids by instance id, as the state has them after the entries on their way; replaced, not changed
	misled          bool                 // an entry was refused, so that stateStatic may be wrong
	saved           bool                 // the state has the group, or will have
	unsavedEmpty    time.Time            // when to try again to write down that it is empty; zero if that is done
	assignmentEntry uint64               // the entry with this generation's assignments; 0 if there is none
}

type member struct {
	Member
	join, sync  Ticket    // held requests, or 0
	fresh       bool      // was never told that it is a member
	anonymous   bool      // was never told its id
	syncPending bool      // has not synced in this generation
	present     bool      // has joined the newest generation, or says that it is in it
	unstored    uint64    // an entry on its way, before which it must not be told its id; or 0
	heard       time.Time // when the session began
	deadline    time.Time // of the session, unless a request of a member that is not fresh is held
}

// stored says what an entry on its way is about.
type stored struct {
	kind        storedKind
	generation  int32
	assignments map[string][]byte // storedAssignments
}

type storedKind uint8

const (
	storedEmpty storedKind = iota
	storedAssignments
	storedReplacement
)

// release is a static member that is told its new id when an entry is stored.
type release struct {
	memberID       string
	skipAssignment bool
	leader         string // to be told, if the client knows no skipped assignments
}

// instances returns the member ids by instance id. m may be nil.
func instances(m *Metadata) map[string]string {
	ids := make(map[string]string)
	if m == nil {
		return ids
	}
	for i := range m.Members {
		if one := &m.Members[i]; one.Instance != "" {
			ids[one.Instance] = one.ID
		}
	}
	return ids
}

// New returns a group that is empty and not in the state.
func New(id string, limits *Limits) *Group {
	return &Group{
		id: id, limits: limits,
		byID:     make(map[string]*member),
		static:   make(map[string]*member),
		supports: make(map[string]int),
		tickets:  make(map[Ticket]*member),
		pending:  make(map[string]time.Time),
		inFlight: make(map[uint64]stored),
		releases: make(map[uint64][]release),
	}
}

// Restore returns the group that the state has. Its members have a whole session
// from now on.
func Restore(id string, limits *Limits, m *Metadata, now time.Time) *Group {
	g := New(id, limits)
	g.saved = true
	g.generation, g.protocolType = m.Generation, m.ProtocolType
	if len(m.Members) == 0 {
		return g
	}
	g.state = Stable
	for i := range m.Members {
		g.add(&member{Member: m.Members[i]})
		g.renew(g.members[i], now)
	}
	g.protocolType, g.protocol, g.leader = m.ProtocolType, m.Protocol, m.Leader
	g.stateStatic = instances(m)
	g.subscribe()
	return g
}

// ID returns the group's id.
func (g *Group) ID() string { return g.id }

// State returns the group's state.
func (g *Group) State() State { return g.state }

// Members returns how many members the group has.
func (g *Group) Members() int { return len(g.members) }

// Idle reports whether nothing of the group is worth keeping but what the state
// has.
func (g *Group) Idle() bool {
	return g.state == Empty && len(g.pending) == 0 && len(g.inFlight) == 0 && g.unsavedEmpty.IsZero()
}

// Saved reports whether the state has the group, or will have when what is on its
// way has arrived.
func (g *Group) Saved() bool { return g.saved }

// Wake returns when Tick is to be called at the latest; zero for never.
func (g *Group) Wake() time.Time { return g.wake }

// wakeBy makes sure that Tick is called by t.
func (g *Group) wakeBy(t time.Time) {
	if g.wake.IsZero() || t.Before(g.wake) {
		g.wake = t
	}
}

// renew begins a member's session anew.
func (g *Group) renew(m *member, now time.Time) {
	m.heard, m.deadline = now, now.Add(m.SessionTimeout)
	g.wakeBy(m.deadline)
}

// rebalanceTimeout returns the longest that a member asks for.
func (g *Group) rebalanceTimeout() time.Duration {
	longest := time.Duration(0)
	for _, m := range g.members {
		longest = max(longest, m.RebalanceTimeout)
	}
	return longest
}

// size returns about how many bytes a member takes in an entry.
func (m *Member) size() int {
	n := 64 + len(m.ID) + len(m.Instance) + len(m.ClientID) + len(m.ClientHost)
	for i := range m.Protocols {
		n += 16 + len(m.Protocols[i].Name) + len(m.Protocols[i].Metadata)
	}
	return n
}

// add makes m the newest member.
func (g *Group) add(m *member) {
	if len(g.members) == 0 {
		g.leader = m.ID
	}
	g.members = append(g.members, m)
	g.byID[m.ID] = m
	if m.Instance != "" {
		g.static[m.Instance] = m
	}
	g.count(m, 1)
}

// count counts what a member supports, in (1) or out (-1).
func (g *Group) count(m *member, sign int) {
	g.bytes += sign * m.size()
	for i := range m.Protocols {
		if n := g.supports[m.Protocols[i].Name] + sign; n == 0 {
			delete(g.supports, m.Protocols[i].Name)
		} else {
			g.supports[m.Protocols[i].Name] = n
		}
	}
}

// remove takes members out. What they wait for is answered with UNKNOWN_MEMBER_ID,
// so that a client that is still there joins anew.
func (g *Group) remove(out *Output, gone ...*member) {
	if len(gone) == 0 {
		return
	}
	refusal := kerr.New(kerr.UnknownMemberID, "the member was removed from the group")
	for _, m := range gone {
		g.answerJoin(m, Joined{Err: refusal, Generation: -1}, out)
		g.answerSync(m, Synced{Err: refusal}, out)
		g.synced(m)
		g.count(m, -1)
		delete(g.byID, m.ID)
		if m.Instance != "" {
			delete(g.static, m.Instance)
		}
	}
	g.members = slices.DeleteFunc(g.members, func(m *member) bool { return g.byID[m.ID] != m })
	if g.byID[g.leader] == nil {
		g.leader = ""
		if len(g.members) > 0 {
			g.leader = g.members[0].ID
		}
	}
}

// holdJoin makes the answer to the member's JoinGroup wait.
func (g *Group) holdJoin(m *member, t Ticket, out *Output) {
	g.answerJoin(m, Joined{Err: superseded(), Generation: -1, MemberID: m.ID}, out)
	m.join = t
	g.tickets[t] = m
	g.awaiting++
}

func (g *Group) answerJoin(m *member, a Joined, out *Output) {
	if m.join == 0 {
		return
	}
	out.Joined = append(out.Joined, JoinAnswer{m.join, a})
	g.releaseJoin(m)
}

func (g *Group) releaseJoin(m *member) {
	delete(g.tickets, m.join)
	m.join = 0
	g.awaiting--
}

func (g *Group) holdSync(m *member, t Ticket, out *Output) {
	g.answerSync(m, Synced{Err: superseded()}, out)
	m.sync = t
	g.tickets[t] = m
}

func (g *Group) answerSync(m *member, a Synced, out *Output) {
	if m.sync == 0 {
		return
	}
	out.Synced = append(out.Synced, SyncAnswer{m.sync, a})
	delete(g.tickets, m.sync)
	m.sync = 0
}

// superseded is what the older of two requests of one member is told.
func superseded() error {
	return kerr.New(kerr.RebalanceInProgress, "the member has sent the request again")
}

// synced notes that a member has synced in this generation, or is gone.
func (g *Group) synced(m *member) {
	if !m.syncPending {
		return
	}
	m.syncPending = false
	g.syncing--
	if g.syncing == 0 {
		g.syncUntil = time.Time{}
	}
}

// propose adds an entry to the output.
func (g *Group) propose(e Entry, s stored, out *Output) {
	g.lastEntry++
	e.Number = g.lastEntry
	s.generation = g.generation
	g.inFlight[e.Number] = s
	g.saved = true
	if e.Metadata != nil {
		g.stateStatic = instances(e.Metadata)
	} else {
		g.stateStatic = maps.Clone(g.stateStatic)
		g.stateStatic[e.Replacement.Member.Instance] = e.Replacement.Member.ID
	}
	out.Entries = append(out.Entries, e)
}

// validate checks that a member is who it says (not its generation).
func (g *Group) validate(memberID, instance string) (*member, error) {
	if instance != "" {
		m := g.static[instance]
		if m == nil {
			return nil, kerr.New(kerr.UnknownMemberID, "the group has no instance %q", instance)
		}
		if m.ID != memberID {
			return nil, kerr.New(kerr.FencedInstanceID, "instance %q has another member id by now", instance)
		}
	}
	m := g.byID[memberID]
	if m == nil {
		return nil, kerr.New(kerr.UnknownMemberID, "the group has no member %q", memberID)
	}
	return m, nil
}

// validateGeneration checks that a member is who it says, in the generation at
// hand.
func (g *Group) validateGeneration(memberID, instance string, generation int32) (*member, error) {
	m, err := g.validate(memberID, instance)
	if err == nil && generation != g.generation {
		err = kerr.New(kerr.IllegalGeneration, "generation %d is not %d", generation, g.generation)
	}
	if err != nil {
		return nil, err
	}
	m.present = true
	return m, nil
}
