package catalog

import (
	"encoding/binary"

	"github.com/sluicemq/sluice/catalog/config"
	"github.com/sluicemq/sluice/log/entry"
)

// payloadVersion is the first byte of every payload. FORMAT.md describes them.
const payloadVersion = 1

// CreateTopic is the payload of an entry of TypeCreateTopic.
type CreateTopic struct {
	ID         entry.TopicID
	Internal   bool
	Partitions int32
	Name       string
	Overrides  config.Overrides
}

// Append appends the payload to dst.
func (c *CreateTopic) Append(dst []byte) []byte {
	dst = append(dst, payloadVersion, flags(c.Internal))
	dst = append(dst, c.ID[:]...)
	dst = binary.AppendUvarint(dst, uint64(c.Partitions))
	dst = appendString(dst, c.Name)
	return appendOverrides(dst, c.Overrides)
}

// DecodeCreateTopic reads a payload; the error wraps ErrPayload. Nothing of the
// payload is kept.
func DecodeCreateTopic(payload []byte) (*CreateTopic, error) {
	d := decoder{left: payload}
	d.version(payloadVersion)
	c := &CreateTopic{Internal: d.flags(), ID: d.topicID(), Partitions: d.partitions(), Name: d.name(), Overrides: d.overrides()}
	return c, d.done()
}

const flagInternal = 1

func flags(internal bool) uint8 {
	if internal {
		return flagInternal
	}
	return 0
}

func (d *decoder) flags() (internal bool) {
	f := d.byte("the flags")
	if f&^flagInternal != 0 {
		d.fail("unknown flags %#x", f)
	}
	return f&flagInternal != 0
}

// DeleteTopic is the payload of an entry of TypeDeleteTopic.
type DeleteTopic struct {
	ID entry.TopicID
}

// Append appends the payload to dst.
func (x *DeleteTopic) Append(dst []byte) []byte {
	dst = append(dst, payloadVersion)
	return append(dst, x.ID[:]...)
}

// DecodeDeleteTopic reads a payload; the error wraps ErrPayload.
func DecodeDeleteTopic(payload []byte) (*DeleteTopic, error) {
	d := decoder{left: payload}
	d.version(payloadVersion)
	x := &DeleteTopic{ID: d.topicID()}
	return x, d.done()
}

// CreatePartitions is the payload of an entry of TypeCreatePartitions.
type CreatePartitions struct {
	ID    entry.TopicID
	Total int32 // how many the topic is to have
}

// Append appends the payload to dst.
func (c *CreatePartitions) Append(dst []byte) []byte {
	dst = append(dst, payloadVersion)
	dst = append(dst, c.ID[:]...)
	return binary.AppendUvarint(dst, uint64(c.Total))
}

// DecodeCreatePartitions reads a payload; the error wraps ErrPayload.
func DecodeCreatePartitions(payload []byte) (*CreatePartitions, error) {
	d := decoder{left: payload}
	d.version(payloadVersion)
	c := &CreatePartitions{ID: d.topicID(), Total: d.partitions()}
	return c, d.done()
}

// AlterConfigs is the payload of an entry of TypeAlterConfigs.
type AlterConfigs struct {
	Resource Resource
	ID       entry.TopicID // of the topic, for ResourceTopic
	Name     string        // "" or the node's id, for ResourceBroker; of the group
	Replace  bool          // whether what Ops do not set goes back to its default
	Ops      []config.Op   // only OpSet if Replace
}

// Append appends the payload to dst.
func (a *AlterConfigs) Append(dst []byte) []byte {
	replace := uint8(0)
	if a.Replace {
		replace = 1
	}
	dst = append(dst, payloadVersion, uint8(a.Resource), replace)
	if a.Resource == ResourceTopic {
		dst = append(dst, a.ID[:]...)
	} else {
		dst = appendString(dst, a.Name)
	}
	dst = binary.AppendUvarint(dst, uint64(len(a.Ops)))
	for _, op := range a.Ops {
		dst = append(dst, uint8(op.Kind))
		dst = appendString(dst, op.Name)
		if op.Kind != config.OpDelete {
			dst = appendString(dst, op.Value)
		}
		if isListOp(op.Kind) {
			dst = appendString(dst, op.Base)
		}
	}
	return dst
}

func isListOp(k config.OpKind) bool { return k == config.OpAppend || k == config.OpSubtract }

// DecodeAlterConfigs reads a payload; the error wraps ErrPayload. Nothing of the
// payload is kept.
func DecodeAlterConfigs(payload []byte) (*AlterConfigs, error) {
	d := decoder{left: payload}
	d.version(payloadVersion)
	a := &AlterConfigs{Resource: Resource(d.byte("the resource"))}
	switch r := d.byte("the mode"); r {
	case 0, 1:
		a.Replace = r == 1
	default:
		d.fail("unknown mode %d", r)
	}
	switch {
	case d.err != nil:
	case a.Resource == ResourceTopic:
		a.ID = d.topicID()
	case a.Resource == ResourceBroker || a.Resource == ResourceGroup:
		a.Name = d.string("the resource's name", maxSettingName)
	default:
		d.fail("unknown resource %d", a.Resource)
	}
	n := d.count("changes", 2)
	if d.err == nil && n > 0 {
		a.Ops = make([]config.Op, 0, n)
	}
	for range n {
		op := d.op(a.Replace)
		if d.err != nil {
			break
		}
		a.Ops = append(a.Ops, op)
	}
	return a, d.done()
}

func (d *decoder) op(replace bool) config.Op {
	op := config.Op{Kind: config.OpKind(d.byte("a change"))}
	if op.Kind < config.OpSet || op.Kind > config.OpSubtract || replace && op.Kind != config.OpSet {
		d.fail("unknown change %d", op.Kind)
	}
	op.Name = d.settingName()
	if op.Kind != config.OpDelete {
		op.Value = d.string("a config's value", maxSettingValue)
	}
	if isListOp(op.Kind) {
		op.Base = d.string("a config's base", maxSettingValue)
	}
	return op
}
