package queuelock

import (
	"fmt"
	"slices"
	"sync"

	"github.com/sluicemq/sluice/log/entry"
)

// Lock is a lock as it is.
type Lock struct {
	Partition entry.Partition
	Member    string      // who has it
	Epoch     entry.Index // fencing epoch: the entry by which it got it
	Since     entry.Time  // when that was
	// Until is when the lease of a member that was thrown out ends; 0: the holder is
	// a member.
	Until entry.Time
	// Next is who waits for it; empty: nobody.
	Next string
}

// Table is the locks of all groups.
type Table struct {
	mu      sync.RWMutex
	groups  map[string]map[entry.Partition]*Lock // guarded by mu; changed by the apply loop alone
	unsaved map[string]map[entry.Partition]bool  // since the last checkpoint; the apply loop's
}

// New returns a table without locks.
func New() *Table {
	return &Table{groups: make(map[string]map[entry.Partition]*Lock), unsaved: make(map[string]map[entry.Partition]bool)}
}

// Apply applies an entry of type TypeQueueLock. The error means that it cannot be
// read.
func (t *Table) Apply(e *entry.Entry) error {
	c, err := decodeChange(e.Payload)
	if err != nil {
		return fmt.Errorf("queuelock: apply entry %d: %w", e.Index, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range c.ops {
		t.apply(c.group, &c.ops[i], e)
	}
	return nil
}

// apply does one operation. Those that do not fit any more do nothing.
func (t *Table) apply(group string, o *op, e *entry.Entry) {
	locks := t.groups[group]
	if locks == nil {
		locks = make(map[entry.Partition]*Lock)
		t.groups[group] = locks
	}
	l := locks[o.partition]
	if l != nil && o.kind != opAcquire && o.kind != opForget && l.Epoch != o.epoch {
		return
	}
	switch {
	case o.kind == opAcquire:
		acquire(locks, l, o, e)
	case l == nil:
	case o.kind == opRelease, o.kind == opExpire && l.Until > 0 && e.Time >= l.Until:
		if l.Next == "" {
			delete(locks, o.partition)
		} else {
			l.give(l.Next, e)
			l.Next = ""
		}
	case o.kind == opLeave && l.Until == 0:
		l.Until = o.until
	case o.kind == opMove:
		l.give(o.member, e)
	case o.kind == opForget:
		l.Next = ""
	}
	if len(locks) == 0 {
		delete(t.groups, group)
	}
	t.note(group, o.partition)
}

func acquire(locks map[entry.Partition]*Lock, l *Lock, o *op, e *entry.Entry) {
	switch {
	case l == nil:
		l = &Lock{Partition: o.partition}
		l.give(o.member, e)
		locks[o.partition] = l
	case l.Member != o.member:
		l.Next = o.member
	default:
		l.Next = ""
		if l.Until > 0 {
			l.give(o.member, e)
		}
	}
}

// give makes a member the holder.
func (l *Lock) give(member string, e *entry.Entry) {
	l.Member, l.Epoch, l.Since, l.Until = member, e.Index, e.Time, 0
}

func (t *Table) note(group string, p entry.Partition) {
	changed := t.unsaved[group]
	if changed == nil {
		changed = make(map[entry.Partition]bool)
		t.unsaved[group] = changed
	}
	changed[p] = true
}

// Drop forgets all locks of a group that is deleted.
func (t *Table) Drop(group string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for p := range t.groups[group] {
		t.note(group, p)
	}
	delete(t.groups, group)
}

// MayFetch reports whether the committed offset of a partition may be told: to the
// member, or, if it is empty, to somebody who does not say who it is. The latter is
// held back while the lock is not with the one to whom the partition is assigned.
func (t *Table) MayFetch(group, member string, p entry.Partition) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	l := t.groups[group][p]
	switch {
	case l == nil:
		return true
	case member == "":
		return l.Until == 0 && l.Next == ""
	}
	return l.Until == 0 && l.Member == member
}

// MayCommit reports whether the member may commit an offset of a partition: only
// the holder of the lock may. Somebody who is no member (empty) may as long as no
// member has it.
func (t *Table) MayCommit(group, member string, p entry.Partition) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	l := t.groups[group][p]
	if member == "" {
		return l == nil || l.Until > 0 && l.Next == ""
	}
	return l != nil && l.Until == 0 && l.Member == member
}

// Has reports whether a group has locks.
func (t *Table) Has(group string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.groups[group]) > 0
}

// Wake returns when the first lease of the group ends that is to end; 0: none.
func (t *Table) Wake(group string) entry.Time {
	t.mu.RLock()
	defer t.mu.RUnlock()
	first := entry.Time(0)
	for _, l := range t.groups[group] {
		if l.Until > 0 && (first == 0 || l.Until < first) {
			first = l.Until
		}
	}
	return first
}

// List returns the locks of a group, by partition.
func (t *Table) List(group string) []Lock {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make([]Lock, 0, len(t.groups[group]))
	for _, l := range t.groups[group] {
		out = append(out, *l)
	}
	slices.SortFunc(out, func(a, b Lock) int { return compare(a.Partition, b.Partition) })
	return out
}

// Groups returns the names of the groups that have locks, sorted.
func (t *Table) Groups() []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make([]string, 0, len(t.groups))
	for name := range t.groups {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
