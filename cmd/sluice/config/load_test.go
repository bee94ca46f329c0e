package config

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/catalog/config"
)

func TestReferenceIsUpToDate(t *testing.T) {
	got, err := os.ReadFile("../../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, Reference()) {
		t.Error("docs/config.md is not what the tables say; run make docs")
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sluice.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestNothingGivenIsTheDefault(t *testing.T) {
	l, err := Load(Places{})
	if err != nil {
		t.Fatal(err)
	}
	if got := l.Broker.Listeners[0].Address(); got != "127.0.0.1:9092" {
		t.Errorf("listens on %s", got)
	}
	if l.Broker.DataDir != "./data" || l.Broker.Flush != config.FlushSync || len(l.From) != 0 {
		t.Errorf("got %+v from %v", l.Broker, l.From)
	}
}

func TestLaterPlacesGoBeforeEarlierOnes(t *testing.T) {
	path := write(t, "num.partitions: 2\nfetch.max.bytes: 2048\nlog.level: warn\n")
	l, err := Load(Places{
		File:    path,
		Environ: []string{"SLUICE_FETCH_MAX_BYTES=4096", "SLUICE_LOG_LEVEL=error", "OTHER_NODE_ID=x"},
		Set:     []string{"log.level=info", "log.level=debug"},
	})
	if err != nil {
		t.Fatal(err)
	}
	b := l.Broker
	if b.NumPartitions != 2 || b.FetchMaxBytes != 4096 || b.LogLevel != "debug" {
		t.Errorf("got %d, %d, %s", b.NumPartitions, b.FetchMaxBytes, b.LogLevel)
	}
	for name, want := range map[string]string{
		"num.partitions": path, "fetch.max.bytes": "SLUICE_FETCH_MAX_BYTES", "log.level": "--set",
	} {
		if got := l.From[name]; got != want {
			t.Errorf("%s is from %q, want %q", name, got, want)
		}
	}
}

func TestFileMayBeFlatNestedOrBoth(t *testing.T) {
	for name, text := range map[string]string{
		"flat":   "log.retention.ms: 7\nflush: async\nflush.interval.ms: 20\nlisteners: A://:1,B://:2\nlistener.security.protocol.map: A:PLAINTEXT,B:PLAINTEXT\n",
		"nested": "log:\n  retention:\n    ms: 7\nflush: async\nflush.interval.ms: 20\nlisteners: [\"A://:1\", \"B://:2\"]\nlistener: {security: {protocol: {map: [\"A:PLAINTEXT\", \"B:PLAINTEXT\"]}}}\n",
		"mixed":  "log: {retention.ms: 7}\nflush: async\nflush.interval: {ms: 20}\nlisteners:\n- A://:1\n- B://:2\nlistener.security.protocol: {map: \"A:PLAINTEXT, B:PLAINTEXT\"}\n",
	} {
		t.Run(name, func(t *testing.T) {
			l, err := Load(Places{File: write(t, text)})
			if err != nil {
				t.Fatal(err)
			}
			b := l.Broker
			if b.TopicDefaults.RetentionMs != 7 || b.Flush != config.FlushAsync || b.FlushInterval != 20*time.Millisecond {
				t.Errorf("got %+v", b)
			}
			if len(b.Listeners) != 2 || b.Listeners[1].String() != "B://:2" {
				t.Errorf("listens on %v", b.Listeners)
			}
		})
	}
}

func TestMistakeNamesPlaceSettingAndExpectation(t *testing.T) {
	for name, test := range map[string]struct {
		file    string
		environ []string
		set     []string
		want    []string // in the error, in this order
	}{
		"bad value in file": {file: "log.retention.ms: soon", want: []string{"sluice.yaml: log.retention.ms: \"soon\" is not a whole number of at least -1"}},
		"bad value in environment": {environ: []string{"SLUICE_NUM_PARTITIONS=0"},
			want: []string{"SLUICE_NUM_PARTITIONS: num.partitions: \"0\" is not a whole number of at least 1"}},
		"bad value in flag":      {set: []string{"log.level=loud"}, want: []string{"--set: log.level: \"loud\" is not one of debug, info, warn, error"}},
		"misspelled":             {file: "num.partition: 3", want: []string{"num.partition: is not a setting of the broker; did you mean num.partitions?"}},
		"unknown in environment": {environ: []string{"SLUICE_COLOUR=red"}, want: []string{"SLUICE_COLOUR: colour: is not a setting"}},
		"topic config":           {file: "retention.ms: 5", want: []string{"retention.ms: is a setting of topics, not of the broker; the broker's default for it is log.retention.ms"}},
		"Kafka's files":          {file: "log.segment.bytes: 1073741824", want: []string{"log.segment.bytes: has no effect in Sluice, remove it", "commitlog.segment.bytes"}},
		"Kafka's threads":        {file: "num.io.threads: 8", want: []string{"num.io.threads: is a setting of Kafka's that Sluice does not have"}},
		"no value":               {file: "log.level:", want: []string{"sluice.yaml: log.level: has no value"}},
		"a map":                  {file: "log.level: {}", want: []string{"log.level: is an empty map"}},
		"nested too deep":        {file: "log: {level: {x: 1}}", want: []string{"log.level.x: is not a setting"}},
		"flat and nested":        {file: "log: {level: info}\nlog.level: warn", want: []string{"log.level: is given twice"}},
		"twice in YAML":          {file: "log.level: info\nlog.level: warn", want: []string{"sluice.yaml", "already defined"}},
		"not YAML":               {file: "{", want: []string{"read the configuration file", "sluice.yaml"}},
		"a list of settings":     {file: "- log.level", want: []string{"read the configuration file", "sluice.yaml"}},
		"no equals sign":         {set: []string{"log.level"}, want: []string{"--set: \"log.level\" is not name=value"}},
		"wrong though replaced":  {file: "log.level: loud", set: []string{"log.level=info"}, want: []string{"sluice.yaml: log.level"}},
		"several": {file: "log.level: loud\nnum.partitions: none", set: []string{"x=1"},
			want: []string{"log.level", "\n", "num.partitions", "\n", "--set: x"}},
		"wrong together": {set: []string{"node.id=1"}, environ: []string{"SLUICE_BROKER_ID=2"},
			want: []string{"SLUICE_BROKER_ID: broker.id: 2 is not node.id, which is 1"}},
		"listener without protocol": {set: []string{"listeners=OUT://:9092"}, want: []string{"listener.security.protocol.map: has no protocol for the listener OUT"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := Places{Environ: test.environ, Set: test.set}
			if test.file != "" {
				p.File = write(t, test.file)
			}
			_, err := Load(p)
			if err == nil {
				t.Fatal("it was accepted")
			}
			left := err.Error()
			for _, want := range test.want {
				_, after, ok := strings.Cut(left, want)
				if !ok {
					t.Fatalf("no %q in %q", want, err)
				}
				left = after
			}
		})
	}
}

func TestMissingFileIsAnError(t *testing.T) {
	_, err := Load(Places{File: filepath.Join(t.TempDir(), "none.yaml")})
	if err == nil || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("got %v", err)
	}
}

func TestKubernetesServiceVariablesAreNoSettings(t *testing.T) {
	_, err := Load(Places{Environ: []string{
		"SLUICE_CONFIG=/etc/sluice.yaml", "SLUICE_SERVICE_HOST=10.0.0.1", "SLUICE_SERVICE_PORT=9092", "SLUICE_SERVICE_PORT_KAFKA=9092",
		"SLUICE_PORT=tcp://10.0.0.1:9092", "SLUICE_PORT_9092_TCP=tcp://10.0.0.1:9092", "SLUICE_PORT_9092_TCP_PROTO=tcp",
		"SLUICE_PORT_9092_TCP_PORT=9092", "SLUICE_PORT_9092_TCP_ADDR=10.0.0.1",
	}})
	if err != nil {
		t.Error(err)
	}
}

func TestEverySettingHasItsOwnVariable(t *testing.T) {
	seen := make(map[string]string)
	for _, k := range config.BrokerKeys() {
		v := variableOf(k.Name)
		if other, ok := seen[v]; ok || strings.Contains(k.Name, "_") || strings.ToLower(k.Name) != k.Name {
			t.Errorf("%s has the variable %s, as %s", k.Name, v, other)
		}
		if serviceVariable.MatchString(v) || v == "SLUICE_CONFIG" {
			t.Errorf("%s is kept for something else", v)
		}
		seen[v] = k.Name
	}
}

func TestEmptyValuesAreGiven(t *testing.T) {
	l, err := Load(Places{File: write(t, "http.listen: \"\"\n"), Environ: []string{"SLUICE_LOG_CLEANUP_POLICY="}})
	if err != nil {
		t.Fatal(err)
	}
	if l.Broker.HTTPListen != "" || l.Broker.TopicDefaults.Cleanup != 0 {
		t.Errorf("got %q and %v", l.Broker.HTTPListen, l.Broker.TopicDefaults.Cleanup)
	}
}
