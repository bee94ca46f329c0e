package state

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/vfs"
)

var (
	// ErrCorrupt is wrapped when what is stored cannot be what we wrote.
	ErrCorrupt = errors.New("state store damaged")
	// ErrVersion is wrapped when a newer version wrote the store.
	ErrVersion = errors.New("state store was written by a newer version")
	// ErrDead is wrapped when Pebble gave up (see the package).
	ErrDead = errors.New("state store is dead until the next start")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("state store is closed")
)

// Events are told of what happens in the background. Every field may be nil.
// The functions are called with locks of Pebble held: they must be quick, and
// must not call the Store.
type Events struct {
	// Background is told of each flush or compaction that failed.
	Background func(err error)
	// Dead is told once why the store is dead.
	Dead func(err error)
	// Flushed and Compacted are told how many bytes were written in which time.
	Flushed   func(bytes int64, took time.Duration)
	Compacted func(bytes int64, took time.Duration)
	// Stalled is told that a checkpoint has to wait, and for what.
	Stalled func(reason string)
}

// Options say where the store is and what it may use. FS and Dir must be set.
type Options struct {
	FS  *vfs.FS
	Dir string
	// MemoryBytes is the size of one of the tables in memory that are written
	// out when full; there may be up to eight while the disk is busy. 0 means
	// 16 MiB.
	MemoryBytes int64
	// CacheBytes is the size of the block cache. 0 means 16 MiB.
	CacheBytes int64
	Events     Events
}

const (
	defaultMemoryBytes = 16 << 20
	defaultCacheBytes  = 16 << 20
	// memoryTables is how many tables may wait to be written before a
	// checkpoint waits as well.
	memoryTables = 8
)

// Store is the state store. Its methods may be called by any goroutine, but for
// those of Batch.
type Store struct {
	db     *pebble.DB
	cache  *pebble.Cache
	events Events
	disk   *carefulFS
	sched  *scheduler

	applied atomic.Uint64 // of the newest checkpoint
	durable atomic.Uint64 // of the newest checkpoint known to be on disk; ≤ applied

	mu      sync.Mutex
	flushed error         // guarded by mu: how the last flush ended
	failing error         // guarded by mu: of the last flush, nil once one worked
	failed  chan struct{} // guarded by mu: closed and replaced when a flush fails
	dead    error         // guarded by mu: set once

	opened  chan struct{} // closed when Pebble is open
	died    chan struct{} // closed when dead is set
	closing chan struct{} // closed by Close
	once    sync.Once
}

// Open opens the store in a directory, or makes one there. It fails with
// ErrVersion or ErrCorrupt when the store is not one that we can read.
func Open(o Options) (*Store, error) {
	if o.MemoryBytes == 0 {
		o.MemoryBytes = defaultMemoryBytes
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = defaultCacheBytes
	}
	if o.FS == nil || o.Dir == "" {
		return nil, errors.New("open state store: FS and Dir must be set")
	}
	if o.MemoryBytes < 0 || o.CacheBytes < 0 {
		return nil, fmt.Errorf("open state store: MemoryBytes %d and CacheBytes %d must not be negative", o.MemoryBytes, o.CacheBytes)
	}
	s := &Store{
		cache:   pebble.NewCache(o.CacheBytes),
		events:  o.Events,
		failed:  make(chan struct{}),
		opened:  make(chan struct{}),
		died:    make(chan struct{}),
		closing: make(chan struct{}),
	}
	s.sched = newScheduler(s.died)
	s.disk = &carefulFS{FS: o.FS.Base(), store: s, dir: o.Dir}
	if err := s.open(o); err != nil {
		s.cache.Unref()
		return nil, fmt.Errorf("open state store in %s: %w", o.Dir, err)
	}
	if err := s.load(); err != nil {
		_ = s.Close() // the reason not to open it is the news
		return nil, fmt.Errorf("open state store in %s: %w", o.Dir, err)
	}
	return s, nil
}

// open opens Pebble. That happens in a goroutine of its own, which ends with
// it, since a goroutine in which Pebble gives up does not go on (see Fatalf), and
// since Pebble waits for ever for background work that did.
func (s *Store) open(o Options) error {
	type opened struct {
		db  *pebble.DB
		err error
	}
	done := make(chan opened, 1)
	go func() {
		defer close(done)
		db, err := pebble.Open(o.Dir, s.pebbleOptions(o))
		done <- opened{db, err}
	}()
	select {
	case <-s.died:
		return s.deadError()
	case r, ok := <-done:
		if !ok {
			return s.deadError()
		}
		if r.err != nil {
			if pebble.IsCorruptionError(r.err) {
				return fmt.Errorf("%w: %w", ErrCorrupt, r.err)
			}
			return r.err
		}
		s.db = r.db
		close(s.opened)
		s.sched.begin()
		return nil
	}
}

func (s *Store) pebbleOptions(o Options) *pebble.Options {
	levels := pebble.LevelOptions{FilterPolicy: bloom.FilterPolicy(10), FilterType: pebble.TableFilter}
	options := &pebble.Options{
		FS:                          s.disk,
		Cache:                       s.cache,
		DisableWAL:                  true,
		FormatMajorVersion:          pebble.FormatTableFormatV6,
		MemTableSize:                uint64(o.MemoryBytes),
		MemTableStopWritesThreshold: memoryTables,
		MaxOpenFiles:                512,
		MaxManifestFileSize:         4 << 20, // it is read as a whole at each start
		L0CompactionThreshold:       2,
		L0StopWritesThreshold:       1000, // reads get slower, writes do not stop
		CompactionConcurrencyRange:  func() (lower, upper int) { return 1, 2 },
		Logger:                      logger{s},
		EventListener:               s.listener(),
	}
	options.Experimental.CompactionScheduler = s.sched
	for i := range options.Levels {
		options.Levels[i] = levels
	}
	return options
}

// Applied returns the index of the newest checkpoint, 0 when there is none.
func (s *Store) Applied() entry.Index { return entry.Index(s.applied.Load()) }

// Durable returns the index of the newest checkpoint that is known to be on
// disk, 0 when there is none.
func (s *Store) Durable() entry.Index { return entry.Index(s.durable.Load()) }

// Health returns nil, or why the store cannot write to disk at present: the
// error of the last flush, or one that wraps ErrDead.
func (s *Store) Health() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead != nil {
		return s.dead
	}
	return s.failing
}

// Flush makes the newest checkpoint durable and returns its index. It waits for
// the disk, while the apply loop may go on. It returns an error as soon as
// writing fails once, and at once while Health has one; writing is tried again
// in the background.
func (s *Store) Flush() (entry.Index, error) {
	if err := s.usable(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	failing, failed := s.failing, s.failed
	s.mu.Unlock()
	if failing != nil {
		// Another table to be written would only use up memory.
		return 0, fmt.Errorf("flush state store: %w", failing)
	}
	applied := s.applied.Load()
	flushed, err := s.db.AsyncFlush()
	if err != nil {
		return 0, fmt.Errorf("flush state store: %w", err)
	}
	select {
	case <-flushed:
		raise(&s.durable, applied)
		return entry.Index(applied), nil
	case <-failed:
		return 0, fmt.Errorf("flush state store: %w", s.Health())
	case <-s.died:
		return 0, s.deadError()
	case <-s.closing:
		return 0, ErrClosed
	}
}

// raise sets v to n unless it is larger already.
func raise(v *atomic.Uint64, n uint64) {
	for {
		old := v.Load()
		if old >= n || v.CompareAndSwap(old, n) {
			return
		}
	}
}

// usable returns nil unless the store is dead or closed.
func (s *Store) usable() error {
	select {
	case <-s.closing:
		return ErrClosed
	case <-s.died:
		return s.deadError()
	default:
		return nil
	}
}

func (s *Store) deadError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

// Snapshot makes a copy of the store in dir, which must not exist: the state of
// the newest checkpoint at the time of the call, or of a later one. Files are
// shared where the file system has links. The copy is a store of its own and
// can be opened; its directory must be on the same file system.
func (s *Store) Snapshot(dir string) error {
	if _, err := s.Flush(); err != nil {
		return fmt.Errorf("snapshot of state store: %w", err)
	}
	if err := s.db.Checkpoint(dir); err != nil {
		return fmt.Errorf("snapshot of state store: %w", err)
	}
	return nil
}

// Close ends the store. What was not flushed is not made durable: it is in the
// log. Batches and Views must not be in use. A dead store is left as it is.
func (s *Store) Close() error {
	err := ErrClosed
	s.once.Do(func() {
		close(s.closing)
		if err = s.deadError(); err != nil {
			return
		}
		// Pebble waits for its background work, which stops for ever if the store
		// dies meanwhile.
		closed := make(chan error, 1)
		go func() { closed <- s.db.Close() }()
		select {
		case err = <-closed:
			s.cache.Unref()
		case <-s.died:
			err = s.deadError()
		}
	})
	if err != nil {
		return fmt.Errorf("close state store: %w", err)
	}
	return nil
}

// die makes the store dead. The caller's goroutine, one of Pebble's, must not
// go on.
func (s *Store) die(err error) {
	s.mu.Lock()
	first := s.dead == nil
	if first {
		s.dead = fmt.Errorf("%w: %w", ErrDead, err)
		close(s.died)
	}
	s.mu.Unlock()
	if first && s.events.Dead != nil {
		s.events.Dead(err)
	}
}

// park stops a goroutine of Pebble's that does I/O of a dead store. Such
// goroutines hold no lock that a read needs, and would be in the way of nothing
// but a Close. While the store is being opened the goroutine ends instead.
func (s *Store) park() {
	select {
	case <-s.opened:
		select {}
	default:
		runtime.Goexit()
	}
}
