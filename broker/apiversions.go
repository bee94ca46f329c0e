package broker

import (
	"context"
	"regexp"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/protocol"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// softwareName is what a client may call itself (KIP-511).
var softwareName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

// apiVersions answers ApiVersions: the routes table (V-5 to V-8).
func (b *Broker) apiVersions(_ context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.ApiVersionsRequest)
	refuse := func(code kerr.Code) protocol.Pending {
		response := request.ResponseKind().(*kmsg.ApiVersionsResponse)
		response.ErrorCode = code.Int16()
		return protocol.Answer(response)
	}
	if c.Version >= 3 {
		if !softwareName.MatchString(request.ClientSoftwareName) || !softwareName.MatchString(request.ClientSoftwareVersion) {
			return refuse(kerr.InvalidRequest)
		}
		c.Conn.SoftwareName, c.Conn.SoftwareVersion = request.ClientSoftwareName, request.ClientSoftwareVersion
	}
	if c.Version >= 5 {
		switch named := request.ClusterID != nil; {
		case named != (request.NodeID >= 0):
			return refuse(kerr.InvalidRequest)
		case named && (*request.ClusterID != b.log.Meta().ClusterID || request.NodeID != b.settings.NodeID):
			return refuse(kerr.RebootstrapRequired)
		}
	}
	response := b.routes.ApiVersionsResponse()
	addFeatures(response, c.Version)
	return protocol.Answer(response)
}

// features are what is turned on (KIP-584), with the highest level there is, which is
// the one that holds. By group.version tools see that there is the consumer protocol
// (KIP-848); by transaction.version clients choose the newer transaction protocol
// (KIP-890).
var features = []struct {
	name  string
	level int16
}{{"group.version", 1}, {"transaction.version", 2}}

// addFeatures tells the features.
func addFeatures(response *kmsg.ApiVersionsResponse, version int16) {
	if version < 3 {
		return
	}
	for _, f := range features {
		if version >= 4 { // before, clients do not take a range that begins with 0
			supported := kmsg.NewApiVersionsResponseSupportedFeature()
			supported.Name, supported.MinVersion, supported.MaxVersion = f.name, 0, f.level
			response.SupportedFeatures = append(response.SupportedFeatures, supported)
		}
		finalized := kmsg.NewApiVersionsResponseFinalizedFeature()
		finalized.Name, finalized.MinVersionLevel, finalized.MaxVersionLevel = f.name, f.level, f.level
		response.FinalizedFeatures = append(response.FinalizedFeatures, finalized)
	}
	response.FinalizedFeaturesEpoch = 1 // they never change
}
