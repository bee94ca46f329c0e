package log

import (
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

// segmentComplete is called by the apply loop. The channel has room for more
// segments than can pile up while the sealer waits for room on the disk: new
// segments need room as well.
func (l *Log) segmentComplete(s consumequeue.Segment) {
	if file := l.queues.File(s.Number); file != nil {
		file.Release() // replayed although it has its file: the crash came right behind it
		return
	}
	l.seals <- seal{segment: s, builder: l.queues.Seal(s.Number)}
}

// runSealer writes index files until Close. Started by Open; owns nothing.
func (l *Log) runSealer() {
	defer l.running.Done()
	for {
		select {
		case <-l.closing:
			return
		case s := <-l.seals:
			for {
				began := time.Now()
				err := l.seal(s)
				if err == nil {
					l.options.Events.Sealed(s.segment.Number, time.Since(began))
					l.Kick()
					break
				}
				l.options.Events.SealFailed(s.segment.Number, err)
				select {
				case <-l.closing:
					return
				case <-time.After(sealRetry):
				}
			}
		}
	}
}

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
		return err
	}
	l.loop.DropTail(s.segment.Number)
	return nil
}
