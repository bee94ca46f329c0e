package group

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/group/classic"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

func TestMembersAreToldWhenTheirTimeHasCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, store{}, nil)
		defer r.stop()
		began := time.Now()
		_, a := r.join("g", "a")
		time.Sleep(time.Second)
		_, b := r.join("g", "b")
		leader, follower := <-a, <-b
		// The delay, and once more for b.
		if d := time.Since(began); d != 6*time.Second {
			t.Errorf("joined after %v", d)
		}
		if leader.Generation != 1 || len(leader.Members) != 2 || follower.Generation != 1 || len(follower.Members) != 0 {
			t.Errorf("%+v, %+v", leader, follower)
		}
		_, bs := r.sync("g", "b-1", 1)
		time.Sleep(time.Second)
		_, as := r.sync("g", "a-1", 1, "a-1", "0", "b-1", "1")
		if x, y := <-as, <-bs; string(x.Assignment) != "0" || string(y.Assignment) != "1" {
			t.Errorf("%+v, %+v", x, y)
		}
		// Without heartbeats both are removed, and the group is empty.
		time.Sleep(11 * time.Second)
		if d, ok := r.Describe("g"); !ok || d.State != classic.Empty || len(d.Members) != 0 || d.ProtocolType != "consumer" {
			t.Errorf("%+v, %v", d, ok)
		}
		want(t, r.Heartbeat("g", "a-1", "", 1), kerr.UnknownMemberID)
		stats := r.Stats()
		if stats.Members != 0 || stats.Rebalances != 1 || stats.Silent != 2 || stats.Groups["Empty"] != 1 || len(r.shard("g").groups) != 0 {
			t.Errorf("%+v", stats)
		}
	})
}

func TestClientThatGoesAwayIsForgottenAndItsRequestAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, store{}, nil)
		defer r.stop()
		r.stable(t, "g", "a")
		for i := range 20 {
			ticket, answer := r.join("g", fmt.Sprintf("phantom%d", i))
			synctest.Wait()
			r.Gone("g", ticket)
			if a := <-answer; a.Err == nil {
				t.Errorf("%+v", a)
			}
			r.Gone("g", ticket) // nothing more
		}
		d, _ := r.Describe("g")
		if len(d.Members) != 1 || d.State != classic.PreparingRebalance {
			t.Errorf("%+v", d)
		}
		_, answer := r.rejoin("g", "a", "a-1", "")
		if a := <-answer; a.Err != nil || a.Generation != 2 || len(a.Members) != 1 {
			t.Errorf("%+v", a)
		}
		// The same for a sync, which its member may send again.
		_, b := r.join("g", "b")
		synctest.Wait()
		_, a := r.rejoin("g", "a", "a-1", "")
		<-a
		<-b
		ticket, lost := r.sync("g", "b-1", 3)
		synctest.Wait()
		r.Gone("g", ticket)
		<-lost
		_, as := r.sync("g", "a-1", 3, "b-1", "work")
		<-as
		_, bs := r.sync("g", "b-1", 3)
		if s := <-bs; string(s.Assignment) != "work" {
			t.Errorf("%+v", s)
		}
		if r.Stats().Held != 0 {
			t.Errorf("%+v", r.Stats())
		}
	})
}

func TestStopAnswersWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, store{}, nil)
		_, a := r.join("g", "a")
		synctest.Wait()
		generation := r.stable(t, "h", "x")
		r.log.set(func() { r.log.closed = true })
		_, b := r.join("h", "b")
		synctest.Wait()
		_, x := r.rejoin("h", "x", "x-1", "")
		<-x
		<-b
		_, s := r.sync("h", "b-1", generation+1)
		synctest.Wait()
		r.Stop()
		want(t, (<-s).Err, kerr.CoordinatorNotAvailable)
		select {
		case answer := <-a:
			if answer.Err != nil && kerr.Of(answer.Err) != kerr.CoordinatorNotAvailable {
				t.Errorf("%+v", answer)
			}
		default:
			t.Error("the join is still held")
		}
		_, late := r.join("g", "late")
		want(t, (<-late).Err, kerr.CoordinatorNotAvailable)
		_, s = r.sync("h", "b-1", generation+1)
		want(t, (<-s).Err, kerr.CoordinatorNotAvailable)
		r.log.set(func() { r.log.closed = false })
		want(t, r.Heartbeat("h", "b-1", "", generation+1), kerr.None)
		r.stop()
	})
}

func TestMembersCarryOnAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := store{}
		r := start(t, disk, nil)
		generation := r.stable(t, "g", "a")
		want(t, r.commit(commitOf("g", "a-1", generation, 1, 0, 42)), kerr.None)
		r.stop()

		r = start(t, disk, nil)
		want(t, r.Heartbeat("g", "a-1", "", generation), kerr.None)
		want(t, r.commit(commitOf("g", "a-1", generation, 1, 0, 43)), kerr.None)
		if d, _ := r.Describe("g"); d.State != classic.Stable || string(d.Members[0].Assignment) != "all" || r.offset("g", 1, 0) != 43 {
			t.Errorf("%+v", d)
		}
		// A member that does not come back has a whole session from the start on.
		time.Sleep(9 * time.Second)
		want(t, r.Heartbeat("g", "a-1", "", generation), kerr.None)
		time.Sleep(11 * time.Second)
		want(t, r.Heartbeat("g", "a-1", "", generation), kerr.UnknownMemberID)
		r.stop()

		r = start(t, disk, nil)
		if d, _ := r.Describe("g"); d.State != classic.Empty || r.offset("g", 1, 0) != 43 {
			t.Errorf("%+v", d)
		}
		if next := r.stable(t, "g", "b"); next != generation+2 {
			t.Errorf("generation %d after %d and an empty one", next, generation)
		}
		r.stop()
	})
}

func TestEntriesOfAGroupKeepTheOrderOfItsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, store{}, nil)
		defer r.stop()
		generation := r.stable(t, "g", "a")
		r.log.set(func() { r.log.closed = true })
		committed, left, outside, deleted := make(chan error, 1), make(chan error, 1), make(chan error, 1), make(chan error, 1)
		r.Commit(commitOf("g", "a-1", generation, 1, 0, 1), 8, func(_ []entry.TopicID, err error) { committed <- err })
		r.Leave("g", []classic.Leaver{{MemberID: "a-1"}}, func(_ []error, err error) { left <- err })
		r.Commit(commitOf("g", "", -1, 1, 0, 2), 8, func(_ []entry.TopicID, err error) { outside <- err })
		r.Delete("g", func(err error) { deleted <- err })
		// A late one of the member is refused at once.
		r.Commit(commitOf("g", "a-1", generation, 1, 0, 3), 8, func(_ []entry.TopicID, err error) { want(t, err, kerr.UnknownMemberID) })
		r.log.set(func() { r.log.closed = false })
		for _, done := range []chan error{committed, left, outside, deleted} {
			want(t, <-done, kerr.None)
		}
		if _, ok := r.Describe("g"); ok || r.log.state.exist("g") {
			t.Error("the group is still there")
		}
		want(t, r.delete("g"), kerr.GroupIDNotFound)
		kinds := r.log.applied()
		if !slices.Equal(kinds[len(kinds)-4:], []entry.Type{entry.TypeCommitOffsets, entry.TypeClassicGroup, entry.TypeCommitOffsets, entry.TypeDeleteGroup}) {
			t.Errorf("%v", kinds)
		}
	})
}

func TestReadersWaitForTheCommitsBeforeThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, store{}, nil)
		defer r.stop()
		seen := make(chan int64, 3)
		look := func() { seen <- r.offset("g", 1, 0) }
		if !r.AfterCommits("g", look) || <-seen != -1 {
			t.Error("waited for nothing")
		}
		r.log.set(func() { r.log.closed = true })
		for i := range 3 {
			r.Commit(commitOf("g", "", -1, 1, 0, int64(i)), 8, func([]entry.TopicID, error) {})
		}
		if r.AfterCommits("g", look) || !r.AfterCommits("another", func() {}) {
			t.Error("did not wait, or for another group")
		}
		// Nobody waits for those behind.
		r.Commit(commitOf("g", "", -1, 1, 0, 100), 8, func([]entry.TopicID, error) {})
		r.log.set(func() { r.log.closed = false })
		if got := <-seen; got != 2 {
			t.Errorf("saw %d", got)
		}
		synctest.Wait()
		if !r.AfterCommits("g", look) || <-seen != 100 || len(r.shard("g").flights) != 0 {
			t.Error("commits that landed are waited for")
		}
	})
}

func TestStorageTroubleIsShownAsCoordinatorTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, store{}, func(o *Options) { o.Limits.InitialDelay = 0 })
		defer r.stop()
		_, joined := r.join("g", "a")
		<-joined
		r.log.set(func() { r.log.full = true })
		_, synced := r.sync("g", "a-1", 1, "a-1", "all")
		want(t, (<-synced).Err, kerr.CoordinatorNotAvailable)
		want(t, r.commit(commitOf("h", "", -1, 1, 0, 1)), kerr.CoordinatorNotAvailable)
		want(t, r.delete("h"), kerr.GroupIDNotFound)
		r.log.set(func() { r.log.full = false })
		_, joined = r.rejoin("g", "a", "a-1", "")
		if a := <-joined; a.Generation != 2 {
			t.Fatalf("%+v", a)
		}
		_, synced = r.sync("g", "a-1", 2, "a-1", "all")
		want(t, (<-synced).Err, kerr.None)
		// That it is empty is tried again until it is written down.
		r.log.set(func() { r.log.full = true })
		want(t, r.leave("g", "a-1"), kerr.None)
		time.Sleep(1500 * time.Millisecond)
		r.log.set(func() { r.log.full = false })
		want(t, r.commit(commitOf("g", "", -1, 1, 0, 1)), kerr.UnknownMemberID)
		time.Sleep(time.Second)
		want(t, r.commit(commitOf("g", "", -1, 1, 0, 1)), kerr.None)
		if len(r.shard("g").groups) != 0 {
			t.Error("the empty group is still live")
		}
	})
}

func TestOffsetsOutliveTheirGroupByTheRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := store{}
		r := start(t, disk, nil)
		generation := r.stable(t, "g", "a")
		want(t, r.commit(commitOf("g", "a-1", generation, 1, 0, 42)), kerr.None)
		want(t, r.commit(commitOf("g", "a-1", generation, 2, 0, 7)), kerr.None) // not subscribed to t2
		want(t, r.commit(commitOf("simple", "", -1, 1, 0, 1)), kerr.None)
		short := commitOf("short", "", -1, 1, 0, 1)
		short.Retention = 1000
		want(t, r.commit(short), kerr.None)
		alive := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Second) {
				want(t, r.Heartbeat("g", "a-1", "", generation), kerr.None)
			}
		}
		alive(2 * time.Minute)
		if r.offset("short", 1, 0) != -1 || r.offset("simple", 1, 0) != 1 {
			t.Error("the retention of a commit does not count")
		}
		alive(time.Hour)
		if r.offset("simple", 1, 0) != -1 || r.log.state.exist("simple") {
			t.Error("an offset of nobody's is kept for ever")
		}
		if r.offset("g", 1, 0) != 42 || r.offset("g", 2, 0) != -1 {
			t.Errorf("of a group with members are left: %d, %d", r.offset("g", 1, 0), r.offset("g", 2, 0))
		}
		want(t, r.leave("g", "a-1"), kerr.None)
		time.Sleep(30 * time.Minute)
		r.stop()
		// A restart neither shortens nor prolongs it.
		r = start(t, disk, nil)
		time.Sleep(29 * time.Minute)
		if r.offset("g", 1, 0) != 42 {
			t.Error("expired too early")
		}
		time.Sleep(2 * time.Minute)
		if r.offset("g", 1, 0) != -1 || r.log.state.exist("g") {
			t.Error("the group is still there")
		}
		r.stop()
		if len(disk) != 1 { // the number of the next group
			t.Errorf("left behind:\n%v", disk)
		}
	})
}

func TestListAndDeleteGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, store{}, nil)
		defer r.stop()
		r.stable(t, "stable", "a")
		r.stable(t, "empty", "c")
		want(t, r.leave("empty", "c-1"), kerr.None)
		want(t, r.commit(commitOf("simple", "", -1, 1, 0, 1)), kerr.None)
		r.join("preparing", "b")
		names := func(states, kinds []string) (all []string) {
			for _, one := range r.List(states, kinds) {
				all = append(all, one.Name+" "+one.State.String()+" "+one.ProtocolType)
			}
			return all
		}
		for _, c := range []struct{ states, kinds, want []string }{
			{nil, nil, []string{"empty Empty consumer", "preparing PreparingRebalance consumer", "simple Empty ", "stable Stable consumer"}},
			{[]string{"STABLE"}, nil, []string{"stable Stable consumer"}},
			{[]string{"empty"}, []string{"Classic"}, []string{"empty Empty consumer", "simple Empty "}},
			{nil, []string{"share"}, nil},
			{[]string{"dead"}, nil, nil},
		} {
			if got := names(c.states, c.kinds); !slices.Equal(got, c.want) {
				t.Errorf("%v, %v: %q", c.states, c.kinds, got)
			}
		}
		for group, code := range map[string]kerr.Code{
			"stable": kerr.NonEmptyGroup, "preparing": kerr.NonEmptyGroup, "empty": kerr.None, "simple": kerr.None, "none": kerr.GroupIDNotFound,
		} {
			want(t, r.delete(group), code)
		}
		if got := names([]string{"Empty"}, nil); got != nil {
			t.Errorf("left: %q", got)
		}
		want(t, r.leave("none", "x"), kerr.UnknownMemberID)
		for _, err := range []error{r.Heartbeat("", "a", "", 1), r.leave("", "a")} {
			want(t, err, kerr.InvalidGroupID)
		}
	})
}

func TestDeleteOffsets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, store{}, nil)
		defer r.stop()
		generation := r.stable(t, "g", "a") // subscribed to t1
		want(t, r.commit(commitOf("g", "a-1", generation, 1, 0, 1)), kerr.None)
		want(t, r.commit(commitOf("g", "a-1", generation, 2, 0, 2)), kerr.None)
		del := func(group string) ([]kerr.Code, error) {
			var codes []kerr.Code
			done := make(chan error, 1)
			r.DeleteOffsets(group, []NamedPartitions{
				{"t1", TopicPartitions{topicID(1), []int32{0, 9}}}, {"t2", TopicPartitions{topicID(2), []int32{0}}},
			}, func(c []kerr.Code, err error) { codes = c; done <- err })
			err := <-done
			return codes, err
		}
		codes, err := del("g")
		if err != nil || !slices.Equal(codes, []kerr.Code{kerr.GroupSubscribedToTopic, kerr.None}) {
			t.Errorf("%v, %v", codes, err)
		}
		if r.offset("g", 1, 0) != 1 || r.offset("g", 2, 0) != -1 {
			t.Error("wrong offsets are gone")
		}
		want(t, r.leave("g", "a-1"), kerr.None)
		if codes, err = del("g"); err != nil || !slices.Equal(codes, []kerr.Code{kerr.None, kerr.None}) || r.offset("g", 1, 0) != -1 {
			t.Errorf("%v, %v", codes, err)
		}
		_, err = del("none")
		want(t, err, kerr.GroupIDNotFound)
	})
}

// TestManyAtOnce has the race detector look, and the end be an orderly one.
func TestManyAtOnce(t *testing.T) {
	disk := store{}
	r := start(t, disk, func(o *Options) { o.Limits.InitialDelay = 0; o.CheckEvery = time.Millisecond })
	var running sync.WaitGroup
	for i := range 8 {
		running.Add(1)
		go func() {
			defer running.Done()
			for n := range 20 {
				group := fmt.Sprintf("g%d", (i+n)%4)
				id := fmt.Sprintf("c%d-%d", i, n)
				ticket, joined := r.rejoin(group, "c", "", id)
				select {
				case a := <-joined:
					if a.Err == nil {
						_, synced := r.sync(group, id, a.Generation, id, "x")
						select {
						case <-synced:
						case <-time.After(5 * time.Millisecond):
						}
						_ = r.commit(commitOf(group, id, a.Generation, 1, int32(n), 1))
						_ = r.Heartbeat(group, id, "", a.Generation)
					}
				case <-time.After(5 * time.Millisecond):
					r.Gone(group, ticket)
				}
				_ = r.leave(group, id)
				_ = r.commit(commitOf(group, "", -1, 1, int32(n), 1))
				r.Describe(group)
				r.Stats()
				_ = r.delete(group)
			}
		}()
	}
	running.Wait()
	for i := range 4 {
		group := fmt.Sprintf("g%d", i)
		d, _ := r.Describe(group)
		for _, m := range d.Members {
			_ = r.leave(group, m.ID)
		}
		if err := r.delete(group); err != nil && kerr.Of(err) != kerr.GroupIDNotFound {
			t.Errorf("%s: %v", group, err)
		}
	}
	if stats := r.Stats(); stats.Members != 0 || stats.Offsets != 0 || stats.Held != 0 {
		t.Errorf("%+v", stats)
	}
	r.stop()
	if len(disk) != 1 {
		t.Errorf("left behind:\n%v", disk)
	}
}

// Anybody can have member ids handed out, in as many groups as they like.
func TestIDsHandedOutInManyGroupsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, store{}, nil)
		defer r.stop()
		generation := r.stable(t, "g", "a")
		refused := 0
		for i := range 2 * shards * maxEmpty {
			r.Join(fmt.Sprintf("group%d", i), &classic.Join{
				NewID: "x", IDRequired: true, SessionTimeout: 10 * time.Second, ProtocolType: "consumer",
				Protocols: []classic.Protocol{{Name: "range"}},
			}, func(a classic.Joined) {
				if kerr.Of(a.Err) == kerr.CoordinatorLoadInProgress {
					refused++
				} else {
					want(t, a.Err, kerr.MemberIDRequired)
				}
			})
		}
		if refused < shards*maxEmpty {
			t.Errorf("only %d were refused", refused)
		}
		want(t, r.Heartbeat("g", "a-1", "", generation), kerr.None)
		time.Sleep(9 * time.Second)
		want(t, r.Heartbeat("g", "a-1", "", generation), kerr.None)
		time.Sleep(2 * time.Second)
		for i := range r.shards {
			if n := len(r.shards[i].groups); n > 1 {
				t.Errorf("shard %d has %d groups", i, n)
			}
		}
		r.stable(t, "h", "b")
	})
}
