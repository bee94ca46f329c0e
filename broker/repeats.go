package broker

import "github.com/twmb/franz-go/pkg/kmsg"

// topicKey names a topic as a request does: by id or by name.
type topicKey struct {
	id   [16]byte
	name string
}

// asked is a topic of a request with the partitions that are asked for, each of
// them once.
type asked struct {
	topic      int // its first place in the request
	partitions []askedPartition
}

// askedPartition is a partition of a request, and the places of its last entry
// there, which is the one that counts.
type askedPartition struct {
	index            int32
	topic, partition int
	times            int // that the request names it
}

// gather returns the topics and partitions of a request, each of them once, in
// the order in which they come first. So Kafka takes requests that name one
// more than once, and answers; topics without partitions are left out.
func gather(topics int, key func(topic int) topicKey, partitions func(topic int) int, index func(topic, partition int) int32) []asked {
	out := make([]asked, 0, topics)
	places := make(map[topicKey]int, topics)
	var inside []map[int32]int // of each topic: the places of its partitions in out
	for t := range topics {
		count := partitions(t)
		if count == 0 {
			continue
		}
		at, ok := places[key(t)]
		if !ok {
			at = len(out)
			places[key(t)] = at
			out = append(out, asked{topic: t, partitions: make([]askedPartition, 0, count)})
			inside = append(inside, make(map[int32]int, count))
		}
		a := &out[at]
		for p := range count {
			i := index(t, p)
			before, ok := inside[at][i]
			if !ok {
				before = len(a.partitions)
				inside[at][i] = before
				a.partitions = append(a.partitions, askedPartition{index: i})
			}
			b := &a.partitions[before]
			b.topic, b.partition = t, p
			b.times++
		}
	}
	return out
}

// few is up to how many keys are compared with each other, without a map.
const few = 8

// repeats reports whether two of n keys are equal.
func repeats[K comparable](n int, key func(int) K) bool {
	if n <= few {
		for i := 1; i < n; i++ {
			for j := range i {
				if key(i) == key(j) {
					return true
				}
			}
		}
		return false
	}
	seen := make(map[K]struct{}, n)
	for i := range n {
		seen[key(i)] = struct{}{}
	}
	return len(seen) < n
}

// repeatsIndex is repeats for partitions, which most clients send in rising
// order.
func repeatsIndex(n int, index func(int) int32) bool {
	for i := 1; i < n; i++ {
		if index(i-1) >= index(i) {
			return repeats(n, index)
		}
	}
	return false
}

// partitionsToProduce returns the topics of a Produce request with each topic
// and partition once. Nearly always that is the request as it stands.
func partitionsToProduce(request *kmsg.ProduceRequest) []kmsg.ProduceRequestTopic {
	key := func(t int) topicKey { return topicKey{request.Topics[t].TopicID, request.Topics[t].Topic} }
	plain := !repeats(len(request.Topics), key)
	for i := range request.Topics {
		p := request.Topics[i].Partitions
		plain = plain && len(p) > 0 && !repeatsIndex(len(p), func(i int) int32 { return p[i].Partition })
	}
	if plain {
		return request.Topics
	}
	all := gather(len(request.Topics), key,
		func(t int) int { return len(request.Topics[t].Partitions) },
		func(t, p int) int32 { return request.Topics[t].Partitions[p].Partition })
	topics := make([]kmsg.ProduceRequestTopic, len(all))
	for i, a := range all {
		topics[i].Topic, topics[i].TopicID = request.Topics[a.topic].Topic, request.Topics[a.topic].TopicID
		for _, p := range a.partitions {
			topics[i].Partitions = append(topics[i].Partitions, request.Topics[p.topic].Partitions[p.partition])
		}
	}
	return topics
}

// partitionsToFetch returns the topics of a Fetch request in the same way.
func partitionsToFetch(request *kmsg.FetchRequest) []kmsg.FetchRequestTopic {
	key := func(t int) topicKey { return topicKey{request.Topics[t].TopicID, request.Topics[t].Topic} }
	plain := !repeats(len(request.Topics), key)
	for i := range request.Topics {
		p := request.Topics[i].Partitions
		plain = plain && !repeatsIndex(len(p), func(i int) int32 { return p[i].Partition })
	}
	if plain {
		return request.Topics
	}
	all := gather(len(request.Topics), key,
		func(t int) int { return len(request.Topics[t].Partitions) },
		func(t, p int) int32 { return request.Topics[t].Partitions[p].Partition })
	topics := make([]kmsg.FetchRequestTopic, len(all))
	for i, a := range all {
		topics[i].Topic, topics[i].TopicID = request.Topics[a.topic].Topic, request.Topics[a.topic].TopicID
		for _, p := range a.partitions {
			topics[i].Partitions = append(topics[i].Partitions, request.Topics[p.topic].Partitions[p.partition])
		}
	}
	return topics
}
