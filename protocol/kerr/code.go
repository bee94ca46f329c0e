package kerr

import "strconv"

// Code is a Kafka error code, as it stands in responses. The zero value is None.
type Code int16

// The codes of Kafka 4.4. Never send one to a request version that is older
// than the code: clients read codes they do not know as UnknownServerError.
const (
	UnknownServerError                     Code = -1
	None                                   Code = 0
	OffsetOutOfRange                       Code = 1
	CorruptMessage                         Code = 2
	UnknownTopicOrPartition                Code = 3
	InvalidFetchSize                       Code = 4
	LeaderNotAvailable                     Code = 5
	NotLeaderOrFollower                    Code = 6
	RequestTimedOut                        Code = 7
	BrokerNotAvailable                     Code = 8
	ReplicaNotAvailable                    Code = 9
	MessageTooLarge                        Code = 10
	StaleControllerEpoch                   Code = 11
	OffsetMetadataTooLarge                 Code = 12
	NetworkException                       Code = 13
	CoordinatorLoadInProgress              Code = 14
	CoordinatorNotAvailable                Code = 15
	NotCoordinator                         Code = 16
	InvalidTopic                           Code = 17
	RecordListTooLarge                     Code = 18
	NotEnoughReplicas                      Code = 19
	NotEnoughReplicasAfterAppend           Code = 20
	InvalidRequiredAcks                    Code = 21
	IllegalGeneration                      Code = 22
	InconsistentGroupProtocol              Code = 23
	InvalidGroupID                         Code = 24
	UnknownMemberID                        Code = 25
	InvalidSessionTimeout                  Code = 26
	RebalanceInProgress                    Code = 27
	InvalidCommitOffsetSize                Code = 28
	TopicAuthorizationFailed               Code = 29
	GroupAuthorizationFailed               Code = 30
	ClusterAuthorizationFailed             Code = 31
	InvalidTimestamp                       Code = 32
	UnsupportedSASLMechanism               Code = 33
	IllegalSASLState                       Code = 34
	UnsupportedVersion                     Code = 35
	TopicAlreadyExists                     Code = 36
	InvalidPartitions                      Code = 37
	InvalidReplicationFactor               Code = 38
	InvalidReplicaAssignment               Code = 39
	InvalidConfig                          Code = 40
	NotController                          Code = 41
	InvalidRequest                         Code = 42
	UnsupportedForMessageFormat            Code = 43
	PolicyViolation                        Code = 44
	OutOfOrderSequenceNumber               Code = 45
	DuplicateSequenceNumber                Code = 46
	InvalidProducerEpoch                   Code = 47
	InvalidTxnState                        Code = 48
	InvalidProducerIDMapping               Code = 49
	InvalidTransactionTimeout              Code = 50
	ConcurrentTransactions                 Code = 51
	TransactionCoordinatorFenced           Code = 52
	TransactionalIDAuthorizationFailed     Code = 53
	SecurityDisabled                       Code = 54
	OperationNotAttempted                  Code = 55
	KafkaStorageError                      Code = 56
	LogDirNotFound                         Code = 57
	SASLAuthenticationFailed               Code = 58
	UnknownProducerID                      Code = 59
	ReassignmentInProgress                 Code = 60
	DelegationTokenAuthDisabled            Code = 61
	DelegationTokenNotFound                Code = 62
	DelegationTokenOwnerMismatch           Code = 63
	DelegationTokenRequestNotAllowed       Code = 64
	DelegationTokenAuthorizationFailed     Code = 65
	DelegationTokenExpired                 Code = 66
	InvalidPrincipalType                   Code = 67
	NonEmptyGroup                          Code = 68
	GroupIDNotFound                        Code = 69
	FetchSessionIDNotFound                 Code = 70
	InvalidFetchSessionEpoch               Code = 71
	ListenerNotFound                       Code = 72
	TopicDeletionDisabled                  Code = 73
	FencedLeaderEpoch                      Code = 74
	UnknownLeaderEpoch                     Code = 75
	UnsupportedCompressionType             Code = 76
	StaleBrokerEpoch                       Code = 77
	OffsetNotAvailable                     Code = 78
	MemberIDRequired                       Code = 79
	PreferredLeaderNotAvailable            Code = 80
	GroupMaxSizeReached                    Code = 81
	FencedInstanceID                       Code = 82
	EligibleLeadersNotAvailable            Code = 83
	ElectionNotNeeded                      Code = 84
	NoReassignmentInProgress               Code = 85
	GroupSubscribedToTopic                 Code = 86
	InvalidRecord                          Code = 87
	UnstableOffsetCommit                   Code = 88
	ThrottlingQuotaExceeded                Code = 89
	ProducerFenced                         Code = 90
	ResourceNotFound                       Code = 91
	DuplicateResource                      Code = 92
	UnacceptableCredential                 Code = 93
	InconsistentVoterSet                   Code = 94
	InvalidUpdateVersion                   Code = 95
	FeatureUpdateFailed                    Code = 96
	PrincipalDeserializationFailure        Code = 97
	SnapshotNotFound                       Code = 98
	PositionOutOfRange                     Code = 99
	UnknownTopicID                         Code = 100
	DuplicateBrokerRegistration            Code = 101
	BrokerIDNotRegistered                  Code = 102
	InconsistentTopicID                    Code = 103
	InconsistentClusterID                  Code = 104
	TransactionalIDNotFound                Code = 105
	FetchSessionTopicIDError               Code = 106
	IneligibleReplica                      Code = 107
	NewLeaderElected                       Code = 108
	OffsetMovedToTieredStorage             Code = 109
	FencedMemberEpoch                      Code = 110
	UnreleasedInstanceID                   Code = 111
	UnsupportedAssignor                    Code = 112
	StaleMemberEpoch                       Code = 113
	MismatchedEndpointType                 Code = 114
	UnsupportedEndpointType                Code = 115
	UnknownControllerID                    Code = 116
	UnknownSubscriptionID                  Code = 117
	TelemetryTooLarge                      Code = 118
	InvalidRegistration                    Code = 119
	TransactionAbortable                   Code = 120
	InvalidRecordState                     Code = 121
	ShareSessionNotFound                   Code = 122
	InvalidShareSessionEpoch               Code = 123
	FencedStateEpoch                       Code = 124
	InvalidVoterKey                        Code = 125
	DuplicateVoter                         Code = 126
	VoterNotFound                          Code = 127
	InvalidRegularExpression               Code = 128
	RebootstrapRequired                    Code = 129
	StreamsInvalidTopology                 Code = 130
	StreamsInvalidTopologyEpoch            Code = 131
	StreamsTopologyFenced                  Code = 132
	ShareSessionLimitReached               Code = 133
	GroupDeletionFailed                    Code = 134
	StreamsTopologyDescriptionUpdateFailed Code = 135
	ControllerIDNotRegistered              Code = 136
)

// String returns Kafka's name of the code, in capitals, or "CODE_n" for a
// number that Kafka does not define.
func (c Code) String() string {
	if i, ok := table[c]; ok {
		return i.name
	}
	return "CODE_" + strconv.Itoa(int(c))
}

// Known reports whether Kafka defines the code.
func (c Code) Known() bool {
	_, ok := table[c]
	return ok
}

// Retriable reports whether Kafka's clients send the request again, unchanged,
// when they get the code.
func (c Code) Retriable() bool { return table[c].retry != final }

// RefreshesMetadata reports whether Kafka's clients fetch metadata before they
// send the request again. Such codes are retriable too.
func (c Code) RefreshesMetadata() bool { return table[c].retry == refresh }

// Text says in a few words what the code means. It is what Message gives for an
// error that has no message of its own.
func (c Code) Text() string {
	if i, ok := table[c]; ok {
		return i.text
	}
	return "unknown error code"
}
