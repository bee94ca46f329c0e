package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func mustBroker(t *testing.T, settings ...string) *Broker {
	t.Helper()
	b, err := NewBroker(valuesOf(settings))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func valuesOf(settings []string) Values {
	values := make(Values)
	for i := 0; i < len(settings); i += 2 {
		values[settings[i]] = settings[i+1]
	}
	return values
}

func overridesOf(settings ...string) Overrides {
	var all []Setting
	for name, value := range valuesOf(settings) {
		all = append(all, Setting{name, value})
	}
	return MakeOverrides(all)
}

func TestDefaultsAreKafkas(t *testing.T) {
	b := mustBroker(t)
	topic := *b.TopicDefaults
	want := Topic{
		MaxMessageBytes: 1048588, MaxDecompressedBytes: 2147483639, RetentionMs: 604800000, RetentionBytes: -1, Cleanup: CleanupDelete, Timestamp: CreateTime,
		TimestampBeforeMaxMs: 9223372036854775807, TimestampAfterMaxMs: 3600000, Compression: AsProduced,
		GzipLevel: -1, LZ4Level: 9, ZstdLevel: 3, MinInsyncReplicas: 1, DeleteRetentionMs: 86400000,
		MaxCompactionLagMs: 9223372036854775807,
	}
	if topic != want {
		t.Errorf("got %+v, want %+v", topic, want)
	}
	if b.NumPartitions != 1 || b.DefaultReplicationFactor != 1 || !b.AutoCreateTopics || !b.DeleteTopics ||
		b.MaxRequestBytes != 104857600 || b.FetchMaxBytes != 57671680 || b.FetchSessions != 1000 || b.DescribePartitions != 2000 ||
		b.MaxIdle != 10*time.Minute || b.ProducerIDExpiration != 24*time.Hour || b.RetentionCheckInterval != 5*time.Minute {
		t.Errorf("got %+v", b)
	}
	if b.SegmentBytes != 268435456 || b.Flush != FlushSync || b.NodeName() != "0" {
		t.Errorf("got %+v", b)
	}
}

func TestMostSpecificSettingDecides(t *testing.T) {
	b := mustBroker(t, "log.retention.hours", "2", "log.retention.minutes", "3")
	for i, test := range []struct {
		cluster, node, topic Overrides
		want                 int64
	}{
		{nil, nil, nil, 180000},
		{overridesOf("log.retention.ms", "10"), nil, nil, 10},
		{overridesOf("log.retention.ms", "10"), overridesOf("log.retention.ms", "20"), nil, 20},
		{overridesOf("log.retention.ms", "10"), overridesOf("log.retention.ms", "20"), overridesOf("retention.ms", "30"), 30},
		{nil, nil, overridesOf("retention.ms", "-1"), -1},
		// What another version may have stored counts as not set.
		{overridesOf("log.retention.ms", "soon"), overridesOf("colour", "red"), overridesOf("retention.ms", "later"), 180000},
		{overridesOf("num.partitions", "5"), nil, nil, 180000},
	} {
		d := b.WithDynamic(test.cluster, test.node)
		if got := d.Topic(test.topic).RetentionMs; got != test.want {
			t.Errorf("%d: got %d, want %d", i, got, test.want)
		}
		if d.NumPartitions != 1 {
			t.Error("a setting that is not dynamic was altered")
		}
	}
	if got := mustBroker(t, "log.retention.hours", "-1").TopicDefaults.RetentionMs; got != -1 {
		t.Errorf("no limit in hours: got %d", got)
	}
	if got := mustBroker(t, "log.retention.hours", "2147483647").TopicDefaults.RetentionMs; got != 2147483647*3600000 {
		t.Errorf("most hours: got %d", got)
	}
	if b.TopicDefaults.RetentionMs != 180000 {
		t.Error("WithDynamic changed its receiver")
	}
}

func TestBrokerNamesOfTopicSettings(t *testing.T) {
	values := map[string]string{
		"log.cleanup.policy": "compact,delete", "log.retention.bytes": "5", "message.max.bytes": "6", "log.message.timestamp.type": "LogAppendTime",
		"log.message.timestamp.before.max.ms": "7", "log.message.timestamp.after.max.ms": "8", "compression.type": "zstd",
		"compression.gzip.level": "1", "compression.lz4.level": "2", "compression.zstd.level": "4", "min.insync.replicas": "9",
		"log.cleaner.delete.retention.ms": "10", "log.cleaner.min.compaction.lag.ms": "11", "log.cleaner.max.compaction.lag.ms": "12",
		"log.retention.ms": "13", "max.decompressed.message.bytes": "14",
	}
	b, err := NewBroker(values)
	if err != nil {
		t.Fatal(err)
	}
	want := Topic{
		MaxMessageBytes: 6, RetentionMs: 13, RetentionBytes: 5, Cleanup: CleanupCompact | CleanupDelete, Timestamp: LogAppendTime,
		TimestampBeforeMaxMs: 7, TimestampAfterMaxMs: 8, Compression: Zstd, GzipLevel: 1, LZ4Level: 2, ZstdLevel: 4,
		MinInsyncReplicas: 9, DeleteRetentionMs: 10, MinCompactionLagMs: 11, MaxCompactionLagMs: 12, MaxDecompressedBytes: 14,
	}
	if *b.TopicDefaults != want {
		t.Errorf("got %+v, want %+v", *b.TopicDefaults, want)
	}
	if got := b.TopicDefaults.CompressionLevel(); got != 4 {
		t.Errorf("the zstd level is %d", got)
	}
	for codec, level := range map[string]int32{"gzip": 1, "lz4": 2, "snappy": 0, "uncompressed": 0, "producer": 0} {
		if got := b.Topic(overridesOf("compression.type", codec)).CompressionLevel(); got != level {
			t.Errorf("the level of %s is %d, want %d", codec, got, level)
		}
	}
}

func TestMistakesAreAllNamed(t *testing.T) {
	_, err := NewBroker(Values{"num.partitions": "none", "colour": "red", "log.level": "info"})
	if err == nil {
		t.Fatal("it was accepted")
	}
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 2 || !strings.HasPrefix(lines[0], "colour: ") || !strings.HasPrefix(lines[1], "num.partitions: ") {
		t.Errorf("got %q", err)
	}
	var s *SettingError
	if !errors.As(err, &s) || s.Name != "colour" {
		t.Errorf("the first error is about %+v", s)
	}
}

func TestSettingsThatDoNotGoTogether(t *testing.T) {
	for name, test := range map[string]struct {
		settings []string
		want     string // empty: they do
	}{
		"two ids":               {[]string{"node.id", "1", "broker.id", "2"}, "broker.id: 2 is not node.id, which is 1"},
		"two equal ids":         {[]string{"node.id", "1", "broker.id", "1"}, ""},
		"replication factor":    {[]string{"default.replication.factor", "3"}, "default.replication.factor: 3 is more than the 1 node"},
		"capped factor":         {[]string{"default.replication.factor", "3", "replication.factor.exceeding.nodes", "cap"}, ""},
		"compaction lag":        {[]string{"log.cleaner.min.compaction.lag.ms", "2", "log.cleaner.max.compaction.lag.ms", "1"}, "min.compaction.lag.ms (2) is more than"},
		"segment":               {[]string{"commitlog.segment.bytes", "1048576"}, "commitlog.segment.bytes: 1048576 is too small for a batch"},
		"segment and batch":     {[]string{"commitlog.segment.bytes", "1048576", "message.max.bytes", "100000"}, ""},
		"listener without map":  {[]string{"listeners", "IN://:1"}, "listener.security.protocol.map: has no protocol for the listener IN"},
		"listener with map":     {[]string{"listeners", "IN://:1", "listener.security.protocol.map", "IN:PLAINTEXT"}, ""},
		"no listener":           {[]string{"listeners", ""}, "listeners: there is none"},
		"listener twice":        {[]string{"listeners", "PLAINTEXT://:1,PLAINTEXT://:2"}, "listeners: the name PLAINTEXT occurs twice"},
		"advertised stranger":   {[]string{"advertised.listeners", "OUT://h:1"}, "advertised.listeners: OUT is not among"},
		"advertised everywhere": {[]string{"advertised.listeners", "PLAINTEXT://0.0.0.0:1"}, "no address that a client could connect to"},
		"advertised nowhere":    {[]string{"advertised.listeners", "PLAINTEXT://:1"}, "no address that a client could connect to"},
		"advertised port 0":     {[]string{"advertised.listeners", "PLAINTEXT://h:0"}, "port 0"},
		"advertised twice":      {[]string{"advertised.listeners", "PLAINTEXT://h:1,PLAINTEXT://h:2"}, "occurs twice"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewBroker(valuesOf(test.settings))
			switch {
			case test.want == "" && err != nil:
				t.Errorf("got %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestListeners(t *testing.T) {
	for name, test := range map[string]struct {
		settings []string
		want     string // listeners, then advertised ones
	}{
		"default":        {nil, "[PLAINTEXT://127.0.0.1:9092] [PLAINTEXT://127.0.0.1:9092]"},
		"every":          {[]string{"listeners", "PLAINTEXT://0.0.0.0:9092"}, "[PLAINTEXT://0.0.0.0:9092] [PLAINTEXT://:9092]"},
		"every IPv6":     {[]string{"listeners", "plaintext://[::]:9092"}, "[PLAINTEXT://[::]:9092] [PLAINTEXT://:9092]"},
		"advertised":     {[]string{"listeners", "PLAINTEXT://:1", "advertised.listeners", "PLAINTEXT://host:2"}, "[PLAINTEXT://:1] [PLAINTEXT://host:2]"},
		"IPv6":           {[]string{"listeners", "PLAINTEXT://[::1]:1"}, "[PLAINTEXT://[::1]:1] [PLAINTEXT://[::1]:1]"},
		"one of two":     {[]string{"listeners", "A://a:1,B://b:2", "listener.security.protocol.map", "A:PLAINTEXT,B:PLAINTEXT", "advertised.listeners", "B://c:3"}, "[A://a:1 B://b:2] [A://a:1 B://c:3]"},
		"old name of id": {[]string{"broker.id", "5"}, "[PLAINTEXT://127.0.0.1:9092] [PLAINTEXT://127.0.0.1:9092]"},
	} {
		t.Run(name, func(t *testing.T) {
			b := mustBroker(t, test.settings...)
			if got := fmt.Sprint(b.Listeners, b.AdvertisedListeners); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			for _, l := range append(b.Listeners, b.AdvertisedListeners...) {
				if l.Protocol != "PLAINTEXT" {
					t.Errorf("%s has the protocol %q", l, l.Protocol)
				}
			}
		})
	}
	if b := mustBroker(t, "broker.id", "5"); b.NodeID != 5 {
		t.Errorf("node %d", b.NodeID)
	}
	if b := mustBroker(t, "log.dir", "/a"); b.DataDir != "/a" {
		t.Errorf("data in %s", b.DataDir)
	}
	if b := mustBroker(t, "log.dir", "/a", "log.dirs", "/b"); b.DataDir != "/b" {
		t.Errorf("data in %s", b.DataDir)
	}
}

func TestUnknownSettingsAreExplained(t *testing.T) {
	for name, want := range map[string]string{
		"num.partition":           "did you mean num.partitions?",
		"Num.Partitions":          "did you mean num.partitions?",
		"zookeeper.connect":       "there is no ZooKeeper",
		"segment.bytes":           "the broker has no default for it",
		"cleanup.policy":          "the broker's default for it is log.cleanup.policy",
		"log.segment.bytes":       "see commitlog.segment.bytes",
		"log.roll.hours":          "has no effect in Sluice, remove it",
		"nothing.like.it":         "nothing.like.it: is not a setting of the broker",
		strings.Repeat("x", 5000): "is not a setting of the broker",
	} {
		_, err := CheckStatic(name, "1")
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 300 {
			t.Errorf("%s: got %v, want %q", clip(name), err, want)
		}
	}
	if err := UnknownTopicSetting("retention.mss"); !strings.Contains(err.Error(), "did you mean retention.ms?") {
		t.Errorf("got %v", err)
	}
}

func TestEditDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "abc", 0}, {"abc", "abd", 1}, {"abc", "ab", 1}, {"abc", "xabc", 1}, {"kitten", "sitting", 3}, {"a", "bcdefgh", 5}} {
		if got := editDistance(test.a, test.b, 5); got != test.want {
			t.Errorf("%q to %q: got %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

func TestDescribeShowsWhatOtherVersionsStored(t *testing.T) {
	b := mustBroker(t)
	entries := b.DescribeTopic(overridesOf("from.the.future", "1"), nil, true)
	byName := func(a, b Entry) int { return strings.Compare(a.Name, b.Name) }
	i, ok := slices.BinarySearchFunc(entries, Entry{Name: "from.the.future"}, byName)
	if !ok || !slices.IsSortedFunc(entries, byName) {
		t.Fatalf("got %v", entries)
	}
	if e := entries[i]; e.Value != "1" || e.Source != SourceTopic || e.Type != 0 {
		t.Errorf("got %+v", e)
	}
}

func TestOverridesAreSortedAndImmutable(t *testing.T) {
	o := MakeOverrides([]Setting{{"b", "1"}, {"a", "2"}, {"b", "3"}})
	if fmt.Sprint(o) != "[{a 2} {b 3}]" {
		t.Errorf("got %v", o)
	}
	next := o.Apply([]Op{{Kind: OpSet, Name: "a", Value: "9"}, {Kind: OpDelete, Name: "b"}, {Kind: OpSet, Name: "aa", Value: "1"},
		{Kind: OpAppend, Name: "l", Value: "y,x", Base: "x"}, {Kind: OpSubtract, Name: "m", Value: "x", Base: "x,y"}})
	if fmt.Sprint(next) != "[{a 9} {aa 1} {l x,y} {m y}]" || fmt.Sprint(o) != "[{a 2} {b 3}]" {
		t.Errorf("got %v from %v", next, o)
	}
	if o.Equal(next) || !o.Equal(MakeOverrides([]Setting{{"a", "2"}, {"b", "3"}})) {
		t.Error("Equal is wrong")
	}
	if _, ok := o.Get("c"); ok {
		t.Error("Get finds what is not there")
	}
}
