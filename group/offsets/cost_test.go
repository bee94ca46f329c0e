package offsets

import (
	"fmt"
	"testing"

	"github.com/sluicemq/sluice/log/entry"
)

// request commits n partitions of a topic.
func request(group string, n int, offset int64) *Request {
	topic := Topic{ID: topicID(1)}
	for p := range n {
		topic.Offsets = append(topic.Offsets, Offset{Partition: int32(p), Offset: offset, LeaderEpoch: 0, Metadata: "m"})
	}
	return &Request{Group: group, Member: "client-1-uuid", Generation: 4, Retention: -1, Topics: []Topic{topic}}
}

func TestCommittingAgainAllocatesNothing(t *testing.T) {
	table := New()
	payloads := [][]byte{request("g", 100, 1).Append(nil), request("g", 100, 2).Append(nil)}
	i := 0
	apply := func() {
		i++
		c, err := DecodeCommit(payloads[i%2])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := table.Commit(&c, entry.Time(i), every); err != nil {
			t.Fatal(err)
		}
	}
	apply()
	if n := testing.AllocsPerRun(100, apply); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { table.Fetch("g", topicID(1), 50) }); n > 0 {
		t.Errorf("%v allocations to fetch", n)
	}
}

func TestPartitionCommittedOftenIsWrittenOnce(t *testing.T) {
	table := New()
	for i := range 1000 {
		commit(t, table, entry.Time(i), request("g", 3, int64(i)))
	}
	if n := table.Unsaved(); n != 3+1 {
		t.Errorf("%d keys to write, want 3 offsets and a name", n)
	}
}

func BenchmarkCommit(b *testing.B) {
	for _, c := range []struct{ groups, partitions int }{{1, 1}, {1000, 1}, {1000, 10}, {1, 1000}} {
		b.Run(fmt.Sprintf("groups=%d/partitions=%d", c.groups, c.partitions), func(b *testing.B) {
			table, disk := New(), discard{}
			payloads := make([][]byte, c.groups)
			for i := range payloads {
				payloads[i] = request(fmt.Sprintf("group-%d", i), c.partitions, int64(i)).Append(nil)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				commit, err := DecodeCommit(payloads[i%c.groups])
				if err != nil {
					b.Fatal(err)
				}
				if _, err := table.Commit(&commit, entry.Time(i), every); err != nil {
					b.Fatal(err)
				}
				if i++; i%10_000 == 0 {
					table.Checkpoint(disk)
				}
			}
		})
	}
}

// discard is a state batch that forgets.
type discard struct{}

func (discard) Set(_, _ []byte)         {}
func (discard) Delete(_ []byte)         {}
func (discard) DeleteRange(_, _ []byte) {}
