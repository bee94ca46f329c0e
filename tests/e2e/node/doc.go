// Package node runs the sluice program for tests: it starts it on ports that
// the system chooses, waits until it is ready, stops or kills it, starts it
// again over the same data and on the same port, and reads what it logs and
// shows over HTTP.
//
//	n := node.Start(t, node.Options{Set: []string{"num.partitions=3"}})
//	... clients connect to n.Addr() ...
//	n.Kill()          // SIGKILL: what the page cache has is kept, nothing else
//	n.Restart()       // same folder, same ports
//
// At the end of its test a node is stopped, and held to what must be true of
// every run: it ended with exit code 0, it logged no error, and `sluice log
// verify` finds nothing wrong with its data folder. A test that breaks one of
// these on purpose says so in Options.
//
// The program is the one in SLUICE_BIN; Main builds it when that is not set.
// Settings in SLUICE_E2E_SET, as name=value with blanks between them, are given to
// every node.
package node
