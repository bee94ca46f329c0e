package log

import (
	"fmt"
	"slices"

	"github.com/sluicemq/sluice/log/apply"
	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/segment"
)

// row is what a start finds of the segments and their index files.
type row struct {
	infos   []commitlog.SegmentInfo // those that are kept, by number
	freed   apply.Freed
	indexed map[uint32]bool
	first   uint32 // the first segment that must be read; 0 when there is none
}

// stateOf is for the apply loop.
func (r *row) stateOf(number uint32) apply.SegmentState {
	switch {
	case r.indexed[number]:
		return apply.SegmentIndexed
	case r.has(number):
		return apply.SegmentOpen
	default:
		return apply.SegmentGone
	}
}

func (r *row) has(number uint32) bool {
	_, ok := slices.BinarySearchFunc(r.infos, number, func(s commitlog.SegmentInfo, n uint32) int {
		return int(int64(s.Number) - int64(n))
	})
	return ok
}

// attachFiles attaches the index files of sealed segments, finishes what freeing
// segments left behind, and refuses a folder of which something is missing or
// does not belong.
func (l *Log) attachFiles() (*row, error) {
	fs, dir := l.options.FS, l.commitDir()
	if err := consumequeue.Clean(fs, dir); err != nil {
		return nil, err
	}
	r := &row{indexed: map[uint32]bool{}}
	var err error
	if r.freed, err = l.loop.Freed(); err != nil {
		return nil, err
	}
	for _, info := range l.commits.Segments() {
		if !r.freed.Has(info.Number) {
			r.infos = append(r.infos, info)
		} else if err := l.removeFiles(info.Number); err != nil {
			return nil, err
		}
	}
	files, err := consumequeue.List(fs, dir)
	if err != nil {
		return nil, err
	}
	if err := l.checkRow(r, files); err != nil {
		return nil, err
	}
	for _, number := range files {
		if !r.has(number) {
			if err := consumequeue.Remove(fs, dir, number); err != nil {
				return nil, err
			}
			continue
		}
		if err := l.attachFile(r, number); err != nil {
			return nil, err
		}
	}
	return r, l.findFirst(r)
}

// checkRow refuses a folder in which a segment is missing that nobody freed.
func (l *Log) checkRow(r *row, files []uint32) error {
	next := r.freed.UpTo + 1
	for _, info := range r.infos {
		for ; next < info.Number; next++ {
			if !r.freed.Has(next) {
				return l.missingSegment(next, "the log goes on in "+segment.FileName(info.Number))
			}
		}
		next++
	}
	for _, number := range files {
		if !r.has(number) && !r.freed.Has(number) {
			return l.missingSegment(number, "its index file is there")
		}
	}
	return nil
}

func (l *Log) missingSegment(number uint32, but string) error {
	return fmt.Errorf("%w: %s is missing, but %s", ErrCorrupt, l.options.FS.Join(l.commitDir(), segment.FileName(number)), but)
}

// attachFile attaches the index file of a segment.
func (l *Log) attachFile(r *row, number uint32) error {
	file, err := consumequeue.Open(l.options.FS, l.commitDir(), number)
	if err != nil {
		return err
	}
	if err := l.checkFile(r, file); err != nil {
		file.Release()
		return err
	}
	if err := l.queues.Attach(file); err != nil {
		return err
	}
	r.indexed[number] = true
	return nil
}

// checkFile refuses an index file that is not of this log.
func (l *Log) checkFile(r *row, file *consumequeue.File) error {
	of := file.Segment()
	i := slices.IndexFunc(r.infos, func(s commitlog.SegmentInfo) bool { return s.Number == of.Number })
	info := r.infos[i]
	switch {
	case of.First != info.FirstIndex || info.Sealed && info.LastIndex != 0 && of.Last != info.LastIndex:
		return fmt.Errorf("%w: %s covers entries %d to %d, but %s has others: files of different folders were mixed",
			ErrCorrupt, file.Name(), of.First, of.Last, segment.FileName(of.Number))
	case of.Last > l.recovery.Applied:
		return fmt.Errorf("%w: %s ends at entry %d, but the state store at %d: files of different folders were mixed",
			ErrCorrupt, file.Name(), of.Last, l.recovery.Applied)
	case !info.Sealed:
		return l.missingSegment(of.Number+1, fmt.Sprintf("%s says that segment %d is complete", file.Name(), of.Number))
	}
	return nil
}

// findFirst finds the oldest segment without an index file: from there on the
// log is read.
func (l *Log) findFirst(r *row) error {
	for _, info := range r.infos {
		if r.indexed[info.Number] {
			continue
		}
		if next := l.recovery.Applied + 1; info.FirstIndex > next {
			return fmt.Errorf("%w: %s begins with entry %d, but the state store lacks entries from %d on: files of different folders were mixed",
				ErrCorrupt, l.options.FS.Join(l.commitDir(), segment.FileName(info.Number)), info.FirstIndex, next)
		}
		r.first = info.Number
		return nil
	}
	return nil // there is no segment: Replay says whether there must be one
}
