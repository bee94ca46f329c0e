package group

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// store is a state store in memory.
type store map[string]string

func (s store) Set(key, value []byte) { s[string(key)] = string(value) }
func (s store) Delete(key []byte)     { delete(s, string(key)) }

func (s store) DeleteRange(from, to []byte) {
	for k := range s {
		if k >= string(from) && k < string(to) {
			delete(s, k)
		}
	}
}

func (s store) Get(key []byte) ([]byte, bool, error) {
	v, ok := s[string(key)]
	return []byte(v), ok, nil
}

func (s store) Scan(from, to []byte, visit func(key, value []byte) bool) error {
	for _, k := range slices.Sorted(maps.Keys(s)) {
		if bytes.Compare([]byte(k), from) >= 0 && bytes.Compare([]byte(k), to) < 0 {
			if !visit([]byte(k), []byte(s[k])) {
				return nil
			}
		}
	}
	return nil
}

// String lists keys and values as hex, a line each, in the order of the keys.
func (s store) String() string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(&b, "%x = %x\n", k, s[k])
	}
	return b.String()
}
