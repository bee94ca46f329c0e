package protocol

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Key is the number of an API.
type Key int16

// The APIs that a client may ask of a broker.
const (
	Produce                               Key = 0
	Fetch                                 Key = 1
	ListOffsets                           Key = 2
	Metadata                              Key = 3
	OffsetCommit                          Key = 8
	OffsetFetch                           Key = 9
	FindCoordinator                       Key = 10
	JoinGroup                             Key = 11
	Heartbeat                             Key = 12
	LeaveGroup                            Key = 13
	SyncGroup                             Key = 14
	DescribeGroups                        Key = 15
	ListGroups                            Key = 16
	SaslHandshake                         Key = 17
	ApiVersions                           Key = 18
	CreateTopics                          Key = 19
	DeleteTopics                          Key = 20
	DeleteRecords                         Key = 21
	InitProducerID                        Key = 22
	OffsetForLeaderEpoch                  Key = 23
	AddPartitionsToTxn                    Key = 24
	AddOffsetsToTxn                       Key = 25
	EndTxn                                Key = 26
	WriteTxnMarkers                       Key = 27
	TxnOffsetCommit                       Key = 28
	DescribeAcls                          Key = 29
	CreateAcls                            Key = 30
	DeleteAcls                            Key = 31
	DescribeConfigs                       Key = 32
	AlterConfigs                          Key = 33
	AlterReplicaLogDirs                   Key = 34
	DescribeLogDirs                       Key = 35
	SaslAuthenticate                      Key = 36
	CreatePartitions                      Key = 37
	CreateDelegationToken                 Key = 38
	RenewDelegationToken                  Key = 39
	ExpireDelegationToken                 Key = 40
	DescribeDelegationToken               Key = 41
	DeleteGroups                          Key = 42
	ElectLeaders                          Key = 43
	IncrementalAlterConfigs               Key = 44
	AlterPartitionReassignments           Key = 45
	ListPartitionReassignments            Key = 46
	OffsetDelete                          Key = 47
	DescribeClientQuotas                  Key = 48
	AlterClientQuotas                     Key = 49
	DescribeUserScramCredentials          Key = 50
	AlterUserScramCredentials             Key = 51
	DescribeQuorum                        Key = 55
	UpdateFeatures                        Key = 57
	DescribeCluster                       Key = 60
	DescribeProducers                     Key = 61
	UnregisterBroker                      Key = 64
	DescribeTransactions                  Key = 65
	ListTransactions                      Key = 66
	ConsumerGroupHeartbeat                Key = 68
	ConsumerGroupDescribe                 Key = 69
	GetTelemetrySubscriptions             Key = 71
	PushTelemetry                         Key = 72
	ListConfigResources                   Key = 74
	DescribeTopicPartitions               Key = 75
	ShareGroupHeartbeat                   Key = 76
	ShareGroupDescribe                    Key = 77
	ShareFetch                            Key = 78
	ShareAcknowledge                      Key = 79
	AddRaftVoter                          Key = 80
	RemoveRaftVoter                       Key = 81
	StreamsGroupHeartbeat                 Key = 88
	StreamsGroupDescribe                  Key = 89
	DescribeShareGroupOffsets             Key = 90
	AlterShareGroupOffsets                Key = 91
	DeleteShareGroupOffsets               Key = 92
	StreamsGroupTopologyDescriptionUpdate Key = 93
	UnregisterController                  Key = 94
)

// MaxKey is the highest key that has a name here.
const MaxKey = UnregisterController

// keyNames spells the APIs as Kafka's own tools and docs do.
var keyNames = [MaxKey + 1]string{
	Produce:                               "Produce",
	Fetch:                                 "Fetch",
	ListOffsets:                           "ListOffsets",
	Metadata:                              "Metadata",
	OffsetCommit:                          "OffsetCommit",
	OffsetFetch:                           "OffsetFetch",
	FindCoordinator:                       "FindCoordinator",
	JoinGroup:                             "JoinGroup",
	Heartbeat:                             "Heartbeat",
	LeaveGroup:                            "LeaveGroup",
	SyncGroup:                             "SyncGroup",
	DescribeGroups:                        "DescribeGroups",
	ListGroups:                            "ListGroups",
	SaslHandshake:                         "SaslHandshake",
	ApiVersions:                           "ApiVersions",
	CreateTopics:                          "CreateTopics",
	DeleteTopics:                          "DeleteTopics",
	DeleteRecords:                         "DeleteRecords",
	InitProducerID:                        "InitProducerId",
	OffsetForLeaderEpoch:                  "OffsetForLeaderEpoch",
	AddPartitionsToTxn:                    "AddPartitionsToTxn",
	AddOffsetsToTxn:                       "AddOffsetsToTxn",
	EndTxn:                                "EndTxn",
	WriteTxnMarkers:                       "WriteTxnMarkers",
	TxnOffsetCommit:                       "TxnOffsetCommit",
	DescribeAcls:                          "DescribeAcls",
	CreateAcls:                            "CreateAcls",
	DeleteAcls:                            "DeleteAcls",
	DescribeConfigs:                       "DescribeConfigs",
	AlterConfigs:                          "AlterConfigs",
	AlterReplicaLogDirs:                   "AlterReplicaLogDirs",
	DescribeLogDirs:                       "DescribeLogDirs",
	SaslAuthenticate:                      "SaslAuthenticate",
	CreatePartitions:                      "CreatePartitions",
	CreateDelegationToken:                 "CreateDelegationToken",
	RenewDelegationToken:                  "RenewDelegationToken",
	ExpireDelegationToken:                 "ExpireDelegationToken",
	DescribeDelegationToken:               "DescribeDelegationToken",
	DeleteGroups:                          "DeleteGroups",
	ElectLeaders:                          "ElectLeaders",
	IncrementalAlterConfigs:               "IncrementalAlterConfigs",
	AlterPartitionReassignments:           "AlterPartitionReassignments",
	ListPartitionReassignments:            "ListPartitionReassignments",
	OffsetDelete:                          "OffsetDelete",
	DescribeClientQuotas:                  "DescribeClientQuotas",
	AlterClientQuotas:                     "AlterClientQuotas",
	DescribeUserScramCredentials:          "DescribeUserScramCredentials",
	AlterUserScramCredentials:             "AlterUserScramCredentials",
	DescribeQuorum:                        "DescribeQuorum",
	UpdateFeatures:                        "UpdateFeatures",
	DescribeCluster:                       "DescribeCluster",
	DescribeProducers:                     "DescribeProducers",
	UnregisterBroker:                      "UnregisterBroker",
	DescribeTransactions:                  "DescribeTransactions",
	ListTransactions:                      "ListTransactions",
	ConsumerGroupHeartbeat:                "ConsumerGroupHeartbeat",
	ConsumerGroupDescribe:                 "ConsumerGroupDescribe",
	GetTelemetrySubscriptions:             "GetTelemetrySubscriptions",
	PushTelemetry:                         "PushTelemetry",
	ListConfigResources:                   "ListConfigResources",
	DescribeTopicPartitions:               "DescribeTopicPartitions",
	ShareGroupHeartbeat:                   "ShareGroupHeartbeat",
	ShareGroupDescribe:                    "ShareGroupDescribe",
	ShareFetch:                            "ShareFetch",
	ShareAcknowledge:                      "ShareAcknowledge",
	AddRaftVoter:                          "AddRaftVoter",
	RemoveRaftVoter:                       "RemoveRaftVoter",
	StreamsGroupHeartbeat:                 "StreamsGroupHeartbeat",
	StreamsGroupDescribe:                  "StreamsGroupDescribe",
	DescribeShareGroupOffsets:             "DescribeShareGroupOffsets",
	AlterShareGroupOffsets:                "AlterShareGroupOffsets",
	DeleteShareGroupOffsets:               "DeleteShareGroupOffsets",
	StreamsGroupTopologyDescriptionUpdate: "StreamsGroupTopologyDescriptionUpdate",
	UnregisterController:                  "UnregisterController",
}

// Known reports whether k is an API that a client may ask of a broker.
func (k Key) Known() bool { return k >= 0 && k <= MaxKey && keyNames[k] != "" }

// String returns the API's name as Kafka spells it, or "key N".
func (k Key) String() string {
	if k.Known() {
		return keyNames[k]
	}
	return fmt.Sprintf("key %d", int16(k))
}

// NewRequest returns an empty request of the API, or nil for an unknown key.
// Set its version before reading into it.
func (k Key) NewRequest() kmsg.Request {
	if !k.Known() {
		return nil
	}
	return kmsg.RequestForKey(int16(k))
}

// Flexible reports whether version is a flexible one: its request header is
// version 2, its bodies have compact fields and tags. It costs an allocation;
// Routes knows the answer for what is served.
func (k Key) Flexible(version int16) bool {
	req := k.NewRequest()
	if req == nil {
		return false
	}
	req.SetVersion(version)
	return req.IsFlexible()
}

// Borrows reports whether decoded requests of the API hold byte fields that
// point into the frame they were decoded from. Requests of other APIs are
// copies, but for unknown tags, which nobody may keep.
func (k Key) Borrows() bool {
	switch k {
	case Produce, JoinGroup, SyncGroup, SaslAuthenticate, RenewDelegationToken, ExpireDelegationToken,
		AlterUserScramCredentials, PushTelemetry:
		return true
	}
	return false
}
