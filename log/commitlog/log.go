package commitlog

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/segment"
	"github.com/sluicemq/sluice/log/vfs"
)

// What the methods of a Log refuse with, besides damage (segment.ErrCorrupt).
var (
	// ErrTooLarge: an entry does not fit into a segment.
	ErrTooLarge = errors.New("entry is larger than a segment")
	// ErrStorageFull: there is no room on the disk. Nothing was appended; later
	// proposals are tried again.
	ErrStorageFull = errors.New("no room on the disk for the log")
	// ErrDead: the log takes no more entries, since a write or fdatasync failed.
	// Of what was in flight nobody can say whether it will be there after a
	// restart. Reads are still served.
	ErrDead = errors.New("log is dead")
	// ErrClosed: the log was closed.
	ErrClosed = errors.New("log is closed")
	// ErrGone: the segment was dropped.
	ErrGone = errors.New("segment is gone")
	// ErrActive: the newest segment cannot be dropped.
	ErrActive = errors.New("segment is active")
)

// Log is an open CommitLog. See the package comment for how it is used.
type Log struct {
	o  Options
	fs *vfs.FS

	found  folder // what Open found, for Replay
	files  table
	queue  *queue
	blocks blockPool
	reads  sync.Pool // of *entryRead
	tail   tail
	bound  boundFile
	prep   *preparer

	groups     chan *Group
	freeGroups chan *Group
	w          writer // owned by Replay, then by the append goroutine

	written atomic.Uint64 // newest index that is written
	durable atomic.Uint64 // newest index that is durable; <= written

	mu       sync.Mutex
	moved    sync.Cond // signals changes of what mu guards, and of durable
	mark     mark      // guarded by mu: the newest written entry
	dead     error     // guarded by mu: why the log is dead
	closed   bool      // guarded by mu
	replayed bool      // guarded by mu

	syncing sync.Mutex    // held during an fdatasync of the active segment; taken before mu
	synced  mark          // guarded by syncing: what the last fdatasync covered
	kick    chan struct{} // asks the flush goroutine for an fdatasync
	stop    chan struct{} // closed by Close: ends the flush goroutine

	dropping sync.Mutex // held by Drop, and when Close closes the files

	appender sync.WaitGroup // the append goroutine
	helpers  sync.WaitGroup // the flush and the prepare goroutine
	closing  sync.Once
	closeErr error
}

// mark is a place between two entries in a file.
type mark struct {
	file *file
	end  int64        // byte behind the newest entry
	tail segment.Tail // what the newest entry left
}

// Open finds the segments in the folder and checks their headers, but reads no
// entries, changes nothing, and starts no goroutines. The caller has locked the
// folder against other processes. Replay must follow.
func Open(o Options) (*Log, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Log{
		o:          o,
		fs:         o.FS,
		queue:      newQueue(o.BacklogBytes),
		blocks:     blockPool{size: min(blockBytes, o.SegmentBytes)},
		tail:       tail{limit: o.TailBytes},
		groups:     make(chan *Group, groupsInFlight),
		freeGroups: make(chan *Group, groupsInFlight+4),
		kick:       make(chan struct{}, 1),
		stop:       make(chan struct{}),
	}
	l.moved.L = &l.mu
	l.bound = boundFile{fs: o.FS, dir: o.Dir}
	l.prep = newPreparer(o)
	if l.found, err = findSegments(o.FS, o.Dir); err != nil {
		return nil, fmt.Errorf("open log in %s: %w", o.Dir, err)
	}
	for _, s := range l.found.segments {
		path := o.FS.Join(o.Dir, s.name)
		f, err := o.FS.OpenReadWrite(path)
		if err != nil {
			l.files.close()
			return nil, fmt.Errorf("open log in %s: %w", o.Dir, err)
		}
		l.files.add(&file{File: f, path: path, number: s.number, header: s.header, bytes: s.bytes})
	}
	return l, nil
}

// Propose asks for p to be appended, behind all proposals of calls that returned
// before. It blocks while more than Options.BacklogBytes wait, so the goroutine
// that takes groups from Next must not call it. When it returns nil, p will be
// completed exactly once. When it returns an error, p will not be completed: the
// error matches ErrTooLarge, ErrDead or ErrClosed.
func (l *Log) Propose(p *Proposal) error {
	if size, room := p.bytes(), l.o.SegmentBytes-segment.HeaderBytes; size > room {
		return fmt.Errorf("%w: %d bytes with its header, of %d", ErrTooLarge, size, room)
	}
	p.payloadSum = segment.Checksum(p.Payload)
	return l.queue.put(p)
}

// Next returns the next group to apply, in the order of the log: a durable one
// with FlushSync, a written one with FlushAsync. It waits until there is one, and
// returns false when the log is closed and everything was handed out. One
// goroutine calls it; it must go on until false, even when applying failed, since
// Close waits for that and the proposals must be completed.
func (l *Log) Next() (*Group, bool) {
	g, ok := <-l.groups
	return g, ok
}

// WrittenIndex returns the newest index that is written to the file.
func (l *Log) WrittenIndex() entry.Index { return entry.Index(l.written.Load()) }

// DurableIndex returns the newest index that is known to survive a crash.
func (l *Log) DurableIndex() entry.Index { return entry.Index(l.durable.Load()) }

// Dead returns why the log is dead, or nil. The error matches ErrDead.
func (l *Log) Dead() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// die makes the log take no more entries, for good.
func (l *Log) die(cause error) error {
	l.mu.Lock()
	first := l.dead == nil
	if first {
		l.dead = fmt.Errorf("%w: %w", ErrDead, cause)
	}
	err := l.dead
	l.moved.Broadcast()
	l.mu.Unlock()
	l.queue.shut(err)
	if first {
		l.o.Events.Dead(err)
	}
	return err
}

// Drain makes Propose refuse with ErrClosed and returns when everything that was
// proposed before is appended, or refused, and handed out: Next returns false
// after that. SyncTo and the readers go on working. It is the first half of Close,
// for a caller whose apply loop needs the log until it has ended.
func (l *Log) Drain() {
	l.queue.shut(ErrClosed)
	l.appender.Wait()
}

// Close drains the log, makes everything durable, ends the goroutines, and closes
// the files once reads that are under way are done. Calls after the first return
// what the first one did.
func (l *Log) Close() error {
	l.closing.Do(func() {
		if err := l.shutDown(); err != nil {
			l.closeErr = fmt.Errorf("close log in %s: %w", l.o.Dir, err)
		}
	})
	return l.closeErr
}

func (l *Log) shutDown() error {
	l.Drain()
	close(l.stop)
	prepErr := l.prep.close()
	l.helpers.Wait()
	var err error
	l.mu.Lock()
	running := l.replayed
	l.mu.Unlock()
	if running && l.Dead() == nil {
		if err = l.syncWritten(); err == nil {
			l.endClean()
		}
	}
	l.mu.Lock()
	l.closed = true
	l.moved.Broadcast()
	l.mu.Unlock()
	if !running {
		close(l.groups) // the append goroutine does it where there is one
	}
	l.tail.drop()
	l.dropping.Lock()
	defer l.dropping.Unlock()
	return errors.Join(err, prepErr, l.w.close(), l.files.close(), l.bound.close())
}
