package catalog_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicemq/sluice/catalog"
	"github.com/sluicemq/sluice/catalog/config"
	"github.com/sluicemq/sluice/log/entry"
)

func TestLookupsAllocateNothing(t *testing.T) {
	n := newNode(t)
	topic := n.mustCreate("orders.by.customer", 100)
	id := topic.ID()
	sum := int64(0)
	for name, look := range map[string]func(){
		"Topic": func() { sum += int64(n.Topic("orders.by.customer").Partitions()) },
		"Topic of none": func() {
			if n.Topic("orders.by.nobody") != nil {
				sum++
			}
		},
		"TopicByID": func() { sum += int64(n.TopicByID(id).Partitions()) },
		"TopicOf": func() {
			_, index := n.TopicOf(50)
			sum += int64(index)
		},
		"Partition": func() {
			number, _ := topic.Partition(99)
			sum += int64(number)
		},
		"Config": func() { sum += topic.Config().RetentionMs },
		"Broker": func() { sum += int64(n.Broker().FetchMaxBytes) },
		"All": func() {
			for _, number := range topic.All() {
				sum += int64(number)
			}
		},
	} {
		if got := testing.AllocsPerRun(100, look); got != 0 {
			t.Errorf("%s allocates %v times", name, got)
		}
	}
	_ = sum
}

// TestReadersSeeWholeTopicsWhileTheyChange lets readers look up topics that are
// created, grown, altered and deleted meanwhile.
func TestReadersSeeWholeTopicsWhileTheyChange(t *testing.T) {
	n := newNode(t)
	n.mustCreate("stays", 4)
	var stop atomic.Bool
	var reads atomic.Int64
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() { // ends when stop is set; owns nothing
			for i := 0; !stop.Load(); i++ {
				readTopics(t, n.Catalog, i)
				reads.Add(1)
			}
		})
	}
	for i := 0; i < 1000 || reads.Load() < 10_000; i++ {
		name := fmt.Sprint("t", i%40)
		if n.Topic(name) == nil {
			n.mustCreate(name, int32(1+i%3), "retention.ms", fmt.Sprint(i%5))
			continue
		}
		switch i % 3 {
		case 0:
			_ = n.delete(name)
		case 1:
			_ = n.grow(name, n.Topic(name).Partitions()+1)
		case 2:
			_ = n.alter(catalog.ResourceTopic, name, set("retention.ms", fmt.Sprint(i%7)))
		}
		if i%20 == 0 {
			_ = n.alter(catalog.ResourceBroker, "", set("log.retention.bytes", fmt.Sprint(i)))
		}
	}
	stop.Store(true)
	readers.Wait()
}

func readTopics(t *testing.T, c *catalog.Catalog, i int) {
	stays := c.Topic("stays")
	if stays == nil || stays.Partitions() != 4 || c.TopicByID(stays.ID()) == nil {
		t.Error("a topic that stays was not found")
		return
	}
	if topic := c.Topic(fmt.Sprint("t", i%40)); topic != nil {
		count := int32(0)
		for index, number := range topic.All() {
			if got, ok := topic.Partition(index); !ok || got != number {
				t.Errorf("partition %d has number %d and %d", index, number, got)
			}
			if owner, at := c.TopicOf(number); owner != nil && (owner.Name() != topic.Name() || at != index) {
				t.Errorf("number %d belongs to %s, %d", number, owner.Name(), at)
			}
			count++
		}
		if count != topic.Partitions() || topic.Config().RetentionMs < 0 {
			t.Errorf("topic %s is %+v", topic.Name(), topic)
		}
	}
	if i%50 == 0 {
		last := ""
		for topic := range c.Topics("") {
			if topic.Name() <= last {
				t.Errorf("%s comes after %s", topic.Name(), last)
			}
			last = topic.Name()
		}
	}
}

func TestManyTopicsComeAndGo(t *testing.T) {
	n := newNode(t)
	for round := range 3 {
		for i := range 3000 {
			n.mustCreate(fmt.Sprint("t", i), 1)
		}
		for i := range 3000 {
			if i%100 == 0 {
				continue
			}
			if err := n.delete(fmt.Sprint("t", i)); err != nil {
				t.Fatal(err)
			}
		}
		for i := 0; i < 3000; i += 100 {
			topic := n.Topic(fmt.Sprint("t", i))
			number, _ := topic.Partition(0)
			if owner, _ := n.TopicOf(number); owner != topic || n.TopicByID(topic.ID()) != topic {
				t.Fatalf("round %d: topic %d is not found", round, i)
			}
			if err := n.delete(topic.Name()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if topics, partitions := n.Count(); topics != 0 || partitions != 0 {
		t.Errorf("%d topics and %d partitions are left", topics, partitions)
	}
}

// fill makes many topics without the cost of the tests' state.
func fill(b testing.TB, topics int, partitions int32, configs ...string) *node {
	n := newNode(b)
	n.state = nil
	var overrides []config.Setting
	for i := 0; i < len(configs); i += 2 {
		overrides = append(overrides, config.Setting{Name: configs[i], Value: configs[i+1]})
	}
	for i := range topics {
		create := catalog.CreateTopic{ID: n.id(), Partitions: partitions, Name: fmt.Sprintf("tenant-%05d.orders.created", i),
			Overrides: config.MakeOverrides(overrides)}
		n.index++
		e := entry.Entry{Type: entry.TypeCreateTopic, Index: n.index, Payload: create.Append(nil)}
		if r := n.Apply(&e, nowhere{}); r.Err != nil {
			b.Fatal(r.Err)
		}
	}
	return n
}

// nowhere is a state that forgets.
type nowhere struct{}

func (nowhere) Set(key, value []byte)           {}
func (nowhere) Delete(key []byte)               {}
func (nowhere) DeleteRange(from, to []byte)     {}
func (nowhere) CreatePartition(entry.Partition) {}
func (nowhere) DeletePartition(entry.Partition) {}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestTopicsAndPartitionsAreCheap(t *testing.T) {
	before := heap()
	n := fill(t, 100_000, 1, "cleanup.policy", "compact", "retention.ms", "1000")
	if each := (heap() - before) / 100_000; each > 500 {
		t.Errorf("a topic takes %d bytes, want at most 500", each)
	} else {
		t.Logf("a topic takes %d bytes", each)
	}
	runtime.KeepAlive(n)
	n = nil
	before = heap()
	n = fill(t, 1, 100_000)
	if each := int64(heap()-before) / 100_000; each > 100 {
		t.Errorf("a partition takes %d bytes, want at most 100", each)
	}
	runtime.KeepAlive(n)
}

func BenchmarkTopicByName(b *testing.B) {
	for _, topics := range []int{10, 100_000} {
		b.Run(fmt.Sprint(topics, " topics"), func(b *testing.B) {
			n := fill(b, topics, 1)
			names := names(n.Catalog, "")
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := rand.Int(); pb.Next(); i += 7919 {
					if n.Topic(names[i%len(names)]) == nil {
						b.Error("not found")
					}
				}
			})
		})
	}
}

func BenchmarkTopicByID(b *testing.B) {
	n := fill(b, 100_000, 1)
	var ids []entry.TopicID
	for t := range n.Topics("") {
		ids = append(ids, t.ID())
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := rand.Int(); pb.Next(); i += 7919 {
			if n.TopicByID(ids[i%len(ids)]) == nil {
				b.Error("not found")
			}
		}
	})
}

func BenchmarkTopicOfPartition(b *testing.B) {
	n := fill(b, 100_000, 1)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := rand.Int(); pb.Next(); i += 7919 {
			if t, _ := n.TopicOf(entry.Partition(i%100_000) + 1); t == nil {
				b.Error("not found")
			}
		}
	})
}

func BenchmarkApplyCreate(b *testing.B) {
	b.ReportAllocs()
	fill(b, b.N, 1, "retention.ms", "1000")
}

func BenchmarkLoad100000Topics(b *testing.B) {
	n := newNode(b)
	for i := range 100_000 {
		n.mustCreate(fmt.Sprintf("tenant-%05d.orders.created", i), 1, "retention.ms", "1000")
	}
	broker, err := config.NewBroker(nil)
	if err != nil {
		b.Fatal(err)
	}
	state := sortedState(n.state)
	b.ResetTimer()
	for range b.N {
		if err := catalog.New(broker).Load(state, nowhere{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAlterBrokerWith100000Topics(b *testing.B) {
	n := fill(b, 100_000, 1, "retention.ms", "1000")
	for i := range b.N {
		value := fmt.Sprint(i % 100)
		plan := n.PlanIncremental([]catalog.Alter{{Resource: catalog.ResourceBroker, Changes: []catalog.ConfigChange{set("log.retention.bytes", value)}}})[0]
		if plan.Err != nil {
			b.Fatal(plan.Err)
		}
		n.index++
		n.Apply(&entry.Entry{Type: entry.TypeAlterConfigs, Index: n.index, Payload: plan.Payload}, nowhere{})
	}
}

func BenchmarkDescribeTopic(b *testing.B) {
	n := fill(b, 1, 1, "retention.ms", "1000")
	b.ReportAllocs()
	for range b.N {
		if _, err := n.DescribeTopic("tenant-00000.orders.created", nil, true); err != nil {
			b.Fatal(err)
		}
	}
}

// sortedMemory is a state that is scanned without sorting it each time.
type sortedMemory struct {
	memory
	keys []string
}

func sortedState(m memory) *sortedMemory {
	s := &sortedMemory{memory: m}
	_ = m.Scan([]byte("c"), []byte("d"), func(key, _ []byte) bool {
		s.keys = append(s.keys, string(key))
		return true
	})
	return s
}

func (s *sortedMemory) Scan(from, to []byte, visit func(key, value []byte) bool) error {
	for _, k := range s.keys {
		if k >= string(from) && k < string(to) && !visit([]byte(k), []byte(s.memory[k])) {
			break
		}
	}
	return nil
}
