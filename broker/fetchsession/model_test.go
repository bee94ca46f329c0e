package fetchsession

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
	"pgregory.net/rapid"
)

// model is a cache written down as the rules are: slices that are searched.
type model struct {
	slots    int
	after    entry.Time
	sessions []*modelSession // in the order of last use
}

type modelSession struct {
	id, epoch     int32
	topicIDs      bool
	order         []string
	told          map[string][2]entry.Offset
	created, used entry.Time
	size          int  // at the last use
	old           bool // at the last use
	closed        bool
}

// modelFetch is a fetch that was begun.
type modelFetch struct {
	session *modelSession // of an incremental fetch
	epoch   int32
	request *Request
	opens   bool
	order   []string
	news    map[string]modelNews // of the last walk
}

type modelNews struct {
	told    [2]entry.Offset
	records bool
}

func name(topicIDs bool, id entry.TopicID, topic string, index int32) string {
	if topicIDs {
		return fmt.Sprintf("%d/%d", id[0], index)
	}
	return fmt.Sprintf("%s/%d", topic, index)
}

func (m *model) find(id int32) *modelSession {
	for _, s := range m.sessions {
		if s.id == id {
			return s
		}
	}
	return nil
}

func (m *model) close(s *modelSession) {
	s.closed = true
	m.sessions = slices.DeleteFunc(m.sessions, func(o *modelSession) bool { return o == s })
}

func (m *model) touch(s *modelSession, now entry.Time) {
	if s.closed {
		return
	}
	m.sessions = append(slices.DeleteFunc(m.sessions, func(o *modelSession) bool { return o == s }), s)
	s.used, s.size = now, len(s.order)
	s.old = s.old || now-s.created > m.after
}

func (m *model) begin(r *Request, now entry.Time) (*modelFetch, kerr.Code) {
	f := &modelFetch{request: r, news: map[string]modelNews{}}
	for _, p := range r.Partitions {
		f.order = append(f.order, name(r.TopicIDs, p.TopicID, p.Topic, p.Index))
	}
	s := m.find(r.SessionID)
	if r.Epoch == 0 || r.Epoch == -1 {
		if s != nil {
			m.close(s)
		}
		f.opens = r.Epoch == 0
		return f, kerr.None
	}
	switch {
	case s == nil:
		return nil, kerr.FetchSessionIDNotFound
	case s.epoch != r.Epoch:
		return nil, kerr.InvalidFetchSessionEpoch
	case s.topicIDs != r.TopicIDs:
		return nil, kerr.FetchSessionTopicIDError
	}
	for _, p := range f.order {
		if !slices.Contains(s.order, p) {
			s.order = append(s.order, p)
			s.told[p] = [2]entry.Offset{-1, -1}
		}
	}
	for _, p := range r.Forgotten {
		gone := name(r.TopicIDs, p.TopicID, p.Topic, p.Index)
		s.order = slices.DeleteFunc(s.order, func(o string) bool { return o == gone })
	}
	if len(s.order) == 0 {
		m.close(s)
		return f, kerr.None
	}
	if s.epoch++; s.epoch < 0 {
		s.epoch = 1
	}
	m.touch(s, now)
	f.session, f.epoch = s, s.epoch
	return f, kerr.None
}

func (f *modelFetch) stale() bool { return f.session != nil && f.session.epoch != f.epoch }

func (f *modelFetch) partitions() []string {
	switch {
	case f.stale():
		return nil
	case f.session != nil:
		return f.session.order
	}
	return f.order
}

func (f *modelFetch) answer(p string, a Answer) bool {
	told := [2]entry.Offset{a.HighWatermark, a.LogStart}
	if f.session != nil && f.session.told[p] == told && !a.Records && !a.Failed && !a.Directed {
		return false
	}
	if a.Failed {
		told[0] = -1
	}
	f.news[p] = modelNews{told, a.Records}
	return true
}

// end returns whether a session is to be named in the response, and its error.
func (m *model) end(f *modelFetch, now entry.Time, throttle bool) (*modelSession, kerr.Code) {
	if f.stale() {
		return nil, kerr.InvalidFetchSessionEpoch
	}
	if s := f.session; s != nil {
		if !throttle {
			for _, p := range slices.Clone(s.order) {
				if n, ok := f.news[p]; ok {
					s.told[p] = n.told
					if n.records {
						s.order = append(slices.DeleteFunc(s.order, func(o string) bool { return o == p }), p)
					}
				}
			}
		}
		m.touch(s, now)
		return s, kerr.None
	}
	if !f.opens || throttle {
		return nil, kerr.None
	}
	s := &modelSession{epoch: 1, topicIDs: f.request.TopicIDs, created: now, used: now, told: map[string][2]entry.Offset{}}
	for _, p := range f.order {
		if !slices.Contains(s.order, p) {
			s.order = append(s.order, p)
		}
		s.told[p] = [2]entry.Offset{-1, -1}
		if n, ok := f.news[p]; ok {
			s.told[p] = n.told
		}
	}
	s.size = len(s.order)
	if len(m.sessions) == m.slots {
		victim := m.sessions[0]
		if now-victim.used <= m.after {
			old := slices.DeleteFunc(slices.Clone(m.sessions), func(o *modelSession) bool { return !o.old })
			slices.SortFunc(old, func(a, b *modelSession) int { return (a.size-b.size)*1_000_000 + int(a.id-b.id) })
			if len(old) == 0 || old[0].size >= s.size {
				return nil, kerr.None
			}
			victim = old[0]
		}
		m.close(victim)
	}
	m.sessions = append(m.sessions, s)
	return s, kerr.None
}

type pendingFetch struct {
	real  *Fetch
	model *modelFetch
}

func TestCacheAgreesWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const after = 100
		c := newCache(Options{Slots: 3, EvictAfter: after * time.Millisecond})
		m := &model{slots: 3, after: after}
		now := entry.Time(0)
		var pending []pendingFetch
		for range 200 {
			now += entry.Time(rapid.SampledFrom([]int{0, 1, 5, 30, 101}).Draw(t, "wait"))
			if len(pending) == 0 || len(pending) < 4 && rapid.Bool().Draw(t, "begin") {
				r := drawRequest(t, m)
				want, code := m.begin(r, now)
				f, err := c.Begin(r, now)
				if kerr.Of(err) != code {
					t.Fatalf("begin %+v: %v, want %v", r, err, code)
				}
				if err == nil {
					pending = append(pending, pendingFetch{f, want})
				}
			} else {
				i := rapid.IntRange(0, len(pending)-1).Draw(t, "which")
				for range rapid.SampledFrom([]int{0, 1, 1, 2}).Draw(t, "walks") {
					compareWalk(t, pending[i])
				}
				if rapid.Bool().Draw(t, "end") {
					compareEnd(t, c, m, pending[i], now)
					pending = slices.Delete(pending, i, i+1)
				}
			}
			compareCaches(t, c, m)
		}
	})
}

// compareWalk walks over a fetch with answers that are drawn.
func compareWalk(t *rapid.T, p pendingFetch) {
	want := slices.Clone(p.model.partitions())
	if p.real.Len() != len(want) {
		t.Fatalf("%d partitions, want %d", p.real.Len(), len(want))
	}
	clear(p.model.news)
	var got []string
	for cursor := range p.real.Partitions() {
		at := name(p.model.request.TopicIDs, cursor.TopicID, cursor.Topic, cursor.Index)
		got = append(got, at)
		a := Answer{
			HighWatermark: entry.Offset(rapid.SampledFrom([]int{7, 7, 7, 8, -1}).Draw(t, "high watermark")),
			LogStart:      entry.Offset(rapid.SampledFrom([]int{0, 0, 0, 0, 1}).Draw(t, "log start")),
			Records:       rapid.SampledFrom([]bool{false, false, true}).Draw(t, "records"),
		}
		switch rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2}).Draw(t, "special") {
		case 1:
			a.Failed = true
		case 2:
			a.Directed = true
		}
		// What a partition that is listed twice is told depends on the last answer.
		if told, want := cursor.Answer(a), p.model.answer(at, a); told != want {
			t.Fatalf("%s answered with %+v: told %v, want %v", at, a, told, want)
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("walked over %v, want %v", got, want)
	}
}

func compareEnd(t *rapid.T, c *Cache, m *model, p pendingFetch, now entry.Time) {
	throttle := rapid.SampledFrom([]bool{false, false, false, true}).Draw(t, "throttle")
	s, code := m.end(p.model, now, throttle)
	finish := p.real.End
	if throttle {
		finish = p.real.Throttle
	}
	id, err := finish(now)
	if kerr.Of(err) != code || (s != nil) != (id != 0) {
		t.Fatalf("ends with session %d, %v; want one: %v, %v", id, err, s != nil, code)
	}
	if s == nil {
		return
	}
	if s.id == 0 {
		s.id = id
		if rapid.Bool().Draw(t, "near the wrap") {
			s.epoch = math.MaxInt32 - 2
			c.sessions[id].epoch = s.epoch
		}
	}
	if id != s.id {
		t.Fatalf("ends with session %d, want %d", id, s.id)
	}
}

func compareCaches(t *rapid.T, c *Cache, m *model) {
	var got, want []string
	for _, s := range c.Sessions() {
		got = append(got, fmt.Sprint(s.ID, s.Partitions, s.LastUsed))
	}
	partitions := 0
	for _, s := range m.sessions {
		want = append(want, fmt.Sprint(s.id, s.size, s.used))
		partitions += s.size
	}
	if !slices.Equal(got, want) {
		t.Fatalf("sessions %v, want %v", got, want)
	}
	s := c.Stats()
	if s.Sessions != len(want) || s.Partitions != partitions || (s.Bytes == 0) != (len(want) == 0) {
		t.Fatalf("%+v, want %d sessions with %d partitions", s, len(want), partitions)
	}
}

// drawRequest draws a request that most often fits a session there is.
func drawRequest(t *rapid.T, m *model) *Request {
	r := &Request{
		SessionID: rapid.SampledFrom([]int32{0, 0, 0, 1, 2, 99}).Draw(t, "session"),
		Epoch:     rapid.SampledFrom([]int32{0, 0, 0, -1, 1, 2}).Draw(t, "epoch"),
		TopicIDs:  rapid.Bool().Draw(t, "topic ids"),
	}
	if len(m.sessions) > 0 && rapid.SampledFrom([]int{0, 1, 2, 3}).Draw(t, "continue") > 0 {
		s := rapid.SampledFrom(m.sessions).Draw(t, "which session")
		r.SessionID, r.Epoch, r.TopicIDs = s.id, s.epoch, s.topicIDs
		r.Epoch += rapid.SampledFrom([]int32{0, 0, 0, 0, 0, 0, 0, -1, 1}).Draw(t, "off by")
		r.TopicIDs = r.TopicIDs != (rapid.IntRange(0, 19).Draw(t, "mixed") == 19)
	}
	some := []string{}
	for i := range 9 {
		some = append(some, fmt.Sprint("abc"[i/3:i/3+1], i%3))
	}
	for _, p := range rapid.SliceOfN(rapid.SampledFrom(some), 0, 6).Draw(t, "partitions") {
		topic, index := parse(p)
		partition := Partition{Index: index, Topic: topic}
		if r.TopicIDs {
			partition.TopicID = entry.TopicID{topic[0]}
		}
		r.Partitions = append(r.Partitions, partition)
	}
	for _, p := range rapid.SliceOfN(rapid.SampledFrom(some), 0, 6).Draw(t, "forgotten") {
		topic, index := parse(p)
		forgotten := ForgottenPartition{Index: index, Topic: topic}
		if r.TopicIDs {
			forgotten.TopicID = entry.TopicID{topic[0]}
		}
		r.Forgotten = append(r.Forgotten, forgotten)
	}
	return r
}

// TestTableAgreesWithModel grows and shrinks a table far enough to be compacted.
func TestTableAgreesWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tb := newTable(0)
		var order []string
		values := map[string]int64{}
		key := func(i int) (topicKey, int32, string) {
			k := topicKey{name: strings.Repeat("t", 1+i%5)}
			return k, int32(i / 5), fmt.Sprint(k.name, i/5)
		}
		for step := range int64(12) {
			from := rapid.IntRange(0, 900).Draw(t, "from")
			to := from + rapid.SampledFrom([]int{1, 50, 400, 900}).Draw(t, "count")
			remove := rapid.Bool().Draw(t, "remove")
			for i := from; i < to; i++ {
				k, index, at := key(i)
				if remove {
					tb.remove(k, index)
					delete(values, at)
					continue
				}
				tb.put(k, &Partition{Index: index, FetchOffset: entry.Offset(step)}).highWatermark = entry.Offset(step)
				if _, ok := values[at]; !ok {
					order = append(order, at)
				}
				values[at] = step
			}
			order = slices.DeleteFunc(order, func(at string) bool { _, ok := values[at]; return !ok })
			tb = tb.compact()
			if len(tb.slots) > 256 && tb.len() < len(tb.slots)/4 {
				t.Fatalf("%d slots for %d partitions", len(tb.slots), tb.len())
			}
			var got []string
			var p Partition
			for i := tb.slots[0].next; i != 0; i = tb.slots[i].next {
				tb.get(i, &p)
				at := fmt.Sprint(p.Topic, p.Index)
				got = append(got, at)
				if int64(p.FetchOffset) != values[at] || tb.slots[i].highWatermark != p.FetchOffset {
					t.Fatalf("%s: %+v, want %d", at, tb.slots[i], values[at])
				}
			}
			if !slices.Equal(got, order) {
				t.Fatalf("order %v, want %v", got, order)
			}
		}
		for _, at := range slices.Collect(maps.Keys(values)) {
			tb.remove(topicKey{name: strings.TrimRight(at, "0123456789")}, int32(number(at)))
		}
		if tb.len() != 0 || len(tb.topicIndex) != 0 || tb.nameBytes != 0 {
			t.Fatalf("left are %d partitions, %d topics, %d bytes of names", tb.len(), len(tb.topicIndex), tb.nameBytes)
		}
	})
}

func number(at string) (n int) {
	_, _ = fmt.Sscanf(strings.TrimLeft(at, "t"), "%d", &n)
	return n
}
