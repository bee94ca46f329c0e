package offsets

import (
	"fmt"
	"math"

	"github.com/sluicemq/sluice/log/entry"
)

// Commit applies the rest of a commit whose head was found to be in order. It
// leaves out topics that do not exist, and returns their ids. The error means
// that the payload cannot be read.
func (t *Table) Commit(c *Commit, now entry.Time, exists func(entry.TopicID) bool) (missing []entry.TopicID, err error) {
	expires := forever
	if c.Retention >= 0 {
		expires = now + entry.Time(min(c.Retention, math.MaxInt64-int64(now)))
	}
	r := c.rest
	var g *group
	for n := r.Count("the number of topics", leastTopic); n > 0 && r.Err() == nil; n-- {
		id := r.TopicID()
		count := r.Count("the number of partitions", leastOffset)
		switch {
		case r.Err() != nil:
			continue
		case !exists(id):
			missing = append(missing, id)
			for ; count > 0; count-- {
				readOne(&r)
			}
			continue
		case count == 0:
			continue
		case g == nil:
			g = t.begin(c.Group)
		}
		g.mu.Lock()
		in := t.put(g, id)
		for ; count > 0; count-- {
			o := readOne(&r)
			if r.Err() != nil {
				break
			}
			t.set(g, id, in, o, now, expires)
		}
		g.mu.Unlock()
	}
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("commit of group %q: %w", c.Group, err)
	}
	return missing, nil
}

// Delete removes offsets of partitions of a topic, and returns how many there
// were.
func (t *Table) Delete(name string, id entry.TopicID, partitions []int32) int {
	g := t.groups[name]
	if g == nil {
		return 0
	}
	named := make(map[int32]bool, len(partitions))
	for _, p := range partitions {
		named[p] = true
	}
	g.mu.Lock()
	n := t.remove(g, id, func(s *slot) bool { return named[s.index] })
	empty := len(g.topics) == 0
	g.mu.Unlock()
	if empty {
		t.end(g)
	}
	return n
}

// DeleteGroup removes all offsets of a group, and returns how many there were.
func (t *Table) DeleteGroup(name string) int {
	g := t.groups[name]
	if g == nil {
		return 0
	}
	n := 0
	g.mu.Lock()
	for id, in := range g.topics {
		n += len(in.slots)
		t.forget(g, id)
	}
	g.mu.Unlock()
	t.offsets.Add(-int64(n))
	t.end(g)
	return n
}

// DeleteTopic removes the offsets of a topic from all groups.
func (t *Table) DeleteTopic(id entry.TopicID) {
	for g := range t.byTopic[id] {
		g.mu.Lock()
		t.dropTopic(g, id)
		empty := len(g.topics) == 0
		g.mu.Unlock()
		if empty {
			t.end(g)
		}
	}
}

// Rule says from when on an offset has expired, or that it does not expire. The
// offset's own time of expiry, if it has one, goes before the time returned, but
// not before "does not expire".
type Rule func(topic entry.TopicID, committed entry.Time) (at entry.Time, ok bool)

// Expire removes what has expired of a group at time now, and returns how many
// offsets that were.
func (t *Table) Expire(name string, now entry.Time, rule Rule) int {
	g := t.groups[name]
	if g == nil {
		return 0
	}
	n := 0
	g.mu.Lock()
	for id := range g.topics {
		n += t.remove(g, id, func(s *slot) bool { return expired(id, s, now, rule) })
	}
	empty := len(g.topics) == 0
	g.mu.Unlock()
	if empty {
		t.end(g)
	}
	return n
}

func expired(id entry.TopicID, s *slot, now entry.Time, rule Rule) bool {
	at, ok := rule(id, s.time)
	if ok && s.expires != forever {
		at = s.expires
	}
	return ok && now >= at
}
