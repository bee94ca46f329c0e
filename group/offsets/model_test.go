package offsets

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicemq/sluice/log/entry"
)

// place is where an offset is.
type place struct {
	group     string
	topic     byte
	partition int32
}

type kept struct {
	offset   int64
	epoch    int32
	metadata string
	time     entry.Time
	expires  entry.Time
}

// TestTableAgreesWithModel drives a table, a twin of it that is restarted from its
// checkpoints at random moments, and a plain map. All three must say the same, and
// the two tables must leave the same state behind.
func TestTableAgreesWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		live, twin := New(), New()
		disk, twinDisk := store{}, store{}
		model := map[place]kept{}
		gone := map[byte]bool{}
		now := entry.Time(1000)
		groups, topics := []string{"a", "ab", "", "z"}, []byte{1, 2, 3}
		both := func(f func(*Table) any) any {
			x, y := f(live), f(twin)
			if fmt.Sprint(x) != fmt.Sprint(y) {
				t.Fatalf("%v, after a restart %v", x, y)
			}
			return x
		}
		rule := func(group string, keep entry.Time) Rule {
			return func(id entry.TopicID, committed entry.Time) (entry.Time, bool) {
				return committed + keep, group != "z" || id[0] != 1
			}
		}
		drop := func(which func(place, kept) bool) (n int) {
			for p, k := range model {
				if which(p, k) {
					delete(model, p)
					n++
				}
			}
			return n
		}
		actions := map[string]func(){
			"commit": func() {
				q := Request{Group: rapid.SampledFrom(groups).Draw(t, "group"), Retention: rapid.SampledFrom([]int64{-1, -1, 0, 50}).Draw(t, "retention")}
				expires := forever
				if q.Retention >= 0 {
					expires = now + entry.Time(q.Retention)
				}
				for range rapid.IntRange(1, 3).Draw(t, "topics") {
					topic := Topic{ID: topicID(rapid.SampledFrom(topics).Draw(t, "topic"))}
					for range rapid.IntRange(0, 4).Draw(t, "partitions") {
						o := Offset{
							Partition: rapid.Int32Range(0, 5).Draw(t, "partition"), Offset: rapid.Int64Range(-1, 9).Draw(t, "offset"),
							LeaderEpoch: rapid.Int32Range(-1, 2).Draw(t, "epoch"), Metadata: rapid.SampledFrom([]string{"", "", "m", "other"}).Draw(t, "metadata"),
						}
						topic.Offsets = append(topic.Offsets, o)
						if !gone[topic.ID[0]] {
							model[place{q.Group, topic.ID[0], o.Partition}] = kept{o.Offset, o.LeaderEpoch, o.Metadata, now, expires}
						}
					}
					q.Topics = append(q.Topics, topic)
				}
				both(func(table *Table) any {
					c, err := DecodeCommit(q.Append(nil))
					if err != nil {
						t.Fatal(err)
					}
					missing, err := table.Commit(&c, now, func(id entry.TopicID) bool { return !gone[id[0]] })
					if err != nil {
						t.Fatal(err)
					}
					return missing
				})
			},
			"delete": func() {
				group, topic := rapid.SampledFrom(groups).Draw(t, "group"), rapid.SampledFrom(topics).Draw(t, "topic")
				partitions := rapid.SliceOfN(rapid.Int32Range(0, 6), 0, 4).Draw(t, "partitions")
				got := both(func(table *Table) any { return table.Delete(group, topicID(topic), partitions) })
				want := drop(func(p place, _ kept) bool {
					return p.group == group && p.topic == topic && slices.Contains(partitions, p.partition)
				})
				if got != want {
					t.Fatalf("deleted %v, want %d", got, want)
				}
			},
			"delete group": func() {
				group := rapid.SampledFrom(groups).Draw(t, "group")
				got := both(func(table *Table) any { return table.DeleteGroup(group) })
				if want := drop(func(p place, _ kept) bool { return p.group == group }); got != want {
					t.Fatalf("deleted %v, want %d", got, want)
				}
			},
			"delete topic": func() {
				if rapid.IntRange(0, 5).Draw(t, "really") > 0 {
					return
				}
				topic := rapid.SampledFrom(topics).Draw(t, "topic")
				gone[topic] = true // its id never comes back
				both(func(table *Table) any { table.DeleteTopic(topicID(topic)); return nil })
				drop(func(p place, _ kept) bool { return p.topic == topic })
			},
			"expire": func() {
				group, keep := rapid.SampledFrom(groups).Draw(t, "group"), entry.Time(rapid.IntRange(0, 100).Draw(t, "keep"))
				due := both(func(table *Table) any { return table.Due(group, now, rule(group, keep)) })
				got := both(func(table *Table) any { return table.Expire(group, now, rule(group, keep)) })
				want := drop(func(p place, k kept) bool {
					at := k.time + keep
					if k.expires != forever {
						at = k.expires
					}
					return p.group == group && !(group == "z" && p.topic == 1) && now >= at
				})
				if got != want || due != (want > 0) {
					t.Fatalf("expired %v, want %d; due %v", got, want, due)
				}
			},
			"wait": func() { now += entry.Time(rapid.IntRange(0, 60).Draw(t, "ms")) },
			"checkpoint": func() {
				live.Checkpoint(disk)
				twin.Checkpoint(twinDisk)
				if disk.String() != twinDisk.String() {
					t.Fatalf("state differs after a restart:\n%v\nuninterrupted:\n%v", twinDisk, disk)
				}
			},
		}
		actions["restart"] = func() {
			actions["checkpoint"]()
			twin = New()
			if err := twin.Load(twinDisk); err != nil {
				t.Fatal(err)
			}
		}
		names := slices.Sorted(maps.Keys(actions))
		for range 12 {
			names = append(names, "commit")
		}
		for range 60 {
			actions[rapid.SampledFrom(names).Draw(t, "action")]()
			compare(t, live, model, groups, topics)
			compare(t, twin, model, groups, topics)
		}
	})
}

func compare(t *rapid.T, table *Table, model map[place]kept, groups []string, topics []byte) {
	inGroups := map[string]int{}
	for p, k := range model {
		inGroups[p.group]++
		got, ok := table.Fetch(p.group, topicID(p.topic), p.partition)
		want := Committed{Offset{p.partition, k.offset, k.epoch, k.metadata}, k.time}
		if !ok || got != want {
			t.Fatalf("%+v: %+v, %v; want %+v", p, got, ok, want)
		}
	}
	for _, group := range groups {
		n := 0
		for _, topic := range table.All(group) {
			n += len(topic.Offsets)
		}
		if n != inGroups[group] || table.Has(group) != (n > 0) {
			t.Fatalf("group %q has %d offsets, want %d", group, n, inGroups[group])
		}
	}
	if g, o := table.Count(); g != len(inGroups) || o != len(model) {
		t.Fatalf("%d groups and %d offsets, want %d and %d", g, o, len(inGroups), len(model))
	}
	if _, ok := table.Fetch("a", topicID(topics[0]), 99); ok {
		t.Fatal("a partition that nobody committed has an offset")
	}
}
