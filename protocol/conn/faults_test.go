package conn

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/protocol"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// These are the faults of the network side that other brokers were found to
// have, each with the smallest request that shows it.

func TestApiVersionsOfUnknownVersionIsAnsweredInVersion0(t *testing.T) {
	s := start(t, Options{}, versions())
	for _, version := range []int16{5, 99, 1<<15 - 1, -1} {
		c := s.dial(t)
		// A header version 2 with a tag, and a body of the future.
		b := binary.BigEndian.AppendUint16(nil, 18)
		b = binary.BigEndian.AppendUint16(b, uint16(version))
		b = binary.BigEndian.AppendUint32(b, 4711)
		b = append(b, 0, 1, 'x', 1, 9, 2, 'a', 'b', 'b', 'o', 'd', 'y')
		c.send(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b)

		id, body := c.receive()
		if id != 4711 {
			t.Fatalf("correlation id %d", id)
		}
		resp := kmsg.NewPtrApiVersionsResponse()
		if err := resp.ReadFrom(body); err != nil { // version 0
			t.Fatal(err)
		}
		if len(body) != 2+4+6 || resp.ErrorCode != int16(kerr.UnsupportedVersion) || len(resp.ApiKeys) != 1 {
			t.Fatalf("version %d: answer % x", version, body)
		}
		if k := resp.ApiKeys[0]; k.ApiKey != 18 || k.MinVersion != 0 || k.MaxVersion != 4 {
			t.Fatalf("version %d: range %+v", version, k)
		}
		for v := range int16(5) {
			c.send(request(int32(v), of(protocol.ApiVersions, v)))
			c.answer(int32(v), of(protocol.ApiVersions, v))
		}
	}
	if lines := s.refusals(); len(lines) > 0 {
		t.Error(lines)
	}
}

func TestApiVersionsResponseHeaderNeverHasTags(t *testing.T) {
	s := start(t, Options{}, versions())
	c := s.dial(t)
	for v := range int16(5) {
		req := of(protocol.ApiVersions, v)
		c.send(request(1, req))
		_, body := c.receive()
		resp := req.ResponseKind()
		if err := resp.ReadFrom(body); err != nil || !bytes.Equal(resp.AppendTo(nil), body) {
			t.Errorf("version %d: body % x, %v", v, body, err)
		}
	}
}

func TestClientIDMayBeNullEmptyOrLong(t *testing.T) {
	seen := make(chan string, 1)
	record := func(ctx context.Context, c *protocol.Call) protocol.Pending {
		seen <- c.ClientID
		return empty(ctx, c)
	}
	s := start(t, Options{},
		routeOf(protocol.Produce, record), routeOf(protocol.Fetch, record), routeOf(protocol.Metadata, record),
		protocol.Route{Key: protocol.ApiVersions, Max: 4, Handle: record})
	long := strings.Repeat("ä ", 1<<15/3)
	c := s.dial(t)
	for _, req := range []kmsg.Request{
		of(protocol.ApiVersions, 0), of(protocol.ApiVersions, 3), of(protocol.Metadata, 8), of(protocol.Metadata, 9),
		of(protocol.Metadata, 13), of(protocol.Fetch, 11), of(protocol.Fetch, 12), produce(8, 100), produce(9, 100),
	} {
		for _, id := range []*string{nil, new(string), &long} {
			for _, tags := range [][]byte{{0}, {2, 3, 0, 200, 1, 2, 'h', 'i'}} {
				if !req.IsFlexible() {
					tags = nil
				}
				c.send(withHeader(req, id, tags))
				want := ""
				if id != nil {
					want = *id
				}
				if got := <-seen; got != want {
					t.Errorf("client id of length %d, want %d", len(got), len(want))
				}
				c.answer(77, req)
			}
		}
	}
}

// withHeader returns a request with the correlation id 77 and a header made by
// hand.
func withHeader(req kmsg.Request, clientID *string, tags []byte) []byte {
	b := make([]byte, 4)
	b = binary.BigEndian.AppendUint16(b, uint16(req.Key()))
	b = binary.BigEndian.AppendUint16(b, uint16(req.GetVersion()))
	b = binary.BigEndian.AppendUint32(b, 77)
	if clientID == nil {
		b = append(b, 0xff, 0xff)
	} else {
		b = binary.BigEndian.AppendUint16(b, uint16(len(*clientID)))
		b = append(b, *clientID...)
	}
	b = append(b, tags...)
	b = req.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func TestRequestLargerThanTheBudgetPassesAndHoldsUpNobody(t *testing.T) {
	const large = 64 << 20
	sum := func(b []byte) int32 { return int32(crc32.ChecksumIEEE(b)) }
	s := start(t, Options{QueuedBytes: 16 << 20},
		routeOf(protocol.Produce, func(ctx context.Context, c *protocol.Call) protocol.Pending {
			p := protocol.NewPromise()
			resp := c.Request.ResponseKind().(*kmsg.ProduceResponse)
			resp.ThrottleMillis = sum(c.Request.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records)
			go p.Resolve(protocol.Response{Message: resp})
			return p
		}), versions())

	// The large request comes in steps, and after each step the small ones have
	// to get through.
	req := produce(9, large)
	records := req.Topics[0].Partitions[0].Records
	for i := range 1000 {
		records[rand.IntN(large)] = byte(i)
	}
	frame := request(2, req)
	big, sent := s.dial(t), 0
	for _, step := range []int{100, 100 << 10, 1 << 20, 5 << 20, 15 << 20, 17 << 20, 40 << 20, len(frame) - 1} {
		big.send(frame[sent:step])
		sent = step
		var small sync.WaitGroup
		for range 20 {
			small.Go(func() {
				c := s.dial(t)
				defer c.c.Close()
				for range 2 {
					req := produce(9, 200<<10)
					c.send(request(1, req))
					c.answer(1, req)
				}
			})
		}
		small.Wait()
	}
	big.send(frame[sent:])
	if resp := big.answer(2, req).(*kmsg.ProduceResponse); resp.ThrottleMillis != sum(records) {
		t.Error("the large request arrived otherwise than it was sent")
	}
}
