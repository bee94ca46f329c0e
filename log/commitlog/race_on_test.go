//go:build race

package commitlog_test

// raceEnabled tells that allocations cannot be counted.
const raceEnabled = true
