package kafka

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// store is a state store in memory.
type store map[string]string

func (s store) Set(key, value []byte) { s[string(key)] = string(value) }
func (s store) Delete(key []byte)     { delete(s, string(key)) }

func (s store) DeleteRange(from, to []byte) {
	for k := range s {
		if k >= string(from) && k < string(to) {
			delete(s, k)
		}
	}
}

func (s store) Get(key []byte) ([]byte, bool, error) {
	v, ok := s[string(key)]
	return []byte(v), ok, nil
}

func (s store) Scan(from, to []byte, visit func(key, value []byte) bool) error {
	for _, k := range slices.Sorted(maps.Keys(s)) {
		if bytes.Compare([]byte(k), from) >= 0 && bytes.Compare([]byte(k), to) < 0 {
			if !visit([]byte(k), []byte(s[k])) {
				return nil
			}
		}
	}
	return nil
}

// String lists keys and values as hex, a line each, in the order of the keys.
func (s store) String() string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(&b, "%x = %x\n", k, s[k])
	}
	return b.String()
}

// world plays the apply loop, the partitions and the groups around a machine.
type world struct {
	store
	m         *Machine
	ends      map[entry.Partition]entry.Offset // of those partitions that exist
	nextID    int64
	committed map[string]int64 // "group topic partition" to offset
	woken     []entry.Partition
	fenced    map[entry.Partition]bool // CheckMarker refuses
	now       entry.Time
	index     entry.Index
}

func newWorld(partitions ...entry.Partition) *world {
	w := &world{store: store{}, m: New(), ends: map[entry.Partition]entry.Offset{}, committed: map[string]int64{},
		fenced: map[entry.Partition]bool{}, now: 1000, nextID: 100}
	for _, p := range partitions {
		w.ends[p] = 0
	}
	return w
}

func (w *world) ProducerID() int64 {
	w.nextID++
	return w.nextID - 1
}

func (w *world) CheckMarker(p entry.Partition, _ bool) error {
	if w.fenced[p] {
		return kerr.New(kerr.InvalidProducerEpoch, "")
	}
	return nil
}

func (w *world) AppendMarker(p entry.Partition) (entry.Offset, bool) {
	at, ok := w.ends[p]
	if ok {
		w.ends[p]++
	}
	return at, ok
}

func (w *world) CommitOffsets(group string, offsets []PendingOffset) {
	for _, o := range offsets {
		w.committed[fmt.Sprintf("%s %x %d", group, o.Topic[:1], o.Partition)] = o.Offset
	}
}

func (w *world) Notify(p entry.Partition) { w.woken = append(w.woken, p) }

// apply applies an entry of a type, and tells what came of it: ok or an error code.
func (w *world) apply(kind entry.Type, mark Marker, payload []byte) (any, string) {
	w.index++
	r := w.m.Apply(&entry.Entry{Type: kind, Index: w.index, Time: w.now, Payload: payload}, mark, w)
	return r.Value, code(r.Err)
}

func code(err error) string {
	if err == nil {
		return "ok"
	}
	if kerr.Of(err) == kerr.UnknownServerError {
		return err.Error()
	}
	return kerr.Of(err).String()
}

// init asks for an id as a new instance, with the marker that a broker would send.
func (w *world) init(id string) (Producer, string) {
	return w.initAs(&Init{ID: id, TimeoutMs: 60000, ProducerID: noProducer, Epoch: noEpoch})
}

func (w *world) initAs(q *Init) (Producer, string) {
	has, _ := w.m.Producer(q.ID)
	value, got := w.apply(entry.TypeInitTransactions, Marker{ProducerID: has.ID, Epoch: has.Epoch + 1}, q.Append(nil))
	p, _ := value.(Producer)
	return p, got
}

func (w *world) add(id string, p Producer, partitions ...entry.Partition) string {
	q := Add{ID: id, ProducerID: p.ID, Epoch: p.Epoch, Partitions: partitions}
	_, got := w.apply(entry.TypeAddToTransaction, Marker{}, q.Append(nil))
	return got
}

// produce appends a batch of one record, if it may.
func (w *world) produce(at entry.Partition, p Producer, adds bool) string {
	w.index++
	if err := w.m.Judge(at, p.ID, p.Epoch, adds); err != nil {
		return code(err)
	}
	w.m.Appended(at, p.ID, w.ends[at], w.now)
	w.ends[at]++
	return "ok"
}

func (w *world) end(q *End) (Producer, string) {
	value, got := w.apply(entry.TypeEndTransaction, q.Marker(), q.Append(nil))
	p, _ := value.(Producer)
	return p, got
}

// pend commits an offset of partition 0 of a topic within a transaction.
func (w *world) pend(id string, p Producer, group string, topic byte, offset int64, adds bool) string {
	w.index++
	q := Offsets{ID: id, ProducerID: p.ID, Epoch: p.Epoch, Group: group, Adds: adds}
	if err := w.m.JudgeOffsets(&q); err != nil {
		return code(err)
	}
	w.m.Pend(&q, []PendingOffset{{Topic: entry.TopicID{topic}, Offset: offset}}, w.now, w.index)
	return "ok"
}

func (w *world) stable(p entry.Partition) entry.Offset { return w.m.LastStable(p, 0, w.ends[p]) }

// restart takes a checkpoint and begins again with what is in the store.
func (w *world) restart(t testing.TB) {
	t.Helper()
	w.m.Checkpoint(w)
	w.m = New()
	if err := w.m.Load(w); err != nil {
		t.Fatal(err)
	}
}

// must fails the test if a step was not ok.
func must(t testing.TB, got string) {
	t.Helper()
	if got != "ok" {
		t.Fatal(got)
	}
}
