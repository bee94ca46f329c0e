package broker

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/group/offsets"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// offsetCommit answers OffsetCommit (O-1 to O-7). The first stage proposes, in the
// order of the connection; the apply loop resolves the promise.
func (b *Broker) offsetCommit(_ context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.OffsetCommitRequest)
	response := request.ResponseKind().(*kmsg.OffsetCommitResponse)
	byID := c.Version >= 10
	q := &offsets.Request{
		Group: request.Group, Member: request.MemberID, Instance: text(request.InstanceID),
		Generation: request.Generation, Retention: -1,
		Topics: make([]offsets.Topic, 0, len(request.Topics)),
	}
	if c.Version <= 4 {
		q.Retention = max(request.RetentionTimeMillis, -1)
	}
	tooLarge := false
	response.Topics = make([]kmsg.OffsetCommitResponseTopic, 0, len(request.Topics))
	for i := range request.Topics {
		in := &request.Topics[i]
		if len(in.Partitions) == 0 {
			continue
		}
		response.Topics = append(response.Topics, kmsg.NewOffsetCommitResponseTopic())
		out := &response.Topics[len(response.Topics)-1]
		out.Topic, out.TopicID = in.Topic, in.TopicID
		out.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(in.Partitions))
		topic, refusal := b.topicOf(byID, in.Topic, in.TopicID)
		var committed offsets.Topic
		if topic != nil {
			committed = offsets.Topic{ID: topic.ID(), Offsets: make([]offsets.Offset, 0, len(in.Partitions))}
		}
		for j := range in.Partitions {
			p, answer := &in.Partitions[j], &out.Partitions[j]
			*answer = kmsg.NewOffsetCommitResponseTopicPartition()
			answer.Partition = p.Partition
			switch {
			case refusal != nil:
				answer.ErrorCode = kerr.Of(refusal).Int16()
			case p.Partition < 0 || p.Partition >= topic.Partitions():
				answer.ErrorCode = kerr.UnknownTopicOrPartition.Int16()
			case b.tooLong(p.Metadata):
				answer.ErrorCode, tooLarge = kerr.OffsetMetadataTooLarge.Int16(), true
			default:
				committed.Offsets = append(committed.Offsets, offsets.Offset{
					Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: text(p.Metadata),
				})
			}
		}
		if len(committed.Offsets) > 0 {
			q.Topics = append(q.Topics, committed)
		}
	}
	if len(q.Topics) == 0 {
		if tooLarge { // what is wrong with the whole goes before
			if err := b.groups.CheckCommit(q, c.Version); err != nil {
				refuseCommit(response, kerr.Of(err), nil)
			}
		}
		return protocol.Answer(response)
	}
	if b.admitOffsets(q, c.Version, response); len(q.Topics) == 0 {
		return protocol.Answer(response)
	}
	promise := protocol.NewPromise()
	b.groups.Commit(q, c.Version, func(missing []entry.TopicID, err error) {
		if err != nil {
			refuseCommit(response, kerr.Of(err), nil)
		}
		for _, id := range missing { // deleted meanwhile
			code := kerr.UnknownTopicOrPartition
			if byID {
				code = kerr.UnknownTopicID
			}
			refuseCommit(response, code, func(t *kmsg.OffsetCommitResponseTopic) bool {
				found := b.catalog.Topic(t.Topic)
				return byID && t.TopicID == id || !byID && (found == nil || found.ID() == id)
			})
		}
		promise.Resolve(protocol.Response{Message: response})
	})
	return promise
}

// tooLong reports whether the metadata of an offset are above the limit, which
// counts Java's characters, in spite of its name.
func (b *Broker) tooLong(metadata *string) bool {
	limit := int(b.settings.OffsetMetadataBytes)
	if metadata == nil || len(*metadata) <= limit {
		return false
	}
	count := 0
	for _, r := range *metadata {
		count += max(utf16.RuneLen(r), 1)
	}
	return count > limit
}

// refuseCommit sets the code of all partitions that were not refused before they
// got to the group, of those topics that which names; nil is for all.
func refuseCommit(response *kmsg.OffsetCommitResponse, code kerr.Code, which func(*kmsg.OffsetCommitResponseTopic) bool) {
	for i := range response.Topics {
		t := &response.Topics[i]
		if which != nil && !which(t) {
			continue
		}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if p.ErrorCode == 0 || which == nil && p.ErrorCode == kerr.OffsetMetadataTooLarge.Int16() {
				p.ErrorCode = code.Int16()
			}
		}
	}
}

// offsetFetch answers OffsetFetch (O-8 to O-12): of one group, or of several from
// version 8 on. What was committed on the same connection before is seen.
func (b *Broker) offsetFetch(_ context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.OffsetFetchRequest)
	names := []string{request.Group}
	if c.Version >= 8 {
		names = names[:0]
		for i := range request.Groups {
			names = append(names, request.Groups[i].Group)
		}
	}
	promise := protocol.NewPromise()
	answer := func() { promise.Resolve(protocol.Response{Message: b.fetchOffsets(request)}) }
	var waiting atomic.Int32
	waiting.Store(int32(len(names)) + 1)
	landed := func() {
		if waiting.Add(-1) == 0 {
			// The apply loop is not to wait for the answer to be put together. Ends with it.
			go answer()
		}
	}
	for _, name := range names {
		b.groups.AfterCommits(name, landed)
	}
	if waiting.Add(-1) == 0 {
		answer()
	}
	return promise
}

func (b *Broker) fetchOffsets(request *kmsg.OffsetFetchRequest) kmsg.Response {
	response := request.ResponseKind().(*kmsg.OffsetFetchResponse)
	if request.Version < 8 {
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = request.Group
		if request.Topics != nil {
			g.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, len(request.Topics))
			for i := range request.Topics {
				g.Topics[i] = kmsg.NewOffsetFetchRequestGroupTopic()
				g.Topics[i].Topic, g.Topics[i].Partitions = request.Topics[i].Topic, request.Topics[i].Partitions
			}
		}
		for _, t := range b.fetchGroupOffsets(&g, false, request.RequireStable).Topics {
			out := kmsg.NewOffsetFetchResponseTopic()
			out.Topic = t.Topic
			for i := range t.Partitions {
				p := kmsg.NewOffsetFetchResponseTopicPartition()
				p.Partition, p.Offset, p.LeaderEpoch = t.Partitions[i].Partition, t.Partitions[i].Offset, t.Partitions[i].LeaderEpoch
				p.Metadata, p.ErrorCode = t.Partitions[i].Metadata, t.Partitions[i].ErrorCode
				out.Partitions = append(out.Partitions, p)
			}
			response.Topics = append(response.Topics, out)
		}
		return response
	}
	for i := range request.Groups {
		response.Groups = append(response.Groups, b.fetchGroupOffsets(&request.Groups[i], request.Version >= 10, request.RequireStable))
	}
	return response
}

// fetchGroupOffsets answers for one group.
func (b *Broker) fetchGroupOffsets(in *kmsg.OffsetFetchRequestGroup, byID, stable bool) kmsg.OffsetFetchResponseGroup {
	out := kmsg.NewOffsetFetchResponseGroup()
	out.Group = in.Group
	if err := b.groups.CheckFetch(in.Group, in.MemberID, in.MemberEpoch); err != nil {
		out.ErrorCode = kerr.Of(err).Int16()
		return out
	}
	committed := b.groupState.Offsets()
	if in.Topics == nil {
		for _, t := range committed.All(in.Group) {
			topic := b.catalog.TopicByID(t.ID)
			if topic == nil {
				continue // deleted while we look
			}
			answer := kmsg.NewOffsetFetchResponseGroupTopic()
			answer.Topic, answer.TopicID = topic.Name(), t.ID
			for i := range t.Offsets {
				p := fetchedOffset(&t.Offsets[i])
				b.checkStable(&p, stable, in.Group, t.ID)
				answer.Partitions = append(answer.Partitions, p)
			}
			out.Topics = append(out.Topics, answer)
		}
		slices.SortFunc(out.Topics, func(a, b kmsg.OffsetFetchResponseGroupTopic) int { return cmp.Compare(a.Topic, b.Topic) })
		return out
	}
	for i := range in.Topics {
		t := &in.Topics[i]
		answer := kmsg.NewOffsetFetchResponseGroupTopic()
		answer.Topic, answer.TopicID = t.Topic, t.TopicID
		topic, refusal := b.topicOf(byID, t.Topic, t.TopicID)
		for _, partition := range t.Partitions {
			found := offsets.Offset{Partition: partition, Offset: -1, LeaderEpoch: -1}
			if topic != nil {
				if known, ok := committed.Fetch(in.Group, topic.ID(), partition); ok {
					found = known.Offset
				}
			}
			p := fetchedOffset(&found)
			switch {
			case topic != nil:
				b.checkStable(&p, stable, in.Group, topic.ID())
				b.holdBack(&p, in, stable, topic.ID())
			case byID: // by name, a topic that is not there has no offsets
				p.ErrorCode = kerr.Of(refusal).Int16()
			}
			answer.Partitions = append(answer.Partitions, p)
		}
		out.Topics = append(out.Topics, answer)
	}
	return out
}

// checkStable refuses an offset that an open transaction may change, where the client
// wants a stable one (O-10).
func (b *Broker) checkStable(p *kmsg.OffsetFetchResponseGroupTopicPartition, stable bool, group string, topic entry.TopicID) {
	if stable && b.txns.Pending(group, topic, p.Partition) {
		none := fetchedOffset(&offsets.Offset{Partition: p.Partition, Offset: -1, LeaderEpoch: -1})
		*p = none
		p.ErrorCode = kerr.UnstableOffsetCommit.Int16()
	}
}

func fetchedOffset(o *offsets.Offset) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = o.Partition, o.Offset, o.LeaderEpoch, &o.Metadata
	return p
}
