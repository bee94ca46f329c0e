package catalog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/sluicemq/sluice/catalog/config"
	"github.com/sluicemq/sluice/log/entry"
)

// ErrPayload means that bytes of the log or of the state cannot be read: they
// are damaged, or another version wrote them.
var ErrPayload = errors.New("catalog: unreadable record")

// decoder reads a payload or a value of the state. After the first error all
// reads return zeros, so that the error is looked at once, by done.
type decoder struct {
	left []byte
	err  error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: "+format, append([]any{ErrPayload}, args...)...)
		d.left = nil
	}
}

// version reads the first byte, which must be want.
func (d *decoder) version(want uint8) {
	if v := d.byte("version"); d.err == nil && v != want {
		d.fail("version %d, expected %d", v, want)
	}
}

func (d *decoder) byte(what string) uint8 {
	if len(d.left) < 1 {
		d.fail("ends before %s", what)
		return 0
	}
	b := d.left[0]
	d.left = d.left[1:]
	return b
}

func (d *decoder) uint64(what string) uint64 {
	if len(d.left) < 8 {
		d.fail("ends before %s", what)
		return 0
	}
	n := binary.LittleEndian.Uint64(d.left)
	d.left = d.left[8:]
	return n
}

func (d *decoder) topicID() (id entry.TopicID) {
	if len(d.left) < len(id) {
		d.fail("ends before the topic id")
		return id
	}
	copy(id[:], d.left)
	d.left = d.left[len(id):]
	if d.err == nil && id == (entry.TopicID{}) {
		d.fail("the topic id is zero")
	}
	return id
}

// uvarint reads a number from 0 to most in its shortest form. There is one
// encoding for each value, so that equal records are equal bytes.
func (d *decoder) uvarint(what string, most uint64) uint64 {
	n, size := binary.Uvarint(d.left)
	switch {
	case size <= 0:
		d.fail("ends before %s", what)
		return 0
	case size > 1 && d.left[size-1] == 0:
		d.fail("%s is not in its shortest form", what)
		return 0
	case n > most:
		d.fail("%s is %d, expected at most %d", what, n, most)
		return 0
	}
	d.left = d.left[size:]
	return n
}

func (d *decoder) string(what string, most int) string {
	n := d.uvarint("the length of "+what, uint64(most))
	if n > uint64(len(d.left)) {
		d.fail("ends within %s", what)
		return ""
	}
	s := string(d.left[:n])
	d.left = d.left[n:]
	return s
}

// count reads how many things of at least least bytes follow, and bounds it by
// the bytes that are left, so that no length makes it allocate much.
func (d *decoder) count(what string, least int) int {
	return int(d.uvarint("the number of "+what, uint64(len(d.left)/least)))
}

// partitions reads a number of partitions, which is at least 1.
func (d *decoder) partitions() int32 {
	n := d.uvarint("the number of partitions", math.MaxInt32)
	if d.err == nil && n == 0 {
		d.fail("the number of partitions is 0")
	}
	return int32(n)
}

// name reads the name of a topic.
func (d *decoder) name() string {
	name := d.string("the name", MaxNameBytes)
	if d.err == nil && CheckName(name) != nil {
		d.fail("%q is no topic name", name)
	}
	return name
}

// done returns the error, which is not nil if bytes are left over.
func (d *decoder) done() error {
	if d.err == nil && len(d.left) > 0 {
		d.fail("%d bytes too many", len(d.left))
	}
	return d.err
}

const (
	maxSettingName  = 255
	maxSettingValue = 1 << 20 // more than one version's MaxValueBytes
)

// overrides reads settings, which must be in order.
func (d *decoder) overrides() config.Overrides {
	n := d.count("configs", 2)
	if n == 0 || d.err != nil {
		return nil
	}
	o := make(config.Overrides, 0, n)
	for range n {
		s := config.Setting{Name: d.settingName(), Value: d.string("a config's value", maxSettingValue)}
		if d.err == nil && len(o) > 0 && o[len(o)-1].Name >= s.Name {
			d.fail("config %q is not after %q", s.Name, o[len(o)-1].Name)
		}
		if d.err != nil {
			return nil
		}
		o = append(o, s)
	}
	return o
}

// settingName reads the name of a config. Known names take no memory.
func (d *decoder) settingName() string {
	name := d.string("a config's name", maxSettingName)
	if d.err == nil && name == "" {
		d.fail("a config's name is empty")
	}
	if k := config.TopicKey(name); k != nil {
		return k.Name
	}
	return name
}

func appendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

func appendOverrides(dst []byte, o config.Overrides) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(o)))
	for _, s := range o {
		dst = appendString(dst, s.Name)
		dst = appendString(dst, s.Value)
	}
	return dst
}
