// Package catalog is the machine that knows the topics: their names, ids,
// partitions and configs, and the broker configs that were altered while the
// broker ran.
//
// Changes go through the log in two steps:
//
//	handler ── PlanCreate, PlanDelete, PlanCreatePartitions, PlanIncremental, PlanReplace
//	   │         check the request against the view as it is, and return a payload
//	   ▼
//	 propose ── entry of TypeCreateTopic, TypeDeleteTopic, TypeCreatePartitions, TypeAlterConfigs
//	   ▼
//	 Apply ──── the only writer: checks again what may have changed meanwhile, gives
//	            partitions their numbers, writes the state, publishes the new view
//
// A plan may look at the broker's own settings (limits, defaults, what is
// allowed); what they decide is put into the payload, and Apply depends on
// nothing but the state and the entry. So a plan that succeeded can still be
// refused when it is applied, if another one came first: the Result's Err is a
// kerr error then, and nothing has changed. Any other error of Apply means that
// the entry cannot be read, and the node must stop rather than go on with a
// state that others do not have.
//
// When Apply succeeds, Result.Value is a Change, for the parts that must follow
// the life of a topic; the log's partitions follow through Tx. The shell makes a topic's random id and gives it to
// PlanCreate, so that it rides in the entry.
//
// Look-ups may run at any time, beside Apply and each other. They take no lock
// (listings take a short one) and allocate nothing. A *Topic is a snapshot that
// never changes, except for Config, which returns the newest settings. A topic
// that is deleted stays readable for whoever holds it.
//
// A partition's number (entry.Partition) is never given twice, so that a topic
// made anew under an old name shares nothing with its predecessor. Numbers are
// given in runs, so a topic with many partitions costs no more than one with
// few. FORMAT.md describes the payloads and the state.
//
// One goroutine applies (Load counts as applying). Configs of clients and
// loggers are not here.
package catalog
