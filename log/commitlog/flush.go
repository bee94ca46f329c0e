package commitlog

import (
	"time"

	"github.com/sluicemq/sluice/log/entry"
)

// syncWritten makes everything that was written so far durable, with one
// fdatasync, unless it is already. An error is the end of the log: what the kernel
// could not write it has forgotten, so that a second fdatasync would succeed and
// mean nothing.
func (l *Log) syncWritten() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.mu.Lock()
	m, dead := l.mark, l.dead
	l.mu.Unlock()
	if dead != nil {
		return dead
	}
	if m == l.synced {
		return nil
	}
	start := l.o.Elapsed()
	if err := m.file.SyncData(); err != nil {
		return l.die(err)
	}
	l.o.Events.Flushed(l.o.Elapsed() - start)
	l.settled(m)
	return nil
}

// settled notes that everything up to m is durable. syncing is held.
func (l *Log) settled(m mark) {
	l.synced = m
	l.mu.Lock()
	l.durable.Store(uint64(m.tail.Index))
	l.moved.Broadcast()
	l.mu.Unlock()
	if err := l.bound.note(bound{segment: m.file.number, end: m.end, tail: m.tail}); err != nil {
		l.o.Events.BoundFailed(err)
	}
}

// endClean notes that nothing is behind the durable bound, which spares the next
// start the search for remains of torn writes. Everything is synced and nothing is
// appended any more.
func (l *Log) endClean() {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	m := l.synced
	if m.file == nil {
		return
	}
	err := l.bound.note(bound{segment: m.file.number, end: m.end, tail: m.tail, clean: true})
	if err != nil {
		l.o.Events.BoundFailed(err)
	}
}

// flushLoop is the flush goroutine of FlushAsync. Replay starts it, Close ends it.
// It owns nothing; syncing keeps it and the append goroutine apart.
func (l *Log) flushLoop() {
	defer l.helpers.Done()
	ticker := time.NewTicker(l.o.FlushInterval)
	defer ticker.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-ticker.C:
		case <-l.kick:
		}
		// An error made the log dead, which everybody who waits is told.
		_ = l.syncWritten()
	}
}

// SyncTo returns when the entry with the index is durable; with FlushAsync it has
// that done at once, if the entry is written. It waits for an entry that is not
// written yet. The error matches ErrDead or ErrClosed.
func (l *Log) SyncTo(index entry.Index) error {
	select {
	case l.kick <- struct{}{}:
	default: // somebody asked already
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		switch {
		case l.DurableIndex() >= index:
			return nil
		case l.dead != nil:
			return l.dead
		case l.closed:
			return ErrClosed
		}
		l.moved.Wait()
	}
}
