package commitlog

import (
	"errors"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/segment"
	"github.com/sluicemq/sluice/log/vfs"
)

// settle finds the end of the log, which is in the last segment f, and makes
// everything up to there durable, once more: a process that died may have left
// bytes that only the kernel's memory has, and after a failed fdatasync the kernel
// takes such bytes for written. What is behind the end is cut off.
func (r *replay) settle(f *file, known bound, mustReach entry.Index) (int64, error) {
	l := r.l
	from := mark{file: f, end: segment.HeaderBytes, tail: f.header.Prev}
	write := int64(0) // the header page may be as new as the entries
	must := max(mustReach, known.tail.Index)
	switch {
	case known.segment > f.number:
		err := r.unbegunError(known.segment)
		return 0, r.lost(known.tail.Index, known, err)
	case known.segment == f.number && known.tail.Index >= from.tail.Index && known.end >= from.end:
		from.end, from.tail, write = known.end, known.tail, known.end
	}
	s := segment.NewReader(f.File, f.path, f.number, from.end, f.bytes, from.tail)
	var e entry.Entry
	for s.Fill() {
		for {
			if _, ok := s.Next(&e); !ok {
				break
			}
		}
	}
	end, cause := s.At(), s.Err()
	var damage *segment.DamageError
	if cause != nil && (!errors.As(cause, &damage) || errors.Is(cause, segment.ErrVersion)) {
		return 0, cause
	}
	if s.Tail().Index < must {
		if cause == nil {
			cause = &segment.DamageError{
				File: f.path, At: end, Index: s.Tail().Index + 1, Kind: segment.ErrShort,
				Detail: "there are no entries from here on",
			}
		}
		return 0, r.lost(must, known, cause)
	}
	if damage != nil && damage.At >= end+segment.EntryHeaderBytes {
		r.sum.Torn = cause // a header that follows, with a payload that does not fit it
	}
	r.sum.Settled = end - write
	err := l.rewrite(f, write, end)
	if err != nil {
		return 0, err
	}
	if err := l.cut(f, end); err != nil {
		return 0, err
	}
	l.durable.Store(uint64(s.Tail().Index)) // visit may ask SyncTo for what it gets
	if known.clean && known.segment == f.number && known.end == end {
		return end, nil
	}
	r.sum.Wiped, err = l.wipe(f, end, s.Tail().Index)
	return end, err
}

// unbegunError says what is wrong with the file of a segment that was begun.
func (r *replay) unbegunError(number uint32) error {
	for _, s := range r.l.found.unbegun {
		if s.number == number {
			return s.err
		}
	}
	return missing(number)
}

// rewrite writes the bytes from <= offset < to of the file again as they are.
func (l *Log) rewrite(f *file, from, to int64) error {
	buf := make([]byte, min(1<<20, to-from))
	for from < to {
		part := buf[:min(int64(len(buf)), to-from)]
		if _, err := f.ReadAt(part, from); err != nil {
			return err
		}
		if _, err := f.WriteAt(part, from); err != nil {
			return err
		}
		from += int64(len(part))
	}
	return nil
}

// cut makes sure that no entry begins at end, and that all before is durable.
func (l *Log) cut(f *file, end int64) error {
	head := make([]byte, min(segment.EntryHeaderBytes, max(f.bytes-end, 0)))
	if len(head) > 0 {
		if _, err := f.ReadAt(head, end); err != nil {
			return err
		}
	}
	// Where nothing is, nothing is written: it could take room that is not there.
	if !segment.Blank(head) {
		if err := f.ZeroFill(end, end+int64(len(head))); err != nil {
			return err
		}
	}
	return f.SyncData()
}

// wipe makes everything behind end unreadable that could be taken for an entry with
// a higher index than last. A torn write can leave whole entries behind the one
// that is missing; if the missing one was appended again with the same bytes, they
// would go on from it. Bytes of a former use of the file have lower indexes, and
// are left alone.
func (l *Log) wipe(f *file, end int64, last entry.Index) (wiped int, err error) {
	const overlap = segment.EntryHeaderBytes - 1
	buf := make([]byte, min(1<<20, max(f.bytes-end, 0)))
	for from := end; from+segment.EntryHeaderBytes <= f.bytes; {
		// A header lies at most overlap bytes before the data that it reaches into.
		data, err := f.NextData(from)
		if err != nil {
			return wiped, err
		}
		if from = max(from, data-overlap); from+segment.EntryHeaderBytes > f.bytes {
			break
		}
		part := buf[:min(int64(len(buf)), f.bytes-from)]
		if _, err := f.ReadAt(part, from); err != nil {
			return wiped, err
		}
		for at := range segment.FindEntryHeaders(part, last+1) {
			if err := f.ZeroFill(from+int64(at), from+int64(at)+segment.EntryHeaderBytes); err != nil {
				return wiped, err
			}
			wiped++
		}
		from += int64(len(part)) - overlap
	}
	if wiped == 0 {
		return 0, nil
	}
	return wiped, f.SyncData()
}

// settleFolder removes files that mean nothing, takes over the file that is ready
// for the next segment, if there is one, and notes the bound.
func (r *replay) settleFolder(next uint32, wasClean bool) error {
	l := r.l
	if err := l.fs.MkdirAll(l.o.Dir); err != nil {
		return err
	}
	names := l.found.leftovers
	for i, s := range l.found.unbegun {
		// After a crash the file may hold the rest of a write that was to begin the
		// segment; see wipe. It is not worth reading.
		if i > 0 || s.number != next || !wasClean {
			names = append(names, s.name)
			continue
		}
		f, err := l.fs.OpenReadWrite(l.fs.Join(l.o.Dir, s.name))
		if err != nil {
			return err
		}
		l.prep.adopt(s.number, f)
	}
	for _, name := range names {
		if err := l.fs.Remove(l.fs.Join(l.o.Dir, name)); err != nil && !vfs.NotExist(err) {
			return err
		}
	}
	w := &l.w
	if w.begun {
		m := mark{file: w.file, end: w.end, tail: w.tail}
		l.mark = m
		l.written.Store(uint64(w.tail.Index))
		l.syncing.Lock()
		l.settled(m)
		l.syncing.Unlock()
		if err := l.bound.sync(); err != nil && wasClean {
			return err // a bound that says clean must not stay
		}
		r.sum.Last, r.sum.LastTime, r.sum.LastTerm = w.tail.Index, w.tail.Time, w.tail.Term
		r.sum.End = entry.MakePos(w.file.number, uint32(w.end))
	}
	return l.fs.SyncDir(l.o.Dir)
}
