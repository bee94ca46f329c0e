package consumer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/sluicemq/sluice/group/assign"
	"github.com/sluicemq/sluice/group/classic"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// TestScenarios runs testdata/scenarios. Commands:
//
//	topics a=3 b=2 c=0         make topics, resize them, delete them (0)
//	settings interval=1s ...   see settings
//	join m1 topics=(a,b) ...   a heartbeat with epoch 0 and all fields
//	beat m1 epoch=1 ...        a heartbeat; owned=(a:0,1) owned=none regex= ...
//	tick 45s                   let time pass
//	hold, apply, fail, write   hold entries back, apply the one on its way, ...
//	state                      the hard state
//	restart                    load what a checkpoint has written
//	oldjoin, oldsync, oldbeat, oldleave   the classic protocol
//	upgrade                    a classic group becomes this one
//	commit, fetch              who may
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		s := &scenario{world: newWorld(newCatalog()), t: t}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.out.Reset()
			s.run(d)
			return s.out.String()
		})
	})
}

type scenario struct {
	*world
	t      *testing.T
	out    strings.Builder
	ticket Ticket
	names  map[Ticket]string // what to call the sender of a request that waits
}

func (s *scenario) printf(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

// arguments splits "x key=(a,b) key=c".
func arguments(d *datadriven.TestData) (words []string, named map[string][]string) {
	named = map[string][]string{}
	for _, a := range d.CmdArgs {
		if len(a.Vals) == 0 {
			words = append(words, a.Key)
			continue
		}
		named[a.Key] = a.Vals
	}
	return words, named
}

func (s *scenario) run(d *datadriven.TestData) {
	words, named := arguments(d)
	switch d.Cmd {
	case "topics":
		for _, a := range d.CmdArgs {
			n, err := strconv.Atoi(a.Vals[0])
			if err != nil {
				d.Fatalf(s.t, "%v", err)
			}
			s.topics.set(a.Key, int32(n))
		}
	case "settings":
		s.set(d, named)
	case "join", "beat":
		s.heartbeat(d.Cmd == "join", words[0], named)
	case "tick":
		before := len(s.expired)
		dur, err := time.ParseDuration(words[0])
		if err != nil {
			d.Fatalf(s.t, "%v", err)
		}
		s.tick(dur)
		for _, id := range s.expired[before:] {
			s.printf("%s expired", id)
		}
	case "hold":
		s.hold = true
	case "apply":
		s.hold = false
		s.apply()
	case "fail":
		s.fail = true
	case "write":
		s.fail = false
	case "holdjobs":
		s.holdJobs = true
	case "runjobs":
		s.holdJobs = false
		s.runJobs()
	case "restart":
		s.restart()
	case "state":
		s.showState()
	case "oldjoin":
		s.oldJoin(words[0], named)
	case "oldsync":
		s.oldSync(words[0], named)
	case "oldbeat":
		err := s.group.ClassicHeartbeat(s.now, words[0], one(named, "instance"), number(named, "epoch"))
		s.printf("%v", kerr.Of(err))
	case "oldleave":
		s.oldLeave(words, named)
	case "upgrade":
		s.upgrade(d.Input)
	case "classic":
		s.showClassic()
	case "commit":
		s.commit(words, named)
	case "fetch":
		id := &words[0]
		if *id == "nobody" {
			id = nil
		}
		s.printf("%v", kerr.Of(s.state.CheckFetch(id, number(named, "epoch"))))
	default:
		d.Fatalf(s.t, "unknown command %q", d.Cmd)
	}
	s.answers()
}

func (s *scenario) set(d *datadriven.TestData, named map[string][]string) {
	next := *s.settings
	for key, v := range named {
		dur, _ := time.ParseDuration(v[0])
		n, _ := strconv.Atoi(v[0])
		switch key {
		case "interval":
			next.AssignmentInterval = dur
		case "session":
			next.SessionTimeout = dur
		case "max":
			next.MaxMembers = n
		case "bytes":
			next.MaxBytes = n
		case "inline":
			next.MaxInline = n
		case "downgrade":
			next.Downgrade = v[0] == "yes"
		default:
			d.Fatalf(s.t, "unknown setting %q", key)
		}
	}
	s.settings = &next
	s.group.SetSettings(s.settings)
}

func one(named map[string][]string, key string) string {
	if v := named[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func number(named map[string][]string, key string) int32 {
	n, _ := strconv.Atoi(one(named, key))
	return int32(n)
}

func optional(named map[string][]string, key string) *string {
	if v, ok := named[key]; ok {
		return ptr(strings.Trim(strings.Join(v, ","), `"`))
	}
	return nil
}

// assignment reads owned=(a:0,b:1+2) or owned=none.
func (s *scenario) assignment(words []string) assign.Assignment {
	var all []string
	for _, w := range words {
		if w != "none" {
			all = append(all, strings.ReplaceAll(w, "+", ","))
		}
	}
	return s.topics.parse(all...)
}

func (s *scenario) heartbeat(join bool, id string, named map[string][]string) {
	s.ticket++
	h := &Heartbeat{Ticket: s.ticket, MemberID: id, NewID: "new-" + fmt.Sprint(s.ticket), ClientID: "c", ClientHost: "h", RebalanceTimeout: -1}
	if id == "?" {
		h.MemberID = ""
	}
	h.Epoch = number(named, "epoch")
	if join {
		h.RebalanceTimeout = 60 * time.Second
		h.HasTopics = named["regex"] == nil
		h.Owned = ptr(assign.Assignment(nil))
	}
	if v, ok := named["topics"]; ok {
		h.HasTopics = true
		for _, topic := range v {
			if topic != "none" {
				h.Topics = append(h.Topics, topic)
			}
		}
	}
	if v, ok := named["owned"]; ok {
		h.Owned = ptr(s.assignment(v))
	}
	if v := one(named, "timeout"); v != "" {
		h.RebalanceTimeout, _ = time.ParseDuration(v)
	}
	h.Instance, h.Rack, h.Regex, h.Assignor = optional(named, "instance"), optional(named, "rack"), optional(named, "regex"), optional(named, "assignor")
	if hidden := one(named, "hidden"); hidden != "" {
		h.Visible = func(topic string) bool { return topic != hidden }
	}
	if err := h.Check(named["v0"] == nil && id != "?", s.settings.Assignors); err != nil {
		s.printf("%v", kerr.Of(err))
		return
	}
	s.name(id)
	s.call(func(out *Output) { s.group.Heartbeat(s.now, h, out) })
}

func (s *scenario) name(id string) {
	if s.names == nil {
		s.names = map[Ticket]string{}
	}
	s.names[s.ticket] = id
}

// answers prints what was answered since the last command.
func (s *scenario) answers() {
	for _, t := range sorted(s.beaten) {
		a := s.beaten[t]
		switch {
		case a.Err != nil:
			s.printf("%s: %v", s.names[t], kerr.Of(a.Err))
		case a.Assigned == nil:
			s.printf("%s: epoch %d%s", a.MemberID, a.Epoch, s.hurry(a))
		default:
			s.printf("%s: epoch %d%s, assigned %s", a.MemberID, a.Epoch, s.hurry(a), s.topics.text(*a.Assigned))
		}
	}
	for _, t := range sorted(s.joined) {
		a := s.joined[t]
		if a.Err != nil {
			s.printf("%s: %v %s", s.names[t], kerr.Of(a.Err), a.MemberID)
			continue
		}
		s.printf("%s: generation %d, protocol %s", a.MemberID, a.Generation, a.Protocol)
	}
	for _, t := range sorted(s.left) {
		for _, err := range s.left[t].Errs {
			s.printf("left: %v", kerr.Of(err))
		}
		if err := s.left[t].Err; err != nil {
			s.printf("left: %v", kerr.Of(err))
		}
	}
	clear(s.beaten)
	clear(s.joined)
	clear(s.left)
	for _, r := range s.rerouted {
		s.printf("rerouted %T", r)
	}
	s.rerouted = nil
}

func (s *scenario) hurry(a Beaten) string {
	if a.Epoch >= 0 && a.Interval != s.settings.HeartbeatInterval {
		return fmt.Sprintf(" (again in %v)", a.Interval)
	}
	return ""
}

func sorted[V any](m map[Ticket]V) []Ticket {
	var all []Ticket
	for t := range m {
		all = append(all, t)
	}
	slices.Sort(all)
	return all
}

var phases = [...]string{"settled", "revoking", "waiting"}

func (s *scenario) showState() {
	st := s.state
	s.printf("%s", st.Life())
	if st == nil {
		return
	}
	s.printf("epoch %d, target %d, entries %d", st.Epoch, st.TargetEpoch, s.entries)
	for _, m := range st.Members {
		c := m.Current
		line := fmt.Sprintf("%s: %s in epoch %d after %d, has %s", m.ID, phases[c.Phase], c.Epoch, c.Previous, s.topics.text(c.Assigned.Set))
		if len(c.Revoked.Set) > 0 {
			line += ", gives up " + s.topics.text(c.Revoked.Set)
		}
		line += ", target " + s.topics.text(m.Target)
		if m.Info.Instance != "" {
			line += ", instance " + m.Info.Instance
		}
		s.printf("%s", line)
	}
	for _, r := range st.Regexes {
		s.printf("%s matches %v", r.Pattern, r.Topics)
	}
}

// subscriptionBytes is a ConsumerProtocolSubscription of version 3.
func subscriptionBytes(topics []string, owned []namedPartitions, rack string) []byte {
	text := func(b []byte, s string) []byte { return append(append(b, byte(len(s)>>8), byte(len(s))), s...) }
	number := func(b []byte, n int) []byte { return append(b, byte(n>>24), byte(n>>16), byte(n>>8), byte(n)) }
	b := number([]byte{0, 3}, len(topics))
	for _, t := range topics {
		b = text(b, t)
	}
	b = number(b, -1)
	b = number(b, len(owned))
	for _, o := range owned {
		b = number(text(b, o.topic), len(o.partitions))
		for _, p := range o.partitions {
			b = number(b, int(p))
		}
	}
	b = number(b, 7)
	if rack == "" {
		return append(b, 0xff, 0xff)
	}
	return text(b, rack)
}

func (s *scenario) named(set assign.Assignment) []namedPartitions {
	var out []namedPartitions
	for _, t := range set {
		name, _ := s.topics.Name(t.ID)
		out = append(out, namedPartitions{name, t.Partitions})
	}
	return out
}

func (s *scenario) oldJoin(id string, named map[string][]string) {
	s.ticket++
	j := &classic.Join{
		Ticket: s.ticket, MemberID: id, NewID: "new-" + fmt.Sprint(s.ticket), Instance: one(named, "instance"),
		ClientID: "c", ClientHost: "h", SessionTimeout: 30 * time.Second, RebalanceTimeout: 60 * time.Second,
		ProtocolType: "consumer", IDRequired: true,
	}
	if id == "?" {
		j.MemberID = ""
	}
	if v := one(named, "type"); v != "" {
		j.ProtocolType = v
	}
	protocols := named["protocols"]
	if protocols == nil {
		protocols = []string{"range"}
	}
	metadata := subscriptionBytes(named["topics"], s.named(s.assignment(named["owned"])), "")
	if one(named, "broken") != "" {
		metadata = metadata[:5]
	}
	for _, p := range protocols {
		j.Protocols = append(j.Protocols, classic.Protocol{Name: p, Metadata: metadata})
	}
	s.name(id)
	s.call(func(out *Output) { s.group.Join(s.now, j, out) })
}

func (s *scenario) oldSync(id string, named map[string][]string) {
	a := s.group.Sync(s.now, &classic.Sync{MemberID: id, Instance: one(named, "instance"), Generation: number(named, "epoch"), Protocol: optional(named, "protocol")})
	if a.Err != nil {
		s.printf("%v", kerr.Of(a.Err))
		return
	}
	parts, err := parseAssignment(a.Assignment)
	if err != nil {
		s.t.Fatal(err)
	}
	s.printf("%s of %s: %s", a.Protocol, a.ProtocolType, s.topics.text(byID(parts, s.topics)))
}

func (s *scenario) oldLeave(words []string, named map[string][]string) {
	s.ticket++
	l := &Leave{Ticket: s.ticket}
	for _, w := range words {
		l.Leavers = append(l.Leavers, classic.Leaver{MemberID: w, Instance: one(named, "instance")})
	}
	if len(words) == 0 {
		l.Leavers = append(l.Leavers, classic.Leaver{Instance: one(named, "instance")})
	}
	s.call(func(out *Output) { s.group.Leave(s.now, l, out) })
}

// upgrade reads lines "m1 topic:0+1 topic:2".
func (s *scenario) upgrade(input string) {
	m := &classic.Metadata{Generation: 7, ProtocolType: "consumer", Protocol: "range"}
	for _, line := range strings.Split(strings.TrimSpace(input), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		set := s.assignment(words[1:])
		var topics []string
		for _, n := range s.named(set) {
			topics = append(topics, n.topic)
		}
		m.Leader = words[0]
		m.Members = append(m.Members, classic.Member{
			ID: words[0], ClientID: "c", ClientHost: "h", SessionTimeout: 30 * time.Second, RebalanceTimeout: 60 * time.Second,
			Protocols:  []classic.Protocol{{Name: "range", Metadata: subscriptionBytes(topics, nil, "")}},
			Assignment: appendAssignment(nil, 3, set, s.topics.Name),
		})
	}
	g, err := Upgrade("g", s.settings, s.topics, m)
	if err != nil {
		s.printf("%v", kerr.Of(err))
		return
	}
	s.group, s.state = g, nil
}

func (s *scenario) showClassic() {
	if s.classic == nil {
		s.printf("none")
		return
	}
	s.printf("generation %d, protocol %s", s.classic.Generation, s.classic.Protocol)
	for _, m := range s.classic.Members {
		parts, err := parseAssignment(m.Assignment)
		if err != nil {
			s.t.Fatal(err)
		}
		s.printf("%s: %s", m.ID, s.topics.text(byID(parts, s.topics)))
	}
}

func (s *scenario) commit(words []string, named map[string][]string) {
	id := words[0]
	if id == "nobody" {
		id = ""
	}
	version := int16(9)
	if v := number(named, "version"); v != 0 {
		version = int16(v)
	}
	c, err := s.state.CheckCommit(id, number(named, "epoch"), version, slices.Contains(words[1:], "txn"))
	if err != nil {
		s.printf("%v", kerr.Of(err))
		return
	}
	for _, t := range s.assignment(named["partitions"]) {
		for _, p := range t.Partitions {
			name, _ := s.topics.Name(t.ID)
			s.printf("%s:%d %v", name, p, kerr.Of(c.May(t.ID, p)))
		}
	}
	if len(named["partitions"]) == 0 {
		s.printf("%v", kerr.Of(nil))
	}
}
