package state

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sluicemq/sluice/log/entry"
)

// View is the committed state at one moment: that of one checkpoint. It is an
// entry.Reader and belongs to one goroutine. It must be closed, and before the
// Store is; while it is open the space of what has changed since is not freed.
type View struct {
	snapshot *pebble.Snapshot
	value    io.Closer // holds the value that Get gave last
}

// NewView returns a View of the newest checkpoint.
func (s *Store) NewView() *View { return &View{snapshot: s.db.NewSnapshot()} }

// Get returns the value of a key, valid until the next call of Get.
func (v *View) Get(key []byte) (value []byte, ok bool, err error) {
	v.release()
	value, v.value, err = v.snapshot.Get(key)
	if err == pebble.ErrNotFound {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read state: %w", damage(err))
	}
	return value, true, nil
}

func (v *View) release() {
	if v.value != nil {
		_ = v.value.Close() // gives memory back
		v.value = nil
	}
}

// Scan calls visit for each key k with from <= k < to, in order, until it
// returns false. A nil bound is none.
func (v *View) Scan(from, to []byte, visit func(key, value []byte) bool) error {
	it, err := v.snapshot.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	return scan(it, err, visit)
}

// Applied returns the index of the checkpoint.
func (v *View) Applied() (entry.Index, error) {
	value, ok, err := v.Get(appliedKey)
	if err != nil || !ok {
		return 0, err
	}
	if len(value) != 8 {
		return 0, fmt.Errorf("%w: key %q has %d bytes, want 8", ErrCorrupt, appliedKey, len(value))
	}
	return entry.Index(binary.BigEndian.Uint64(value)), nil
}

// Digest returns a hash of all keys and values but those with one of the
// prefixes. Two nodes, or two runs, that applied the same entries have the same
// digest, once what depends on when checkpoints fell (PrefixTail) is left out.
func (v *View) Digest(without ...Prefix) (digest [sha256.Size]byte, err error) {
	skip := make(map[byte]bool, len(without))
	for _, p := range without {
		skip[byte(p)] = true
	}
	h := sha256.New()
	err = v.Scan(nil, nil, func(key, value []byte) bool {
		if !skip[key[0]] {
			writeString(h, key)
			writeString(h, value)
		}
		return true
	})
	h.Sum(digest[:0])
	return digest, err
}

// writeString writes b behind its length, so that no two lists of strings are
// written alike.
func writeString(h hash.Hash, b []byte) {
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(b)))
	_, _ = h.Write(length[:]) // a hash takes everything
	_, _ = h.Write(b)
}

// Close gives the View up.
func (v *View) Close() {
	v.release()
	_ = v.snapshot.Close() // fails only when it is closed twice
}

// scan runs through an iterator and closes it.
func scan(it *pebble.Iterator, err error, visit func(key, value []byte) bool) error {
	if err != nil {
		return fmt.Errorf("read state: %w", damage(err))
	}
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			_ = it.Close() // gives the same error
			return fmt.Errorf("read state: %w", damage(err))
		}
		if !visit(it.Key(), value) {
			break
		}
	}
	if err := it.Close(); err != nil {
		return fmt.Errorf("read state: %w", damage(err))
	}
	return nil
}
