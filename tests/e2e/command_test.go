package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/tests/e2e/node"
	"github.com/sluicemq/sluice/tests/e2e/raw"
)

// Exit codes of the program.
const (
	exitOK      = 0
	exitFailed  = 1
	exitDamaged = 2
	exitUsage   = 80
)

func TestVersionIsPrintedForPeopleAndPrograms(t *testing.T) {
	t.Parallel()
	text := node.Run(t, nil, "version")
	if text.Code != exitOK || !regexp.MustCompile(`^sluice \S+ \(go1\.\S+\)\n$`).MatchString(text.Stdout) {
		t.Errorf("%+v", text)
	}
	var parsed struct{ Version, Go string }
	js := node.Run(t, nil, "version", "--output", "json")
	if err := json.Unmarshal([]byte(js.Stdout), &parsed); err != nil || js.Code != exitOK || !strings.Contains(text.Stdout, parsed.Version) || parsed.Go == "" {
		t.Errorf("%+v, %v", js, err)
	}
}

func TestAWrongCommandLineIsExplained(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"no-such-command"}, {"serve", "--no-such-flag"}, {"log", "verify"}, {"version", "--output", "xml"}, {"log", "verify", "/no/such/folder"}} {
		o := node.Run(t, nil, args...)
		if o.Code != exitUsage || !strings.Contains(o.Stderr+o.Stdout, "sluice") {
			t.Errorf("sluice %s: exit code %d, %q", strings.Join(args, " "), o.Code, o.Stderr)
		}
	}
	if o := node.Run(t, nil, "--help"); o.Code != exitOK || !strings.Contains(o.Stdout, "serve") || !strings.Contains(o.Stdout, "log verify") {
		t.Errorf("--help: %+v", o)
	}
}

func TestMistakesInTheConfigurationStopTheStartAndAreNamed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(file, []byte("log:\n  retention:\n    ms: soon\nno.such.setting: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, test := range []struct {
		name string
		env  []string
		args []string
		want []string
	}{
		{"unknown flag setting", nil, []string{"--set", "no.such.setting=1"}, []string{"--set", "no.such.setting"}},
		{"bad flag value", nil, []string{"--set", "num.partitions=none"}, []string{"--set", "num.partitions", "none", "whole number"}},
		{"no value", nil, []string{"--set", "num.partitions"}, []string{"name=value"}},
		{"unknown variable", []string{"SLUICE_NO_SUCH_SETTING=1"}, nil, []string{"SLUICE_NO_SUCH_SETTING"}},
		{"bad variable", []string{"SLUICE_NUM_PARTITIONS=0"}, nil, []string{"SLUICE_NUM_PARTITIONS", "num.partitions"}},
		{"bad file", nil, []string{"--config", file}, []string{file, "log.retention.ms", "soon", "no.such.setting"}},
		{"missing file", nil, []string{"--config", file + ".not"}, []string{file + ".not"}},
		{"everything at once", []string{"SLUICE_FLUSH=never"}, []string{"--config", file, "--set", "node.id=-1"}, []string{"SLUICE_FLUSH", "soon", "node.id"}},
		{"settings that do not fit", nil, []string{"--set", "commitlog.segment.bytes=2000000", "--set", "message.max.bytes=3000000"}, []string{"commitlog.segment.bytes", "message.max.bytes"}},
		{"listeners that do not fit", nil, []string{"--set", "advertised.listeners=OTHER://a:1"}, []string{"advertised.listeners", "OTHER"}},
		{"a setting of Kafka that means nothing here", nil, []string{"--set", "log.flush.interval.ms=5"}, []string{"log.flush.interval.ms", "flush"}},
	} {
		o := node.Run(t, test.env, append([]string{"serve", "--data", dir, "--listen", "127.0.0.1:0", "--http", ""}, test.args...)...)
		if o.Code != exitFailed || o.Stdout != "" {
			t.Errorf("%s: exit code %d, printed %q", test.name, o.Code, o.Stdout)
		}
		for _, want := range test.want {
			if !strings.Contains(o.Stderr, want) {
				t.Errorf("%s: the error does not name %q: %s", test.name, want, o.Stderr)
			}
		}
	}
	if found, err := os.ReadDir(dir); err != nil || len(found) != 0 {
		t.Errorf("the data folder was touched: %v, %v", found, err)
	}
}

func TestFlagsGoBeforeVariablesAndThoseBeforeTheFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	text := "num.partitions: 2\nlog:\n  retention:\n    bytes: 22\nmessage.max.bytes: 222222\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	n := node.Start(t, node.Options{
		Env: []string{"SLUICE_CONFIG=" + file, "SLUICE_NUM_PARTITIONS=3", "SLUICE_LOG_RETENTION_BYTES=33"},
		Set: []string{"num.partitions=5", "num.partitions=4"},
	})
	c := raw.Dial(t, n.Addr())
	configs := described(t, c, kmsg.ConfigResourceTypeBroker, "0")
	for name, want := range map[string]string{"num.partitions": "4", "log.retention.bytes": "33", "message.max.bytes": "222222"} {
		if got := valueOf(configs[name].Value); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if got := len(metadata(c, 12, true, "made").Topics[0].Partitions); got != 4 {
		t.Errorf("a topic has %d partitions, want 4", got)
	}
}

func TestASecondBrokerOnTheSameFolderIsRefused(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	tp := makeTopic(t, c, "kept", 1)
	write(t, c, tp, 0, records(1))
	o := node.Run(t, nil, "serve", "--data", n.Dir(), "--listen", "127.0.0.1:0", "--http", "")
	if o.Code != exitFailed || !strings.Contains(o.Stderr, n.Dir()) || !strings.Contains(o.Stderr, "in use") {
		t.Errorf("exit code %d: %s", o.Code, o.Stderr)
	}
	// The address is taken as well: that is said too, and before a long recovery.
	other := t.TempDir()
	o = node.Run(t, nil, "serve", "--data", other, "--listen", n.Addr(), "--http", "")
	if o.Code != exitFailed || !strings.Contains(o.Stderr, n.Addr()) {
		t.Errorf("exit code %d: %s", o.Code, o.Stderr)
	}
	write(t, c, tp, 0, records(2))
	n.Stop()
	n.Restart()
	if got := readAll(t, raw.Dial(t, n.Addr()), tp, 0); len(got) != 2 {
		t.Errorf("%d records", len(got))
	}
}

func TestAFolderOfANewerVersionOrAnotherNodeIsNotTouched(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	write(t, c, makeTopic(t, c, "kept", 1), 0, records(1))
	n.Stop()
	meta := filepath.Join(n.Dir(), "meta.json")
	good, err := os.ReadFile(meta)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(good, &fields); err != nil {
		t.Fatal(err)
	}
	try := func(what string, args []string, want ...string) {
		t.Helper()
		o := node.Run(t, nil, append([]string{"serve", "--data", n.Dir(), "--listen", "127.0.0.1:0", "--http", ""}, args...)...)
		if o.Code != exitFailed {
			t.Errorf("%s: exit code %d", what, o.Code)
		}
		for _, w := range append(want, n.Dir()) {
			if !strings.Contains(o.Stderr, w) {
				t.Errorf("%s: the error does not say %q: %s", what, w, o.Stderr)
			}
		}
	}
	replace := func(text []byte) {
		t.Helper()
		if err := os.WriteFile(meta, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	try("another node", []string{"--set", "node.id=9"}, "node 0", "9")
	fields["version"] = 1000
	newer, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	replace(newer)
	try("a newer version", nil, "newer version", "1000")
	replace([]byte(`{"version": 1`))
	try("a meta file that is cut off", nil, "corrupt", "meta.json")
	if left, err := os.ReadFile(meta); err != nil || string(left) != `{"version": 1` {
		t.Errorf("the meta file was changed: %q, %v", left, err)
	}
	replace(good)
	n.Restart()
	if got := readAll(t, raw.Dial(t, n.Addr()), makeName("kept"), 0); len(got) != 1 {
		t.Errorf("%d records", len(got))
	}
}

func TestHealthReadinessFiguresAndProfilesAreServed(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	for path, want := range map[string]string{
		"/healthz": "ok", "/readyz": "ok", "/metrics": "sluice_log_writable 1", "/debug/pprof/": "goroutine",
		"/debug/pprof/goroutine?debug=1": "goroutine profile", "/debug/pprof/cmdline": "serve",
	} {
		if status, body := n.Get(path); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: status %d, %.200q", path, status, body)
		}
	}
	if status, _ := n.Get("/no/such/page"); status != 404 {
		t.Errorf("a page that there is not: status %d", status)
	}
	c := raw.Dial(t, n.Addr())
	write(t, c, makeTopic(t, c, "counted", 3), 0, records(1, 2))
	for name, want := range map[string]float64{
		"sluice_catalog_topics": 1, "sluice_catalog_partitions": 3, `sluice_requests_total{api="Produce"}`: 1, "sluice_connections": 1, "sluice_log_segments": 1,
	} {
		if got := n.Metric(name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if applied, durable := n.Metric("sluice_log_applied_index"), n.Metric("sluice_log_durable_index"); applied < 2 || durable < applied {
		t.Errorf("applied index %v, durable index %v", applied, durable)
	}
}

func TestTheLogIsReadableForPeopleAndPrograms(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{Console: true})
	for _, l := range n.Lines(0) {
		if !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\tinfo\t[a-z ]+\t\{`).MatchString(l.Raw) {
			t.Errorf("a line of another form: %s", l.Raw)
		}
	}
	quiet := node.Run(t, nil, "serve", "--data", "/dev/null/folder", "--listen", "127.0.0.1:0", "--http", "", "--set", "log.level=error")
	if quiet.Code != exitFailed || strings.Count(quiet.Stderr, "\n") != 1 || !strings.Contains(quiet.Stderr, "/dev/null/folder") {
		t.Errorf("a failed start with log.level=error: %+v", quiet)
	}
}

func TestSignalsEndTheProgramWithGrace(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		n := node.Start(t, node.Options{})
		c := raw.Dial(t, n.Addr())
		tp := makeTopic(t, c, "waited-for", 1)
		// A fetch that waits is answered, and does not keep the program.
		request := fetchRequest(from{tp, 0, 0})
		request.MaxWaitMillis = 600_000
		request.SetVersion(fetchVersion)
		id, err := c.Send(request)
		if err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the fetch to wait", func() bool { return n.Metric(`sluice_requests_in_flight{api="Fetch"}`) == 1 })
		began := time.Now()
		exited := n.Exited()
		n.Signal(signal)
		frame, err := c.Receive(raw.Limit)
		if err != nil {
			t.Fatalf("%v: the fetch that waits: %v", signal, err)
		}
		response, err := raw.Decode(request, id, frame)
		if err != nil {
			t.Fatal(err)
		}
		if p := onlyPartition(t, response.(*kmsg.FetchResponse)); p.ErrorCode != 0 {
			t.Errorf("%v: the fetch that waits: error %d", signal, p.ErrorCode)
		}
		c.WaitClosed()
		<-exited
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("%v: the program took %v to end", signal, d)
		}
	}
}

func TestASecondSignalEndsTheProgramAtOnce(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{MayEndBadly: true, MayLogErrors: true, Set: []string{"shutdown.grace.ms=3600000"}})
	c := raw.Dial(t, n.Addr())
	tp := makeTopic(t, c, "kept", 1)
	write(t, c, tp, 0, records(1))
	// A client that sends half a request keeps a graceful stop waiting.
	if err := c.SendBytes([]byte{0, 0, 0, 100, 0, 0}); err != nil {
		t.Fatal(err)
	}
	mark := n.Mark()
	n.Signal(syscall.SIGTERM)
	n.WaitLine(mark, func(l node.Line) bool { return l.Message == "stopping" })
	exited := n.Exited()
	n.Signal(syscall.SIGTERM)
	<-exited
	n.Stop()
	n.Restart()
	if got := readAll(t, raw.Dial(t, n.Addr()), tp, 0); len(got) != 1 {
		t.Errorf("%d records", len(got))
	}
}

func TestEveryInterfaceWithoutAnAdvertisedAddressIsTheMachinesName(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{Listen: "PLAINTEXT://0.0.0.0:0"})
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(n.Addr())
	if err != nil {
		t.Fatal(err)
	}
	b := metadata(raw.Dial(t, "127.0.0.1:"+port), 12, false).Brokers[0]
	if b.Host != host || fmt.Sprint(b.Port) != port {
		t.Errorf("advertised is %s:%d, want %s:%s", b.Host, b.Port, host, port)
	}
}

// entryAt is one line of `log dump`.
type entryAt struct {
	Index int64  `json:"index"`
	Pos   string `json:"pos"`
	Type  string `json:"type"`
	Bytes int64  `json:"bytes"`
	Batch *struct {
		Records      int32  `json:"records"`
		Codec        string `json:"codec"`
		ProducerID   int64  `json:"producer_id"`
		BaseSequence int32  `json:"base_sequence"`
	} `json:"batch"`
	Damage string `json:"damage"`
}

// dump returns the entries of a data folder.
func dump(t *testing.T, dir string, args ...string) (entries []entryAt) {
	t.Helper()
	o := node.Run(t, nil, append([]string{"log", "dump", dir, "--output", "json"}, args...)...)
	if o.Code != exitOK {
		t.Fatalf("log dump: exit code %d: %s", o.Code, o.Stderr)
	}
	for in := json.NewDecoder(strings.NewReader(o.Stdout)); in.More(); {
		var e entryAt
		if err := in.Decode(&e); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	return entries
}

// place returns file and byte of an entry.
func (e entryAt) place(t *testing.T, dir string) (file string, at int64) {
	t.Helper()
	var segment uint32
	if _, err := fmt.Sscanf(e.Pos, "%d:%d", &segment, &at); err != nil {
		t.Fatalf("position %q: %v", e.Pos, err)
	}
	return filepath.Join(dir, "commitlog", fmt.Sprintf("%010d.log", segment)), at
}

// verdict is what `log verify` prints.
type verdict struct {
	Segments  int      `json:"segments"`
	Entries   int64    `json:"entries"`
	Last      int64    `json:"last_index"`
	Indexes   int      `json:"index_files"`
	TornTail  string   `json:"torn_tail"`
	Damage    []string `json:"damage"`
	Undamaged bool     `json:"ok"`
}

// verify runs `log verify` and checks that exit code and verdict agree.
func verify(t *testing.T, dir string) verdict {
	t.Helper()
	o := node.Run(t, nil, "log", "verify", dir, "--output", "json")
	var v verdict
	if err := json.Unmarshal([]byte(o.Stdout), &v); err != nil {
		t.Fatalf("log verify printed %q: %v\n%s", o.Stdout, err, o.Stderr)
	}
	if v.Undamaged != (len(v.Damage) == 0) || v.Undamaged != (o.Code == exitOK) || !v.Undamaged && o.Code != exitDamaged {
		t.Errorf("exit code %d with verdict %+v", o.Code, v)
	}
	return v
}

func TestDumpAndVerifyShowWhatIsInTheLog(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{Set: []string{"commitlog.segment.bytes=2097152"}})
	c := raw.Dial(t, n.Addr())
	tp := makeTopic(t, c, "dumped", 1)
	id := newProducer(t, c)
	b := records(1, 2, 3)
	b.Producer = &raw.Producer{ID: id, Sequence: 0}
	b.Codec = 4 // zstd
	write(t, c, tp, 0, b)
	for range 30 {
		write(t, c, tp, 0, raw.Values(1, strings.Repeat("x", 200_000)))
	}
	waitFor(t, "segments to be sealed", func() bool { return verify(t, n.Dir()).Indexes >= 2 })
	// It can be looked into while the broker runs, and after it has stopped.
	for _, when := range []string{"running", "stopped"} {
		entries := dump(t, n.Dir())
		v := verify(t, n.Dir())
		if !v.Undamaged || v.Entries != int64(len(entries)) || v.Last != entries[len(entries)-1].Index || v.Segments < 3 {
			t.Errorf("%s: %d entries were dumped, verify says %+v", when, len(entries), v)
		}
		for i, e := range entries {
			if e.Index != int64(i+1) || e.Damage != "" {
				t.Fatalf("%s: entry %d is %+v", when, i, e)
			}
		}
		var batches []entryAt
		for _, e := range entries {
			if e.Batch != nil {
				batches = append(batches, e)
			}
		}
		if len(batches) != 31 || batches[0].Batch.Records != 3 || batches[0].Batch.Codec != "zstd" || batches[0].Batch.ProducerID != id || batches[0].Batch.BaseSequence != 0 {
			t.Errorf("%s: %d batches, the first is %+v", when, len(batches), batches[0])
		}
		if some := dump(t, n.Dir(), "--from", "5", "--limit", "3"); len(some) != 3 || some[0].Index != 5 {
			t.Errorf("%s: three entries from 5 on are %+v", when, some)
		}
		text := node.Run(t, nil, "log", "dump", n.Dir())
		if text.Code != exitOK || strings.Count(text.Stdout, "\n") != len(entries) {
			t.Errorf("%s: as text: exit code %d, %d lines", when, text.Code, strings.Count(text.Stdout, "\n"))
		}
		if text = node.Run(t, nil, "log", "verify", n.Dir()); text.Code != exitOK || !strings.HasSuffix(text.Stdout, "ok\n") {
			t.Errorf("%s: verify as text: %+v", when, text)
		}
		if when == "running" {
			n.Stop()
		}
	}
}

// patch changes bytes of a file.
func patch(t *testing.T, file string, at int64, change func([]byte)) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 16)
	_, err = f.ReadAt(b, at)
	if err == nil {
		change(b)
		_, err = f.WriteAt(b, at)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}
