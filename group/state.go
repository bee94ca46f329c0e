package group

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/sluicemq/sluice/group/classic"
	"github.com/sluicemq/sluice/group/consumer"
	"github.com/sluicemq/sluice/group/offsets"
	"github.com/sluicemq/sluice/group/queuelock"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// TopicLookup knows the topics.
type TopicLookup interface {
	// TopicName returns the name of a topic; ok is false if it does not exist. Asked
	// by the apply loop it answers as of the entry that is being applied.
	TopicName(id entry.TopicID) (name string, ok bool)
}

// maxUnsaved is how many offsets may gather before they go to the state batch, so
// that a checkpoint is never too large.
const maxUnsaved = 1 << 15

// State is the hard state of all groups. Types, Load, Apply, Checkpoint and
// TopicDeleted are the apply loop's; other goroutines read, through a Coordinator.
type State struct {
	topics  TopicLookup
	offsets *offsets.Table
	locks   *queuelock.Table

	unsaved map[string]bool // groups whose record changed since the last checkpoint
	// saved is what the last checkpoint wrote of groups of the consumer protocol, so
	// that the next one writes the difference.
	saved map[string]*consumer.State

	mu     sync.RWMutex // taken by the apply loop for changes of groups, by others to read it
	groups map[string]*record
}

// NewState returns an empty state. Load comes next.
func NewState(topics TopicLookup) *State {
	return &State{
		topics: topics, offsets: offsets.New(), locks: queuelock.New(),
		unsaved: make(map[string]bool), saved: make(map[string]*consumer.State), groups: make(map[string]*record),
	}
}

// Types returns the types of entries that Apply applies.
func (s *State) Types() []entry.Type {
	return []entry.Type{entry.TypeCommitOffsets, entry.TypeDeleteOffsets, entry.TypeExpireOffsets,
		entry.TypeDeleteGroup, entry.TypeClassicGroup, entry.TypeClassicMember,
		entry.TypeConsumerGroup, entry.TypeDowngradeGroup, entry.TypeQueueLock}
}

// Load reads what checkpoints have written. It is called once, before all else.
func (s *State) Load(r entry.Reader) error {
	if err := errors.Join(s.offsets.Load(r), s.locks.Load(r)); err != nil {
		return err
	}
	var bad error
	from, to := recordsRange()
	err := r.Scan(from, to, func(k, v []byte) bool {
		var found *record
		if found, bad = decodeRecord(v); bad != nil {
			bad = fmt.Errorf("group %q: %w", k[2:], bad)
			return false
		}
		s.groups[string(k[2:])] = found
		return true
	})
	if err := errors.Join(err, bad); err != nil {
		return fmt.Errorf("load groups: %w", err)
	}
	return consumer.Load(r, func(name string, loaded *consumer.State) {
		s.groups[name] = &record{kind: Consumer, consumer: loaded}
		s.saved[name] = loaded
	})
}

// Checkpoint writes what changed since the last one.
func (s *State) Checkpoint(w entry.Writer) {
	s.offsets.Checkpoint(w)
	s.locks.Checkpoint(w)
	for name := range s.unsaved {
		found := s.groups[name]
		if m := found.metadata(); m != nil {
			w.Set(recordKey(name), found.appendValue(nil))
		} else {
			w.Delete(recordKey(name))
		}
		next := found.modern()
		consumer.Checkpoint(w, name, s.saved[name], next)
		if next != nil {
			s.saved[name] = next
		} else {
			delete(s.saved, name)
		}
	}
	clear(s.unsaved)
}

// Apply applies an entry of one of Types. A Result with a kerr error is a refusal
// that changed nothing; any other error means that the entry cannot be read.
func (s *State) Apply(e *entry.Entry, w entry.Writer) entry.Result {
	var value any
	var err error
	switch e.Type {
	case entry.TypeCommitOffsets:
		value, err = s.applyCommit(e)
	case entry.TypeDeleteOffsets:
		value, err = s.applyDeleteOffsets(e)
	case entry.TypeExpireOffsets:
		value, err = s.applyExpire(e)
	case entry.TypeDeleteGroup:
		err = s.applyDeleteGroup(e)
	case entry.TypeClassicGroup:
		err = s.applyClassicGroup(e)
	case entry.TypeClassicMember:
		err = s.applyClassicMember(e)
	case entry.TypeConsumerGroup:
		err = s.applyConsumerGroup(e)
	case entry.TypeDowngradeGroup:
		err = s.applyDowngrade(e)
	case entry.TypeQueueLock:
		err = s.locks.Apply(e)
	default:
		err = fmt.Errorf("group: apply entry %d of type %v: not a group's", e.Index, e.Type)
	}
	if s.offsets.Unsaved() > maxUnsaved {
		s.offsets.Checkpoint(w)
	}
	return entry.Result{Value: value, Err: err}
}

// TopicDeleted drops what was committed for a topic.
func (s *State) TopicDeleted(id entry.TopicID) { s.offsets.DeleteTopic(id) }

// applyCommit's value is nil, or the ids of topics that do not exist any more
// ([]entry.TopicID), of which nothing was committed.
func (s *State) applyCommit(e *entry.Entry) (any, error) {
	c, err := offsets.DecodeCommit(e.Payload)
	if err != nil {
		return nil, unreadable(e, err)
	}
	switch found := s.groups[string(c.Group)]; {
	case found == nil:
	case found.consumer != nil:
		_, err = found.consumer.AdmitCommit(c.Member, c.Generation)
	default:
		err = found.classic.AdmitCommit(c.Member, c.Instance, c.Generation)
	}
	if err != nil {
		return nil, err
	}
	missing, err := s.offsets.Commit(&c, e.Time, s.exists)
	if err != nil {
		return nil, unreadable(e, err)
	}
	if missing != nil {
		return missing, nil
	}
	return nil, nil
}

func (s *State) exists(id entry.TopicID) bool {
	_, ok := s.topics.TopicName(id)
	return ok
}

// applyDeleteOffsets' value is a code for each topic ([]kerr.Code).
func (s *State) applyDeleteOffsets(e *entry.Entry) (any, error) {
	d, err := decodeDeleteOffsets(e.Payload)
	if err != nil {
		return nil, unreadable(e, err)
	}
	found := s.groups[d.group]
	if found == nil && !s.offsets.Has(d.group) {
		return nil, kerr.New(kerr.GroupIDNotFound, "")
	}
	if found.modern() == nil {
		if err := found.metadata().CheckDeleteOffsets(); err != nil {
			return nil, err
		}
	}
	subscribes := found.subscribes()
	codes := make([]kerr.Code, len(d.topics))
	for i, t := range d.topics {
		if name, _ := s.topics.TopicName(t.ID); subscribes(name) {
			codes[i] = kerr.GroupSubscribedToTopic
			continue
		}
		s.offsets.Delete(d.group, t.ID, t.Partitions)
	}
	return codes, nil
}

// Expired is the value of an entry of type TypeExpireOffsets.
type Expired struct {
	Offsets int // that were forgotten
	Groups  int // that had neither members nor offsets, and were forgotten
}

func (s *State) applyExpire(e *entry.Entry) (any, error) {
	x, err := decodeExpire(e.Payload)
	if err != nil {
		return nil, unreadable(e, err)
	}
	var done Expired
	for _, name := range x.groups {
		found := s.groups[name]
		done.Offsets += s.offsets.Expire(name, e.Time, s.rule(found, x.retention))
		if found != nil && found.members() == 0 && !s.offsets.Has(name) {
			s.put(name, nil)
			done.Groups++
		}
	}
	return done, nil
}

func (s *State) applyDeleteGroup(e *entry.Entry) error {
	name, err := decodeDeleteGroup(e.Payload)
	if err != nil {
		return unreadable(e, err)
	}
	found := s.groups[name]
	switch {
	case found.members() > 0:
		return kerr.New(kerr.NonEmptyGroup, "the group has %d members", found.members())
	case found == nil && !s.offsets.Has(name):
		return kerr.New(kerr.GroupIDNotFound, "")
	}
	s.offsets.DeleteGroup(name)
	s.locks.Drop(name)
	if found != nil {
		s.put(name, nil)
	}
	return nil
}

func (s *State) applyClassicGroup(e *entry.Entry) error {
	name, next, err := classic.DecodeGroup(e.Payload)
	if err != nil {
		return unreadable(e, err)
	}
	if err := s.groups[name].admitClassic(); err != nil {
		return err
	}
	if err := s.groups[name].metadata().Admit(next); err != nil {
		return err
	}
	s.put(name, replaced(next, e.Time))
	return nil
}

func (s *State) applyClassicMember(e *entry.Entry) error {
	p, err := classic.DecodeReplacement(e.Payload)
	if err != nil {
		return unreadable(e, err)
	}
	next, err := s.groups[p.Group].metadata().Replace(p)
	if err != nil {
		return err
	}
	s.put(p.Group, replaced(next, e.Time))
	return nil
}

func (s *State) applyConsumerGroup(e *entry.Entry) error {
	c, err := consumer.DecodeChange(e.Payload)
	if err != nil {
		return unreadable(e, err)
	}
	found := s.groups[c.Group]
	if m := found.metadata(); m != nil && (!c.FromClassic || m.Generation > c.Generation) {
		return kerr.New(kerr.CoordinatorNotAvailable, "group %q is a classic group of generation %d", c.Group, m.Generation)
	}
	next, err := found.modern().Apply(c, e.Index, e.Time)
	if err != nil {
		if refusal := new(kerr.Error); errors.As(err, &refusal) {
			return err
		}
		return unreadable(e, err)
	}
	s.put(c.Group, &record{kind: Consumer, consumer: next})
	return nil
}

func (s *State) applyDowngrade(e *entry.Entry) error {
	d, err := consumer.DecodeDowngrade(e.Payload)
	if err != nil {
		return unreadable(e, err)
	}
	if err := d.Admit(s.groups[d.Group].modern()); err != nil {
		return err
	}
	s.put(d.Group, replaced(d.Metadata, e.Time))
	return nil
}

// put makes r the record of a group, or removes it.
func (s *State) put(name string, r *record) {
	s.unsaved[name] = true
	s.mu.Lock()
	defer s.mu.Unlock()
	if r == nil {
		delete(s.groups, name)
	} else {
		s.groups[name] = r
	}
}

// lookup returns the record of a group, or nil. Any goroutine may call it.
func (s *State) lookup(name string) *record {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.groups[name]
}

// exist reports whether the state has a group. Any goroutine may call it.
func (s *State) exist(name string) bool { return s.lookup(name) != nil || s.offsets.Has(name) }

// names returns the names of all groups, sorted. Any goroutine may call it.
func (s *State) names() []string {
	names := s.offsets.Groups()
	s.mu.RLock()
	for name := range s.groups {
		names = append(names, name)
	}
	s.mu.RUnlock()
	slices.Sort(names)
	return slices.Compact(names)
}

// Offsets returns the committed offsets, for reading.
func (s *State) Offsets() *offsets.Table { return s.offsets }
