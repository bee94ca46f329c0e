package broker_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/protocol/kerr"
)

func TestCreateTopicsAtEveryVersion(t *testing.T) {
	n := start(t, "num.partitions", "3")
	eachVersion(t, 2, 7, func(t *testing.T, version int16) {
		name := "t" + string(rune('0'+version))
		for _, validate := range []bool{true, false} {
			req := kmsg.NewPtrCreateTopicsRequest()
			req.ValidateOnly, req.TimeoutMillis = validate, 10_000
			topic := newTopic(name, 2, "retention.ms", "5000")
			if version >= 4 {
				topic.NumPartitions, topic.ReplicationFactor = -1, -1
			}
			req.Topics = append(req.Topics, topic)
			got := ask[*kmsg.CreateTopicsResponse](n.client(), version, req).Topics[0]
			wantCode(t, got.ErrorCode, kerr.None)
			if got.Topic != name || got.ErrorMessage != nil || version >= 7 && got.TopicID == [16]byte{} {
				t.Errorf("got %+v", got)
			}
			if version >= 5 {
				var retention string
				for _, c := range got.Configs {
					if c.Name == "retention.ms" {
						retention = *c.Value
					}
				}
				if got.NumPartitions != 3 || got.ReplicationFactor != 1 || retention != "5000" {
					t.Errorf("got %+v", got)
				}
			}
			if there := n.metadata(name).ErrorCode == 0; there == validate {
				t.Errorf("after validate only %v there is a topic: %v", validate, there)
			}
		}
	})
}

func TestCreateTopicsRefuses(t *testing.T) {
	n := start(t)
	n.topic("there", 1)
	n.topic("a.b", 1)
	for name, c := range map[string]struct {
		topic kmsg.CreateTopicsRequestTopic
		code  kerr.Code
	}{
		"there":              {newTopic("there", 1), kerr.TopicAlreadyExists},
		"there, and wrong":   {newTopic("there", 0), kerr.TopicAlreadyExists},
		"impossible name":    {newTopic("a b", 1), kerr.InvalidTopic},
		"empty name":         {newTopic("", 1), kerr.InvalidTopic},
		"colliding name":     {newTopic("a_b", 1), kerr.InvalidTopic},
		"no partitions":      {newTopic("x", 0), kerr.InvalidPartitions},
		"negative":           {newTopic("x", -2), kerr.InvalidPartitions},
		"too many":           {newTopic("x", 10_001), kerr.PolicyViolation},
		"unknown config":     {newTopic("x", 1, "colour", "red"), kerr.InvalidConfig},
		"bad config":         {newTopic("x", 1, "retention.ms", "soon"), kerr.InvalidConfig},
		"replicas":           {func() kmsg.CreateTopicsRequestTopic { t := newTopic("x", 1); t.ReplicationFactor = 3; return t }(), kerr.InvalidReplicationFactor},
		"counted, assigned":  {assigned(newTopic("x", 1), 0, 7), kerr.InvalidRequest},
		"assigned elsewhere": {assigned(newTopic("x", -1), 0, 8), kerr.InvalidReplicaAssignment},
		"assigned, a gap":    {assigned(newTopic("x", -1), 1, 7), kerr.InvalidReplicaAssignment},
	} {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Topics = append(req.Topics, c.topic, newTopic("good-"+c.topic.Topic, 1))
		got := ask[*kmsg.CreateTopicsResponse](n.client(), 7, req).Topics[0]
		if kerr.Code(got.ErrorCode) != c.code || got.ErrorMessage == nil || got.NumPartitions != -1 || got.ReplicationFactor != -1 ||
			got.Configs == nil || len(got.Configs) > 0 || got.TopicID != [16]byte{} {
			t.Errorf("%s: %s, %+v", name, kerr.Code(got.ErrorCode), got)
		}
	}
}

func assigned(t kmsg.CreateTopicsRequestTopic, partition, node int32) kmsg.CreateTopicsRequestTopic {
	if t.NumPartitions == -1 {
		t.ReplicationFactor = -1
	}
	a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	a.Partition, a.Replicas = partition, []int32{node}
	t.ReplicaAssignment = append(t.ReplicaAssignment, a)
	return t
}

func TestCreateTopicsAnswersATopicNamedTwiceOnce(t *testing.T) {
	n := start(t)
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics = append(req.Topics, newTopic("a", 1), newTopic("b", 1), newTopic("a", 2))
	resp := ask[*kmsg.CreateTopicsResponse](n.client(), 7, req)
	if len(resp.Topics) != 2 {
		t.Fatalf("got %+v", resp.Topics)
	}
	wantCode(t, resp.Topics[0].ErrorCode, kerr.InvalidRequest)
	wantCode(t, resp.Topics[1].ErrorCode, kerr.None)
}

func TestDeleteTopicsAtEveryVersion(t *testing.T) {
	n := start(t)
	eachVersion(t, 1, 6, func(t *testing.T, version int16) {
		id := n.topic("a", 1)
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.TimeoutMillis = 10_000
		req.TopicNames = []string{"a", "b"}
		if version >= 6 {
			req.TopicNames = nil
			req.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: ptr("a")}, {Topic: ptr("b")}}
		}
		resp := ask[*kmsg.DeleteTopicsResponse](n.client(), version, req)
		if len(resp.Topics) != 2 {
			t.Fatalf("got %+v", resp.Topics)
		}
		a, b := resp.Topics[0], resp.Topics[1]
		wantCode(t, a.ErrorCode, kerr.None)
		wantCode(t, b.ErrorCode, kerr.UnknownTopicOrPartition)
		if *a.Topic != "a" || *b.Topic != "b" || version >= 6 && a.TopicID != id || a.ErrorMessage != nil || version >= 5 && b.ErrorMessage == nil {
			t.Errorf("got %+v", resp.Topics)
		}
		wantCode(t, n.metadata("a").ErrorCode, kerr.UnknownTopicOrPartition)
	})
}

func TestDeleteTopicsByID(t *testing.T) {
	n := start(t)
	a, b := n.topic("a", 1), n.topic("b", 1)
	n.topic("c", 1)
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Topics = []kmsg.DeleteTopicsRequestTopic{
		{TopicID: a},
		{TopicID: b}, {Topic: ptr("b")}, // the same one
		{TopicID: [16]byte{1}},
		{TopicID: a, Topic: ptr("c")},
		{},
		{Topic: ptr("c")}, {Topic: ptr("c")}, {Topic: ptr("c")},
	}
	resp := ask[*kmsg.DeleteTopicsResponse](n.client(), 6, req)
	want := []struct {
		name string
		id   [16]byte
		code kerr.Code
	}{
		{"a", a, kerr.None},
		{"b", b, kerr.InvalidRequest},
		{"", [16]byte{1}, kerr.UnknownTopicID},
		{"c", a, kerr.InvalidRequest},
		{"", [16]byte{}, kerr.InvalidRequest},
		{"c", [16]byte{}, kerr.InvalidRequest},
	}
	if len(resp.Topics) != len(want) {
		t.Fatalf("got %+v", resp.Topics)
	}
	for i, w := range want {
		got := resp.Topics[i]
		name := ""
		if got.Topic != nil {
			name = *got.Topic
		}
		if kerr.Code(got.ErrorCode) != w.code || name != w.name || got.TopicID != w.id || (got.ErrorMessage != nil) != (w.code != kerr.None) {
			t.Errorf("%d: %s, %+v", i, kerr.Code(got.ErrorCode), got)
		}
	}
	wantCode(t, n.metadata("b").ErrorCode, kerr.None)
	wantCode(t, n.metadata("c").ErrorCode, kerr.None)
}

func TestTopicsCannotBeDeletedWhereThatIsTurnedOff(t *testing.T) {
	n := start(t, "delete.topic.enable", "false")
	n.topic("a", 1)
	for version, code := range map[int16]kerr.Code{1: kerr.InvalidRequest, 3: kerr.TopicDeletionDisabled, 5: kerr.TopicDeletionDisabled} {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.TopicNames = []string{"a"}
		wantCode(t, ask[*kmsg.DeleteTopicsResponse](n.client(), version, req).Topics[0].ErrorCode, code)
	}
}

// Records of a deleted topic must not come back under its name.
func TestTopicMadeAgainIsEmptyAndHasAnotherID(t *testing.T) {
	n := start(t)
	first := n.topic("a", 1)
	n.produce("a", 0, "x")
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TopicNames = []string{"a"}
	wantCode(t, ask[*kmsg.DeleteTopicsResponse](n.client(), 5, req).Topics[0].ErrorCode, kerr.None)
	if second := n.topic("a", 1); second == first {
		t.Error("the id is the same")
	}
	if offset := n.produce("a", 0, "y"); offset != 0 {
		t.Errorf("the first record has offset %d", offset)
	}
	p := ask[*kmsg.ProduceResponse](n.client(), 13, produceRequest(-1, part{id: first, records: records("z")})).Topics[0].Partitions[0]
	wantCode(t, p.ErrorCode, kerr.UnknownTopicID)
	f := ask[*kmsg.FetchResponse](n.client(), 13, fetchRequest(want{id: first})).Topics[0].Partitions[0]
	wantCode(t, f.ErrorCode, kerr.UnknownTopicID)
}

func TestCreatePartitionsAtEveryVersion(t *testing.T) {
	n := start(t)
	n.topic("a", 1)
	total := int32(1)
	eachVersion(t, 0, 3, func(t *testing.T, version int16) {
		total++
		for _, validate := range []bool{true, false} {
			req := partitionsRequest("a", total)
			req.ValidateOnly = validate
			got := ask[*kmsg.CreatePartitionsResponse](n.client(), version, req).Topics[0]
			wantCode(t, got.ErrorCode, kerr.None)
			if there := len(n.metadata("a").Partitions) == int(total); there == validate || got.ErrorMessage != nil {
				t.Errorf("after validate only %v the partitions are there: %v", validate, there)
			}
		}
		n.produce("a", total-1, "x")
	})
}

func partitionsRequest(topic string, total int32) *kmsg.CreatePartitionsRequest {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = 10_000
	in := kmsg.NewCreatePartitionsRequestTopic()
	in.Topic, in.Count = topic, total
	req.Topics = append(req.Topics, in)
	return req
}

func TestCreatePartitionsRefuses(t *testing.T) {
	n := start(t)
	n.topic("a", 2)
	for name, c := range map[string]struct {
		topic string
		total int32
		edit  func(*kmsg.CreatePartitionsRequest)
		code  kerr.Code
	}{
		"unknown topic": {"b", 3, nil, kerr.UnknownTopicOrPartition},
		"as many":       {"a", 2, nil, kerr.InvalidPartitions},
		"fewer":         {"a", 1, nil, kerr.InvalidPartitions},
		"too many":      {"a", 20_000, nil, kerr.PolicyViolation},
		"twice":         {"a", 3, func(r *kmsg.CreatePartitionsRequest) { r.Topics = append(r.Topics, r.Topics[0]) }, kerr.InvalidRequest},
		"assigned elsewhere": {"a", 3, func(r *kmsg.CreatePartitionsRequest) {
			r.Topics[0].Assignment = []kmsg.CreatePartitionsRequestTopicAssignment{{Replicas: []int32{8}}}
		}, kerr.InvalidReplicaAssignment},
	} {
		req := partitionsRequest(c.topic, c.total)
		if c.edit != nil {
			c.edit(req)
		}
		resp := ask[*kmsg.CreatePartitionsResponse](n.client(), 3, req)
		if len(resp.Topics) != 1 || kerr.Code(resp.Topics[0].ErrorCode) != c.code || (resp.Topics[0].ErrorMessage != nil) != (c.code != kerr.UnknownTopicOrPartition) {
			t.Errorf("%s: %+v", name, resp.Topics)
		}
	}
}
