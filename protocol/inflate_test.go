package protocol_test

import (
	"reflect"
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/protocol"
)

// hostile returns requests of the API and version that make a decoder allocate
// as much as possible: each of their arrays in turn holds elements that are as
// short on the wire as they can be. If tagged, each element has an unknown tag.
func hostile(k protocol.Key, version int16, size int, tagged bool) [][]byte {
	var bodies [][]byte
	for _, path := range arrays(reflect.TypeOf(k.NewRequest()).Elem(), nil) {
		// The length that fits is found by doubling: elements differ per version.
		var body []byte
		for n := 64; ; n *= 2 {
			req := k.NewRequest()
			req.SetVersion(version)
			fill(reflect.ValueOf(req).Elem(), path, n, tagged && req.IsFlexible())
			next := req.AppendTo(nil)
			if len(next) > size || len(next) == len(body) {
				break
			}
			body = next
		}
		bodies = append(bodies, body)
	}
	return bodies
}

// arrays returns the paths (field numbers) of all arrays of structs, strings
// and numbers in t.
func arrays(t reflect.Type, path []int) [][]int {
	var paths [][]int
	for i := range t.NumField() {
		f := t.Field(i)
		here := append(append([]int(nil), path...), i)
		switch {
		case !f.IsExported() || f.Name == "UnknownTags":
		case f.Type.Kind() == reflect.Struct:
			paths = append(paths, arrays(f.Type, here)...)
		case f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct:
			paths = append(paths, arrays(f.Type.Elem(), here)...)
		case f.Type.Kind() != reflect.Slice || f.Type.Elem().Kind() == reflect.Uint8:
		default:
			paths = append(paths, here)
			if f.Type.Elem().Kind() == reflect.Struct {
				paths = append(paths, arrays(f.Type.Elem(), here)...)
			}
		}
	}
	return paths
}

// fill gives the array at path n elements, and those on the way to it one.
func fill(v reflect.Value, path []int, n int, tagged bool) {
	f := v.Field(path[0])
	if f.Kind() == reflect.Pointer {
		f.Set(reflect.New(f.Type().Elem()))
		f = f.Elem()
	}
	if f.Kind() == reflect.Struct {
		fill(f, path[1:], n, tagged)
		return
	}
	length := 1
	if len(path) == 1 {
		length = n
	}
	f.Set(reflect.MakeSlice(f.Type(), length, length))
	for i := range length {
		element := f.Index(i)
		if d, ok := element.Addr().Interface().(interface{ Default() }); ok {
			d.Default()
		}
		if tagged && element.Kind() == reflect.Struct {
			if tags := element.FieldByName("UnknownTags"); tags.IsValid() {
				tags.Addr().Interface().(*kmsg.Tags).Set(100, nil)
			}
		}
		if len(path) > 1 {
			fill(element, path[1:], n, tagged)
		}
	}
}

// allocated returns the bytes that f allocates.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

func TestDecodingAllocatesAtMostDecodeFactorTimesTheFrame(t *testing.T) {
	const size = 64 << 10
	worst, worstPlain := 0.0, 0.0
	for k := range protocol.MaxKey + 1 {
		if !k.Known() {
			continue
		}
		for v := range k.NewRequest().MaxVersion() + 1 {
			for _, tagged := range []bool{false, true} {
				for _, body := range hostile(k, v, size, tagged) {
					req := k.NewRequest()
					req.SetVersion(v)
					if tagged && !req.IsFlexible() || len(body) < 1000 {
						continue
					}
					factor := float64(allocated(func() { req.ReadFrom(body) })) / float64(len(body))
					if !tagged && factor > worstPlain {
						worstPlain = factor
						t.Logf("plain %v v%d: %.0f (%d bytes)", k, v, factor, len(body))
					}
					if factor > worst {
						worst = factor
						t.Logf("%v v%d: %.0f (%d bytes, tagged %v)", k, v, factor, len(body), tagged)
					}
				}
			}
		}
	}
}
