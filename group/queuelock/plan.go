package queuelock

import (
	"cmp"
	"slices"

	"github.com/sluicemq/sluice/log/entry"
)

// Fate is what became of a member that has a lock.
type Fate struct {
	kind   fateKind
	until  entry.Time
	member string
}

type fateKind uint8

const (
	fateStays fateKind = iota
	fateLeft
	fateLost
	fateMoved
)

// Stays is the fate of a member of the group. What it was not assigned it has given
// up.
func Stays() Fate { return Fate{kind: fateStays} }

// Left is the fate of a member that has left of its own accord.
func Left() Fate { return Fate{kind: fateLeft} }

// Lost is the fate of a member that was thrown out, or of which nothing is known:
// its lease ends at the time until, which is a lease after it was last heard of, or
// after the restart.
func Lost(until entry.Time) Fate { return Fate{kind: fateLost, until: until} }

// Moved is the fate of a static member that has come back under another member id.
func Moved(to string) Fate { return Fate{kind: fateMoved, member: to} }

// Owner says to whom a partition is assigned.
type Owner struct {
	Partition entry.Partition
	Member    string
}

// Situation is how things stand in a group.
type Situation struct {
	Group string
	Now   entry.Time
	// Owners are the assignments of an ordered group, in any order; what a member was
	// asked to give up and has not yet counts as its own. None: the group is not
	// ordered, or has no members.
	Owners []Owner
	// Fate says what became of a member that has a lock, or waits for one.
	Fate func(member string) Fate
	// Keep lets members keep locks of partitions that nobody is assigned: those of the
	// classic protocol give up what they were not assigned only when they join again.
	Keep bool
	// Exists reports whether there is such a partition (any more).
	Exists func(entry.Partition) bool
}

// Plan returns the payload of the entry that brings the locks in line with the
// situation, or nil if nothing is to be done.
func (t *Table) Plan(s *Situation) []byte {
	owners := slices.DeleteFunc(slices.Clone(s.Owners), func(o Owner) bool { return !s.Exists(o.Partition) })
	slices.SortFunc(owners, func(a, b Owner) int { return compare(a.Partition, b.Partition) })
	c := change{group: s.Group}
	for _, l := range t.List(s.Group) {
		for len(owners) > 0 && owners[0].Partition < l.Partition {
			c.acquire(owners[0])
			owners = owners[1:]
		}
		owner := ""
		if len(owners) > 0 && owners[0].Partition == l.Partition {
			owner, owners = owners[0].Member, owners[1:]
		}
		s.plan(&c, &l, owner)
	}
	for _, o := range owners {
		c.acquire(o)
	}
	if len(c.ops) == 0 {
		return nil
	}
	return c.encode()
}

// plan adds what is to be done about a lock whose partition is assigned to owner,
// who may be nobody.
func (s *Situation) plan(c *change, l *Lock, owner string) {
	if !s.Exists(l.Partition) {
		c.want(l, "")
		c.add(op{kind: opRelease, partition: l.Partition, epoch: l.Epoch})
		return
	}
	fate := s.Fate(l.Member)
	switch {
	case owner == l.Member:
		if l.Until > 0 || l.Next != "" {
			c.acquire(Owner{l.Partition, owner})
		}
		return
	case l.Until > 0 && s.Now < l.Until && fate.kind != fateMoved:
		// Its lease goes on, whatever became of it since.
	case l.Until > 0 && fate.kind != fateMoved:
		c.want(l, owner)
		c.add(op{kind: opExpire, partition: l.Partition, epoch: l.Epoch})
		return
	case fate.kind == fateMoved && (owner == fate.member || owner == ""):
		c.want(l, "")
		c.add(op{kind: opMove, partition: l.Partition, epoch: l.Epoch, member: fate.member})
		return
	case fate.kind == fateStays && owner == "" && s.Keep:
	case fate.kind == fateLost:
		c.add(op{kind: opLeave, partition: l.Partition, epoch: l.Epoch, until: max(fate.until, 1)})
		if fate.until <= s.Now {
			c.want(l, owner)
			c.add(op{kind: opExpire, partition: l.Partition, epoch: l.Epoch})
			return
		}
	default:
		c.want(l, owner)
		c.add(op{kind: opRelease, partition: l.Partition, epoch: l.Epoch})
		return
	}
	c.want(l, owner)
}

// want sees to it that owner, and nobody else, waits for the lock; empty: nobody.
func (c *change) want(l *Lock, owner string) {
	switch {
	case l.Next == owner:
	case owner == "":
		c.add(op{kind: opForget, partition: l.Partition})
	default:
		c.acquire(Owner{l.Partition, owner})
	}
}

func (c *change) acquire(o Owner) {
	c.add(op{kind: opAcquire, partition: o.Partition, member: o.Member})
}

func (c *change) add(o op) { c.ops = append(c.ops, o) }

func compare(a, b entry.Partition) int { return cmp.Compare(a, b) }
