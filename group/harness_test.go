package group

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluicemq/sluice/group/classic"
	"github.com/sluicemq/sluice/group/offsets"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// topics are topics that exist, by id. Their names are those of topicID.
type topics struct {
	mu   sync.Mutex
	gone map[entry.TopicID]bool
}

func (t *topics) TopicName(id entry.TopicID) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprintf("t%d", id[0]), !t.gone[id]
}

func topicID(b byte) (id entry.TopicID) {
	for i := range id {
		id[i] = b
	}
	return id
}

// logStub is a log with its apply loop: what is proposed is applied by one goroutine,
// in order, while it is open.
type logStub struct {
	state  *State
	topics *topics
	disk   store

	mu     sync.Mutex
	more   *sync.Cond
	queue  []proposal
	closed bool // nothing is applied
	full   bool // everything is refused
	index  entry.Index
	kinds  []entry.Type // that were applied
	ended  bool
	done   chan struct{}
}

func newLog(disk store) *logStub {
	l := &logStub{topics: &topics{gone: map[entry.TopicID]bool{}}, disk: disk, done: make(chan struct{})}
	l.more = sync.NewCond(&l.mu)
	l.state = NewState(l.topics)
	return l
}

func (l *logStub) Propose(t entry.Type, payload []byte, done func(entry.Result)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full {
		return kerr.New(kerr.KafkaStorageError, "no room")
	}
	l.queue = append(l.queue, proposal{t, payload, done})
	l.more.Signal()
	return nil
}

// run applies. Ends with end.
func (l *logStub) run() {
	defer close(l.done)
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		for !l.ended && (len(l.queue) == 0 || l.closed) {
			l.more.Wait()
		}
		if l.ended {
			return
		}
		p := l.queue[0]
		l.queue = l.queue[1:]
		l.index++
		e := entry.Entry{Type: p.kind, Index: l.index, Time: entry.TimeOf(time.Now()), Payload: p.payload}
		l.kinds = append(l.kinds, p.kind)
		l.mu.Unlock()
		p.done(l.state.Apply(&e, l.disk))
		l.mu.Lock()
	}
}

func (l *logStub) set(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	l.more.Signal()
}

func (l *logStub) applied() []entry.Type {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]entry.Type(nil), l.kinds...)
}

// rig is a coordinator over such a log.
type rig struct {
	*Coordinator
	log *logStub
}

func options(change func(*Options)) Options {
	o := Options{
		Limits: classic.Limits{
			MinSessionTimeout: time.Second, MaxSessionTimeout: time.Hour, InitialDelay: 3 * time.Second,
			MaxMembers: math.MaxInt32, MaxBytes: 1 << 20, MaxPending: 100,
		},
		Retention: time.Hour, CheckEvery: time.Minute,
	}
	if change != nil {
		change(&o)
	}
	return o
}

func start(t testing.TB, disk store, change func(*Options)) *rig {
	t.Helper()
	l := newLog(disk)
	if err := l.state.Load(disk); err != nil {
		t.Fatal(err)
	}
	o := options(change)
	o.State, o.Proposer = l.state, l
	r := &rig{New(o), l}
	go l.run()
	r.Start()
	return r
}

// stop ends the rig as a broker that is shut down, and leaves its state on the disk.
func (r *rig) stop() {
	r.Stop()
	r.crash()
	r.log.state.Checkpoint(r.log.disk)
}

// crash ends the log.
func (r *rig) crash() {
	r.log.set(func() { r.log.ended = true })
	<-r.log.done
}

// join joins as a new member of the old kind, which is not told its id first.
func (r *rig) join(group, client string) (classic.Ticket, chan classic.Joined) {
	return r.rejoin(group, client, "", client+"-1")
}

func (r *rig) rejoin(group, client, id, newID string) (classic.Ticket, chan classic.Joined) {
	return r.joinWith(group, &classic.Join{MemberID: id, NewID: newID, ClientID: client})
}

// joinAs is join with an instance id, which may be empty.
func (r *rig) joinAs(group, client, instance string) (classic.Ticket, chan classic.Joined) {
	return r.joinWith(group, &classic.Join{NewID: client + "-1", Instance: instance, ClientID: client})
}

func (r *rig) joinWith(group string, q *classic.Join) (classic.Ticket, chan classic.Joined) {
	answer := make(chan classic.Joined, 2)
	q.ClientHost = "/h"
	q.SessionTimeout, q.RebalanceTimeout = 10*time.Second, time.Minute
	q.ProtocolType = "consumer"
	q.Protocols = []classic.Protocol{{Name: "range", Metadata: []byte{0, 0, 0, 0, 0, 1, 0, 2, 't', '1'}}}
	ticket := r.Join(group, q, func(a classic.Joined) { answer <- a })
	return ticket, answer
}

func (r *rig) sync(group, id string, generation int32, work ...string) (classic.Ticket, chan classic.Synced) {
	answer := make(chan classic.Synced, 2)
	q := &classic.Sync{MemberID: id, Generation: generation}
	for i := 0; i < len(work); i += 2 {
		q.Assignments = append(q.Assignments, classic.Assignment{MemberID: work[i], Assignment: []byte(work[i+1])})
	}
	ticket := r.Sync(group, q, func(a classic.Synced) { answer <- a })
	return ticket, answer
}

// stable makes a group of one member, whose id is client-1, in the next generation.
func (r *rig) stable(t testing.TB, group, client string) int32 {
	t.Helper()
	_, joined := r.join(group, client)
	a := <-joined
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	_, synced := r.sync(group, a.MemberID, a.Generation, a.MemberID, "all")
	if s := <-synced; s.Err != nil || string(s.Assignment) != "all" {
		t.Fatalf("%+v", s)
	}
	return a.Generation
}

func (r *rig) leave(group, id string) error {
	done := make(chan error, 1)
	r.Leave(group, []classic.Leaver{{MemberID: id}}, func(errs []error, err error) {
		if err == nil {
			err = errs[0]
		}
		done <- err
	})
	return <-done
}

func commitOf(group, member string, generation int32, topic byte, partition int32, offset int64) *offsets.Request {
	return &offsets.Request{
		Group: group, Member: member, Generation: generation, Retention: -1,
		Topics: []offsets.Topic{{ID: topicID(topic), Offsets: []offsets.Offset{{Partition: partition, Offset: offset, LeaderEpoch: -1}}}},
	}
}

func (r *rig) commit(q *offsets.Request) error {
	done := make(chan error, 1)
	r.Commit(q, 8, func(_ []entry.TopicID, err error) { done <- err })
	return <-done
}

func (r *rig) delete(group string) error {
	done := make(chan error, 1)
	r.Delete(group, func(err error) { done <- err })
	return <-done
}

func (r *rig) offset(group string, topic byte, partition int32) int64 {
	if o, ok := r.log.state.Offsets().Fetch(group, topicID(topic), partition); ok {
		return o.Offset.Offset
	}
	return -1
}

func want(t testing.TB, err error, code kerr.Code) {
	t.Helper()
	if kerr.Of(err) != code {
		t.Errorf("got %v, want %v", err, code)
	}
}
