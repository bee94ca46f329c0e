package log

import (
	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/segment"
)

// Small batches of a partition that lie near each other are read from the disk
// together: to read what is between them costs less than another system call,
// which takes as long as copying some 12 KiB.
const (
	spanBatch = 16 << 10  // batches up to this size
	spanGap   = 8 << 10   // with at most this much between them
	spanBytes = 256 << 10 // up to this much in all
)

// spanOf returns how many batches from the front of found are to be read
// together, at least one, and from where to where they lie in their segment.
func spanOf(found []consumequeue.Located) (count int, from, to uint32) {
	from, to = found[0].At, behind(&found[0])
	if found[0].Size > spanBatch || found[0].Tags&consumequeue.Control != 0 {
		return 1, from, to
	}
	for count = 1; count < len(found); count++ {
		next := &found[count]
		end := behind(next)
		if next.Segment != found[0].Segment || next.Size > spanBatch || next.Tags&consumequeue.Control != 0 ||
			next.At < to || next.At-to > spanGap || end-from > spanBytes {
			break
		}
		to = end
	}
	return count, from, to
}

// behind returns the byte of its segment behind a batch's entry.
func behind(at *consumequeue.Located) uint32 { return at.At + segment.EntryHeaderBytes + at.Size }

// readSome adds batches from the front of found, at least one, and returns how
// many. They are one piece if they come from the disk.
func (l *Log) readSome(found []consumequeue.Located, b *Batches) (int, error) {
	if slice, ok := l.cached(&found[0]); ok {
		b.addSlice(slice)
		return 1, nil
	}
	if count, from, to := spanOf(found); count > 1 && l.readSpan(found[:count], from, to, b) {
		return count, nil
	}
	// One alone, or a span in which something is wrong: what comes before that is
	// read, and the error tells where it is.
	return 1, l.readOne(&found[0], b)
}

// cached returns a batch from the tail of the log in memory, if it is there in
// the form in which readers get it.
func (l *Log) cached(at *consumequeue.Located) (commitlog.Slice, bool) {
	if at.Tags&consumequeue.Control != 0 {
		return commitlog.Slice{}, false
	}
	return l.commits.Cached(at.Pos(), int(at.Size))
}

// readSpan adds the batches at the given places, which lie between two bytes of
// a segment, as one piece. It returns false, and adds nothing, when that fails.
func (l *Log) readSpan(found []consumequeue.Located, from, to uint32, b *Batches) bool {
	scratch := l.buffers.get(int(to - from))
	defer l.buffers.put(scratch)
	if l.commits.ReadRange(found[0].Pos(), *scratch) != nil {
		return false
	}
	size := 0
	for i := range found {
		size += int(found[i].Size)
	}
	buffer := l.buffers.get(size)
	rest := *buffer
	for i := range found {
		entry := (*scratch)[found[i].At-from : behind(&found[i])-from]
		header, payload := entry[:segment.EntryHeaderBytes], entry[segment.EntryHeaderBytes:]
		if _, err := segment.CheckEntry(header, payload); err != nil {
			l.buffers.put(buffer)
			return false
		}
		copy(rest, payload)
		l.patch(rest[:len(payload)], &found[i])
		rest = rest[len(payload):]
	}
	b.buffers = append(b.buffers, buffer)
	b.Pieces = append(b.Pieces, *buffer)
	b.Bytes += size
	return true
}
