package fetchwire_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/broker/fetchwire"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

func TestEveryVersionIsEncodedAsKmsgDoes(t *testing.T) {
	var enc fetchwire.Encoder
	var r fetchwire.Response
	rapid.Check(t, func(t *rapid.T) {
		r.Reset()
		draw(t, &r)
		for version := int16(fetchwire.MinVersion); version <= fetchwire.MaxVersion; version++ {
			pieces, size, err := enc.Encode(version, &r)
			if err != nil {
				t.Fatal(err)
			}
			got := bytes.Join(pieces, nil)
			want := reference(version, &r).AppendTo(nil)
			if !bytes.Equal(got, want) {
				t.Fatalf("version %d:\n got %x\nwant %x", version, got, want)
			}
			if size != len(want) {
				t.Fatalf("version %d: size %d, want %d", version, size, len(want))
			}
		}
	})
}

// draw fills a response with anything, and with the defaults more often.
func draw(t *rapid.T, r *fetchwire.Response) {
	r.ThrottleMs = rapid.Int32().Draw(t, "throttle")
	r.ErrorCode = kerr.Code(rapid.Int16().Draw(t, "error"))
	r.SessionID = rapid.Int32().Draw(t, "session")
	few := rapid.SampledFrom([]int{0, 1, 2, 3, 130}) // 130 needs two bytes as a varint
	offset := rapid.Map(rapid.Int64Min(-1), func(v int64) entry.Offset { return entry.Offset(v) })
	name := rapid.SampledFrom([]string{"", "orders", strings.Repeat("long", 62)})
	for range rapid.SampledFrom([]int{0, 1, 1, 2, 3}).Draw(t, "topics") {
		id := entry.TopicID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		topic := r.AddTopic(id, name.Draw(t, "name"))
		for range rapid.SampledFrom([]int{0, 1, 1, 2, 3, 130}).Draw(t, "partitions") {
			p := topic.AddPartition(rapid.Int32().Draw(t, "partition"))
			if rapid.Bool().Draw(t, "plain") {
				continue
			}
			p.ErrorCode = kerr.Code(rapid.Int16().Draw(t, "error"))
			p.HighWatermark = offset.Draw(t, "high watermark")
			p.LastStable = offset.Draw(t, "last stable")
			p.LogStart = offset.Draw(t, "log start")
			p.PreferredReplica = rapid.Int32().Draw(t, "preferred replica")
			p.DivergingEpoch = fetchwire.DivergingEpoch{
				Epoch: rapid.Int32Range(-1, 1).Draw(t, "epoch"), EndOffset: offset.Draw(t, "end"),
			}
			p.CurrentLeader = fetchwire.CurrentLeader{
				ID: rapid.Int32Range(-1, 1).Draw(t, "leader"), Epoch: rapid.Int32Range(-1, 1).Draw(t, "leader epoch"),
			}
			if rapid.Bool().Draw(t, "committed") {
				p.Aborted = []fetchwire.AbortedTxn{}
				for range few.Draw(t, "aborted") {
					p.Aborted = append(p.Aborted, fetchwire.AbortedTxn{ProducerID: 7, FirstOffset: offset.Draw(t, "first")})
				}
			}
			for range rapid.SampledFrom([]int{0, 1, 2, 3}).Draw(t, "pieces") {
				piece := bytes.Repeat([]byte{'r'}, rapid.SampledFrom([]int{0, 1, 61, 200, 512, 513, 20_000}).Draw(t, "bytes"))
				p.Records = append(p.Records, piece)
			}
		}
	}
	for i := range few.Draw(t, "endpoints") {
		n := fetchwire.Endpoint{NodeID: int32(i), Host: name.Draw(t, "host"), Port: 9092}
		if rapid.Bool().Draw(t, "racked") {
			rack := name.Draw(t, "rack")
			n.Rack = &rack
		}
		r.Endpoints = append(r.Endpoints, n)
	}
}

// reference is the same response as kmsg has it.
func reference(version int16, r *fetchwire.Response) *kmsg.FetchResponse {
	k := kmsg.NewPtrFetchResponse()
	k.Version, k.ThrottleMillis, k.ErrorCode, k.SessionID = version, r.ThrottleMs, r.ErrorCode.Int16(), r.SessionID
	for _, t := range r.Topics {
		kt := kmsg.NewFetchResponseTopic()
		kt.Topic, kt.TopicID = t.Name, t.ID
		for _, p := range t.Partitions {
			kp := kmsg.NewFetchResponseTopicPartition()
			kp.Partition, kp.ErrorCode = p.Partition, p.ErrorCode.Int16()
			kp.HighWatermark, kp.LastStableOffset, kp.LogStartOffset = int64(p.HighWatermark), int64(p.LastStable), int64(p.LogStart)
			kp.PreferredReadReplica = p.PreferredReplica
			kp.DivergingEpoch.Epoch, kp.DivergingEpoch.EndOffset = p.DivergingEpoch.Epoch, int64(p.DivergingEpoch.EndOffset)
			kp.CurrentLeader.LeaderID, kp.CurrentLeader.LeaderEpoch = p.CurrentLeader.ID, p.CurrentLeader.Epoch
			if p.Aborted != nil {
				kp.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
			}
			for _, a := range p.Aborted {
				ka := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
				ka.ProducerID, ka.FirstOffset = a.ProducerID, int64(a.FirstOffset)
				kp.AbortedTransactions = append(kp.AbortedTransactions, ka)
			}
			kp.RecordBatches = append([]byte{}, bytes.Join(p.Records, nil)...)
			kt.Partitions = append(kt.Partitions, kp)
		}
		k.Topics = append(k.Topics, kt)
	}
	for _, n := range r.Endpoints {
		kb := kmsg.NewFetchResponseBroker()
		kb.NodeID, kb.Host, kb.Port, kb.Rack = n.NodeID, n.Host, n.Port, n.Rack
		k.Brokers = append(k.Brokers, kb)
	}
	return k
}

func TestRecordsAreNotCopied(t *testing.T) {
	var enc fetchwire.Encoder
	var r fetchwire.Response
	record := make([]byte, 1000)
	other := make([]byte, 600)
	p := r.AddTopic(entry.TopicID{1}, "t").AddPartition(0)
	p.Records = append(p.Records, record, other)
	pieces, _, err := enc.Encode(fetchwire.MaxVersion, &r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range [][]byte{record, other} {
		if !slices.ContainsFunc(pieces, func(piece []byte) bool { return len(piece) > 0 && &piece[0] == &want[0] }) {
			t.Errorf("the piece of %d bytes is not among the pieces", len(want))
		}
	}
}

func TestReusedResponseKeepsNothing(t *testing.T) {
	var r fetchwire.Response
	fill(&r, 2, 2, make([]byte, 10))
	r.ThrottleMs, r.SessionID, r.ErrorCode = 1, 2, 3
	r.Endpoints = append(r.Endpoints, fetchwire.Endpoint{NodeID: 1})
	r.Topics[0].Partitions[0].Aborted = []fetchwire.AbortedTxn{{ProducerID: 1}}
	r.Topics[0].Partitions[0].ErrorCode = 9
	records := r.Topics[0].Partitions[0].Records
	r.Reset()
	if records[0] != nil {
		t.Error("records are kept after Reset")
	}
	p := r.AddTopic(entry.TopicID{}, "").AddPartition(5)
	var fresh fetchwire.Response
	fresh.AddTopic(entry.TopicID{}, "").AddPartition(5)
	if got, want := fmt.Sprintf("%+v", r), fmt.Sprintf("%+v", fresh); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if p.Aborted != nil {
		t.Error("the aborted list is not nil")
	}
}

func TestEncodeRefusesWhatCannotBeSent(t *testing.T) {
	var enc fetchwire.Encoder
	for _, version := range []int16{-1, 0, 3, 19} {
		if _, _, err := enc.Encode(version, &fetchwire.Response{}); err == nil {
			t.Errorf("version %d was encoded", version)
		}
	}
	var r fetchwire.Response
	fill(&r, 1, 4096, make([]byte, 512<<10))
	if _, _, err := enc.Encode(12, &r); err == nil {
		t.Error("2 GiB were encoded")
	}
}

func TestEncodingAllocatesNothingOnceGrown(t *testing.T) {
	var enc fetchwire.Encoder
	var r fetchwire.Response
	piece := make([]byte, 100)
	encode := func() {
		r.Reset()
		fill(&r, 10, 50, piece)
		pieces, _, err := enc.Encode(17, &r)
		if err != nil {
			t.Fatal(err)
		}
		// As the connection does; WriteTo leaves the slice empty.
		if _, err := pieces.WriteTo(io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	encode()
	// One for the net.Buffers that escapes into WriteTo.
	if n := testing.AllocsPerRun(50, encode); n > 1 {
		t.Errorf("%v allocations a response of 500 partitions", n)
	}
	if enc.Cap() == 0 {
		t.Error("the encoder says that it holds no memory")
	}
}

// fill adds topics with partitions that each have one piece of records.
func fill(r *fetchwire.Response, topics, partitions int, piece []byte) {
	for i := range topics {
		topic := r.AddTopic(entry.TopicID{byte(i)}, "topic")
		for j := range partitions {
			p := topic.AddPartition(int32(j))
			p.HighWatermark, p.LastStable, p.LogStart = 100, 100, 0
			if piece != nil {
				p.Records = append(p.Records, piece)
			}
		}
	}
}

// BenchmarkSend is what inlineBytes was chosen by: run it with the constant at
// 0 and at 1 MiB and compare.
func BenchmarkSend(b *testing.B) {
	client, server := tcpPair(b)
	go func() { _, _ = io.Copy(io.Discard, server) }()
	for _, size := range []int{100, 300, 1 << 10, 4 << 10} {
		b.Run(fmt.Sprintf("partitions=100/bytes=%d", size), func(b *testing.B) {
			var r fetchwire.Response
			fill(&r, 1, 100, make([]byte, size))
			var enc fetchwire.Encoder
			b.ReportAllocs()
			for b.Loop() {
				pieces, n, err := enc.Encode(17, &r)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := pieces.WriteTo(client); err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(n))
			}
		})
	}
}

func tcpPair(tb testing.TB) (client, server net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		tb.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

func BenchmarkEncode(b *testing.B) {
	for _, c := range []struct {
		name               string
		topics, partitions int
		bytes              int
	}{
		{"partitions=1/bytes=64KiB", 1, 1, 64 << 10},
		{"partitions=100/bytes=1KiB", 1, 100, 1 << 10},
		{"partitions=100/bytes=100", 1, 100, 100},
		{"partitions=10000/bytes=0", 10, 1000, 0},
		{"partitions=10000/bytes=1KiB", 10, 1000, 1 << 10},
	} {
		var r fetchwire.Response
		var piece []byte
		if c.bytes > 0 {
			piece = make([]byte, c.bytes)
		}
		fill(&r, c.topics, c.partitions, piece)
		b.Run(c.name+"/by=fetchwire", func(b *testing.B) {
			var enc fetchwire.Encoder
			b.ReportAllocs()
			for b.Loop() {
				pieces, size, err := enc.Encode(17, &r)
				if err != nil || len(pieces) == 0 {
					b.Fatal(err)
				}
				b.SetBytes(int64(size))
			}
		})
		b.Run(c.name+"/by=kmsg", func(b *testing.B) {
			k := reference(17, &r)
			var body []byte
			b.ReportAllocs()
			for b.Loop() {
				body = k.AppendTo(body[:0])
				b.SetBytes(int64(len(body)))
			}
		})
	}
}
