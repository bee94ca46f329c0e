// Package diff finds out where a broker answers otherwise than Apache Kafka does.
//
// A Case asks one question, at every version of an API, by plain requests over TCP: nothing
// negotiates, retries, or repairs. What comes back is turned into lines of words, one for each
// field that differs from its default, with everything taken out that brokers may choose
// themselves: addresses, ids, the present time, the text of messages. So the answers of two brokers
// can be compared line by line, and those of Kafka can be kept:
//
//	              Play                 render               compare
//	Case, version ────▶ answer (kmsg) ────▶ path = value ────────────▶ differences
//	                                           ▲                           │
//	                       golden/GROUP.txt ───┘        docs/differences.md (those that are meant)
//
// The files in golden hold Kafka's answers, at the version that tests/oracle pins. They are
// recorded, never written:
//
//	go test ./tests/diff -run TestKafka -record     // start Kafka, play all cases, keep the answers
//	go test ./tests/diff -run TestKafka             // start Kafka, and see that it answers the same
//	go test ./tests/diff -run TestSluice            // build and start Sluice, and compare
//	go test ./tests/diff -run TestSluice -addr H:P  // compare a broker that runs
//	... -cases 'Fetch/*'                            // only some
//
// Other packages use Check to compare a broker of their own, and need no Java for it.
//
// To add cases, write a function that returns them, in a file named for the API, and add it to
// groups in case.go; then record. A case's name is for ever: the table of meant differences
// refers to it.
//
// In golden files "own" stands for the broker's own id, host or cluster id; T0, T1, … for the
// topics and groups of a case in the order in which it named them; p0, p1, … for producer ids; *0, *1,
// … for the random part of member ids; t0 for the time that the records' timestamps count from;
// "present" for the clock.
package diff
