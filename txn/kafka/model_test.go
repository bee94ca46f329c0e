package kafka

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/sluicemq/sluice/log/entry"
	"pgregory.net/rapid"
)

// modelLog is a partition as a reader would work out by itself what is committed:
// everything that was ever put into it.
type modelLog []modelRecord

type modelRecord struct {
	producer int64
	number   int // of the transaction, 0 for none
	marker   bool
}

// fates says of each transaction: open, committed or aborted.
type fates map[int]string

func (l modelLog) stable(f fates) entry.Offset {
	for i, r := range l {
		if f[r.number] == "open" && !r.marker {
			return entry.Offset(i)
		}
	}
	return entry.Offset(len(l))
}

// aborted lists the aborted transactions that have something from one offset to
// below another, counting their markers.
func (l modelLog) aborted(f fates, from, to entry.Offset) string {
	first, last := map[int]int{}, map[int]int{}
	var order []int
	for i, r := range l {
		if f[r.number] != "aborted" {
			continue
		}
		if _, ok := first[r.number]; !ok && !r.marker {
			first[r.number] = i
			order = append(order, r.number)
		}
		last[r.number] = i
	}
	var out []Aborted
	for _, n := range order {
		if entry.Offset(last[n]) >= from && entry.Offset(first[n]) < to {
			out = append(out, Aborted{l[first[n]].producer, entry.Offset(first[n])})
		}
	}
	return fmt.Sprint(out)
}

// TestReadersAgreeWithTheLog drives several producers over partitions, and compares
// what readers are told with what the partitions themselves say; and with a machine
// that is restarted now and then.
func TestReadersAgreeWithTheLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := []entry.Partition{1, 2, 3}
		w, twin := newWorld(parts...), newWorld(parts...)
		logs := map[entry.Partition]modelLog{}
		starts := map[entry.Partition]entry.Offset{}
		f := fates{}
		type client struct {
			p       Producer
			open    int // number of the transaction, 0 for none
			touched map[entry.Partition]bool
		}
		clients := map[string]*client{}
		numbers := 0
		for _, id := range []string{"a", "b", "c", "d"} {
			p, _ := w.init(id)
			twin.init(id)
			clients[id] = &client{p: p}
		}
		id := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		partition := rapid.SampledFrom(parts)
		both := func(do func(w *world) string) {
			if a, b := do(w), do(twin); a != b {
				t.Fatalf("%s, after a restart %s", a, b)
			}
		}
		ended := func(c *client, commit bool) {
			for _, p := range slices.Sorted(maps.Keys(c.touched)) {
				logs[p] = append(logs[p], modelRecord{c.p.ID, c.open, true})
			}
			f[c.open] = "committed"
			if !commit {
				f[c.open] = "aborted"
			}
			c.open, c.touched = 0, nil
		}
		begin := func(c *client) {
			if c.open == 0 {
				numbers++
				c.open, c.touched = numbers, map[entry.Partition]bool{}
				f[numbers] = "open"
			}
		}
		check := func() {
			for _, p := range parts {
				if _, ok := w.ends[p]; !ok {
					continue
				}
				end := entry.Offset(len(logs[p]))
				stable := max(logs[p].stable(f), starts[p])
				from := entry.Offset(rapid.Int64Range(int64(starts[p]), int64(stable)).Draw(t, "from"))
				to := entry.Offset(rapid.Int64Range(int64(from), int64(stable)).Draw(t, "to"))
				want := logs[p].aborted(f, from, to)
				if from == to {
					want = "[]"
				}
				for _, w := range []*world{w, twin} {
					if w.ends[p] != end {
						t.Fatalf("partition %d ends at %d, want %d", p, w.ends[p], end)
					}
					if got := w.m.LastStable(p, starts[p], end); got != stable {
						t.Fatalf("partition %d is stable to %d, want %d", p, got, stable)
					}
					if got := fmt.Sprint(w.m.Aborted(p, from, to, nil)); got != want {
						t.Fatalf("partition %d from %d to %d: %s, want %s", p, from, to, got, want)
					}
				}
			}
			if w.String() != twin.String() {
				t.Fatalf("state differs after a restart:\n%vuninterrupted:\n%v", twin, w)
			}
		}
		actions := map[string]func(*rapid.T){
			"produce": func(t *rapid.T) {
				c, p := clients[id.Draw(t, "id")], partition.Draw(t, "partition")
				if _, ok := w.ends[p]; !ok {
					return
				}
				begin(c)
				c.touched[p] = true
				logs[p] = append(logs[p], modelRecord{c.p.ID, c.open, false})
				both(func(w *world) string { return w.produce(p, c.p, true) })
			},
			"add": func(t *rapid.T) {
				name := id.Draw(t, "id")
				c, p := clients[name], partition.Draw(t, "partition")
				begin(c)
				if _, ok := w.ends[p]; ok {
					c.touched[p] = true
				}
				both(func(w *world) string { return w.add(name, c.p, p) })
			},
			"plain": func(t *rapid.T) {
				p := partition.Draw(t, "partition")
				if _, ok := w.ends[p]; ok {
					logs[p] = append(logs[p], modelRecord{-1, 0, false})
					both(func(w *world) string { w.ends[p]++; return "" })
				}
			},
			"end": func(t *rapid.T) {
				name, commit, newer := id.Draw(t, "id"), rapid.Bool().Draw(t, "commit"), rapid.Bool().Draw(t, "newer")
				c := clients[name]
				if c.open == 0 {
					return
				}
				var after Producer
				both(func(w *world) string {
					p, got := w.end(&End{ID: name, ProducerID: c.p.ID, Epoch: c.p.Epoch, Commit: commit, Newer: newer})
					after = p
					return fmt.Sprint(got, p)
				})
				ended(c, commit)
				c.p = after
			},
			"new instance": func(t *rapid.T) {
				name := id.Draw(t, "id")
				c := clients[name]
				var after Producer
				both(func(w *world) string {
					p, got := w.init(name)
					after = p
					return fmt.Sprint(got, p)
				})
				if c.open != 0 {
					ended(c, false)
				}
				c.p = after
			},
			"log start": func(t *rapid.T) {
				p := partition.Draw(t, "partition")
				if _, ok := w.ends[p]; !ok {
					return
				}
				to := entry.Offset(rapid.Int64Range(int64(starts[p]), int64(len(logs[p]))).Draw(t, "to"))
				starts[p] = to
				both(func(w *world) string { w.m.LogStart(p, to, w); return "" })
			},
			"delete partition": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "seldom") > 0 {
					return
				}
				p := partition.Draw(t, "partition")
				both(func(w *world) string { delete(w.ends, p); w.m.DeletePartition(p, w); return "" })
				for _, c := range clients {
					delete(c.touched, p)
				}
				delete(logs, p)
			},
			"restart": func(t *rapid.T) {
				w.m.Checkpoint(w)
				twin.m.Checkpoint(twin)
				twin.m = New()
				if err := twin.m.Load(twin); err != nil {
					t.Fatal(err)
				}
			},
		}
		names := slices.Sorted(maps.Keys(actions))
		for range 20 {
			names = append(names, "produce")
		}
		names = append(names, "end", "end", "end", "end", "plain", "plain")
		for range 150 {
			actions[rapid.SampledFrom(names).Draw(t, "action")](t)
			w.m.Checkpoint(w)
			twin.m.Checkpoint(twin)
			check()
		}
	})
}
