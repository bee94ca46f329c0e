package broker_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/sluicemq/sluice/broker"
	"github.com/sluicemq/sluice/catalog/config"
	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/protocol/kerr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limit is how long an answer may take.
const limit = 10 * time.Second

// node is a broker of a test's own.
type node struct {
	*broker.Broker
	t    *testing.T
	dir  string
	addr string
}

// start runs a broker over a folder of its own, with settings as names and
// values. It stops at the test's end.
func start(t *testing.T, settings ...string) *node {
	t.Helper()
	return startIn(t, t.TempDir(), settings...)
}

func startIn(t *testing.T, dir string, settings ...string) *node {
	t.Helper()
	values := config.Values{
		"node.id": "7", "listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": dir, "http.listen": "",
		"commitlog.segment.bytes": "4194304", "disk.min.free.bytes": "0",
	}
	for i := 0; i < len(settings); i += 2 {
		values[settings[i]] = settings[i+1]
	}
	s, err := config.NewBroker(values)
	if err != nil {
		t.Fatal(err)
	}
	b, err := broker.Start(s, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	n := &node{Broker: b, t: t, dir: dir, addr: b.Addr("PLAINTEXT").String()}
	t.Cleanup(n.stop)
	return n
}

func (n *node) stop() {
	n.t.Helper()
	if err := n.Stop(); err != nil {
		n.t.Error(err)
	}
}

// client is a connection that speaks nothing but what a test gives it.
type client struct {
	t      *testing.T
	socket net.Conn
	last   int32 // correlation id
}

func (n *node) client() *client {
	n.t.Helper()
	socket, err := net.Dial("tcp", n.addr)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { socket.Close() })
	return &client{t: n.t, socket: socket}
}

// send writes a request without waiting for the answer.
func (c *client) send(version int16, req kmsg.Request) {
	c.t.Helper()
	req.SetVersion(version)
	c.last++
	b := []byte{0, 0, 0, 0}
	b = kbin.AppendInt16(b, req.Key())
	b = kbin.AppendInt16(b, version)
	b = kbin.AppendInt32(b, c.last)
	b = kbin.AppendNullableString(b, ptr("test"))
	if req.IsFlexible() {
		b = append(b, 0)
	}
	b = req.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	if _, err := c.socket.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

// receive reads the answer to a request that was sent.
func (c *client) receive(req kmsg.Request) (kmsg.Response, error) {
	if err := c.socket.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c.socket, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.socket, b); err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	b = b[4:]
	if resp.IsFlexible() && req.Key() != 18 {
		b = b[1:]
	}
	if err := resp.ReadFrom(b); err != nil {
		return nil, fmt.Errorf("%s v%d: %w", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return resp, nil
}

// ask sends a request and returns the answer.
func ask[R kmsg.Response](c *client, version int16, req kmsg.Request) R {
	c.t.Helper()
	c.send(version, req)
	resp, err := c.receive(req)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.(R)
}

// wantClosed fails the test unless the broker closes the connection.
func (c *client) wantClosed() {
	c.t.Helper()
	if err := c.socket.SetReadDeadline(time.Now().Add(limit)); err != nil {
		c.t.Fatal(err)
	}
	if n, err := c.socket.Read(make([]byte, 1)); n > 0 || err == nil || strings.Contains(err.Error(), "timeout") {
		c.t.Errorf("read %d bytes, %v; want the connection closed", n, err)
	}
}

func ptr[T any](v T) *T { return &v }

// topic makes a topic with configs as names and values, and returns its id.
func (n *node) topic(name string, partitions int32, configs ...string) [16]byte {
	n.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics = append(req.Topics, newTopic(name, partitions, configs...))
	resp := ask[*kmsg.CreateTopicsResponse](n.client(), 7, req)
	if err := resp.Topics[0]; err.ErrorCode != 0 {
		n.t.Fatalf("create %s: %s, %v", name, kerr.Code(err.ErrorCode), *err.ErrorMessage)
	}
	return resp.Topics[0].TopicID
}

func newTopic(name string, partitions int32, configs ...string) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
	for i := 0; i < len(configs); i += 2 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = configs[i], &configs[i+1]
		t.Configs = append(t.Configs, c)
	}
	return t
}

// records returns a batch of one record for each value.
func records(values ...string) []byte { return encode(batch.Options{}, values...) }

func encode(o batch.Options, values ...string) []byte {
	var b batch.Builder
	for i, v := range values {
		b.Add(&batch.Record{Timestamp: sent + int64(i), Key: []byte("k"), Value: []byte(v)})
	}
	out, err := b.Build(nil, batch.NewCodecs(batch.Limits{}), o)
	if err != nil {
		panic(err)
	}
	return out
}

// sent is the timestamp of the first record of every batch.
const sent = 1_700_000_000_000

// part is the records for one partition.
type part struct {
	topic     string
	id        [16]byte
	partition int32
	records   []byte
}

func produceRequest(acks int16, parts ...part) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 10_000
	for _, p := range parts {
		t := kmsg.NewProduceRequestTopic()
		t.Topic, t.TopicID = p.topic, p.id
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Partition, rp.Records = p.partition, p.records
		t.Partitions = append(t.Partitions, rp)
		if i := len(req.Topics) - 1; i >= 0 && req.Topics[i].Topic == p.topic && req.Topics[i].TopicID == p.id {
			req.Topics[i].Partitions = append(req.Topics[i].Partitions, rp)
			continue
		}
		req.Topics = append(req.Topics, t)
	}
	return req
}

// produce appends values to a partition and returns the base offset.
func (n *node) produce(topic string, partition int32, values ...string) int64 {
	n.t.Helper()
	resp := ask[*kmsg.ProduceResponse](n.client(), 9, produceRequest(-1, part{topic: topic, partition: partition, records: records(values...)}))
	p := resp.Topics[0].Partitions[0]
	wantCode(n.t, p.ErrorCode, kerr.None)
	return p.BaseOffset
}

func wantCode(t *testing.T, got int16, want kerr.Code) {
	t.Helper()
	if kerr.Code(got) != want {
		t.Errorf("got %s, want %s", kerr.Code(got), want)
	}
}

// eachVersion runs a test at every version from min to max.
func eachVersion(t *testing.T, lo, hi int16, f func(t *testing.T, version int16)) {
	for v := lo; v <= hi; v++ {
		t.Run(fmt.Sprintf("v%d", v), func(t *testing.T) { f(t, v) })
	}
}
