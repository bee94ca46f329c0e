//go:build race

package log_test

// slow is how many times fewer cases the long tests try under the race detector.
const slow = 8
