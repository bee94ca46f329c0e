package log_test

import "flag"

// The long tests try every n-th case of thousands. With -every=1 they try all;
// make crash does.
var everyFlag = flag.Int("every", 0, "of the cases of the long tests, try every n-th (0: as many as a minute allows)")

var firstFlag = flag.Int64("first", 1, "the first case that TestAnyFileOperationMayFailOnce tries")

// every returns n, or what the flag says.
func every(n int) int {
	if *everyFlag > 0 {
		return *everyFlag
	}
	return n * slow
}
