package protocol_test

import (
	"bytes"
	"errors"
	"fmt"
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
		of := func(n int) []byte {
			req := k.NewRequest()
			req.SetVersion(version)
			fill(reflect.ValueOf(req).Elem(), path, n, tagged && req.IsFlexible())
			return req.AppendTo(nil)
		}
		// How long an element is differs per version; in some there is no such array.
		const few = 32
		if each := (len(of(2*few)) - len(of(few))) / few; each > 0 {
			bodies = append(bodies, of(size/each))
		}
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
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const size = 32 << 10
	worst, name := 0.0, ""
	for k := range protocol.MaxKey + 1 {
		if !k.Known() || k == protocol.Produce {
			continue
		}
		for v := range k.NewRequest().MaxVersion() + 1 {
			for _, tagged := range []bool{false, true} {
				req := k.NewRequest()
				req.SetVersion(v)
				if tagged && !req.IsFlexible() {
					continue
				}
				for _, body := range hostile(k, v, size, tagged) {
					factor := float64(allocated(func() { req.ReadFrom(body) })) / float64(len(body))
					if factor > worst {
						worst, name = factor, fmt.Sprintf("%v v%d, tagged %v", k, v, tagged)
					}
				}
			}
		}
	}
	t.Logf("the worst is %s with %.0f", name, worst)
	if worst > protocol.DecodeFactor || worst < protocol.DecodeFactor/2 {
		t.Errorf("%s takes %.0f times its size, DecodeFactor is %d", name, worst, protocol.DecodeFactor)
	}
}

func TestProduceThatIsCheckedDoesNotInflate(t *testing.T) {
	const size = 200 << 10
	refused := 0
	for v := range protocol.Produce.NewRequest().MaxVersion() + 1 {
		for _, tagged := range []bool{false, true} {
			for _, body := range hostile(protocol.Produce, v, size, tagged) {
				if err := protocol.CheckProduce(v, body); err != nil {
					refused++
					if !errors.Is(err, protocol.ErrInflated) {
						t.Error(err)
					}
				} else {
					t.Errorf("version %d, tagged %v: passes", v, tagged)
				}
			}
		}
	}
	if refused < 20 {
		t.Errorf("only %d were refused", refused)
	}
}

// batches returns a Produce request as clients send them: with a small batch for
// each partition.
func batches(version int16, topics, partitions, size int) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version = version
	req.TransactionID = kmsg.StringPtr("id")
	for i := range topics {
		topic := kmsg.NewProduceRequestTopic()
		topic.Topic, topic.TopicID[0] = fmt.Sprint("t", i), byte(i)
		for p := range partitions {
			partition := kmsg.NewProduceRequestTopicPartition()
			partition.Partition, partition.Records = int32(p), make([]byte, size)
			topic.Partitions = append(topic.Partitions, partition)
		}
		req.Topics = append(req.Topics, topic)
	}
	return req
}

func TestHonestProducePassesTheCheck(t *testing.T) {
	for v := range protocol.Produce.NewRequest().MaxVersion() + 1 {
		for _, req := range []*kmsg.ProduceRequest{
			batches(v, 0, 0, 0), batches(v, 1, 1, 0), batches(v, 1, 1, 200), batches(v, 20, 20, 68),
			batches(v, 1, 10_000, 68), batches(v, 5_000, 1, 68), batches(v, 500, 1, 0),
		} {
			req.UnknownTags.Set(7, []byte("new"))
			body := req.AppendTo(nil)
			if err := protocol.CheckProduce(v, body); err != nil {
				t.Errorf("version %d: %v", v, err)
			}
		}
	}
	body := batches(9, 3, 3, 100).AppendTo(nil)
	if n := testing.AllocsPerRun(100, func() { protocol.CheckProduce(9, body) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestSettleTellsWhatARequestHolds(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version = 12
	fetch := kmsg.NewPtrFetchRequest()
	fetch.Version = 13
	for i := range 3000 {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(fmt.Sprint("some-topic-", i))
		metadata.Topics = append(metadata.Topics, topic)
		part := kmsg.NewFetchRequestTopic()
		part.Partitions = make([]kmsg.FetchRequestTopicPartition, 5)
		for p := range part.Partitions {
			part.Partitions[p].Default()
		}
		fetch.Topics = append(fetch.Topics, part)
	}
	for _, req := range []kmsg.Request{metadata, fetch, batches(9, 300, 10, 68)} {
		body := req.AppendTo(nil)
		got := protocol.Key(req.Key()).NewRequest()
		got.SetVersion(req.GetVersion())
		took := allocated(func() { got.ReadFrom(body) })
		if held := protocol.Settle(got); held < took*2/3 || held > took*3/2 {
			t.Errorf("%v: %d bytes, took %d", protocol.Key(req.Key()), held, took)
		} else if held > protocol.HonestFactor*len(body)/2 {
			t.Errorf("%v: %d bytes of %d are not called honest", protocol.Key(req.Key()), held, len(body))
		}
	}
}

func TestSettleDropsUnknownTags(t *testing.T) {
	req := batches(9, 2, 2, 10)
	want := protocol.Settle(req)
	clean := req.AppendTo(nil)
	req.UnknownTags.Set(9, []byte("new"))
	req.Topics[1].UnknownTags.Set(9, []byte("new"))
	req.Topics[1].Partitions[1].UnknownTags.Set(9, []byte("new"))
	if held := protocol.Settle(req); held != want || !bytes.Equal(req.AppendTo(nil), clean) {
		t.Errorf("%d bytes, want %d", held, want)
	}
}
