package classic

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// world is a group as a scenario drives it: time stands still but for "tick", and
// entries are on their way until "stored".
type world struct {
	limits  Limits
	now     time.Time
	group   *Group
	hard    *Metadata // as the state would have it
	entries []Entry   // on their way
	tickets map[Ticket]string
	last    Ticket
	out     strings.Builder
}

func epoch() time.Time { return time.Unix(1_000_000, 0) }

func newWorld() *world {
	w := &world{
		limits: Limits{
			MinSessionTimeout: 6 * time.Second, MaxSessionTimeout: 30 * time.Minute, InitialDelay: 3 * time.Second,
			MaxMembers: math.MaxInt32, MaxBytes: 1 << 20, MaxPending: 3,
		},
		now:     epoch(),
		tickets: map[Ticket]string{},
	}
	w.group = New("g", &w.limits)
	return w
}

// TestScenarios runs the files of testdata/scenarios. Each command is one line of
// input; what follows from it is the output.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		w := newWorld()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			w.out.Reset()
			w.run(t, d.Cmd, d.CmdArgs)
			for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
				if line == "" {
					continue
				}
				cmd, args, err := datadriven.ParseLine(line)
				if err != nil {
					d.Fatalf(t, "%s: %v", line, err)
				}
				w.run(t, cmd, args)
			}
			if w.out.Len() == 0 {
				return "ok\n"
			}
			return w.out.String()
		})
	})
}

func (w *world) printf(format string, args ...any) { fmt.Fprintf(&w.out, format+"\n", args...) }

// args reads the arguments of a command: the first that has no value is a name.
type args []datadriven.CmdArg

func (a args) name() string {
	for _, arg := range a {
		if len(arg.Vals) == 0 {
			return arg.Key
		}
	}
	return ""
}

func (a args) text(key, otherwise string) string {
	for _, arg := range a {
		if arg.Key == key && len(arg.Vals) > 0 {
			return strings.Join(arg.Vals, ",")
		}
	}
	return otherwise
}

func (a args) duration(key string, otherwise time.Duration) time.Duration {
	d, err := time.ParseDuration(a.text(key, otherwise.String()))
	if err != nil {
		return otherwise
	}
	return d
}

func (a args) int(key string, otherwise int) int {
	n, err := strconv.Atoi(a.text(key, strconv.Itoa(otherwise)))
	if err != nil {
		return otherwise
	}
	return n
}

func (w *world) run(t *testing.T, cmd string, cmdArgs []datadriven.CmdArg) {
	a := args(cmdArgs)
	var out Output
	switch cmd {
	case "limits":
		w.limits.InitialDelay = a.duration("delay", w.limits.InitialDelay)
		w.limits.MaxMembers = a.int("members", w.limits.MaxMembers)
		w.limits.MaxBytes = a.int("bytes", w.limits.MaxBytes)
	case "join":
		q := w.join(a)
		if err := w.limits.Check(q); err != nil {
			w.printf("%v", code(err))
			return
		}
		w.group.Join(w.now, q, &out)
	case "sync":
		w.group.Sync(w.now, w.sync(a), &out)
	case "heartbeat":
		w.printf("%v", code(w.group.Heartbeat(w.now, a.text("id", ""), a.text("instance", ""), int32(a.int("gen", 0)))))
	case "leave":
		for _, err := range w.group.Leave(w.now, []Leaver{{a.text("id", ""), a.text("instance", "")}}, &out) {
			w.printf("%v", code(err))
		}
	case "commit":
		id, instance, generation := a.text("id", ""), a.text("instance", ""), int32(a.int("gen", -1))
		soft := w.group.CheckCommit(w.now, id, instance, generation)
		w.printf("proposed: %v, applied: %v", code(soft), code(w.hard.AdmitCommit([]byte(id), []byte(instance), generation)))
	case "gone":
		for ticket, name := range w.tickets {
			if name == a.name() {
				w.group.Gone(w.now, ticket, &out)
				delete(w.tickets, ticket)
			}
		}
	case "stored":
		w.stored(t, a.text("error", ""), &out)
	case "tick":
		w.tick(a.duration("for", 0), &out)
	case "restart":
		w.entries = nil
		w.group = New("g", &w.limits)
		if w.hard != nil {
			w.group = Restore("g", &w.limits, w.hard, w.now)
		}
	case "state":
		w.state()
	case "subscribed":
		w.printf("%v", w.group.Subscribes(a.name()))
	default:
		t.Fatalf("unknown command %q", cmd)
	}
	w.show(&out)
}

// join reads: join NAME [id=] [instance=] [new=] [session=] [rebalance=] [type=]
// [protocols=range:metadata,sticky:metadata] [v=9]
func (w *world) join(a args) *Join {
	q := &Join{
		MemberID: a.text("id", ""), Instance: a.text("instance", ""),
		ClientID: a.name(), ClientHost: "/10.0.0.1",
		SessionTimeout: a.duration("session", 45*time.Second), RebalanceTimeout: a.duration("rebalance", 5*time.Minute),
		ProtocolType:   a.text("type", "consumer"),
		IDRequired:     a.int("v", 9) >= 4,
		SkipAssignment: a.int("v", 9) >= 9,
	}
	if q.MemberID == "" {
		q.NewID = a.text("new", a.name()+"-1")
	}
	for _, p := range strings.Split(a.text("protocols", "range:m"), ",") {
		if name, metadata, _ := strings.Cut(p, ":"); name != "" {
			q.Protocols = append(q.Protocols, Protocol{name, decodeMetadata(metadata)})
		}
	}
	q.Ticket = w.ticket(a.name())
	return q
}

// decodeMetadata makes a subscription of what begins with '+': topics.
func decodeMetadata(s string) []byte {
	topics, ok := strings.CutPrefix(s, "+")
	if !ok {
		return []byte(s)
	}
	b := []byte{0, 1, 0, 0, 0, 0}
	for _, topic := range strings.Split(topics, "+") {
		b[5]++
		b = append(b, 0, byte(len(topic)))
		b = append(b, topic...)
	}
	return append(b, 0, 0, 0, 0)
}

// sync reads: sync NAME id= gen= [instance=] [assign=ID:WORK,ID:WORK] [protocol=] [type=]
func (w *world) sync(a args) *Sync {
	q := &Sync{MemberID: a.text("id", ""), Instance: a.text("instance", ""), Generation: int32(a.int("gen", 0)), Ticket: w.ticket(a.name())}
	if p := a.text("protocol", ""); p != "" {
		q.Protocol = &p
	}
	if p := a.text("type", ""); p != "" {
		q.ProtocolType = &p
	}
	for _, one := range strings.Split(a.text("assign", ""), ",") {
		if id, work, ok := strings.Cut(one, ":"); ok {
			q.Assignments = append(q.Assignments, Assignment{id, []byte(work)})
		}
	}
	return q
}

func (w *world) ticket(name string) Ticket {
	w.last++
	w.tickets[w.last] = name
	return w.last
}

// stored applies the entries on their way, or refuses them.
func (w *world) stored(t *testing.T, refusal string, out *Output) {
	entries := w.entries
	w.entries = nil
	for i := range entries {
		var err error
		if refusal != "" {
			err = kerr.New(kerr.CoordinatorNotAvailable, "%s", refusal)
		} else {
			err = w.apply(t, &entries[i])
		}
		if err != nil {
			w.printf("entry %d: %v", entries[i].Number, code(err))
		}
		w.group.Stored(w.now, entries[i].Number, err, w.hard, out)
	}
}

// apply does with an entry what the state does with its payload.
func (w *world) apply(t *testing.T, e *Entry) error {
	var next *Metadata
	if e.Metadata != nil {
		_, m, err := DecodeGroup(AppendGroup(nil, "g", e.Metadata))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.hard.Admit(m); err != nil {
			return err
		}
		next = m
	} else {
		p, err := DecodeReplacement(e.Replacement.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		if next, err = w.hard.Replace(p); err != nil {
			return err
		}
	}
	next.Since = entry.TimeOf(w.now)
	read, err := DecodeValue(next.AppendValue(nil))
	if err != nil {
		t.Fatal(err)
	}
	w.hard = read
	return nil
}

// tick lets time pass, and calls the group when it asks for it.
func (w *world) tick(d time.Duration, out *Output) {
	until := w.now.Add(d)
	for wake := w.group.Wake(); !wake.IsZero() && !wake.After(until); wake = w.group.Wake() {
		if wake.After(w.now) {
			w.now = wake
		}
		w.group.Tick(w.now, out)
		w.show(out)
		*out = Output{}
	}
	w.now = until
}

func code(err error) string {
	if err == nil {
		return "ok"
	}
	return kerr.Of(err).String()
}

func (w *world) show(out *Output) {
	at := ""
	if out.Joined != nil || out.Synced != nil || out.Entries != nil || out.Expired != nil {
		if d := w.now.Sub(epoch()); d > 0 {
			at = fmt.Sprintf("%v: ", d)
		}
	}
	for _, m := range out.Expired {
		w.printf("%s%s expires", at, m.ID)
	}
	for i := range out.Joined {
		a := &out.Joined[i]
		name := w.tickets[a.Ticket]
		delete(w.tickets, a.Ticket)
		if a.Err != nil {
			w.printf("%s%s joined: %s id=%s", at, name, code(a.Err), a.MemberID)
			continue
		}
		line := fmt.Sprintf("%s%s joined: gen=%d id=%s leader=%s %s/%s", at, name, a.Generation, a.MemberID, a.Leader, a.ProtocolType, a.Protocol)
		for _, m := range a.Members {
			line += fmt.Sprintf(" [%s %s%q]", m.MemberID, prefixed(m.Instance), m.Metadata)
		}
		if a.SkipAssignment {
			line += " skip"
		}
		w.printf("%s", line)
	}
	for i := range out.Synced {
		a := &out.Synced[i]
		name := w.tickets[a.Ticket]
		delete(w.tickets, a.Ticket)
		if a.Err != nil {
			w.printf("%s%s synced: %s", at, name, code(a.Err))
			continue
		}
		w.printf("%s%s synced: %s/%s %q", at, name, a.ProtocolType, a.Protocol, a.Assignment)
	}
	for i := range out.Entries {
		e := &out.Entries[i]
		w.entries = append(w.entries, *e)
		if e.Replacement != nil {
			w.printf("%sentry %d: gen=%d %s becomes %s", at, e.Number, e.Replacement.Generation, e.Replacement.OldID, e.Replacement.Member.ID)
			continue
		}
		line := fmt.Sprintf("%sentry %d: gen=%d type=%s protocol=%s leader=%s", at, e.Number, e.Metadata.Generation,
			e.Metadata.ProtocolType, e.Metadata.Protocol, e.Metadata.Leader)
		for _, m := range e.Metadata.Members {
			line += fmt.Sprintf(" [%s %s%q]", m.ID, prefixed(m.Instance), m.Assignment)
		}
		w.printf("%s", line)
	}
}

func prefixed(instance string) string {
	if instance == "" {
		return ""
	}
	return "@" + instance + " "
}

func (w *world) state() {
	g := w.group
	line := fmt.Sprintf("%s gen=%d", g.state, g.generation)
	if len(g.members) > 0 {
		line += " leader=" + g.leader
	}
	for _, m := range g.members {
		line += fmt.Sprintf(" [%s", m.ID)
		if m.join != 0 {
			line += " joining"
		}
		if m.sync != 0 {
			line += " syncing"
		}
		line += "]"
	}
	if n := len(g.pending); n > 0 {
		line += fmt.Sprintf(" pending=%d", n)
	}
	if g.Idle() {
		line += " idle"
	}
	w.printf("%s", line)
}
