package log

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluicemq/sluice/log/apply"
	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/segment"
	"github.com/sluicemq/sluice/log/state"
	"github.com/sluicemq/sluice/protocol/batch"
)

// Recovery is what Open found and did.
type Recovery struct {
	New      bool          // the folder was made
	Segments int           // segments of the log, the active one included
	Applied  entry.Index   // newest entry whose effects the state store had
	Replayed int           // entries that were applied again
	Torn     error         // what a torn write left behind the end, which was cut; nil if nothing
	Took     time.Duration // from the start of Open to its end
}

// Open opens the data folder, or makes one, and brings it to the state of its
// newest entry. It fails, with everything in the folder kept, when the folder is
// in use (ErrInUse), of another node (ErrNode), of a newer version
// (ErrNewerFolder), or damaged (ErrCorrupt).
func Open(o Options) (*Log, error) {
	began := time.Now()
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Log{
		options: o,
		queues:  consumequeue.NewSet(),
		codecs:  batch.NewCodecs(batch.Limits{}),
		closing: make(chan struct{}),
	}
	l.sealer.init()
	l.keeper.init()
	if err := l.open(); err != nil {
		l.abandon()
		if errors.Is(err, segment.ErrCorrupt) || errors.Is(err, consumequeue.ErrCorrupt) || errors.Is(err, state.ErrCorrupt) {
			err = fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		return nil, fmt.Errorf("open data folder %s: %w", o.Dir, err)
	}
	l.recovery.Took = time.Since(began)
	l.look()
	l.applying.Add(1)
	go l.runLoop()
	l.running.Add(2)
	go l.runSealer()
	go l.runKeeper()
	return l, nil
}

func (l *Log) open() error {
	fs, dir := l.options.FS, l.options.Dir
	if err := l.openFolder(); err != nil {
		return err
	}
	var err error
	if l.store, err = state.Open(state.Options{FS: fs, Dir: l.stateDir(), CacheBytes: l.options.StateCacheBytes, Events: l.options.Events.State}); err != nil {
		return err
	}
	l.commits, err = commitlog.Open(commitlog.Options{
		FS: fs, Dir: l.commitDir(), SegmentBytes: l.options.SegmentBytes,
		Flush: l.options.Flush, FlushInterval: l.options.FlushInterval,
		TailBytes: l.options.TailBytes, BacklogBytes: l.options.BacklogBytes,
		Now:     func() entry.Time { return entry.TimeOf(time.Now()) },
		Elapsed: func() time.Duration { return time.Duration(time.Now().UnixNano()) },
		Events:  l.lookAfterwards(l.options.Events.CommitLog),
	})
	if err != nil {
		return err
	}
	l.loop, err = apply.New(apply.Options{
		Log: l.commits, Queues: l.queues, Store: l.store, Hub: &l.hub,
		Appliers: l.options.Appliers, Judge: l.options.Judge,
		SegmentComplete: l.segmentComplete, Stopped: l.options.Events.Stopped, LeaderEpoch: LeaderEpoch,
		BatchBytes: l.options.checkpointBytes, TailBytes: l.options.checkpointBytes,
	})
	if err != nil {
		return err
	}
	if err := l.recover(); err != nil {
		return fmt.Errorf("in %s: %w", dir, err)
	}
	return nil
}

// recover brings memory to the state of the newest entry: the state store as of
// its applied index, the index files of sealed segments, the tails of the others,
// and then every entry behind the applied index.
func (l *Log) recover() error {
	l.recovery.Applied = l.store.Applied()
	if err := l.loop.Load(); err != nil {
		return err
	}
	found, err := l.attachFiles()
	if err != nil {
		return err
	}
	if err := l.loop.LoadQueues(found.stateOf); err != nil {
		return err
	}
	summary, err := l.commits.Replay(found.first, l.recovery.Applied, l.loop.Replay)
	if err != nil {
		return err
	}
	if reached := l.loop.Applied(); reached < l.recovery.Applied {
		return fmt.Errorf("%w: the log ends at entry %d, but the state store has entry %d", ErrCorrupt, reached, l.recovery.Applied)
	}
	l.recovery.Segments = len(l.commits.Segments())
	l.recovery.Replayed = int(l.loop.Applied() - l.recovery.Applied)
	l.recovery.Torn = summary.Torn
	return nil
}

// runLoop applies entries until the commit log is closed. Started by Open. What
// breaks the loop is told by Events.Stopped.
func (l *Log) runLoop() {
	defer l.applying.Done()
	_ = l.loop.Run()
}

// Close stops taking proposals, applies what was taken, makes the state store
// durable, and gives the folder back. Calls after the first do nothing.
func (l *Log) Close() error {
	var err error
	l.stopping.Do(func() { err = l.close() })
	return err
}

func (l *Log) close() error {
	close(l.closing)
	l.commits.Drain()
	l.applying.Wait()
	l.sealer.end() // nothing more becomes complete
	l.running.Wait()
	var errs []error
	if err := l.loop.Checkpoint(); err != nil {
		errs = append(errs, err)
	} else if _, err := l.store.Flush(); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, l.commits.Close())
	l.loop.Close()
	l.queues.Close()
	errs = append(errs, l.store.Close(), l.lock.Close())
	return errors.Join(errs...)
}

// abandon closes what a failed open has opened.
func (l *Log) abandon() {
	l.queues.Close()
	if l.loop != nil {
		l.loop.Close()
	}
	if l.commits != nil {
		_ = l.commits.Close() // the failure of Open is the news, here and below
	}
	if l.store != nil {
		_ = l.store.Close()
	}
	if l.lock != nil {
		_ = l.lock.Close()
	}
}
