package frame_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/protocol/frame"
)

func TestSizeIsBounded(t *testing.T) {
	for _, test := range []struct {
		prefix []byte
		size   int
		ok     bool
	}{
		{[]byte{0, 0, 0, 10}, 10, true},
		{[]byte{0, 0, 1, 0}, 256, true},
		{[]byte{0, 0, 1, 1}, 257, false},
		{[]byte{0, 0, 0, 9}, 9, false},
		{[]byte{0, 0, 0, 0}, 0, false},
		{[]byte{0xff, 0xff, 0xff, 0xff}, -1, false},
		{[]byte{0x80, 0, 0, 0}, math.MinInt32, false},
		{[]byte{0x7f, 0xff, 0xff, 0xff}, math.MaxInt32, false},
	} {
		size, err := frame.Size(test.prefix, 256)
		if size != test.size || (err == nil) != test.ok || err != nil && !errors.Is(err, frame.ErrSize) {
			t.Errorf("% x: %d, %v", test.prefix, size, err)
		}
	}
}

// fixed is the part of a header that all versions have: key 1, version 2,
// correlation id 3.
const fixed = "\x00\x01\x00\x02\x00\x00\x00\x03"

func TestHeadersParse(t *testing.T) {
	long := strings.Repeat("x", math.MaxInt16)
	for name, test := range map[string]struct {
		frame    string
		flexible bool
		clientID any // nil, a string, or false for an error
		body     string
	}{
		"version 1":                {fixed + "\x00\x02idbody", false, "id", "body"},
		"version 1, null":          {fixed + "\xff\xffbody", false, nil, "body"},
		"version 1, empty":         {fixed + "\x00\x00body", false, "", "body"},
		"version 1, long":          {fixed + "\x7f\xff" + long + "body", false, long, "body"},
		"version 1, no body":       {fixed + "\x00\x02id", false, "id", ""},
		"version 2":                {fixed + "\x00\x02id\x00body", true, "id", "body"},
		"version 2, null":          {fixed + "\xff\xff\x00body", true, nil, "body"},
		"version 2, empty":         {fixed + "\x00\x00\x00body", true, "", "body"},
		"version 2, long":          {fixed + "\x7f\xff" + long + "\x00body", true, long, "body"},
		"tag":                      {fixed + "\x00\x02id\x01\x05\x03tagbody", true, "id", "body"},
		"empty tag":                {fixed + "\x00\x02id\x01\x05\x00body", true, "id", "body"},
		"two tags, large number":   {fixed + "\xff\xff\x02\x00\x01x\xff\xff\xff\xff\x0f\x02yybody", true, nil, "body"},
		"too short":                {fixed + "\x00", false, false, ""},
		"nothing":                  {"", true, false, ""},
		"client id cut":            {fixed + "\x00\x03id", false, false, ""},
		"client id of length -2":   {fixed + "\xff\xfeid", false, false, ""},
		"no tags":                  {fixed + "\x00\x02id", true, false, ""},
		"tag count cut":            {fixed + "\x00\x02id\x80", true, false, ""},
		"more tags than bytes":     {fixed + "\x00\x02id\x03\x00\x00\x00\x00", true, false, ""},
		"tags without end":         {fixed + "\x00\x02id\xff\xff\xff\xff\x0f\x00\x00", true, false, ""},
		"tag number cut":           {fixed + "\x00\x02id\x01\x80\x80", true, false, ""},
		"tag size cut":             {fixed + "\x00\x02id\x01\x00\x80", true, false, ""},
		"tag size above 32 bits":   {fixed + "\x00\x02id\x01\x00\xff\xff\xff\xff\x1f", true, false, ""},
		"tag value cut":            {fixed + "\x00\x02id\x01\x00\x05body", true, false, ""},
		"tag count above 64 bits":  {fixed + "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", true, false, ""},
		"length of the maximum, 1": {fixed + "\x7f\xffid", false, false, ""},
	} {
		h, body, err := frame.Parse([]byte(test.frame), test.flexible)
		if test.clientID == false {
			if !errors.Is(err, frame.ErrHeader) {
				t.Errorf("%s: error %v", name, err)
			}
			continue
		}
		if err != nil || h.Key != 1 || h.Version != 2 || h.CorrelationID != 3 || string(body) != test.body {
			t.Errorf("%s: %+v, body %q, %v", name, h, body, err)
		}
		if id, _ := test.clientID.(string); string(h.ClientID) != id || (h.ClientID == nil) != (test.clientID == nil) {
			t.Errorf("%s: client id %q", name, h.ClientID)
		}
	}
}

func TestResponseFrames(t *testing.T) {
	for _, test := range []struct {
		flexible bool
		extra    int
		want     string
	}{
		{false, 0, "before\x00\x00\x00\x08\x00\x00\x00\x07body"},
		{true, 0, "before\x00\x00\x00\x09\x00\x00\x00\x07\x00body"},
		{true, 256, "before\x00\x00\x01\x09\x00\x00\x00\x07\x00body"},
	} {
		b := append(frame.Begin([]byte("before"), 7, test.flexible), "body"...)
		if err := frame.End(b[len("before"):], test.extra); err != nil || string(b) != test.want {
			t.Errorf("%q, %v, want %q", b, err, test.want)
		}
	}
	if err := frame.End(frame.Begin(nil, 0, false), math.MaxInt32-4); err != nil {
		t.Error(err)
	}
	if err := frame.End(frame.Begin(nil, 0, false), math.MaxInt32-3); !errors.Is(err, frame.ErrSize) {
		t.Error("a frame of 2 GiB is", err)
	}
}

func TestParsingDoesNotAllocate(t *testing.T) {
	b := []byte(fixed + "\x00\x02id\x01\x05\x03tagbody")
	if n := testing.AllocsPerRun(100, func() { frame.Parse(b, true) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzParse: what parses is a header and a rest of the frame. Without tags the
// header can be told back from what was parsed; a header version 2 is a header
// version 1 with something in between.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", fixed, fixed + "\x00\x02idbody", fixed + "\xff\xff", fixed + "\xff\xff\x00body",
		fixed + "\x00\x02id\x02\x00\x01x\xff\xff\xff\xff\x0f\x02yybody", fixed + "\xff\xff\xff\xff\xff\xff\x0f\x00\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, body, err := frame.Parse(b, false)
		h2, body2, err2 := frame.Parse(b, true)
		if err2 == nil && (err != nil || !bytes.Equal(h.ClientID, h2.ClientID) || !bytes.HasSuffix(body, body2) || len(body) == len(body2)) {
			t.Errorf("version 2: %+v, %q; version 1: %+v, %q, %v", h2, body2, h, body, err)
		}
		if err != nil {
			return
		}
		again := binary.BigEndian.AppendUint16(nil, uint16(h.Key))
		again = binary.BigEndian.AppendUint16(again, uint16(h.Version))
		again = binary.BigEndian.AppendUint32(again, uint32(h.CorrelationID))
		n := len(h.ClientID)
		if h.ClientID == nil {
			n = -1
		}
		again = append(binary.BigEndian.AppendUint16(again, uint16(n)), h.ClientID...)
		if again = append(again, body...); !bytes.Equal(again, b) {
			t.Errorf("% x is % x", b, again)
		}
	})
}
