package protocol

import (
	"context"
	"errors"
	"fmt"
)

// Handler runs the first stage of a request and returns its response to be.
// The context is cancelled when the connection is gone or the server stops.
// It must not be nil, and neither may the Pending.
type Handler func(ctx context.Context, c *Call) Pending

// Route says that an API is served, and how.
type Route struct {
	Key Key
	// Min and Max are the versions served, both included.
	Min, Max int16
	// Pipelined lets the first stage of the next request of the connection run
	// while this one's Pending is not resolved.
	Pipelined bool
	// MaxBytes is the largest request frame, without the size prefix. 0 means the
	// default of the key: see DefaultMaxBytes.
	MaxBytes int
	// Handle is called with calls of this key and these versions only.
	Handle Handler
}

// Default limits for the size of request frames. Decoding a hostile frame takes
// up to DecodeFactor times its size, so they are what the API needs and not what
// Kafka allows (100 MiB for everything).
const (
	// SmallBytes bounds requests that name a fixed number of things; most of it
	// is for strings of 32 KiB.
	SmallBytes = 256 << 10
	// MediumBytes bounds requests that hold lists of topics, groups or configs.
	MediumBytes = 1 << 20
	// WideBytes bounds requests that hold an entry for each of 100,000 partitions.
	// (A Fetch outside of a session is the largest, with 33 bytes for each.)
	WideBytes = 4 << 20
)

// DefaultMaxBytes returns the largest request frame of the API where its Route
// sets none. For Produce it returns 0: that is bounded by
// socket.request.max.bytes alone, which is an upper bound for all.
func DefaultMaxBytes(k Key) int {
	switch k {
	case Produce:
		return 0
	case Heartbeat, LeaveGroup, SaslHandshake, ApiVersions, SaslAuthenticate, InitProducerID, AddOffsetsToTxn,
		EndTxn, CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, DescribeQuorum,
		DescribeCluster, UnregisterBroker, GetTelemetrySubscriptions, AddRaftVoter, RemoveRaftVoter,
		UnregisterController, ListGroups:
		return SmallBytes
	case Fetch, ListOffsets, OffsetCommit, OffsetFetch, SyncGroup, DeleteRecords, OffsetForLeaderEpoch,
		AddPartitionsToTxn, TxnOffsetCommit, CreateTopics, AlterPartitionReassignments, OffsetDelete,
		ShareFetch, ShareAcknowledge, ConsumerGroupHeartbeat, ShareGroupHeartbeat, StreamsGroupHeartbeat:
		return WideBytes
	}
	return MediumBytes
}

// Routes is the table of what is served. It does not change after NewRoutes
// and is safe for concurrent use.
type Routes struct {
	table    []Route
	byKey    [MaxKey + 1]*Route
	flexible [MaxKey + 1]int16 // first flexible version, or noFlexible
}

const noFlexible int16 = 1<<15 - 1

// NewRoutes checks the table and returns it as Routes. The table must be
// sorted by key, name no key twice, know every key and its versions, and serve
// ApiVersions from version 0. The error lists all that is wrong.
func NewRoutes(table []Route) (*Routes, error) {
	r := &Routes{table: append([]Route(nil), table...)}
	var errs []error
	for i := range r.table {
		route := &r.table[i]
		if err := route.check(); err != nil {
			errs = append(errs, err)
			continue
		}
		if i > 0 && table[i-1].Key >= route.Key {
			errs = append(errs, fmt.Errorf("route %v: stands behind %v", route.Key, table[i-1].Key))
			continue
		}
		r.byKey[route.Key] = route
		r.flexible[route.Key] = firstFlexible(route.Key)
	}
	if route, ok := r.Lookup(ApiVersions); !ok || route.Min != 0 {
		errs = append(errs, fmt.Errorf("route %v: must be served from version 0", ApiVersions))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Route) check() error {
	req := r.Key.NewRequest()
	switch {
	case req == nil:
		return fmt.Errorf("route %v: no such API", r.Key)
	case r.Min < 0 || r.Min > r.Max || r.Max > req.MaxVersion():
		return fmt.Errorf("route %v: versions %d to %d are not within 0 and %d", r.Key, r.Min, r.Max, req.MaxVersion())
	case r.MaxBytes < 0:
		return fmt.Errorf("route %v: limit of %d bytes", r.Key, r.MaxBytes)
	case r.Handle == nil:
		return fmt.Errorf("route %v: no handler", r.Key)
	}
	return nil
}

func firstFlexible(k Key) int16 {
	req := k.NewRequest()
	for v := range req.MaxVersion() + 1 {
		req.SetVersion(v)
		if req.IsFlexible() {
			return v
		}
	}
	return noFlexible
}

// Lookup returns the route of a key, if it is served.
func (r *Routes) Lookup(k Key) (*Route, bool) {
	if k < 0 || k > MaxKey || r.byKey[k] == nil {
		return nil, false
	}
	return r.byKey[k], true
}

// Flexible is Key.Flexible for keys that are served, without its cost.
func (r *Routes) Flexible(k Key, version int16) bool {
	_, ok := r.Lookup(k)
	return ok && version >= r.flexible[k]
}

// Table returns a copy of the table, sorted by key.
func (r *Routes) Table() []Route { return append([]Route(nil), r.table...) }
