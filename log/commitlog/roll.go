package commitlog

import (
	"fmt"

	"github.com/sluicemq/sluice/log/segment"
	"github.com/sluicemq/sluice/log/vfs"
)

// Roll seals the active segment, if it has entries, and begins the next one,
// behind all proposals of calls that returned before. The apply loop is told with
// a group that has no entries. When Roll returns nil, the seal is durable.
func (l *Log) Roll() error {
	p := &Proposal{roll: make(chan error, 1)}
	if err := l.queue.put(p); err != nil {
		return err
	}
	return <-p.roll
}

// rollNow is Roll in the append goroutine.
func (l *Log) rollNow() error {
	w := &l.w
	if w.file == nil || !w.begun || w.end == segment.HeaderBytes {
		return nil
	}
	if err := l.roll(); err != nil {
		return err
	}
	g := l.newGroup()
	g.Segment = w.file.number
	if err := l.write(g, w.end, w.tail); err != nil {
		g.abandon()
		return err
	}
	l.hand(g)
	return nil
}

// roll makes the next segment the active one. Its header is written together with
// its first entries. Everything in the predecessor is durable by then. When it
// fails, nothing has changed, or the log is dead.
func (l *Log) roll() error {
	w := &l.w
	number := uint32(1)
	if w.file != nil {
		number = w.file.number + 1
		if number == 0 {
			return l.die(fmt.Errorf("segment numbers are used up"))
		}
		if err := l.syncWritten(); err != nil {
			return err
		}
	}
	f, err := l.prep.take(number)
	if err != nil {
		if vfs.NoSpace(err) {
			return fmt.Errorf("%w: %w", ErrStorageFull, err)
		}
		return fmt.Errorf("begin segment %d: %w", number, err)
	}
	if w.file != nil {
		w.sealed = w.seal()
	}
	if w.block != nil {
		w.block.release()
		w.block = nil
	}
	path := l.fs.Join(l.o.Dir, segment.FileName(number))
	w.file = &file{File: f, path: path, number: number, bytes: l.o.SegmentBytes}
	w.begun, w.end, w.groups, w.terms = false, segment.HeaderBytes, 0, nil
	return nil
}

// seal describes the active segment, which has entries and gets no more.
func (w *writer) seal() *Sealed {
	return &Sealed{
		Number:     w.file.number,
		FirstIndex: w.file.header.FirstIndex(),
		LastIndex:  w.tail.Index,
		FirstTime:  w.firstTime,
		LastTime:   w.tail.Time,
		End:        uint32(w.end),
		Chain:      w.tail.Chain,
		Terms:      w.terms,
	}
}
