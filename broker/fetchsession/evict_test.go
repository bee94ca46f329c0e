package fetchsession

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// openAt begins a session of n partitions at a time; 0 means that there is none.
func openAt(t *testing.T, c *Cache, now entry.Time, n int) int32 {
	t.Helper()
	r := &Request{Epoch: InitialEpoch}
	for i := range n {
		r.Partitions = append(r.Partitions, Partition{Topic: "t", Index: int32(i)})
	}
	f, err := c.Begin(r, now)
	if err != nil {
		t.Fatal(err)
	}
	id, err := f.End(now)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// use continues a session at a time.
func use(t *testing.T, c *Cache, now entry.Time, id, epoch int32) error {
	t.Helper()
	f, err := c.Begin(&Request{SessionID: id, Epoch: epoch}, now)
	if err != nil {
		return err
	}
	if got, err := f.End(now); err != nil || got != id {
		t.Fatalf("session %d ends as %d, %v", id, got, err)
	}
	return nil
}

func TestBusySessionsAreKeptFromOneShotSessions(t *testing.T) {
	c := newCache(Options{Slots: 10})
	var busy [10]int32
	for i := range busy {
		busy[i] = openAt(t, c, 0, 3)
	}
	epoch := int32(1)
	// Ten minutes: each second the busy ones fetch, and ten others come once.
	for now := entry.Time(0); now < 10*minute; now += 1000 {
		for _, id := range busy {
			if err := use(t, c, now, id, epoch); err != nil {
				t.Fatalf("at %d: %v", now, err)
			}
		}
		for range 10 {
			if id := openAt(t, c, now, 3); id != 0 {
				t.Fatalf("at %d: a one-shot session took a slot", now)
			}
		}
		epoch++
	}
	if s := c.Stats(); s.Sessions != 10 || s.Evictions != 0 || s.Partitions != 30 {
		t.Errorf("%+v", s)
	}
}

func TestIdleSessionMakesRoom(t *testing.T) {
	c := newCache(Options{Slots: 2})
	idle, busy := openAt(t, c, 0, 3), openAt(t, c, 0, 3)
	if err := use(t, c, 1, busy, 1); err != nil {
		t.Fatal(err)
	}
	if id := openAt(t, c, 2*minute, 3); id != 0 {
		t.Fatal("a session took a slot too early")
	}
	if id := openAt(t, c, 2*minute+1, 1); id == 0 {
		t.Fatal("the idle session made no room")
	}
	if err := use(t, c, 2*minute+1, idle, 1); kerr.Of(err) != kerr.FetchSessionIDNotFound {
		t.Errorf("the idle session: %v", err)
	}
	if err := use(t, c, 2*minute+1, busy, 2); err != nil {
		t.Errorf("the busy session: %v", err)
	}
}

func TestSmallestOldSessionMakesRoomForALargerOne(t *testing.T) {
	c := newCache(Options{Slots: 3})
	large, small, other := openAt(t, c, 0, 9), openAt(t, c, 0, 4), openAt(t, c, 0, 5)
	if id := openAt(t, c, 1, 100); id != 0 {
		t.Fatal("a young session made room")
	}
	now := 2*minute + 1
	for _, id := range []int32{large, small, other} {
		if err := use(t, c, now, id, 1); err != nil {
			t.Fatal(err)
		}
	}
	if id := openAt(t, c, now, 4); id != 0 {
		t.Error("a session made room for one that is not larger")
	}
	if id := openAt(t, c, now, 5); id == 0 {
		t.Error("the smallest made no room")
	}
	if err := use(t, c, now, small, 2); kerr.Of(err) != kerr.FetchSessionIDNotFound {
		t.Errorf("the smallest: %v", err)
	}
	if n := c.Stats().Evictions; n != 1 {
		t.Errorf("%d evictions", n)
	}
}

func TestGrownSessionIsNoLongerTheSmallest(t *testing.T) {
	c := newCache(Options{Slots: 2})
	a, b := openAt(t, c, 0, 2), openAt(t, c, 0, 3)
	now := 2*minute + 1
	for _, id := range []int32{a, b} {
		if err := use(t, c, now, id, 1); err != nil {
			t.Fatal(err)
		}
	}
	r := request(a, 2, "x0 x1 x2 x3")
	f, err := c.Begin(r, now)
	if err != nil {
		t.Fatal(err)
	}
	end(t, f)
	if id := openAt(t, c, now, 5); id == 0 {
		t.Fatal("nobody made room")
	}
	if err := use(t, c, now, a, 3); err != nil {
		t.Errorf("the grown session: %v", err)
	}
}

func TestCacheWithoutSlotsHasNoSessions(t *testing.T) {
	if id := openAt(t, newCache(Options{Slots: -1}), 0, 1); id != 0 {
		t.Errorf("session %d", id)
	}
}

func TestSessionThatIsTooLargeIsNotBegun(t *testing.T) {
	c := newCache(Options{SessionBytes: 10 * partitionBytes})
	if id := openAt(t, c, 0, 20); id != 0 {
		t.Error("a session of 20 partitions was begun")
	}
	if id := openAt(t, c, 0, 2); id == 0 {
		t.Error("a session of 2 partitions was not")
	}
}

func TestSessionThatGrowsTooLargeEnds(t *testing.T) {
	for name, o := range map[string]Options{"session": {SessionBytes: 20 * partitionBytes}, "total": {TotalBytes: 20 * partitionBytes}} {
		c := newCache(o)
		id := openAt(t, c, 0, 2)
		var more strings.Builder
		for i := range 30 {
			fmt.Fprintf(&more, "x%d ", i)
		}
		if _, err := c.Begin(request(id, 1, more.String()), 0); kerr.Of(err) != kerr.FetchSessionIDNotFound {
			t.Errorf("%s: %v", name, err)
		}
		if s := c.Stats(); s != (Stats{}) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestIdleSessionsMakeRoomInMemory(t *testing.T) {
	c := newCache(Options{TotalBytes: 100 * partitionBytes})
	for range 3 {
		if openAt(t, c, 0, 20) == 0 {
			t.Fatal("no session")
		}
	}
	if openAt(t, c, 1, 60) != 0 {
		t.Error("sessions in use made room")
	}
	big := openAt(t, c, 3*minute, 60)
	if big == 0 {
		t.Fatal("idle sessions made no room")
	}
	if s := c.Stats(); s.Evictions != 2 || s.Sessions != 2 {
		t.Errorf("%+v", s)
	}
	// One that grows takes the room of an idle one too.
	var more strings.Builder
	for i := range 25 {
		fmt.Fprintf(&more, "x%d ", i)
	}
	if _, err := c.Begin(request(big, 1, more.String()), 3*minute); err != nil {
		t.Error(err)
	}
	if s := c.Stats(); s.Evictions != 3 || s.Sessions != 1 || s.Partitions != 85 {
		t.Errorf("%+v", s)
	}
}

func TestIDsInUseAndZeroAreNotGiven(t *testing.T) {
	next := []uint32{0, 1 << 31, 5, 5, 1<<31 | 5, 6}
	c := New(Options{}, func() uint32 { n := next[0]; next = next[1:]; return n })
	if a, b := open(t, c, "a0"), open(t, c, "a0"); a != 5 || b != 6 {
		t.Errorf("ids %d and %d", a, b)
	}
}

func TestClockThatRunsBackEvictsNobodyInUse(t *testing.T) {
	c := newCache(Options{Slots: 1})
	id := openAt(t, c, 10*minute, 2)
	if err := use(t, c, minute, id, 1); err != nil {
		t.Fatal(err)
	}
	if openAt(t, c, 10*minute, 2) != 0 {
		t.Error("the session made room")
	}
}
