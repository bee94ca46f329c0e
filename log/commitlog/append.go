package commitlog

import (
	"fmt"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/segment"
	"github.com/sluicemq/sluice/log/vfs"
)

// How much is appended with one write, and how many groups may wait for the apply
// loop. The disk is at its full rate from 1 MiB on.
const (
	maxGroupBytes   = 4 << 20
	maxGroupEntries = 4096
	groupsInFlight  = 4
)

// fillBelowBytes is the average size of a group from which on the next segment is
// not filled with zeroes: what an fdatasync of a large group saves by having its
// room already is less than what writing everything twice costs.
const fillBelowBytes = 128 << 10

// writer is the state of appending.
type writer struct {
	file  *file // the active segment; nil before there is one
	begun bool  // its header is written, and it is in the table
	end   int64 // where the next entry goes
	tail  segment.Tail

	groups    int64      // written to the active segment since it was begun, or since the start
	firstTime entry.Time // of the active segment
	terms     []TermRun  // of the active segment

	sealed *Sealed // the predecessor, until a group hands it over
	block  *block  // the newest one, with a reference; nil after a roll

	batch []*Proposal // reused
	bufs  [][]byte    // reused
	page  [segment.HeaderBytes]byte
}

// close closes what nobody else closes.
func (w *writer) close() error {
	if w.block != nil {
		w.block.release()
		w.block = nil
	}
	if w.file == nil || w.begun {
		return nil
	}
	return w.file.Close()
}

// appendLoop is the append goroutine. Replay starts it; it ends when the queue is
// shut and empty. It owns l.w, and is the only one that writes entries.
func (l *Log) appendLoop() {
	defer l.appender.Done()
	defer close(l.groups)
	for {
		l.w.batch = l.queue.take(l.w.batch[:0], maxGroupEntries, maxGroupBytes)
		if len(l.w.batch) == 0 {
			return
		}
		for batch := l.w.batch; len(batch) > 0; {
			n := l.appendSome(batch)
			batch = batch[n:]
		}
		clear(l.w.batch)
	}
}

// appendSome appends proposals from the front of batch as one group and returns
// how many it has dealt with.
func (l *Log) appendSome(batch []*Proposal) int {
	if err := l.Dead(); err != nil {
		return l.refuse(batch, err)
	}
	if batch[0].roll != nil {
		batch[0].roll <- l.rollNow()
		l.queue.settle(batch[0].bytes())
		return 1
	}
	w := &l.w
	if w.file == nil || w.end+batch[0].bytes() > l.o.SegmentBytes {
		if err := l.roll(); err != nil {
			return l.refuse(batch, err)
		}
	}
	g := l.newGroup()
	g.Segment = w.file.number
	end, newest, bytes := l.fill(g, batch)
	n := len(g.Entries)
	if err := l.write(g, end, newest); err != nil {
		g.abandon()
		return l.refuse(batch[:n], err)
	}
	l.hand(g)
	l.queue.settle(bytes)
	w.groups++
	l.prep.progress(w.file.number+1, w.end, w.end/w.groups < fillBelowBytes)
	return n
}

// refuse completes the proposals with err. It returns how many there are.
func (l *Log) refuse(batch []*Proposal, err error) int {
	var bytes int64
	n := 0
	for _, p := range batch {
		bytes += p.bytes()
		if p.roll != nil {
			p.roll <- err
			continue
		}
		n++
		p.Complete(entry.Result{Err: err})
	}
	l.queue.settle(bytes)
	if l.Dead() == nil {
		l.o.Events.Refused(n, err)
	}
	return len(batch)
}

// fill puts entries for proposals from the front of batch into blocks and into
// g: as many as fit into the segment, which is at least one. It returns where they
// end, the tail they leave, and their size.
func (l *Log) fill(g *Group, batch []*Proposal) (end int64, newest segment.Tail, bytes int64) {
	w := &l.w
	end, newest = w.end, w.tail
	now := max(l.o.Now(), newest.Time)
	if w.block != nil {
		w.block.retain()
		g.blocks = append(g.blocks, groupBlock{block: w.block, from: w.block.used})
	}
	for _, p := range batch {
		need := p.bytes()
		if p.roll != nil || end+need > l.o.SegmentBytes {
			break
		}
		pos := entry.MakePos(g.Segment, uint32(end))
		if n := len(g.blocks); n == 0 || g.blocks[n-1].room() < need {
			g.blocks = append(g.blocks, groupBlock{block: l.blocks.get(pos, need)})
		}
		b := g.blocks[len(g.blocks)-1].block
		dst := b.data[b.used : b.used+int(need) : b.used+int(need)]
		b.used += int(need)

		g.Entries = append(g.Entries, Committed{
			Entry: entry.Entry{
				Type:      p.Type,
				Flags:     p.Flags,
				Term:      l.o.Term,
				Index:     newest.Index + 1,
				Time:      now,
				Partition: p.Partition,
				Payload:   dst[segment.EntryHeaderBytes:],
			},
			Pos:      pos,
			Proposal: p,
		})
		e := &g.Entries[len(g.Entries)-1].Entry
		copy(e.Payload, p.Payload)
		newest = segment.PutEntryHeader(dst, e, len(p.Payload), p.payloadSum, newest)
		end += need
		bytes += need
	}
	return end, newest, bytes
}

// abandon takes the entries of a group that was not written out of the blocks.
func (g *Group) abandon() {
	for _, b := range g.blocks {
		b.used = b.from
	}
	g.Release()
}

// write writes the group to the active segment, and makes it durable where it
// must be: with FlushSync, and where it begins a segment, so that a segment that
// was handed over as sealed can never be the newest again. After an error nothing
// of the group is in the file, or the log is dead.
func (l *Log) write(g *Group, end int64, newest segment.Tail) error {
	w := &l.w
	bufs, at := w.bufs[:0], w.end
	if !w.begun {
		segment.PutHeader(w.page[:], segment.Header{Number: w.file.number, Prev: w.tail})
		bufs, at = append(bufs, w.page[:]), 0
	}
	for _, b := range g.blocks {
		if b.used > b.from {
			bufs = append(bufs, b.data[b.from:b.used])
		}
	}
	start := l.o.Elapsed()
	n, err := w.file.WriteV(bufs, at)
	clear(bufs)
	w.bufs = bufs[:0]
	if err != nil {
		return l.writeFailed(n, err)
	}
	l.o.Events.Appended(len(g.Entries), end-w.end, l.o.Elapsed()-start)

	began := !w.begun
	if began {
		w.file.header = segment.Header{Number: w.file.number, Prev: w.tail}
	}
	if len(g.Entries) > 0 {
		if w.end == segment.HeaderBytes {
			w.firstTime = g.Entries[0].Time
		}
		if k := len(w.terms); k == 0 || w.terms[k-1].Term != l.o.Term {
			w.terms = append(w.terms, TermRun{Term: l.o.Term, First: g.Entries[0].Index})
		}
	}
	w.end, w.tail = end, newest
	l.mu.Lock()
	l.mark = mark{file: w.file, end: end, tail: newest}
	l.mu.Unlock()
	l.written.Store(uint64(newest.Index))
	if began || l.o.Flush == FlushSync {
		if err := l.syncWritten(); err != nil {
			return err
		}
	} else if err := l.Dead(); err != nil {
		return err // an fdatasync failed meanwhile: acknowledge no more
	}
	if began {
		w.begun = true
		l.files.add(w.file)
		l.o.Events.Rolled(w.file.number)
	}
	return nil
}

// writeFailed deals with a write of which n bytes went through. Where the disk is
// full it takes back what was written, so that a crash cannot bring back entries
// that were refused; every other error is the end of the log.
func (l *Log) writeFailed(n int64, cause error) error {
	w := &l.w
	if !vfs.NoSpace(cause) {
		return l.die(cause)
	}
	if n > 0 {
		at := w.end
		if !w.begun {
			at = 0
		}
		if err := w.file.ZeroFill(at, at+n); err != nil {
			return l.die(err)
		}
		if err := w.file.SyncData(); err != nil {
			return l.die(err)
		}
	}
	return fmt.Errorf("%w: %w", ErrStorageFull, cause)
}

// hand lets readers see the blocks of a group that was written, and gives it to
// the apply loop. It waits while the apply loop is behind.
func (l *Log) hand(g *Group) {
	w := &l.w
	g.Sealed, w.sealed = w.sealed, nil
	for _, b := range g.blocks {
		l.tail.publish(b.block)
	}
	if k := len(g.blocks); k > 0 && g.blocks[k-1].block != w.block {
		if w.block != nil {
			w.block.release()
		}
		w.block = g.blocks[k-1].block
		w.block.retain()
	}
	l.groups <- g
}
