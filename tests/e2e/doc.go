// Package e2e tests the sluice program from outside: the real binary over
// temporary folders, with real clients (kcat, franz-go, sarama) and with
// requests made by hand.
//
// A test is named for the fact it proves. Where the fact is one of the project's
// list of faults that other brokers had, a comment gives the entry (B01, ...).
// Tests run in parallel, each with a node of its own, wait for events and never
// for time to pass, and leave nothing running: package node sees to that.
//
//	node    starts, kills and watches the program
//	raw     requests and record batches by hand
//	crash   SIGKILL under load, again and again, and what must be left
package e2e
