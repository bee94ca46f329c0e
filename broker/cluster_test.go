package broker_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/protocol/kerr"
)

func metadataRequest(names ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		req.Topics = append(req.Topics, t)
	}
	return req
}

// metadata returns what is told of a topic.
func (n *node) metadata(name string) kmsg.MetadataResponseTopic {
	n.t.Helper()
	return ask[*kmsg.MetadataResponse](n.client(), 12, metadataRequest(name)).Topics[0]
}

func (n *node) port() int32 {
	n.t.Helper()
	_, text, _ := cutLast(n.addr, ":")
	port, err := strconv.Atoi(text)
	if err != nil {
		n.t.Fatal(err)
	}
	return int32(port)
}

func cutLast(s, sep string) (before, after string, ok bool) {
	for i := len(s) - len(sep); i >= 0; i-- {
		if s[i:i+len(sep)] == sep {
			return s[:i], s[i+len(sep):], true
		}
	}
	return s, "", false
}

func TestMetadataAtEveryVersion(t *testing.T) {
	n := start(t, "broker.rack", "here")
	id := n.topic("a", 2)
	n.topic("b", 1)
	eachVersion(t, 0, 13, func(t *testing.T, version int16) {
		named := metadataRequest("a", "a", "c")
		named.AllowAutoTopicCreation = false
		if version < 4 {
			named = metadataRequest("a", "a", "a b") // these would create
		}
		named.IncludeTopicAuthorizedOperations, named.IncludeClusterAuthorizedOperations = true, true
		resp := ask[*kmsg.MetadataResponse](n.client(), version, named)
		if len(resp.Brokers) != 1 || resp.Brokers[0].NodeID != 7 || resp.Brokers[0].Host != "127.0.0.1" || resp.Brokers[0].Port != n.port() ||
			version >= 1 && (*resp.Brokers[0].Rack != "here" || resp.ControllerID != 7) || version >= 2 && (resp.ClusterID == nil || len(*resp.ClusterID) != 22) {
			t.Errorf("got %+v", resp)
		}
		if want := int32(8096); version >= 8 && version <= 10 && resp.AuthorizedOperations != want {
			t.Errorf("operations %d", resp.AuthorizedOperations)
		}
		if len(resp.Topics) != 2 || len(resp.Topics[0].Partitions) != 2 {
			t.Fatalf("got %+v", resp.Topics)
		}
		a, c := resp.Topics[0], resp.Topics[1]
		wantCode(t, a.ErrorCode, kerr.None)
		if *a.Topic != "a" || version >= 10 && a.TopicID != id || version >= 8 && a.AuthorizedOperations != 3576 {
			t.Errorf("got %+v", a)
		}
		for i, p := range a.Partitions {
			if p.ErrorCode != 0 || p.Partition != int32(i) || p.Leader != 7 || !slices.Equal(p.Replicas, []int32{7}) || !slices.Equal(p.ISR, []int32{7}) || len(p.OfflineReplicas) > 0 {
				t.Errorf("got %+v", p)
			}
		}
		missing := kerr.UnknownTopicOrPartition
		if version < 4 {
			missing = kerr.InvalidTopic
		}
		wantCode(t, c.ErrorCode, missing)
		if len(c.Partitions) > 0 || c.TopicID != [16]byte{} {
			t.Errorf("got %+v", c)
		}

		all, none := metadataRequest(), metadataRequest()
		all.Topics = nil
		if version == 0 {
			all = none // it knows no null
		}
		if got := ask[*kmsg.MetadataResponse](n.client(), version, all).Topics; len(got) != 2 {
			t.Errorf("of all: %+v", got)
		}
		if got := ask[*kmsg.MetadataResponse](n.client(), version, none).Topics; version > 0 && len(got) > 0 {
			t.Errorf("of none: %+v", got)
		}
	})
}

func TestMetadataByID(t *testing.T) {
	n := start(t)
	id := n.topic("a", 1)
	request := func(ids ...[16]byte) *kmsg.MetadataRequest {
		req := metadataRequest()
		for _, id := range ids {
			topic := kmsg.NewMetadataRequestTopic()
			topic.TopicID = id
			req.Topics = append(req.Topics, topic)
		}
		return req
	}
	for version := int16(12); version <= 13; version++ {
		req := request(id, [16]byte{9}, id)
		req.Topics = append(req.Topics, metadataRequest("a").Topics...) // not looked at beside ids
		resp := ask[*kmsg.MetadataResponse](n.client(), version, req)
		if len(resp.Topics) != 2 || *resp.Topics[0].Topic != "a" || resp.Topics[1].Topic != nil || resp.Topics[1].TopicID != [16]byte{9} {
			t.Fatalf("got %+v", resp.Topics)
		}
		wantCode(t, resp.Topics[0].ErrorCode, kerr.None)
		wantCode(t, resp.Topics[1].ErrorCode, kerr.UnknownTopicID)

		resp = ask[*kmsg.MetadataResponse](n.client(), version, request([16]byte{}))
		wantCode(t, resp.Topics[0].ErrorCode, kerr.UnknownServerError)
	}
	for version := int16(10); version <= 11; version++ {
		resp := ask[*kmsg.MetadataResponse](n.client(), version, request(id))
		wantCode(t, resp.Topics[0].ErrorCode, kerr.InvalidRequest)
		if len(resp.Brokers) > 0 {
			t.Errorf("got %+v", resp)
		}
	}
}

func TestMetadataMakesTopics(t *testing.T) {
	for _, c := range []struct {
		enabled string
		version int16
		allowed bool
		made    bool
	}{{"true", 4, true, true}, {"true", 3, false, true}, {"true", 4, false, false}, {"false", 4, true, false}, {"false", 3, true, false}} {
		n := start(t, "auto.create.topics.enable", c.enabled, "num.partitions", "3")
		req := metadataRequest("a", "a b")
		req.AllowAutoTopicCreation = c.allowed
		got := ask[*kmsg.MetadataResponse](n.client(), c.version, req).Topics
		code, partitions := kerr.UnknownTopicOrPartition, 0
		if c.made {
			code, partitions = kerr.None, 3
		}
		wantCode(t, got[0].ErrorCode, code)
		wantCode(t, got[1].ErrorCode, kerr.InvalidTopic)
		if len(got[0].Partitions) != partitions {
			t.Errorf("%+v: %+v", c, got[0])
		}
	}
}

func TestMetadataMakesManyTopicsAtOnce(t *testing.T) {
	n := start(t, "num.partitions", "100", "max.partitions", "2000")
	var names []string
	for i := range 25 {
		names = append(names, fmt.Sprintf("t%d", i))
	}
	got := ask[*kmsg.MetadataResponse](n.client(), 4, func() *kmsg.MetadataRequest {
		req := metadataRequest(names...)
		req.AllowAutoTopicCreation = true
		return req
	}()).Topics
	if len(got) != 25 {
		t.Fatalf("%d topics", len(got))
	}
	for i, topic := range got {
		code, partitions := kerr.None, 100
		if i >= 20 {
			code, partitions = kerr.PolicyViolation, 0 // that is all there may be
		}
		wantCode(t, topic.ErrorCode, code)
		if *topic.Topic != names[i] || len(topic.Partitions) != partitions {
			t.Errorf("got %+v", topic)
		}
	}
}

func TestDescribeCluster(t *testing.T) {
	n := start(t)
	eachVersion(t, 0, 2, func(t *testing.T, version int16) {
		for _, operations := range []bool{true, false} {
			req := kmsg.NewPtrDescribeClusterRequest()
			req.IncludeClusterAuthorizedOperations = operations
			resp := ask[*kmsg.DescribeClusterResponse](n.client(), version, req)
			if resp.ErrorCode != 0 || len(resp.Brokers) != 1 || resp.Brokers[0].NodeID != 7 || resp.ControllerID != 7 || resp.ClusterID == "" ||
				operations != (resp.ClusterAuthorizedOperations == 8096) {
				t.Errorf("got %+v", resp)
			}
		}
	})
	for endpoint, code := range map[int8]kerr.Code{0: kerr.UnsupportedEndpointType, 2: kerr.MismatchedEndpointType, 9: kerr.UnsupportedEndpointType} {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.EndpointType = endpoint
		resp := ask[*kmsg.DescribeClusterResponse](n.client(), 1, req)
		wantCode(t, resp.ErrorCode, code)
		if resp.EndpointType != 1 || resp.ErrorMessage == nil || len(resp.Brokers) > 0 {
			t.Errorf("got %+v", resp)
		}
	}
}

func TestFindCoordinatorAtEveryVersion(t *testing.T) {
	n := start(t)
	const group, transaction, share = 0, 1, 2
	eachVersion(t, 0, 6, func(t *testing.T, version int16) {
		for _, c := range []struct {
			kind  int8
			key   string
			since int16
			code  kerr.Code
		}{
			{group, "g", 0, kerr.None},
			{group, "", 0, kerr.None},
			{transaction, "t", 1, kerr.None},
			{9, "x", 1, kerr.InvalidRequest},
			{share, "g", 4, kerr.InvalidRequest},
			{share, "g:AAAAAAAAAAAAAAAAAAAAAQ:0", 6, kerr.CoordinatorNotAvailable},
			{share, "g:AAAAAAAAAAAAAAAAAAAAAQ:-1", 6, kerr.InvalidRequest},
		} {
			if version < c.since {
				continue
			}
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.CoordinatorType, req.CoordinatorKey = c.kind, c.key
			req.CoordinatorKeys = []string{c.key, c.key}
			resp := ask[*kmsg.FindCoordinatorResponse](n.client(), version, req)
			if version < 4 {
				resp.Coordinators = []kmsg.FindCoordinatorResponseCoordinator{{
					Key: c.key, NodeID: resp.NodeID, Host: resp.Host, Port: resp.Port, ErrorCode: resp.ErrorCode, ErrorMessage: resp.ErrorMessage,
				}}
			} else if len(resp.Coordinators) != 2 {
				t.Fatalf("got %+v", resp)
			}
			for _, got := range resp.Coordinators {
				wantCode(t, got.ErrorCode, c.code)
				found := got.NodeID == 7 && got.Host == "127.0.0.1" && got.Port == n.port()
				missing := got.NodeID == -1 && got.Host == "" && got.Port == -1
				if got.Key != c.key || found != (c.code == kerr.None) || missing == found || (got.ErrorMessage != nil) != (version >= 1) {
					t.Errorf("%+v: %+v", c, got)
				}
			}
		}
	})
}

func TestDescribeTopicPartitionsInPages(t *testing.T) {
	n := start(t, "max.request.partition.size.limit", "5")
	n.topic("a", 2)
	n.topic("b", 4)
	n.topic("c", 1)
	walk := func(limit int32, names ...string) (got []string, pages int) {
		t.Helper()
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit = limit
		for _, name := range names {
			req.Topics = append(req.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: name})
		}
		for {
			resp := ask[*kmsg.DescribeTopicPartitionsResponse](n.client(), 0, req)
			pages++
			for _, topic := range resp.Topics {
				if topic.ErrorCode != 0 || topic.AuthorizedOperations != 3576 {
					got = append(got, fmt.Sprintf("%s:%s", *topic.Topic, kerr.Code(topic.ErrorCode)))
				}
				for _, p := range topic.Partitions {
					got = append(got, fmt.Sprintf("%s%d", *topic.Topic, p.Partition))
				}
			}
			if resp.NextCursor == nil {
				return got, pages
			}
			req.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: resp.NextCursor.Topic, Partition: resp.NextCursor.Partition}
			if pages > 10 {
				t.Fatal("it does not end")
			}
		}
	}
	all := []string{"a0", "a1", "b0", "b1", "b2", "b3", "c0"}
	for _, c := range []struct {
		limit int32
		names []string
		want  []string
		pages int
	}{
		{2000, nil, all, 2}, // the broker's limit is 5
		{3, nil, all, 3},
		{1, nil, all, 7},
		{0, nil, all, 7},
		{-5, nil, all, 7},
		{2000, []string{"c", "a", "c"}, []string{"a0", "a1", "c0"}, 1},
		{2000, []string{"nobody", "a"}, []string{"a0", "a1", "nobody:UNKNOWN_TOPIC_OR_PARTITION"}, 1},
		{2000, []string{"a b"}, []string{"a b:INVALID_TOPIC_EXCEPTION"}, 1},
	} {
		if got, pages := walk(c.limit, c.names...); !slices.Equal(got, c.want) || pages != c.pages {
			t.Errorf("%+v: %v in %d pages", c, got, pages)
		}
	}
}

func TestDescribeLogDirsAtEveryVersion(t *testing.T) {
	n := start(t)
	n.topic("a", 2)
	n.topic("b", 1)
	n.produce("a", 1, "x")
	size := int64(len(records("x")))
	eachVersion(t, 1, 5, func(t *testing.T, version int16) {
		req := kmsg.NewPtrDescribeLogDirsRequest()
		resp := ask[*kmsg.DescribeLogDirsResponse](n.client(), version, req)
		if len(resp.Dirs) != 1 || resp.Dirs[0].Dir != n.dir || resp.Dirs[0].ErrorCode != 0 || len(resp.Dirs[0].Topics) != 2 ||
			version >= 4 && (resp.Dirs[0].TotalBytes <= 0 || resp.Dirs[0].UsableBytes <= 0) {
			t.Fatalf("got %+v", resp)
		}
		req.Topics = []kmsg.DescribeLogDirsRequestTopic{
			{Topic: "a", Partitions: []int32{1, 9, 1}}, {Topic: "c", Partitions: []int32{0}}, {Topic: "b"}, {Topic: "a", Partitions: []int32{1}},
		}
		dir := ask[*kmsg.DescribeLogDirsResponse](n.client(), version, req).Dirs[0]
		if len(dir.Topics) != 1 || len(dir.Topics[0].Partitions) != 1 || dir.Topics[0].Partitions[0].Size != size {
			t.Errorf("got %+v", dir.Topics)
		}
	})
}

// What was acknowledged is there after a restart, under the same ids.
func TestRestartKeepsWhatWasAcknowledged(t *testing.T) {
	dir := t.TempDir()
	n := startIn(t, dir)
	id := n.topic("a", 3)
	n.produce("a", 2, "x", "y")
	n.deleteRecords("a", 2, 1)
	cluster := *ask[*kmsg.MetadataResponse](n.client(), 12, metadataRequest()).ClusterID
	n.stop()
	n = startIn(t, dir)
	if got := *ask[*kmsg.MetadataResponse](n.client(), 12, metadataRequest()).ClusterID; got != cluster {
		t.Errorf("cluster id %s, was %s", got, cluster)
	}
	if got := n.metadata("a"); got.TopicID != id || len(got.Partitions) != 3 {
		t.Errorf("got %+v", got)
	}
	p := ask[*kmsg.FetchResponse](n.client(), 12, fetchRequest(want{topic: "a", partition: 2, offset: 1})).Topics[0].Partitions[0]
	if p.HighWatermark != 2 || p.LogStartOffset != 1 || len(p.RecordBatches) == 0 {
		t.Errorf("got %+v", p)
	}
	if offset := n.produce("a", 2, "z"); offset != 2 {
		t.Errorf("the next record has offset %d", offset)
	}
}
