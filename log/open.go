package log

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluicemq/sluice/log/apply"
	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/segment"
	"github.com/sluicemq/sluice/log/state"
	"github.com/sluicemq/sluice/protocol/batch"
)

const (
	defaultRetainEvery = 5 * time.Minute
	// sealBacklog bounds segments that wait for their index file.
	sealBacklog = 1 << 16
)

// ErrNode says that a data folder belongs to another node.
var ErrNode = errors.New("data folder of another node")

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
// newest entry. It fails, with the folder as it was, when the folder is in use,
// of another node, of a newer version, or damaged (ErrCorrupt).
func Open(o Options) (*Log, error) {
	began := time.Now()
	o.Events = o.Events.withDefaults()
	if o.RetainEvery == 0 {
		o.RetainEvery = defaultRetainEvery
	}
	l := &Log{
		options: o,
		queues:  consumequeue.NewSet(),
		codecs:  batch.NewCodecs(batch.Limits{}),
		seals:   make(chan seal, sealBacklog),
		kicks:   make(chan struct{}, 1),
		closing: make(chan struct{}),
	}
	if err := l.open(); err != nil {
		l.abandon()
		if errors.Is(err, segment.ErrCorrupt) || errors.Is(err, consumequeue.ErrCorrupt) || errors.Is(err, state.ErrCorrupt) {
			err = fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		return nil, fmt.Errorf("open data folder %s: %w", o.Dir, err)
	}
	l.recovery.Took = time.Since(began)
	l.running.Add(3)
	go l.runLoop()
	go l.runSealer()
	go l.runKeeper()
	return l, nil
}

func (l *Log) open() error {
	fs, dir := l.options.FS, l.options.Dir
	if err := fs.MkdirAll(dir); err != nil {
		return err
	}
	var err error
	if l.lock, err = fs.Lock(fs.Join(dir, "lock")); err != nil {
		return fmt.Errorf("it is in use by another broker: %w", err)
	}
	if err := l.openMeta(); err != nil {
		return err
	}
	if l.store, err = state.Open(state.Options{FS: fs, Dir: fs.Join(dir, "state"), CacheBytes: l.options.StateCacheBytes, Events: l.options.Events.State}); err != nil {
		return err
	}
	l.commits, err = commitlog.Open(commitlog.Options{
		FS: fs, Dir: l.commitDir(), SegmentBytes: l.options.SegmentBytes,
		Flush: l.options.Flush, FlushInterval: l.options.FlushInterval,
		TailBytes: l.options.TailBytes, BacklogBytes: l.options.BacklogBytes,
		Now:     func() entry.Time { return entry.TimeOf(time.Now()) },
		Elapsed: func() time.Duration { return time.Duration(time.Now().UnixNano()) },
		Events:  l.options.Events.CommitLog,
	})
	if err != nil {
		return err
	}
	l.loop, err = apply.New(apply.Options{
		Log: l.commits, Queues: l.queues, Store: l.store, Hub: &l.hub,
		Appliers: l.options.Appliers, Judge: l.options.Judge,
		SegmentComplete: l.segmentComplete, LeaderEpoch: LeaderEpoch,
	})
	if err != nil {
		return err
	}
	return l.recover()
}

func (l *Log) openMeta() error {
	m, ok, err := loadMeta(l.options.FS, l.options.Dir)
	switch {
	case err != nil:
		return err
	case !ok:
		l.recovery.New = true
		l.meta = l.options.Meta
		l.meta.Version = metaVersion
		return saveMeta(l.options.FS, l.options.Dir, l.meta)
	case m.NodeID != l.options.Meta.NodeID:
		return fmt.Errorf("%w: it is of node %d, this is node %d", ErrNode, m.NodeID, l.options.Meta.NodeID)
	}
	l.meta = m
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
	first, err := l.attachFiles()
	if err != nil {
		return err
	}
	sealed := func(segment uint32) bool {
		file := l.queues.File(segment)
		if file != nil {
			file.Release()
		}
		return file != nil
	}
	if err := l.loop.LoadQueues(sealed); err != nil {
		return err
	}
	summary, err := l.commits.Replay(first, l.store.Applied(), l.loop.Replay)
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

// attachFiles attaches the index files of sealed segments, finishes what freeing
// segments left behind, and returns the first segment that must be read.
func (l *Log) attachFiles() (first uint32, err error) {
	fs, dir := l.options.FS, l.commitDir()
	if err := fs.MkdirAll(dir); err != nil {
		return 0, err
	}
	if err := consumequeue.Clean(fs, dir); err != nil {
		return 0, err
	}
	infos := l.commits.Segments()
	oldest := uint32(1)
	if len(infos) > 0 {
		oldest = infos[0].Number
	}
	freed, err := l.loop.Freed(oldest)
	if err != nil {
		return 0, err
	}
	indexed, err := consumequeue.List(fs, dir)
	if err != nil {
		return 0, err
	}
	var have []uint32
	for _, info := range infos {
		if _, gone := slices.BinarySearch(freed, info.Number); gone {
			if err := l.removeFiles(info.Number); err != nil {
				return 0, err
			}
			continue
		}
		have = append(have, info.Number)
	}
	if err := l.checkRow(have, freed, indexed); err != nil {
		return 0, err
	}
	for _, number := range have {
		if _, ok := slices.BinarySearch(indexed, number); !ok {
			return number, nil
		}
		file, err := consumequeue.Open(fs, dir, number)
		if err != nil {
			return 0, err
		}
		if last := file.Segment().Last; last > l.store.Applied() {
			file.Release()
			return 0, fmt.Errorf("%w: %s ends at entry %d, but the state store at %d: files of different folders were mixed",
				ErrCorrupt, file.Name(), last, l.store.Applied())
		}
		if err := l.queues.Attach(file); err != nil {
			return 0, err
		}
		first = number // all have one: the newest tells the commit log where to go on
	}
	return first, nil
}

// checkRow refuses a folder in which a segment is missing that nobody freed.
func (l *Log) checkRow(have, freed, indexed []uint32) error {
	for i := 1; i < len(have); i++ {
		for number := have[i-1] + 1; number < have[i]; number++ {
			if _, ok := slices.BinarySearch(freed, number); !ok {
				return fmt.Errorf("%w: %s is missing", ErrCorrupt, l.options.FS.Join(l.commitDir(), segment.FileName(number)))
			}
		}
	}
	for _, number := range indexed {
		if _, ok := slices.BinarySearch(have, number); ok {
			continue
		}
		if _, ok := slices.BinarySearch(freed, number); !ok && (len(have) == 0 || number > have[0]) {
			return fmt.Errorf("%w: %s is missing, but its index file is there", ErrCorrupt,
				l.options.FS.Join(l.commitDir(), segment.FileName(number)))
		}
		if err := consumequeue.Remove(l.options.FS, l.commitDir(), number); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) commitDir() string { return l.options.FS.Join(l.options.Dir, "commitlog") }

// runLoop applies entries until the commit log is closed. Started by Open.
func (l *Log) runLoop() {
	defer l.running.Done()
	if err := l.loop.Run(); err != nil {
		l.options.Events.Stopped(err)
	}
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

func (e Events) withDefaults() Events {
	if e.Sealed == nil {
		e.Sealed = func(uint32, time.Duration) {}
	}
	if e.SealFailed == nil {
		e.SealFailed = func(uint32, error) {}
	}
	if e.Freed == nil {
		e.Freed = func(uint32) {}
	}
	if e.RetainFailed == nil {
		e.RetainFailed = func(error) {}
	}
	if e.Room == nil {
		e.Room = func(bool, uint64) {}
	}
	if e.Stopped == nil {
		e.Stopped = func(error) {}
	}
	return e
}
