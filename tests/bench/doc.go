// Command bench measures Sluice beside other brokers of Kafka's protocol, in one
// run and on one disk: throughput, latency, processor time, memory, and bytes
// written to disk.
//
//	go run ./tests/bench -binary bin/sluice -out docs/performance
//
// Each round starts one broker after the other in a folder of its own, warms it
// up, and runs the workloads; rounds repeat in turn, so that a machine that gets
// slower is slower for all. Medians and the spread between rounds are reported,
// as a table, JSON and plots.
//
// The load comes from franz-go, as an application's would. Latency is measured
// against the time at which a record was due to be sent, so that a stall counts
// for every record that it held up (no coordinated omission). Processor time and
// memory are the broker's own, from /proc.
package main
