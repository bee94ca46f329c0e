package broker_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/sluicemq/sluice/broker"
	"github.com/sluicemq/sluice/catalog/config"
)

// BenchmarkOffsetCommit commits one partition per request, over connections that
// have some requests on their way, to a broker with flush=sync.
func BenchmarkOffsetCommit(b *testing.B) {
	for _, c := range []struct{ connections, window int }{{1, 1}, {1, 64}, {16, 1}, {16, 64}, {100, 16}} {
		b.Run(fmt.Sprintf("connections=%d/window=%d", c.connections, c.window), func(b *testing.B) {
			addr := benchBroker(b)
			each := b.N/c.connections + 1
			done := make(chan error, c.connections)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range c.connections {
				go func() { done <- commitMany(addr, fmt.Sprintf("group-%d", i), each, c.window) }() // ends when all are answered
			}
			for range c.connections {
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(each*c.connections)/b.Elapsed().Seconds(), "commits/s")
		})
	}
}

func benchBroker(b *testing.B) (addr string) {
	b.Helper()
	settings, err := config.NewBroker(config.Values{
		"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": b.TempDir(), "http.listen": "", "disk.min.free.bytes": "0",
	})
	if err != nil {
		b.Fatal(err)
	}
	n, err := broker.Start(settings, zap.NewNop())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = n.Stop() })
	addr = n.Addr("PLAINTEXT").String()
	meta := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = ptr("a")
	meta.Topics, meta.AllowAutoTopicCreation = append(meta.Topics, topic), true
	socket, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	defer socket.Close()
	if _, err := socket.Write(frameOf(5, meta)); err != nil {
		b.Fatal(err)
	}
	if err := skipFrame(bufio.NewReader(socket)); err != nil {
		b.Fatal(err)
	}
	return addr
}

func frameOf(version int16, req kmsg.Request) []byte {
	req.SetVersion(version)
	f := kbin.AppendInt16([]byte{0, 0, 0, 0}, req.Key())
	f = kbin.AppendInt16(f, version)
	f = kbin.AppendInt32(f, 1)
	f = kbin.AppendNullableString(f, ptr("bench"))
	f = req.AppendTo(f)
	binary.BigEndian.PutUint32(f, uint32(len(f)-4))
	return f
}

func skipFrame(r *bufio.Reader) error {
	size, err := r.Peek(4)
	if err == nil {
		_, err = r.Discard(4 + int(binary.BigEndian.Uint32(size)))
	}
	return err
}

// commitMany sends commits, with at most window on their way.
func commitMany(addr, group string, n, window int) error {
	socket, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer socket.Close()
	frame := frameOf(7, commitRequest(group, committed{topic: "a", offset: 42}))
	in := bufio.NewReaderSize(socket, 64<<10)
	var batch []byte
	for sent := 0; sent < n; sent += window {
		some := min(window, n-sent)
		batch = batch[:0]
		for range some {
			batch = append(batch, frame...)
		}
		if _, err := socket.Write(batch); err != nil {
			return err
		}
		for range some {
			if err := skipFrame(in); err != nil {
				if err == io.EOF {
					err = io.ErrUnexpectedEOF
				}
				return err
			}
		}
	}
	return nil
}
