package state

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/cockroachdb/pebble/v2"
)

// listener turns Pebble's events into ours. They come with Pebble's locks held.
func (s *Store) listener() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) { s.background(err) },
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			s.background(fmt.Errorf("%w: %s: %w", ErrCorrupt, info.Path, info.Details))
		},
		FlushEnd: func(info pebble.FlushInfo) {
			s.flushEnd(info.Err)
			if info.Err == nil && s.events.Flushed != nil {
				s.events.Flushed(size(info.Output), info.TotalDuration)
			}
		},
		CompactionEnd: func(info pebble.CompactionInfo) {
			if info.Err == nil && s.events.Compacted != nil {
				s.events.Compacted(size(info.Output.Tables), info.TotalDuration)
			}
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			if s.events.Stalled != nil {
				s.events.Stalled(info.Reason)
			}
		},
	}
}

func size(tables []pebble.TableInfo) (bytes int64) {
	for _, t := range tables {
		bytes += int64(t.Size)
	}
	return bytes
}

func (s *Store) background(err error) {
	s.mu.Lock()
	dead := s.dead != nil
	if s.flushed != nil && errors.Is(err, s.flushed) {
		s.failing = err
		close(s.failed)
		s.failed = make(chan struct{})
		s.disk.slower()
	}
	s.mu.Unlock()
	if s.events.Background != nil && !dead {
		s.events.Background(err)
	}
}

// flushEnd keeps how the last flush ended. Whether an error of it is one, and
// not that there was nothing to write, is told by background afterwards.
func (s *Store) flushEnd(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flushed = err
	if err == nil {
		s.failing = nil
		s.disk.faster()
	}
}

// logger drops what Pebble has to say, but for its last words: what matters
// comes as events.
type logger struct{ store *Store }

func (l logger) Infof(string, ...any)  {}
func (l logger) Errorf(string, ...any) {}

// Fatalf is called where Pebble cannot go on, and counts on not coming back. It
// ends the goroutine, which gives back the lock that Pebble holds there, so that
// reads go on.
func (l logger) Fatalf(format string, args ...any) {
	l.store.die(fmt.Errorf(format, args...))
	runtime.Goexit()
}
