package config

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func tables() map[string][]*Key {
	return map[string][]*Key{"topic": TopicKeys(), "broker": BrokerKeys()}
}

func TestTablesAreSound(t *testing.T) {
	for table, keys := range tables() {
		for i, k := range keys {
			if i > 0 && keys[i-1].Name >= k.Name {
				t.Errorf("%s %s: is not after %s", table, k.Name, keys[i-1].Name)
			}
			if k.Doc == "" || !strings.HasSuffix(k.Doc, ".") || k.Expect() == "" || k.Type == 0 {
				t.Errorf("%s %s: lacks a text or a type", table, k.Name)
			}
			if k.Unset {
				if k.Default != "" {
					t.Errorf("%s %s: has a default and has none", table, k.Name)
				}
			} else if got, err := k.Canonical(k.Default); err != nil || got != k.Default {
				t.Errorf("%s %s: the default %q is canonically %q, %v", table, k.Name, k.Default, got, err)
			}
			for _, s := range k.Synonyms {
				if BrokerKey(s.Name) == nil {
					t.Errorf("%s %s: the synonym %s does not exist", table, k.Name, s.Name)
				}
			}
		}
	}
	if TopicKey("colour") != nil || BrokerKey("colour") != nil || TopicKey("retention.ms").Name != "retention.ms" {
		t.Error("look-up by name is wrong")
	}
}

// TestEverySettingActsOrSaysThatItDoesNot holds the tables to the rule that no
// setting is accepted and then ignored in silence.
func TestEverySettingActsOrSaysThatItDoesNot(t *testing.T) {
	for _, k := range TopicKeys() {
		if acts := k.topic != nil; acts != (k.Effect != Inert) {
			t.Errorf("topic %s: has a field %v, effect %d", k.Name, acts, k.Effect)
		}
		if says := strings.Contains(k.Doc, inertNote); says != (k.Effect == Inert) {
			t.Errorf("topic %s: says that it has no effect: %v", k.Name, says)
		}
		if says := strings.Contains(k.Doc, awaitsNote); says != (k.Effect == Awaits) {
			t.Errorf("topic %s: says that it waits for compaction: %v", k.Name, says)
		}
	}
	throughOthers := []string{"broker.id", "log.dir", "listeners", "advertised.listeners", "listener.security.protocol.map"}
	for _, k := range TopicKeys() {
		if k.Effect != Inert {
			for _, s := range k.Synonyms {
				throughOthers = append(throughOthers, s.Name)
			}
		}
	}
	for _, k := range BrokerKeys() {
		if acts := k.broker != nil || slices.Contains(throughOthers, k.Name); acts != (k.Effect != Inert) {
			t.Errorf("broker %s: acts %v, effect %d", k.Name, acts, k.Effect)
		}
		if says := strings.Contains(k.Doc, brokerNote); says != (k.Effect == Inert) {
			t.Errorf("broker %s: says that it has no effect: %v", k.Name, says)
		}
		if k.Effect == Inert && k.Update == Dynamic {
			t.Errorf("broker %s: has no effect and can be altered", k.Name)
		}
		if _, err := CheckStatic(k.Name, k.Default); (err != nil) != (k.Effect == Inert) && !k.Unset {
			t.Errorf("broker %s: given its default at the start: %v", k.Name, err)
		}
	}
	for name := range foreignSettings {
		if BrokerKey(name) != nil || TopicKey(name) != nil {
			t.Errorf("%s is said not to exist, and does", name)
		}
	}
}

// TestFieldsHoldEveryValueTheirSettingTakes finds fields that are too narrow.
func TestFieldsHoldEveryValueTheirSettingTakes(t *testing.T) {
	widest := map[Type]string{Int: "2147483647", Long: "9223372036854775807"}
	for _, k := range BrokerKeys() {
		if k.broker == nil || widest[k.Type] == "" {
			continue
		}
		text, err := k.Canonical(widest[k.Type])
		if err != nil {
			continue
		}
		field := k.broker(new(Broker))
		assign(field, text)
		switch f := field.(type) {
		case *int32:
			if *f != math.MaxInt32 {
				t.Errorf("%s: holds %d", k.Name, *f)
			}
		case *int64:
			if want := number(text); *f != want {
				t.Errorf("%s: holds %d", k.Name, *f)
			}
		case *time.Duration:
			if *f < math.MaxInt32*time.Millisecond {
				t.Errorf("%s: holds %s", k.Name, *f)
			}
		default:
			t.Errorf("%s: has a field of type %T", k.Name, field)
		}
	}
	for _, k := range TopicKeys() {
		if k.topic == nil {
			continue
		}
		switch field := k.topic(new(Topic)).(type) {
		case *int32:
			if k.Type != Int {
				t.Errorf("%s: is %v in an int32", k.Name, k.Type)
			}
		case *int64:
			if k.Type != Long {
				t.Errorf("%s: is %v in an int64", k.Name, k.Type)
			}
		case textSetter:
		default:
			t.Errorf("%s: has a field of type %T", k.Name, field)
		}
	}
}

func TestCanonicalForms(t *testing.T) {
	for _, test := range []struct {
		key         *Key
		value, want string // want is empty if the value is refused
	}{
		{TopicKey("retention.ms"), " 1000 ", "1000"},
		{TopicKey("retention.ms"), "+5", "5"},
		{TopicKey("retention.ms"), "007", "7"},
		{TopicKey("retention.ms"), "-1", "-1"},
		{TopicKey("retention.ms"), "-2", ""},
		{TopicKey("retention.ms"), "1.5", ""},
		{TopicKey("retention.ms"), "1e3", ""},
		{TopicKey("retention.ms"), "9223372036854775808", ""},
		{TopicKey("retention.ms"), "", ""},
		{TopicKey("max.message.bytes"), "2147483647", "2147483647"},
		{TopicKey("max.message.bytes"), "2147483648", ""},
		{TopicKey("segment.bytes"), "1048575", ""},
		{TopicKey("segment.bytes"), "1048576", "1048576"},
		{TopicKey("preallocate"), "TRUE", "true"},
		{TopicKey("preallocate"), "yes", ""},
		{TopicKey("remote.storage.enable"), "False", "false"},
		{TopicKey("remote.storage.enable"), "true", ""},
		{TopicKey("cleanup.policy"), " delete , compact,delete ", "delete,compact"},
		{TopicKey("cleanup.policy"), "Compact", ""},
		{TopicKey("cleanup.policy"), "compact;delete", ""},
		{TopicKey("compression.type"), "uncompressed", "uncompressed"},
		{TopicKey("compression.type"), "none", ""},
		{TopicKey("compression.gzip.level"), "-1", "-1"},
		{TopicKey("compression.gzip.level"), "0", ""},
		{TopicKey("compression.gzip.level"), "9", "9"},
		{TopicKey("compression.lz4.level"), "18", ""},
		{TopicKey("compression.zstd.level"), "-131072", "-131072"},
		{TopicKey("compression.zstd.level"), "23", ""},
		{TopicKey("message.timestamp.type"), "LogAppendTime", "LogAppendTime"},
		{TopicKey("message.timestamp.type"), "logappendtime", ""},
		{TopicKey("min.cleanable.dirty.ratio"), "1", "1.0"},
		{TopicKey("min.cleanable.dirty.ratio"), "0.25", "0.25"},
		{TopicKey("min.cleanable.dirty.ratio"), "1.01", ""},
		{TopicKey("min.cleanable.dirty.ratio"), "NaN", ""},
		{TopicKey("leader.replication.throttled.replicas"), "*", "*"},
		{TopicKey("leader.replication.throttled.replicas"), "0:1, 1:1", "0:1,1:1"},
		{TopicKey("leader.replication.throttled.replicas"), "0:1,*", ""},
		{TopicKey("leader.replication.throttled.replicas"), "0-1", ""},
		{TopicKey("min.insync.replicas"), "0", ""},
		{BrokerKey("log.dirs"), "/a", "/a"},
		{BrokerKey("log.dirs"), "/a,/b", ""},
		{BrokerKey("log.dirs"), ",", ""},
		{BrokerKey("http.listen"), ":9190", ":9190"},
		{BrokerKey("http.listen"), "9190", ""},
		{BrokerKey("http.listen"), "h:port", ""},
		{BrokerKey("listeners"), "PLAINTEXT://h:1", "PLAINTEXT://h:1"},
		{BrokerKey("listeners"), "PLAINTEXT://h", ""},
		{BrokerKey("listeners"), "h:1", ""},
		{BrokerKey("listeners"), "PLAINTEXT://h:70000", ""},
		{BrokerKey("listeners"), "A B://h:1", ""},
		{BrokerKey("listeners"), "A://h/x:1", ""},
		{BrokerKey("listener.security.protocol.map"), "A:SSL", ""},
		{BrokerKey("listener.security.protocol.map"), "a:plaintext", "a:plaintext"},
		{BrokerKey("log.level"), "loud", ""},
	} {
		got, err := test.key.Canonical(test.value)
		if test.want == "" {
			if err == nil || !strings.Contains(err.Error(), test.key.Name) || !strings.Contains(err.Error(), test.key.Expect()) {
				t.Errorf("%s: %q is accepted as %q, or the error %v does not say what is expected", test.key.Name, test.value, got, err)
			}
			continue
		}
		if err != nil || got != test.want {
			t.Errorf("%s: %q is %q, %v; want %q", test.key.Name, test.value, got, err, test.want)
		}
	}
	if got, err := TopicKey("cleanup.policy").Canonical(""); err != nil || got != "" {
		t.Errorf("the empty policy is %q, %v", got, err)
	}
	if _, err := TopicKey("retention.ms").Canonical(strings.Repeat("x", 1<<20)); err == nil || len(err.Error()) > 300 {
		t.Error("a long value makes a long error")
	}
}

// FuzzCanonical checks that a canonical form is its own canonical form, whatever
// the setting.
func FuzzCanonical(f *testing.F) {
	all := append(TopicKeys(), BrokerKeys()...)
	for i, k := range all {
		f.Add(i, k.Default)
	}
	f.Fuzz(func(t *testing.T, i int, value string) {
		if i < 0 || i >= len(all) {
			t.Skip()
		}
		once, err := all[i].Canonical(value)
		if err != nil {
			return
		}
		if twice, err := all[i].Canonical(once); err != nil || twice != once {
			t.Errorf("%s: %q becomes %q and then %q, %v", all[i].Name, value, once, twice, err)
		}
	})
}
