package group

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/group/classic"
	"github.com/sluicemq/sluice/group/consumer"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// ordering is groups of which all are ordered; partition n of t1 has the number
// 100+n.
type ordering struct{ off *bool }

func (o ordering) Ordered(string) bool { return o.off == nil || !*o.off }
func (ordering) Partition(id entry.TopicID, index int32) (entry.Partition, bool) {
	return entry.Partition(100 + index), id == topicT1
}
func (ordering) Exists(p entry.Partition) bool { return p >= 100 && p < 108 }

func ordered(change func(*Options)) func(*Options) {
	return func(o *Options) {
		withConsumers(nil)(o)
		o.Ordering, o.Lease = ordering{}, time.Minute
		if change != nil {
			change(o)
		}
	}
}

// mayUse counts the partitions of t1 whose offsets the member may be told, and for
// which it may commit.
func (r *rig) mayUse(group, member string, epoch int32) (fetch, commit int) {
	q := commitOf(group, member, epoch, 1, 0, 42)
	q.Topics[0].ID = topicT1
	for i := range int32(8) {
		if r.MayFetch(group, member, topicT1, i) {
			fetch++
		}
		o := q.Topics[0].Offsets[0]
		o.Partition = i
		q.Topics[0].Offsets = append(q.Topics[0].Offsets[:i], o)
	}
	r.Admit(q, 9, func(entry.TopicID, int32, error) {})
	return fetch, len(q.Topics[0].Offsets)
}

func wantUse(t *testing.T, r *rig, m *modernMember, fetch, commit int) {
	t.Helper()
	if f, c := r.mayUse(m.group, m.id, m.epoch); f != fetch || c != commit {
		t.Errorf("%s may fetch %d and commit %d, want %d and %d; locks %+v", m.id, f, c, fetch, commit, r.Locks(m.group))
	}
}

func TestSuccessorWaitsForTheLeaseOfWhoWasThrownOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := store{}
		r := start(t, disk, ordered(nil))
		a, b := &modernMember{r: r, group: "g", id: "a"}, &modernMember{r: r, group: "g", id: "b"}
		want(t, a.join().Err, kerr.None)
		wantUse(t, r, a, 8, 8) // as soon as it is answered
		want(t, b.join().Err, kerr.None)
		settle(t, r, "g", a, b)
		wantUse(t, r, a, 4, 4)
		wantUse(t, r, b, 4, 4)

		// a falls silent. After 45 seconds b is assigned everything, and can do nothing
		// with it before a minute is over.
		begin := time.Now()
		for time.Since(begin) < 50*time.Second {
			time.Sleep(5 * time.Second)
			want(t, b.beat().Err, kerr.None)
		}
		settle(t, r, "g", b)
		if b.owned.Count() != 8 {
			t.Fatalf("%v", b.owned)
		}
		wantUse(t, r, b, 4, 4)
		// A restart makes the lease no shorter.
		r.stop()
		r = start(t, disk, ordered(nil))
		a.r, b.r = r, r
		time.Sleep(8 * time.Second)
		want(t, b.beat().Err, kerr.None)
		wantUse(t, r, b, 4, 4)
		time.Sleep(3 * time.Second)
		wantUse(t, r, b, 8, 8)
		want(t, a.beat().Err, kerr.UnknownMemberID)
		for _, l := range r.Locks("g") {
			if l.Member != "b" {
				t.Errorf("%+v", l)
			}
		}
		// It leaves: nothing is locked any more.
		want(t, b.leave().Err, kerr.None)
		if all := r.LockedGroups(); len(all) != 0 {
			t.Errorf("%v", all)
		}
		r.stop()
	})
}

func TestBrokerThatDiesBeforeItHasWrittenAnEndOfALeaseGivesAWholeOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := store{}
		r := start(t, disk, ordered(nil))
		a, b := &modernMember{r: r, group: "g", id: "a"}, &modernMember{r: r, group: "g", id: "b"}
		want(t, a.join().Err, kerr.None)
		// The state knows that a is out and b has all, but not what of the locks.
		r.stop()
		l := newLog(disk)
		if err := l.state.Load(disk); err != nil {
			t.Fatal(err)
		}
		st := *l.state.groups["g"].consumer
		member := *st.Members[0]
		member.ID = "b"
		st.Members = append(st.Members[:0:0], &member)
		l.state.put("g", &record{kind: Consumer, consumer: &st})
		l.state.Checkpoint(disk)

		r = start(t, disk, ordered(nil))
		defer r.stop()
		b.r, b.epoch, b.owned = r, 2, member.Target
		synctest.Wait()
		wantUse(t, r, b, 0, 0)
		for range 11 {
			time.Sleep(5 * time.Second)
			want(t, b.beat().Err, kerr.None)
		}
		wantUse(t, r, b, 0, 0)
		time.Sleep(6 * time.Second)
		wantUse(t, r, b, 8, 8)
	})
}

func TestStaticMemberKeepsItsLocksThroughABounce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, store{}, ordered(nil))
		defer r.stop()
		instance := "i"
		a, b := &modernMember{r: r, group: "g", id: "a"}, &modernMember{r: r, group: "g", id: "b"}
		h := a.joining()
		h.Instance = &instance
		want(t, a.hear(a.ask(h)).Err, kerr.None)
		epoch := a.epoch
		a.epoch = -2
		want(t, a.hear(a.ask(&consumer.Heartbeat{RebalanceTimeout: -1, Instance: &instance})).Err, kerr.None)
		time.Sleep(30 * time.Second)
		h = b.joining()
		h.Instance = &instance
		want(t, b.hear(b.ask(h)).Err, kerr.None)
		wantUse(t, r, b, 8, 8)
		a.epoch = epoch
		wantUse(t, r, a, 0, 8) // as a whole its commit is refused
		want(t, r.commit9(commitOf("g", "a", epoch, 1, 0, 42)), kerr.UnknownMemberID)
	})
}

func TestClassicOrderedGroupHoldsBackWhoComesAfterASilentMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, store{}, ordered(nil))
		defer r.stop()
		generation := r.stableConsumer(t, "g", "a")
		if !r.MayFetch("g", "", topicT1, 0) || !r.MayFetch("g", "", topicT1, 1) || len(r.Locks("g")) != 2 {
			t.Errorf("%+v", r.Locks("g"))
		}
		if _, c := r.mayUse("g", "a-1", generation); c != 2 {
			t.Errorf("may commit %d", c)
		}
		// It falls silent; the session of ten seconds ends.
		time.Sleep(11 * time.Second)
		next := r.stableConsumer(t, "g", "b")
		if next <= generation {
			t.Errorf("generation %d after %d", next, generation)
		}
		if r.MayFetch("g", "", topicT1, 0) || !r.MayFetch("g", "", topicT1, 1) {
			t.Errorf("%+v", r.Locks("g"))
		}
		if _, c := r.mayUse("g", "b-1", next); c != 0 {
			t.Errorf("may commit %d", c)
		}
		for range 7 {
			time.Sleep(9 * time.Second)
			want(t, r.Heartbeat("g", "b-1", "", next), kerr.None)
		}
		if _, c := r.mayUse("g", "b-1", next); c != 2 || !r.MayFetch("g", "", topicT1, 0) {
			t.Errorf("%+v", r.Locks("g"))
		}
		want(t, r.commit(commitOf("g", "a-1", generation, 1, 0, 42)), kerr.UnknownMemberID)
		// Who leaves of its own accord holds nobody back.
		want(t, r.leave("g", "b-1"), kerr.None)
		next = r.stableConsumer(t, "g", "c")
		if _, c := r.mayUse("g", "c-1", next); c != 2 || !r.MayFetch("g", "", topicT1, 0) {
			t.Errorf("%+v", r.Locks("g"))
		}
	})
}

// A member that sees the rebalance and does not join is at work until its lease is
// over, whether it is thrown out then, or kept because it is static.
func TestClassicOrderedGroupHoldsBackWhoComesAfterAMemberThatDoesNotJoinAgain(t *testing.T) {
	for _, instance := range []string{"", "i"} {
		t.Run("instance "+instance, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, store{}, ordered(nil))
				defer r.stop()
				_, joined := r.joinAs("g", "a", instance)
				first := (<-joined).Generation
				_, synced := r.sync("g", "a-1", first, "a-1", twoOfT1)
				want(t, (<-synced).Err, kerr.None)
				_, joined = r.join("g", "b")
				for range 11 {
					time.Sleep(5 * time.Second)
					want(t, r.Heartbeat("g", "a-1", instance, first), kerr.RebalanceInProgress)
				}
				heard := time.Now()
				next := (<-joined).Generation
				if waited := time.Since(heard); waited > 6*time.Second || next <= first {
					t.Fatalf("generation %d after %v", next, waited)
				}
				_, synced = r.sync("g", "b-1", next, "b-1", twoOfT1)
				want(t, (<-synced).Err, kerr.None)
				for {
					synctest.Wait()
					_, may := r.mayUse("g", "b-1", next)
					if got, over := may == 2 && r.MayFetch("g", "", topicT1, 0), time.Since(heard) > time.Minute; got != over {
						t.Fatalf("%v after it was last heard of: %+v", time.Since(heard), r.Locks("g"))
					} else if over {
						break
					}
					time.Sleep(2500 * time.Millisecond)
					if r.Heartbeat("g", "b-1", "", next) != nil { // the static one's session has ended
						_, joined = r.rejoin("g", "b", "b-1", "")
						next = (<-joined).Generation
						_, synced = r.sync("g", "b-1", next, "b-1", twoOfT1)
						want(t, (<-synced).Err, kerr.None)
					}
				}
			})
		})
	}
}

func TestGroupsBecomeOrderedAndCeaseToBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		off := true
		r := start(t, store{}, ordered(func(o *Options) { o.Ordering = ordering{&off} }))
		defer r.stop()
		a := &modernMember{r: r, group: "g", id: "a"}
		want(t, a.join().Err, kerr.None)
		if len(r.Locks("g")) != 0 {
			t.Errorf("%+v", r.Locks("g"))
		}
		off = false
		r.SettingsChanged()
		synctest.Wait()
		wantUse(t, r, a, 8, 8)
		if len(r.Locks("g")) != 8 {
			t.Errorf("%+v", r.Locks("g"))
		}
		off = true
		r.SettingsChanged()
		synctest.Wait()
		if len(r.Locks("g")) != 0 {
			t.Errorf("%+v", r.Locks("g"))
		}
	})
}

// A rolling change from the classic protocol keeps locks with who has the work.
func TestLocksFollowAGroupFromOneProtocolToTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, store{}, ordered(nil))
		defer r.stop()
		r.stableConsumer(t, "g", "a")
		m := &modernMember{r: r, group: "g", id: "m"}
		want(t, m.join().Err, kerr.None)
		owners := map[string]int{}
		for _, l := range r.Locks("g") {
			owners[l.Member]++
		}
		if owners["a-1"] != 2 || owners["m"] != m.owned.Count() {
			t.Errorf("%v, %v", owners, m.owned)
		}
		want(t, m.leave().Err, kerr.None)
		if d, ok := r.Describe("g"); !ok || d.State != classic.PreparingRebalance || len(r.Locks("g")) != 2 {
			t.Errorf("%+v, %+v", d, r.Locks("g"))
		}
	})
}
