package e2e

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/tests/e2e/node"
	"github.com/sluicemq/sluice/tests/e2e/raw"
)

// bystander is a client that produces all the time, beside one that does harm.
type bystander struct {
	t       *testing.T
	n       *node.Node
	topic   topic
	stopped chan struct{}
	running sync.WaitGroup
	written int64
	slowest time.Duration
}

// startBystander starts to produce, one record after the other.
func startBystander(t *testing.T, n *node.Node) *bystander {
	t.Helper()
	c := raw.Dial(t, n.Addr())
	b := &bystander{t: t, n: n, topic: makeTopic(t, c, "bystander", 1), stopped: make(chan struct{})}
	request := produceRequest(-1, into{b.topic, 0, raw.Values(time.Now().UnixMilli(), "x").Bytes()})
	request.SetVersion(produceVersion)
	b.running.Go(func() {
		for {
			select {
			case <-b.stopped:
				return
			default:
			}
			began := time.Now()
			r, err := c.Try(request)
			if err != nil {
				t.Errorf("the other client: %v", err)
				return
			}
			if a := r.(*kmsg.ProduceResponse).Topics[0].Partitions[0]; a.ErrorCode != 0 || a.BaseOffset != b.written {
				t.Errorf("the other client: %+v, want offset %d", a, b.written)
				return
			}
			b.written++
			b.slowest = max(b.slowest, time.Since(began))
		}
	})
	return b
}

// stop ends the bystander, which must have been served all the time.
func (b *bystander) stop() {
	b.t.Helper()
	close(b.stopped)
	b.running.Wait()
	b.t.Logf("the other client wrote %d records, the slowest in %v", b.written, b.slowest)
	if b.written == 0 || b.slowest > 10*time.Second {
		b.t.Errorf("the other client wrote %d records, the slowest in %v", b.written, b.slowest)
	}
	if got := readAll(b.t, raw.Dial(b.t, b.n.Addr()), b.topic, 0); int64(len(got)) != b.written {
		b.t.Errorf("%d records of the other client are there, %d were acknowledged", len(got), b.written)
	}
}

// warnings returns the lines since a mark that tell of a refusal of a kind.
func warnings(n *node.Node, mark int, kind string) (lines []node.Line) {
	for _, l := range n.Lines(mark) {
		if l.Level == "warn" && l.Text("kind") == kind {
			lines = append(lines, l)
		}
	}
	return lines
}

func TestAMalformedRequestClosesItsConnectionWithOneLine(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	b := startBystander(t, n)
	mark := n.Mark()
	c := raw.Dial(t, n.Addr())
	c.Header.ClientID = "the one to blame"
	request := kmsg.NewPtrMetadataRequest()
	request.SetVersion(9)
	frame := c.Header.Encode(request, 1)
	frame = append(frame[:len(frame)-1], 0xff, 0xff, 0xff, 0xff, 0x7f)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	if err := c.SendBytes(frame); err != nil {
		t.Fatal(err)
	}
	c.WaitClosed()
	line := n.WaitLine(mark, func(l node.Line) bool { return l.Level == "warn" })
	if line.Text("kind") != "malformed-body" || !strings.Contains(line.Raw, "the one to blame") || !strings.Contains(line.Raw, c.LocalAddr().String()) || !strings.Contains(line.Raw, "Metadata") {
		t.Errorf("the line does not say what happened and whose fault it was: %s", line.Raw)
	}
	// A flood of them makes no flood of lines.
	began := time.Now()
	for range 200 {
		c := raw.Dial(t, n.Addr())
		if err := c.SendBytes(frame); err != nil {
			t.Fatal(err)
		}
		c.WaitClosed()
	}
	if got, most := len(warnings(n, mark, "malformed-body")), 2+int(time.Since(began)/time.Second); got > most {
		t.Errorf("%d lines about 201 malformed requests", got)
	}
	if got := n.Metric(`sluice_connections_closed_total{kind="malformed-body"}`); got != 201 {
		t.Errorf("%v malformed requests were counted, want 201", got)
	}
	b.stop()
}

func TestFramesOfWrongSizesCloseTheirConnectionAndTakeNoMemory(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	b := startBystander(t, n)
	before := n.PeakRSS()
	for _, size := range []uint32{0, 1, 7, 104857601, 1 << 31, 1<<31 - 1, 1<<32 - 1} {
		for range 20 {
			c := raw.Dial(t, n.Addr())
			frame := binary.BigEndian.AppendUint32(nil, size)
			frame = append(frame, 0, 3, 0, 9, 0, 0, 0, 1) // Metadata
			if err := c.SendBytes(frame); err != nil {
				t.Fatal(err)
			}
			c.WaitClosed()
		}
	}
	if grown := n.PeakRSS() - before; grown > 50<<20 {
		t.Errorf("memory has grown by %d bytes", grown)
	}
	b.stop()
}

// Many connections that begin a large frame and do not go on hold little.
func TestClientsThatBeginARequestAndStopHoldNobodyUp(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	b := startBystander(t, n)
	before := n.RSS()
	for i := range 500 {
		c := raw.Dial(t, n.Addr())
		// A Produce of 100 MB, of which a little comes.
		frame := binary.BigEndian.AppendUint32(nil, 100_000_000)
		frame = append(frame, 0, 0, 0, 9, 0, 0, 0, 1)
		frame = append(frame, make([]byte, 4*(i%100))...)
		if err := c.SendBytes(frame[:min(len(frame), 1+i)]); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "all to be connected", func() bool { return n.Metric("sluice_connections") >= 501 })
	// The bytes a frame announces are nobody's before they come.
	if grown := n.RSS() - before; grown > 100<<20 {
		t.Errorf("500 connections that wait take %d bytes", grown)
	}
	b.stop()
}

func TestGarbageDoesNoHarm(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	b := startBystander(t, n)
	random := rand.New(rand.NewPCG(3, 4))
	keys := raw.Ask[*kmsg.ApiVersionsResponse](raw.Dial(t, n.Addr()), 4, apiVersions()).ApiKeys
	for range 3000 {
		c, err := raw.Connect(t, n.Addr())
		if err != nil {
			t.Fatal(err)
		}
		// Plausible at first, so that it gets far: size, key, version, then noise.
		key := keys[random.IntN(len(keys))]
		body := make([]byte, 8+random.IntN(200))
		for i := range body {
			body[i] = byte(random.Uint32())
		}
		binary.BigEndian.PutUint16(body, uint16(key.ApiKey))
		binary.BigEndian.PutUint16(body[2:], uint16(key.MinVersion+int16(random.IntN(int(key.MaxVersion-key.MinVersion)+1))))
		frame := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
		// The client goes away at once: whether and what it is answered is not
		// the point.
		_ = c.SendBytes(append(frame, body...))
		_ = c.Close()
	}
	b.stop()
	for _, l := range n.Lines(0) {
		if strings.Contains(l.Raw, "panic") {
			t.Errorf("a panic was logged: %s", l.Raw)
		}
	}
	if got := n.Metric(`sluice_connections_closed_total{kind="bug"}`); got != 0 {
		t.Errorf("%v connections ended in a bug", got)
	}
}

// Few bytes that stand for much, in arrays or compressed, take little memory.
func TestRequestsThatInflateAreBounded(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	b := startBystander(t, n)
	c := raw.Dial(t, n.Addr())
	tp := makeTopic(t, c, "bomb", 1)
	before := n.PeakRSS()
	// An array of 2^31-1 topics in a Metadata of 30 bytes.
	for version := int16(0); version <= 8; version++ {
		request := kmsg.NewPtrMetadataRequest()
		request.SetVersion(version)
		frame := raw.Header{}.Encode(request, 1)
		binary.BigEndian.PutUint32(frame[4+8+2+3:], 1<<31-1)
		c := raw.Dial(t, n.Addr())
		if err := c.SendBytes(frame); err != nil {
			t.Fatal(err)
		}
		c.WaitClosed()
	}
	// 120 MB of zeros in a batch of a few KB, from many clients at once.
	for _, codec := range []kgo.CompressionCodecType{kgo.CodecGzip, kgo.CodecZstd} {
		bomb := raw.Values(time.Now().UnixMilli(), strings.Repeat("\x00", 120_000_000))
		bomb.Codec = codec
		request := produceRequest(-1, into{tp, 0, bomb.Bytes()})
		request.SetVersion(produceVersion)
		var running sync.WaitGroup
		for range 12 {
			c := raw.Dial(t, n.Addr())
			running.Go(func() {
				if _, err := c.Try(request); err != nil { // taken or refused, but served
					t.Errorf("codec %v: %v", codec, err)
				}
			})
		}
		running.Wait()
	}
	grown := n.PeakRSS() - before
	t.Logf("memory has grown by %d MiB", grown>>20)
	if grown > 2500<<20 { // 24 times 120 MB, and the buffers that grew to it, are twice that
		t.Errorf("memory has grown by %d MiB", grown>>20)
	}
	b.stop()
}

// Clients that ask for much and do not read it hold a bounded part of the
// memory, and nobody up.
func TestClientsThatDoNotReadTheirAnswersHoldNobodyUp(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{Set: []string{"queued.max.response.bytes=33554432", "commitlog.segment.bytes=16777216", "commitlog.tail.bytes=16777216"}})
	b := startBystander(t, n)
	c := raw.Dial(t, n.Addr())
	tp := makeTopic(t, c, "much", 1)
	value := strings.Repeat("0123456789abcdef", 60_000)
	for range 60 {
		write(t, c, tp, 0, raw.Values(time.Now().UnixMilli(), value))
	}
	before := n.RSS()
	for range 50 {
		c := raw.Dial(t, n.Addr())
		request := fetchRequest(from{tp, 0, 0})
		request.SetVersion(fetchVersion)
		if _, err := c.Send(request); err != nil {
			t.Fatal(err)
		}
	}
	// Each has its first answer under way when it has been asked for.
	waitFor(t, "the fetches to be served", func() bool { return n.Metric(`sluice_requests_total{api="Fetch"}`) >= 50 })
	// 32 MiB for all of them together, and a batch for each.
	grown := n.RSS() - before
	t.Logf("50 clients that do not read take %d MiB", grown>>20)
	if grown > 250<<20 {
		t.Errorf("50 clients that do not read take %d MiB", grown>>20)
	}
	if got := recordsOf(t, fetchOne(t, c, tp, 0, 59)); len(got) != 1 {
		t.Errorf("a client that reads got %d records", len(got))
	}
	b.stop()
}

func TestIdleAndSurplusConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{Set: []string{"connections.max.idle.ms=300", "max.connections.per.ip=3"}})
	first := raw.Dial(t, n.Addr())
	raw.Ask[*kmsg.ApiVersionsResponse](first, 3, apiVersions())
	began := time.Now()
	first.WaitClosed()
	if d := time.Since(began); d < 250*time.Millisecond {
		t.Errorf("an idle connection was closed after %v", d)
	}
	waitFor(t, "it to be gone", func() bool { return n.Metric("sluice_connections") == 0 })
	var open []*raw.Conn
	for range 3 {
		c := raw.Dial(t, n.Addr())
		raw.Ask[*kmsg.ApiVersionsResponse](c, 3, apiVersions())
		open = append(open, c)
	}
	surplus := raw.Dial(t, n.Addr())
	surplus.WaitClosed()
	if err := open[0].Close(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "a place to be free", func() bool {
		c, err := raw.Connect(t, n.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		request := apiVersions()
		request.SetVersion(3)
		_, err = c.Try(request)
		return err == nil
	})
}

// B103: whatever is going on, who asks for metadata is answered soon, and fetches
// and produces end in no code that clients do not expect there (B40).
func TestEverythingAtOnceBlocksNobody(t *testing.T) {
	t.Parallel()
	for _, processors := range []string{"1", "2"} {
		t.Run("GOMAXPROCS="+processors, func(t *testing.T) {
			everythingAtOnce(t, processors)
		})
	}
}

func everythingAtOnce(t *testing.T, processors string) {
	n := node.Start(t, node.Options{Env: []string{"GOMAXPROCS=" + processors}, Set: []string{"commitlog.segment.bytes=4194304", "commitlog.tail.bytes=2097152"}})
	c := raw.Dial(t, n.Addr())
	const topics, partitions = 20, 100
	var all []topic
	for i := range topics {
		all = append(all, makeTopic(t, c, fmt.Sprint("busy-", i), partitions, "retention.bytes", "1000000"))
	}
	stop := make(chan struct{})
	var running sync.WaitGroup
	defer running.Wait()
	var ended sync.Once
	end := func() { ended.Do(func() { close(stop) }) }
	defer end()
	// each runs one more client that does something again and again.
	each := func(what string, seed uint64, step func(c *raw.Conn, random *rand.Rand) error) {
		c := raw.Dial(t, n.Addr())
		random := rand.New(rand.NewPCG(seed, 9))
		running.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := step(c, random); err != nil {
					t.Errorf("%s: %v", what, err)
					return
				}
			}
		})
	}
	allowedFetch := map[int16]bool{0: true, 1: true, 3: true, 6: true, 9: true, 29: true, 56: true, 74: true, 75: true, 76: true, 78: true, 100: true, 103: true}
	allowedProduce := map[int16]bool{0: true, 3: true, 100: true}
	for i := range 100 {
		each("fetcher", uint64(i), func(c *raw.Conn, random *rand.Rand) error {
			var places []from
			for range 20 {
				places = append(places, from{topic{name: fmt.Sprint("busy-", random.IntN(topics+5))}, random.Int32N(partitions), int64(random.IntN(30))})
			}
			request := fetchRequest(places...)
			request.MaxWaitMillis, request.MinBytes = 50, 1
			request.SetVersion(fetchVersion)
			r, err := c.Try(request)
			if err != nil {
				return err
			}
			for _, topic := range r.(*kmsg.FetchResponse).Topics {
				for _, p := range topic.Partitions {
					if !allowedFetch[p.ErrorCode] {
						return fmt.Errorf("error %d in a fetch", p.ErrorCode)
					}
					if _, err := raw.Split(p.RecordBatches); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	for i := range 30 {
		each("producer", uint64(1000+i), func(c *raw.Conn, random *rand.Rand) error {
			var batches []into
			for range 10 {
				b := raw.Values(time.Now().UnixMilli(), strings.Repeat("x", random.IntN(2000)))
				batches = append(batches, into{topic{name: fmt.Sprint("busy-", random.IntN(topics+5))}, random.Int32N(partitions), b.Bytes()})
			}
			request := produceRequest(-1, batches...)
			request.SetVersion(produceVersion)
			r, err := c.Try(request)
			if err != nil {
				return err
			}
			for _, topic := range r.(*kmsg.ProduceResponse).Topics {
				for _, p := range topic.Partitions {
					if !allowedProduce[p.ErrorCode] {
						return fmt.Errorf("error %d in a produce", p.ErrorCode)
					}
				}
			}
			return nil
		})
	}
	for i := range 5 { // five topics come and go
		name := fmt.Sprint("busy-", topics+i)
		there := false
		each("admin", uint64(2000+i), func(c *raw.Conn, random *rand.Rand) error {
			var request kmsg.Request = createTopics(name, partitions)
			request.SetVersion(7)
			if there {
				request = deleteTopic(name)
			}
			there = !there
			r, err := c.Try(request)
			if err == nil && codeOf(r) != 0 {
				err = fmt.Errorf("error %d of topic %s", codeOf(r), name)
			}
			return err
		})
	}
	each("lister", 3000, func(c *raw.Conn, random *rand.Rand) error {
		request := listOffsetsRequest(all[random.IntN(topics)], random.Int32N(partitions), int64(random.IntN(7)-6))
		request.SetVersion(11)
		r, err := c.Try(request)
		if err == nil {
			if code := r.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
				err = fmt.Errorf("error %d in a list of offsets", code)
			}
		}
		return err
	})
	slowest := time.Duration(0)
	for began := time.Now(); time.Since(began) < 5*time.Second && !t.Failed(); {
		asked := time.Now()
		metadata(c, 12, false, "busy-0")
		slowest = max(slowest, time.Since(asked))
	}
	end()
	running.Wait()
	t.Logf("the slowest answer to a Metadata request took %v", slowest)
	if slowest > 5*time.Second {
		t.Errorf("a Metadata request took %v", slowest)
	}
}
