package broker

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestGatherNamesEverythingOnce(t *testing.T) {
	type topic struct {
		name       string
		partitions []int32
	}
	request := []topic{{"a", []int32{3, 1, 3}}, {"empty", nil}, {"b", []int32{0}}, {"a", []int32{1, 7}}}
	got := gather(len(request),
		func(i int) topicKey { return topicKey{name: request[i].name} },
		func(i int) int { return len(request[i].partitions) },
		func(i, j int) int32 { return request[i].partitions[j] })
	var text []string
	for _, a := range got {
		for _, p := range a.partitions {
			text = append(text, fmt.Sprintf("%s%d from %d.%d, %d times", request[a.topic].name, p.index, p.topic, p.partition, p.times))
		}
	}
	want := []string{
		"a3 from 0.2, 2 times", "a1 from 3.0, 2 times", "a7 from 3.1, 1 times",
		"b0 from 2.0, 1 times",
	}
	if !slices.Equal(text, want) {
		t.Errorf("got %q, want %q", text, want)
	}
}

func TestRepeatsLooksAtAll(t *testing.T) {
	for n := range 3 * few {
		for at := range n {
			for to := range n {
				index := func(i int) int32 {
					if i == at {
						i = to
					}
					return int32(i)
				}
				if got := repeatsIndex(n, index); got != (at != to) {
					t.Errorf("%d of %d is %d too: %v", at, n, to, got)
				}
			}
		}
	}
}

func TestOrdinaryRequestsAreNotGathered(t *testing.T) {
	produce := &kmsg.ProduceRequest{Topics: []kmsg.ProduceRequestTopic{
		{Topic: "a", Partitions: make([]kmsg.ProduceRequestTopicPartition, 1)},
		{TopicID: [16]byte{1}, Partitions: make([]kmsg.ProduceRequestTopicPartition, 1)},
	}}
	fetch := &kmsg.FetchRequest{Topics: []kmsg.FetchRequestTopic{{Topic: "a", Partitions: make([]kmsg.FetchRequestTopicPartition, 100)}}}
	for i := range fetch.Topics[0].Partitions {
		fetch.Topics[0].Partitions[i].Partition = int32(i)
	}
	if n := testing.AllocsPerRun(10, func() {
		if &partitionsToProduce(produce)[0] != &produce.Topics[0] || &partitionsToFetch(fetch)[0] != &fetch.Topics[0] {
			t.Error("the topics were copied")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
