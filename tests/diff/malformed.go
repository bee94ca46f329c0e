package diff

import (
	"encoding/binary"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// malformedCases sends frames that no client builds. The API of each is the one whose body it
// spoils; the version is fixed in the case, so each runs once.
func malformedCases() []Case {
	once := func(name string, play func(s *Script)) Case {
		return Case{Name: "Malformed/" + name, Key: kmsg.ApiVersions, Min: 3, Max: 3, Play: play}
	}
	// alive asks whether the connection still serves, if it is still open.
	alive := func(s *Script) {
		if s.c != nil {
			av := kmsg.NewPtrApiVersionsRequest()
			av.Version = 1
			s.codeAt("then", av)
		}
	}
	raw := func(key, version int16, flexible bool, body ...byte) func(s *Script) {
		return func(s *Script) {
			s.Raw("frame", frame(key, version, flexible, body), time.Second)
			alive(s)
		}
	}
	// spoiled encodes a request and changes its frame.
	spoiled := func(req kmsg.Request, version int16, change func(frame []byte) []byte) func(s *Script) {
		return func(s *Script) {
			req.SetVersion(version)
			s.Raw("frame", change(header{}.encode(req, 7)), time.Second)
			alive(s)
		}
	}
	bytes := func(b []byte) func(s *Script) {
		return func(s *Script) {
			if _, err := s.conn().Write(b); err != nil {
				s.Note("write", "connection closed")
			}
			b, err := s.conn().receive(time.Second)
			if err != nil {
				s.Note("bytes", "connection "+err.Error())
				return
			}
			s.Note("bytes", len(b) > 0)
		}
	}
	meta := func() kmsg.Request { return metadataOf("a") }
	longArray := []byte{0x7f, 0xff, 0xff, 0xff}

	return []Case{
		once("unknown-key", raw(999, 0, false)),
		once("negative-key", raw(-1, 0, false)),
		once("key-of-old-kafka", raw(4, 0, false)),
		once("controller-key-vote", raw(52, 0, true)),
		once("version-too-new", raw(3, 99, true)),
		once("version-negative", raw(3, -1, false)),
		once("version-too-old-fetch", raw(1, 3, false)),
		once("version-too-old-produce", raw(0, 2, false)),
		once("version-too-old-list-offsets", raw(2, 0, false)),
		once("version-unstable-init-producer-id", raw(22, 6, true)),
		once("empty-frame", bytes([]byte{0, 0, 0, 0})),
		once("frame-of-one-byte", bytes([]byte{0, 0, 0, 1, 0})),
		once("frame-size-negative", bytes([]byte{0xff, 0xff, 0xff, 0xff})),
		once("frame-size-above-limit", bytes([]byte{0x06, 0x40, 0x00, 0x01})),
		once("frame-of-http", bytes([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))),
		once("frame-of-tls", bytes([]byte{0x16, 3, 1, 0, 0xa5, 1, 0, 0, 0xa1, 3, 3})),
		once("header-cut-off", bytes([]byte{0, 0, 0, 6, 0, 3, 0, 1, 0, 0})),
		once("header-client-id-too-long", bytes([]byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0x7f, 0xff})),
		once("header-client-id-negative", bytes([]byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xfe})),
		once("header-without-tags", func(s *Script) {
			s.Raw("frame", frame(18, 3, false, nil), time.Second)
			alive(s)
		}),
		once("header-tags-cut-off", func(s *Script) {
			req := metadataOf()
			req.Version = 9
			s.Raw("frame", header{tags: []byte{1, 0, 50}}.encode(req, 7), time.Second)
			alive(s)
		}),
		once("header-null-client-id", func(s *Script) {
			for _, v := range []int16{1, 9} {
				req := metadataOf()
				req.Version = v
				s.Raw("null", header{nullClientID: true}.encode(req, 7), time.Second)
				s.Raw("empty", header{clientID: ptr("")}.encode(req, 7), time.Second)
				s.Raw("long", header{clientID: ptr(strings.Repeat("c", 32767))}.encode(req, 7), time.Second)
				s.Raw("spaces", header{clientID: ptr("a client \xff\x00")}.encode(req, 7), time.Second)
			}
		}),
		once("header-unknown-tags", func(s *Script) {
			req := metadataOf()
			req.Version = 12
			s.Raw("one", header{tags: []byte{1, 99, 3, 1, 2, 3}}.encode(req, 7), time.Second)
			s.Raw("two", header{tags: []byte{2, 5, 1, 1, 99, 0}}.encode(req, 7), time.Second)
			s.Raw("twice the same", header{tags: []byte{2, 99, 1, 1, 99, 1, 1}}.encode(req, 7), time.Second)
			s.Raw("falling", header{tags: []byte{2, 99, 1, 1, 98, 1, 1}}.encode(req, 7), time.Second)
		}),
		once("body-empty", raw(3, 1, false)),
		once("body-cut-off", spoiled(meta(), 1, func(f []byte) []byte { return f[:len(f)-1] })),
		once("body-cut-off-flexible", spoiled(meta(), 9, func(f []byte) []byte { return f[:len(f)-1] })),
		once("body-with-bytes-left-over", spoiled(meta(), 1, func(f []byte) []byte { return append(f, 0, 0, 0) })),
		once("body-with-bytes-left-over-flexible", spoiled(meta(), 9, func(f []byte) []byte { return append(f, 1, 2, 3) })),
		once("body-unknown-tags", spoiled(meta(), 9, func(f []byte) []byte {
			return append(f[:len(f)-1], 1, 77, 2, 9, 9)
		})),
		once("body-tag-cut-off", spoiled(meta(), 9, func(f []byte) []byte {
			return append(f[:len(f)-1], 1, 77, 200, 1)
		})),
		once("array-too-long", raw(3, 1, false, longArray...)),
		once("array-negative", raw(3, 1, false, 0xff, 0xff, 0xff, 0xfe)),
		once("array-too-long-flexible", raw(3, 9, true, 0xff, 0xff, 0xff, 0xff, 0x07)),
		once("array-varint-too-long", raw(3, 9, true, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1)),
		once("string-too-long", raw(3, 1, false, 0, 0, 0, 1, 0x7f, 0xff, 'a')),
		once("string-negative", raw(3, 1, false, 0, 0, 0, 1, 0xff, 0xfe)),
		once("string-null", raw(3, 1, false, 0, 0, 0, 1, 0xff, 0xff)),
		once("string-null-flexible", raw(3, 9, true, 2, 0, 0, 1, 0, 0, 0)),
		once("string-not-utf8", raw(3, 1, false, 0, 0, 0, 1, 0, 2, 0xff, 0xfe)),
		once("bool-of-two", raw(3, 4, false, 0, 0, 0, 0, 2)),
		once("produce-records-too-long", func(s *Script) {
			body := []byte{0xff, 0xff, 0, 1, 0, 0, 0x27, 0x10, 0, 0, 0, 1, 0, 1, 'a', 0, 0, 0, 1, 0, 0, 0, 0}
			s.Raw("frame", frame(0, 3, false, append(body, longArray...)), time.Second)
			alive(s)
		}),
		once("produce-many-topics", func(s *Script) {
			body := []byte{0xff, 0xff, 0, 1, 0, 0, 0x27, 0x10}
			body = binary.BigEndian.AppendUint32(body, 1<<30)
			s.Raw("frame", frame(0, 3, false, body), time.Second)
			alive(s)
		}),
		once("fetch-body-empty", raw(1, 4, false)),
		once("pipelined", func(s *Script) {
			// Three requests in one write are answered in their order.
			var all []byte
			for i := range 3 {
				req := metadataOf()
				req.Version = int16(1 + i)
				f := header{}.encode(req, int32(100+i))
				all = binary.BigEndian.AppendUint32(all, uint32(len(f)))
				all = append(all, f...)
			}
			if _, err := s.conn().Write(all); err != nil {
				s.fail("write: %v", err)
			}
			for range 3 {
				b, err := s.conn().receive(answerLimit)
				if err != nil {
					s.Note("answer", err)
					return
				}
				s.Note("answer", binary.BigEndian.Uint32(b))
			}
		}),
		once("byte-by-byte", func(s *Script) {
			req := metadataOf()
			req.Version = 1
			f := header{}.encode(req, 5)
			for _, b := range append(binary.BigEndian.AppendUint32(nil, uint32(len(f))), f...) {
				if _, err := s.conn().Write([]byte{b}); err != nil {
					s.fail("write: %v", err)
				}
			}
			_, err := s.conn().receive(answerLimit)
			s.Note("answer", err == nil)
		}),
		once("good-then-bad", func(s *Script) {
			// What was asked before the bad frame is still answered.
			req := metadataOf()
			req.Version = 1
			f := header{}.encode(req, 5)
			all := append(binary.BigEndian.AppendUint32(nil, uint32(len(f))), f...)
			bad := frame(999, 0, false, nil)
			all = append(binary.BigEndian.AppendUint32(all, uint32(len(bad))), bad...)
			if _, err := s.conn().Write(all); err != nil {
				s.fail("write: %v", err)
			}
			for _, label := range []string{"good", "bad"} {
				_, err := s.conn().receive(time.Second)
				s.Note(label, map[bool]any{true: "answered", false: err}[err == nil])
			}
		}),
	}
}
