package queuelock

import (
	"maps"
	"slices"
)

// store is a state store in memory.
type store map[string]string

func (s store) Set(key, value []byte) { s[string(key)] = string(value) }
func (s store) Delete(key []byte)     { delete(s, string(key)) }

func (s store) DeleteRange(from, to []byte) {
	maps.DeleteFunc(s, func(k, _ string) bool { return k >= string(from) && k < string(to) })
}

func (s store) Get(key []byte) ([]byte, bool, error) {
	v, ok := s[string(key)]
	return []byte(v), ok, nil
}

func (s store) Scan(from, to []byte, visit func(key, value []byte) bool) error {
	for _, k := range slices.Sorted(maps.Keys(s)) {
		if k >= string(from) && k < string(to) && !visit([]byte(k), []byte(s[k])) {
			break
		}
	}
	return nil
}
