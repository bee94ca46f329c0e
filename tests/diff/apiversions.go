package diff

import (
	"encoding/binary"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func apiVersionsCases() []Case {
	valid := func() *kmsg.ApiVersionsRequest {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "diff-tester", "1.0"
		return req
	}
	software := func(name, version string) func(s *Script) {
		return func(s *Script) {
			req := valid()
			req.ClientSoftwareName, req.ClientSoftwareVersion = name, version
			s.codeOnly("answer", req)
		}
	}
	target := func(cluster func(s *Script) *string, node func(s *Script) int32) func(s *Script) {
		return func(s *Script) {
			req := valid()
			req.ClusterID, req.NodeID = cluster(s), node(s)
			s.codeOnly("answer", req)
		}
	}
	own := func(s *Script) *string { return &s.clusterID }
	other := func(s *Script) *string { return ptr("another-cluster") }
	none := func(s *Script) *string { return nil }
	self := func(s *Script) int32 { return s.nodeID }
	stranger := func(s *Script) int32 { return 4711 }
	noNode := func(s *Script) int32 { return -1 }
	tooNew := func(version int16) func(s *Script) {
		return func(s *Script) {
			answer := s.Raw("too new", frame(18, version, true, []byte{5, 'd', 'i', 'f', 'f', 2, '1', 0}), answerLimit)
			if len(answer) < 4 {
				return
			}
			resp := kmsg.NewPtrApiVersionsResponse() // version 0
			if err := resp.ReadFrom(answer[4:]); err != nil {
				s.Note("body", "is not of version 0")
				return
			}
			s.Record("body", resp)
			s.Note("correlation", binary.BigEndian.Uint32(answer))
			req := valid()
			req.SetVersion(3)
			s.codeAt("then", req)
		}
	}
	const k = kmsg.ApiVersions
	return []Case{
		{Name: "ApiVersions/table", Key: k, Play: func(s *Script) { s.Do("answer", valid()) }},
		{Name: "ApiVersions/twice", Key: k, Play: func(s *Script) {
			s.codeOnly("first", valid())
			s.codeOnly("second", valid())
		}},
		{Name: "ApiVersions/too-new", Key: k, Max: 0, Min: 5, Play: tooNew(6)},
		{Name: "ApiVersions/far-too-new", Key: k, Min: 5, Play: tooNew(99)},
		{Name: "ApiVersions/greatest-version", Key: k, Min: 5, Play: tooNew(32767)},
		{Name: "ApiVersions/negative-version", Key: k, Min: 5, Play: tooNew(-1)},
		{Name: "ApiVersions/software-empty", Key: k, Min: 3, Play: software("", "")},
		{Name: "ApiVersions/software-version-empty", Key: k, Min: 3, Play: software("diff", "")},
		{Name: "ApiVersions/software-with-space", Key: k, Min: 3, Play: software("a b", "1")},
		{Name: "ApiVersions/software-with-slash", Key: k, Min: 3, Play: software("a/b", "1")},
		{Name: "ApiVersions/software-with-underscore", Key: k, Min: 3, Play: software("a_b", "1")},
		{Name: "ApiVersions/software-first-dash", Key: k, Min: 3, Play: software("-a", "1")},
		{Name: "ApiVersions/software-last-dot", Key: k, Min: 3, Play: software("a.", "1")},
		{Name: "ApiVersions/software-one-letter", Key: k, Min: 3, Play: software("a", "1")},
		{Name: "ApiVersions/software-long", Key: k, Min: 3, Play: software(strings.Repeat("a", 10000), "1")},
		{Name: "ApiVersions/target-own", Key: k, Min: 5, Play: target(own, self)},
		{Name: "ApiVersions/target-other-cluster", Key: k, Min: 5, Play: target(other, self)},
		{Name: "ApiVersions/target-other-node", Key: k, Min: 5, Play: target(own, stranger)},
		{Name: "ApiVersions/target-cluster-alone", Key: k, Min: 5, Play: target(own, noNode)},
		{Name: "ApiVersions/target-node-alone", Key: k, Min: 5, Play: target(none, self)},
	}
}

// codeOnly sends an ApiVersions request and records the error and whether there is a list.
func (s *Script) codeOnly(label string, req *kmsg.ApiVersionsRequest) {
	req.SetVersion(s.V)
	s.codeAt(label, req)
}

func (s *Script) codeAt(label string, req *kmsg.ApiVersionsRequest) {
	if resp, ok := s.exchange(label, req, header{}).(*kmsg.ApiVersionsResponse); ok {
		s.Note(label+".ErrorCode", codeName(resp.ErrorCode))
		s.Note(label+".ApiKeys", len(resp.ApiKeys) > 0)
	}
}
