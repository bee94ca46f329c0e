package consumer

import (
	"slices"

	"github.com/sluicemq/sluice/group/assign"
	"github.com/sluicemq/sluice/log/entry"
)

// reconciliation moves one member a step towards its target.
//
//	             to give up, and          what is free of the
//	             still has it             target is assigned
//	Settled ──────────────────▶ Revoking ───────────────────▶ Settled
//	   │                           ▲  │                          ▲
//	   │ nothing to give up        │  │ given up                 │ all is free
//	   └───────────────────────────┼──┴────────▶ Waiting ────────┘
//	                               └───────────────┘
//
// A member that has something to give up stays in its epoch until its owned
// partitions, as it reports them, lack it. What others still have is assigned
// later, in the same epoch. So no partition is ever assigned to two members.
type reconciliation struct {
	current *Current
	target  assign.Assignment
	epoch   int32 // of the target
	// owned is what the member says that it has; nil if it does not say, which
	// counts as having all.
	owned *assign.Assignment
	// subscribed reports whether the member subscribes to a topic.
	subscribed func(entry.TopicID) bool
	// taken reports whether another member, or this one, has a partition.
	taken func(id entry.TopicID, partition int32) bool
}

// next returns where the member is to stand, which is current if nothing changes.
func (r *reconciliation) next() *Current {
	c := r.current
	switch {
	case c.Phase == Settled && c.Epoch == r.epoch:
		return r.unsubscribe()
	case c.Phase == Revoking && r.has(c.Revoked.Set):
		return r.unsubscribe()
	}
	return r.advance()
}

// has reports whether the member may still have one of the partitions.
func (r *reconciliation) has(set assign.Assignment) bool {
	return len(set) > 0 && (r.owned == nil || len(r.owned.Both(set)) > 0)
}

// unsubscribe takes topics away that the member no longer subscribes to, without
// waiting for the target of the next epoch.
func (r *reconciliation) unsubscribe() *Current {
	c := r.current
	if !slices.ContainsFunc(c.Assigned.Set, func(t assign.Topic) bool { return !r.subscribed(t.ID) }) {
		return c
	}
	kept := r.onlySubscribed(c.Assigned.Set)
	lost := c.Assigned.Set.Minus(kept)
	next := *c
	next.Previous = c.Epoch
	next.Assigned = c.Assigned.carry(kept, c.Epoch)
	if r.has(lost) || c.Phase == Revoking {
		next.Phase = Revoking
		next.Revoked = Holding{c.Revoked.Set.Plus(lost), nil}
		next.Revoked.Epochs = r.epochs(next.Revoked.Set)
	}
	return &next
}

// epochs returns since when the member has each of the partitions.
func (r *reconciliation) epochs(set assign.Assignment) []int32 {
	var out []int32
	for _, t := range set {
		for _, p := range t.Partitions {
			e, ok := r.current.Assigned.Since(t.ID, p)
			if !ok {
				e, _ = r.current.Revoked.Since(t.ID, p)
			}
			out = append(out, e)
		}
	}
	return out
}

func (r *reconciliation) onlySubscribed(set assign.Assignment) assign.Assignment {
	if !slices.ContainsFunc(set, func(t assign.Topic) bool { return !r.subscribed(t.ID) }) {
		return set
	}
	var out assign.Assignment
	for _, t := range set {
		if r.subscribed(t.ID) {
			out = append(out, t)
		}
	}
	return out
}

// advance computes the step towards the target.
func (r *reconciliation) advance() *Current {
	c := r.current
	target := r.onlySubscribed(r.target)
	kept := c.Assigned.Set.Both(target)
	lost := c.Assigned.Set.Minus(target)
	if r.has(lost) {
		next := &Current{Phase: Revoking, Epoch: c.Epoch, Previous: c.Epoch, Assigned: c.Assigned.carry(kept, c.Epoch), Revoked: c.Assigned.carry(lost, c.Epoch)}
		return r.unless(next)
	}
	gained, missing := r.free(target.Minus(c.Assigned.Set))
	next := &Current{Phase: Settled, Epoch: r.epoch, Previous: c.Epoch, Assigned: c.Assigned.carry(kept.Plus(gained), r.epoch)}
	if missing {
		next.Phase = Waiting
	}
	return r.unless(next)
}

// unless returns what was current if nothing but the previous epoch is different.
func (r *reconciliation) unless(next *Current) *Current {
	c := r.current
	if next.Phase == c.Phase && next.Epoch == c.Epoch && next.Assigned.equal(c.Assigned) && next.Revoked.equal(c.Revoked) {
		return c
	}
	return next
}

// free returns those of the partitions that nobody has. What the member itself
// was asked to give up is free for it.
func (r *reconciliation) free(set assign.Assignment) (free assign.Assignment, missing bool) {
	for i, t := range set {
		n := len(t.Partitions)
		kept := slices.DeleteFunc(slices.Clone(t.Partitions), func(p int32) bool {
			return r.taken(t.ID, p) && !r.current.Revoked.Set.Has(t.ID, p)
		})
		if len(kept) < n && !missing {
			missing = true
			free = append(free, set[:i]...)
		}
		if missing && len(kept) > 0 {
			free = append(free, assign.Topic{ID: t.ID, Partitions: kept})
		}
	}
	if !missing {
		return set, false
	}
	return free, true
}
