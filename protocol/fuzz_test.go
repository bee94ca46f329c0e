package protocol_test

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/protocol"
)

// everyRequest calls visit for each key and version with a request that is empty
// and one that has something in every field.
func everyRequest(visit func(kmsg.Request)) {
	for k := range protocol.MaxKey + 1 {
		if !k.Known() {
			continue
		}
		for v := range k.NewRequest().MaxVersion() + 1 {
			for _, filled := range []bool{false, true} {
				req := k.NewRequest()
				req.SetVersion(v)
				if filled {
					fillAll(reflect.ValueOf(req).Elem())
					req.SetVersion(v)
				}
				visit(req)
			}
		}
	}
}

// fillAll puts a small value into every field.
func fillAll(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fillAll(v.Field(i))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillAll(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fillAll(v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			fillAll(v.Index(i))
		}
	case reflect.String:
		v.SetString("topic")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(3)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(5)
	case reflect.Float64:
		v.SetFloat(0.5)
	}
}

func TestEveryRequestIsReadBackAsItWasWritten(t *testing.T) {
	everyRequest(func(req kmsg.Request) { checkRequest(t, req.Key(), req.GetVersion(), req.AppendTo(nil), true) })
}

// FuzzRequest decodes a request of any API and version. What decodes must be
// written in a form that is read as the same; what is let through must not take
// memory out of proportion.
func FuzzRequest(f *testing.F) {
	everyRequest(func(req kmsg.Request) { f.Add(req.Key(), req.GetVersion(), req.AppendTo(nil)) })
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) { checkRequest(t, key, version, body, false) })
}

func checkRequest(t *testing.T, key, version int16, body []byte, valid bool) {
	k := protocol.Key(key)
	req := k.NewRequest()
	if req == nil || version < 0 || version > req.MaxVersion() {
		return
	}
	req.SetVersion(version)
	if k == protocol.Produce {
		if err := protocol.CheckProduce(version, body); err != nil {
			if valid {
				t.Error(err)
			}
			return
		}
	}
	err := req.ReadFrom(body)
	if k == protocol.Produce {
		if held := protocol.Settle(req); held > 4*len(body)+200<<10 {
			t.Errorf("%v version %d: %d bytes take %d", k, version, len(body), held)
		}
	}
	if err != nil {
		if valid {
			t.Errorf("%v version %d: %v", k, version, err)
		}
		return
	}
	protocol.Settle(req)
	once := req.AppendTo(nil)
	again := k.NewRequest()
	again.SetVersion(version)
	if err := again.ReadFrom(once); err != nil {
		t.Fatalf("%v version %d: % x is written as % x, and that is %v", k, version, body, once, err)
	}
	if twice := again.AppendTo(nil); !bytes.Equal(once, twice) {
		t.Errorf("%v version %d: % x is written as % x and then as % x", k, version, body, once, twice)
	}
	if valid && !bytes.Equal(body, once) {
		t.Errorf("%v version %d: % x is written as % x", k, version, body, once)
	}
}
