package consumer

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
	"time"

	"github.com/sluicemq/sluice/group/assign"
)

// sizes are the topics that members of a draft subscribe to and that exist.
type sizes struct {
	version uint64             // of the topics, before they were asked
	all     []assign.TopicSize // by id
	place   map[string]int32   // of a topic's name in all
}

// topics returns the topics that members subscribe to.
func (d *draft) topics() *sizes {
	if d.sizes != nil {
		return d.sizes
	}
	s := &sizes{version: d.g.topics.Version(), place: make(map[string]int32)}
	type named struct {
		name string
		size assign.TopicSize
	}
	var found []named
	add := func(names []string) {
		for _, name := range names {
			if _, ok := s.place[name]; ok {
				continue
			}
			s.place[name] = -1
			if id, partitions, ok := d.g.topics.Topic(name); ok {
				found = append(found, named{name, assign.TopicSize{ID: id, Partitions: partitions}})
			}
		}
	}
	var last []string
	patterns := make(map[string]bool)
	for _, m := range d.list() {
		if !sameNames(m.Info.Topics, last) {
			last = m.Info.Topics
			add(last)
		}
		if r := m.Info.Regex; r != "" && !patterns[r] {
			patterns[r] = true
			if r := d.regex(r); r != nil {
				add(r.Topics)
			}
		}
	}
	slices.SortFunc(found, func(a, b named) int { return assign.CompareTopics(a.size.ID, b.size.ID) })
	for i, f := range found {
		s.place[f.name] = int32(i)
		s.all = append(s.all, f.size)
	}
	d.sizes = s
	return s
}

func sameNames(a, b []string) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// hash returns a number that stands for the topics.
func (s *sizes) hash() uint64 {
	h := fnv.New64a()
	var b [20]byte
	for _, t := range s.all {
		copy(b[:], t.ID[:])
		binary.LittleEndian.PutUint32(b[16:], uint32(t.Partitions))
		h.Write(b[:])
	}
	return h.Sum64()
}

// places returns the places of the topics that a member subscribes to.
func (s *sizes) places(lists ...[]string) []int32 {
	var out []int32
	for _, names := range lists {
		for _, name := range names {
			if at, ok := s.place[name]; ok && at >= 0 {
				out = append(out, at)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Job is the computation of a target. Run may be called by any goroutine.
type Job struct {
	assignor assign.Assignor
	group    assign.Group
	epoch    int32
	targets  []assign.Assignment
	err      error
}

// Run computes the target.
func (j *Job) Run() { j.targets, j.err = j.assignor.Assign(&j.group) }

// size returns about how much work the job is.
func (j *Job) size() int {
	n := 0
	for i := range j.group.Members {
		n += 1 + len(j.group.Members[i].Topics)
	}
	for i := range j.group.Topics {
		n += int(j.group.Topics[i].Partitions)
	}
	return n
}

// newJob returns the computation of a target for the draft's epoch.
func (d *draft) newJob() *Job {
	topics := d.topics()
	j := &Job{epoch: d.epoch, assignor: d.assignor()}
	j.group.Topics = topics.all
	type subscription struct {
		first  *string
		length int
		regex  string
	}
	known := make(map[subscription][]int32)
	for _, m := range d.list() {
		key := subscription{length: len(m.Info.Topics), regex: m.Info.Regex}
		if key.length > 0 {
			key.first = &m.Info.Topics[0]
		}
		places, ok := known[key]
		if !ok {
			var matched []string
			if r := d.regex(m.Info.Regex); m.Info.Regex != "" && r != nil {
				matched = r.Topics
			}
			places = topics.places(m.Info.Topics, matched)
			known[key] = places
		}
		j.group.Members = append(j.group.Members, assign.Member{
			ID: m.ID, Instance: m.Info.Instance, Topics: places, Current: m.Target,
		})
	}
	return j
}

// assignor returns the assignor that the members prefer.
func (d *draft) assignor() assign.Assignor {
	a, _ := assign.Find(preferred(d.list(), d.g.settings.Assignors))
	return a
}

// assign computes the target of the draft's epoch, or sees to it that it is
// computed later.
func (d *draft) assign(now time.Time, out *Output) {
	g := d.g
	if g.job != nil {
		return
	}
	first := !hasMembers(d.base)
	if next := g.assigned.Add(g.settings.AssignmentInterval); !first && !g.assigned.IsZero() && now.Before(next) {
		g.wakeBy(next)
		return
	}
	g.assigned = now
	j := d.newJob()
	if !first && j.size() > g.settings.MaxInline {
		g.job, d.job, out.Job = j, j, j
		return
	}
	j.Run()
	d.setTarget(j)
}

func hasMembers(s *State) bool { return len(s.Members) > 0 }

// disown forgets the job of a draft that did not come into effect.
func (d *draft) disown() {
	if d.job != nil && d.g.job == d.job {
		d.g.job = nil
	}
}

// useTarget is the first step of a target that a job has computed.
func (d *draft) useTarget(j *Job) {
	if d.g.job != j {
		return // it was for an epoch that did not come about
	}
	d.g.job = nil
	if j.epoch > d.targetEpoch && j.epoch <= d.epoch {
		d.setTarget(j)
	}
}

// setTarget gives the members their targets. Members that have come since the
// job began have none; what was meant for those that have left, nobody gets
// before the next target.
func (d *draft) setTarget(j *Job) {
	if j.err != nil {
		return // the job was made of a group in disorder, which cannot be
	}
	d.targetEpoch = j.epoch
	for i := range j.group.Members {
		m := d.member(j.group.Members[i].ID)
		if instance := j.group.Members[i].Instance; m == nil && instance != "" {
			m = d.staticMember(instance) // it has another id by now
		}
		if m == nil || m.Target.Equal(j.targets[i]) {
			continue
		}
		next := *m
		next.Target = j.targets[i]
		d.put(&next)
	}
}

// Assigned hands over a job that was run.
func (g *Group) Assigned(now time.Time, j *Job, out *Output) { g.handle(now, j, out) }
