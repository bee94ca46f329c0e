package diff

import (
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// broker is a broker that scripts are run against, and what the tester found out about it.
type broker struct {
	addr      string
	host      string
	port      int32
	nodeID    int32
	clusterID string
	ranges    map[int16][2]int16
	// run makes topic names of different runs against one long-lived broker differ.
	run string
	// pool has fresh topics by their number of partitions, made counts all that were ever made.
	pool map[int][]pooledTopic
	made int
	// used has the topics that no script needs any more.
	used []string
	// t0 is the time that the timestamps of the scripts' records count from: half a day ago, far
	// from the present, so that neither can be taken for the other, yet inside every retention.
	t0 int64
}

func meet(addr string) (*broker, error) {
	now := time.Now()
	b := &broker{
		addr: addr, ranges: make(map[int16][2]int16), pool: make(map[int][]pooledTopic),
		run: strconv.FormatInt(now.UnixMicro()%(36*36*36*36*36), 36),
		t0:  now.Add(-12 * time.Hour).UnixMilli(),
	}
	c, err := dial(addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	av := kmsg.NewPtrApiVersionsRequest()
	resp, err := c.ask(av, header{})
	if err != nil {
		return nil, fmt.Errorf("diff: ask %s for its versions: %w", addr, err)
	}
	for _, k := range resp.(*kmsg.ApiVersionsResponse).ApiKeys {
		b.ranges[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
	}
	meta := kmsg.NewPtrMetadataRequest()
	meta.Version = 9
	meta.Topics = []kmsg.MetadataRequestTopic{}
	resp, err = c.ask(meta, header{})
	if err != nil {
		return nil, fmt.Errorf("diff: ask %s for its metadata: %w", addr, err)
	}
	m := resp.(*kmsg.MetadataResponse)
	if m.ClusterID != nil {
		b.clusterID = *m.ClusterID
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("diff: %w", err)
	}
	n, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("diff: %w", err)
	}
	b.host, b.port, b.nodeID = host, int32(n), -1
	for _, x := range m.Brokers {
		if x.Port == b.port {
			b.nodeID = x.NodeID
		}
	}
	if b.nodeID < 0 {
		return nil, fmt.Errorf("diff: %s does not name itself in its metadata", addr)
	}
	return b, nil
}

// Script is one case run at one version against one broker. Its methods either send a request that
// is under test, and record the answer under a label, or prepare what the request needs.
//
// A script sees no difference between brokers: whatever it records is in words that do not depend
// on the broker's address, clock, or the ids it made up.
type Script struct {
	*broker
	// V is the version under test.
	V int16

	c        *conn
	name     string
	lines    []line
	topics   []string // in order of creation; index = number in the recorded name
	created  []string // those that exist and must be deleted at the end
	ids      map[[16]byte]string
	pids     map[int64]string
	sentCRCs map[uint32]bool // CRCs of the batches sent
	members  map[string]string
	conns    []*conn // of members of groups
}

// abort ends a script early; run recovers it.
type abort struct{ err error }

// run plays the case at one version and returns what it recorded.
func (c Case) run(b *broker, v int16) (lines []line, err error) {
	s := &Script{
		broker: b, V: v, name: c.Name,
		ids: make(map[[16]byte]string), pids: make(map[int64]string), sentCRCs: make(map[uint32]bool),
		members: make(map[string]string),
	}
	defer func() {
		if s.c != nil {
			s.c.Close()
		}
		for _, c := range s.conns {
			c.Close()
		}
		switch r := recover().(type) {
		case nil:
		case abort:
			err = r.err
		default:
			panic(r)
		}
		b.used = append(b.used, s.created...)
		b.clean(cleanStep)
		lines = s.lines
	}()
	c.Play(s)
	return s.lines, nil
}

// cleanStep is how many used topics pile up before they are deleted.
const cleanStep = 200

// clean deletes used topics, so that a long run does not pile them up.
func (b *broker) clean(atLeast int) {
	if len(b.used) < atLeast {
		return
	}
	c, err := dial(b.addr)
	if err != nil {
		return
	}
	defer c.Close()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version = 5
	req.TopicNames, b.used = b.used, nil
	req.TimeoutMillis = 30000
	_, _ = c.ask(req, header{}) // A topic that stays is in nobody's way.
}

type pooledTopic struct {
	name string
	id   [16]byte
}

// poolStep is how many topics are made at once.
const poolStep = 40

// pooled takes a topic out of the pool.
func (s *Script) pooled(partitions int) string {
	if len(s.pool[partitions]) == 0 {
		var names []string
		req := kmsg.NewPtrCreateTopicsRequest()
		req.TimeoutMillis = 30000
		for range poolStep {
			name := fmt.Sprintf("diff-%s-%d", s.run, s.made)
			s.made++
			names = append(names, name)
			req.Topics = append(req.Topics, createTopic(name, int32(partitions), 1))
		}
		for _, t := range s.prepare(7, req).(*kmsg.CreateTopicsResponse).Topics {
			if t.ErrorCode != 0 {
				s.fail("prepare: create topics: %s", codeName(t.ErrorCode))
			}
			s.pool[partitions] = append(s.pool[partitions], pooledTopic{t.Topic, t.TopicID})
		}
		s.await(partitions, names...)
	}
	last := len(s.pool[partitions]) - 1
	t := s.pool[partitions][last]
	s.pool[partitions] = s.pool[partitions][:last]
	s.topics = append(s.topics, t.name)
	s.ids[t.id] = "id of " + s.rename(t.name)
	s.Adopt(t.name)
	return t.name
}

func (s *Script) fail(format string, args ...any) {
	panic(abort{fmt.Errorf(format, args...)})
}

// Note records a value that is no field of an answer.
func (s *Script) Note(label string, value any) {
	text := s.rename(fmt.Sprint(value))
	if text == "" {
		text = `""`
	}
	s.lines = append(s.lines, line{s.rename(label), text})
}

// Do sends a request at the version under test and records the answer. It returns nil if the
// broker closed the connection; the next request then gets a new one.
func (s *Script) Do(label string, req kmsg.Request) kmsg.Response {
	return s.DoHeader(label, req, header{})
}

// DoHeader is Do with a header of one's own.
func (s *Script) DoHeader(label string, req kmsg.Request, h header) kmsg.Response {
	req.SetVersion(s.V)
	resp := s.exchange(label, req, h)
	if resp != nil {
		s.Record(label, resp)
	}
	return resp
}

// At sends a request at a version of its own and records the answer: for what a case looks at after
// the request under test.
func (s *Script) At(version int16, label string, req kmsg.Request) kmsg.Response {
	req.SetVersion(version)
	resp := s.exchange(label, req, header{})
	if resp != nil {
		s.Record(label, resp)
	}
	return resp
}

// Hidden sends a request at the version under test and returns the answer without recording it.
func (s *Script) Hidden(label string, req kmsg.Request) kmsg.Response {
	req.SetVersion(s.V)
	return s.exchange(label, req, header{})
}

// Record records an answer.
func (s *Script) Record(label string, resp kmsg.Response) {
	s.lines = append(s.lines, renderer{s}.render(label, resp)...)
}

// exchange sends a request, and records what happened if it was not answered.
func (s *Script) exchange(label string, req kmsg.Request, h header) kmsg.Response {
	resp, err := s.conn().ask(req, h)
	switch {
	case err == nil:
		return resp
	case errors.Is(err, errClosed), errors.Is(err, errSilent):
		s.Note(label, "connection "+err.Error())
	default:
		s.Note(label, err)
	}
	s.Hangup()
	return nil
}

// Raw sends a frame as it is and records whether it was answered. It returns the answer.
func (s *Script) Raw(label string, frame []byte, limit time.Duration) []byte {
	err := s.conn().send(frame)
	var b []byte
	if err == nil {
		b, err = s.conn().receive(limit)
	}
	if err != nil {
		s.Note(label, "connection "+err.Error())
		s.Hangup()
		return nil
	}
	s.Note(label, "answered")
	return b
}

func (s *Script) conn() *conn {
	if s.c == nil {
		c, err := dial(s.addr)
		if err != nil {
			s.fail("%v", err)
		}
		s.c = c
	}
	return s.c
}

// Impatient makes the next requests wait less for their answers: for those that Kafka leaves
// without any.
func (s *Script) Impatient() { s.conn().limit = time.Second }

// Hangup closes the connection; the next request gets a new one.
func (s *Script) Hangup() {
	if s.c != nil {
		s.c.Close()
		s.c = nil
	}
}

// prepare sends a request that must be answered, and records nothing.
func (s *Script) prepare(version int16, req kmsg.Request) kmsg.Response {
	req.SetVersion(version)
	resp, err := s.conn().ask(req, header{})
	if err != nil {
		s.fail("prepare: %s v%d: %v", kmsg.NameForKey(req.Key()), version, err)
	}
	return resp
}

// Name returns a topic name that no other script uses. Suffix may be anything, also characters that
// a topic must not have.
func (s *Script) Name(suffix string) string {
	name := fmt.Sprintf("diff-%s-%s-%d-%d%s", s.run, strings.ReplaceAll(s.name, "/", "-"), s.V, len(s.topics), suffix)
	s.topics = append(s.topics, name)
	return name
}

// Adopt makes the script delete a topic at its end that it created by a request of its own.
func (s *Script) Adopt(topics ...string) { s.created = append(s.created, topics...) }

// Topic creates a topic with the given configs, name and value in turn, and waits until it can be
// used.
//
// Topics without configs come from a pool that is filled many at a time: most of a script's time
// would go into making one otherwise.
func (s *Script) Topic(partitions int, configs ...string) string {
	if len(configs) == 0 {
		return s.pooled(partitions)
	}
	name := s.Name("")
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, int32(partitions), 1
	for i := 0; i < len(configs); i += 2 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = configs[i], &configs[i+1]
		t.Configs = append(t.Configs, c)
	}
	req.Topics = append(req.Topics, t)
	resp := s.prepare(7, req).(*kmsg.CreateTopicsResponse)
	if code := resp.Topics[0].ErrorCode; code != 0 {
		s.fail("prepare: create topic: %s", codeName(code))
	}
	s.Adopt(name)
	s.AwaitTopic(name, partitions)
	return name
}

// AwaitTopic waits until every partition of a topic answers: Kafka tells of a topic before it
// serves it. It learns the topic's id.
func (s *Script) AwaitTopic(name string, partitions int) {
	s.await(partitions, name)
	s.TopicID(name)
}

func (s *Script) await(partitions int, names ...string) {
	s.eventually("the topic is served", func() bool {
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID = -1
		for _, name := range names {
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = name
			for i := range partitions {
				p := kmsg.NewListOffsetsRequestTopicPartition()
				p.Partition, p.Timestamp = int32(i), -1
				t.Partitions = append(t.Partitions, p)
			}
			req.Topics = append(req.Topics, t)
		}
		for _, t := range s.prepare(4, req).(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					return false
				}
			}
		}
		return true
	})
}

// eventually waits for a broker that does things in the background. It asks again and again, since
// Kafka's protocol has no event to wait for.
func (s *Script) eventually(what string, done func() bool) {
	deadline := time.Now().Add(10 * time.Second)
	for wait := 2 * time.Millisecond; !done(); wait = min(2*wait, 50*time.Millisecond) {
		if time.Now().After(deadline) {
			s.fail("prepare: %s: not within 10 s", what)
		}
		<-time.After(wait)
	}
}

// TopicID returns the id of a topic, zero if there is no such topic.
func (s *Script) TopicID(name string) [16]byte {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &name
	req.Topics = append(req.Topics, t)
	req.AllowAutoTopicCreation = false
	resp := s.prepare(10, req).(*kmsg.MetadataResponse)
	id := resp.Topics[0].TopicID
	if _, known := s.ids[id]; !known && id != [16]byte{} {
		called := "id of " + s.rename(name)
		for old, n := range s.ids {
			if n == called {
				s.ids[old] = "former " + called
			}
		}
		s.ids[id] = called
	}
	return id
}

// Fill appends batches to a partition, one request each, and fails the script if one is refused.
func (s *Script) Fill(topic string, partition int32, batches ...batch) {
	for _, b := range batches {
		req := s.ProduceRequest(-1, part{topic, partition, s.wire(b)})
		resp := s.prepare(8, req).(*kmsg.ProduceResponse)
		if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
			s.fail("prepare: produce: %s", codeName(code))
		}
	}
}

// wire returns the batch's bytes, and remembers them as sent.
func (s *Script) wire(b batch) []byte {
	out := b.bytes()
	s.sentCRCs[crc32.Checksum(out[21:], castagnoli)] = true
	return out
}

// part is what a produce request says about one partition.
type part struct {
	topic     string
	partition int32
	records   []byte
}

// ProduceRequest builds a request, for every version.
func (s *Script) ProduceRequest(acks int16, parts ...part) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 10000
	for _, p := range parts {
		i := slices.IndexFunc(req.Topics, func(t kmsg.ProduceRequestTopic) bool { return t.Topic == p.topic })
		if i < 0 {
			t := kmsg.NewProduceRequestTopic()
			t.Topic, t.TopicID = p.topic, s.knownID(p.topic)
			req.Topics = append(req.Topics, t)
			i = len(req.Topics) - 1
		}
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Partition, rp.Records = p.partition, p.records
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, rp)
	}
	return req
}

// knownID returns the id that the script learnt for a topic, or one that no topic has.
func (s *Script) knownID(name string) [16]byte {
	want := "id of " + s.rename(name)
	for id, n := range s.ids {
		if n == want {
			return id
		}
	}
	return [16]byte{15: 77}
}

// FetchRequest builds a request without session that does not wait, for every version, for one
// partition.
func (s *Script) FetchRequest(topic string, partition int32, offset int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.SessionEpoch = -1, -1
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 0, 1, 50<<20
	req.Topics = append(req.Topics, s.fetchTopic(topic, partition, offset))
	return req
}

func (s *Script) fetchTopic(topic string, partition int32, offset int64) kmsg.FetchRequestTopic {
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = topic, s.knownID(topic)
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, 10<<20
	p.CurrentLeaderEpoch, p.LastFetchedEpoch, p.LogStartOffset = -1, -1, -1
	t.Partitions = append(t.Partitions, p)
	return t
}

// Look records what a partition holds from an offset on.
func (s *Script) Look(label, topic string, partition int32, offset int64) {
	s.At(11, label, s.FetchRequest(topic, partition, offset))
}

// Bounds records the first and the next offset of a partition.
func (s *Script) Bounds(label, topic string, partition int32) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	for _, ts := range []int64{-2, -1} {
		req.Topics = []kmsg.ListOffsetsRequestTopic{listTopic(topic, partition, ts)}
		resp := s.prepare(4, req).(*kmsg.ListOffsetsResponse)
		p := resp.Topics[0].Partitions[0]
		which := map[int64]string{-2: "start", -1: "end"}[ts]
		s.Note(label+"."+which, fmt.Sprintf("%d %s", p.Offset, codeName(p.ErrorCode)))
	}
}

func listTopic(topic string, partition int32, ts int64) kmsg.ListOffsetsRequestTopic {
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp, p.CurrentLeaderEpoch, p.MaxNumOffsets = partition, ts, -1, 1
	t.Partitions = append(t.Partitions, p)
	return t
}

// rename replaces the names of this script's topics in a text with T0, T1, and so on, and the
// node's id where it stands for itself.
func (s *Script) rename(text string) string {
	for i := len(s.topics) - 1; i >= 0; i-- {
		text = strings.ReplaceAll(text, s.topics[i], "T"+strconv.Itoa(i))
	}
	return text
}

func (s *Script) nameOfID(id [16]byte) string {
	if id == [16]byte{} {
		return "zero"
	}
	if name, ok := s.ids[id]; ok {
		return name
	}
	return "unknown id"
}

func (s *Script) nameOfPID(pid int64) string {
	if pid < 0 {
		return strconv.FormatInt(pid, 10)
	}
	name, ok := s.pids[pid]
	if !ok {
		name = "p" + strconv.Itoa(len(s.pids))
		s.pids[pid] = name
	}
	return name
}

// when returns a time in words: from the scripts' own origin, or from the present.
func (s *Script) when(ms int64) string {
	const hour = 3600 * 1000
	if d := ms - s.t0; d > -hour && d < hour {
		return fmt.Sprintf("t0%+d", d)
	}
	if d := ms - time.Now().UnixMilli(); d > -hour/12 && d < hour/12 {
		return "present"
	} else if d > 0 && d < 24*hour {
		const step = hour / 6
		return fmt.Sprintf("present+%dmin", (d+step/2)/step*10)
	}
	return strconv.FormatInt(ms, 10)
}
