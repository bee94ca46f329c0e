package broker_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/protocol/kerr"
)

// committed is an offset of a partition.
type committed struct {
	topic     string
	id        [16]byte
	partition int32
	offset    int64
	epoch     int32
	metadata  *string
}

func commitRequest(group string, all ...committed) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = group
	for _, c := range all {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = c.partition, c.offset, c.epoch, c.metadata
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic, t.TopicID = c.topic, c.id
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	return req
}

// codes are the codes of an answer to OffsetCommit, partition by partition.
func codes(resp *kmsg.OffsetCommitResponse) string {
	var all []string
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			all = append(all, kerr.Code(p.ErrorCode).String())
		}
	}
	return strings.Join(all, " ")
}

func wantCodes(t *testing.T, resp *kmsg.OffsetCommitResponse, want ...kerr.Code) {
	t.Helper()
	var all []string
	for _, code := range want {
		all = append(all, code.String())
	}
	if got := codes(resp); got != strings.Join(all, " ") {
		t.Errorf("got %s, want %v", got, all)
	}
}

// fetchOffsets asks for the offsets of a group at a version: of topics (by name, or
// id where the version has them) with partitions 0 to 2, or of all for nil. The
// answer is one line for each partition.
func fetchOffsets(c *client, version int16, group string, topics []committed) string {
	c.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	if topics != nil {
		req.Topics, g.Topics = []kmsg.OffsetFetchRequestTopic{}, []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for _, topic := range topics {
		t, gt := kmsg.NewOffsetFetchRequestTopic(), kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic, gt.Topic, gt.TopicID = topic.topic, topic.topic, topic.id
		t.Partitions = []int32{0, 1, 2}
		gt.Partitions = t.Partitions
		req.Topics, g.Topics = append(req.Topics, t), append(g.Topics, gt)
	}
	req.Groups = append(req.Groups, g)
	resp := ask[*kmsg.OffsetFetchResponse](c, version, req)
	wantCode(c.t, resp.ErrorCode, kerr.None)
	var lines []string
	line := func(topic string, p kmsg.OffsetFetchResponseGroupTopicPartition) {
		s := fmt.Sprintf("%s/%d=%d", topic, p.Partition, p.Offset)
		if version >= 5 {
			s += fmt.Sprintf("@%d", p.LeaderEpoch)
		}
		if p.Metadata == nil {
			s += " null"
		} else if *p.Metadata != "" {
			s += " " + *p.Metadata
		}
		if p.ErrorCode != 0 {
			s += " " + kerr.Code(p.ErrorCode).String()
		}
		lines = append(lines, s)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			line(t.Topic, kmsg.OffsetFetchResponseGroupTopicPartition{Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata, ErrorCode: p.ErrorCode})
		}
	}
	for _, g := range resp.Groups {
		wantCode(c.t, g.ErrorCode, kerr.None)
		for _, t := range g.Topics {
			name := t.Topic
			if version >= 10 {
				name = fmt.Sprintf("%x", t.TopicID[:2])
			}
			for _, p := range t.Partitions {
				line(name, p)
			}
		}
	}
	return strings.Join(lines, ", ")
}

// byVersion names topics as a version does.
func byVersion(version int16, c committed) committed {
	if version >= 10 {
		c.topic = ""
	} else {
		c.id = [16]byte{}
	}
	return c
}

func TestOffsetsAreCommittedAndFetchedAtEveryVersion(t *testing.T) {
	n := start(t)
	id := n.topic("a", 3)
	long := strings.Repeat("m", 4097)
	eachVersion(t, 2, 10, func(t *testing.T, version int16) {
		c := n.client()
		group := fmt.Sprintf("g%d", version)
		resp := ask[*kmsg.OffsetCommitResponse](c, version, commitRequest(group,
			byVersion(version, committed{topic: "a", id: id, partition: 0, offset: 42, epoch: 5, metadata: ptr("x")}),
			byVersion(version, committed{topic: "a", id: id, partition: 2, offset: 1 << 40, epoch: -1}),
			byVersion(version, committed{topic: "a", id: id, partition: 3, offset: 1}),
			byVersion(version, committed{topic: "nope", id: [16]byte{9}, partition: 0, offset: 1}),
			byVersion(version, committed{topic: "a", id: id, partition: 1, offset: 1, metadata: &long}),
		))
		unknown := kerr.UnknownTopicOrPartition
		if version >= 10 {
			unknown = kerr.UnknownTopicID
		}
		wantCodes(t, resp, kerr.None, kerr.None, kerr.UnknownTopicOrPartition, unknown, kerr.OffsetMetadataTooLarge)

		epoch := "@-1"
		if version >= 6 {
			epoch = "@5"
		}
		if got, want := fetchOffsets(c, 7, group, nil), "a/0=42"+epoch+" x, a/2=1099511627776@-1"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got, want := fetchOffsets(c, 8, group, nil), "a/0=42"+epoch+" x, a/2=1099511627776@-1"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if version > 8 {
			return
		}
		if got, want := fetchOffsets(c, version, group, []committed{{topic: "a"}, {topic: "nope"}}), "a/0=42"; !strings.HasPrefix(got, want) ||
			!strings.Contains(got, "a/1=-1") || !strings.Contains(got, "nope/0=-1") || strings.Contains(got, "UNKNOWN") {
			t.Errorf("got %s", got)
		}
	})
}

func TestOffsetFetchAtEveryVersion(t *testing.T) {
	n := start(t)
	id := n.topic("a", 2)
	c := n.client()
	wantCodes(t, ask[*kmsg.OffsetCommitResponse](c, 9, commitRequest("g", committed{topic: "a", partition: 1, offset: 7, epoch: 3, metadata: ptr("x")})), kerr.None)
	eachVersion(t, 1, 10, func(t *testing.T, version int16) {
		epoch, none := "@3", "@-1"
		if version < 5 {
			epoch, none = "", ""
		}
		name := "a"
		topics := []committed{{topic: "a"}}
		unknown := []committed{{topic: "nope"}}
		said := fmt.Sprintf("nope/0=-1%[1]s, nope/1=-1%[1]s, nope/2=-1%[1]s", none)
		if version >= 10 {
			topics, unknown = []committed{{id: id}}, []committed{{id: [16]byte{1, 2}}}
			name = fmt.Sprintf("%x", id[:2])
			said = "0102/0=-1@-1 UNKNOWN_TOPIC_ID, 0102/1=-1@-1 UNKNOWN_TOPIC_ID, 0102/2=-1@-1 UNKNOWN_TOPIC_ID"
		}
		whole := fmt.Sprintf("%s/1=7%s x", name, epoch)
		for what, got := range map[string][2]string{
			"named":                {fetchOffsets(c, version, "g", topics), fmt.Sprintf("%[1]s/0=-1%[2]s, %[3]s, %[1]s/2=-1%[2]s", name, none, whole)},
			"of an unknown topic":  {fetchOffsets(c, version, "g", unknown), said},
			"of an unknown group":  {fetchOffsets(c, version, "none", topics), fmt.Sprintf("%[1]s/0=-1%[2]s, %[1]s/1=-1%[2]s, %[1]s/2=-1%[2]s", name, none)},
			"of no topic":          {fetchOffsets(c, version, "g", []committed{}), ""},
			"all":                  {fetchOffsets(c, max(version, 2), "g", nil), whole},
			"all of unknown group": {fetchOffsets(c, max(version, 2), "none", nil), ""},
		} {
			if version == 1 && strings.HasPrefix(what, "all") {
				continue
			}
			if got[0] != got[1] {
				t.Errorf("%s: got %s, want %s", what, got[0], got[1])
			}
		}
	})
	// Several groups at once.
	req := kmsg.NewPtrOffsetFetchRequest()
	for _, name := range []string{"g", "none", "g"} {
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = name
		req.Groups = append(req.Groups, g)
	}
	resp := ask[*kmsg.OffsetFetchResponse](c, 9, req)
	if len(resp.Groups) != 3 || len(resp.Groups[0].Topics) != 1 || len(resp.Groups[1].Topics) != 0 || len(resp.Groups[2].Topics) != 1 {
		t.Errorf("%+v", resp.Groups)
	}
}

func TestCommitsOfNobodyAndOfStrangers(t *testing.T) {
	n := start(t, "group.initial.rebalance.delay.ms", "0")
	n.topic("a", 1)
	eachVersion(t, 2, 9, func(t *testing.T, version int16) {
		c := n.client()
		group := fmt.Sprintf("g%d", version)
		req := commitRequest(group, committed{topic: "a", offset: 1})
		commit := func(member string, generation int32) *kmsg.OffsetCommitResponse {
			req.MemberID, req.Generation = member, generation
			return ask[*kmsg.OffsetCommitResponse](c, version, req)
		}
		missing := kerr.IllegalGeneration
		if version >= 9 {
			missing = kerr.GroupIDNotFound
		}
		wantCodes(t, commit("m", 1), missing)
		wantCodes(t, commit("", -1), kerr.None)
		wantCodes(t, commit("m", 1), kerr.UnknownMemberID)
		m := c.join(group)
		wantCodes(t, commit(m.id, m.generation), kerr.RebalanceInProgress)
		m.sync(t, m.id, "all")
		wantCodes(t, commit(m.id, m.generation), kerr.None)
		wantCodes(t, commit("", -1), kerr.UnknownMemberID)
		wantCodes(t, commit("x", m.generation), kerr.UnknownMemberID)
		wantCodes(t, commit(m.id, m.generation-1), kerr.IllegalGeneration)
		// What is wrong with the whole goes before what is wrong with a partition.
		tooLong := commitRequest(group, committed{topic: "a", metadata: ptr(strings.Repeat("m", 5000))}, committed{topic: "nope"})
		wantCodes(t, ask[*kmsg.OffsetCommitResponse](c, version, tooLong), kerr.UnknownMemberID, kerr.UnknownTopicOrPartition)
		m.leave(t)
		wantCodes(t, commit("", -1), kerr.None)
	})
}

// What is committed is seen by who asks on the same connection without waiting.
func TestFetchSeesCommitsThatAreOnTheirWay(t *testing.T) {
	n := start(t)
	n.topic("a", 1)
	c := n.client()
	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.Group = "g"
	const rounds = 200
	var sent []kmsg.Request
	for i := range rounds {
		for _, req := range []kmsg.Request{commitRequest("g", committed{topic: "a", offset: int64(i)}), fetch} {
			version := int16(7)
			c.send(version, req)
			sent = append(sent, req)
		}
	}
	for i := range rounds {
		resp, err := c.receive(sent[2*i])
		if err != nil {
			t.Fatal(err)
		}
		wantCodes(t, resp.(*kmsg.OffsetCommitResponse), kerr.None)
		if resp, err = c.receive(sent[2*i+1]); err != nil {
			t.Fatal(err)
		}
		if p := resp.(*kmsg.OffsetFetchResponse).Topics[0].Partitions[0]; p.Offset < int64(i) {
			t.Fatalf("fetched %d after %d was committed", p.Offset, i)
		}
	}
}

func TestOffsetsGoWithTheirTopic(t *testing.T) {
	n := start(t)
	old := n.topic("a", 1)
	n.topic("b", 1)
	c := n.client()
	wantCodes(t, ask[*kmsg.OffsetCommitResponse](c, 8, commitRequest("g", committed{topic: "a", offset: 1}, committed{topic: "b", offset: 2})), kerr.None, kerr.None)
	del := kmsg.NewPtrDeleteTopicsRequest()
	del.TopicNames = []string{"a"}
	wantCode(t, ask[*kmsg.DeleteTopicsResponse](c, 5, del).Topics[0].ErrorCode, kerr.None)
	if got := fetchOffsets(c, 8, "g", nil); got != "b/0=2@0" {
		t.Error(got)
	}
	fresh := n.topic("a", 1)
	if got := fetchOffsets(c, 8, "g", []committed{{topic: "a"}}); !strings.HasPrefix(got, "a/0=-1") {
		t.Error(got)
	}
	if got := fetchOffsets(c, 10, "g", []committed{{id: old}}); !strings.Contains(got, "UNKNOWN_TOPIC_ID") {
		t.Error(got)
	}
	wantCodes(t, ask[*kmsg.OffsetCommitResponse](c, 10, commitRequest("g", committed{id: old, offset: 5}, committed{id: fresh, offset: 6})), kerr.UnknownTopicID, kerr.None)
}

func TestOffsetsAreThereAfterACrash(t *testing.T) {
	n := start(t, "group.initial.rebalance.delay.ms", "0")
	n.topic("a", 2)
	c := n.client()
	wantCodes(t, ask[*kmsg.OffsetCommitResponse](c, 8, commitRequest("simple", committed{topic: "a", offset: 1, metadata: ptr("x")})), kerr.None)
	wantCodes(t, ask[*kmsg.OffsetCommitResponse](c, 8, commitRequest("deleted", committed{topic: "a", offset: 1})), kerr.None)
	m := c.join("g")
	m.sync(t, m.id, "all")
	req := commitRequest("g", committed{topic: "a", partition: 1, offset: 9})
	req.MemberID, req.Generation = m.id, m.generation
	wantCodes(t, ask[*kmsg.OffsetCommitResponse](c, 8, req), kerr.None)
	wantCode(t, deleteGroup(c, "deleted"), kerr.None)

	// The folder as it is while the broker runs, which has written down nothing else.
	image := t.TempDir()
	if err := os.CopyFS(image, os.DirFS(n.dir)); err != nil {
		t.Fatal(err)
	}
	n = startIn(t, image, "group.initial.rebalance.delay.ms", "0")
	c = n.client()
	for group, want := range map[string]string{"simple": "a/0=1@0 x", "g": "a/1=9@0", "deleted": ""} {
		if got := fetchOffsets(c, 8, group, nil); got != want {
			t.Errorf("%s: got %s, want %s", group, got, want)
		}
	}
	// The member carries on.
	m.client = c
	wantCode(t, m.heartbeat(t), kerr.None)
	wantCodes(t, ask[*kmsg.OffsetCommitResponse](c, 8, req), kerr.None)
	if got := m.sync(t, m.id, ""); got != "all" {
		t.Errorf("assigned %q", got)
	}
}

func deleteGroup(c *client, group string) int16 {
	c.t.Helper()
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = []string{group}
	return ask[*kmsg.DeleteGroupsResponse](c, 2, req).Groups[0].ErrorCode
}
