package consumer

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/sluicemq/sluice/group/assign"
	"github.com/sluicemq/sluice/group/classic"
	"github.com/sluicemq/sluice/group/codec"
	"github.com/sluicemq/sluice/log/entry"
)

// The layouts of FORMAT.md. Nothing outside this file knows a byte of them.
const (
	changeVersion  = 1
	headVersion    = 1
	infoVersion    = 1
	currentVersion = 1
	targetVersion  = 1
	regexVersion   = 1

	flagFromClassic = 1

	partInfo    = 1
	partCurrent = 2
	partTarget  = 4
	allParts    = partInfo | partCurrent | partTarget
)

// The fewest bytes that things take.
const (
	leastTopicID  = 16
	leastString   = 1
	leastMember   = 2
	leastProtocol = 2
	leastRegex    = 2
	leastTopic    = 3
)

var le = binary.LittleEndian

// topicTable writes topic ids once, and then their places.
type topicTable struct {
	ids   []entry.TopicID // ascending
	place map[entry.TopicID]int
}

func (t *topicTable) add(set assign.Assignment) {
	for i := range set {
		if _, ok := t.place[set[i].ID]; !ok {
			t.place[set[i].ID] = 0
			t.ids = append(t.ids, set[i].ID)
		}
	}
}

func (t *topicTable) addCurrent(c *Current) {
	t.add(c.Assigned.Set)
	t.add(c.Revoked.Set)
}

func newTopicTable() *topicTable { return &topicTable{place: make(map[entry.TopicID]int)} }

func (t *topicTable) append(dst []byte) []byte {
	slices.SortFunc(t.ids, assign.CompareTopics)
	dst = binary.AppendUvarint(dst, uint64(len(t.ids)))
	for i, id := range t.ids {
		t.place[id] = i
		dst = append(dst, id[:]...)
	}
	return dst
}

func readTopicTable(r *codec.Reader) []entry.TopicID {
	n := r.Count("the number of topics", leastTopicID)
	var ids []entry.TopicID
	for range n {
		id := r.TopicID()
		if r.Err() != nil {
			return nil
		}
		if k := len(ids); k > 0 && assign.CompareTopics(ids[k-1], id) >= 0 {
			r.Fail("topic %x does not follow %x", id, ids[k-1])
			return nil
		}
		ids = append(ids, id)
	}
	return ids
}

// appendSet appends an assignment. Places of topics, and partitions, are written
// as differences less one.
func (t *topicTable) appendSet(dst []byte, set assign.Assignment) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(set)))
	last := -1
	for i := range set {
		at := t.place[set[i].ID]
		dst = binary.AppendUvarint(dst, uint64(at-last-1))
		last = at
		dst = binary.AppendUvarint(dst, uint64(len(set[i].Partitions)))
		before := int32(-1)
		for _, p := range set[i].Partitions {
			dst = binary.AppendUvarint(dst, uint64(p-before-1))
			before = p
		}
	}
	return dst
}

func readSet(r *codec.Reader, ids []entry.TopicID) assign.Assignment {
	n := r.Count("the number of topics", leastTopic)
	var set assign.Assignment
	at := -1
	for range n {
		if at+1 >= len(ids) {
			r.Fail("an assignment has more topics than there are")
			return nil
		}
		at += 1 + int(r.Uvarint("a topic's place", uint64(len(ids)-at-2)))
		count := r.Count("the number of partitions", 1)
		if r.Err() != nil {
			return nil
		}
		if count == 0 {
			r.Fail("a topic without partitions")
			return nil
		}
		t := assign.Topic{ID: ids[at], Partitions: make([]int32, 0, count)}
		before := int64(-1)
		for range count {
			before += 1 + int64(r.Uvarint("a partition", uint64(math.MaxInt32)))
			if before > math.MaxInt32 {
				r.Fail("partition %d", before)
				return nil
			}
			t.Partitions = append(t.Partitions, int32(before))
		}
		set = append(set, t)
	}
	return set
}

// appendHolding appends a set, then its epochs as runs of equal ones.
func (t *topicTable) appendHolding(dst []byte, h Holding) []byte {
	dst = t.appendSet(dst, h.Set)
	for i := 0; i < len(h.Epochs); {
		n := 1
		for i+n < len(h.Epochs) && h.Epochs[i+n] == h.Epochs[i] {
			n++
		}
		dst = binary.AppendUvarint(dst, uint64(n))
		dst = binary.AppendUvarint(dst, uint64(h.Epochs[i]))
		i += n
	}
	return dst
}

func readHolding(r *codec.Reader, ids []entry.TopicID) Holding {
	h := Holding{Set: readSet(r, ids)}
	count := h.Set.Count()
	for len(h.Epochs) < count && r.Err() == nil {
		n := int(r.Uvarint("a run of epochs", uint64(count-len(h.Epochs))))
		epoch := int32(r.Uvarint("an epoch", math.MaxInt32))
		if r.Err() == nil && n == 0 {
			r.Fail("a run of no epochs")
		}
		for range n {
			h.Epochs = append(h.Epochs, epoch)
		}
	}
	if r.Err() != nil {
		return Holding{}
	}
	return h
}

func appendStrings(dst []byte, all []string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(all)))
	for _, s := range all {
		dst = codec.AppendString(dst, s)
	}
	return dst
}

// readStrings reads texts that are in order, none twice.
func readStrings(r *codec.Reader, what string) []string {
	n := r.Count("the number of "+what, leastString)
	var out []string
	for range n {
		s := r.String(what)
		if r.Err() != nil {
			return nil
		}
		if k := len(out); k > 0 && out[k-1] >= s {
			r.Fail("%q does not follow %q in %s", s, out[k-1], what)
			return nil
		}
		out = append(out, s)
	}
	return out
}

func appendDuration(dst []byte, d time.Duration) []byte {
	return binary.AppendUvarint(dst, uint64(min(max(d.Milliseconds(), 0), math.MaxInt32)))
}

func readDuration(r *codec.Reader) time.Duration {
	return time.Duration(r.Uvarint("a timeout", math.MaxInt32)) * time.Millisecond
}

func appendInfo(dst []byte, i *Info) []byte {
	dst = codec.AppendString(dst, i.Instance)
	dst = codec.AppendString(dst, i.Rack)
	dst = codec.AppendString(dst, i.ClientID)
	dst = codec.AppendString(dst, i.ClientHost)
	dst = appendDuration(dst, i.RebalanceTimeout)
	dst = appendStrings(dst, i.Topics)
	dst = codec.AppendString(dst, i.Regex)
	dst = codec.AppendString(dst, i.Assignor)
	if i.Classic == nil {
		return append(dst, 0)
	}
	dst = binary.AppendUvarint(dst, uint64(len(i.Classic.Protocols)))
	for _, p := range i.Classic.Protocols {
		dst = codec.AppendString(dst, p.Name)
		dst = codec.AppendBytes(dst, p.Metadata)
	}
	return appendDuration(dst, i.Classic.SessionTimeout)
}

func readInfo(r *codec.Reader) *Info {
	i := &Info{
		Instance: r.String("an instance id"), Rack: r.String("a rack"),
		ClientID: r.String("a client id"), ClientHost: r.String("a host"),
		RebalanceTimeout: readDuration(r), Topics: readStrings(r, "topics"),
		Regex: r.String("a pattern"), Assignor: r.String("an assignor"),
	}
	n := r.Count("the number of protocols", leastProtocol)
	if n == 0 {
		return i
	}
	i.Classic = &Classic{}
	for range n {
		p := classic.Protocol{Name: r.String("a protocol"), Metadata: append([]byte(nil), r.Bytes("a protocol's metadata")...)}
		if r.Err() != nil {
			return i
		}
		i.Classic.Protocols = append(i.Classic.Protocols, p)
	}
	i.Classic.SessionTimeout = readDuration(r)
	return i
}

func (t *topicTable) appendCurrent(dst []byte, c *Current) []byte {
	dst = append(dst, byte(c.Phase))
	dst = le.AppendUint32(dst, uint32(c.Epoch))
	dst = le.AppendUint32(dst, uint32(c.Previous))
	dst = t.appendHolding(dst, c.Assigned)
	return t.appendHolding(dst, c.Revoked)
}

func readCurrent(r *codec.Reader, ids []entry.TopicID) *Current {
	c := &Current{
		Phase: Phase(r.Byte("a phase")), Epoch: int32(r.Uint32("a member epoch")), Previous: int32(r.Uint32("the epoch before")),
		Assigned: readHolding(r, ids), Revoked: readHolding(r, ids),
	}
	if r.Err() == nil && (c.Phase > Waiting || c.Epoch < leftForNow || c.Previous < leftForNow) {
		r.Fail("phase %d, epochs %d and %d", c.Phase, c.Epoch, c.Previous)
	}
	return c
}

// Append appends the payload.
func (c *Change) Append(dst []byte) []byte {
	flags := byte(0)
	if c.FromClassic {
		flags = flagFromClassic
	}
	dst = append(dst, changeVersion, flags)
	dst = codec.AppendString(dst, c.Group)
	dst = le.AppendUint64(dst, uint64(c.Base))
	if c.FromClassic {
		dst = le.AppendUint32(dst, uint32(c.Generation))
	}
	dst = le.AppendUint32(dst, uint32(c.Epoch))
	dst = le.AppendUint32(dst, uint32(c.TargetEpoch))
	dst = le.AppendUint64(dst, c.TopicsHash)
	t := newTopicTable()
	for i := range c.Members {
		if c.Members[i].Current != nil {
			t.addCurrent(c.Members[i].Current)
		}
		t.add(c.Members[i].Target)
	}
	dst = t.append(dst)
	dst = appendStrings(dst, c.Removed)
	dst = binary.AppendUvarint(dst, uint64(len(c.Members)))
	for i := range c.Members {
		dst = c.Members[i].append(dst, t)
	}
	dst = binary.AppendUvarint(dst, uint64(len(c.Regexes)))
	for i := range c.Regexes {
		r := &c.Regexes[i]
		dst = codec.AppendString(dst, r.Pattern)
		if r.Gone {
			dst = append(dst, 0)
			continue
		}
		dst = appendStrings(append(dst, 1), r.Topics)
	}
	return dst
}

func (c *MemberChange) append(dst []byte, t *topicTable) []byte {
	dst = codec.AppendString(dst, c.ID)
	at := len(dst)
	dst = append(dst, 0)
	if c.Info != nil {
		dst[at] |= partInfo
		dst = appendInfo(dst, c.Info)
	}
	if c.Current != nil {
		dst[at] |= partCurrent
		dst = t.appendCurrent(dst, c.Current)
	}
	if c.HasTarget {
		dst[at] |= partTarget
		dst = t.appendSet(dst, c.Target)
	}
	return dst
}

// DecodeChange reads a payload of Change. Nothing of it is kept. The error wraps
// one of codec's.
func DecodeChange(payload []byte) (*Change, error) {
	r := &codec.Reader{Left: payload}
	r.Version(changeVersion)
	flags := r.Byte("the flags")
	if flags > flagFromClassic {
		r.Fail("flags %#x", flags)
	}
	c := &Change{Group: r.String("the group"), Base: entry.Index(r.Uint64("the base"))}
	if flags&flagFromClassic != 0 {
		c.FromClassic, c.Generation = true, int32(r.Uint32("the generation"))
	}
	c.Epoch, c.TargetEpoch = int32(r.Uint32("the group epoch")), int32(r.Uint32("the target's epoch"))
	c.TopicsHash = r.Uint64("the topics' hash")
	if r.Err() == nil && (c.Epoch < 0 || c.TargetEpoch < 0 || c.Generation < 0) {
		r.Fail("epochs %d and %d, generation %d", c.Epoch, c.TargetEpoch, c.Generation)
	}
	ids := readTopicTable(r)
	c.Removed = readStrings(r, "removed members")
	for n := r.Count("the number of members", leastMember); n > 0 && r.Err() == nil; n-- {
		m := readMemberChange(r, ids)
		if k := len(c.Members); k > 0 && c.Members[k-1].ID >= m.ID {
			r.Fail("member %q does not follow %q", m.ID, c.Members[k-1].ID)
		}
		c.Members = append(c.Members, m)
	}
	for n := r.Count("the number of patterns", leastRegex); n > 0 && r.Err() == nil; n-- {
		x := RegexChange{Pattern: r.String("a pattern")}
		switch r.Byte("whether it is gone") {
		case 0:
			x.Gone = true
		case 1:
			x.Topics = readStrings(r, "topics")
		default:
			r.Fail("pattern %q is neither there nor gone", x.Pattern)
		}
		if k := len(c.Regexes); k > 0 && c.Regexes[k-1].Pattern >= x.Pattern {
			r.Fail("pattern %q does not follow %q", x.Pattern, c.Regexes[k-1].Pattern)
		}
		c.Regexes = append(c.Regexes, x)
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	return c, nil
}

func readMemberChange(r *codec.Reader, ids []entry.TopicID) MemberChange {
	m := MemberChange{ID: r.String("a member id")}
	parts := r.Byte("what is different")
	if r.Err() == nil && (parts == 0 || parts > allParts || m.ID == "") {
		r.Fail("member %q: parts %#x", m.ID, parts)
	}
	if parts&partInfo != 0 {
		m.Info = readInfo(r)
	}
	if parts&partCurrent != 0 {
		m.Current = readCurrent(r, ids)
	}
	if parts&partTarget != 0 {
		m.HasTarget, m.Target = true, readSet(r, ids)
	}
	return m
}
