package log

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/sluicemq/sluice/log/apply"
	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/state"
	"github.com/sluicemq/sluice/log/vfs"
)

const (
	defaultSegmentBytes = 256 << 20
	defaultRetainEvery  = 5 * time.Minute
)

// Options are the settings of a Log. FS, Dir, Meta and Judge must be set; the
// zero value of the rest is its default.
type Options struct {
	FS  *vfs.FS
	Dir string
	// Meta is what a new folder is given. A folder that exists keeps its cluster
	// id, and must be of the same node.
	Meta Meta

	Appliers []apply.Applier
	Judge    apply.Judge
	// Policies yields how much of each partition is kept; partitions that it
	// leaves out are kept whole, and so are all where it is nil.
	Policies iter.Seq2[entry.Partition, consumequeue.Retention]

	SegmentBytes    int64               // 256 MiB
	Flush           commitlog.FlushMode // FlushSync
	FlushInterval   time.Duration       // 500 ms
	TailBytes       int64               // 64 MiB
	BacklogBytes    int64               // 64 MiB
	StateCacheBytes int64               // block cache of the state store; 16 MiB
	MinFreeBytes    int64               // room on the disk below which records are refused; 0 for none
	RetainEvery     time.Duration       // 5 minutes
	Events          Events

	checkpointBytes int // for tests: a checkpoint after that much; 0 for the defaults of package apply
}

// Events tells what the engine does. Each function may be nil; they are called
// from the engine's goroutines and must return quickly.
type Events struct {
	CommitLog commitlog.Events
	State     state.Events
	// Sealed: the index file of a segment was written, in the time d.
	Sealed func(segment uint32, d time.Duration)
	// SealFailed: it could not be written; it is tried again.
	SealFailed func(segment uint32, err error)
	// Freed: a segment that nobody needs was dropped.
	Freed func(segment uint32)
	// RetainFailed: retention could not be carried out in all partitions and
	// segments; it is tried again.
	RetainFailed func(err error)
	// Room: the room on the disk fell below MinFreeBytes (low), or rose above it.
	Room func(low bool, free uint64)
	// Stopped: the apply loop stopped on an error; nothing is written any more.
	Stopped func(err error)
}

// withDefaults returns the options with defaults filled in, or an error that
// names the field that cannot be. Those of the CommitLog and of the state store
// are checked there.
func (o Options) withDefaults() (Options, error) {
	switch {
	case o.FS == nil:
		return o, errors.New("log: Options.FS is nil")
	case o.Dir == "":
		return o, errors.New("log: Options.Dir is empty")
	case o.Meta.ClusterID == "":
		return o, errors.New("log: Options.Meta.ClusterID is empty")
	case o.Judge == nil:
		return o, errors.New("log: Options.Judge is nil")
	case o.MinFreeBytes < 0:
		return o, fmt.Errorf("log: Options.MinFreeBytes is %d", o.MinFreeBytes)
	case o.RetainEvery < 0:
		return o, fmt.Errorf("log: Options.RetainEvery is %v", o.RetainEvery)
	}
	if o.RetainEvery == 0 {
		o.RetainEvery = defaultRetainEvery
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = defaultSegmentBytes
	}
	if o.Policies == nil {
		o.Policies = func(func(entry.Partition, consumequeue.Retention) bool) {}
	}
	o.Events = o.Events.withDefaults()
	return o, nil
}

// withDefaults fills in functions that do nothing.
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
