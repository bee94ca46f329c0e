package offsets

import (
	"fmt"
	"testing"

	"github.com/sluicemq/sluice/log/entry"
)

func TestEachVisitsWhatWasAppended(t *testing.T) {
	q := Request{Group: "g", Generation: -1, Retention: -1, Topics: []Topic{
		{ID: entry.TopicID{1}, Offsets: []Offset{{Partition: 0, Offset: 5, LeaderEpoch: -1, Metadata: "m"}, {Partition: 3, Offset: 6}}},
		{ID: entry.TopicID{2}, Offsets: []Offset{{Partition: 1, Offset: -7}}},
	}}
	payload := q.Append(nil)
	c, err := DecodeCommit(payload)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var got []Topic
		err := c.Each(func(id entry.TopicID, o Offset) {
			if len(got) == 0 || got[len(got)-1].ID != id {
				got = append(got, Topic{ID: id})
			}
			got[len(got)-1].Offsets = append(got[len(got)-1].Offsets, o)
		})
		if err != nil || fmt.Sprint(got) != fmt.Sprint(q.Topics) {
			t.Errorf("%v, %v", got, err)
		}
	}
	for n := len(payload) - 1; n > 0; n-- {
		if c, err := DecodeCommit(payload[:n]); err == nil && c.Each(func(entry.TopicID, Offset) {}) == nil {
			t.Errorf("the first %d of %d bytes were read", n, len(payload))
		}
	}
}
