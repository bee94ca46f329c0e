package log

import (
	"runtime"
	"time"

	"github.com/sluicemq/sluice/log/entry"
)

// What tests of the engine as a whole need to reach inside.

// SetCheckpointBytes makes the apply loop take a checkpoint after n bytes of
// changes, or of ConsumeQueue entries.
func (o *Options) SetCheckpointBytes(n int) { o.checkpointBytes = n }

// Free does what Kick asks for, at once.
func (l *Log) Free() error { return l.free() }

// Roll seals the active segment, if it has entries.
func (l *Log) Roll() error { return l.commits.Roll() }

// Checkpoint takes a checkpoint, and makes it durable if flush is set.
func (l *Log) Checkpoint(flush bool) error {
	err := l.loop.Checkpoint()
	if err == nil && flush {
		_, err = l.store.Flush()
	}
	return err
}

// LiveSegments returns the numbers of the segments of the log.
func (l *Log) LiveSegments() (numbers []uint32) {
	for _, s := range l.commits.Segments() {
		numbers = append(numbers, s.Number)
	}
	return numbers
}

// VerifyIndexes checks every byte of the index files.
func (l *Log) VerifyIndexes() (files int, err error) {
	for _, s := range l.commits.Segments() {
		f := l.queues.File(s.Number)
		if f == nil {
			continue
		}
		err := f.Verify()
		f.Release()
		if err != nil {
			return files, err
		}
		files++
	}
	return files, nil
}

// BuffersInUse returns how many read buffers were not given back.
func (l *Log) BuffersInUse() int64 { return l.buffers.inUse.Load() }

// HeldBytes returns how much memory holds entries.
func (l *Log) HeldBytes() int64 { return l.commits.HeldBytes() }

// StateDigest returns the digest of what entries derive, after a checkpoint: all
// but what depends on when checkpoints fell and segments were freed.
func (l *Log) StateDigest() ([32]byte, error) {
	if err := l.loop.Checkpoint(); err != nil {
		return [32]byte{}, err
	}
	v := l.store.NewView()
	defer v.Close()
	return v.Digest('t', 'f')
}

// Look does what the keeper does every second.
func (l *Log) Look() { l.look() }

// FlushInTime does what the keeper does every second, as if it was d later.
func (l *Log) FlushInTime(d time.Duration) { l.flushInTime(time.Now().Add(d)) }

// StateDurable returns the entry up to which the state store is durable.
func (l *Log) StateDurable() entry.Index { return l.store.Durable() }

// AwaitSealed waits until every segment that is complete has its index file.
func (l *Log) AwaitSealed() {
	for {
		segments := l.commits.Segments()
		missing := false
		for _, s := range segments[:max(len(segments)-1, 0)] {
			if f := l.queues.File(s.Number); f != nil {
				f.Release()
			} else {
				missing = true
			}
		}
		if !missing {
			return
		}
		runtime.Gosched()
	}
}
