package assign

import (
	"fmt"
	"testing"
)

// large makes a group of members x partitions. With classes > 1, members of
// class c subscribe to the topics c, c+1, ... of which each has the same size.
func large(members, topics, partitions, classes int) *Group {
	sizes := make([]int32, topics)
	for i := range sizes {
		sizes[i] = int32(partitions / topics)
	}
	subscriptions := make([][]int32, classes)
	for c := range subscriptions {
		for t := range topics {
			if classes == 1 || t%classes == c || (t+1)%classes == c {
				subscriptions[c] = append(subscriptions[c], int32(t))
			}
		}
	}
	g := group(sizes)
	for i := range members {
		g.Members = append(g.Members, Member{ID: fmt.Sprintf("m%06d", i), Topics: subscriptions[i%classes]})
	}
	return g
}

func BenchmarkAssign(b *testing.B) {
	for _, c := range []struct{ members, topics, partitions, classes int }{
		{100, 10, 1000, 1}, {1000, 100, 100_000, 1}, {1000, 100_000, 100_000, 1}, {1000, 1000, 100_000, 20},
	} {
		for _, name := range Names() {
			for _, change := range []string{"first", "join"} {
				b.Run(fmt.Sprintf("assignor=%s/members=%d/topics=%d/partitions=%d/classes=%d/%s",
					name, c.members, c.topics, c.partitions, c.classes, change), func(b *testing.B) {
					g := large(c.members, c.topics, c.partitions, c.classes)
					if change == "join" {
						g = g.withCurrent(mustAssign(b, name, g))
						g.Members = append(g.Members, Member{ID: "n", Topics: g.Members[0].Topics})
					}
					b.ReportAllocs()
					for b.Loop() {
						mustAssign(b, name, g)
					}
				})
			}
		}
	}
}
