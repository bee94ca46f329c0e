package e2e

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/tests/e2e/node"
	"github.com/sluicemq/sluice/tests/e2e/raw"
)

const unsupportedVersion = 35

func apiVersions() *kmsg.ApiVersionsRequest {
	request := kmsg.NewPtrApiVersionsRequest()
	request.ClientSoftwareName, request.ClientSoftwareVersion = "e2e", "1"
	return request
}

// B01
func TestApiVersionsFromTheFutureIsAnsweredInVersionZero(t *testing.T) {
	t.Parallel()
	c := raw.Dial(t, node.Start(t, node.Options{}).Addr())
	for _, version := range []int16{99, 6, 32767} {
		// The body of such a version is unknown: the broker must not look at it.
		request := apiVersions()
		request.SetVersion(4)
		frame := c.Header.Encode(request, 77)
		binary.BigEndian.PutUint16(frame[4+2:], uint16(version))
		began := time.Now()
		if err := c.SendBytes(frame); err != nil {
			t.Fatal(err)
		}
		answer, err := c.Receive(raw.Limit)
		if err != nil {
			t.Fatalf("version %d: %v", version, err)
		}
		if d := time.Since(began); d > time.Second {
			t.Errorf("version %d was answered after %v", version, d)
		}
		request.SetVersion(0)
		got, err := raw.Decode(request, 77, answer)
		if err != nil {
			t.Fatalf("version %d: %v", version, err)
		}
		r := got.(*kmsg.ApiVersionsResponse)
		if r.ErrorCode != unsupportedVersion || len(r.ApiKeys) != 1 || r.ApiKeys[0].ApiKey != 18 || r.ApiKeys[0].MaxVersion < 4 {
			t.Errorf("version %d: %+v, want error 35 and the range of ApiVersions", version, r)
		}
	}
	for version := range int16(6) { // the connection is as good as before
		r := raw.Ask[*kmsg.ApiVersionsResponse](c, version, apiVersions())
		if r.ErrorCode != 0 || len(r.ApiKeys) < 10 {
			t.Errorf("ApiVersions v%d: error %d, %d keys", version, r.ErrorCode, len(r.ApiKeys))
		}
	}
}

// B02
func TestApiVersionsOfEveryVersionKeepsAFreshConnectionOpen(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	for version := range int16(6) {
		c := raw.Dial(t, n.Addr())
		first := raw.Ask[*kmsg.ApiVersionsResponse](c, version, apiVersions())
		second := raw.Ask[*kmsg.ApiVersionsResponse](c, version, apiVersions())
		if first.ErrorCode != 0 || second.ErrorCode != 0 {
			t.Errorf("ApiVersions v%d: errors %d and %d", version, first.ErrorCode, second.ErrorCode)
		}
	}
}

// B02
func TestFranzGoConnectsOnceToEachBrokerAndNeverDowngrades(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	makeTopic(t, raw.Dial(t, n.Addr()), "once", 1)
	hook := &connects{}
	logger := &journal{}
	cl := newFranz(t, n, kgo.WithHooks(hook), kgo.WithLogger(logger), kgo.DefaultProduceTopic("once"), kgo.ConsumeTopics("once"))
	ctx := deadline(t)
	if err := cl.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(ctx, kgo.StringRecord("x")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if got := poll(t, cl, 1); string(got[0].Value) != "x" {
		t.Errorf("fetched %q", got[0].Value)
	}
	// A client has a connection for each kind of request: general, produce, fetch,
	// slow. More than one of a kind means that one was cut.
	for id, count := range hook.byBroker() {
		if count > 4 {
			t.Errorf("%d connections to broker %d", count, id)
		}
	}
	if hook.failed() > 0 {
		t.Errorf("%d connections were cut", hook.failed())
	}
	for _, line := range logger.lines() {
		for _, bad := range []string{"reset", "downgrad", "unsupported"} {
			if strings.Contains(strings.ToLower(line), bad) {
				t.Errorf("the client logged: %s", line)
			}
		}
	}
}

// B04
func TestFlexibleRequestsMayHaveAnyClientIDAndUnknownTags(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	tp := makeTopic(t, raw.Dial(t, n.Addr()), "ids", 1)
	headers := map[string]raw.Header{
		"null":         {NullClient: true},
		"empty":        {EmptyClient: true},
		"32 KiB":       {ClientID: strings.Repeat("c", 32<<10-1)},
		"spaces":       {ClientID: "a client with spaces, \x00 and ü"},
		"unknown tags": {Tags: []byte{2, 5, 3, 'a', 'b', 'c', 0xff, 0x7f, 0}},
	}
	for name, header := range headers {
		t.Run(name, func(t *testing.T) {
			c := raw.Dial(t, n.Addr())
			c.Header = header
			for _, version := range []int16{3, 5} {
				if r := raw.Ask[*kmsg.ApiVersionsResponse](c, version, apiVersions()); r.ErrorCode != 0 {
					t.Errorf("ApiVersions v%d: error %d", version, r.ErrorCode)
				}
			}
			for _, version := range []int16{9, 12, 13} {
				if r := metadata(c, version, false, "ids"); len(r.Topics) != 1 || r.Topics[0].ErrorCode != 0 {
					t.Errorf("Metadata v%d: %+v", version, r.Topics)
				}
			}
			batch := raw.Values(time.Now().UnixMilli(), "x").Bytes()
			for _, version := range []int16{9, 12, 13} {
				if p := produce(c, version, into{tp, 0, batch}); len(p) != 1 || p[0].ErrorCode != 0 {
					t.Errorf("Produce v%d: %+v", version, p)
				}
			}
			for _, version := range []int16{12, 13, 17} {
				r := raw.Ask[*kmsg.FetchResponse](c, version, fetchRequest(from{tp, 0, 0}))
				if p := onlyPartition(t, r); p.ErrorCode != 0 || len(p.RecordBatches) == 0 {
					t.Errorf("Fetch v%d: error %d, %d bytes", version, p.ErrorCode, len(p.RecordBatches))
				}
			}
		})
	}
}

// The version table is a promise: what is advertised is served at both ends of
// its range, with an empty or a harmless request.
func TestEveryAdvertisedVersionIsServed(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	for _, key := range raw.Ask[*kmsg.ApiVersionsResponse](c, 4, apiVersions()).ApiKeys {
		for version := key.MinVersion; version <= key.MaxVersion; version++ {
			if key.ApiKey == int16(kmsg.Produce) && version < 3 {
				continue // advertised for the sake of old librdkafka, and refused as Kafka does
			}
			request := kmsg.RequestForKey(key.ApiKey)
			if d, ok := request.(interface{ Default() }); ok {
				d.Default()
			}
			if r, ok := request.(*kmsg.ApiVersionsRequest); ok {
				r.ClientSoftwareName, r.ClientSoftwareVersion = "e2e", "1"
			}
			if version > request.MaxVersion() {
				continue // newer than the test's own encoder
			}
			request.SetVersion(version)
			if r, ok := request.(*kmsg.ProduceRequest); ok {
				r.Acks = -1
			}
			if _, err := c.Try(request); err != nil {
				t.Errorf("%s v%d: %v", kmsg.NameForKey(key.ApiKey), version, err)
				c = raw.Dial(t, n.Addr())
			}
		}
	}
}

func TestUnservedRequestsCloseTheConnectionAndOnlyThat(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	other := raw.Dial(t, n.Addr())
	frames := map[string]func() []byte{
		"unknown key": func() []byte { return []byte{0, 0, 0, 10, 0x7f, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff} },
		"version above the range": func() []byte {
			r := kmsg.NewPtrMetadataRequest()
			r.SetVersion(13)
			f := raw.Header{}.Encode(r, 1)
			binary.BigEndian.PutUint16(f[6:], 99)
			return f
		},
		"version below the range": func() []byte {
			r := kmsg.NewPtrProduceRequest()
			r.SetVersion(2)
			return raw.Header{}.Encode(r, 1)
		},
		"body that does not parse": func() []byte {
			r := kmsg.NewPtrMetadataRequest()
			r.SetVersion(12)
			f := raw.Header{}.Encode(r, 1)
			f = append(f[:len(f)-1], 0xff, 0xff, 0xff, 0xff, 0x0f)
			binary.BigEndian.PutUint32(f, uint32(len(f)-4))
			return f
		},
	}
	for name, frame := range frames {
		t.Run(name, func(t *testing.T) {
			c := raw.Dial(t, n.Addr())
			// What was asked before is answered.
			if r := raw.Ask[*kmsg.ApiVersionsResponse](c, 3, apiVersions()); r.ErrorCode != 0 {
				t.Fatalf("ApiVersions: error %d", r.ErrorCode)
			}
			if err := c.SendBytes(frame()); err != nil {
				t.Fatal(err)
			}
			c.WaitClosed()
			if r := raw.Ask[*kmsg.ApiVersionsResponse](other, 3, apiVersions()); r.ErrorCode != 0 {
				t.Errorf("another connection: error %d", r.ErrorCode)
			}
		})
	}
}

func TestAnswersComeInTheOrderOfRequests(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	tp := makeTopic(t, c, "order", 1)
	// A fetch that waits, and behind it requests that could be answered at once.
	slow := fetchRequest(from{tp, 0, 0})
	slow.MaxWaitMillis = 500
	slow.SetVersion(fetchVersion)
	requests := []kmsg.Request{slow}
	for range 20 {
		quick := apiVersions()
		quick.SetVersion(3)
		requests = append(requests, quick)
		p := produceRequest(-1, into{tp, 0, raw.Values(time.Now().UnixMilli(), "x").Bytes()})
		p.SetVersion(produceVersion)
		requests = append(requests, p)
	}
	ids := make([]int32, len(requests))
	for i, r := range requests {
		var err error
		if ids[i], err = c.Send(r); err != nil {
			t.Fatal(err)
		}
	}
	for i, r := range requests {
		frame, err := c.Receive(raw.Limit)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := raw.Decode(r, ids[i], frame); err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
	}
}

// B14
func TestARequestLargerThanTheBudgetDoesNotStallSmallOnes(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{Set: []string{
		"socket.request.max.bytes=104857600", "queued.max.request.bytes=16777216", "message.max.bytes=104857600", "commitlog.segment.bytes=268435456",
	}})
	c := raw.Dial(t, n.Addr())
	tp := makeTopic(t, c, "large", 21)
	stop := make(chan struct{})
	worst := make(chan time.Duration)
	const small = 20
	for i := range small {
		c, err := raw.Connect(t, n.Addr())
		if err != nil {
			t.Fatal(err)
		}
		request := produceRequest(-1, into{tp, int32(i + 1), raw.Values(time.Now().UnixMilli(), "small").Bytes()})
		request.SetVersion(produceVersion)
		// Ends when stop is closed.
		go func() {
			defer c.Close()
			var slowest time.Duration
			for {
				began := time.Now()
				r, err := c.Try(request)
				if slowest = max(slowest, time.Since(began)); err != nil {
					t.Error(err)
				} else if code := r.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
					t.Errorf("a small batch was refused with error %d", code)
				}
				select {
				case <-stop:
					worst <- slowest
					return
				default:
				}
			}
		}()
	}
	value := strings.Repeat("0123456789abcdef", 64<<20/16)
	answers := produce(c, produceVersion, into{tp, 0, raw.Values(time.Now().UnixMilli(), value).Bytes()})
	close(stop)
	if code := answers[0].ErrorCode; code != 0 {
		t.Errorf("a batch of 64 MiB was refused with error %d", code)
	}
	var slowest time.Duration
	for range small {
		slowest = max(slowest, <-worst)
	}
	t.Logf("slowest small produce beside a batch of 64 MiB: %v", slowest)
	if slowest > 10*time.Second { // a stall lasts for ever; a busy machine is slow as well
		t.Errorf("a small produce took %v beside the large one", slowest)
	}
}
