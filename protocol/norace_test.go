//go:build !race

package protocol_test

// raceEnabled says that the test binary has the race detector in it.
const raceEnabled = false
