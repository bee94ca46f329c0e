package diff

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/protocol/kerr"
)

// A line is one field of one answer: where it stands, and its value in words that do not depend on
// the broker's address, its clock, or the ids it made up.
type line struct {
	path, value string
}

// renderer turns answers into lines. It remembers the names it gave to ids, so that the same id
// reads the same in every answer of a case.
type renderer struct {
	s *Script
}

// render returns the fields of a response that differ from their defaults, and all error codes.
func (r renderer) render(path string, resp kmsg.Response) []line {
	var lines []line
	v := reflect.ValueOf(resp).Elem()
	r.structure(&lines, path, v)
	return lines
}

func (r renderer) structure(lines *[]line, path string, v reflect.Value) {
	def := reflect.New(v.Type())
	if m := def.MethodByName("Default"); m.IsValid() {
		m.Call(nil)
	}
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if name == "Version" || name == "ThrottleMillis" && v.Field(i).Int() == 0 {
			continue
		}
		if name == "UnknownTags" {
			if v.Field(i).FieldByName("keyvals").Len() > 0 {
				*lines = append(*lines, line{path + "." + name, "set"})
			}
			continue
		}
		r.field(lines, path, name, v.Field(i), def.Elem().Field(i))
	}
}

func (r renderer) field(lines *[]line, path, name string, v, def reflect.Value) {
	at := path + "." + name
	add := func(value string) { *lines = append(*lines, line{at, value}) }
	switch v.Kind() {
	case reflect.Struct:
		r.structure(lines, at, v)
	case reflect.Pointer:
		switch {
		case v.IsNil():
		case v.Elem().Kind() == reflect.Struct:
			r.structure(lines, at, v.Elem())
		default:
			r.field(lines, path, name, v.Elem(), reflect.Zero(v.Elem().Type()))
			if s, ok := v.Interface().(*string); ok && *s == "" && name != "ErrorMessage" {
				add(`""`)
			}
		}
	case reflect.Slice:
		r.slice(lines, at, name, v)
	default:
		if text, show := r.scalar(name, v); show || v.Interface() != def.Interface() {
			add(text)
		}
	}
}

func (r renderer) slice(lines *[]line, at, name string, v reflect.Value) {
	add := func(value string) { *lines = append(*lines, line{at, value}) }
	if b, ok := v.Interface().([]byte); ok {
		if name == "RecordBatches" {
			r.batches(lines, at, b)
		} else {
			add(fmt.Sprintf("%x", b))
		}
		return
	}
	if v.Len() == 0 {
		if v.IsNil() {
			// null and absent look alike after decoding; both are the lack of a list.
			return
		}
		add("[]")
		return
	}
	if v.Type().Elem().Kind() != reflect.Struct {
		var words []string
		for i := range v.Len() {
			text, _ := r.scalar(name, v.Index(i))
			words = append(words, text)
		}
		add("[" + strings.Join(words, " ") + "]")
		return
	}
	for _, e := range r.keyed(v) {
		r.structure(lines, at+"["+e.key+"]", e.v)
	}
}

type element struct {
	key string
	v   reflect.Value
}

// keyed names the elements of a list after the fields that identify them, so that order does not
// matter where Kafka's order is that of a hash table, and a difference names its thing. A key that
// occurs twice keeps the order of arrival.
func (r renderer) keyed(v reflect.Value) []element {
	var out []element
	seen := make(map[string]int)
	for i := range v.Len() {
		e := v.Index(i)
		var words []string
		for _, f := range []string{
			"ResourceType", "Type", "ResourceName", "Topic", "Name", "Key", "ApiKey", "Partition",
			"RelativeOffset", "NodeID", "Group", "MemberID",
		} {
			field := e.FieldByName(f)
			if !field.IsValid() || f == "NodeID" && e.FieldByName("Key").IsValid() || f == "Type" && e.FieldByName("ConfigType").IsValid() {
				continue
			}
			if field.Kind() == reflect.Pointer {
				if field.IsNil() {
					continue
				}
				field = field.Elem()
			}
			if text, _ := r.scalar(f, field); text != "" {
				words = append(words, text)
			}
		}
		if id := e.FieldByName("TopicID"); id.IsValid() && len(words) == 0 {
			text, _ := r.scalar("TopicID", id)
			words = append(words, text)
		}
		key := strings.Join(words, " ")
		if key == "" {
			key = strconv.Itoa(i)
		}
		seen[key]++
		if n := seen[key]; n > 1 {
			key += " #" + strconv.Itoa(n)
		}
		out = append(out, element{key, e})
	}
	sort.SliceStable(out, func(i, j int) bool { return natural(out[i].key, out[j].key) })
	return out
}

// natural orders numbers by value and all else as text.
func natural(a, b string) bool {
	x, errX := strconv.Atoi(a)
	y, errY := strconv.Atoi(b)
	if errX == nil && errY == nil {
		return x < y
	}
	return a < b
}

// scalar returns a value in words; show means that it is told even if it is the default.
func (r renderer) scalar(name string, v reflect.Value) (text string, show bool) {
	switch v.Kind() {
	case reflect.String:
		return r.text(name, v.String())
	case reflect.Bool:
		return strconv.FormatBool(v.Bool()), false
	case reflect.Array:
		id, ok := v.Interface().([16]byte)
		if !ok {
			return fmt.Sprint(v.Interface()), false
		}
		return r.s.nameOfID(id), false
	default:
		return r.number(name, v.Int())
	}
}

func (r renderer) text(name, s string) (string, bool) {
	switch name {
	case "ErrorMessage", "Documentation":
		// Whether there is one matters to clients; its words are each broker's own.
		if s == "" {
			return "empty", true
		}
		return "set", true
	case "Host":
		if s != "" && s == r.s.host {
			return "own", false
		}
	case "ClusterID":
		if s != "" && s == r.s.clusterID {
			return "own", false
		}
	case "MemberID", "LeaderID":
		return r.s.nameOfMember(s), false
	case "Dir":
		if s != "" {
			return "set", false
		}
	}
	return r.s.rename(s), false
}

func (r renderer) number(name string, n int64) (string, bool) {
	switch name {
	case "ErrorCode", "ConfigErrorCode":
		return codeName(int16(n)), true
	case "NodeID", "ControllerID", "LeaderID", "Leader", "Replicas", "ISR", "Broker":
		if n >= 0 && int32(n) == r.s.nodeID {
			return "own", true
		}
	case "Port":
		if n > 0 && int32(n) == r.s.port {
			return "own", true
		}
	case "SessionID", "FinalizedFeaturesEpoch", "TotalBytes", "UsableBytes", "Size":
		if n > 0 {
			return "positive", true
		}
	case "ProducerID":
		return r.s.nameOfPID(n), true
	case "ApiKey":
		return kmsg.NameForKey(int16(n)), true
	case "Partition", "LowWatermark", "BaseOffset", "Offset", "EndOffset":
		return strconv.FormatInt(n, 10), true
	case "Timestamp", "LogAppendTime":
		return r.s.when(n), name == "Timestamp"
	}
	return strconv.FormatInt(n, 10), false
}

func codeName(code int16) string {
	if code == 0 {
		return "NONE"
	}
	return kerr.Code(code).String()
}

// batches renders a record set: one line a batch, and one for each of its first records.
func (r renderer) batches(lines *[]line, at string, b []byte) {
	if b == nil {
		*lines = append(*lines, line{at, "null"})
		return
	}
	if len(b) == 0 {
		*lines = append(*lines, line{at, "empty"})
		return
	}
	for i := 0; len(b) > 0; i++ {
		where := fmt.Sprintf("%s[%d]", at, i)
		if len(b) < 61 || int(binary.BigEndian.Uint32(b[8:]))+12 > len(b) {
			if i > 0 {
				return // Kafka cuts at the byte limit, and clients ignore what is cut off.
			}
			*lines = append(*lines, line{where, "cut off"})
			return
		}
		n := int(binary.BigEndian.Uint32(b[8:])) + 12
		r.batch(lines, where, b[:n])
		b = b[n:]
	}
}

// shownRecords is how many records of a batch are rendered one by one.
const shownRecords = 4

func (r renderer) batch(lines *[]line, at string, b []byte) {
	be := binary.BigEndian
	attributes := be.Uint16(b[21:])
	codec := int(attributes & 7)
	crc := "right"
	if be.Uint32(b[17:]) != crc32.Checksum(b[21:], castagnoli) {
		crc = "WRONG"
	}
	bytesAre := "rewritten"
	if r.s.sentCRCs[crc32.Checksum(b[21:], castagnoli)] {
		bytesAre = "as sent"
	}
	*lines = append(*lines, line{at, fmt.Sprintf(
		"base %d, leader epoch %d, magic %d, crc %s, attributes %#x, last delta %d, first %s, max %s, "+
			"producer %s epoch %d seq %d, count %d, %s",
		be.Uint64(b), int32(be.Uint32(b[12:])), b[16], crc, attributes, int32(be.Uint32(b[23:])),
		r.s.when(int64(be.Uint64(b[27:]))), r.s.when(int64(be.Uint64(b[35:]))),
		r.s.nameOfPID(int64(be.Uint64(b[43:]))), int16(be.Uint16(b[51:])), int32(be.Uint32(b[53:])),
		int32(be.Uint32(b[57:])), bytesAre)})
	if bytesAre == "as sent" {
		return
	}
	raw, err := decompress(codec, b[61:])
	if err != nil {
		*lines = append(*lines, line{at, "does not decompress"})
		return
	}
	for i := 0; len(raw) > 0 && i < shownRecords; i++ {
		text, rest, ok := r.record(raw)
		*lines = append(*lines, line{fmt.Sprintf("%s.Records[%d]", at, i), text})
		if !ok {
			return
		}
		raw = rest
	}
}

func (r renderer) record(b []byte) (text string, rest []byte, ok bool) {
	n, w := binary.Varint(b)
	if w <= 0 || n < 0 || int(n) > len(b)-w {
		return "cut off", nil, false
	}
	body, rest := b[w:w+int(n)], b[w+int(n):]
	c := cursor{b: body}
	c.skip(1)
	ts, delta := c.varint(), c.varint()
	out := fmt.Sprintf("time %+d, offset %+d, key %s, value %s", ts, delta, c.blob(), c.blob())
	for range c.varint() {
		out += fmt.Sprintf(", %s=%s", c.blob(), c.blob())
	}
	if c.bad || len(c.b) > 0 {
		return "malformed", rest, true
	}
	return out, rest, true
}

// cursor reads the fields of a record; bad is set once something does not fit.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) skip(n int) {
	if n < 0 || n > len(c.b) {
		c.bad, c.b = true, nil
		return
	}
	c.b = c.b[n:]
}

func (c *cursor) varint() int64 {
	n, w := binary.Varint(c.b)
	if w <= 0 {
		c.bad, c.b = true, nil
		return 0
	}
	c.b = c.b[w:]
	return n
}

func (c *cursor) blob() string {
	n := c.varint()
	if n < 0 {
		return "null"
	}
	if int(n) > len(c.b) {
		c.bad, c.b = true, nil
		return "cut off"
	}
	b := c.b[:n]
	c.b = c.b[n:]
	if n > 40 {
		return fmt.Sprintf("%d bytes, crc %08x", n, crc32.Checksum(b, castagnoli))
	}
	return strconv.Quote(string(b))
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
