package broker_test

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/protocol/kerr"
)

const (
	topicConfigs  = kmsg.ConfigResourceTypeTopic
	brokerConfigs = kmsg.ConfigResourceTypeBroker
)

func describeRequest(kind kmsg.ConfigResourceType, name string, keys ...string) *kmsg.DescribeConfigsRequest {
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kind, name, keys
	req.Resources = append(req.Resources, r)
	return req
}

// config returns one config of a resource.
func (n *node) config(kind kmsg.ConfigResourceType, name, key string) kmsg.DescribeConfigsResponseResourceConfig {
	n.t.Helper()
	r := ask[*kmsg.DescribeConfigsResponse](n.client(), 4, describeRequest(kind, name, key)).Resources[0]
	wantCode(n.t, r.ErrorCode, kerr.None)
	if len(r.Configs) != 1 {
		n.t.Fatalf("%s: got %+v", key, r.Configs)
	}
	return r.Configs[0]
}

// alter makes one incremental change and returns the answer.
func (n *node) alter(kind kmsg.ConfigResourceType, name string, op kmsg.IncrementalAlterConfigOp, key string, value *string) kmsg.IncrementalAlterConfigsResponseResource {
	n.t.Helper()
	return ask[*kmsg.IncrementalAlterConfigsResponse](n.client(), 1, alterRequest(kind, name, op, key, value)).Resources[0]
}

func alterRequest(kind kmsg.ConfigResourceType, name string, op kmsg.IncrementalAlterConfigOp, key string, value *string) *kmsg.IncrementalAlterConfigsRequest {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	r.ResourceType, r.ResourceName, c.Op, c.Name, c.Value = kind, name, op, key, value
	r.Configs = append(r.Configs, c)
	req.Resources = append(req.Resources, r)
	return req
}

func TestDescribeConfigsAtEveryVersion(t *testing.T) {
	n := start(t, "log.retention.bytes", "777")
	n.topic("a", 1, "retention.ms", "5000")
	eachVersion(t, 1, 4, func(t *testing.T, version int16) {
		for _, keys := range [][]string{nil, {}, {"retention.ms", "no.such.key", "retention.bytes", "cleanup.policy"}} {
			req := describeRequest(topicConfigs, "a", keys...)
			req.Resources[0].ConfigNames = keys
			req.IncludeSynonyms, req.IncludeDocumentation = true, true
			r := ask[*kmsg.DescribeConfigsResponse](n.client(), version, req).Resources[0]
			wantCode(t, r.ErrorCode, kerr.None)
			if r.ErrorMessage == nil || *r.ErrorMessage != "" {
				t.Errorf("message %v", r.ErrorMessage)
			}
			if len(keys) == 0 && len(r.Configs) < 30 || len(keys) > 0 && len(r.Configs) != 3 {
				t.Errorf("%v: %d configs", keys, len(r.Configs))
			}
			for _, want := range []struct {
				name, value string
				source      kmsg.ConfigSource
				synonym     string
			}{
				{"retention.ms", "5000", kmsg.ConfigSourceDynamicTopicConfig, "retention.ms"},
				{"retention.bytes", "777", kmsg.ConfigSourceStaticBrokerConfig, "log.retention.bytes"},
				{"cleanup.policy", "delete", kmsg.ConfigSourceDefaultConfig, "log.cleanup.policy"},
			} {
				i := slices.IndexFunc(r.Configs, func(c kmsg.DescribeConfigsResponseResourceConfig) bool { return c.Name == want.name })
				if i < 0 {
					t.Fatalf("no %s", want.name)
				}
				c := r.Configs[i]
				if *c.Value != want.value || c.Source != want.source || c.ReadOnly || c.IsSensitive || len(c.ConfigSynonyms) == 0 || c.ConfigSynonyms[0].Name != want.synonym ||
					version >= 3 && (c.ConfigType == 0 || c.Documentation == nil || *c.Documentation == "") {
					t.Errorf("got %+v", c)
				}
			}
		}
		r := ask[*kmsg.DescribeConfigsResponse](n.client(), version, describeRequest(brokerConfigs, "7", "node.id", "message.max.bytes")).Resources[0]
		if len(r.Configs) != 2 || *r.Configs[1].Value != "7" || !r.Configs[1].ReadOnly || r.Configs[0].ReadOnly {
			t.Errorf("got %+v", r.Configs)
		}
	})
}

func TestDescribeConfigsRefuses(t *testing.T) {
	n := start(t)
	for name, c := range map[string]struct {
		kind     kmsg.ConfigResourceType
		resource string
		code     kerr.Code
		told     bool
	}{
		"unknown topic":    {topicConfigs, "a", kerr.UnknownTopicOrPartition, false},
		"impossible topic": {topicConfigs, "a b", kerr.InvalidTopic, true},
		"empty topic":      {topicConfigs, "", kerr.InvalidTopic, true},
		"other broker":     {brokerConfigs, "8", kerr.InvalidRequest, true},
		"no number":        {brokerConfigs, "07", kerr.InvalidRequest, true},
		"unknown kind":     {99, "a", kerr.InvalidRequest, true},
	} {
		r := ask[*kmsg.DescribeConfigsResponse](n.client(), 4, describeRequest(c.kind, c.resource)).Resources[0]
		if kerr.Code(r.ErrorCode) != c.code || r.ErrorMessage == nil || (*r.ErrorMessage != "") != c.told || len(r.Configs) > 0 {
			t.Errorf("%s: %s, %+v", name, kerr.Code(r.ErrorCode), r)
		}
	}
}

func TestDescribeConfigsBoundsItsAnswer(t *testing.T) {
	n := start(t)
	n.topic("a", 1)
	req := describeRequest(topicConfigs, "a")
	for range 1000 {
		req.Resources = append(req.Resources, req.Resources[0])
	}
	for range 3 { // more than there are slots for large answers
		resp := ask[*kmsg.DescribeConfigsResponse](n.client(), 4, req)
		if last := resp.Resources[1000]; last.ErrorCode != 0 || len(last.Configs) < 30 {
			t.Fatalf("got %+v", last)
		}
	}
	for range 30_000 {
		req.Resources = append(req.Resources, req.Resources[0])
	}
	resp := ask[*kmsg.DescribeConfigsResponse](n.client(), 4, req)
	if last := resp.Resources[31_000]; kerr.Code(last.ErrorCode) != kerr.InvalidRequest || *last.ErrorMessage == "" || len(last.Configs) > 0 {
		t.Errorf("got %+v", last)
	}
}

func TestAlterConfigsReplacesAll(t *testing.T) {
	n := start(t)
	eachVersion(t, 0, 2, func(t *testing.T, version int16) {
		name := "t" + string(rune('0'+version))
		n.topic(name, 1, "retention.ms", "5000", "cleanup.policy", "compact")
		for _, validate := range []bool{true, false} {
			req := kmsg.NewPtrAlterConfigsRequest()
			req.ValidateOnly = validate
			r := kmsg.NewAlterConfigsRequestResource()
			c := kmsg.NewAlterConfigsRequestResourceConfig()
			r.ResourceType, r.ResourceName, c.Name, c.Value = topicConfigs, name, "retention.ms", ptr("6000")
			r.Configs = append(r.Configs, c)
			req.Resources = append(req.Resources, r)
			got := ask[*kmsg.AlterConfigsResponse](n.client(), version, req).Resources[0]
			if got.ErrorCode != 0 || got.ErrorMessage != nil || got.ResourceName != name {
				t.Errorf("got %+v", got)
			}
			retention, policy := *n.config(topicConfigs, name, "retention.ms").Value, *n.config(topicConfigs, name, "cleanup.policy").Value
			if validate && (retention != "5000" || policy != "compact") || !validate && (retention != "6000" || policy != "delete") {
				t.Errorf("validate only %v: %s, %s", validate, retention, policy)
			}
		}
	})
}

func TestIncrementalAlterConfigs(t *testing.T) {
	n := start(t)
	n.topic("a", 1)
	const set, remove, add, subtract = 0, 1, 2, 3
	for version := range int16(2) {
		for _, c := range []struct {
			kind  kmsg.ConfigResourceType
			name  string
			op    kmsg.IncrementalAlterConfigOp
			key   string
			value *string
			code  kerr.Code
			then  string
		}{
			{topicConfigs, "a", set, "retention.ms", ptr("6000"), kerr.None, "6000"},
			{topicConfigs, "a", set, "retention.ms", ptr("soon"), kerr.InvalidConfig, "6000"},
			{topicConfigs, "a", set, "retention.ms", nil, kerr.InvalidRequest, "6000"},
			{topicConfigs, "a", add, "retention.ms", ptr("1"), kerr.InvalidConfig, "6000"},
			{topicConfigs, "a", 9, "retention.ms", ptr("1"), kerr.InvalidRequest, "6000"},
			{topicConfigs, "a", remove, "retention.ms", nil, kerr.None, "604800000"},
			{topicConfigs, "a", add, "cleanup.policy", ptr("compact"), kerr.None, "delete,compact"},
			{topicConfigs, "a", subtract, "cleanup.policy", ptr("delete"), kerr.None, "compact"},
			{topicConfigs, "a", remove, "cleanup.policy", nil, kerr.None, "delete"},
			{topicConfigs, "a", set, "colour", ptr("red"), kerr.InvalidConfig, ""},
			{topicConfigs, "b", set, "retention.ms", ptr("1"), kerr.UnknownTopicOrPartition, ""},
			{topicConfigs, "", set, "retention.ms", ptr("1"), kerr.InvalidRequest, ""},
			{topicConfigs, "a b", set, "retention.ms", ptr("1"), kerr.InvalidTopic, ""},
			{brokerConfigs, "7", set, "message.max.bytes", ptr("2000"), kerr.None, "2000"},
			{brokerConfigs, "7", set, "message.max.bytes", ptr("-1"), kerr.InvalidRequest, "2000"},
			{brokerConfigs, "7", set, "node.id", ptr("8"), kerr.InvalidRequest, "7"},
			{brokerConfigs, "7", remove, "message.max.bytes", nil, kerr.None, "1048588"},
			{brokerConfigs, "", set, "log.retention.ms", ptr("1"), kerr.None, "1"},
			{brokerConfigs, "", remove, "log.retention.ms", nil, kerr.None, ""},
			{brokerConfigs, "8", set, "log.retention.ms", ptr("1"), kerr.InvalidRequest, ""},
			{8, "7", set, "root", ptr("DEBUG"), kerr.InvalidRequest, ""},
		} {
			got := ask[*kmsg.IncrementalAlterConfigsResponse](n.client(), version, alterRequest(c.kind, c.name, c.op, c.key, c.value)).Resources[0]
			if kerr.Code(got.ErrorCode) != c.code || (got.ErrorMessage != nil) != (c.code != kerr.None) {
				t.Errorf("%+v: %s, %+v", c, kerr.Code(got.ErrorCode), got)
			}
			if c.then != "" {
				if value := *n.config(c.kind, c.name, c.key).Value; value != c.then {
					t.Errorf("%+v: is %s", c, value)
				}
			}
		}
	}
}

func TestOfAResourceNamedTwiceNothingIsAltered(t *testing.T) {
	n := start(t)
	n.topic("a", 1)
	req := alterRequest(topicConfigs, "a", 0, "retention.ms", ptr("6000"))
	req.Resources = append(req.Resources, alterRequest(topicConfigs, "a", 0, "retention.bytes", ptr("6000")).Resources...)
	for _, r := range ask[*kmsg.IncrementalAlterConfigsResponse](n.client(), 1, req).Resources {
		wantCode(t, r.ErrorCode, kerr.InvalidRequest)
	}
	if c := n.config(topicConfigs, "a", "retention.ms"); *c.Value == "6000" {
		t.Error("it was altered")
	}
}

func TestAlteredConfigsOutliveARestart(t *testing.T) {
	dir := t.TempDir()
	n := startIn(t, dir)
	n.topic("a", 1)
	wantCode(t, n.alter(topicConfigs, "a", 0, "retention.ms", ptr("6000")).ErrorCode, kerr.None)
	wantCode(t, n.alter(brokerConfigs, "", 0, "message.max.bytes", ptr("2000")).ErrorCode, kerr.None)
	n.stop()
	n = startIn(t, dir)
	if c := n.config(topicConfigs, "a", "retention.ms"); *c.Value != "6000" || c.Source != kmsg.ConfigSourceDynamicTopicConfig {
		t.Errorf("got %+v", c)
	}
	if c := n.config(topicConfigs, "a", "max.message.bytes"); *c.Value != "2000" || c.Source != kmsg.ConfigSourceDynamicDefaultBrokerConfig {
		t.Errorf("got %+v", c)
	}
}

func TestListConfigResources(t *testing.T) {
	n := start(t)
	n.topic("a", 1)
	n.topic("b", 1)
	for _, c := range []struct {
		version int16
		kinds   []int8
		code    kerr.Code
		names   []string
	}{
		{0, nil, kerr.None, nil},
		{1, nil, kerr.None, []string{"a", "b", "7", "7"}},
		{1, []int8{4, 2, 2}, kerr.None, []string{"a", "b", "7"}},
		{1, []int8{16, 32}, kerr.None, nil},
		{1, []int8{2, 99}, kerr.UnsupportedVersion, nil},
		{1, []int8{0}, kerr.UnsupportedVersion, nil},
	} {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.ResourceTypes = c.kinds
		resp := ask[*kmsg.ListConfigResourcesResponse](n.client(), c.version, req)
		var names []string
		for _, r := range resp.ConfigResources {
			names = append(names, r.Name)
		}
		if kerr.Code(resp.ErrorCode) != c.code || !slices.Equal(names, c.names) {
			t.Errorf("%+v: %s, %v", c, kerr.Code(resp.ErrorCode), names)
		}
	}
}
