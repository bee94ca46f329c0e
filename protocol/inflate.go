package protocol

import (
	"errors"
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrInflated marks a request that would take, or takes, far more memory than
// its bytes on the wire account for.
var ErrInflated = errors.New("request inflates when it is decoded")

const (
	// DecodeFactor bounds the memory that decoding allocates, in sizes of the
	// frame. Arrays of empty strings make it 24, and an unknown tag on each of
	// their elements, which kmsg keeps in a map of its own, makes it 96. CheckProduce
	// is there for Produce, which may be too large for that.
	DecodeFactor = 100
	// HonestFactor bounds the memory that an honest decoded request holds, in
	// sizes of its frame. Lists of topics with names of one letter are the worst.
	HonestFactor = 16
)

// Settle drops the unknown tags of a decoded request, which nobody reads, and
// returns how many bytes of memory the request holds, those it borrows from its
// frame left out. It takes about as long as decoding.
func Settle(req kmsg.Request) int {
	v := reflect.ValueOf(req).Elem()
	return int(v.Type().Size()) + settle(v)
}

// settle returns the bytes that v points to.
func settle(v reflect.Value) int {
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Pointer:
		if v.IsNil() {
			return 0
		}
		return int(v.Type().Elem().Size()) + settle(v.Elem())
	case reflect.Slice:
		element := v.Type().Elem()
		if element.Kind() == reflect.Uint8 {
			return 0
		}
		held := v.Cap() * int(element.Size())
		if pointsNowhere(element.Kind()) {
			return held
		}
		for i := range v.Len() {
			held += settle(v.Index(i))
		}
		return held
	case reflect.Struct:
		if tags, ok := v.Addr().Interface().(*kmsg.Tags); ok {
			*tags = kmsg.Tags{}
			return 0
		}
		held := 0
		for i := range v.NumField() {
			held += settle(v.Field(i))
		}
		return held
	}
	return 0
}

func pointsNowhere(k reflect.Kind) bool {
	return k >= reflect.Bool && k <= reflect.Float64 || k == reflect.Array
}
