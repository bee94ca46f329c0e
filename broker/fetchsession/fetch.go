package fetchsession

import (
	"iter"
	"math"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// Epochs of requests that do not continue a session. Versions of Fetch that
// know no sessions are as SessionID 0 with FinalEpoch.
const (
	InitialEpoch int32 = 0  // asks for a session
	FinalEpoch   int32 = -1 // wants none
)

// Request is what a Fetch request says about its session.
type Request struct {
	SessionID int32
	Epoch     int32
	TopicIDs  bool   // topics are named by id (version 13 and later), else by name
	ClientID  string // for Info; copied if it is kept
	// Partitions are those of the request, all or only the changed ones. The list
	// is borrowed until End, and a Fetch may write to it. Names are copied if they
	// are kept.
	Partitions []Partition
	Forgotten  []ForgottenPartition
}

// Partition is a partition that is to be fetched, and how.
type Partition struct {
	TopicID            entry.TopicID // if Request.TopicIDs
	Topic              string        // if not
	Index              int32
	FetchOffset        entry.Offset
	LogStart           entry.Offset // of the fetcher, if it is a follower; else -1
	MaxBytes           int32
	CurrentLeaderEpoch int32
	LastFetchedEpoch   int32

	// What a full request was answered, for the session that it begins.
	toldHighWatermark entry.Offset
	toldLogStart      entry.Offset
}

// ForgottenPartition is a partition that a session is to drop.
type ForgottenPartition struct {
	TopicID entry.TopicID // if Request.TopicIDs
	Topic   string        // if not
	Index   int32
}

// Answer is what a session must know of the answer for a partition.
type Answer struct {
	HighWatermark entry.Offset
	LogStart      entry.Offset
	Records       bool // there are some
	Failed        bool // there is an error code
	// Directed says that the client is told a diverging epoch or a preferred
	// replica.
	Directed bool
}

func (r *Request) key(id entry.TopicID, name string) topicKey {
	if r.TopicIDs {
		return topicKey{id: id}
	}
	return topicKey{name: name}
}

// Fetch is one request's view of its partitions. It is used by one goroutine at
// a time.
type Fetch struct {
	cache   *Cache
	request *Request
	session *session // nil if the request lists all its partitions
	epoch   int32    // of the session, as long as no later request has come
	opens   bool     // a session is asked for
	cursor  Cursor
}

// Begin finds the session of a request, and brings it up to date with it. It is
// refused with FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or
// FETCH_SESSION_TOPIC_ID_ERROR, for which the answer holds nothing else.
//
// The request is borrowed until End or Throttle.
func (c *Cache) Begin(r *Request, now entry.Time) (*Fetch, error) {
	f := &Fetch{cache: c, request: r}
	if r.Epoch == InitialEpoch || r.Epoch == FinalEpoch {
		if r.SessionID != 0 {
			if s := c.find(r.SessionID); s != nil {
				c.close(s)
			}
		}
		f.opens = r.Epoch == InitialEpoch
		f.forgetAnswers()
		return f, nil
	}
	s := c.find(r.SessionID)
	if s == nil {
		return nil, notFound(r.SessionID)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != r.Epoch {
		return nil, kerr.New(kerr.InvalidFetchSessionEpoch, "fetch session %d expects epoch %d, not %d", s.id, s.epoch, r.Epoch)
	}
	if s.topicIDs != r.TopicIDs {
		return nil, kerr.New(kerr.FetchSessionTopicIDError,
			"fetch session %d was begun by a version on the other side of version 13, which brought topic ids", s.id)
	}
	s.update(r, c.options.SessionBytes)
	if s.table.len() == 0 {
		c.close(s)
		return f, nil
	}
	if !c.touch(s, now, s.table.len(), s.size()) {
		return nil, notFound(r.SessionID)
	}
	s.epoch = nextEpoch(s.epoch)
	f.session, f.epoch = s, s.epoch
	return f, nil
}

func notFound(id int32) error {
	return kerr.New(kerr.FetchSessionIDNotFound, "there is no fetch session %d", id)
}

func nextEpoch(epoch int32) int32 {
	if epoch == math.MaxInt32 {
		return 1
	}
	return epoch + 1
}

// Len returns how many partitions are fetched: those of the session, not only
// those of the request. It is 0 once a later request of the session has come.
func (f *Fetch) Len() int {
	s := f.session
	if s == nil {
		return len(f.request.Partitions)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != f.epoch {
		return 0
	}
	return s.table.len()
}

// Partitions walks over the partitions in the order in which they are to be
// read. The cursor is the same one at each step. The walk holds the session's
// mutex: its body must call no method of f. It forgets the answers of an earlier
// walk, and is empty once a later request of the session has come.
func (f *Fetch) Partitions() iter.Seq[*Cursor] { return f.walk }

func (f *Fetch) walk(yield func(*Cursor) bool) {
	c := &f.cursor
	s := f.session
	if s == nil {
		f.forgetAnswers()
		for i := range f.request.Partitions {
			p := &f.request.Partitions[i]
			c.Partition, c.requested = *p, p
			if !yield(c) {
				return
			}
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != f.epoch {
		return
	}
	s.changes = s.changes[:0]
	c.session = s
	for i := s.table.slots[0].next; i != 0; i = s.table.slots[i].next {
		s.table.get(i, &c.Partition)
		c.slot = i
		if !yield(c) {
			return
		}
	}
}

// forgetAnswers makes a full request's partitions as if none had been answered.
func (f *Fetch) forgetAnswers() {
	for i := range f.request.Partitions {
		f.request.Partitions[i].toldHighWatermark, f.request.Partitions[i].toldLogStart = -1, -1
	}
}

// End ends a fetch whose response is complete: it makes the session that was
// asked for, or remembers in the one there is what the client is told. It
// returns the session id for the response, 0 for none, or
// INVALID_FETCH_SESSION_EPOCH if a later request of the session has come; then
// the answer holds nothing else.
func (f *Fetch) End(now entry.Time) (int32, error) {
	s := f.session
	switch {
	case s != nil:
		return f.finish(now, true)
	case f.opens && f.cache.hasRoom(now, len(f.request.Partitions)):
		s = newSession(f.request)
		if f.cache.admit(s, now) {
			return s.id, nil
		}
	}
	return 0, nil
}

// Throttle ends a fetch whose response is left empty because the client has used
// up its quota: what the client is told does not change. It returns what End
// would, but begins no session.
func (f *Fetch) Throttle(now entry.Time) (int32, error) {
	if f.session == nil {
		return 0, nil
	}
	return f.finish(now, false)
}

func (f *Fetch) finish(now entry.Time, answered bool) (int32, error) {
	s := f.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != f.epoch {
		return 0, kerr.New(kerr.InvalidFetchSessionEpoch, "fetch session %d was used by another request meanwhile", s.id)
	}
	if answered {
		for _, c := range s.changes {
			to := &s.table.slots[c.slot]
			to.highWatermark, to.logStart = c.highWatermark, c.logStart
			if c.records {
				s.table.toEnd(c.slot)
			}
		}
	}
	s.changes = s.changes[:0]
	if cap(s.changes) > 64 && cap(s.changes) > s.table.len() {
		s.changes = nil
	}
	// A session that was ended by now is answered as if it were there; the next
	// request will learn that it is not.
	f.cache.touch(s, now, s.table.len(), s.size())
	return s.id, nil
}

// Cursor stands at one partition during a walk.
type Cursor struct {
	Partition
	requested *Partition // in a full request
	session   *session   // in an incremental one
	slot      uint32
}

// Answer notes what the client is to be told of the partition, and reports
// whether it needs to be told: always in answer to a full request, and
// otherwise if there are records, if something else is new to the client, or in
// any case but the plain one. It is called once for a partition in each walk.
func (c *Cursor) Answer(a Answer) bool {
	told := a.HighWatermark
	if a.Failed {
		told = -1 // so that the client hears of the partition again when it is well
	}
	if c.session == nil {
		c.requested.toldHighWatermark, c.requested.toldLogStart = told, a.LogStart
		return true
	}
	s := &c.session.table.slots[c.slot]
	if !a.Records && !a.Failed && !a.Directed && a.HighWatermark == s.highWatermark && a.LogStart == s.logStart {
		return false
	}
	c.session.changes = append(c.session.changes, change{c.slot, a.Records, told, a.LogStart})
	return true
}
