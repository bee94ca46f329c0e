//go:build !race

package conn

// raceEnabled says that the test binary has the race detector in it.
const raceEnabled = false
