package broker_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/protocol/kerr"
)

// offered returns what ApiVersions tells.
func offered(n *node) []kmsg.ApiVersionsResponseApiKey {
	n.t.Helper()
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "test", "1"
	resp := ask[*kmsg.ApiVersionsResponse](n.client(), 3, req)
	wantCode(n.t, resp.ErrorCode, kerr.None)
	return resp.ApiKeys
}

// served returns the first version that is served of a key. Of Produce older
// ones are told than are served, for the sake of old clients.
func served(k kmsg.ApiVersionsResponseApiKey) int16 {
	if k.ApiKey == int16(kmsg.Produce) {
		return 3
	}
	return k.MinVersion
}

// The plainest request there is must be answered in the form of its version.
func TestEveryRouteAnswersAtItsFirstAndLastVersion(t *testing.T) {
	n := start(t)
	keys := offered(n)
	if len(keys) < 20 {
		t.Fatalf("only %d keys", len(keys))
	}
	for _, k := range keys {
		for _, version := range []int16{served(k), k.MaxVersion} {
			c := n.client()
			req := kmsg.RequestForKey(k.ApiKey)
			if p, ok := req.(*kmsg.ProduceRequest); ok {
				p.Acks = 1 // 0 asks for no answer
			}
			c.send(version, req)
			if _, err := c.receive(req); err != nil {
				t.Errorf("%s v%d: %v", kmsg.NameForKey(k.ApiKey), version, err)
			}
		}
	}
}

func TestVersionsThatAreNotOfferedCloseTheConnection(t *testing.T) {
	n := start(t)
	for _, k := range offered(n) {
		if k.ApiKey == int16(kmsg.ApiVersions) {
			continue
		}
		for _, version := range []int16{served(k) - 1, k.MaxVersion + 1} {
			c := n.client()
			req := kmsg.RequestForKey(k.ApiKey)
			frame := kbin.AppendInt16([]byte{0, 0, 0, 0}, k.ApiKey)
			frame = kbin.AppendInt16(frame, version)
			frame = kbin.AppendInt32(frame, 1)
			frame = kbin.AppendNullableString(frame, nil)
			frame = append(frame, 0)
			req.SetVersion(min(version, req.MaxVersion()))
			frame = req.AppendTo(frame)
			binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
			if _, err := c.socket.Write(frame); err != nil {
				t.Fatal(err)
			}
			c.wantClosed()
		}
	}
}

func TestRequestsThatAreCutOffCloseTheConnection(t *testing.T) {
	n := start(t)
	for _, k := range offered(n) {
		req := kmsg.RequestForKey(k.ApiKey)
		req.SetVersion(k.MaxVersion)
		body := req.AppendTo(nil)
		if len(body) == 0 {
			continue
		}
		if req.IsFlexible() && len(body) == 1 {
			continue // the tags, which may be left out
		}
		c := n.client()
		frame := kbin.AppendInt16([]byte{0, 0, 0, 0}, k.ApiKey)
		frame = kbin.AppendInt16(frame, k.MaxVersion)
		frame = kbin.AppendInt32(frame, 1)
		frame = kbin.AppendNullableString(frame, nil)
		if req.IsFlexible() {
			frame = append(frame, 0)
		}
		frame = append(frame, body[:len(body)/2]...)
		binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
		if _, err := c.socket.Write(frame); err != nil {
			t.Fatal(err)
		}
		c.wantClosed()
		if t.Failed() {
			t.Fatal(kmsg.NameForKey(k.ApiKey))
		}
	}
}

func TestApiVersionsTellsOldProduceVersionsToOldClients(t *testing.T) {
	keys := offered(start(t))
	i := slices.IndexFunc(keys, func(k kmsg.ApiVersionsResponseApiKey) bool { return k.ApiKey == int16(kmsg.Produce) })
	if keys[i].MinVersion != 0 || keys[i].MaxVersion != 13 {
		t.Errorf("got %+v", keys[i])
	}
}

func TestApiVersionsRefusesWhatCannotBeTrue(t *testing.T) {
	n := start(t)
	for name, c := range map[string]struct {
		version int16
		edit    func(*kmsg.ApiVersionsRequest)
		code    kerr.Code
	}{
		"software":            {3, func(r *kmsg.ApiVersionsRequest) { r.ClientSoftwareName = "a_b" }, kerr.InvalidRequest},
		"software version":    {4, func(r *kmsg.ApiVersionsRequest) { r.ClientSoftwareVersion = "" }, kerr.InvalidRequest},
		"cluster alone":       {5, func(r *kmsg.ApiVersionsRequest) { r.ClusterID = ptr("x") }, kerr.InvalidRequest},
		"node alone":          {5, func(r *kmsg.ApiVersionsRequest) { r.NodeID = 7 }, kerr.InvalidRequest},
		"another cluster":     {5, func(r *kmsg.ApiVersionsRequest) { r.ClusterID, r.NodeID = ptr("x"), 7 }, kerr.RebootstrapRequired},
		"neither of them":     {5, func(*kmsg.ApiVersionsRequest) {}, kerr.None},
		"old, without any":    {0, func(r *kmsg.ApiVersionsRequest) { r.ClientSoftwareName = "" }, kerr.None},
		"before it was asked": {2, func(r *kmsg.ApiVersionsRequest) { r.ClientSoftwareName = "a_b" }, kerr.None},
	} {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "test", "1"
		c.edit(req)
		resp := ask[*kmsg.ApiVersionsResponse](n.client(), c.version, req)
		if kerr.Code(resp.ErrorCode) != c.code || (len(resp.ApiKeys) > 0) != (c.code == kerr.None) {
			t.Errorf("%s: %s, %d keys", name, kerr.Code(resp.ErrorCode), len(resp.ApiKeys))
		}
	}
}
