package protocol

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/protocol/kerr"
)

// VersionRange is what ApiVersions says about one API.
type VersionRange struct {
	Key      Key
	Min, Max int16
}

// AdvertisedVersions returns what clients are told is served, sorted by key.
//
// It is what is served, but for Produce, which is advertised from version 0:
// older librdkafka turns compression off, without a word, where 0 is not in the
// range. No client sends those versions to a broker of today; one that does is
// disconnected as for any version out of range.
func (r *Routes) AdvertisedVersions() []VersionRange {
	ranges := make([]VersionRange, len(r.table))
	for i, route := range r.table {
		ranges[i] = VersionRange{Key: route.Key, Min: route.Min, Max: route.Max}
		if route.Key == Produce {
			ranges[i].Min = 0
		}
	}
	return ranges
}

// ApiVersionsResponse returns an ApiVersions response without error that lists
// AdvertisedVersions and no features.
func (r *Routes) ApiVersionsResponse() *kmsg.ApiVersionsResponse {
	resp := kmsg.NewPtrApiVersionsResponse()
	for _, a := range r.AdvertisedVersions() {
		resp.ApiKeys = append(resp.ApiKeys, apiKey(a))
	}
	return resp
}

// UnsupportedApiVersions returns the answer to an ApiVersions request of a
// version that is not served: version 0, the error UNSUPPORTED_VERSION, and the
// range of ApiVersions alone, from which the client chooses for its next try.
// It must be sent as version 0, whatever the version of the request.
func (r *Routes) UnsupportedApiVersions() *kmsg.ApiVersionsResponse {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version = 0
	resp.ErrorCode = int16(kerr.UnsupportedVersion)
	route, _ := r.Lookup(ApiVersions)
	resp.ApiKeys = append(resp.ApiKeys, apiKey(VersionRange{ApiVersions, route.Min, route.Max}))
	return resp
}

func apiKey(a VersionRange) kmsg.ApiVersionsResponseApiKey {
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey, k.MinVersion, k.MaxVersion = int16(a.Key), a.Min, a.Max
	return k
}
