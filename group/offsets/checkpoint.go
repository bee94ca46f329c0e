package offsets

import (
	"errors"
	"fmt"

	"github.com/sluicemq/sluice/group/codec"
	"github.com/sluicemq/sluice/log/entry"
)

// Unsaved returns about how many keys Checkpoint would write or delete.
func (t *Table) Unsaved() int { return len(t.unsaved) + len(t.born) + len(t.gone) + len(t.dropped) }

// Checkpoint writes to w what changed since the last checkpoint. The state batch
// must then be committed: the table takes it for done. It may also be called
// between checkpoints, so that not too much gathers.
func (t *Table) Checkpoint(w entry.Writer) {
	for _, d := range t.dropped {
		if !d.group.removed {
			from, to := topicRange(d.group.number, d.topic)
			w.DeleteRange(from, to)
		}
	}
	for _, g := range t.gone {
		from, to := groupRange(g.number)
		w.DeleteRange(from, to)
		w.Delete(nameKey(g.name))
	}
	// Behind the names that go: a group may be back under its old one.
	for _, g := range t.born {
		if !g.removed {
			g.saved = true
			w.Set(nameKey(g.name), encodeNumber(nameVersion, g.number))
		}
	}
	if t.renewed {
		w.Set(numberKey(), encodeNumber(numberVersion, t.next))
	}
	var kb [offsetBytes]byte
	var vb []byte
	for _, c := range t.unsaved {
		if c.group.removed {
			continue
		}
		key := appendOffsetKey(kb[:0], c.group.number, c.topic, c.index)
		s := c.slot()
		if s == nil {
			w.Delete(key)
			continue
		}
		// saved and unsaved are the apply loop's own, so the group's lock is not needed.
		s.unsaved, s.saved = false, true
		vb = s.appendValue(vb[:0])
		w.Set(key, vb)
	}
	t.unsaved, t.born = reuse(t.unsaved), reuse(t.born)
	t.gone, t.dropped = reuse(t.gone), reuse(t.dropped)
	t.renewed = false
}

// slot returns where the offset is, or nil if it was deleted.
func (c change) slot() *slot {
	in := c.group.topics[c.topic]
	if in == nil {
		return nil
	}
	at, ok := in.find(c.index)
	if !ok {
		return nil
	}
	return &in.slots[at]
}

// reuse empties a list, and lets go of its memory if it grew unusually long.
func reuse[T any](list []T) []T {
	const keep = 1 << 16
	if cap(list) > keep {
		return nil
	}
	clear(list)
	return list[:0]
}

// Load reads the state that checkpoints have written. It must be called on a new
// table, and before any other method. After an error the table is not to be used.
func (t *Table) Load(r entry.Reader) error {
	if err := t.load(r); err != nil {
		return fmt.Errorf("load committed offsets: %w", err)
	}
	return nil
}

func (t *Table) load(r entry.Reader) error {
	value, ok, err := r.Get(numberKey())
	if err != nil {
		return err
	}
	if ok {
		if t.next, err = decodeNumber(value, numberVersion); err != nil {
			return err
		}
	}
	byNumber := make(map[uint64]*group)
	var bad error
	err = r.Scan([]byte{keySpace, kindName}, []byte{keySpace, kindName + 1}, func(k, v []byte) bool {
		bad = t.loadName(byNumber, k, v)
		return bad == nil
	})
	if err := errors.Join(err, bad); err != nil {
		return err
	}
	err = r.Scan([]byte{keySpace, kindOffset}, []byte{keySpace, kindOffset + 1}, func(k, v []byte) bool {
		bad = t.loadOffset(byNumber, k, v)
		return bad == nil
	})
	if err := errors.Join(err, bad); err != nil {
		return err
	}
	for _, g := range byNumber {
		if len(g.topics) == 0 {
			return fmt.Errorf("%w: group %q has no offsets", codec.ErrCorrupt, g.name)
		}
	}
	return nil
}

func (t *Table) loadName(byNumber map[uint64]*group, k, v []byte) error {
	number, err := decodeNumber(v, nameVersion)
	if err != nil {
		return fmt.Errorf("group %q: %w", k[2:], err)
	}
	if number >= t.next || byNumber[number] != nil {
		return fmt.Errorf("%w: group %q has number %d, which is given twice or not below %d", codec.ErrCorrupt, k[2:], number, t.next)
	}
	g := &group{name: string(k[2:]), number: number, saved: true, topics: make(map[entry.TopicID]*topic)}
	byNumber[number] = g
	t.groups[g.name] = g
	return nil
}

// loadOffset takes one key. They come in the order of partitions.
func (t *Table) loadOffset(byNumber map[uint64]*group, k, v []byte) error {
	number, id, index, err := decodeOffsetKey(k)
	if err != nil {
		return err
	}
	g := byNumber[number]
	if g == nil {
		return fmt.Errorf("%w: key %x is of a group without name", codec.ErrCorrupt, k)
	}
	s, err := decodeValue(v)
	if err != nil {
		return fmt.Errorf("group %q, topic %x, partition %d: %w", g.name, id, index, err)
	}
	s.index, s.saved = index, true
	in := t.put(g, id)
	in.slots = append(in.slots, s)
	t.offsets.Add(1)
	return nil
}
