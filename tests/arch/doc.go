// Package arch holds the rules of structure that Sluice keeps, as tests: which
// package may import which, that every package says what it is for, and where
// a clock, randomness, package-level state or a panic may stand.
//
// It reads the source as text (go/parser) and runs nothing of it.
package arch
