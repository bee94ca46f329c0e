package commitlog

import (
	"errors"
	"fmt"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/segment"
)

// Summary says what Replay found.
type Summary struct {
	Segments int         // that were read
	Entries  int64       // that were read
	Bytes    int64       // of those entries, with their headers
	Last     entry.Index // the newest entry of the log; 0 when it is empty
	LastTime entry.Time  // of that entry
	LastTerm entry.Term  // of that entry
	End      entry.Pos   // where the next entry goes; 0 when there is no segment
	Bound    entry.Index // the newest entry that was known to be durable
	Settled  int64       // bytes behind the bound that were written again to be sure of them
	Torn     error       // what the write that a crash tore left at the end; nil if nothing
	Wiped    int         // entries of torn writes behind the end that were made unreadable
}

// Replay reads the log from the beginning of a segment to its end, and gives all
// entries to visit in groups, as Next does later, with Proposal nil. It then makes
// the log ready to be appended to. It must be called exactly once. When it fails
// the log can only be closed.
//
// fromSegment is the number of the first segment to read, 0 for the oldest; all
// from there on must be there. mustReach is the newest index that the caller knows
// to have been applied, and so durable.
//
// Each entry is checked against its predecessor. The log ends at the first place
// where no valid entry follows. If one must have been there (it is in a segment
// that is followed by another, or is not behind mustReach or the durable bound),
// the error is damage (segment.ErrCorrupt) with file and position, and no entry is
// touched. Otherwise what is there is the rest of a torn write, or of a former use
// of the file, and is cut off.
//
// Everything that visit gets is durable, and visit may call SyncTo. The group and
// its memory are borrowed for the call; visit may change payloads. An error of visit
// ends Replay.
func (l *Log) Replay(fromSegment uint32, mustReach entry.Index, visit func(*Group) error) (Summary, error) {
	l.mu.Lock()
	again := l.replayed || l.closed
	l.mu.Unlock()
	if again {
		return Summary{}, errors.New("commitlog: Replay was called before, or after Close")
	}
	r := replay{l: l, visit: visit}
	if err := r.run(fromSegment, mustReach); err != nil {
		return r.sum, fmt.Errorf("replay log in %s: %w", l.o.Dir, err)
	}
	l.start()
	return r.sum, nil
}

// start begins the work of the log: it starts all its goroutines.
func (l *Log) start() {
	l.mu.Lock()
	l.replayed = true
	l.mu.Unlock()
	l.queue.open()
	l.appender.Add(1)
	go l.appendLoop()
	l.prep.done.Add(1)
	go l.prep.run()
	if l.o.Flush == FlushAsync {
		l.helpers.Add(1)
		go l.flushLoop()
	}
}

// replay is one run of Replay.
type replay struct {
	l     *Log
	visit func(*Group) error
	sum   Summary

	group Group
}

func (r *replay) run(fromSegment uint32, mustReach entry.Index) error {
	l := r.l
	known, err := l.bound.read()
	if err != nil {
		return err
	}
	r.sum.Bound = known.tail.Index
	if len(l.files.files) == 0 {
		if must := max(mustReach, known.tail.Index); must > 0 {
			return r.lost(must, known, fmt.Errorf("%w: there is no segment", segment.ErrCorrupt))
		}
		return r.settleFolder(1, false)
	}
	files, err := l.contiguous(fromSegment)
	if err != nil {
		return err
	}
	last := files[len(files)-1]
	end, err := r.settle(last, known, mustReach)
	if err != nil {
		return err
	}
	for i, f := range files {
		if i < len(files)-1 {
			err = r.readSealed(f, files[i+1])
		} else {
			err = r.readLast(f, end)
		}
		if err != nil {
			return err
		}
	}
	if l.o.Term < l.w.tail.Term {
		return fmt.Errorf("commitlog: Options.Term is %d, the newest entry has term %d", l.o.Term, l.w.tail.Term)
	}
	return r.settleFolder(last.number+1, known.clean)
}

// lost says that entries are missing that were there.
func (r *replay) lost(must entry.Index, known bound, cause error) error {
	if must == known.tail.Index {
		return fmt.Errorf("entries up to %d were durable, at byte %d of %s: %w",
			must, known.end, segment.FileName(known.segment), cause)
	}
	return fmt.Errorf("entries up to %d were applied: %w", must, cause)
}

// contiguous returns the files of the segments from the one with the number on, of
// which none may be missing.
func (l *Log) contiguous(from uint32) ([]*file, error) {
	files := l.files.files // nobody else is there yet
	if from != 0 {
		i, ok := l.files.find(from)
		if !ok {
			return nil, missing(from)
		}
		files = files[i:]
	}
	for i, f := range files[1:] {
		if want := files[i].number + 1; f.number != want {
			return nil, missing(want)
		}
	}
	return files, nil
}

func missing(number uint32) error {
	return &segment.DamageError{
		File: segment.FileName(number), Kind: segment.ErrChain, Detail: "segment is missing",
	}
}

// readSealed gives the entries of a segment that next follows to visit.
func (r *replay) readSealed(f, next *file) error {
	stop := next.header.Prev
	s := segment.NewReader(f.File, f.path, f.number, segment.HeaderBytes, f.bytes, f.header.Prev)
	if err := r.read(s, f, stop.Index); err != nil {
		return err
	}
	if s.Tail().Index < stop.Index {
		if err := s.Err(); err != nil {
			return err
		}
		return &segment.DamageError{
			File: f.path, At: s.At(), Index: s.Tail().Index + 1, Kind: segment.ErrShort,
			Detail: fmt.Sprintf("segment ends here, the next one begins with entry %d", next.header.FirstIndex()),
		}
	}
	if s.Tail() != stop {
		return &segment.DamageError{
			File: next.path, Kind: segment.ErrChain,
			Detail: fmt.Sprintf("header says %+v, %s ends with %+v", stop, segment.FileName(f.number), s.Tail()),
		}
	}
	r.group.Sealed = r.l.w.seal()
	r.l.w.terms = nil
	return nil
}

// readLast gives the entries of the last segment, which ends at end, to visit.
func (r *replay) readLast(f *file, end int64) error {
	s := segment.NewReader(f.File, f.path, f.number, segment.HeaderBytes, end, f.header.Prev)
	if err := r.read(s, f, 1<<64-1); err != nil {
		return err
	}
	if err := s.Err(); err != nil {
		return err
	}
	if s.At() != end {
		return &segment.DamageError{
			File: f.path, At: s.At(), Index: s.Tail().Index + 1, Kind: segment.ErrShort,
			Detail: fmt.Sprintf("there are no entries from here on, but some before byte %d", end),
		}
	}
	if r.group.Sealed != nil { // the segment is empty
		r.group.Segment = f.number
		return r.flush()
	}
	return nil
}

// read gives the entries of s up to the one with index stop to visit, and leaves
// the writer where they end.
func (r *replay) read(s *segment.Reader, f *file, stop entry.Index) error {
	w := &r.l.w
	r.sum.Segments++
	w.file, w.begun, w.end, w.tail = f, true, s.At(), s.Tail()
	g := &r.group
	g.Segment = f.number
	for s.Tail().Index < stop && s.Fill() {
		for s.Tail().Index < stop {
			var c Committed
			pos, ok := s.Next(&c.Entry)
			if !ok {
				break
			}
			c.Pos = pos
			g.Entries = append(g.Entries, c)
			if w.end == segment.HeaderBytes {
				w.firstTime = c.Time
			}
			if k := len(w.terms); k == 0 || w.terms[k-1].Term != c.Term {
				w.terms = append(w.terms, TermRun{Term: c.Term, First: c.Index})
			}
			r.sum.Entries++
			r.sum.Bytes += s.At() - w.end
			w.end, w.tail = s.At(), s.Tail()
			if len(g.Entries) == maxGroupEntries {
				if err := r.flush(); err != nil {
					return err
				}
			}
		}
		if len(g.Entries) > 0 {
			if err := r.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush gives the group to visit.
func (r *replay) flush() error {
	err := r.visit(&r.group)
	number := r.group.Segment
	r.group.reset()
	r.group.Segment = number
	return err
}
