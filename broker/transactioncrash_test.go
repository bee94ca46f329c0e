package broker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sluicemq/sluice/catalog"
	"github.com/sluicemq/sluice/catalog/config"
	"github.com/sluicemq/sluice/group"
	"github.com/sluicemq/sluice/group/offsets"
	"github.com/sluicemq/sluice/log"
	"github.com/sluicemq/sluice/log/apply"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/vfs"
	"github.com/sluicemq/sluice/log/vfs/vfstest"
	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/txn/kafka"
	"github.com/sluicemq/sluice/txn/producer"
)

// engine is the log with the broker's parts over it, on a file system of a test.
type engine struct {
	catalog   *catalog.Catalog
	producers *producer.Machine
	txns      *kafka.Machine
	groups    *group.State
	log       *log.Log
	codecs    *batch.Codecs
}

func openEngine(fs pebblevfs.FS) (*engine, error) {
	settings, err := config.NewBroker(config.Values{})
	if err != nil {
		return nil, err
	}
	e := &engine{catalog: catalog.New(settings), producers: producer.New(), txns: kafka.New(), codecs: batch.NewCodecs(batch.Limits{})}
	e.groups = group.NewState(topicNames{e.catalog})
	e.log, err = log.Open(log.Options{
		FS: vfs.New(fs), Dir: "data", Meta: log.Meta{ClusterID: "c", NodeID: 1},
		Appliers: []apply.Applier{topics{e.catalog, e.groups}, producers{e.producers}, groups{e.groups, e.txns}, transactions{e.txns, e.producers, e.groups}},
		Judge:    judge{e.producers, e.txns}, SegmentBytes: 64 << 10, TailBytes: 32 << 10, RetainEvery: time.Hour,
	})
	return e, err
}

// lane is a producer that writes numbered pairs: number i into both of its
// partitions, and as the offset of its group, in one transaction.
type lane struct {
	id       string
	topic    [16]byte
	parts    [2]entry.Partition
	producer kafka.Producer
	next     int
	newer    bool
	sequence [2]int32
}

func (e *engine) topic(name string) (*catalog.Topic, error) {
	if t := e.catalog.Topic(name); t != nil {
		return t, nil
	}
	id := entry.TopicID{1}
	copy(id[1:], name)
	plan := e.catalog.PlanCreate([]catalog.NewTopic{{Name: name, ID: id, Partitions: 2, ReplicationFactor: 1}})[0]
	if plan.Err != nil {
		return nil, plan.Err
	}
	_, err := e.log.Do(entry.TypeCreateTopic, 0, plan.Payload)
	return e.catalog.Topic(name), err
}

// newLane makes a lane, or takes up one that was there before, as a new instance.
func (e *engine) newLane(id string, newer bool) (*lane, error) {
	t, err := e.topic(id)
	if err != nil {
		return nil, err
	}
	l := &lane{id: id, topic: t.ID(), newer: newer}
	for i := range l.parts {
		l.parts[i], _ = t.Partition(int32(i))
	}
	has, _ := e.txns.Producer(id)
	q := kafka.Init{ID: id, TimeoutMs: 60_000, ProducerID: -1, Epoch: -1}
	r, err := e.log.Do(entry.TypeInitTransactions, 0, q.Append(appendMarker(nil, kafka.Marker{ProducerID: has.ID, Epoch: has.Epoch + 1}, 0)))
	if err == nil {
		l.producer = r.Value.(kafka.Producer)
	}
	return l, err
}

// transact runs one transaction. Its number is used up, whatever comes of it.
func (e *engine) transact(l *lane, commit bool) error {
	number := l.next
	l.next++
	flags := uint8(0)
	if l.newer {
		flags = entry.ProduceAdds
	} else {
		q := kafka.Add{ID: l.id, ProducerID: l.producer.ID, Epoch: l.producer.Epoch, Partitions: l.parts[:], Groups: []string{"g"}}
		if _, err := e.log.Do(entry.TypeAddToTransaction, 0, q.Append(nil)); err != nil {
			return err
		}
	}
	for i, p := range l.parts {
		var b batch.Builder
		b.Add(&batch.Record{Timestamp: 1000, Value: fmt.Append(nil, number)})
		payload, err := b.Build(nil, nil, batch.Options{Attributes: batch.Transactional,
			Producer: &batch.Producer{ID: l.producer.ID, Epoch: l.producer.Epoch, Sequence: l.sequence[i]}})
		if err != nil {
			return err
		}
		w := make(waitResult, 1)
		if err := e.log.Propose(&log.Proposal{Type: entry.TypeProduce, Flags: flags, Partition: p, Payload: payload, Waiter: w}); err != nil {
			return err
		}
		if r := <-w; r.Err != nil {
			return r.Err
		}
		l.sequence[i]++
	}
	head := kafka.Offsets{ID: l.id, ProducerID: l.producer.ID, Epoch: l.producer.Epoch, Group: "g", Adds: l.newer}
	c := offsets.Request{Group: "g", Generation: -1, Retention: -1, Topics: []offsets.Topic{{ID: l.topic, Offsets: []offsets.Offset{{Offset: int64(number)}}}}}
	if _, err := e.log.Do(entry.TypePendOffsets, 0, c.Append(head.Append(nil))); err != nil {
		return err
	}
	end := kafka.End{ID: l.id, ProducerID: l.producer.ID, Epoch: l.producer.Epoch, Commit: commit, Newer: l.newer}
	r, err := e.log.Do(entry.TypeEndTransaction, 0, endPayload(&end))
	if err != nil {
		return err
	}
	if l.newer {
		l.sequence = [2]int32{}
	}
	l.producer = r.Value.(kafka.Producer)
	return nil
}

type waitResult chan entry.Result

func (w waitResult) Done(_ *log.Proposal, r entry.Result) { w <- r }

// committed reads the numbers of a partition as a reader of committed records does.
func (e *engine) committed(p entry.Partition) ([]int, error) {
	start, end, ok := e.log.Bounds(p)
	if !ok {
		return nil, fmt.Errorf("partition %d is gone", p)
	}
	stable := e.txns.LastStable(p, start, end)
	aborted := e.txns.Aborted(p, start, stable, nil)
	dropped := map[int64]bool{}
	var numbers []int
	var b log.Batches
	defer b.Release()
	for next := start; next < stable; {
		b.Release()
		if n, err := e.log.Read(p, next, stable, 1<<20, true, &b); err != nil || n == 0 {
			return nil, fmt.Errorf("read partition %d from %d: %d bytes, %w", p, next, n, err)
		}
		for _, piece := range b.Pieces {
			for rest := piece; len(rest) > 0; {
				head, more, err := batch.Split(rest)
				if err != nil {
					return nil, err
				}
				rest = more
				if at := entry.Offset(head.BaseOffset()); at != next || !head.ChecksumFits() {
					return nil, fmt.Errorf("partition %d: batch at %d, want %d", p, at, next)
				}
				next = entry.Offset(head.LastOffset()) + 1
				for len(aborted) > 0 && aborted[0].First < next {
					dropped[aborted[0].ProducerID] = true
					aborted = aborted[1:]
				}
				if head.Attributes().Has(batch.Control) {
					if m, err := batch.ParseMarker(head); err != nil || m.Commit && dropped[m.ProducerID] {
						return nil, fmt.Errorf("partition %d, marker at %d: %+v, %v", p, head.BaseOffset(), m, err)
					}
					delete(dropped, head.ProducerID())
					continue
				}
				records := e.codecs.Records(head)
				for records.Next() {
					var n int
					if _, err := fmt.Sscan(string(records.Record().Value), &n); err != nil {
						return nil, err
					}
					if !dropped[head.ProducerID()] {
						numbers = append(numbers, n)
					}
				}
				records.Close()
			}
		}
	}
	return numbers, nil
}

// truth is what clients were told.
type truth struct {
	mu        sync.Mutex
	committed map[string][]int // by lane, in order
	aborted   map[string][]int
}

func (tr *truth) snapshot() (committed, aborted map[string][]int) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	committed, aborted = map[string][]int{}, map[string][]int{}
	for id, all := range tr.committed {
		committed[id] = slices.Clone(all)
	}
	for id, all := range tr.aborted {
		aborted[id] = slices.Clone(all)
	}
	return committed, aborted
}

// check compares what is there with what clients were told: both partitions of a lane
// and its offset agree, with everything in them that was acknowledged.
func (e *engine) check(committed, aborted map[string][]int) error {
	for _, id := range []string{"older", "newer"} {
		t := e.catalog.Topic(id)
		if t == nil {
			if len(committed[id]) > 0 {
				return fmt.Errorf("topic %s is gone", id)
			}
			continue
		}
		var have [2][]int
		for i := range have {
			p, _ := t.Partition(int32(i))
			var err error
			if have[i], err = e.committed(p); err != nil {
				return err
			}
		}
		if !slices.Equal(have[0], have[1]) {
			return fmt.Errorf("%s: partitions have %v and %v", id, have[0], have[1])
		}
		told := committed[id]
		if len(have[0]) < len(told) || !slices.Equal(have[0][:len(told)], told) || len(have[0]) > len(told)+1 {
			return fmt.Errorf("%s: %v are there, %v were acknowledged", id, have[0], told)
		}
		for _, n := range aborted[id] {
			if slices.Contains(have[0], n) {
				return fmt.Errorf("%s: %d was aborted", id, n)
			}
		}
		offset, ok := e.groups.Offsets().Fetch("g", t.ID(), 0)
		if want := len(have[0]) > 0; ok != want || want && offset.Offset.Offset != int64(have[0][len(have[0])-1]) {
			return fmt.Errorf("%s: the committed offset is %v, %v; the records are %v", id, offset, ok, have[0])
		}
	}
	return nil
}

// A crash after any change of a file leaves each transaction whole or not at all, in
// both of its partitions and in its group.
func TestACrashLeavesTransactionsWholeOrNotAtAll(t *testing.T) {
	mem := pebblevfs.NewCrashableMem()
	fs := vfstest.New(mem)
	tr := &truth{committed: map[string][]int{}, aborted: map[string][]int{}}
	var mu sync.Mutex // one crash at a time
	var seen, crashes int
	var failure error
	const stride = 9
	fs.After(func(op vfstest.Op) {
		if !op.Kind.Changes() {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if seen++; seen%stride != 0 || failure != nil {
			return
		}
		committed, aborted := tr.snapshot()
		percent := []int{0, 0, 30, 70, 100}[seen/stride%5]
		clone := mem.CrashClone(pebblevfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(uint64(seen), 1))})
		crashes++
		if err := recoverTransactions(clone, committed, aborted); err != nil {
			failure = fmt.Errorf("crash after %v, the %d-th change, with %d%% of what was not synced: %w", op, seen, percent, err)
		}
	})
	e, err := openEngine(fs)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(7, 7))
	lanes := make([]*lane, 2)
	for i, id := range []string{"older", "newer"} {
		if lanes[i], err = e.newLane(id, id == "newer"); err != nil {
			t.Fatal(err)
		}
	}
	for step := range 120 {
		l := lanes[random.IntN(2)]
		commit, number := random.IntN(3) > 0, l.next
		if err := e.transact(l, commit); err != nil {
			t.Fatal(err)
		}
		tr.mu.Lock()
		if commit {
			tr.committed[l.id] = append(tr.committed[l.id], number)
		} else {
			tr.aborted[l.id] = append(tr.aborted[l.id], number)
		}
		tr.mu.Unlock()
		if step%40 == 39 { // a clean restart
			if err := e.log.Close(); err != nil {
				t.Fatal(err)
			}
			if e, err = openEngine(fs); err != nil {
				t.Fatal(err)
			}
		}
	}
	committed, aborted := tr.snapshot()
	err = e.check(committed, aborted)
	cerr := e.log.Close()
	fs.After(nil)
	if failure != nil {
		t.Fatal(failure)
	}
	if err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	t.Logf("%d changes, %d crashes", seen, crashes)
}

// recoverTransactions opens what a crash left, checks it, goes on, and checks again.
func recoverTransactions(fs pebblevfs.FS, committed, aborted map[string][]int) error {
	for round := range 2 {
		e, err := openEngine(fs)
		if err != nil {
			return fmt.Errorf("start %d: %w", round, err)
		}
		err = e.check(committed, aborted)
		for _, id := range []string{"older", "newer"} {
			if err != nil || e.catalog.Topic(id) == nil {
				continue
			}
			var l *lane
			if l, err = e.newLane(id, id == "newer"); err == nil {
				p := l.parts[0]
				_, end, _ := e.log.Bounds(p)
				if stable := e.txns.LastStable(p, 0, end); stable != end {
					err = fmt.Errorf("%s: stable to %d of %d after a new instance", id, stable, end)
				}
			}
			if err != nil {
				continue
			}
			l.next = 1000 + round
			have, herr := e.committed(l.parts[0])
			if err = e.transact(l, true); err == nil {
				err = herr
			}
			committed[id] = append(have, l.next-1)
		}
		if err == nil {
			err = e.check(committed, aborted)
		}
		if cerr := e.log.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return fmt.Errorf("start %d: %w", round, err)
		}
	}
	return nil
}
