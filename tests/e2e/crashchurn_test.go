package e2e

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/tests/e2e/raw"
)

// churn creates, changes and deletes topics while the program is killed. It
// does one thing after the other, so that at a crash at most one of them has an
// outcome that nobody was told.
type churn struct {
	t       testing.TB
	random  *rand.Rand
	topics  map[string]*topicState
	made    int
	changes int // that were acknowledged

	// doubt is the topic of the change that was under way at the crash, with what
	// it is if the change was made; nil: it does not exist then.
	doubt      string
	doubtState *topicState
}

// topicState is what is known of a topic.
type topicState struct {
	id         [16]byte // zero: not known
	partitions int32
	retention  string
	start      int64
	values     []string // of partition 0, at their offsets
}

func (s *topicState) clone() *topicState {
	c := *s
	c.values = slices.Clone(s.values)
	return &c
}

func newChurn(t testing.TB, seed uint64) *churn {
	return &churn{t: t, random: rand.New(rand.NewPCG(seed, 1000)), topics: map[string]*topicState{}}
}

// start makes changes until the connection to the program breaks; then done is
// closed.
func (h *churn) start(addr string) (done chan struct{}) {
	done = make(chan struct{})
	h.doubt = ""
	// Ends when the program does.
	go func() {
		defer close(done)
		c, err := raw.Connect(h.t, addr)
		if err != nil {
			return
		}
		defer c.Close()
		for !h.t.Failed() && h.change(c) {
		}
	}()
	return done
}

// change makes one change. It returns false, with the change in doubt, when the
// connection broke.
func (h *churn) change(c *raw.Conn) bool {
	names := slices.Sorted(maps.Keys(h.topics))
	if len(names) < 3 || len(names) < 20 && h.random.IntN(4) == 0 {
		return h.create(c)
	}
	name := names[h.random.IntN(len(names))]
	after := h.topics[name].clone()
	var request kmsg.Request
	switch h.random.IntN(12) {
	case 0, 1:
		return h.send(c, name, nil, deleteTopic(name))
	case 2, 3:
		after.partitions += 1 + int32(h.random.IntN(3))
		request = createPartitions(name, after.partitions)
	case 4, 5:
		after.retention = strconv.Itoa(1_000_000_000 + h.random.IntN(1_000_000))
		request = setConfig(name, "retention.ms", after.retention)
	case 6:
		if len(after.values) == 0 {
			return true
		}
		after.start = max(after.start, int64(1+h.random.IntN(len(after.values))))
		request = deleteRecords(name, after.start)
	default:
		value := fmt.Sprintf("%s %d", name, len(after.values))
		after.values = append(after.values, value)
		p := produceRequest(-1, into{topic{name: name}, 0, raw.Values(time.Now().UnixMilli(), value).Bytes()})
		p.SetVersion(produceVersion)
		request = p
	}
	return h.send(c, name, after, request)
}

// create makes a topic: half the time one that was deleted before.
func (h *churn) create(c *raw.Conn) bool {
	name := "churn-" + strconv.Itoa(h.random.IntN(h.made+1))
	if h.topics[name] != nil {
		return true
	}
	h.made++
	after := &topicState{partitions: 1 + int32(h.random.IntN(4)), retention: strconv.Itoa(1_000_000_000 + h.random.IntN(1_000_000))}
	request := createTopics(name, after.partitions, "retention.ms", after.retention)
	request.SetVersion(7)
	return h.send(c, name, after, request)
}

// send makes a change and notes its outcome.
func (h *churn) send(c *raw.Conn, name string, after *topicState, request kmsg.Request) bool {
	h.doubt, h.doubtState = name, after
	response, err := c.Try(request)
	if errors.Is(err, raw.ErrClosed) {
		return false
	}
	if err != nil {
		h.t.Error(err)
		return false
	}
	if code := codeOf(response); code != 0 {
		h.t.Errorf("%s of topic %s: error %d", kmsg.NameForKey(request.Key()), name, code)
		return false
	}
	h.changes++
	h.doubt = ""
	if r, ok := response.(*kmsg.CreateTopicsResponse); ok {
		after.id = r.Topics[0].TopicID
	}
	h.settle(name, after)
	return true
}

func (h *churn) settle(name string, state *topicState) {
	if state == nil {
		delete(h.topics, name)
	} else {
		h.topics[name] = state
	}
}

// check compares the topics that there are with what is known, and takes over
// what became of a change in doubt.
func (h *churn) check(c *raw.Conn) {
	found := map[string]*topicState{}
	for _, in := range raw.Ask[*kmsg.MetadataResponse](c, 12, kmsg.NewPtrMetadataRequest()).Topics {
		if name := *in.Topic; len(name) > 6 && name[:6] == "churn-" {
			found[name] = h.describe(c, name, in)
		}
	}
	if h.doubt != "" {
		if now := found[h.doubt]; now == nil && h.doubtState == nil || now != nil && h.doubtState != nil && difference(now, h.doubtState) == "" {
			h.settle(h.doubt, now)
		}
	}
	for name, now := range found {
		if known := h.topics[name]; known == nil {
			h.t.Errorf("topic %s is there, but was deleted or never made", name)
		} else if d := difference(now, known); d != "" {
			h.t.Errorf("topic %s: %s (in doubt was: %q %+v)", name, d, h.doubt, h.doubtState)
		}
	}
	for name := range h.topics {
		if found[name] == nil {
			h.t.Errorf("topic %s is missing", name)
		}
	}
}

func (h *churn) describe(c *raw.Conn, name string, in kmsg.MetadataResponseTopic) *topicState {
	s := &topicState{id: in.TopicID, partitions: int32(len(in.Partitions))}
	s.retention = configOf(c, name, "retention.ms")
	request := listOffsetsRequest(topic{name: name}, 0, -2)
	s.start = raw.Ask[*kmsg.ListOffsetsResponse](c, 7, request).Topics[0].Partitions[0].Offset
	s.values = make([]string, s.start)
	for {
		r := raw.Ask[*kmsg.FetchResponse](c, fetchVersion, fetchRequest(from{topic{name: name}, 0, int64(len(s.values))}))
		p := r.Topics[0].Partitions[0]
		batches, err := raw.Split(p.RecordBatches)
		if err != nil || p.ErrorCode != 0 {
			h.t.Errorf("topic %s: error %d, %v", name, p.ErrorCode, err)
		}
		if len(batches) == 0 {
			return s
		}
		for _, b := range batches {
			record := kmsg.NewRecord()
			if err := record.ReadFrom(b.Records); err != nil {
				h.t.Errorf("topic %s: %v", name, err)
			}
			s.values = append(s.values, string(record.Value))
		}
	}
}

// difference says in what a topic is not what it should be; "" if in nothing.
func difference(now, known *topicState) string {
	switch {
	case known.id != [16]byte{} && now.id != known.id:
		return fmt.Sprintf("has id %x, want %x", now.id, known.id)
	case now.partitions != known.partitions:
		return fmt.Sprintf("has %d partitions, want %d", now.partitions, known.partitions)
	case now.retention != known.retention:
		return fmt.Sprintf("has retention.ms %s, want %s", now.retention, known.retention)
	case now.start != known.start:
		return fmt.Sprintf("starts at %d, want %d", now.start, known.start)
	case len(now.values) != len(known.values):
		return fmt.Sprintf("ends at %d, want %d", len(now.values), len(known.values))
	}
	for i := now.start; i < int64(len(now.values)); i++ {
		if now.values[i] != known.values[i] {
			return fmt.Sprintf("has %q at offset %d, want %q", now.values[i], i, known.values[i])
		}
	}
	return ""
}

// codeOf returns the error code of an answer about one topic.
func codeOf(response kmsg.Response) int16 {
	switch r := response.(type) {
	case *kmsg.CreateTopicsResponse:
		return r.Topics[0].ErrorCode
	case *kmsg.DeleteTopicsResponse:
		return r.Topics[0].ErrorCode
	case *kmsg.CreatePartitionsResponse:
		return r.Topics[0].ErrorCode
	case *kmsg.IncrementalAlterConfigsResponse:
		return r.Resources[0].ErrorCode
	case *kmsg.DeleteRecordsResponse:
		return r.Topics[0].Partitions[0].ErrorCode
	case *kmsg.ProduceResponse:
		return r.Topics[0].Partitions[0].ErrorCode
	}
	return -1
}
