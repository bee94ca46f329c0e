package group

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicemq/sluice/group/assign"
	"github.com/sluicemq/sluice/group/classic"
	"github.com/sluicemq/sluice/group/consumer"
	"github.com/sluicemq/sluice/log/entry"
)

// Proposer appends entries to the log.
type Proposer interface {
	// Propose asks for an entry. If it returns nil, done is called exactly once, by
	// the apply loop or by who appends, with what became of it; done does not block
	// and does not propose. The payload must not change until then. Propose may block
	// until the log has caught up.
	Propose(t entry.Type, payload []byte, done func(entry.Result)) error
}

// Options put a Coordinator together.
type Options struct {
	State    *State
	Proposer Proposer
	Limits   classic.Limits
	// Assignors are those that members of the consumer protocol may ask for; nil: all.
	Assignors []string
	// Consumer returns the settings of a group of the consumer protocol, as they hold
	// at the moment. It may be nil: the defaults hold.
	Consumer func(group string) *consumer.Settings
	// Topics is the catalog as such groups see it. It may be nil if there are none.
	Topics consumer.Topics
	// Ordering says which groups are ordered. It may be nil: none is.
	Ordering Ordering
	// Lease is for how long after it was last heard of a member of an ordered group
	// that was thrown out keeps its locks.
	Lease time.Duration
	// Upgrade lets classic groups with members become groups of the consumer protocol.
	Upgrade bool
	// Retention is how long offsets outlive their group.
	Retention time.Duration
	// CheckEvery is how often expired offsets are looked for.
	CheckEvery time.Duration

	// Rebalanced is told of each rebalance that came to an end. It may be nil, as
	// the others.
	Rebalanced func(group string, generation int32, members int)
	// Rebalances is told of each rebalance of a group of the consumer protocol, when it
	// begins.
	Rebalances func(group string, epoch int32, members int)
	// MemberExpired is told of members that were removed for their silence.
	MemberExpired func(group, member string)
	// ExpireFailed is told when expired offsets could not be forgotten. They are
	// looked for again.
	ExpireFailed func(error)
}

// shards is how many there are: more than processors that could contend for them.
const shards = 16

// Coordinator is the shell. Its methods may be called by any goroutine.
type Coordinator struct {
	options Options
	state   *State
	seed    maphash.Seed
	shards  [shards]shard

	ticket atomic.Uint64 // the last one given out

	rebalances, commits, refused, expired, silent atomic.Int64

	stopping chan struct{}
	once     sync.Once
	running  sync.WaitGroup
}

// New returns a Coordinator that does nothing yet. Start comes when the state is
// loaded and the log replayed.
func New(o Options) *Coordinator {
	if o.Rebalanced == nil {
		o.Rebalanced = func(string, int32, int) {}
	}
	if o.Assignors == nil {
		o.Assignors = assign.Names()
	}
	if o.Consumer == nil {
		o.Consumer = func(string) *consumer.Settings { return consumer.DefaultSettings() }
	}
	if o.Ordering == nil {
		o.Ordering = unordered{}
	}
	if o.Rebalances == nil {
		o.Rebalances = func(string, int32, int) {}
	}
	if o.MemberExpired == nil {
		o.MemberExpired = func(string, string) {}
	}
	if o.ExpireFailed == nil {
		o.ExpireFailed = func(error) {}
	}
	c := &Coordinator{options: o, state: o.State, seed: maphash.MakeSeed(), stopping: make(chan struct{})}
	for i := range c.shards {
		c.shards[i].init(c)
	}
	return c
}

// Start takes up the groups that have members, and begins to keep time.
func (c *Coordinator) Start() {
	now := time.Now()
	for _, name := range c.state.names() {
		if r := c.state.lookup(name); r.members() > 0 {
			s := c.shard(name)
			s.mu.Lock()
			if r.consumer != nil {
				s.adoptModern(name, s.restoreModern(name, r))
			} else {
				s.adopt(name, classic.Restore(name, &c.options.Limits, r.classic, now))
			}
			s.mu.Unlock()
		}
	}
	for _, name := range c.state.names() {
		c.lock(name)
	}
	for _, name := range c.state.locks.Groups() {
		c.lock(name)
	}
	c.running.Add(1 + shards)
	for i := range c.shards {
		go c.shards[i].run()
	}
	go c.expireLoop()
}

// Stop answers what is held with COORDINATOR_NOT_AVAILABLE, as it does with joins
// and syncs from then on, and ends the goroutines. Commits and heartbeats are
// served as before.
func (c *Coordinator) Stop() {
	c.once.Do(func() {
		close(c.stopping)
		for i := range c.shards {
			c.shards[i].stop()
		}
		c.running.Wait()
	})
}

// lock looks at the locks of a group.
func (c *Coordinator) lock(name string) {
	s := c.shard(name)
	s.mu.Lock()
	s.lock(name)
	if len(s.outbox) > 0 {
		s.rouse()
	}
	s.mu.Unlock()
}

func (c *Coordinator) shard(name string) *shard {
	return &c.shards[maphash.String(c.seed, name)%shards]
}
