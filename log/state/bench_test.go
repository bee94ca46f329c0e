package state_test

import (
	"encoding/binary"
	"testing"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/state"
)

// BenchmarkBatch sets keys of 20 bytes to values of 60, with a checkpoint after
// each 4 MiB, and a flush where the store thinks fit.
func BenchmarkBatch(b *testing.B) {
	s := open(b, pebblevfs.Default, func(o *state.Options) { o.Dir = b.TempDir() })
	batch := s.NewBatch()
	key, value := make([]byte, 20), make([]byte, 60)
	key[0] = 'c'
	b.ReportAllocs()
	b.SetBytes(int64(len(key) + len(value)))
	var n uint64
	for b.Loop() {
		n++
		binary.BigEndian.PutUint64(key[12:], n*0x9e3779b97f4a7c15)
		batch.Set(key, value)
		if batch.Len() > 4<<20 {
			if err := batch.Checkpoint(entry.Index(n)); err != nil {
				b.Fatal(err)
			}
		}
	}
	batch.Close()
	closeStore(b, s)
}
