package config

import (
	"slices"
	"strconv"
	"strings"
)

// Source says where a value comes from, with the numbers of DescribeConfigs.
type Source int8

// The sources of values.
const (
	SourceTopic          Source = 1 // override of the topic
	SourceDynamicBroker  Source = 2 // altered for this node
	SourceDynamicDefault Source = 3 // altered for the whole cluster
	SourceStatic         Source = 4 // file, environment, flags
	SourceDefault        Source = 5
	SourceGroup          Source = 8 // override of the group
)

var layerSources = [layerCount]Source{SourceDynamicBroker, SourceDynamicDefault, SourceStatic}

// Entry is one setting as DescribeConfigs shows it.
type Entry struct {
	Name      string
	Value     string
	Null      bool // there is no value
	ReadOnly  bool
	Sensitive bool // the value must not be shown; none is yet
	Source    Source
	Type      Type // 0 for a setting of another version that this one does not know
	Doc       string
	// Synonyms are the places that could give the value and do, the one that
	// counts first. Only filled if asked for.
	Synonyms []Synonym
}

// Synonym is a value in one of the places where it can be set.
type Synonym struct {
	Name   string
	Value  string
	Source Source
}

// DescribeTopic returns the settings of a topic with the overrides, sorted by
// name: those named by names that exist, or all if names is empty.
func (b *Broker) DescribeTopic(overrides Overrides, names []string, synonyms bool) []Entry {
	entries := make([]Entry, 0, len(topicTable))
	for _, k := range topicTable {
		if !asked(names, k.Name) {
			continue
		}
		e := Entry{Name: k.Name, Value: b.topicValue(k, overrides), Type: k.Type, Doc: k.Doc, Source: SourceDefault}
		if _, source, ok := b.firstSynonym(k); ok {
			e.Source = source
		}
		own, overridden := overrides.Get(k.Name)
		if overridden {
			e.Source = SourceTopic
		}
		if synonyms {
			if overridden {
				e.Synonyms = append(e.Synonyms, Synonym{k.Name, own, SourceTopic})
			}
			e.Synonyms = b.appendSynonyms(e.Synonyms, k.Synonyms)
		}
		entries = append(entries, e)
	}
	known := len(entries)
	for _, s := range overrides { // what another version stored is shown as it is, not hidden
		if TopicKey(s.Name) == nil && asked(names, s.Name) {
			entries = append(entries, Entry{Name: s.Name, Value: s.Value, Source: SourceTopic})
		}
	}
	if len(entries) > known {
		slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	}
	return entries
}

// Describe returns the broker's settings, sorted by name: those named by names
// that exist, or all if names is empty.
func (b *Broker) Describe(names []string, synonyms bool) []Entry {
	entries := make([]Entry, 0, len(brokerTable))
	for _, k := range brokerTable {
		if !asked(names, k.Name) {
			continue
		}
		// A name shows its own value; that a synonym would go before it is for
		// the reader to see from the synonym.
		value, source, given := b.given(k.Name)
		if !given {
			value, source = k.Default, SourceDefault
		}
		e := Entry{
			Name: k.Name, Value: value, Null: !given && k.Unset, ReadOnly: k.Update != Dynamic,
			Source: source, Type: k.Type, Doc: k.Doc,
		}
		if synonyms {
			chain := k.Synonyms
			if len(chain) == 0 {
				chain = []SynonymKey{{k.Name, 1}}
			}
			e.Synonyms = b.appendSynonyms(nil, chain)
		}
		entries = append(entries, e)
	}
	return entries
}

// DescribeClusterDefaults returns the settings that were altered for the whole
// cluster, sorted by name, and no others: those named by names, or all if names
// is empty.
func DescribeClusterDefaults(cluster Overrides, names []string, synonyms bool) []Entry {
	entries := make([]Entry, 0, len(cluster))
	for _, s := range cluster {
		if !asked(names, s.Name) {
			continue
		}
		e := Entry{Name: s.Name, Value: s.Value, Source: SourceDynamicDefault}
		if k := BrokerKey(s.Name); k != nil {
			e.Type, e.Doc = k.Type, k.Doc
		}
		if synonyms {
			e.Synonyms = []Synonym{{s.Name, s.Value, SourceDynamicDefault}}
		}
		entries = append(entries, e)
	}
	return entries
}

// Count returns how many settings a topic, or else a broker, has.
func Count(topic bool) int {
	if topic {
		return len(topicTable)
	}
	return len(brokerTable)
}

func asked(names []string, name string) bool {
	return len(names) == 0 || slices.Contains(names, name)
}

// given returns the value of a broker setting and the layer it is set in.
func (b *Broker) given(name string) (string, Source, bool) {
	for i, layer := range b.layers {
		if value, ok := layer[name]; ok {
			return value, layerSources[i], true
		}
	}
	return "", 0, false
}

// firstSynonym returns the value that the broker's settings give to k: the most
// specific layer first and, within one, the most specific name. ok is false if
// not even the table has one.
func (b *Broker) firstSynonym(k *Key) (value string, source Source, ok bool) {
	chain := k.Synonyms
	if len(chain) == 0 {
		chain = []SynonymKey{{k.Name, 1}}
	}
	for i, layer := range b.layers {
		for _, s := range chain {
			if value, ok := layer[s.Name]; ok {
				return scaleUp(value, s.Scale), layerSources[i], true
			}
		}
	}
	for _, s := range chain {
		if d := BrokerKey(s.Name); d != nil && !d.Unset {
			return scaleUp(d.Default, s.Scale), SourceDefault, true
		}
	}
	return "", 0, false
}

// appendSynonyms appends, in the order of firstSynonym, all places that have a
// value, in their own units.
func (b *Broker) appendSynonyms(all []Synonym, chain []SynonymKey) []Synonym {
	for i, layer := range b.layers {
		for _, s := range chain {
			if value, ok := layer[s.Name]; ok {
				all = append(all, Synonym{s.Name, value, layerSources[i]})
			}
		}
	}
	for _, s := range chain {
		if d := BrokerKey(s.Name); d != nil && !d.Unset {
			all = append(all, Synonym{s.Name, d.Default, SourceDefault})
		}
	}
	return all
}

// scaleUp converts a number to the finer unit; negative numbers, which mean "no
// limit", stay. The coarse units are 32 bits, so that nothing overflows.
func scaleUp(value string, scale int64) string {
	if scale == 1 {
		return value
	}
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 0 {
		return value
	}
	return strconv.FormatInt(n*scale, 10)
}

func scaleDown(value string, scale int64) string {
	return strconv.FormatInt(number(value)/scale, 10)
}
