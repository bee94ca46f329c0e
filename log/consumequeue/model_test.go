package consumequeue_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/vfs"
)

// modelQueue is a queue as one would write it without thinking of memory.
type modelQueue struct {
	start, end entry.Offset
	batches    []consumequeue.Located // those of segments that were not detached
}

// present returns the batches that can be found.
func (q *modelQueue) present() []consumequeue.Located {
	i := slices.IndexFunc(q.batches, func(b consumequeue.Located) bool { return b.End() > q.start })
	if i < 0 {
		return nil
	}
	return q.batches[i:]
}

func (q *modelQueue) find(from, to entry.Offset, maxBytes, most int) (found []consumequeue.Located) {
	if from >= to {
		return nil
	}
	room := maxBytes
	for _, b := range q.present() {
		if b.End() <= from {
			continue
		}
		if b.BaseOffset >= to || len(found) == most || len(found) > 0 && int(b.Size) > room {
			break
		}
		room -= int(b.Size)
		found = append(found, b)
	}
	return found
}

func (q *modelQueue) size() (size int64) {
	for _, b := range q.present() {
		size += int64(b.Size)
	}
	return size
}

// machine runs a Set and the model side by side. Keys of the maps are what the
// state store would keep for the Set across a restart.
type machine struct {
	fs      *vfs.FS
	set     *consumequeue.Set
	queues  map[entry.Partition]*modelQueue
	deleted map[entry.Partition]*consumequeue.Queue
	next    entry.Partition

	segment  uint32
	at       uint32
	builders map[uint32]*consumequeue.Builder // sealed, not attached
	attached map[uint32]bool
	chunks   map[uint32][][]byte
	holds    map[uint32]map[entry.Partition]bool // in the index file, by segment
}

func newMachine(fs *vfs.FS) *machine {
	return &machine{
		fs: fs, set: consumequeue.NewSet(), queues: map[entry.Partition]*modelQueue{},
		deleted: map[entry.Partition]*consumequeue.Queue{}, next: 1, segment: 1, at: 4096,
		builders: map[uint32]*consumequeue.Builder{}, attached: map[uint32]bool{},
		chunks: map[uint32][][]byte{}, holds: map[uint32]map[entry.Partition]bool{},
	}
}

func (m *machine) partition(t *rapid.T) (entry.Partition, *modelQueue) {
	if len(m.queues) == 0 {
		t.Skip("no partition")
	}
	var all []entry.Partition
	for p := range m.queues {
		all = append(all, p)
	}
	slices.Sort(all)
	p := rapid.SampledFrom(all).Draw(t, "partition")
	return p, m.queues[p]
}

// Create begins a partition, at an offset where 32 or 63 bits might matter.
func (m *machine) Create(t *rapid.T) {
	p := m.next
	m.next += entry.Partition(rapid.SampledFrom([]int{1, 1, 1, 300}).Draw(t, "step"))
	base := rapid.SampledFrom([]entry.Offset{0, 0, 1<<31 - 5, 1<<32 - 5, 1<<62 - 5}).Draw(t, "base")
	m.queues[p] = &modelQueue{start: base, end: base}
	m.set.Create(p).Restore(base, base)
}

func (m *machine) Delete(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "really") > 0 {
		t.Skip("rarely")
	}
	p, _ := m.partition(t)
	m.deleted[p] = m.set.Get(p)
	m.set.Delete(p)
	delete(m.queues, p)
}

func (m *machine) Put(t *rapid.T) {
	p, q := m.partition(t)
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	for range rapid.SampledFrom([]int{1, 3, 40, 700}).Draw(t, "batches") {
		e := consumequeue.Entry{
			BaseOffset:   q.end,
			Count:        []uint32{1, 2, 7, 1 << 20}[rng.IntN(4)],
			MaxTimestamp: entry.Time(rng.IntN(52) - 1),
			At:           m.at,
			Size:         uint32(61 + rng.IntN(140)),
			Tags:         uint32(m.at),
		}
		m.at += 56 + e.Size
		q.batches = append(q.batches, consumequeue.Located{Entry: e, Segment: m.segment})
		q.end = e.End()
		m.set.Get(p).Put(m.segment, e)
	}
}

func (m *machine) drain() {
	if chunk := m.set.DrainNew(m.segment, nil); len(chunk) > 0 {
		m.chunks[m.segment] = append(m.chunks[m.segment], chunk)
	}
}

func (m *machine) Drain(*rapid.T) { m.drain() }

// Roll completes the segment; its index file comes later.
func (m *machine) Roll(*rapid.T) {
	m.drain()
	m.builders[m.segment] = m.set.Seal(m.segment)
	m.segment++
	m.at = 4096
}

// Attach writes and attaches the index file of any segment that waits for it.
func (m *machine) Attach(t *rapid.T) {
	waiting := keys(m.builders)
	if len(waiting) == 0 {
		t.Skip("nothing sealed")
	}
	n := rapid.SampledFrom(waiting).Draw(t, "segment")
	f, err := m.builders[n].Write(m.fs, "log", segment(n, 1<<31))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Verify(); err != nil {
		t.Fatal(err)
	}
	m.holds[n] = map[entry.Partition]bool{}
	if err := f.Partitions(func(p entry.Partition, _, _ entry.Offset, _ int64) bool {
		m.holds[n][p] = true
		return true
	}); err != nil {
		t.Fatal(err)
	}
	if err := m.set.Attach(f); err != nil {
		t.Fatal(err)
	}
	delete(m.builders, n)
	delete(m.chunks, n)
	m.attached[n] = true
}

func (m *machine) SetStart(t *rapid.T) {
	p, q := m.partition(t)
	to := q.start + entry.Offset(rapid.Int64Range(-1, int64(q.end-q.start)+1).Draw(t, "start"))
	q.start = max(q.start, min(to, q.end))
	if got := m.set.Get(p).SetStart(to); got != q.start {
		t.Fatalf("SetStart(%d) = %d, want %d", to, got, q.start)
	}
}

// Detach frees a segment when nobody needs it.
func (m *machine) Detach(t *rapid.T) {
	all := keys(m.attached)
	if len(all) == 0 {
		t.Skip("no files")
	}
	n := rapid.SampledFrom(all).Draw(t, "segment")
	want := false
	for _, q := range m.queues {
		for _, b := range q.present() {
			want = want || b.Segment == n
		}
	}
	got, err := m.set.Needed(n)
	if err != nil || got != want {
		t.Fatalf("Needed(%d) = %v, %v, want %v", n, got, err, want)
	}
	if want {
		return
	}
	m.set.Detach(n)
	if err := consumequeue.Remove(m.fs, "log", n); err != nil {
		t.Fatal(err)
	}
	delete(m.attached, n)
	for _, q := range m.queues {
		q.batches = slices.DeleteFunc(q.batches, func(b consumequeue.Located) bool { return b.Segment == n })
	}
}

// Restart builds the Set again from what would be on disk.
func (m *machine) Restart(t *rapid.T) {
	m.drain()
	m.set.Close()
	m.set = consumequeue.NewSet()
	for p, q := range m.queues {
		m.set.Create(p).Restore(q.start, q.start)
	}
	for _, n := range keys(m.attached) {
		f, err := consumequeue.Open(m.fs, "log", n)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.set.Attach(f); err != nil {
			t.Fatal(err)
		}
	}
	for n := uint32(1); n <= m.segment; n++ {
		for _, chunk := range m.chunks[n] {
			if err := m.set.RestoreTail(n, chunk); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, n := range keys(m.builders) {
		m.builders[n] = m.set.Seal(n)
	}
	clear(m.deleted)
}

// Check compares everything that can be asked.
func (m *machine) Check(t *rapid.T) {
	if m.set.Len() != len(m.queues) {
		t.Fatalf("Len %d, want %d", m.set.Len(), len(m.queues))
	}
	var order []entry.Partition
	for q := range m.set.All() {
		order = append(order, q.Partition())
	}
	if want := keys(m.queues); !slices.Equal(order, want) {
		t.Fatalf("All %v, want %v", order, want)
	}
	for _, p := range keys(m.queues) {
		q := m.queues[p]
		if err := m.checkQueue(t, m.set.Get(p), q); err != nil {
			t.Fatalf("partition %d: %v", p, err)
		}
	}
	for p, q := range m.deleted {
		if _, err := q.Find(0, 1, 1, nil); !errors.Is(err, consumequeue.ErrDeleted) || m.set.Get(p) != nil {
			t.Fatalf("deleted partition %d: %v", p, err)
		}
	}
}

func (m *machine) checkQueue(t *rapid.T, q *consumequeue.Queue, want *modelQueue) error {
	if start, end := q.Bounds(); start != want.start || end != want.end {
		return fmt.Errorf("bounds %d, %d, want %d, %d", start, end, want.start, want.end)
	}
	if size, err := q.Size(); err != nil || size != want.size() {
		return fmt.Errorf("size %d, %v, want %d", size, err, want.size())
	}
	span := int64(want.end - want.start)
	from := want.start + entry.Offset(rapid.Int64Range(0, span).Draw(t, "from"))
	to := want.start + entry.Offset(rapid.Int64Range(0, span+1).Draw(t, "to"))
	maxBytes := rapid.SampledFrom([]int{0, 1000, 1 << 40}).Draw(t, "bytes")
	most := rapid.SampledFrom([]int{1, 5, 3000}).Draw(t, "most")
	found, err := q.Find(from, to, maxBytes, make([]consumequeue.Located, 0, most))
	if wanted := want.find(from, to, maxBytes, most); err != nil || !slices.Equal(found, wanted) {
		return fmt.Errorf("find(%d, %d, %d, %d) = %v, %v, want %v", from, to, maxBytes, most, found, err, wanted)
	}
	for _, outside := range []entry.Offset{want.start - 1, want.end + 1} {
		if _, err := q.Find(outside, to, maxBytes, nil); !errors.Is(err, consumequeue.ErrOutOfRange) {
			return fmt.Errorf("find(%d): %v", outside, err)
		}
	}
	if err := m.checkRetain(t, q, want); err != nil {
		return err
	}
	return checkTime(t, q, want, from)
}

// checkRetain goes through the batches one by one, as Retain is documented to do.
func (m *machine) checkRetain(t *rapid.T, q *consumequeue.Queue, want *modelQueue) error {
	r := consumequeue.Retention{
		Ms:    rapid.Int64Range(-1, 60).Draw(t, "time retention"),
		Bytes: rapid.Int64Range(-1, want.size()+1).Draw(t, "time bytes"),
	}
	now := entry.Time(rapid.IntRange(0, 400).Draw(t, "time now"))
	start, size := want.start, want.size()
	for _, b := range want.present() {
		latest := b.MaxTimestamp
		if latest < 0 && m.attached[b.Segment] {
			latest = segment(b.Segment, 0).LastTime
		}
		old := r.Ms >= 0 && latest >= 0 && latest < now-entry.Time(r.Ms)
		tooMuch := r.Bytes >= 0 && size-int64(b.Size) >= r.Bytes
		if !old && !tooMuch {
			break
		}
		start = b.End()
		size -= int64(b.Size)
	}
	if got, err := q.Retain(now, r); err != nil || got != start {
		return fmt.Errorf("retain at %d %+v: %d, %v, want %d", now, r, got, err, start)
	}
	return nil
}

func checkTime(t *rapid.T, q *consumequeue.Queue, want *modelQueue, from entry.Offset) error {
	at := entry.Time(rapid.IntRange(0, 51).Draw(t, "time"))
	i := slices.IndexFunc(want.present(), func(b consumequeue.Located) bool { return b.End() > from && b.MaxTimestamp >= at })
	found, ok, err := q.FindTime(at, from)
	if err != nil || ok != (i >= 0) || ok && found != want.present()[i] {
		return fmt.Errorf("find time %d from %d: %v, %v, %v, want number %d", at, from, found, ok, err, i)
	}
	var latest consumequeue.Located
	latest.MaxTimestamp = -1
	for _, b := range want.present() {
		if b.MaxTimestamp > latest.MaxTimestamp {
			latest = b
		}
	}
	found, ok, err = q.MaxTimestamp()
	if err != nil || ok != (latest.MaxTimestamp >= 0) || ok && found != latest {
		return fmt.Errorf("max timestamp: %v, %v, %v, want %v", found, ok, err, latest)
	}
	return nil
}

func keys[K interface{ ~uint32 | ~uint64 }, V any](m map[K]V) []K {
	all := make([]K, 0, len(m))
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

func TestSetAnswersAsAModelDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fs := memory(rapidTB{t: t})
		m := newMachine(fs)
		m.Create(t)
		t.Repeat(map[string]func(*rapid.T){
			"create":  m.Create,
			"delete":  m.Delete,
			"put":     m.Put,
			"put2":    m.Put,
			"drain":   m.Drain,
			"roll":    m.Roll,
			"attach":  m.Attach,
			"start":   m.SetStart,
			"detach":  m.Detach,
			"restart": m.Restart,
			"":        m.Check,
		})
		m.set.Close()
	})
}

// rapidTB lets helpers for a testing.TB be used in a property.
type rapidTB struct {
	testing.TB
	t *rapid.T
}

func (r rapidTB) Helper()           {}
func (r rapidTB) Fatal(args ...any) { r.t.Fatal(args...) }
