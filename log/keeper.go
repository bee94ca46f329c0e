package log

import (
	"time"

	"github.com/sluicemq/sluice/log/apply"
	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/entry"
)

const (
	roomEvery  = time.Second // how often the free space is looked at
	movesAtOne = 4096        // log starts moved in one entry
)

// Kick asks for segments that nobody needs any more to be freed soon: after a
// topic was deleted or records were.
func (l *Log) Kick() {
	select {
	case l.kicks <- struct{}{}:
	default:
	}
}

// runKeeper looks after the room on the disk until Close. Started by Open.
func (l *Log) runKeeper() {
	defer l.running.Done()
	room := time.NewTicker(roomEvery)
	defer room.Stop()
	retain := time.NewTicker(l.options.RetainEvery)
	defer retain.Stop()
	for {
		var err error
		select {
		case <-l.closing:
			return
		case <-room.C:
			l.lookAtRoom()
		case <-retain.C:
			if err = l.Retain(entry.TimeOf(time.Now())); err == nil {
				err = l.free()
			}
		case <-l.kicks:
			err = l.free()
		}
		if err != nil {
			l.options.Events.RetainFailed(err)
		}
	}
}

// lookAtRoom refuses records while the disk has too little room: before it is
// full, so that what frees room can still be written.
func (l *Log) lookAtRoom() {
	space, ok, err := l.options.FS.Space(l.options.Dir)
	if err != nil || !ok || l.options.MinFreeBytes <= 0 {
		return
	}
	if low := space.Free < uint64(l.options.MinFreeBytes); low != l.low.Load() {
		l.low.Store(low)
		l.options.Events.Room(low, space.Free)
		if low {
			l.Kick()
		}
	}
}

// Retain moves log start offsets as the policies ask at the time now.
func (l *Log) Retain(now entry.Time) error {
	moves := make([]apply.LogStart, 0, movesAtOne)
	propose := func() error {
		if len(moves) == 0 {
			return nil
		}
		_, err := l.Do(entry.TypeLogStart, 0, apply.EncodeLogStarts(moves))
		moves = moves[:0]
		return err
	}
	for p, policy := range l.options.Policies {
		queue := l.queues.Get(p)
		if queue == nil {
			continue
		}
		to, err := queue.Retain(now, policy)
		if err != nil {
			return err
		}
		if start, _ := queue.Bounds(); to <= start {
			continue
		}
		if moves = append(moves, apply.LogStart{Partition: p, Offset: to}); len(moves) == movesAtOne {
			if err := propose(); err != nil {
				return err
			}
		}
	}
	return propose()
}

// DeleteRecords moves the log start offset of a partition forward to at most
// its end, durably, and returns the offset at which it is then.
func (l *Log) DeleteRecords(p entry.Partition, before entry.Offset) (entry.Offset, error) {
	if _, err := l.Do(entry.TypeLogStart, 0, apply.EncodeLogStarts([]apply.LogStart{{Partition: p, Offset: before}})); err != nil {
		return -1, err
	}
	l.Kick()
	start, _, ok := l.Bounds(p)
	if !ok {
		return -1, gone()
	}
	return start, nil
}

// free drops sealed segments in which no partition has anything left. What must
// outlive them is made durable first: where each partition stands, and that the
// segment is gone on purpose.
func (l *Log) free() error {
	for _, s := range l.commits.Segments() {
		needed, err := l.queues.Needed(s.Number)
		if err != nil {
			return err
		}
		if needed {
			continue
		}
		if err := l.drop(s.Number); err != nil {
			return err
		}
		l.options.Events.Freed(s.Number)
	}
	return nil
}

func (l *Log) drop(segment uint32) error {
	file := l.queues.File(segment)
	if file == nil {
		return nil
	}
	var partitions []entry.Partition
	err := file.Partitions(func(p entry.Partition, _, _ entry.Offset, _ int64) bool {
		partitions = append(partitions, p)
		return true
	})
	file.Release()
	if err != nil {
		return err
	}
	l.loop.SaveBounds(partitions)
	l.loop.Free(segment)
	if err := l.loop.Checkpoint(); err != nil {
		return err
	}
	if _, err := l.store.Flush(); err != nil {
		return err
	}
	l.queues.Detach(segment)
	return l.removeFiles(segment)
}

// removeFiles removes a segment that the state store says is freed. It is done
// again at the next start if it did not come to its end.
func (l *Log) removeFiles(segment uint32) error {
	if err := consumequeue.Remove(l.options.FS, l.commitDir(), segment); err != nil {
		return err
	}
	return l.commits.Drop(segment)
}
