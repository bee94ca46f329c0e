package commitlog

import (
	"github.com/sluicemq/sluice/log/entry"
)

// Group is a row of entries of one segment, in order, to be applied: what was
// appended together (Next), or what was read together (Replay). It belongs to
// whoever it was handed to, until Release.
type Group struct {
	// Segment is the number of the segment that the entries lie in.
	Segment uint32
	// Sealed is set on the first group of a segment, and describes the
	// predecessor, which is complete and durable: nothing will ever be added to
	// it, whatever happens. It is to be handled before the entries.
	Sealed *Sealed
	// Entries are the entries. There are none only when Sealed is set.
	Entries []Committed

	log    *Log // nil in Replay
	blocks []groupBlock
}

// groupBlock is a block that holds entries of a group, and where they begin.
type groupBlock struct {
	*block
	from int
}

// Committed is an entry that is to be applied.
//
// The payload lies in memory of the log and is valid until Group.Release. Nothing
// reads it any more for writing it to the disk. The apply loop may change its
// bytes before it lets others know of the entry: readers of the tail cache
// (Log.Cached) get the changed bytes, those of the disk the original ones.
type Committed struct {
	entry.Entry
	Pos entry.Pos
	// Proposal is to be completed when the entry is applied; nil in Replay, and
	// for an entry that nobody in this process proposed.
	Proposal *Proposal
}

// Sealed describes a segment that is complete.
type Sealed struct {
	Number     uint32
	FirstIndex entry.Index
	LastIndex  entry.Index
	FirstTime  entry.Time
	LastTime   entry.Time
	End        uint32 // the byte behind the last entry
	Chain      uint32 // chain checksum of the last entry
	// Terms are the terms of the entries, each with the first index that has it,
	// ascending. The first begins at FirstIndex.
	Terms []TermRun
}

// TermRun says from which index on entries have a term.
type TermRun struct {
	Term  entry.Term
	First entry.Index
}

// Release gives the group and the memory of its entries back to the log. Slices
// from Cached stay valid. The group must not be used afterwards.
func (g *Group) Release() {
	if g.log == nil {
		return
	}
	for i := range g.blocks {
		g.blocks[i].release()
	}
	g.reset()
	select {
	case g.log.freeGroups <- g:
	default:
	}
}

// reset forgets what the group held.
func (g *Group) reset() {
	clear(g.Entries)
	clear(g.blocks)
	g.Segment, g.Sealed, g.Entries, g.blocks = 0, nil, g.Entries[:0], g.blocks[:0]
}

// newGroup returns an empty group.
func (l *Log) newGroup() *Group {
	select {
	case g := <-l.freeGroups:
		return g
	default:
		return &Group{log: l}
	}
}
