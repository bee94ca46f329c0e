package state

import (
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// schedulePause is how often it is looked whether a compaction may begin.
const schedulePause = 100 * time.Millisecond

// scheduler says when Pebble may compact: as many tables at once as Pebble itself
// allows, but none before the store is open. Where an open fails, Pebble takes its
// caches away from compactions that run already, and these end the process.
type scheduler struct {
	db   pebble.DBForCompaction // set by Register, before any other call
	poke chan struct{}
	stop chan struct{} // closed by Unregister
	died <-chan struct{}

	mu       sync.Mutex
	changed  sync.Cond // signals granting false
	begun    bool      // guarded by mu, as all below
	ended    bool
	running  int  // compactions
	granting bool // somebody is in db without mu, to start one
}

var _ pebble.CompactionScheduler = (*scheduler)(nil)

func newScheduler(died <-chan struct{}) *scheduler {
	s := &scheduler{poke: make(chan struct{}, 1), stop: make(chan struct{}), died: died}
	s.changed.L = &s.mu
	return s
}

// begin lets compactions begin. Open calls it when the store is open.
func (s *scheduler) begin() {
	s.mu.Lock()
	s.begun = true
	s.mu.Unlock()
	go s.run()
	s.UpdateGetAllowedWithoutPermission()
}

// run starts compactions that nothing else starts. Open starts it; it ends with
// Unregister, or when the store dies.
func (s *scheduler) run() {
	ticker := time.NewTicker(schedulePause)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-s.died:
			s.mu.Lock()
			s.ended = true
			s.mu.Unlock()
			return
		case <-ticker.C:
		case <-s.poke:
		}
		s.grant()
	}
}

// grant starts the compactions that wait and are allowed.
func (s *scheduler) grant() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.granting {
		s.changed.Wait()
	}
	s.granting = true
	for s.begun && !s.ended && s.running < s.db.GetAllowedWithoutPermission() {
		s.running++
		s.mu.Unlock() // what follows takes Pebble's locks, which come before ours
		started, _ := s.db.GetWaitingCompaction()
		started = started && s.db.Schedule(s)
		s.mu.Lock()
		if !started {
			s.running--
			break
		}
	}
	s.granting = false
	s.changed.Broadcast()
}

// Register implements pebble.CompactionScheduler, as do the methods that follow.
func (s *scheduler) Register(_ int, db pebble.DBForCompaction) { s.db = db }

// Unregister returns when db is not called any more.
func (s *scheduler) Unregister() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	close(s.stop)
	for s.granting {
		s.changed.Wait()
	}
}

// TrySchedule is called with Pebble's locks held.
func (s *scheduler) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun || s.ended || s.running >= s.db.GetAllowedWithoutPermission() {
		return false, nil
	}
	s.running++
	return true, s
}

// UpdateGetAllowedWithoutPermission is called with Pebble's locks held.
func (s *scheduler) UpdateGetAllowedWithoutPermission() {
	select {
	case s.poke <- struct{}{}:
	default: // it is to look already
	}
}

// Started implements pebble.CompactionGrantHandle, as do the methods that follow:
// a scheduler is the handle of each compaction that it let begin.
func (s *scheduler) Started() {}

// MeasureCPU is of no interest.
func (s *scheduler) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats is of no interest.
func (s *scheduler) CumulativeStats(pebble.CompactionGrantHandleStats) {}

// Done is called when a compaction has ended.
func (s *scheduler) Done() {
	s.mu.Lock()
	s.running--
	s.mu.Unlock()
	s.grant()
}
