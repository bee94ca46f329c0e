package state

import (
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sluicemq/sluice/log/entry"
)

// Prefix is the first byte of a key: the part of Sluice that owns it. No byte
// is given twice, nor again after its part is gone.
type Prefix byte

// The prefixes. FORMAT.md says what is behind them.
const (
	PrefixMeta      Prefix = 'a' // this package: format version, applied index
	PrefixACL       Prefix = 'b' // reserved: security
	PrefixCatalog   Prefix = 'c' // catalog
	PrefixFreed     Prefix = 'f' // log/apply: segments that are gone on purpose
	PrefixGroup     Prefix = 'g' // group: records of groups, committed offsets
	PrefixHalf      Prefix = 'h' // reserved: txn/half
	PrefixQueueLock Prefix = 'l' // group/queuelock: locks of ordered groups
	PrefixProducer  Prefix = 'p' // txn/producer
	PrefixQueue     Prefix = 'q' // log/apply: bounds of partitions
	PrefixSchedule  Prefix = 's' // reserved: scheduler
	PrefixTail      Prefix = 't' // log/apply: ConsumeQueue records of unsealed segments
	PrefixTxn       Prefix = 'x' // txn/kafka
)

// formatVersion is the version of what the keys and values of all parts mean.
// A store with a larger one is not opened.
const formatVersion = 1

var (
	formatKey  = []byte{byte(PrefixMeta), 'f'}
	appliedKey = []byte{byte(PrefixMeta), 'i'}
)

// load reads what the store says of itself, and writes the format version into
// an empty one.
func (s *Store) load() error {
	version, ok, err := s.number(formatKey)
	if err != nil {
		return err
	}
	if !ok {
		return s.begin()
	}
	switch {
	case version > formatVersion:
		return fmt.Errorf("%w: it has format %d, this Sluice knows up to %d", ErrVersion, version, formatVersion)
	case version < 1:
		return fmt.Errorf("%w: format %d", ErrCorrupt, version)
	}
	applied, _, err := s.number(appliedKey)
	if err != nil {
		return err
	}
	s.applied.Store(applied)
	s.durable.Store(applied)
	return nil
}

// begin writes the format version into a store without keys. It becomes durable
// with the first checkpoint; a crash before leaves an empty store again.
func (s *Store) begin() error {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return err
	}
	empty := !it.First()
	if err := it.Close(); err != nil {
		return err
	}
	if !empty {
		return fmt.Errorf("%w: it has keys, but no format version", ErrCorrupt)
	}
	return s.db.Set(formatKey, binary.BigEndian.AppendUint64(nil, formatVersion), pebble.NoSync)
}

// number reads a value of 8 bytes.
func (s *Store) number(key []byte) (n uint64, ok bool, err error) {
	value, closer, err := s.db.Get(key)
	if err == pebble.ErrNotFound {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, damage(err)
	}
	defer closer.Close()
	if len(value) != 8 {
		return 0, false, fmt.Errorf("%w: key %q has %d bytes, want 8", ErrCorrupt, key, len(value))
	}
	return binary.BigEndian.Uint64(value), true, nil
}

// damage marks errors that Pebble takes for damage as ErrCorrupt.
func damage(err error) error {
	if err != nil && pebble.IsCorruptionError(err) {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return err
}

var _ entry.Writer = (*Batch)(nil)
