package log

import (
	"errors"
	"fmt"

	"github.com/sluicemq/sluice/log/apply"
	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/entry"
)

// movesAtOne is how many log starts are moved in one entry: what fits into the
// smallest segment.
const movesAtOne = 2048

// maxErrors is how many errors of one round are told.
const maxErrors = 3

// failures gathers the errors of a round that goes on after each.
type failures struct {
	errs []error
	more int
}

func (f *failures) add(err error) {
	if err == nil {
		return
	}
	if len(f.errs) == maxErrors {
		f.more++
		return
	}
	f.errs = append(f.errs, err)
}

func (f *failures) err() error {
	err := errors.Join(f.errs...)
	if f.more > 0 {
		err = fmt.Errorf("%w\nand %d more", err, f.more)
	}
	return err
}

// Retain moves log start offsets as the policies ask at the time now, and frees
// the segments that nobody needs any more. What goes wrong in one partition or
// segment is in the error and does not hold up the others.
func (l *Log) Retain(now entry.Time) error {
	var failed failures
	moves := make([]apply.LogStart, 0, movesAtOne)
	for p, policy := range l.options.Policies {
		to, err := l.expired(p, policy, now)
		failed.add(err)
		if to < 0 {
			continue
		}
		if moves = append(moves, apply.LogStart{Partition: p, Offset: to}); len(moves) == movesAtOne {
			err := l.moveStarts(moves)
			failed.add(err)
			if moves = moves[:0]; err != nil {
				break // the others would find no room either
			}
		}
	}
	failed.add(l.moveStarts(moves))
	failed.add(l.free()) // also without room for log starts: there may be something to free
	return failed.err()
}

// expired returns the start offset that a partition is to get, -1 when it keeps
// the one it has.
func (l *Log) expired(p entry.Partition, policy consumequeue.Retention, now entry.Time) (entry.Offset, error) {
	queue := l.queues.Get(p)
	if queue == nil {
		return -1, nil
	}
	to, err := queue.Retain(now, policy)
	switch {
	case errors.Is(err, consumequeue.ErrDeleted):
		return -1, nil
	case err != nil:
		return -1, fmt.Errorf("retention of partition %d: %w", p, err)
	}
	if start, _ := queue.Bounds(); to <= start {
		return -1, nil
	}
	return to, nil
}

func (l *Log) moveStarts(moves []apply.LogStart) error {
	if len(moves) == 0 {
		return nil
	}
	_, err := l.Do(entry.TypeLogStart, 0, apply.EncodeLogStarts(moves))
	return err
}

// DeleteRecords moves the log start offset of a partition forward to at most
// its end, durably, and returns the offset at which it is then.
func (l *Log) DeleteRecords(p entry.Partition, before entry.Offset) (entry.Offset, error) {
	if err := l.moveStarts([]apply.LogStart{{Partition: p, Offset: before}}); err != nil {
		return -1, err
	}
	l.Kick()
	start, _, ok := l.Bounds(p)
	if !ok {
		return -1, gone()
	}
	return start, nil
}
