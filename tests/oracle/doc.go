// Package oracle runs Apache Kafka, the broker whose answers decide what Sluice must answer.
//
// Kafka comes from its Maven artifacts, at the version that pom.xml pins. Prepare resolves them
// into the local Maven repository, writes down the class path, and compiles Oracle.java, the small
// program that runs one node, broker and controller in one; all of that is kept in the user's cache
// folder under a name made from the two sources, so it happens once and needs no network after.
//
// A Broker keeps its data in a temporary folder that is gone when it has stopped. It stops when
// Close is called, and also when the process that started it dies, because its standard input ends
// then. Ready means ready: Run returns when Kafka itself says that it serves requests.
//
//	b := oracle.Start(t)
//	conn, err := net.Dial("tcp", b.Addr)
//
// Tests that need it are skipped where Java or Maven is missing, unless SLUICE_ORACLE=require is
// set in the environment, which CI does.
package oracle
