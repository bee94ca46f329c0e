package commitlog

import (
	"errors"
	"fmt"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/segment"
	"github.com/sluicemq/sluice/log/vfs"
)

// Found is one thing that Walk comes by: an entry, or damage.
type Found struct {
	Segment uint32
	Pos     entry.Pos   // of the entry, or where the damage begins
	Entry   entry.Entry // Payload is borrowed for the call of visit
	// Damage is what is wrong at Pos, a segment.DamageError; nil for an entry.
	Damage error
	// Tail tells that the damage is behind the newest entry and lies neither before
	// the durable bound nor in a sealed segment: a start would cut it off.
	Tail bool
}

// WalkSummary says what Walk found in all.
type WalkSummary struct {
	Segments int
	Entries  int64
	Bytes    int64 // of the entries, with their headers
	First    entry.Index
	Last     entry.Index
	Bound    entry.Index // known to be durable; 0 when there is no bound
	Damaged  int         // how often Damage was set without Tail
	Gaps     int         // places between segments where some are missing: dropped, or lost
}

// Walk reads all entries in the folder of a log whose index is from or more, in
// order, without taking a lock, writing, or needing more than the files: for
// looking into the log of a server that is stopped. A log that is being appended to
// can be walked too; the newest entries may then look torn.
//
// Damage is given to visit, and reading goes on with the next segment. An error of
// visit ends the walk and is returned.
func Walk(fs *vfs.FS, dir string, from entry.Index, visit func(*Found) error) (WalkSummary, error) {
	w := walk{visit: visit, from: from}
	if err := w.run(fs, dir); err != nil {
		return w.sum, fmt.Errorf("walk log in %s: %w", dir, err)
	}
	return w.sum, nil
}

// walk is one run of Walk.
type walk struct {
	visit func(*Found) error
	from  entry.Index
	sum   WalkSummary
	found Found
	// reached is the newest entry that is there or that the segments go on from:
	// the ones before may have been dropped.
	reached entry.Index
}

func (w *walk) run(fs *vfs.FS, dir string) error {
	known, err := (&boundFile{fs: fs, dir: dir}).read()
	if err != nil {
		return err
	}
	w.sum.Bound = known.tail.Index
	all, _, err := listSegments(fs, dir)
	if err != nil {
		return err
	}
	begun := len(all) // behind the last segment with a good header
	for begun > 0 && all[begun-1].err != nil {
		begun--
	}
	for i, s := range all {
		if i > 0 && i < begun && s.number != all[i-1].number+1 {
			w.sum.Gaps++
		}
		if i+1 < begun && all[i+1].err == nil && all[i+1].number == s.number+1 &&
			all[i+1].header.FirstIndex() <= w.from {
			continue // all of it is before from
		}
		var next *foundSegment
		if i+1 < begun {
			next = &all[i+1]
		}
		w.found = Found{Segment: s.number}
		if s.err != nil {
			// Behind the newest segment a bad header is a file that was made ready.
			w.found.Tail = i >= begun && s.number > known.segment
			if w.found.Tail {
				continue
			}
			err = w.damage(entry.MakePos(s.number, 0), s.err)
		} else {
			err = w.segment(fs, fs.Join(dir, s.name), s, next, known)
		}
		if err != nil {
			return err
		}
	}
	if w.reached < known.tail.Index && w.sum.Damaged == 0 && w.from <= known.tail.Index {
		w.found = Found{Segment: known.segment}
		return w.damage(entry.MakePos(known.segment, uint32(known.end)), &segment.DamageError{
			File: segment.FileName(known.segment), At: known.end, Index: known.tail.Index, Kind: segment.ErrShort,
			Detail: fmt.Sprintf("entries up to %d were durable", known.tail.Index),
		})
	}
	return nil
}

// segment walks one segment; next is the one that follows, nil for the last.
func (w *walk) segment(fs *vfs.FS, path string, s foundSegment, next *foundSegment, known bound) error {
	f, err := fs.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w.sum.Segments++
	stop := entry.Index(1<<64 - 1)
	contiguous := next != nil && next.err == nil && next.number == s.number+1
	if contiguous {
		stop = next.header.Prev.Index
	}
	r := segment.NewReader(f, path, s.number, segment.HeaderBytes, s.bytes, s.header.Prev)
	for r.Tail().Index < stop && r.Fill() {
		for r.Tail().Index < stop {
			e := &w.found.Entry
			pos, ok := r.Next(e)
			if !ok {
				break
			}
			if e.Index < w.from {
				continue
			}
			w.found.Pos = pos
			if w.sum.First == 0 {
				w.sum.First = e.Index
			}
			w.sum.Last = e.Index
			w.sum.Entries++
			w.sum.Bytes += segment.EntryHeaderBytes + int64(len(e.Payload))
			if err := w.visit(&w.found); err != nil {
				return err
			}
		}
	}
	w.reached = max(w.reached, r.Tail().Index)
	end := entry.MakePos(s.number, uint32(r.At()))
	err = r.Err()
	var damage *segment.DamageError
	if err != nil && !errors.As(err, &damage) {
		return err
	}
	switch {
	case contiguous && r.Tail() == next.header.Prev:
		return nil // what is behind is of a former use of the file
	case contiguous && err == nil:
		err = &segment.DamageError{
			File: path, At: r.At(), Index: r.Tail().Index + 1, Kind: segment.ErrChain,
			Detail: fmt.Sprintf("segment ends with %+v, the next one goes on from %+v", r.Tail(), next.header.Prev),
		}
	case next != nil && !contiguous:
		// The next segment is missing or bad: whether entries are cannot be told.
		return nil
	case err == nil:
		return nil
	default:
		w.found.Tail = next == nil && r.Tail().Index >= known.tail.Index
		if w.found.Tail && damage.At < r.At()+segment.EntryHeaderBytes {
			return nil // no header that follows: bytes of a former use of the file
		}
	}
	return w.damage(end, err)
}

func (w *walk) damage(pos entry.Pos, err error) error {
	w.found.Pos, w.found.Entry, w.found.Damage = pos, entry.Entry{}, err
	if !w.found.Tail {
		w.sum.Damaged++
	}
	return w.visit(&w.found)
}
