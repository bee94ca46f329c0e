package commitlog

import (
	"errors"
	"fmt"
)

// Drop takes a sealed segment out of the log and frees its file, or keeps it to
// become a segment again. It waits for reads of the segment that are under way;
// later ones get ErrGone, but for what is still in memory. Any sealed segment may
// be dropped, in any order, as long as nothing in it is needed for Replay.
//
// When it returns nil, the segment stays away after a crash. The error matches
// ErrGone when there is no such segment, ErrActive for the newest one, and
// ErrClosed. After any other error the segment is out of the log, but may be back
// after a restart.
func (l *Log) Drop(number uint32) error {
	f, err := l.files.remove(number)
	if err != nil {
		return fmt.Errorf("drop segment %d: %w", number, err)
	}
	f.release()
	<-f.idle
	size, err := f.Size()
	err = errors.Join(err, f.Close())
	if err != nil {
		return fmt.Errorf("drop segment %d: %w", number, err)
	}
	if err := l.discard(f.Name(), number, size); err != nil {
		return fmt.Errorf("drop segment %d: %w", number, err)
	}
	return nil
}

// discard removes the file or leaves it to the preparer. The preparer must not
// write to it while a crash could still give it its old name back.
func (l *Log) discard(path string, number uint32, size int64) error {
	if size != l.o.SegmentBytes {
		return errors.Join(l.fs.Remove(path), l.fs.SyncDir(l.o.Dir))
	}
	spare := fmt.Sprintf("spare-%d%s", number, temporary)
	sparePath := l.fs.Join(l.o.Dir, spare)
	if err := l.fs.Rename(path, sparePath); err != nil {
		return err
	}
	if err := l.fs.SyncDir(l.o.Dir); err != nil {
		return errors.Join(err, l.fs.Remove(sparePath))
	}
	if l.prep.offer(spare) {
		return nil
	}
	return l.fs.Remove(sparePath)
}
