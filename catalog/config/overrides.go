package config

import (
	"slices"
	"strings"
)

// Setting is a name with a value in canonical form.
type Setting struct {
	Name  string
	Value string
}

// Overrides are the settings given to one topic, or to the broker while it
// runs, sorted by name, each name once. They are immutable.
type Overrides []Setting

// Get returns the value of a setting.
func (o Overrides) Get(name string) (value string, ok bool) {
	i, ok := o.find(name)
	if !ok {
		return "", false
	}
	return o[i].Value, true
}

func (o Overrides) find(name string) (int, bool) {
	return slices.BinarySearchFunc(o, name, func(s Setting, name string) int {
		return strings.Compare(s.Name, name)
	})
}

// Equal reports whether both hold the same settings.
func (o Overrides) Equal(other Overrides) bool { return slices.Equal(o, other) }

// MakeOverrides returns the settings as Overrides; of those with the same name
// the last counts. The slice stays the caller's.
func MakeOverrides(settings []Setting) Overrides {
	o := Overrides(nil)
	for _, s := range settings {
		o = o.set(s.Name, s.Value)
	}
	return o
}

// OpKind is what an Op does, with the numbers of IncrementalAlterConfigs.
type OpKind int8

// The kinds of Op.
const (
	OpSet      OpKind = 0
	OpDelete   OpKind = 1
	OpAppend   OpKind = 2
	OpSubtract OpKind = 3
)

// Op is one change of one setting.
type Op struct {
	Kind  OpKind
	Name  string
	Value string // canonical; unused by OpDelete
	// Base is what OpAppend and OpSubtract start from when the setting is not
	// overridden: the value in effect when the change was planned.
	Base string
}

// Apply returns the overrides after the changes, in their order. The receiver
// stays as it is. The result depends on nothing but the arguments.
func (o Overrides) Apply(ops []Op) Overrides {
	next := slices.Clone(o)
	for _, op := range ops {
		switch op.Kind {
		case OpSet:
			next = next.set(op.Name, op.Value)
		case OpDelete:
			if i, ok := next.find(op.Name); ok {
				next = slices.Delete(next, i, i+1)
			}
		case OpAppend, OpSubtract:
			old, ok := next.Get(op.Name)
			if !ok {
				old = op.Base
			}
			next = next.set(op.Name, combine(op.Kind, old, op.Value))
		}
	}
	return slices.Clip(next)
}

// set changes the receiver's array; only Apply and MakeOverrides, which own
// theirs, may call it.
func (o Overrides) set(name, value string) Overrides {
	i, ok := o.find(name)
	if ok {
		o[i].Value = value
		return o
	}
	return slices.Insert(o, i, Setting{Name: name, Value: value})
}

// combine adds the items of a list to another one, or takes them away.
func combine(kind OpKind, old, value string) string {
	items, change := splitList(old), splitList(value)
	if kind == OpAppend {
		for _, item := range change {
			if !slices.Contains(items, item) {
				items = append(items, item)
			}
		}
		return strings.Join(items, ",")
	}
	items = slices.DeleteFunc(items, func(item string) bool { return slices.Contains(change, item) })
	return strings.Join(items, ",")
}
