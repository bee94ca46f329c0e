package consumer

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluicemq/sluice/group/assign"
	"github.com/sluicemq/sluice/group/classic"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// begin is when all tests begin.
var begin = time.UnixMilli(1_700_000_000_000)

func testSettings() *Settings {
	return &Settings{
		SessionTimeout: 45 * time.Second, HeartbeatInterval: 5 * time.Second, AssignmentInterval: 0,
		RegexRefresh: 10 * time.Minute, Assignors: assign.Names(),
		MaxMembers: 1000, MaxBytes: 1 << 20, MaxInline: 1 << 20,
		Downgrade: true, ClassicMaxMembers: 1000,
	}
}

// catalog is a Topics that tests change.
type catalog struct {
	sizes   map[string]int32
	ids     map[string]entry.TopicID
	made    uint64
	version uint64
}

func newCatalog(topics ...any) *catalog {
	c := &catalog{sizes: map[string]int32{}, ids: map[string]entry.TopicID{}}
	for i := 0; i < len(topics); i += 2 {
		c.set(topics[i].(string), int32(topics[i+1].(int)))
	}
	return c
}

// set makes a topic, changes its size, or deletes it (0).
func (c *catalog) set(name string, partitions int32) {
	c.version++
	if partitions == 0 {
		delete(c.sizes, name)
		delete(c.ids, name)
		return
	}
	if c.sizes[name] == 0 {
		c.made++
		var id entry.TopicID
		binary.BigEndian.PutUint64(id[8:], c.made)
		c.ids[name] = id
	}
	c.sizes[name] = partitions
}

func (c *catalog) Topic(name string) (entry.TopicID, int32, bool) {
	n, ok := c.sizes[name]
	return c.ids[name], n, ok
}

func (c *catalog) Name(id entry.TopicID) (string, bool) {
	for name, other := range c.ids {
		if other == id {
			return name, true
		}
	}
	return "", false
}

func (c *catalog) Version() uint64 { return c.version }
func (c *catalog) Count() int      { return len(c.sizes) }

func (c *catalog) Names(visit func(string) bool) {
	for _, name := range slices.Sorted(maps.Keys(c.sizes)) {
		if !visit(name) {
			return
		}
	}
}

// text shows an assignment as a:0,1 b:2.
func (c *catalog) text(set assign.Assignment) string {
	var all []string
	for _, t := range set {
		name, ok := c.Name(t.ID)
		if !ok {
			name = "?"
		}
		s := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(t.Partitions)), ","), "[]")
		all = append(all, name+":"+s)
	}
	slices.Sort(all)
	if len(all) == 0 {
		return "-"
	}
	return strings.Join(all, " ")
}

// parse reads what text shows.
func (c *catalog) parse(words ...string) assign.Assignment {
	var all []assign.Topic
	for _, w := range words {
		name, list, _ := strings.Cut(w, ":")
		t := assign.Topic{ID: c.ids[name]}
		for _, p := range strings.Split(list, ",") {
			n := int32(0)
			fmt.Sscan(p, &n)
			t.Partitions = append(t.Partitions, n)
		}
		all = append(all, t)
	}
	return assign.Make(all)
}

// world is a group with its log: what it proposes is encoded, kept, and applied
// when the test says so.
type world struct {
	now      time.Time
	topics   *catalog
	settings *Settings
	group    *Group
	state    *State
	index    entry.Index

	hold       bool // entries wait for apply
	fail       bool // entries are not written
	holdJobs   bool
	pending    *Entry
	job        *Job
	resolution *Resolution

	beaten   map[Ticket]Beaten
	joined   map[Ticket]classic.Joined
	left     map[Ticket]Left
	rerouted []any
	classic  *classic.Metadata // what the group was downgraded to
	expired  []string
	entries  int
	bytes    int
	disk     store
	saved    *State
}

func newWorld(topics *catalog) *world {
	w := &world{
		now: begin, topics: topics, settings: testSettings(), disk: store{},
		beaten: map[Ticket]Beaten{}, joined: map[Ticket]classic.Joined{}, left: map[Ticket]Left{},
	}
	w.group = New("g", w.settings, topics)
	return w
}

// collect does what an output says.
func (w *world) collect(out *Output) {
	for _, a := range out.Beaten {
		w.beaten[a.Ticket] = a.Beaten
	}
	for _, a := range out.Joined {
		w.joined[a.Ticket] = a.Joined
	}
	for _, a := range out.Left {
		w.left[a.Ticket] = a.Left
	}
	for _, e := range out.Expired {
		w.expired = append(w.expired, e.ID)
	}
	w.rerouted = append(w.rerouted, out.Rerouted...)
	if out.Job != nil {
		w.job = out.Job
	}
	if out.Resolution != nil {
		w.resolution = out.Resolution
	}
	if out.Entry != nil {
		if w.pending != nil {
			panic("two entries at once")
		}
		w.pending = out.Entry
		w.entries++
	}
	for w.pending != nil && !w.hold {
		w.apply()
	}
	if !w.holdJobs {
		w.runJobs()
	}
}

func (w *world) runJobs() {
	if j := w.job; j != nil {
		w.job = nil
		j.Run()
		w.call(func(out *Output) { w.group.Assigned(w.now, j, out) })
	}
	if r := w.resolution; r != nil {
		w.resolution = nil
		r.Run(w.topics)
		w.call(func(out *Output) { w.group.Resolved(w.now, r, out) })
	}
}

func (w *world) call(f func(*Output)) {
	out := &Output{}
	f(out)
	w.collect(out)
}

// apply applies what is on its way, by way of its bytes.
func (w *world) apply() {
	e := w.pending
	w.pending = nil
	if e == nil {
		return
	}
	if w.fail {
		w.call(func(out *Output) {
			w.group.Stored(w.now, w.state, kerr.New(kerr.KafkaStorageError, "disk full"), out)
		})
		return
	}
	err := w.replay(e)
	w.call(func(out *Output) { w.group.Stored(w.now, w.state, err, out) })
}

func (w *world) replay(e *Entry) error {
	w.index++
	if e.Downgrade != nil {
		payload := e.Downgrade.Append(nil)
		w.bytes += len(payload)
		d, err := DecodeDowngrade(payload)
		if err != nil {
			panic(err)
		}
		if err := d.Admit(w.state); err != nil {
			return err
		}
		w.state, w.classic = nil, d.Metadata
		return nil
	}
	payload := e.Change.Append(nil)
	w.bytes += len(payload)
	c, err := DecodeChange(payload)
	if err != nil {
		panic(err)
	}
	next, err := w.state.Apply(c, w.index, entry.TimeOf(w.now))
	if err == nil {
		w.state = next
	}
	return err
}

func (w *world) tick(d time.Duration) {
	w.now = w.now.Add(d)
	w.call(func(out *Output) { w.group.Tick(w.now, out) })
}

// checkpoint writes the state down; restart begins anew from there (an entry on
// its way is lost with its requests).
func (w *world) checkpoint() {
	Checkpoint(w.disk, "g", w.saved, w.state)
	w.saved = w.state
}

func (w *world) restart() {
	w.checkpoint()
	var loaded *State
	err := Load(w.disk, func(group string, s *State) {
		if group != "g" || loaded != nil {
			panic("group " + group)
		}
		loaded = s
	})
	if err != nil {
		panic(err)
	}
	w.state, w.saved = loaded, loaded
	w.pending, w.job, w.resolution = nil, nil, nil
	if loaded == nil {
		w.group = New("g", w.settings, w.topics)
		return
	}
	w.group = Restore("g", w.settings, w.topics, loaded, w.now)
}

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
		if k >= string(from) && k < string(to) && !visit([]byte(k), []byte(s[k])) {
			break
		}
	}
	return nil
}

func ptr[T any](v T) *T { return &v }
