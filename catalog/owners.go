package catalog

import (
	"sort"
	"sync/atomic"

	"github.com/sluicemq/sluice/log/entry"
)

// owner says which topic the partitions of a run belong to.
type owner struct {
	first entry.Partition
	count uint32
	index int32 // of the first partition in the topic
	ref   *ref
}

// owners finds the topic of a partition number. Numbers only grow, so runs are
// appended in order; readers see the slice as it was last published and take no
// lock. Runs of deleted topics stay, with a ref that leads nowhere, until they
// are more than the others.
type owners struct {
	published atomic.Pointer[[]owner]

	// owned by the writer
	all  []owner
	dead int
}

func newOwners() *owners {
	o := new(owners)
	o.publish()
	return o
}

func (o *owners) publish() {
	all := o.all
	o.published.Store(&all)
}

// find returns the ref and the index of the partition in its topic. The ref may
// be that of a deleted topic.
func (o *owners) find(p entry.Partition) (*ref, int32) {
	all := *o.published.Load()
	i := sort.Search(len(all), func(i int) bool { return all[i].first > p })
	if i == 0 {
		return nil, 0
	}
	w := &all[i-1]
	at := p - w.first
	if at >= entry.Partition(w.count) {
		return nil, 0
	}
	return w.ref, w.index + int32(at)
}

// add appends a run, whose numbers are above all others. The places that
// readers can see are never written again, so appending in place is safe.
func (o *owners) add(r run, index int32, to *ref) {
	o.all = append(o.all, owner{first: r.first, count: r.count, index: index, ref: to})
	o.publish()
}

// minDead keeps small catalogs from being swept at every delete.
const minDead = 1024

// dropped notes that a topic with so many runs was deleted.
func (o *owners) dropped(runs int) {
	o.dead += runs
	if o.dead < minDead || o.dead*2 < len(o.all) {
		return
	}
	kept := make([]owner, 0, len(o.all)-o.dead)
	for _, w := range o.all {
		if w.ref.current.Load() != nil {
			kept = append(kept, w)
		}
	}
	o.all, o.dead = kept, 0
	o.publish()
}
