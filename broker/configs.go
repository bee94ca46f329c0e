package broker

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/catalog"
	"github.com/sluicemq/sluice/catalog/config"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// How many configs an answer to DescribeConfigs may hold, and from how many on
// only a few such answers are made at a time. A request of a megabyte can name
// a topic 200,000 times, each of which would have 40 configs with their texts.
const (
	mostConfigs      = 1_000_000
	manyConfigs      = 20_000
	manyConfigsSlots = 2
)

// describeConfigs answers DescribeConfigs (C-1 to C-4).
func (b *Broker) describeConfigs(ctx context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.DescribeConfigsRequest)
	count := 0
	for i := range request.Resources {
		if asked := len(request.Resources[i].ConfigNames); asked > 0 {
			count += asked
		} else {
			count += config.Count(request.Resources[i].ResourceType == kmsg.ConfigResourceTypeTopic)
		}
	}
	answer := protocol.Response{}
	var unfit error
	switch {
	case count > mostConfigs:
		unfit = kerr.New(kerr.InvalidRequest, "the request asks for %d configs; at most %d at a time", count, mostConfigs)
	case count > manyConfigs:
		select {
		case b.describing <- struct{}{}:
			answer.Release = func() { <-b.describing }
		case <-ctx.Done():
			unfit = kerr.New(kerr.RequestTimedOut, "other large answers are on their way")
		}
	}
	response := request.ResponseKind().(*kmsg.DescribeConfigsResponse)
	response.Resources = make([]kmsg.DescribeConfigsResponseResource, len(request.Resources))
	for i := range request.Resources {
		in, out := &request.Resources[i], &response.Resources[i]
		*out = kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = in.ResourceType, in.ResourceName
		var entries []config.Entry
		err := unfit
		if err == nil {
			entries, err = b.describeResource(in, request.IncludeSynonyms)
		}
		code, message := kerr.Of(err), ""
		if err != nil && code != kerr.UnknownTopicOrPartition {
			message = kerr.Message(err)
		}
		out.ErrorCode, out.ErrorMessage = code.Int16(), &message // in Kafka it is never null
		for j := range entries {
			out.Configs = append(out.Configs, describedConfig(&entries[j], request.IncludeDocumentation))
		}
	}
	answer.Message = response
	return protocol.Ready(answer)
}

func (b *Broker) describeResource(in *kmsg.DescribeConfigsRequestResource, synonyms bool) ([]config.Entry, error) {
	switch in.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		return b.catalog.DescribeTopic(in.ResourceName, in.ConfigNames, synonyms)
	case kmsg.ConfigResourceTypeBroker:
		return b.catalog.DescribeBroker(in.ResourceName, in.ConfigNames, synonyms)
	case kmsg.ConfigResourceTypeGroupConfig:
		return b.catalog.DescribeGroup(in.ResourceName, in.ConfigNames, synonyms)
	}
	return nil, kerr.New(kerr.InvalidRequest, "configs of resource type %d are not served", in.ResourceType)
}

func describedConfig(e *config.Entry, documentation bool) kmsg.DescribeConfigsResponseResourceConfig {
	out := kmsg.NewDescribeConfigsResponseResourceConfig()
	out.Name, out.ReadOnly, out.IsSensitive = e.Name, e.ReadOnly, e.Sensitive
	out.Source, out.ConfigType = kmsg.ConfigSource(e.Source), kmsg.ConfigType(e.Type)
	if !e.Null && !e.Sensitive {
		out.Value = &e.Value
	}
	if documentation {
		out.Documentation = &e.Doc
	}
	for i := range e.Synonyms {
		synonym := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
		synonym.Name, synonym.Value, synonym.Source = e.Synonyms[i].Name, &e.Synonyms[i].Value, kmsg.ConfigSource(e.Synonyms[i].Source)
		out.ConfigSynonyms = append(out.ConfigSynonyms, synonym)
	}
	return out
}

// createdConfigs shows configs in the answer to CreateTopics.
func createdConfigs(entries []config.Entry) []kmsg.CreateTopicsResponseTopicConfig {
	out := make([]kmsg.CreateTopicsResponseTopicConfig, len(entries))
	for i := range entries {
		e := &entries[i]
		out[i] = kmsg.NewCreateTopicsResponseTopicConfig()
		out[i].Name, out[i].ReadOnly, out[i].IsSensitive, out[i].Source = e.Name, e.ReadOnly, e.Sensitive, int8(e.Source)
		if !e.Null && !e.Sensitive {
			out[i].Value = &e.Value
		}
	}
	return out
}

// alterConfigs answers AlterConfigs, which replaces all configs of a resource
// (C-6).
func (b *Broker) alterConfigs(ctx context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.AlterConfigsRequest)
	response := request.ResponseKind().(*kmsg.AlterConfigsResponse)
	alters := make([]catalog.Alter, len(request.Resources))
	for i := range request.Resources {
		in := &request.Resources[i]
		alters[i] = catalog.Alter{Resource: catalog.Resource(in.ResourceType), Name: in.ResourceName}
		for _, change := range in.Configs {
			alters[i].Changes = append(alters[i].Changes, catalog.ConfigChange{Name: change.Name, Value: change.Value})
		}
	}
	for i, err := range b.alter(ctx, b.catalog.PlanReplace(alters), request.ValidateOnly) {
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = request.Resources[i].ResourceType, request.Resources[i].ResourceName
		if err != nil {
			message := kerr.Message(err)
			out.ErrorCode, out.ErrorMessage = kerr.Of(err).Int16(), &message
		}
		response.Resources = append(response.Resources, out)
	}
	return protocol.Answer(response)
}

// incrementalAlterConfigs answers IncrementalAlterConfigs (C-5).
func (b *Broker) incrementalAlterConfigs(ctx context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.IncrementalAlterConfigsRequest)
	response := request.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	alters := make([]catalog.Alter, len(request.Resources))
	for i := range request.Resources {
		in := &request.Resources[i]
		alters[i] = catalog.Alter{Resource: catalog.Resource(in.ResourceType), Name: in.ResourceName}
		for _, change := range in.Configs {
			alters[i].Changes = append(alters[i].Changes, catalog.ConfigChange{Kind: config.OpKind(change.Op), Name: change.Name, Value: change.Value})
		}
	}
	for i, err := range b.alter(ctx, b.catalog.PlanIncremental(alters), request.ValidateOnly) {
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = request.Resources[i].ResourceType, request.Resources[i].ResourceName
		if err != nil {
			message := kerr.Message(err)
			out.ErrorCode, out.ErrorMessage = kerr.Of(err).Int16(), &message
		}
		response.Resources = append(response.Resources, out)
	}
	return protocol.Answer(response)
}

// alter carries out plans, and returns what became of each.
func (b *Broker) alter(ctx context.Context, plans []catalog.AlterPlan, validateOnly bool) []error {
	commands := make([]command, len(plans))
	var proposed []*command
	for i := range plans {
		commands[i] = command{kind: entry.TypeAlterConfigs, payload: plans[i].Payload, err: plans[i].Err}
		if plans[i].Err == nil && !validateOnly {
			proposed = append(proposed, &commands[i])
		}
	}
	b.do(ctx, 0, proposed)
	errs := make([]error, len(plans))
	for i := range commands {
		errs[i] = commands[i].err
	}
	if len(proposed) > 0 {
		b.groups.SettingsChanged()
	}
	return errs
}

// listConfigResources answers ListConfigResources (C-8): what has, or may have,
// configs of its own.
func (b *Broker) listConfigResources(_ context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.ListConfigResourcesRequest)
	response := request.ResponseKind().(*kmsg.ListConfigResourcesResponse)
	types := request.ResourceTypes
	if c.Version == 0 {
		types = []int8{int8(kmsg.ConfigResourceTypeClientMetrics)} // none are kept
	} else if len(types) == 0 {
		types = []int8{int8(kmsg.ConfigResourceTypeTopic), int8(kmsg.ConfigResourceTypeBroker), int8(kmsg.ConfigResourceTypeBrokerLogger),
			int8(kmsg.ConfigResourceTypeClientMetrics), int8(kmsg.ConfigResourceTypeGroupConfig)}
	}
	types = slices.Clone(types)
	slices.Sort(types)
	types = slices.Compact(types)
	add := func(kind int8, name string) {
		out := kmsg.NewListConfigResourcesResponseConfigResource()
		out.Type, out.Name = kind, name
		response.ConfigResources = append(response.ConfigResources, out)
	}
	for _, kind := range types {
		switch kmsg.ConfigResourceType(kind) {
		case kmsg.ConfigResourceTypeTopic:
			for topic := range b.catalog.Topics("") {
				add(kind, topic.Name())
			}
		case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger:
			add(kind, b.settings.NodeName())
		case kmsg.ConfigResourceTypeGroupConfig:
			for _, group := range b.catalog.ConfiguredGroups() {
				add(kind, group)
			}
		case kmsg.ConfigResourceTypeClientMetrics:
		default:
			response.ErrorCode = kerr.UnsupportedVersion.Int16()
			response.ConfigResources = nil
			return protocol.Answer(response)
		}
	}
	return protocol.Answer(response)
}
