package config

import (
	"fmt"
	"slices"
	"strings"
)

// Type is the type of a setting's values, with the numbers that DescribeConfigs
// uses.
type Type int8

// The types of settings.
const (
	Boolean  Type = 1
	String   Type = 2
	Int      Type = 3 // 32 bits, signed
	Short    Type = 4 // 16 bits, signed
	Long     Type = 5 // 64 bits, signed
	Double   Type = 6
	List     Type = 7 // separated by commas
	Class    Type = 8
	Password Type = 9
)

var typeNames = [...]string{
	Boolean: "boolean", String: "string", Int: "int", Short: "short", Long: "long",
	Double: "double", List: "list", Class: "class", Password: "password",
}

// String returns the name that the documentation shows.
func (t Type) String() string {
	if t > 0 && int(t) < len(typeNames) {
		return typeNames[t]
	}
	return fmt.Sprintf("type-%d", int8(t))
}

// Effect says what Sluice does with a setting.
type Effect uint8

const (
	// Acts means that Sluice honours the setting.
	Acts Effect = iota
	// Awaits means that the value is checked, kept and shown, and will be
	// honoured by log compaction, which does not run yet.
	Awaits
	// Inert means that the setting only tunes files or services of Kafka's own.
	// On a topic it is checked, kept and shown, because tools set it as a matter
	// of course; on the broker it is shown and cannot be set.
	Inert
)

// Update says when a broker setting may change.
type Update uint8

const (
	// ReadOnly settings take effect at the next start.
	ReadOnly Update = iota
	// Dynamic settings can be altered while the broker runs, for the cluster or
	// for one node.
	Dynamic
)

// Key describes one setting. Keys belong to the package's tables and must not
// be changed.
type Key struct {
	Name    string
	Type    Type
	Default string // canonical text
	Unset   bool   // there is no default: an unset value is null
	Effect  Effect
	Update  Update // broker settings only; every topic setting is dynamic
	Group   string // heading in docs/config.md; broker settings only

	// Doc is one or more sentences, including the one that follows from Effect.
	Doc string

	// Synonyms are the broker's names for the setting, most specific first. For
	// a broker setting they include its own name, and may be empty if that is
	// the only one.
	Synonyms []SynonymKey

	check   check
	broker  func(*Broker) any // where the value goes, or nil
	topic   func(*Topic) any
	group   func(*Group) any
	instead string // for an Inert broker setting: the one to use, if any
}

// SynonymKey is a broker setting that stands for another one.
type SynonymKey struct {
	Name  string
	Scale int64 // how many units of the other setting make one of this; ≥ 1
}

// Expect describes the values that the setting takes, as in "a whole number of
// at least 1".
func (k *Key) Expect() string { return k.check.expect }

// Canonical returns value in the form in which it is stored and shown, or an
// error that names the setting, the value and what was expected.
func (k *Key) Canonical(value string) (string, error) {
	text, ok := k.check.canonical(strings.TrimSpace(value))
	if !ok {
		return "", fmt.Errorf("%s: %q is not %s", k.Name, clip(value), k.check.expect)
	}
	return text, nil
}

// MaxValueBytes bounds the length of a value.
const MaxValueBytes = 32 << 10

// clip keeps messages readable when a client sends a very long text.
func clip(s string) string {
	if len(s) > 100 {
		return s[:100] + "..."
	}
	return s
}

// TopicKey returns the topic setting with the name, or nil.
func TopicKey(name string) *Key { return topicIndex[name] }

// BrokerKey returns the broker setting with the name, or nil.
func BrokerKey(name string) *Key { return brokerIndex[name] }

// TopicKeys returns all topic settings, sorted by name. The slice is the
// caller's, the keys are not.
func TopicKeys() []*Key { return slices.Clone(topicTable) }

// BrokerKeys returns all broker settings, sorted by name. The slice is the
// caller's, the keys are not.
func BrokerKeys() []*Key { return slices.Clone(brokerTable) }

var (
	topicTable  = complete(topicKeys())
	topicIndex  = indexByName(topicTable)
	brokerTable = complete(brokerKeys())
	brokerIndex = indexByName(brokerTable)
)

const (
	awaitsNote = "Accepted, kept and shown; takes effect with log compaction, which this version does not run yet."
	inertNote  = "Accepted for compatibility, no effect: it tunes something that only Kafka has."
	brokerNote = "Shown for compatibility, no effect, and cannot be set: it tunes something that only Kafka has."
)

// complete sorts the keys and adds to each text the sentence that its effect
// asks for, so that no row of a table can forget it.
func complete(keys []*Key) []*Key {
	slices.SortFunc(keys, func(a, b *Key) int { return strings.Compare(a.Name, b.Name) })
	for _, k := range keys {
		switch {
		case k.Effect == Awaits:
			k.Doc += " " + awaitsNote
		case k.Effect == Inert && k.Group != "":
			k.Doc += " " + brokerNote
		case k.Effect == Inert:
			k.Doc += " " + inertNote
		}
	}
	return keys
}

func indexByName(keys []*Key) map[string]*Key {
	m := make(map[string]*Key, len(keys))
	for _, k := range keys {
		m[k.Name] = k
	}
	return m
}
