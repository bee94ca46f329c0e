package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// suite is the tests of one client.
type suite struct {
	name     string
	about    string   // what of its tests is run, for the reader of docs/peers.md
	port     int      // where the tests look for the broker
	named    string   // host:port that the broker tells clients, if not 127.0.0.1 and the port
	settings []string // of the broker, as the suite's authors have it
	limit    time.Duration
	// prepare makes the tests ready to run without a network, and says which version they have.
	prepare func(ctx context.Context, s site, p *plan) (version string, err error)
	// read returns the results from the plan's folder.
	read func(dir string) ([]result, error)
}

// site is where a suite is made ready.
type site struct {
	root  string   // of Sluice's source
	dir   string   // of the suite
	leave []string // tests not to run
	limit time.Duration
}

// suites are all that can be had in packages and pointed at a broker.
var suites = []suite{
	{
		name: "franz-go", port: 9092, limit: 8 * time.Minute,
		about:    "pkg/kgo: the tests that need a broker, with 50,000 records in each chain of groups",
		settings: []string{noDelay},
		prepare:  franz.prepare, read: franz.read,
	},
	{
		name: "sarama", port: 9092, limit: 8 * time.Minute,
		about: "the functional tests. They expect five brokers behind Toxiproxy: here all five proxies lead to the " +
			"one Sluice, which names the first as its address",
		named:    "127.0.0.1:29091",
		settings: []string{noDelay, "auto.create.topics.enable=false", "node.id=1"},
		prepare:  prepareSarama, read: sarama.read,
	},
	{
		name: "kafka-go", port: 9092, limit: 10 * time.Minute,
		about:    "the tests that need a broker, in the module's root, compress and topics",
		named:    "localhost:9092",
		settings: []string{"message.max.bytes=200000000", "node.id=1"},
		prepare:  segmentio.prepare, read: segmentio.read,
	},
	{
		name: "kafka-python", port: 9092, limit: 8 * time.Minute,
		about:    "test/integration, from the source release",
		settings: []string{noDelay, "num.partitions=4", "group.min.session.timeout.ms=100"},
		prepare:  prepareKafkaPython, read: readJUnit,
	},
}

// noDelay lets groups begin at once, as the suites' own brokers are set.
const noDelay = "group.initial.rebalance.delay.ms=0"

func (m goModule) prepare(ctx context.Context, s site, p *plan) (string, error) {
	src, version, err := m.fetch(ctx, s)
	if err != nil {
		return "", err
	}
	return version, m.build(ctx, s, src, p)
}

var franz = goModule{
	path:     "github.com/twmb/franz-go",
	packages: []goPackage{{"pkg/kgo", []string{"KGO_SEEDS"}}},
	env:      []string{"KGO_SEEDS=127.0.0.1:9092", "KGO_TEST_RF=1", "KGO_TEST_RECORDS=50000", "KGO_LOG_LEVEL=none"},
}

var segmentio = goModule{
	path: "github.com/segmentio/kafka-go",
	packages: []goPackage{
		{".", []string{"localhost:909", "127.0.0.1:909", "newLocalClient"}},
		{"compress", []string{"127.0.0.1:909"}},
		{"topics", []string{"newLocalClient"}},
	},
	env: []string{"KAFKA_VERSION=4.0.0"},
}

var sarama = goModule{
	path:     "github.com/IBM/sarama",
	tags:     "functional",
	packages: []goPackage{{".", []string{"FunctionalTestEnv"}}},
	env:      []string{"TOXIPROXY_ADDR=http://127.0.0.1:8474", "KAFKA_VERSION=4.3.1"},
}

const toxiproxy = "github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0"

// prepareSarama adds what sarama's tests expect around the brokers: five proxies, and a program
// docker that shows a broker's log. Its other commands fail, as the test that asks for them shall.
func prepareSarama(ctx context.Context, s site, p *plan) (string, error) {
	bin := filepath.Join(s.dir, "bin")
	if err := command(ctx, s.dir, []string{"GOBIN=" + bin, "CGO_ENABLED=0"}, "go", "install", toxiproxy); err != nil {
		return "", err
	}
	type proxy struct {
		Name     string `json:"name"`
		Listen   string `json:"listen"`
		Upstream string `json:"upstream"`
		Enabled  bool   `json:"enabled"`
	}
	var proxies []proxy
	for i := 1; i <= 5; i++ {
		proxies = append(proxies, proxy{
			Name: fmt.Sprintf("kafka%d", i), Listen: fmt.Sprintf("127.0.0.1:%d", 29090+i),
			Upstream: fmt.Sprintf("127.0.0.1:%d", p.Port), Enabled: true,
		})
	}
	config, err := json.Marshal(proxies)
	if err != nil {
		return "", err
	}
	file := filepath.Join(s.dir, "proxies.json")
	if err := os.WriteFile(file, config, 0o644); err != nil {
		return "", err
	}
	docker := "#!/bin/sh\n" + `[ "$1 $2" = "compose logs" ] && exec cat "` + filepath.Join(s.dir, brokerLog) + `"` + "\n" +
		"echo 'the one broker stays' >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(bin, "docker"), []byte(docker), 0o755); err != nil {
		return "", err
	}
	p.SluiceOnly = []string{"replication.factor.exceeding.nodes=cap"}
	p.Beside = &step{
		Dir: s.dir, Out: "toxiproxy.log",
		Args: []string{filepath.Join(bin, "server"), "-host", "127.0.0.1", "-port", "8474", "-config", file},
	}
	src, version, err := sarama.fetch(ctx, s)
	if err != nil {
		return "", err
	}
	m := sarama
	m.env = append([]string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH")}, m.env...)
	return version, m.build(ctx, s, src, p)
}
