package fetchsession

import (
	"strings"
	"sync"

	"github.com/sluicemq/sluice/log/entry"
)

// session is what is remembered for a client from one request to the next.
type session struct {
	id       int32
	clientID string
	topicIDs bool // made by a version that names topics by id
	created  entry.Time

	// Guarded by Cache.mu. Partitions and bytes are those of the last use.
	open         bool
	lastUsed     entry.Time
	partitions   int
	bytes        int64
	older, newer *session
	heapAt       int // place in Cache.evictable, or -1

	mu    sync.Mutex // guards all below; taken before Cache.mu
	epoch int32      // that the next request must have
	table *table
	// changes are the answers of the current walk that differ from what the client
	// knows. They belong to the Fetch that was begun last.
	changes []change
}

// change is what is to be remembered of an answer.
type change struct {
	slot          uint32
	records       bool
	highWatermark entry.Offset
	logStart      entry.Offset
}

// newSession returns a session that is in no cache yet.
func newSession(r *Request) *session {
	s := &session{
		clientID: strings.Clone(r.ClientID),
		topicIDs: r.TopicIDs,
		epoch:    1,
		table:    newTable(len(r.Partitions)),
	}
	for i := range r.Partitions {
		p := &r.Partitions[i]
		to := s.table.put(r.key(p.TopicID, p.Topic), p)
		to.highWatermark, to.logStart = p.toldHighWatermark, p.toldLogStart
	}
	return s
}

// size returns about how much memory the session takes.
func (s *session) size() int64 {
	const fixed = 256
	return fixed + int64(len(s.clientID)) + s.table.bytes()
}

// update adds, changes and removes what a request asks for. It stops early if
// the session becomes larger than limit.
func (s *session) update(r *Request, limit int64) {
	s.changes = s.changes[:0]
	for i := range r.Partitions {
		if s.size() > limit {
			return
		}
		p := &r.Partitions[i]
		s.table.put(r.key(p.TopicID, p.Topic), p)
	}
	for i := range r.Forgotten {
		p := &r.Forgotten[i]
		s.table.remove(r.key(p.TopicID, p.Topic), p.Index)
	}
	s.table = s.table.compact()
}
