package protocol_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/protocol"
	"github.com/sluicemq/sluice/protocol/kerr"
)

func TestKeysHaveTheNamesAndMessagesOfKafka(t *testing.T) {
	names := make(map[string]bool)
	for k := protocol.Key(-1); k <= protocol.MaxKey+1; k++ {
		req := k.NewRequest()
		if k.Known() != (req != nil) {
			t.Errorf("%v: known %v, request %v", k, k.Known(), req)
		}
		if !k.Known() {
			if !strings.HasPrefix(k.String(), "key ") {
				t.Errorf("unknown key is %q", k)
			}
			continue
		}
		// The names are those of kmsg, which spells some in other letters, and one in
		// another word.
		theirs := strings.ReplaceAll(kmsg.NameForKey(int16(k)), "AlterPartitionAssignments", "AlterPartitionReassignments")
		if !strings.EqualFold(k.String(), theirs) || names[k.String()] {
			t.Errorf("key %d is %q, kmsg says %q", int16(k), k, theirs)
		}
		names[k.String()] = true
		if protocol.Key(req.Key()) != k || protocol.Key(req.ResponseKind().Key()) != k {
			t.Errorf("%v makes a request with key %d", k, req.Key())
		}
	}
}

// holdsBytes reports whether values of the type hold byte slices.
func holdsBytes(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Slice:
		return t.Elem().Kind() == reflect.Uint8 || holdsBytes(t.Elem())
	case reflect.Pointer:
		return holdsBytes(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() && holdsBytes(t.Field(i).Type) {
				return true
			}
		}
	}
	return false
}

func TestBorrowsKnowsEveryRequestWithBytes(t *testing.T) {
	for k := range protocol.MaxKey + 1 {
		if k.Known() && k.Borrows() != holdsBytes(reflect.TypeOf(k.NewRequest())) {
			t.Errorf("%v: Borrows is %v", k, k.Borrows())
		}
	}
}

func none(context.Context, *protocol.Call) protocol.Pending {
	return protocol.Ready(protocol.Response{None: true})
}

func TestRoutesAreChecked(t *testing.T) {
	versions := protocol.Route{Key: protocol.ApiVersions, Max: 4, Handle: none}
	for name, test := range map[string]struct {
		table []protocol.Route
		want  string // empty for no error
	}{
		"good":           {[]protocol.Route{{Key: protocol.Produce, Min: 3, Max: 13, Handle: none}, versions}, ""},
		"empty":          {nil, "route ApiVersions: must be served from version 0"},
		"from 1":         {[]protocol.Route{{Key: protocol.ApiVersions, Min: 1, Max: 4, Handle: none}}, "must be served from version 0"},
		"not sorted":     {[]protocol.Route{versions, {Key: protocol.Produce, Max: 1, Handle: none}}, "route Produce: stands behind ApiVersions"},
		"twice":          {[]protocol.Route{versions, versions}, "route ApiVersions: stands behind ApiVersions"},
		"unknown":        {[]protocol.Route{{Key: 4, Handle: none}, versions}, "route key 4: no such API"},
		"negative":       {[]protocol.Route{{Key: -1, Handle: none}, versions}, "route key -1: no such API"},
		"too new":        {[]protocol.Route{{Key: protocol.Fetch, Min: 4, Max: 99, Handle: none}, versions}, "route Fetch: versions 4 to 99 are not within 0 and 18"},
		"reversed":       {[]protocol.Route{{Key: protocol.Fetch, Min: 4, Max: 3, Handle: none}, versions}, "route Fetch: versions 4 to 3"},
		"below 0":        {[]protocol.Route{{Key: protocol.Fetch, Min: -1, Max: 3, Handle: none}, versions}, "route Fetch: versions -1 to 3"},
		"no handler":     {[]protocol.Route{{Key: protocol.Fetch, Min: 4, Max: 5}, versions}, "route Fetch: no handler"},
		"negative limit": {[]protocol.Route{{Key: protocol.Fetch, Min: 4, Max: 5, MaxBytes: -1, Handle: none}, versions}, "route Fetch: limit of -1 bytes"},
		"all of it at once": {[]protocol.Route{{Key: 4, Handle: none}, {Key: protocol.Heartbeat}},
			"route key 4: no such API\nroute Heartbeat: no handler\nroute ApiVersions: must"},
	} {
		_, err := protocol.NewRoutes(test.table)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func routes(t *testing.T) *protocol.Routes {
	t.Helper()
	r, err := protocol.NewRoutes([]protocol.Route{
		{Key: protocol.Produce, Min: 3, Max: 13, Pipelined: true, Handle: none},
		{Key: protocol.Metadata, Min: 0, Max: 12, Handle: none},
		{Key: protocol.ApiVersions, Min: 0, Max: 4, Handle: none},
		{Key: protocol.OffsetDelete, Min: 0, Max: 0, Handle: none},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRoutesAreFound(t *testing.T) {
	r := routes(t)
	if route, ok := r.Lookup(protocol.Produce); !ok || route.Max != 13 || !route.Pipelined {
		t.Errorf("%+v, %v", route, ok)
	}
	for _, k := range []protocol.Key{protocol.Fetch, 4, -1, protocol.MaxKey + 1, 1<<15 - 1, -1 << 15} {
		if route, ok := r.Lookup(k); ok {
			t.Errorf("%v: %+v", k, route)
		}
	}
	for k := range protocol.MaxKey + 1 {
		for v := range int16(20) {
			if _, ok := r.Lookup(k); r.Flexible(k, v) != (ok && k.Flexible(v)) {
				t.Errorf("%v version %d: flexible %v", k, v, r.Flexible(k, v))
			}
		}
	}
	table := r.Table()
	table[0].Max = 0
	if route, _ := r.Lookup(protocol.Produce); route.Max != 13 || len(table) != 4 {
		t.Error("the table is not a copy")
	}
}

func TestApiVersionsListsWhatIsServedAndProduceFromZero(t *testing.T) {
	resp := routes(t).ApiVersionsResponse()
	want := []protocol.VersionRange{{protocol.Produce, 0, 13}, {protocol.Metadata, 0, 12}, {protocol.ApiVersions, 0, 4}, {protocol.OffsetDelete, 0, 0}}
	var got []protocol.VersionRange
	for _, k := range resp.ApiKeys {
		got = append(got, protocol.VersionRange{Key: protocol.Key(k.ApiKey), Min: k.MinVersion, Max: k.MaxVersion})
	}
	if !reflect.DeepEqual(got, want) || resp.ErrorCode != 0 || resp.FinalizedFeaturesEpoch != -1 {
		t.Errorf("%+v", resp)
	}
	too := routes(t).UnsupportedApiVersions()
	if too.Version != 0 || kerr.Code(too.ErrorCode) != kerr.UnsupportedVersion || len(too.ApiKeys) != 1 ||
		too.ApiKeys[0].ApiKey != 18 || too.ApiKeys[0].MaxVersion != 4 {
		t.Errorf("%+v", too)
	}
}

func TestEveryKeyHasALimit(t *testing.T) {
	for k := range protocol.MaxKey + 1 {
		limit := protocol.DefaultMaxBytes(k)
		if k == protocol.Produce && limit != 0 || k != protocol.Produce && (limit < protocol.SmallBytes || limit > protocol.WideBytes) {
			t.Errorf("%v: %d", k, limit)
		}
	}
}

func TestPromiseTakesTheFirstResponse(t *testing.T) {
	p := protocol.NewPromise()
	if protocol.Resolved(p) {
		t.Error("resolved from the start")
	}
	first, second := errors.New("first"), errors.New("second")
	if !p.Resolve(protocol.Response{Close: first}) || p.Resolve(protocol.Response{Close: second}) {
		t.Error("the first response is not taken, or the second is")
	}
	<-p.Done()
	if !protocol.Resolved(p) || p.Response().Close != first {
		t.Error("response", p.Response())
	}
	r := protocol.Answer(kmsg.NewPtrFetchResponse())
	<-r.Done()
	if !protocol.Resolved(r) || r.Response().Message == nil {
		t.Error("an answer is not there")
	}
}

// bare has a Lease that counts.
type counting struct{ n int }

func (c *counting) Retain()  { c.n++ }
func (c *counting) Release() { c.n-- }

func TestCallPassesItsLeaseOn(t *testing.T) {
	var c protocol.Call
	c.Retain()
	c.Release() // nothing to do without a lease
	lease := &counting{}
	c.Lease = lease
	c.Retain()
	c.Retain()
	c.Release()
	if lease.n != 1 {
		t.Errorf("%d users", lease.n)
	}
}
