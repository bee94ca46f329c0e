package diff

import (
	"path"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Case is one thing to be found out about a broker, at every version of an API.
type Case struct {
	// Name is stable: goldens and docs/differences.md refer to it. It begins with the API's name
	// and a slash.
	Name string
	// Key is the API whose versions the case is played at.
	Key kmsg.Key
	// Min and Max bound the versions; Max 0 means the newest that both sides have.
	Min, Max int16
	// All plays the case at every version, not only at those that telling names.
	All bool
	// Play talks to the broker.
	Play func(s *Script)
}

// groups lists every group of cases, each in a file of its own. A new API is one more line.
var groups = []struct {
	name  string
	cases func() []Case
}{
	{"ApiVersions", apiVersionsCases},
	{"Malformed", malformedCases},
	{"Metadata", metadataCases},
	{"CreateTopics", createTopicsCases},
	{"DeleteTopics", deleteTopicsCases},
	{"CreatePartitions", createPartitionsCases},
	{"DeleteRecords", deleteRecordsCases},
	{"Produce", produceCases},
	{"Idempotence", idempotenceCases},
	{"Fetch", fetchCases},
	{"FetchSession", fetchSessionCases},
	{"ListOffsets", listOffsetsCases},
	{"OffsetForLeaderEpoch", offsetForLeaderEpochCases},
	{"DescribeConfigs", describeConfigsCases},
	{"AlterConfigs", alterConfigsCases},
	{"IncrementalAlterConfigs", incrementalAlterConfigsCases},
	{"ListConfigResources", listConfigResourcesCases},
	{"DescribeCluster", clusterCases},
	{"DescribeTopicPartitions", describeTopicPartitionsCases},
	{"DescribeLogDirs", describeLogDirsCases},
	{"InitProducerId", initProducerIDCases},
	{"FindCoordinator", findCoordinatorCases},
	{"JoinGroup", joinGroupCases},
	{"SyncGroup", syncGroupCases},
	{"Heartbeat", heartbeatCases},
	{"LeaveGroup", leaveGroupCases},
	{"OffsetCommit", offsetCommitCases},
	{"OffsetFetch", offsetFetchCases},
	{"OffsetDelete", offsetDeleteCases},
	{"DescribeGroups", describeGroupsCases},
	{"ListGroups", listGroupsCases},
	{"DeleteGroups", deleteGroupsCases},
	{"ConsumerGroupHeartbeat", consumerHeartbeatCases},
	{"ConsumerGroupDescribe", consumerDescribeCases},
	{"ConsumerGroupOffsets", consumerOffsetsCases},
	{"InitTransactions", transactionalInitCases},
	{"AddPartitionsToTxn", addPartitionsCases},
	{"AddOffsetsToTxn", addOffsetsCases},
	{"EndTxn", endCases},
	{"TransactionalProduce", transactionalProduceCases},
	{"Isolation", isolationCases},
	{"TxnOffsetCommit", txnOffsetCommitCases},
	{"DescribeTransactions", describeTransactionsCases},
	{"ListTransactions", listTransactionsCases},
	{"DescribeProducers", describeProducersCases},
	{"WriteTxnMarkers", writeTxnMarkersCases},
}

// Group names a set of cases whose answers share a golden file.
type Group struct {
	Name  string
	Cases []Case
}

// Groups returns the cases whose names match the pattern, in order. The pattern is that of
// path.Match over the whole name; "" matches all.
func Groups(pattern string) []Group {
	var out []Group
	for _, g := range groups {
		group := Group{Name: g.name}
		for _, c := range g.cases() {
			if ok, _ := path.Match(pattern, c.Name); ok || pattern == "" {
				group.Cases = append(group.Cases, c)
			}
		}
		if len(group.Cases) > 0 {
			out = append(out, group)
		}
	}
	return out
}

// versions returns the versions at which the case is played against a broker.
func (c Case) versions(b *broker) []int16 {
	r, ok := b.ranges[int16(c.Key)]
	if !ok {
		return nil
	}
	lo, hi := max(r[0], c.Min), r[1]
	// Kafka offers Produce from 0 for the sake of old clients, and serves it from 3.
	if c.Key == kmsg.Produce {
		lo = max(lo, 3)
	}
	if c.Max > 0 {
		hi = min(hi, c.Max)
	}
	// What kmsg cannot build cannot be asked.
	hi = min(hi, c.Key.Request().MaxVersion())
	var out []int16
	for v := lo; v <= hi; v++ {
		some := telling[c.Key]
		if c.All || some == nil || v == lo || v == hi || slices.Contains(some, v) {
			out = append(out, v)
		}
	}
	return out
}

// telling lists, for APIs with many versions, those that change more than the encoding; the first
// and the last are always played.
var telling = map[kmsg.Key][]int16{
	kmsg.Produce:      {3, 7, 8, 9, 13},
	kmsg.Fetch:        {4, 7, 11, 12, 13, 18},
	kmsg.ListOffsets:  {1, 4, 5, 6, 7, 8, 9, 11},
	kmsg.Metadata:     {0, 1, 4, 8, 9, 10, 12, 13},
	kmsg.CreateTopics: {2, 4, 5, 7},
}
