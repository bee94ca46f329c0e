package log

import (
	"errors"
	"sync"
	"time"

	"github.com/sluicemq/sluice/log/consumequeue"
)

// sealRetry is how long the sealer waits after a failure (a full disk, mostly).
const sealRetry = time.Second

// seal is a segment that is complete and wants its index file.
type seal struct {
	segment consumequeue.Segment
	builder *consumequeue.Builder
}

// sealer holds the segments that wait for their index file. There may be many
// while the disk is full, so it has no bound: the apply loop must not wait.
type sealer struct {
	mu      sync.Mutex
	changed sync.Cond // signals changes of what mu guards
	waiting []seal    // guarded by mu; oldest first
	ended   bool      // guarded by mu: nothing is added any more
}

func (s *sealer) init() { s.changed.L = &s.mu }

func (s *sealer) add(one seal) {
	s.mu.Lock()
	s.waiting = append(s.waiting, one)
	s.mu.Unlock()
	s.changed.Signal()
}

// next waits for a segment and takes it; ok is false after the last.
func (s *sealer) next() (one seal, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.waiting) == 0 && !s.ended {
		s.changed.Wait()
	}
	if len(s.waiting) == 0 {
		return seal{}, false
	}
	one = s.waiting[0]
	s.waiting[0] = seal{}
	s.waiting = s.waiting[1:]
	return one, true
}

// end makes next return false when nothing waits any more.
func (s *sealer) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.changed.Signal()
}

// segmentComplete is called by the apply loop.
func (l *Log) segmentComplete(s consumequeue.Segment) {
	if file := l.queues.File(s.Number); file != nil {
		file.Release() // replayed although it has its file: an older segment lacks its own
		return
	}
	l.sealer.add(seal{segment: s, builder: l.queues.Seal(s.Number)})
}

// runSealer writes index files until Close, and then those that still wait, once
// each, since without them the next start has to read their segments. Started by
// Open; owns nothing.
func (l *Log) runSealer() {
	defer l.running.Done()
	for {
		s, ok := l.sealer.next()
		if !ok {
			return
		}
		for {
			began := time.Now()
			err := l.seal(s)
			if err == nil {
				l.options.Events.Sealed(s.segment.Number, time.Since(began))
				l.Kick()
				break
			}
			l.options.Events.SealFailed(s.segment.Number, err)
			if errors.Is(err, errAttach) || !l.pause(sealRetry) {
				break
			}
		}
	}
}

// pause waits, and returns false when Close was called.
func (l *Log) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-l.closing:
		return false
	case <-timer.C:
		return true
	}
}

// errAttach marks the failure to read a file that was just written. The file is
// durable, so it is left to the next start to say what is wrong with it; until
// then the queues that were not reached keep their tails.
var errAttach = errors.New("index file cannot be read back")

// seal makes the index file of a segment. An index file may only exist when the
// state store durably holds all effects of its segment: a restart reads such a
// segment no more.
func (l *Log) seal(s seal) error {
	if _, err := l.store.Flush(); err != nil {
		return err
	}
	file, err := s.builder.Write(l.options.FS, l.commitDir(), s.segment)
	if err != nil {
		return err
	}
	if err := l.queues.Attach(file); err != nil {
		return errors.Join(errAttach, err)
	}
	l.loop.Indexed(s.segment.Number)
	return nil
}
