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
	return protocol.Answer(b.routes.ApiVersionsResponse())
}
