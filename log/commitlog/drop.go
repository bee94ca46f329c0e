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
// ErrClosed. After any other error, Segments tells whether it is still there; if it
// is not, it may be back after a crash.
func (l *Log) Drop(number uint32) error {
	if err := l.drop(number); err != nil {
		return fmt.Errorf("drop segment %d: %w", number, err)
	}
	return nil
}

func (l *Log) drop(number uint32) error {
	l.dropping.Lock()
	defer l.dropping.Unlock()
	f, err := l.files.sealed(number)
	if err != nil {
		return err
	}
	// The name goes first: if that fails, nothing has changed.
	spare := ""
	if f.bytes == l.o.SegmentBytes {
		spare = fmt.Sprintf("spare-%d%s", number, temporary)
		err = l.fs.Rename(f.path, l.fs.Join(l.o.Dir, spare))
	} else {
		err = l.fs.Remove(f.path)
	}
	if err != nil {
		return err
	}
	l.files.remove(f)
	err = l.fs.SyncDir(l.o.Dir)
	f.release()
	<-f.idle
	err = errors.Join(err, f.Close())
	if spare == "" {
		return err
	}
	// Nobody may write to the file while a crash could give it its old name back.
	if err == nil && l.prep.offer(spare) {
		return nil
	}
	return errors.Join(err, l.fs.Remove(l.fs.Join(l.o.Dir, spare)))
}
