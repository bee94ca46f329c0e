// Package streams runs an unchanged Kafka Streams program, Words.java, with processing.guarantee
// exactly_once_v2 against Sluice. The program counts words over a repartition topic and a store with
// a changelog, and writes each new count of a word; so exactly once means that the counts of every
// word come out as 1, 2, 3, and so on, up to how often the word was written. Programs and broker are
// killed meanwhile.
//
//	go test ./tests/streams -v
//	go test ./tests/streams -v -against kafka     # Kafka itself, whose broker is not killed
//	go test ./tests/streams -v -rounds 50 -sluice bin/sluice
//
// It is skipped where Java or Maven is missing, unless SLUICE_ORACLE=require is set.
package streams
