package fetchsession

import (
	"container/heap"
	"math"
	"sync"
	"time"

	"github.com/sluicemq/sluice/log/entry"
)

// Options bounds the sessions of a Cache. A zero field stands for its default.
type Options struct {
	// Slots is the largest number of sessions (Kafka's
	// max.incremental.fetch.session.cache.slots): 1000 by default, and none at all
	// if negative.
	Slots int
	// EvictAfter is for how long a session must have been idle, or must have
	// existed, before it may have to make room: 2 minutes by default.
	EvictAfter time.Duration
	// SessionBytes bounds the memory of one session: 16 MiB by default, which is
	// enough for 150,000 partitions.
	SessionBytes int64
	// TotalBytes bounds the memory of all sessions: 256 MiB by default.
	TotalBytes int64
}

func (o Options) withDefaults() Options {
	if o.Slots == 0 {
		o.Slots = 1000
	}
	if o.EvictAfter == 0 {
		o.EvictAfter = 2 * time.Minute
	}
	if o.SessionBytes == 0 {
		o.SessionBytes = 16 << 20
	}
	if o.TotalBytes == 0 {
		o.TotalBytes = 256 << 20
	}
	return o
}

// Cache holds the sessions.
type Cache struct {
	options Options
	random  func() uint32

	mu       sync.Mutex // guards all below, and of each session what it says there
	sessions map[int32]*session
	now      entry.Time // the latest that was ever given; lastUsed never runs back
	// The sessions by last use.
	oldest, newest *session
	evictable      bySize // those that a larger session may replace
	stats          Stats
}

// Stats counts what a Cache holds.
type Stats struct {
	Sessions   int
	Partitions int
	Bytes      int64  // estimated
	Evictions  uint64 // sessions that had to make room, ever
}

// Info describes a session.
type Info struct {
	ID         int32
	ClientID   string
	Partitions int
	Bytes      int64
	Created    entry.Time
	LastUsed   entry.Time
}

// New returns an empty cache. Ids of sessions are made from random, whose results
// should be hard to guess; it is called by one goroutine at a time.
func New(o Options, random func() uint32) *Cache {
	return &Cache{options: o.withDefaults(), random: random, sessions: make(map[int32]*session)}
}

// Stats returns what the cache holds.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// Sessions lists the sessions, the one that was not used for the longest time
// first.
func (c *Cache) Sessions() []Info {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]Info, 0, len(c.sessions))
	for s := c.oldest; s != nil; s = s.newer {
		list = append(list, Info{s.id, s.clientID, s.partitions, s.bytes, s.created, s.lastUsed})
	}
	return list
}

// find returns an open session, or nil.
func (c *Cache) find(id int32) *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions[id]
}

// close ends a session. What is being fetched with it may go on.
func (c *Cache) close(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.open {
		c.remove(s)
	}
}

// touch notes that the session is used, and how large it is by now. It returns
// false if the session has ended in the meantime, or ends because there is no
// room for what it has grown by.
func (c *Cache) touch(s *session, now entry.Time, partitions int, bytes int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.open {
		return false
	}
	now = c.advance(now)
	c.unlink(s)
	c.link(s)
	s.lastUsed = now
	c.resize(s, partitions, bytes)
	if s.heapAt < 0 && c.old(s.created, now) {
		heap.Push(&c.evictable, s)
	}
	for c.stats.Bytes > c.options.TotalBytes && c.oldest != s && c.old(c.oldest.lastUsed, now) {
		c.evict(c.oldest)
	}
	if c.stats.Bytes > c.options.TotalBytes || bytes > c.options.SessionBytes {
		c.remove(s)
		return false
	}
	return true
}

// hasRoom reports whether open would admit a session of so many partitions, as
// far as can be said without changing anything.
func (c *Cache) hasRoom(now entry.Time, partitions int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sessions) < c.options.Slots && c.stats.Bytes < c.options.TotalBytes {
		return true
	}
	return c.candidate(c.advance(now), partitions) != nil
}

// admit adds a session that was made for a client and gives it an id, if there
// is room or if others may be made to leave room.
func (c *Cache) admit(s *session, now entry.Time) bool {
	partitions, bytes := s.table.len(), s.size()
	if bytes > c.options.SessionBytes || bytes > c.options.TotalBytes {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now = c.advance(now)
	for len(c.sessions) >= c.options.Slots || c.stats.Bytes+bytes > c.options.TotalBytes {
		candidate := c.candidate(now, partitions)
		if candidate == nil {
			return false
		}
		c.evict(candidate)
	}
	s.id = c.newID()
	s.open, s.heapAt = true, -1
	s.created, s.lastUsed = now, now
	c.sessions[s.id] = s
	c.stats.Sessions++
	c.link(s)
	c.resize(s, partitions, bytes)
	return true
}

// candidate returns the session that has to make room for a session of so many
// partitions, or nil if all others are worth more.
func (c *Cache) candidate(now entry.Time, partitions int) *session {
	if c.oldest == nil {
		return nil
	}
	if c.old(c.oldest.lastUsed, now) {
		return c.oldest
	}
	if len(c.evictable) > 0 && c.evictable[0].partitions < partitions {
		return c.evictable[0]
	}
	return nil
}

func (c *Cache) evict(s *session) {
	c.remove(s)
	c.stats.Evictions++
}

func (c *Cache) remove(s *session) {
	s.open = false
	delete(c.sessions, s.id)
	c.unlink(s)
	if s.heapAt >= 0 {
		heap.Remove(&c.evictable, s.heapAt)
	}
	c.stats.Sessions--
	c.stats.Partitions -= s.partitions
	c.stats.Bytes -= s.bytes
}

func (c *Cache) resize(s *session, partitions int, bytes int64) {
	c.stats.Partitions += partitions - s.partitions
	c.stats.Bytes += bytes - s.bytes
	changed := s.partitions != partitions
	s.partitions, s.bytes = partitions, bytes
	if changed && s.heapAt >= 0 {
		heap.Fix(&c.evictable, s.heapAt)
	}
}

// newID returns an id that is not in use. Ids are positive.
func (c *Cache) newID() int32 {
	for {
		id := int32(c.random() & math.MaxInt32)
		if _, taken := c.sessions[id]; id != 0 && !taken {
			return id
		}
	}
}

func (c *Cache) advance(now entry.Time) entry.Time {
	c.now = max(c.now, now)
	return c.now
}

// old reports whether a moment is longer ago than Options.EvictAfter.
func (c *Cache) old(since, now entry.Time) bool {
	return int64(now-since) > c.options.EvictAfter.Milliseconds()
}

// link makes s the newest by last use.
func (c *Cache) link(s *session) {
	s.older, s.newer = c.newest, nil
	if c.newest != nil {
		c.newest.newer = s
	} else {
		c.oldest = s
	}
	c.newest = s
}

func (c *Cache) unlink(s *session) {
	if s.older != nil {
		s.older.newer = s.newer
	} else {
		c.oldest = s.newer
	}
	if s.newer != nil {
		s.newer.older = s.older
	} else {
		c.newest = s.older
	}
	s.older, s.newer = nil, nil
}

// bySize is a heap of sessions, the one with the fewest partitions at its top.
type bySize []*session

func (h bySize) Len() int { return len(h) }

func (h bySize) Less(i, j int) bool {
	if h[i].partitions != h[j].partitions {
		return h[i].partitions < h[j].partitions
	}
	return h[i].id < h[j].id
}

func (h bySize) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapAt, h[j].heapAt = i, j
}

// Push is for container/heap.
func (h *bySize) Push(x any) {
	s := x.(*session)
	s.heapAt = len(*h)
	*h = append(*h, s)
}

// Pop is for container/heap.
func (h *bySize) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	s.heapAt = -1
	return s
}
