package commitlog

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/segment"
	"github.com/sluicemq/sluice/log/vfs"
)

// FlushMode says when a group of entries is handed to the apply loop.
type FlushMode uint8

const (
	// FlushSync hands a group over when it is durable.
	FlushSync FlushMode = iota
	// FlushAsync hands a group over when it is written, and makes it durable
	// within Options.FlushInterval. A crash of the machine, not of the process,
	// can lose what was handed over in between.
	FlushAsync
)

// String returns the name that the configuration uses.
func (m FlushMode) String() string {
	if m == FlushAsync {
		return "async"
	}
	return "sync"
}

// Options are the settings of a Log. FS, Dir and Now must be set; the zero value
// of every other field stands for its default.
type Options struct {
	FS  *vfs.FS
	Dir string // the folder of the segments; made when there is none

	// SegmentBytes is the size of a segment file: 256 MiB by default, at least
	// segment.MinBytes and at most segment.MaxBytes. It bounds the largest entry.
	SegmentBytes int64

	Flush         FlushMode
	FlushInterval time.Duration // of FlushAsync; 500 ms by default

	// TailBytes is how much memory keeps the newest entries; 64 MiB by default.
	TailBytes int64
	// BacklogBytes is how much may wait to be appended before Propose blocks;
	// 64 MiB by default.
	BacklogBytes int64

	// Term is the term of the entries that are appended; entry.FirstTerm by default.
	Term entry.Term

	// Now returns the time that entries are stamped with. The log never stamps an
	// entry with an earlier time than its predecessor's.
	Now func() entry.Time
	// Elapsed returns a monotonic reading of which the differences measure the
	// durations in Events. They are 0 when it is nil.
	Elapsed func() time.Duration

	Events Events
}

// Events tells what the log does. Each function may be nil. They are called from
// the log's goroutines, which wait for them: they must be quick and must not call
// the log.
type Events struct {
	// Appended: a group of entries was written in the time d.
	Appended func(entries int, bytes int64, d time.Duration)
	// Flushed: an fdatasync took the time d.
	Flushed func(d time.Duration)
	// Rolled: a new segment was begun.
	Rolled func(number uint32)
	// Prepared: the file of the next segment is ready; recycled tells whether it
	// is a dropped segment's, filled how many bytes of zeroes were written.
	Prepared func(number uint32, recycled bool, filled int64)
	// PrepareFailed: there is no file for the next segment yet. It is tried again
	// when it is needed.
	PrepareFailed func(number uint32, err error)
	// Refused: a group was refused for want of room, or of a file to write to.
	Refused func(entries int, err error)
	// BoundFailed: the durable bound could not be noted. The log goes on; after a
	// crash it knows less about what must be there.
	BoundFailed func(err error)
	// Dead: the log takes no more entries.
	Dead func(err error)
}

const (
	defaultSegmentBytes  = 256 << 20
	defaultTailBytes     = 64 << 20
	defaultBacklogBytes  = 64 << 20
	defaultFlushInterval = 500 * time.Millisecond
)

// withDefaults returns the options with defaults filled in, or an error that
// names the field that cannot be.
func (o Options) withDefaults() (Options, error) {
	if o.FS == nil {
		return o, errors.New("commitlog: Options.FS is nil")
	}
	if o.Dir == "" {
		return o, errors.New("commitlog: Options.Dir is empty")
	}
	if o.Now == nil {
		return o, errors.New("commitlog: Options.Now is nil")
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = defaultSegmentBytes
	}
	if o.SegmentBytes < segment.MinBytes || o.SegmentBytes > segment.MaxBytes {
		return o, fmt.Errorf("commitlog: Options.SegmentBytes is %d, expected %d to %d",
			o.SegmentBytes, segment.MinBytes, segment.MaxBytes)
	}
	if o.Flush > FlushAsync {
		return o, fmt.Errorf("commitlog: Options.Flush is %d", o.Flush)
	}
	if o.FlushInterval == 0 {
		o.FlushInterval = defaultFlushInterval
	}
	if o.TailBytes == 0 {
		o.TailBytes = defaultTailBytes
	}
	if o.BacklogBytes == 0 {
		o.BacklogBytes = defaultBacklogBytes
	}
	if o.FlushInterval < 0 || o.TailBytes < 0 || o.BacklogBytes < 0 {
		return o, fmt.Errorf("commitlog: negative Options: FlushInterval %v, TailBytes %d, BacklogBytes %d",
			o.FlushInterval, o.TailBytes, o.BacklogBytes)
	}
	if o.Term == 0 {
		o.Term = entry.FirstTerm
	}
	if o.Elapsed == nil {
		o.Elapsed = func() time.Duration { return 0 }
	}
	o.Events = o.Events.withDefaults()
	return o, nil
}

// withDefaults fills in functions that do nothing.
func (e Events) withDefaults() Events {
	if e.Appended == nil {
		e.Appended = func(int, int64, time.Duration) {}
	}
	if e.Flushed == nil {
		e.Flushed = func(time.Duration) {}
	}
	if e.Rolled == nil {
		e.Rolled = func(uint32) {}
	}
	if e.Prepared == nil {
		e.Prepared = func(uint32, bool, int64) {}
	}
	if e.PrepareFailed == nil {
		e.PrepareFailed = func(uint32, error) {}
	}
	if e.Refused == nil {
		e.Refused = func(int, error) {}
	}
	if e.BoundFailed == nil {
		e.BoundFailed = func(error) {}
	}
	if e.Dead == nil {
		e.Dead = func(error) {}
	}
	return e
}
