package fetchsession

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

func TestFullFetchWithoutSessionIsAnsweredInFull(t *testing.T) {
	c := newCache(Options{})
	for range 2 {
		f := begin(t, c, 0, FinalEpoch, "a0 a1 b0")
		if got := answer(f, nil); got != "a0 a1 b0" {
			t.Errorf("answered %q", got)
		}
		if id := end(t, f); id != 0 {
			t.Errorf("session id %d", id)
		}
	}
	if s := c.Stats(); s != (Stats{}) {
		t.Errorf("%+v", s)
	}
}

func TestSessionIsBegunAndContinued(t *testing.T) {
	c := newCache(Options{})
	id := open(t, c, "a0 a1 b0")
	if id == 0 {
		t.Fatal("no session")
	}
	// Nothing is new: nothing is answered, but all is fetched.
	f := begin(t, c, id, 1, "")
	if f.Len() != 3 {
		t.Fatalf("%d partitions are fetched", f.Len())
	}
	if got := answer(f, nil); got != "" {
		t.Errorf("answered %q", got)
	}
	if got := end(t, f); got != id {
		t.Errorf("session id %d, want %d", got, id)
	}
	// One is added, one forgotten, and one is answered because it is new.
	f = begin(t, c, id, 2, "c7", "a1")
	if got := walked(f); got != "a0 b0 c7" {
		t.Errorf("fetched %q", got)
	}
	if got := answer(f, nil); got != "c7" {
		t.Errorf("answered %q", got)
	}
	end(t, f)
}

func TestRequestParametersAreReplacedByLaterOnes(t *testing.T) {
	c := newCache(Options{})
	r := request(0, InitialEpoch, "a0 a1")
	for i := range r.Partitions {
		r.Partitions[i].FetchOffset = 5
	}
	f, err := c.Begin(r, 0)
	if err != nil {
		t.Fatal(err)
	}
	id := end(t, f)
	r = request(id, 1, "a1")
	r.Partitions[0] = Partition{
		Topic: "a", Index: 1, FetchOffset: 9, LogStart: 4, MaxBytes: 100, CurrentLeaderEpoch: 3, LastFetchedEpoch: 2,
	}
	if f, err = c.Begin(r, 0); err != nil {
		t.Fatal(err)
	}
	var got []Partition
	for p := range f.Partitions() {
		got = append(got, p.Partition)
	}
	if len(got) != 2 || got[0] != (Partition{Topic: "a", FetchOffset: 5}) || got[1] != r.Partitions[0] {
		t.Errorf("got %+v", got)
	}
}

func TestErrorsOfSessions(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(r *Request)
		want   kerr.Code
	}{
		{"another id", func(r *Request) { r.SessionID++ }, kerr.FetchSessionIDNotFound},
		{"no id", func(r *Request) { r.SessionID = 0 }, kerr.FetchSessionIDNotFound},
		{"negative id", func(r *Request) { r.SessionID = -5 }, kerr.FetchSessionIDNotFound},
		{"earlier epoch", func(r *Request) { r.Epoch = 2 }, kerr.InvalidFetchSessionEpoch},
		{"later epoch", func(r *Request) { r.Epoch = 4 }, kerr.InvalidFetchSessionEpoch},
		{"epoch below -1", func(r *Request) { r.Epoch = -2 }, kerr.InvalidFetchSessionEpoch},
		{"topic ids in a session of names", func(r *Request) { r.TopicIDs = true }, kerr.FetchSessionTopicIDError},
		{"wrong in two ways", func(r *Request) { r.TopicIDs, r.Epoch = true, 9 }, kerr.InvalidFetchSessionEpoch},
		{"nothing wrong", func(r *Request) {}, kerr.None},
	} {
		t.Run(c.name, func(t *testing.T) {
			cache := newCache(Options{})
			id := open(t, cache, "a0")
			end(t, begin(t, cache, id, 1, ""))
			end(t, begin(t, cache, id, 2, ""))
			r := request(id, 3, "")
			c.change(r)
			_, err := cache.Begin(r, 0)
			if kerr.Of(err) != c.want {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if c.want != kerr.None { // the session is as it was
				end(t, begin(t, cache, id, 3, ""))
			}
		})
	}
}

func TestSessionOfTopicIDsIsNotContinuedByName(t *testing.T) {
	c := newCache(Options{})
	r := &Request{Epoch: InitialEpoch, TopicIDs: true, Partitions: []Partition{{TopicID: entry.TopicID{1}, Topic: "ignored", Index: 4}}}
	f, err := c.Begin(r, 0)
	if err != nil {
		t.Fatal(err)
	}
	id := end(t, f)
	if _, err := c.Begin(request(id, 1, ""), 0); kerr.Of(err) != kerr.FetchSessionTopicIDError {
		t.Errorf("error %v", err)
	}
	f, err = c.Begin(&Request{SessionID: id, Epoch: 1, TopicIDs: true}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for p := range f.Partitions() {
		if p.TopicID != (entry.TopicID{1}) || p.Topic != "" || p.Index != 4 {
			t.Errorf("fetched %+v", p.Partition)
		}
	}
}

func TestEpochAfterTheLargestIsOne(t *testing.T) {
	c := newCache(Options{})
	id := open(t, c, "a0")
	c.sessions[id].epoch = math.MaxInt32 - 1
	for _, epoch := range []int32{math.MaxInt32 - 1, math.MaxInt32, 1, 2} {
		end(t, begin(t, c, id, epoch, ""))
	}
}

func TestFullFetchEndsTheSessionItNames(t *testing.T) {
	for _, epoch := range []int32{InitialEpoch, FinalEpoch} {
		c := newCache(Options{})
		id := open(t, c, "a0")
		f := begin(t, c, id, epoch, "a0")
		if got := answer(f, nil); got != "a0" {
			t.Errorf("epoch %d: answered %q", epoch, got)
		}
		again := end(t, f)
		if (again != 0) != (epoch == InitialEpoch) || again == id {
			t.Errorf("epoch %d: new session %d, old one %d", epoch, again, id)
		}
		if _, err := c.Begin(request(id, 1, ""), 0); kerr.Of(err) != kerr.FetchSessionIDNotFound {
			t.Errorf("epoch %d: %v", epoch, err)
		}
	}
}

func TestSessionEndsWithItsLastPartition(t *testing.T) {
	c := newCache(Options{})
	id := open(t, c, "a0 b1")
	f := begin(t, c, id, 1, "", "a0", "b1")
	if f.Len() != 0 {
		t.Errorf("%d partitions are left", f.Len())
	}
	if got := end(t, f); got != 0 {
		t.Errorf("session id %d", got)
	}
	if _, err := c.Begin(request(id, 2, ""), 0); kerr.Of(err) != kerr.FetchSessionIDNotFound {
		t.Error(err)
	}
	if s := c.Stats(); s != (Stats{}) {
		t.Errorf("%+v", s)
	}
}

func TestIncrementalAnswerHoldsOnlyWhatIsNews(t *testing.T) {
	plain := Answer{HighWatermark: 10, LogStart: 2}
	for _, c := range []struct {
		name        string
		then        Answer
		want, after bool // whether then is answered, and whether plain is after it
	}{
		{"nothing", plain, false, false},
		{"records", Answer{HighWatermark: 10, LogStart: 2, Records: true}, true, false},
		{"high watermark", Answer{HighWatermark: 11, LogStart: 2}, true, true},
		{"log start", Answer{HighWatermark: 10, LogStart: 3}, true, true},
		{"diverging epoch or preferred replica", Answer{HighWatermark: 10, LogStart: 2, Directed: true}, true, false},
		{"error", Answer{HighWatermark: -1, LogStart: -1, Failed: true}, true, true},
		{"error with what is known", Answer{HighWatermark: 10, LogStart: 2, Failed: true}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			cache := newCache(Options{})
			f := begin(t, cache, 0, InitialEpoch, "a0")
			walk(f, func(string) Answer { return plain })
			id := end(t, f)
			for i, step := range []struct {
				answer Answer
				want   bool
			}{{plain, false}, {c.then, c.want}, {plain, c.after}, {plain, false}} {
				f := begin(t, cache, id, int32(i+1), "")
				if got := walk(f, func(string) Answer { return step.answer }); (got != "") != step.want {
					t.Errorf("step %d: answered %q, want some: %v", i+1, got, step.want)
				}
				end(t, f)
			}
		})
	}
}

func TestErrorInAFullAnswerIsFollowedByNews(t *testing.T) {
	c := newCache(Options{})
	f := begin(t, c, 0, InitialEpoch, "a0 a1")
	walk(f, func(p string) Answer { return Answer{HighWatermark: 5, Failed: p == "a1"} })
	id := end(t, f)
	f = begin(t, c, id, 1, "")
	if got := walk(f, func(string) Answer { return Answer{HighWatermark: 5} }); got != "a1" {
		t.Errorf("answered %q", got)
	}
}

func TestPartitionsWithRecordsGoToTheEnd(t *testing.T) {
	c := newCache(Options{})
	id := open(t, c, "a0 a1 b0 b1")
	for i, step := range []struct{ records, order string }{
		{"a0 b0", "a1 b1 a0 b0"},
		{"", "a1 b1 a0 b0"},
		{"b0", "a1 b1 a0 b0"},
		{"a1", "b1 a0 b0 a1"},
		{"b1 a0 b0 a1", "b1 a0 b0 a1"},
	} {
		f := begin(t, c, id, int32(2*i+1), "")
		if got := answer(f, strings.Fields(step.records)); len(strings.Fields(got)) != len(strings.Fields(step.records)) {
			t.Errorf("step %d: answered %q", i, got)
		}
		end(t, f)
		f = begin(t, c, id, int32(2*i+2), "")
		if got := walked(f); got != step.order {
			t.Errorf("step %d: order %q, want %q", i, got, step.order)
		}
		end(t, f)
	}
}

func TestOnlyTheLastWalkCounts(t *testing.T) {
	c := newCache(Options{})
	id := open(t, c, "a0 a1")
	f := begin(t, c, id, 1, "")
	answer(f, []string{"a0"}) // too little data: wait and look again
	if got := answer(f, []string{"a1"}); got != "a1" {
		t.Errorf("answered %q", got)
	}
	end(t, f)
	f = begin(t, c, id, 2, "")
	if got := walked(f); got != "a0 a1" {
		t.Errorf("order %q", got)
	}
	end(t, f)
}

func TestThrottledAnswerTellsNothing(t *testing.T) {
	c := newCache(Options{})
	id := open(t, c, "a0 a1")
	f := begin(t, c, id, 1, "")
	answer(f, []string{"a0"})
	if got, err := f.Throttle(0); got != id || err != nil {
		t.Fatalf("session id %d, %v", got, err)
	}
	// The client goes on with the next epoch and hears what it has missed.
	f = begin(t, c, id, 2, "")
	if got := answer(f, []string{"a0"}); got != "a0" {
		t.Errorf("answered %q", got)
	}
	end(t, f)
	f = begin(t, c, 0, InitialEpoch, "a0")
	if got, err := f.Throttle(0); got != 0 || err != nil {
		t.Errorf("a throttled full fetch began session %d, %v", got, err)
	}
	if n := c.Stats().Sessions; n != 1 {
		t.Errorf("%d sessions", n)
	}
}

func TestFetchThatWasOvertakenEndsWithAnError(t *testing.T) {
	c := newCache(Options{})
	id := open(t, c, "a0")
	first, second := begin(t, c, id, 1, ""), begin(t, c, id, 2, "b0")
	if first.Len() != 0 || walked(first) != "" {
		t.Error("the overtaken fetch has partitions")
	}
	if _, err := first.End(0); kerr.Of(err) != kerr.InvalidFetchSessionEpoch {
		t.Error(err)
	}
	if _, err := first.Throttle(0); kerr.Of(err) != kerr.InvalidFetchSessionEpoch {
		t.Error(err)
	}
	if got := answer(second, []string{"a0"}); got != "a0 b0" {
		t.Errorf("answered %q", got)
	}
	end(t, second)
}

func TestFetchOutlivesTheEndOfItsSession(t *testing.T) {
	c := newCache(Options{})
	id := open(t, c, "a0")
	pending := begin(t, c, id, 1, "")
	end(t, begin(t, c, id, FinalEpoch, ""))
	if got := answer(pending, []string{"a0"}); got != "a0" {
		t.Errorf("answered %q", got)
	}
	if got := end(t, pending); got != id {
		t.Errorf("session id %d", got)
	}
	if s := c.Stats(); s != (Stats{}) {
		t.Errorf("%+v", s)
	}
}

func TestPartitionListedTwiceIsOneInTheSession(t *testing.T) {
	c := newCache(Options{})
	id := open(t, c, "a0 a1 a0")
	f := begin(t, c, id, 1, "")
	if got := walked(f); got != "a0 a1" {
		t.Errorf("fetched %q", got)
	}
}

func TestSessionsTellWhoseTheyAre(t *testing.T) {
	c := newCache(Options{})
	for i, client := range []string{"app-1", "app-2"} {
		r := request(0, InitialEpoch, "a0 a1")
		r.ClientID = client
		f, err := c.Begin(r, entry.Time(i))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.End(entry.Time(10 + i)); err != nil {
			t.Fatal(err)
		}
	}
	list := c.Sessions()
	for i, want := range []string{"app-1", "app-2"} {
		if got := list[i]; got.ClientID != want || got.Partitions != 2 || got.LastUsed != entry.Time(10+i) || got.Bytes < 200 {
			t.Errorf("%+v", got)
		}
	}
}

// newCache returns a cache with session ids from 1.
func newCache(o Options) *Cache {
	var last uint32
	return New(o, func() uint32 { last++; return last })
}

// request makes a request from partitions written as topic and number: "a0 b12".
func request(id, epoch int32, partitions string, forgotten ...string) *Request {
	r := &Request{SessionID: id, Epoch: epoch}
	for _, p := range strings.Fields(partitions) {
		topic, index := parse(p)
		r.Partitions = append(r.Partitions, Partition{Topic: topic, Index: index})
	}
	for _, p := range forgotten {
		topic, index := parse(p)
		r.Forgotten = append(r.Forgotten, ForgottenPartition{Topic: topic, Index: index})
	}
	return r
}

func parse(p string) (topic string, index int32) {
	if _, err := fmt.Sscanf(p[1:], "%d", &index); err != nil {
		panic(err)
	}
	return p[:1], index
}

func begin(t testing.TB, c *Cache, id, epoch int32, partitions string, forgotten ...string) *Fetch {
	t.Helper()
	f, err := c.Begin(request(id, epoch, partitions, forgotten...), 0)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func end(t testing.TB, f *Fetch) int32 {
	t.Helper()
	id, err := f.End(0)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// open begins a session whose partitions are all empty and known to be.
func open(t testing.TB, c *Cache, partitions string) int32 {
	t.Helper()
	f := begin(t, c, 0, InitialEpoch, partitions)
	answer(f, nil)
	return end(t, f)
}

// walk answers for each partition and lists those that were to be told.
func walk(f *Fetch, read func(p string) Answer) string {
	var told []string
	for p := range f.Partitions() {
		name := fmt.Sprint(p.Topic, p.Index)
		if p.Answer(read(name)) {
			told = append(told, name)
		}
	}
	return strings.Join(told, " ")
}

// answer walks over partitions that are empty, except for some with records.
func answer(f *Fetch, records []string) string {
	return walk(f, func(p string) Answer {
		for _, r := range records {
			if r == p {
				return Answer{Records: true}
			}
		}
		return Answer{}
	})
}

// walked lists the partitions in order, and answers for none.
func walked(f *Fetch) string {
	var all []string
	for p := range f.Partitions() {
		all = append(all, fmt.Sprint(p.Topic, p.Index))
	}
	return strings.Join(all, " ")
}

const minute = entry.Time(time.Minute / time.Millisecond)
