// Package txn is the shell around the machine of Kafka's transactions (txn/kafka):
// it keeps the time for it. A transaction that is open for longer than its time-out
// is aborted, and a transactional id to which nothing happened for long is forgotten.
//
// The Keeper decides nothing. It asks the machine what is due and proposes entries
// that say so; the machine checks again when they are applied, so that a commit that
// comes first wins.
//
//	Keeper ─ what is due? ─▶ kafka.Machine
//	   └──── Abort, Forget ─▶ log ─▶ apply ─▶ kafka.Machine
//
// One goroutine, started by Start and ended by Stop, does it all.
package txn
