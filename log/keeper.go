package log

import (
	"fmt"
	"sync"
	"time"

	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/entry"
)

const (
	lookEvery = time.Second // how often the keeper looks at the disk

	// The state store is made durable when one of these has passed since the last
	// time, so that a start after a crash has little to apply again.
	flushAfterBytes = 64 << 20
	flushAfter      = 30 * time.Second
)

// keeper is the state of the goroutine that looks after the folder.
type keeper struct {
	kicks chan struct{} // asks for segments to be freed

	looking sync.Mutex // held by look
	low     bool       // guarded by looking: the disk has less room than MinFreeBytes

	flushedAt    time.Time // owned by the goroutine, like what follows
	flushedBytes int64     // what the loop had applied by then

	freeing   sync.Mutex      // held while segments are freed
	unremoved map[uint32]bool // guarded by freeing: freed, with files that could not be removed yet
}

func (k *keeper) init() {
	k.kicks = make(chan struct{}, 1)
	k.unremoved = map[uint32]bool{}
	k.flushedAt = time.Now()
}

// Kick asks for segments that nobody needs any more to be freed soon: after a
// topic was deleted or records were.
func (l *Log) Kick() {
	select {
	case l.keeper.kicks <- struct{}{}:
	default:
	}
}

// runKeeper looks after the room on the disk until Close. Started by Open.
func (l *Log) runKeeper() {
	defer l.running.Done()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	retain := time.NewTicker(l.options.RetainEvery)
	defer retain.Stop()
	for {
		var err error
		select {
		case <-l.closing:
			return
		case <-look.C:
			l.look()
			l.flushInTime(time.Now())
		case <-retain.C:
			err = l.Retain(entry.TimeOf(time.Now()))
		case <-l.keeper.kicks:
			err = l.free()
		}
		if err != nil && !l.closed() {
			l.options.Events.RetainFailed(err)
		}
	}
}

// look refuses records while they would do harm: while the disk has too little
// room, so that what frees room can still be written, and while the state store
// cannot write, since what it keeps in memory instead would grow. It is called
// every lookEvery, and whenever a file was made for the log: then much room has
// gone at once.
func (l *Log) look() {
	l.keeper.looking.Lock()
	defer l.keeper.looking.Unlock()
	var refusal error
	if l.lowOnRoom() {
		refusal = fmt.Errorf("the disk has less than %d bytes left", l.options.MinFreeBytes)
		l.Kick()
	} else if err := l.store.Health(); err != nil {
		refusal = fmt.Errorf("the state store cannot be written: %w", err)
	}
	if refusal == nil {
		l.refusal.Store(nil)
	} else {
		l.refusal.Store(&refusal)
	}
}

// lowOnRoom needs looking to be held.
// lowOnRoom reports whether there is too little room. Called with looking held.
func (l *Log) lowOnRoom() bool {
	if l.options.MinFreeBytes <= 0 {
		return false
	}
	space, ok, err := l.options.FS.Space(l.options.Dir)
	if err != nil || !ok {
		return l.keeper.low
	}
	if low := space.Free < uint64(l.options.MinFreeBytes); low != l.keeper.low {
		l.keeper.low = low
		l.options.Events.Room(low, space.Free)
	}
	return l.keeper.low
}

// lookAfterwards returns the events of the commit log, with a look at the disk
// after each file that was or could not be made.
func (l *Log) lookAfterwards(e commitlog.Events) commitlog.Events {
	prepared, failed := e.Prepared, e.PrepareFailed
	e.Prepared = func(number uint32, recycled bool, filled int64) {
		if prepared != nil {
			prepared(number, recycled, filled)
		}
		l.look()
	}
	e.PrepareFailed = func(number uint32, err error) {
		if failed != nil {
			failed(number, err)
		}
		l.look()
	}
	return e
}

// flushInTime makes the state store durable when enough has been applied, or
// enough time has passed. That it cannot be is told by Events.State.
func (l *Log) flushInTime(now time.Time) {
	k := &l.keeper
	k.looking.Lock()
	defer k.looking.Unlock()
	applied := l.loop.Bytes()
	if l.loop.Applied() == l.store.Durable() || applied-k.flushedBytes < flushAfterBytes && now.Sub(k.flushedAt) < flushAfter {
		return
	}
	if l.loop.Checkpoint() != nil {
		return
	}
	if _, err := l.store.Flush(); err == nil {
		k.flushedAt, k.flushedBytes = now, applied
	}
}
