package diff

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func metadataCases() []Case {
	const k = kmsg.Metadata
	// own drops the topics of others from an answer that names all.
	own := func(s *Script, resp *kmsg.MetadataResponse) {
		mine := resp.Topics[:0]
		for _, t := range resp.Topics {
			if t.Topic != nil && strings.HasPrefix(*t.Topic, "diff-"+s.run+"-") && s.rename(*t.Topic) != *t.Topic {
				mine = append(mine, t)
			}
		}
		resp.Topics = mine
	}
	byID := func(ids ...[16]byte) *kmsg.MetadataRequest {
		req := metadataOf()
		for _, id := range ids {
			t := kmsg.NewMetadataRequestTopic()
			t.TopicID = id
			req.Topics = append(req.Topics, t)
		}
		return req
	}
	return []Case{
		{Name: "Metadata/named", Key: k, All: true, Play: func(s *Script) {
			s.Do("answer", metadataOf(s.Topic(3), s.Topic(1)))
		}},
		{Name: "Metadata/null-list-is-all", Key: k, Min: 1, Play: func(s *Script) {
			s.Topic(2)
			req := kmsg.NewPtrMetadataRequest()
			req.Topics = nil
			if resp, ok := s.Hidden("answer", req).(*kmsg.MetadataResponse); ok {
				own(s, resp)
				s.Record("answer", resp)
			}
		}},
		{Name: "Metadata/empty-list", Key: k, Play: func(s *Script) {
			s.Topic(1)
			if resp, ok := s.Hidden("answer", metadataOf()).(*kmsg.MetadataResponse); ok {
				own(s, resp)
				s.Record("answer", resp)
			}
		}},
		{Name: "Metadata/missing", Key: k, Min: 4, Play: func(s *Script) {
			missing := s.Name("")
			s.Do("answer", metadataOf(missing))
			s.Do("again", metadataOf(missing))
		}},
		{Name: "Metadata/missing-and-present", Key: k, Min: 4, Play: func(s *Script) {
			s.Do("answer", metadataOf(s.Name(""), s.Topic(1), s.Name("")))
		}},
		{Name: "Metadata/auto-create", Key: k, Play: func(s *Script) {
			name := s.Name("")
			s.Adopt(name)
			req := metadataOf(name)
			req.AllowAutoTopicCreation = true
			s.Do("first", req)
			s.AwaitTopic(name, 1)
			s.Do("second", req)
		}},
		{Name: "Metadata/auto-create-bad-name", Key: k, Play: func(s *Script) {
			req := metadataOf(s.Name("!"))
			req.AllowAutoTopicCreation = true
			s.Do("answer", req)
		}},
		{Name: "Metadata/bad-name", Key: k, Min: 4, Play: func(s *Script) {
			s.Do("answer", metadataOf(s.Name(" b/c")))
			s.Do("empty", metadataOf(""))
			s.Do("dot", metadataOf("."))
			s.Do("long", metadataOf(strings.Repeat("n", 250)))
		}},
		{Name: "Metadata/twice-the-same", Key: k, Min: 4, Play: func(s *Script) {
			name := s.Topic(1)
			s.Do("answer", metadataOf(name, name))
		}},
		{Name: "Metadata/by-id", Key: k, Min: 10, Play: func(s *Script) {
			name := s.Topic(2)
			s.Do("answer", byID(s.TopicID(name)))
		}},
		{Name: "Metadata/by-unknown-id", Key: k, Min: 10, Play: func(s *Script) {
			s.Do("answer", byID([16]byte{1: 9}))
		}},
		{Name: "Metadata/by-zero-id", Key: k, Min: 10, Play: func(s *Script) {
			s.Do("answer", byID([16]byte{}))
		}},
		{Name: "Metadata/by-id-and-name", Key: k, Min: 10, Play: func(s *Script) {
			a, b := s.Topic(1), s.Topic(1)
			req := byID(s.TopicID(a))
			req.Topics[0].Topic = ptr(a)
			s.Do("same", req)
			req.Topics[0].Topic = ptr(b)
			s.Do("other", req)
		}},
		{Name: "Metadata/id-beside-name", Key: k, Min: 12, Play: func(s *Script) {
			a, b := s.Topic(1), s.Topic(1)
			req := byID(s.TopicID(a))
			req.Topics = append(req.Topics, metadataOf(b).Topics...)
			s.Do("answer", req)
		}},
		{Name: "Metadata/same-id-twice", Key: k, Min: 12, Play: func(s *Script) {
			id := s.TopicID(s.Topic(1))
			s.Do("answer", byID(id, id))
		}},
		{Name: "Metadata/operations-asked", Key: k, Min: 8, Play: func(s *Script) {
			req := metadataOf(s.Topic(1))
			req.IncludeTopicAuthorizedOperations, req.IncludeClusterAuthorizedOperations = true, true
			s.Do("answer", req)
		}},
		{Name: "Metadata/internal-topic", Key: k, Min: 4, Play: func(s *Script) {
			// Whether there is such a topic is the broker's affair; that a client cannot create it is not.
			req := metadataOf("__consumer_offsets")
			if resp, ok := s.Hidden("answer", req).(*kmsg.MetadataResponse); ok && len(resp.Topics) == 1 {
				t := resp.Topics[0]
				s.Note("known or internal", t.ErrorCode == 3 || t.ErrorCode == 0 && t.IsInternal)
			}
		}},
		{Name: "Metadata/after-delete-and-create", Key: k, Min: 10, Play: func(s *Script) {
			name := s.Topic(1)
			before := s.TopicID(name)
			del := kmsg.NewPtrDeleteTopicsRequest()
			del.TopicNames, del.TimeoutMillis = []string{name}, 10000
			s.prepare(5, del)
			s.eventually("the topic is gone", func() bool { return s.TopicID(name) == [16]byte{} })
			s.Do("gone", metadataOf(name))
			s.prepare(7, createTopics(createTopic(name, 1, 1)))
			s.AwaitTopic(name, 1)
			s.Note("another id", s.TopicID(name) != before)
			if s.V >= 12 {
				s.Do("by the old id", byID(before))
			}
		}},
	}
}
