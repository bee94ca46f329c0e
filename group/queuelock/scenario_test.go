package queuelock

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/sluicemq/sluice/log/entry"
)

// TestScenarios runs testdata/scenarios. Times are in seconds. Commands:
//
//	owners 1=a 2=b [at=10] [keep]   what is assigned; plan and apply
//	    left=(c) lost=(d:70) moved=(e:f) gone=(3)
//	fetch, commit a 1 2             who may
//	list, wake, restart, drop
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		w := newWorld()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return w.run(t, d) })
	})
}

// world is a table with its log.
type world struct {
	table *Table
	index entry.Index
	now   entry.Time
	disk  store
}

func newWorld() *world { return &world{table: New(), index: 100, disk: store{}} }

// do plans, and applies what is planned. It reports whether anything was.
func (w *world) do(s *Situation) bool {
	s.Group, s.Now = "g", w.now
	if s.Fate == nil {
		s.Fate = func(string) Fate { return Stays() }
	}
	if s.Exists == nil {
		s.Exists = func(entry.Partition) bool { return true }
	}
	payload := w.table.Plan(s)
	if payload == nil {
		return false
	}
	w.index++
	if err := w.table.Apply(&entry.Entry{Type: entry.TypeQueueLock, Index: w.index, Time: w.now, Payload: payload}); err != nil {
		panic(err)
	}
	return true
}

func (w *world) restart() error {
	w.table.Checkpoint(w.disk)
	w.table = New()
	return w.table.Load(w.disk)
}

func (w *world) run(t *testing.T, d *datadriven.TestData) string {
	var b strings.Builder
	switch d.Cmd {
	case "owners":
		s := w.situation(t, d)
		if !w.do(s) {
			b.WriteString("nothing to do\n")
		} else if w.do(s) {
			b.WriteString("and again\n")
		}
	case "fetch", "commit":
		member := d.CmdArgs[0].Key
		if member == "nobody" {
			member = ""
		}
		for _, a := range d.CmdArgs[1:] {
			p, _ := strconv.Atoi(a.Key)
			if d.Cmd == "fetch" {
				fmt.Fprintf(&b, "%d: %v\n", p, w.table.MayFetch("g", member, entry.Partition(p)))
			} else {
				fmt.Fprintf(&b, "%d: %v\n", p, w.table.MayCommit("g", member, entry.Partition(p)))
			}
		}
	case "list":
		for _, l := range w.table.List("g") {
			fmt.Fprintf(&b, "%d: %s since %d, epoch %d", l.Partition, l.Member, l.Since, l.Epoch)
			if l.Until > 0 {
				fmt.Fprintf(&b, ", until %d", l.Until)
			}
			if l.Next != "" {
				fmt.Fprintf(&b, ", then %s", l.Next)
			}
			b.WriteString("\n")
		}
	case "wake":
		fmt.Fprintln(&b, w.table.Wake("g"))
	case "restart":
		if err := w.restart(); err != nil {
			t.Fatal(err)
		}
	case "drop":
		w.table.Drop("g")
	default:
		d.Fatalf(t, "unknown command %q", d.Cmd)
	}
	return b.String()
}

func (w *world) situation(t *testing.T, d *datadriven.TestData) *Situation {
	s := &Situation{}
	fates := map[string]Fate{}
	gone := map[string]bool{}
	for _, a := range d.CmdArgs {
		if p, err := strconv.Atoi(a.Key); err == nil {
			s.Owners = append(s.Owners, Owner{entry.Partition(p), a.Vals[0]})
			continue
		}
		switch a.Key {
		case "at":
			n, _ := strconv.Atoi(a.Vals[0])
			w.now = entry.Time(n)
		case "keep":
			s.Keep = true
		case "left":
			for _, v := range a.Vals {
				fates[v] = Left()
			}
		case "lost":
			for _, v := range a.Vals {
				name, until, _ := strings.Cut(v, ":")
				n, _ := strconv.Atoi(until)
				fates[name] = Lost(entry.Time(n))
			}
		case "moved":
			for _, v := range a.Vals {
				from, to, _ := strings.Cut(v, ":")
				fates[from] = Moved(to)
			}
		case "gone":
			for _, v := range a.Vals {
				gone[v] = true
			}
		default:
			d.Fatalf(t, "unknown argument %q", a.Key)
		}
	}
	s.Fate = func(member string) Fate { return fates[member] }
	s.Exists = func(p entry.Partition) bool { return !gone[fmt.Sprint(p)] }
	return s
}
