package log

import (
	"errors"
	"maps"
	"slices"

	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/segment"
)

// The active segment is sealed early when nothing in it is needed and it holds
// this much, or a quarter of what a segment can.
const maxDeadBytes = 8 << 20

// free drops sealed segments in which no partition has anything left, and seals
// the active one if there is nothing in it but what is dead, so that its turn
// comes. What must outlive segments is made durable first: all that was derived
// from them, and that they are gone on purpose.
func (l *Log) free() error {
	k := &l.keeper
	k.freeing.Lock()
	defer k.freeing.Unlock()
	var failed failures
	var unneeded []uint32
	for _, s := range l.commits.Segments() {
		if !s.Sealed || k.unremoved[s.Number] {
			continue
		}
		needed, err := l.queues.Needed(s.Number)
		failed.add(err)
		if !needed {
			unneeded = append(unneeded, s.Number)
			l.loop.Free(s.Number)
		}
	}
	if len(unneeded) > 0 {
		if err := l.loop.Checkpoint(); err != nil {
			return err
		}
		if _, err := l.store.Flush(); err != nil {
			return err
		}
		for _, number := range unneeded {
			l.queues.Detach(number)
			k.unremoved[number] = true
		}
	}
	for _, number := range slices.Sorted(maps.Keys(k.unremoved)) {
		if err := l.removeFiles(number); err != nil {
			failed.add(err) // it is tried again, or done by the next start
			continue
		}
		delete(k.unremoved, number)
		l.options.Events.Freed(number)
	}
	failed.add(l.sealDead())
	return failed.err()
}

// removeFiles removes a segment that the state store says is freed.
func (l *Log) removeFiles(number uint32) error {
	if err := consumequeue.Remove(l.options.FS, l.commitDir(), number); err != nil {
		return err
	}
	if err := l.commits.Drop(number); err != nil && !errors.Is(err, commitlog.ErrGone) {
		return err
	}
	return nil
}

// sealDead seals the active segment when it holds much, and nothing of it is
// needed. On a broker without further writes it would stay for ever.
func (l *Log) sealDead() error {
	number, end := l.loop.Active()
	if end-segment.HeaderBytes < min(maxDeadBytes, l.options.SegmentBytes/4) || l.queues.TailNeeded(number) {
		return nil
	}
	if l.closed() || l.Healthy() != nil {
		return nil
	}
	return l.commits.Roll()
}
