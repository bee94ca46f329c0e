package consumer

import (
	"slices"
	"time"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// Group is the machine of one group. Its methods are called by one goroutine at
// a time, with times that do not run back.
type Group struct {
	id       string
	settings *Settings
	topics   Topics
	state    *State // nil if there is none
	upgraded *State // what a classic group was made into, until an entry has it

	seats   map[string]*seat // by member id
	static  map[string]*seat // by instance id
	owners  map[entry.TopicID]*owned
	classic int // members of the classic protocol
	bytes   int // of the members' Info

	checked   uint64 // version of the topics that the state's hash was compared with
	unchecked bool   // it never was

	inFlight *draft
	parked   []parked // wait until nothing is in flight

	job      *Job                // that is out
	assigned time.Time           // when a target was last computed
	patterns map[string]resolved // that members subscribe to

	wake time.Time // not after the next deadline; zero for none
}

// parked is a request or a result with the time at which it came.
type parked struct {
	request any
	at      time.Time
}

// seat is a member with what the state does not have of it.
type seat struct {
	member *Member
	heard  time.Time // when it was last heard of
	// Deadlines, zero if there is none: of the session; for giving up what was
	// taken away; for classic members to join and to sync.
	session, revoke, join, sync time.Time
}

// New returns a group that is not in the state.
func New(id string, settings *Settings, topics Topics) *Group {
	return &Group{
		id: id, settings: settings, topics: topics,
		seats:     make(map[string]*seat),
		static:    make(map[string]*seat),
		owners:    make(map[entry.TopicID]*owned),
		unchecked: true,
	}
}

// Restore returns the group that the state has. Its members have whole sessions,
// and whole times to revoke, from now on.
func Restore(id string, settings *Settings, topics Topics, s *State, now time.Time) *Group {
	g := New(id, settings, topics)
	g.adopt(s, now)
	return g
}

// ID returns the group's id.
func (g *Group) ID() string { return g.id }

// State returns the hard state that the group knows of; nil if there is none.
func (g *Group) State() *State { return g.state }

// SetSettings gives the group other settings. Running deadlines stay.
func (g *Group) SetSettings(s *Settings) { g.settings = s }

// Idle reports whether nothing of the group is worth keeping but what the state
// has.
func (g *Group) Idle() bool {
	return len(g.seats) == 0 && g.inFlight == nil && len(g.parked) == 0 && g.job == nil && g.upgraded == nil
}

// Members returns how many members the group has, as far as entries have been
// applied.
func (g *Group) Members() int { return len(g.seats) }

// Wake returns when Tick is to be called at the latest; zero for never.
func (g *Group) Wake() time.Time { return g.wake }

func (g *Group) wakeBy(t time.Time) {
	if !t.IsZero() && (g.wake.IsZero() || t.Before(g.wake)) {
		g.wake = t
	}
}

// base returns the state that the next entry changes, never nil.
func (g *Group) base() *State {
	switch {
	case g.upgraded != nil:
		return g.upgraded
	case g.state != nil:
		return g.state
	}
	return &State{}
}

// adopt makes s the state of the group.
func (g *Group) adopt(s *State, now time.Time) {
	var old, next []*Member
	if g.state != nil {
		old = g.state.Members
	}
	if s != nil {
		next = s.Members
	}
	// First all that is given up, then all that is taken.
	merge(old, next, compareMembers, func(a, b *Member) {
		if a != nil && a != b {
			g.vacate(a, b)
		}
	})
	merge(old, next, compareMembers, func(a, b *Member) {
		if b != nil && a != b {
			g.occupy(a, b, now)
		}
	})
	g.state = s
}

func compareMembers(a, b *Member) int {
	if a.ID < b.ID {
		return -1
	}
	if a.ID > b.ID {
		return 1
	}
	return 0
}

// vacate forgets what is derived from a member that becomes next, or goes.
func (g *Group) vacate(m, next *Member) {
	g.bytes -= m.Info.size()
	if m.Info.Classic != nil {
		g.classic--
	}
	if at := g.static[m.Info.Instance]; at != nil && at.member == m {
		delete(g.static, m.Info.Instance)
	}
	if next == nil || next.Current != m.Current {
		g.own(m, nil)
	}
	if next == nil {
		delete(g.seats, m.ID)
	}
}

// occupy derives what there is to derive from a member that was old, or is new.
func (g *Group) occupy(old, m *Member, now time.Time) {
	at := g.seats[m.ID]
	if at == nil {
		at = &seat{}
		g.seats[m.ID] = at
	}
	at.member = m
	g.bytes += m.Info.size()
	if m.Info.Classic != nil {
		g.classic++
	}
	if m.Info.Instance != "" {
		g.static[m.Info.Instance] = at
	}
	if old == nil || old.Current != m.Current {
		g.own(m, at)
		g.timeRevocation(at, now)
	}
	if at.session.IsZero() {
		g.renew(at, now)
	}
}

// owned says who has each partition of a topic.
type owned struct {
	by    []*seat
	count int // of those that somebody has
}

// own notes who has what the member has; nil: nobody.
func (g *Group) own(m *Member, by *seat) {
	for _, held := range [...]Holding{m.Current.Assigned, m.Current.Revoked} {
		for _, t := range held.Set {
			topic := g.owners[t.ID]
			if topic == nil {
				topic = &owned{}
				g.owners[t.ID] = topic
			}
			if last := int(t.Partitions[len(t.Partitions)-1]); last >= len(topic.by) {
				topic.by = append(topic.by, make([]*seat, last+1-len(topic.by))...)
			}
			for _, p := range t.Partitions {
				topic.by[p] = by
			}
			if by != nil {
				topic.count += len(t.Partitions)
			} else if topic.count -= len(t.Partitions); topic.count == 0 {
				delete(g.owners, t.ID)
			}
		}
	}
}

// taken reports whether somebody has the partition.
func (g *Group) taken(id entry.TopicID, partition int32) bool {
	topic := g.owners[id]
	return topic != nil && int(partition) < len(topic.by) && topic.by[partition] != nil
}

// timeRevocation sets the time by which the member must have given up what it
// was asked to. Classic members have deadlines for joining and syncing instead.
func (g *Group) timeRevocation(at *seat, now time.Time) {
	at.revoke = time.Time{}
	if at.member.Current.Phase == Revoking && at.member.Info.Classic == nil {
		at.revoke = now.Add(at.member.Info.RebalanceTimeout)
		g.wakeBy(at.revoke)
	}
}

// renew begins a member's session anew.
func (g *Group) renew(at *seat, now time.Time) {
	timeout := g.settings.SessionTimeout
	if c := at.member.Info.Classic; c != nil {
		timeout = c.SessionTimeout
	}
	at.heard = now
	at.session = now.Add(timeout)
	g.wakeBy(at.session)
}

// Stored tells what became of the entry: applied (err is nil), refused because
// the group had changed (a refusal of State.Apply), or not written. s is the
// group's state now; nil if it has none.
func (g *Group) Stored(now time.Time, s *State, err error, out *Output) {
	d := g.inFlight
	g.inFlight = nil
	g.adopt(s, now)
	upgrade := g.upgraded != nil
	g.upgraded = nil
	switch {
	case d == nil:
	case err == nil && d.downgrade != nil:
		d.release(now, out)
		for _, p := range g.parked {
			switch p.request.(type) {
			case *Job, *Resolution:
			default:
				out.Rerouted = append(out.Rerouted, p.request)
			}
		}
		g.parked = nil
		return
	case err == nil:
		d.release(now, out)
	case kerr.Of(err) == kerr.CoordinatorNotAvailable && s.index() != d.base.Index && !upgrade:
		d.disown()
		d.askAgain()
		g.parked = append(d.requests(), g.parked...)
	default:
		g.refuse(now, d, out)
		return
	}
	g.resume(now, out)
}

// storeRetry is how long after a failure the group tries of itself to write
// something down.
const storeRetry = time.Second

// refuse answers the requests of a batch that could not be written down, and
// those behind it.
func (g *Group) refuse(now time.Time, d *draft, out *Output) {
	err := kerr.New(kerr.CoordinatorNotAvailable, "the change of the group could not be written down; try again")
	d.disown()
	for _, p := range g.parked {
		switch r := p.request.(type) {
		case *Job:
			g.job = nil
		case *Resolution:
			for _, pattern := range r.patterns {
				delete(g.patterns, pattern)
			}
		default:
			d.steps = append(d.steps, step{request: p.request, at: p.at})
		}
	}
	g.parked = nil
	d.askAgain()
	for i := range d.steps {
		d.steps[i].err = err
		d.steps[i].answer(out)
		d.forgive(&d.steps[i], now)
	}
	g.wakeBy(now.Add(storeRetry))
}

func (s *State) index() entry.Index {
	if s == nil {
		return 0
	}
	return s.Index
}

// maxBatch bounds the requests that are answered with one entry.
const maxBatch = 1000

// resume handles what has waited, and what the time has come for.
func (g *Group) resume(now time.Time, out *Output) {
	d := g.draft()
	n := min(len(g.parked), maxBatch)
	batch := g.parked[:n:n]
	g.parked = g.parked[n:]
	if len(g.parked) == 0 {
		g.parked = nil
	}
	for _, p := range batch {
		d.take(p, now)
	}
	d.expire(now)
	g.finish(now, d, out)
}

// handle handles a request or a result now, or when nothing is in flight.
func (g *Group) handle(now time.Time, request any, out *Output) {
	p := parked{request, now}
	if g.inFlight != nil {
		g.parked = append(g.parked, p)
		return
	}
	d := g.draft()
	d.take(p, now)
	g.finish(now, d, out)
}

// finish completes a draft, and proposes it if it changes anything.
func (g *Group) finish(now time.Time, d *draft, out *Output) {
	d.complete(now, out)
	if d.propose(out) {
		g.inFlight = d
		return
	}
	d.release(now, out)
	if len(g.parked) > 0 {
		g.resume(now, out)
	}
}

// Tick does what the time has come for.
func (g *Group) Tick(now time.Time, out *Output) {
	if g.inFlight != nil {
		g.wake = time.Time{} // Stored looks at the time
		return
	}
	g.resume(now, out)
}

// expire removes members that are silent or slow, and finds the next deadline.
func (d *draft) expire(now time.Time) {
	g := d.g
	if len(g.parked) > 0 {
		return // their senders are not silent
	}
	var gone []string
	g.wake = time.Time{}
	for id, at := range g.seats {
		if (due(at.session, now) || at.slow(now)) && d.member(id) == at.member { // else it has just gone
			gone = append(gone, id)
		}
		for _, t := range [...]time.Time{at.session, at.revoke, at.join, at.sync} {
			if now.Before(t) {
				g.wakeBy(t)
			}
		}
	}
	slices.Sort(gone)
	for _, id := range gone {
		d.throwOut(g.seats[id])
	}
}

// slow reports whether at the time the member should have done something that it
// has not.
func (at *seat) slow(t time.Time) bool {
	return due(at.revoke, t) || due(at.join, t) || due(at.sync, t)
}

// expireSlow removes the member if it was slow already when its request came, as
// Tick would have done at that time. One that was only silent may go on.
func (d *draft) expireSlow(id string, came time.Time) {
	if at := d.g.seats[id]; at != nil && at.slow(came) && d.member(id) == at.member {
		d.throwOut(at)
	}
}

func (d *draft) throwOut(at *seat) {
	d.expired = append(d.expired, Expired{at.member.ID, at.heard})
	d.remove(at.member.ID)
}

func due(deadline, now time.Time) bool { return !deadline.IsZero() && !now.Before(deadline) }
