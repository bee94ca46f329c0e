// Package apply turns durable entries into state: the one deterministic loop
// that gives a record batch its base offset, judges idempotent producers, and
// lets each part (topics, producer ids, ...) change what it owns.
//
//	CommitLog ─ group ─▶ Loop ─▶ appliers ─▶ state batch ─ checkpoint ─▶ state store
//	                       │  └─▶ ConsumeQueue, long polls
//	                       └────▶ whoever proposed the entry
//
// What an entry does depends on the entry and on the state before it, and on
// nothing else: no clock, no randomness, no order of maps or of I/O. The same
// entries give the same state on every node and after every restart.
//
// State becomes durable in checkpoints. Between two of them changes gather in
// one state batch; a checkpoint commits it together with the applied index, so
// that the state store always holds the state of exactly one index. After a
// restart the entries behind that index are applied again, by the same code.
package apply
