// Package fetchsession keeps what consumers have told of their fetches, so that
// they need not tell it again: incremental fetch sessions (KIP-227).
//
// A request names a session and an epoch. What that means:
//
//	session  epoch
//	   0      -1    no session: the request lists all partitions
//	   0       0    all partitions are listed, and a session is asked for
//	  id      -1    as (0, -1), and session id ends
//	  id       0    as (0, 0), and session id ends
//	  id       n    continue: n must be the session's next epoch, which counts
//	                1, 2, ... 2147483647, 1, ...; the request lists only what
//	                changed, and the answer holds only what changed
//
// A Fetch is one request's view of this. The handler of Fetch requests calls
// Cache.Begin, walks over Fetch.Partitions as often as it likes and answers for
// each partition (Cursor.Answer says whether the answer belongs into the
// response), and calls End, or Throttle if it sends an empty response:
//
//	f, err := cache.Begin(&request, now)   // err: a top-level error, nothing else
//	for p := range f.Partitions() {
//		if p.Answer(read(p.Partition)) { ... }
//	}
//	id, err := f.End(now)
//
// Answers take effect in the session when End is called, and only those of the
// last walk, so a handler that finds too little data may wait and walk again.
// Partitions that had records move to the end of the session's order, so that
// busy ones do not starve the others when responses are full.
//
// # Which sessions are kept
//
// There are Options.Slots of them. A new one may take the slot of the session
// that was not used for the longest time, if that is more than
// Options.EvictAfter, or else of the smallest one that is older than that and
// has fewer partitions than the new one. A session counts as used when a request
// begins and when it ends. What a session remembers takes about 90 bytes a
// partition; a session that would hold more than Options.SessionBytes, or all
// together more than Options.TotalBytes, is not made, or ends with an error that
// lets the client go on with full requests.
//
// # Concurrency
//
// A Cache may be used by any number of goroutines, a Fetch by one at a time. A
// session has a mutex for its partitions, which is held during a walk, and the
// cache has one for everything else, which is held for moments only. The
// session's comes first; the cache's is never held while waiting for another.
// Clients send one request of a session at a time. If one does not, the newest
// request is served, and those that it overtook end with
// INVALID_FETCH_SESSION_EPOCH.
//
// Time is given by the caller, and so is randomness.
package fetchsession
