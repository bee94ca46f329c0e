package consumer

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/sluicemq/sluice/group/codec"
	"github.com/sluicemq/sluice/log/entry"
)

// Keys of the state store: 'g', 'm', the length of the group's name as u16, the
// name, one of the kinds, and a member's id or a pattern.
const (
	keySpace = 'g'
	keyKind  = 'm'

	kindHead    = 0
	kindInfo    = 1
	kindCurrent = 2
	kindTarget  = 3
	kindRegex   = 4
)

func groupKey(group string) []byte {
	key := binary.BigEndian.AppendUint16([]byte{keySpace, keyKind}, uint16(min(len(group), math.MaxUint16)))
	return append(key, group...)
}

func subkey(group []byte, kind byte, name string) []byte {
	key := make([]byte, 0, len(group)+1+len(name))
	return append(append(append(key, group...), kind), name...)
}

// Checkpoint writes to w what is different in next from old, which is what was
// written before. Either may be nil: no such group.
func Checkpoint(w entry.Writer, group string, old, next *State) {
	prefix := groupKey(group)
	if next == nil {
		if old != nil {
			w.DeleteRange(prefix, append(prefix, kindRegex+1))
		}
		return
	}
	if old == nil {
		old = &State{}
	}
	w.Set(subkey(prefix, kindHead, ""), next.appendHead(nil))
	merge(old.Members, next.Members, compareMembers, func(a, b *Member) {
		if b == nil {
			for _, kind := range []byte{kindInfo, kindCurrent, kindTarget} {
				w.Delete(subkey(prefix, kind, a.ID))
			}
			return
		}
		if a == b {
			return
		}
		c := b.since(a)
		if c.Info != nil {
			w.Set(subkey(prefix, kindInfo, b.ID), appendInfo([]byte{infoVersion}, c.Info))
		}
		if c.Current != nil {
			t := newTopicTable()
			t.addCurrent(c.Current)
			w.Set(subkey(prefix, kindCurrent, b.ID), t.appendCurrent(t.append([]byte{currentVersion}), c.Current))
		}
		if c.HasTarget {
			t := newTopicTable()
			t.add(c.Target)
			w.Set(subkey(prefix, kindTarget, b.ID), t.appendSet(t.append([]byte{targetVersion}), c.Target))
		}
	})
	merge(old.Regexes, next.Regexes, func(a, b *Regex) int { return cmp.Compare(a.Pattern, b.Pattern) }, func(a, b *Regex) {
		switch {
		case b == nil:
			w.Delete(subkey(prefix, kindRegex, a.Pattern))
		case a != b:
			w.Set(subkey(prefix, kindRegex, b.Pattern), appendStrings([]byte{regexVersion}, b.Topics))
		}
	})
}

func (s *State) appendHead(dst []byte) []byte {
	dst = append(dst, headVersion)
	dst = le.AppendUint64(dst, uint64(s.Index))
	dst = le.AppendUint64(dst, uint64(s.Since))
	dst = le.AppendUint32(dst, uint32(s.Epoch))
	dst = le.AppendUint32(dst, uint32(s.TargetEpoch))
	return le.AppendUint64(dst, s.TopicsHash)
}

func (s *State) decodeHead(b []byte) error {
	r := codec.Reader{Left: b}
	r.Version(headVersion)
	s.Index, s.Since = entry.Index(r.Uint64("the index")), entry.Time(r.Uint64("the time"))
	s.Epoch, s.TargetEpoch = int32(r.Uint32("the group epoch")), int32(r.Uint32("the target's epoch"))
	s.TopicsHash = r.Uint64("the topics' hash")
	if r.Err() == nil && (s.Since < 0 || s.Epoch < 0 || s.TargetEpoch < 0 || s.TargetEpoch > s.Epoch) {
		r.Fail("time %d, epochs %d and %d", s.Since, s.Epoch, s.TargetEpoch)
	}
	return r.Done()
}

// Load reads all groups that checkpoints have written. The error wraps one of
// codec's, or is that of reading.
func Load(r entry.Reader, visit func(group string, s *State)) error {
	l := loader{visit: visit}
	err := r.Scan([]byte{keySpace, keyKind}, []byte{keySpace, keyKind + 1}, func(key, value []byte) bool {
		if l.err = l.read(key, value); l.err != nil {
			l.err = fmt.Errorf("key %x: %w", key, l.err)
		}
		return l.err == nil
	})
	if err = errors.Join(err, l.err); err == nil {
		err = l.end()
	}
	if err != nil {
		return fmt.Errorf("load consumer groups: %w", err)
	}
	return nil
}

// loader puts groups together from their keys.
type loader struct {
	visit func(string, *State)
	group string
	state *State
	err   error
}

func (l *loader) read(key, value []byte) error {
	k := key[2:]
	if len(k) < 3 || len(k) < 3+int(binary.BigEndian.Uint16(k)) {
		return fmt.Errorf("%w: too short", codec.ErrCorrupt)
	}
	n := 2 + int(binary.BigEndian.Uint16(k))
	group, kind, name := string(k[2:n]), k[n], string(k[n+1:])
	if kind == kindHead {
		if err := l.end(); err != nil {
			return err
		}
		l.group, l.state = group, &State{}
		return l.state.decodeHead(value)
	}
	if l.state == nil || l.group != group {
		return fmt.Errorf("%w: group %q has no head", codec.ErrCorrupt, group)
	}
	return l.readPart(kind, name, value)
}

// readPart reads a key of the group at hand. Keys come in order: first what all
// members have said, then where all stand, and so on.
func (l *loader) readPart(kind byte, name string, value []byte) error {
	r := &codec.Reader{Left: value}
	if kind == kindRegex {
		r.Version(regexVersion)
		l.state.Regexes = append(l.state.Regexes, &Regex{name, readStrings(r, "topics")})
		return r.Done()
	}
	if kind == kindInfo {
		r.Version(infoVersion)
		if name == "" {
			r.Fail("empty member id")
		}
		l.state.Members = append(l.state.Members, &Member{ID: name, Info: readInfo(r)})
		return r.Done()
	}
	m := l.state.Member(name)
	if m == nil {
		return fmt.Errorf("%w: group %q has no member %q", codec.ErrCorrupt, l.group, name)
	}
	switch kind {
	case kindCurrent:
		r.Version(currentVersion)
		ids := readTopicTable(r)
		m.Current = readCurrent(r, ids)
	case kindTarget:
		r.Version(targetVersion)
		ids := readTopicTable(r)
		m.Target = readSet(r, ids)
	default:
		r.Fail("kind %d", kind)
	}
	return r.Done()
}

// end hands over the group at hand.
func (l *loader) end() error {
	if l.state == nil {
		return nil
	}
	if i := slices.IndexFunc(l.state.Members, func(m *Member) bool { return m.Current == nil }); i >= 0 {
		return fmt.Errorf("%w: member %q of group %q stands nowhere", codec.ErrCorrupt, l.state.Members[i].ID, l.group)
	}
	share(l.state.Members)
	l.visit(l.group, l.state)
	l.state = nil
	return nil
}
