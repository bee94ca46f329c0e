// Package watch knows who waits for which partitions: the long polls of
// consumers.
//
// A consumer that found too little says which partitions it waits for (Watch),
// looks once more, and then waits on Woken beside a deadline of its own. The
// apply loop tells of each partition that got a batch, or was deleted (Notify).
// A waiter that still has too little after it was woken calls Rearm and looks
// again; in the end it calls Cancel.
//
//	consumer:    Watch ─▶ read ─▶ wait on Woken ─▶ Rearm ─▶ read ─▶ … ─▶ Cancel
//	                                    ▲
//	apply loop:  publish ─▶ Notify ─────┘
//
// Nothing is lost as long as the waiter watches (or rearms) before it reads and
// the apply loop publishes before it notifies: either the read sees the change,
// or the notification finds the waiter.
//
// The Hub has no goroutines and no timers. Notify of a partition that nobody
// waits for is one load of a counter; otherwise it takes a lock that is never
// held while anybody waits or runs foreign code. A waiter is woken at most once
// until it rearms, and rearming costs only as many steps as partitions were
// notified, so that a consumer of 10,000 partitions does not pay for all of them
// with each batch. A waiter takes about 40 bytes a partition.
package watch
