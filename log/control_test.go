package log_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/log"
	"github.com/sluicemq/sluice/log/apply"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/vfs"
	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/txn/producer"
)

// marks is a part whose entries put their control batch into the partitions that
// follow it.
type marks struct{}

func (marks) Types() []entry.Type               { return []entry.Type{entry.TypeWriteMarkers} }
func (marks) Load(entry.Reader, apply.Tx) error { return nil }
func (marks) Checkpoint(entry.Writer)           {}
func (marks) payload(parts ...entry.Partition) (payload []byte) {
	payload = batch.AppendMarker(nil, batch.Marker{Commit: true, ProducerID: 7, ProducerEpoch: 2, Timestamp: 5000})
	for _, p := range parts {
		payload = binary.BigEndian.AppendUint64(payload, uint64(p))
	}
	return payload
}

func (marks) Apply(e *entry.Entry, tx apply.Tx) entry.Result {
	_, rest, err := batch.Split(e.Payload)
	if err != nil {
		return entry.Result{Err: err}
	}
	var at []entry.Offset
	for ; len(rest) > 0; rest = rest[8:] {
		base, ok := tx.AppendControl(entry.Partition(binary.BigEndian.Uint64(rest)))
		if !ok {
			base = -1
		}
		at = append(at, base)
	}
	for rest := e.Payload[len(e.Payload)-8*len(at):]; len(rest) > 0; rest = rest[8:] {
		tx.Notify(entry.Partition(binary.BigEndian.Uint64(rest)))
	}
	return entry.Result{Value: at}
}

// A control batch is one entry for many partitions: each reads it with an offset of
// its own, from memory, from the disk, and through an index file.
func TestOneControlBatchIsReadInManyPartitions(t *testing.T) {
	mem := pebblevfs.NewMem()
	open := func() *log.Log {
		judge := producers{producer.New()}
		l, err := log.Open(log.Options{
			FS: vfs.New(mem), Dir: "data", Meta: log.Meta{ClusterID: "c", NodeID: 1},
			Appliers: []apply.Applier{&partitions{}, judge, marks{}}, Judge: judge,
			SegmentBytes: 64 << 10, TailBytes: 16 << 10,
		})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := open()
	for p := entry.Partition(1); p <= 3; p++ {
		create(t, l, p)
		for range p {
			produce(t, l, p, records("r", 2))
		}
	}
	r, err := l.Do(entry.TypeWriteMarkers, 0, marks{}.payload(1, 2, 3, 9))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(r.Value); got != "[2 4 6 -1]" {
		t.Errorf("offsets %s", got)
	}
	for p := entry.Partition(1); p <= 3; p++ {
		produce(t, l, p, records("behind", 1))
	}
	check := func(where string) {
		t.Helper()
		for p := entry.Partition(1); p <= 3; p++ {
			var b log.Batches
			_, end, _ := l.Bounds(p)
			if end != entry.Offset(2*p+2) {
				t.Errorf("%s: partition %d ends at %d", where, p, end)
			}
			if n, err := l.Read(p, 0, end, 1<<20, true, &b); err != nil || n != b.Bytes {
				t.Fatalf("%s: %d bytes of %d, %v", where, n, b.Bytes, err)
			}
			heads := split(t, &b)
			i := slices.IndexFunc(heads, func(h batch.Header) bool { return h.Attributes().Has(batch.Control) })
			if i != int(p) || len(heads) != int(p)+2 {
				t.Fatalf("%s: partition %d has its marker at %d of %d batches", where, p, i, len(heads))
			}
			m, err := batch.ParseMarker(heads[i])
			if err != nil || !heads[i].ChecksumFits() || heads[i].BaseOffset() != int64(2*p) || heads[i].LeaderEpoch() != log.LeaderEpoch {
				t.Errorf("%s: marker of partition %d at %d: %+v, %v", where, p, heads[i].BaseOffset(), m, err)
			}
			if m.ProducerID != 7 || m.ProducerEpoch != 2 || !m.Commit {
				t.Errorf("%s: marker %+v", where, m)
			}
			if found, err := l.FindTime(p, 4000); err != nil || found.Offset != entry.Offset(2*p) || found.Time != 5000 {
				t.Errorf("%s: by time %+v, %v", where, found, err)
			}
			b.Release()
			// The marker alone, which is given whatever its size.
			if n, err := l.Read(p, entry.Offset(2*p), entry.Offset(2*p)+1, 1, true, &b); err != nil || n != heads[i].Size() {
				t.Errorf("%s: the marker alone has %d bytes, %v", where, n, err)
			}
			b.Release()
		}
	}
	check("in memory")
	for _, how := range []string{"after a restart", "through an index file"} {
		if how == "through an index file" {
			if err := l.Roll(); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = open()
		check(how)
	}
	if files, err := l.VerifyIndexes(); files == 0 || err != nil {
		t.Errorf("%d index files, %v", files, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
