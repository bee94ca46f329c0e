package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicemq/sluice/tests/e2e/node"
	"github.com/sluicemq/sluice/tests/e2e/raw"
)

// Exit codes of the commands that talk to a broker.
const (
	exitNotFound = 3
	exitInUse    = 4
)

// groups runs sluice groups against a node.
func groups(t testing.TB, n *node.Node, args ...string) node.Outcome {
	t.Helper()
	return node.Run(t, nil, append([]string{"groups", args[0], "--bootstrap", n.Addr()}, args[1:]...)...)
}

// groupsJSON runs it, and reads what it prints.
func groupsJSON(t testing.TB, n *node.Node, into any, args ...string) {
	t.Helper()
	o := groups(t, n, append(args, "--output", "json")...)
	if o.Code != exitOK || o.Stderr != "" {
		t.Fatalf("sluice groups %s: %+v", strings.Join(args, " "), o)
	}
	if err := json.Unmarshal([]byte(o.Stdout), into); err != nil {
		t.Fatalf("sluice groups %s: %v\n%s", strings.Join(args, " "), err, o.Stdout)
	}
}

// now returns the present time in milliseconds, count times.
func now(count int) []int64 { return slices.Repeat([]int64{time.Now().UnixMilli()}, count) }

// shownGroup is what groups describe tells programs.
type shownGroup struct {
	Group, Kind, State, Protocol string
	Members                      []struct {
		ID, Instance string
		Client       string `json:"client_id"`
		Host         string
		Assigned     map[string][]int32
	}
	Partitions []struct {
		Topic               string
		Partition           int32
		Committed, End, Lag *int64
		Member              string
	}
}

// shownReset is what groups reset tells programs.
type shownReset struct {
	Group    string
	Executed bool
	Offsets  []struct {
		Topic     string
		Partition int32
		From      *int64
		To        int64
	}
}

// to returns the offsets by partition.
func (r *shownReset) to() (offsets []int64) {
	for _, o := range r.Offsets {
		offsets = append(offsets, o.To)
	}
	return offsets
}

func TestALiveGroupIsListedAndDescribedAndKeptFromHarm(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{Set: []string{"group.initial.rebalance.delay.ms=0"}})
	c := raw.Dial(t, n.Addr())
	tp := makeTopic(t, c, "work", 3)
	write(t, c, tp, 0, records(now(5)...))
	write(t, c, tp, 2, records(now(2)...))

	cl := newFranz(t, n, kgo.ClientID("worker"), kgo.InstanceID("one"), kgo.ConsumerGroup("workers"), kgo.ConsumeTopics("work"),
		kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	read := poll(t, cl, 7)
	if err := cl.CommitRecords(deadline(t), slices.DeleteFunc(read, func(r *kgo.Record) bool { return r.Partition == 0 && r.Offset > 2 })...); err != nil {
		t.Fatal(err)
	}

	var listed []map[string]string
	groupsJSON(t, n, &listed, "list")
	if len(listed) != 1 || listed[0]["group"] != "workers" || listed[0]["kind"] != "classic" || listed[0]["state"] != "Stable" || listed[0]["protocol_type"] != "consumer" {
		t.Errorf("list: %v", listed)
	}
	if o := groups(t, n, "list", "--state", "Empty"); o.Code != exitOK || strings.Contains(o.Stdout, "workers") || !strings.Contains(o.Stdout, "GROUP") {
		t.Errorf("list of empty groups: %+v", o)
	}

	var g shownGroup
	groupsJSON(t, n, &g, "describe", "workers")
	if g.State != "Stable" || g.Protocol == "" || len(g.Members) != 1 || len(g.Partitions) != 3 {
		t.Fatalf("describe: %+v", g)
	}
	m := g.Members[0]
	if m.Instance != "one" || m.Client != "worker" || m.Host == "" || !slices.Equal(m.Assigned["work"], []int32{0, 1, 2}) {
		t.Errorf("member: %+v", m)
	}
	for i, want := range []string{"3 5 2", "nothing", "2 2 0"} {
		p, got := g.Partitions[i], "nothing"
		if p.Committed != nil {
			got = fmt.Sprint(*p.Committed, *p.End, *p.Lag)
		}
		if got != want || p.Member != m.ID || p.Topic != "work" || int(p.Partition) != i {
			t.Errorf("partition %d: %s, want %s; %+v", i, got, want, p)
		}
	}
	text := groups(t, n, "describe", "workers")
	for _, want := range []string{"group workers, classic, Stable", "1 members", "work:0-2", "worker"} {
		if text.Code != exitOK || !strings.Contains(text.Stdout, want) {
			t.Errorf("describe for people does not tell %q: %+v", want, text)
		}
	}

	for _, args := range [][]string{{"delete", "workers"}, {"reset", "workers", "--topic", "work", "--to-earliest"}, {"reset", "workers", "--topic", "work", "--to-earliest", "--execute"}} {
		o := groups(t, n, args...)
		if o.Code != exitInUse || !strings.Contains(o.Stderr, `group "workers" has`) || strings.Count(o.Stderr, "\n") != 1 || o.Stdout != "" {
			t.Errorf("%v: %+v", args, o)
		}
	}
	groupsJSON(t, n, &g, "describe", "workers")
	if g.Partitions[0].Committed == nil || *g.Partitions[0].Committed != 3 {
		t.Errorf("after refusals: %+v", g.Partitions[0])
	}
}

func TestOffsetsOfAGroupAreResetWhenToldSo(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	tp := makeTopic(t, c, "work", 2)
	times := []time.Time{time.Now().Add(-3 * time.Hour).Truncate(time.Second), time.Now().Add(-2 * time.Hour).Truncate(time.Second)}
	cl := newFranz(t, n, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for _, at := range times {
		if err := cl.ProduceSync(deadline(t), &kgo.Record{Topic: "work", Value: []byte("x"), Timestamp: at}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	write(t, c, tp, 1, records(now(4)...))

	committed := func() string {
		var g shownGroup
		groupsJSON(t, n, &g, "describe", "g")
		var out []string
		for _, p := range g.Partitions {
			out = append(out, fmt.Sprintf("%d:%d/%d", p.Partition, *p.Committed, *p.Lag))
		}
		return strings.Join(out, " ")
	}
	var r shownReset
	groupsJSON(t, n, &r, "reset", "g", "--topic", "work", "--to-latest")
	if r.Executed || !slices.Equal(r.to(), []int64{2, 4}) || r.Offsets[0].From != nil {
		t.Errorf("shown: %+v", r)
	}
	if o := groups(t, n, "describe", "g"); o.Code != exitNotFound {
		t.Errorf("showing made the group: %+v", o)
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--to-latest"}, "0:2/0 1:4/0"},
		{[]string{"--to-earliest", "--partition", "1"}, "0:2/0 1:0/4"},
		{[]string{"--to-offset", "3"}, "0:2/0 1:3/1"},
		{[]string{"--to-offset", "0", "--partition", "0,1"}, "0:0/2 1:0/4"},
		{[]string{"--to-datetime", times[1].UTC().Format(time.RFC3339)}, "0:1/1 1:0/4"},
		{[]string{"--to-datetime", times[0].Add(-time.Hour).UTC().Format(time.RFC3339), "--partition", "0"}, "0:0/2 1:0/4"},
		{[]string{"--to-datetime", time.Now().Add(time.Hour).Format(time.RFC3339)}, "0:2/0 1:4/0"},
	} {
		o := groups(t, n, append([]string{"reset", "g", "--topic", "work", "--execute"}, test.args...)...)
		if got := committed(); o.Code != exitOK || got != test.want {
			t.Errorf("%v: %s, want %s; %+v", test.args, got, test.want, o)
		}
	}
	if o := groups(t, n, "reset", "g", "--topic", "work", "--to-earliest"); !strings.Contains(o.Stdout, "--execute") || committed() != "0:2/0 1:4/0" {
		t.Errorf("shown to people: %+v", o)
	}

	if o := groups(t, n, "delete", "g"); o.Code != exitOK || o.Stdout != "group g is deleted\n" {
		t.Errorf("delete: %+v", o)
	}
	for _, args := range [][]string{
		{"delete", "g"}, {"describe", "g"}, {"reset", "g", "--topic", "none", "--to-latest"}, {"reset", "g", "--topic", "work", "--to-latest", "--partition", "2"},
	} {
		if o := groups(t, n, args...); o.Code != exitNotFound || strings.Count(o.Stderr, "\n") != 1 || o.Stdout != "" {
			t.Errorf("%v: %+v", args, o)
		}
	}
}

func TestMistakesOnTheCommandLineOfGroupsAreExplained(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"groups"}, {"groups", "describe"}, {"groups", "reset", "g", "--to-latest"}, {"groups", "reset", "g", "--topic", "t"},
		{"groups", "reset", "g", "--topic", "t", "--to-latest", "--to-earliest"}, {"groups", "reset", "g", "--topic", "t", "--to-datetime", "yesterday"},
	} {
		if o := node.Run(t, nil, args...); o.Code != exitUsage {
			t.Errorf("%v: exit code %d, %q", args, o.Code, o.Stderr)
		}
	}
	if o := node.Run(t, nil, "groups", "reset", "g", "--topic", "t", "--to-offset=-1"); o.Code != exitFailed || !strings.Contains(o.Stderr, "--to-offset is -1") {
		t.Errorf("negative offset: %+v", o)
	}
	// Nobody listens at port 1.
	if o := node.Run(t, nil, "groups", "list", "--bootstrap", "127.0.0.1:1", "--timeout", "3s"); o.Code != exitFailed ||
		!strings.Contains(o.Stderr, "127.0.0.1:1") || strings.Count(o.Stderr, "\n") != 1 || o.Stdout != "" {
		t.Errorf("no broker: %+v", o)
	}
	if o := node.Run(t, nil, "groups", "--help"); o.Code != exitOK || !strings.Contains(o.Stdout, "Exit codes") || !strings.Contains(o.Stdout, "groups reset") {
		t.Errorf("help: %+v", o)
	}
}
