package broker

import "github.com/sluicemq/sluice/protocol"

// table is what is served. ApiVersions, metrics and docs are made from it; a
// version stands here when all of it works as Kafka's does.
func (b *Broker) table() []protocol.Route {
	return []protocol.Route{
		{Key: protocol.Produce, Min: 3, Max: 13, Pipelined: true, Handle: b.produce},
		{Key: protocol.Fetch, Min: 4, Max: 18, Handle: b.fetch},
		{Key: protocol.ListOffsets, Min: 1, Max: 11, Handle: b.listOffsets},
		{Key: protocol.Metadata, Min: 0, Max: 13, Handle: b.metadata},
		{Key: protocol.OffsetCommit, Min: 2, Max: 10, Pipelined: true, Handle: b.offsetCommit},
		{Key: protocol.OffsetFetch, Min: 1, Max: 10, Handle: b.offsetFetch},
		{Key: protocol.FindCoordinator, Min: 0, Max: 6, Handle: b.findCoordinator},
		{Key: protocol.JoinGroup, Min: 0, Max: 9, MaxBytes: protocol.WideBytes, Handle: b.joinGroup},
		{Key: protocol.Heartbeat, Min: 0, Max: 4, Handle: b.heartbeat},
		{Key: protocol.LeaveGroup, Min: 0, Max: 5, Handle: b.leaveGroup},
		{Key: protocol.SyncGroup, Min: 0, Max: 5, Handle: b.syncGroup},
		{Key: protocol.DescribeGroups, Min: 0, Max: 6, Handle: b.describeGroups},
		{Key: protocol.ListGroups, Min: 0, Max: 5, Handle: b.listGroups},
		{Key: protocol.ApiVersions, Min: 0, Max: 5, Handle: b.apiVersions},
		{Key: protocol.CreateTopics, Min: 2, Max: 7, Handle: b.createTopics},
		{Key: protocol.DeleteTopics, Min: 1, Max: 6, Handle: b.deleteTopics},
		{Key: protocol.DeleteRecords, Min: 0, Max: 2, Handle: b.deleteRecords},
		{Key: protocol.InitProducerID, Min: 0, Max: 5, Handle: b.initProducerID},
		{Key: protocol.OffsetForLeaderEpoch, Min: 2, Max: 4, Handle: b.offsetForLeaderEpoch},
		{Key: protocol.AddPartitionsToTxn, Min: 0, Max: 5, Handle: b.addPartitionsToTxn},
		{Key: protocol.AddOffsetsToTxn, Min: 0, Max: 4, Handle: b.addOffsetsToTxn},
		{Key: protocol.EndTxn, Min: 0, Max: 5, Handle: b.endTxn},
		{Key: protocol.WriteTxnMarkers, Min: 1, Max: 2, Handle: b.writeTxnMarkers},
		{Key: protocol.TxnOffsetCommit, Min: 0, Max: 6, Handle: b.txnOffsetCommit},
		{Key: protocol.DescribeConfigs, Min: 1, Max: 4, Handle: b.describeConfigs},
		{Key: protocol.AlterConfigs, Min: 0, Max: 2, Handle: b.alterConfigs},
		{Key: protocol.DescribeLogDirs, Min: 1, Max: 5, Handle: b.describeLogDirs},
		{Key: protocol.CreatePartitions, Min: 0, Max: 3, Handle: b.createPartitions},
		{Key: protocol.DeleteGroups, Min: 0, Max: 3, Handle: b.deleteGroups},
		{Key: protocol.IncrementalAlterConfigs, Min: 0, Max: 1, Handle: b.incrementalAlterConfigs},
		{Key: protocol.OffsetDelete, Min: 0, Max: 0, Handle: b.offsetDelete},
		{Key: protocol.DescribeCluster, Min: 0, Max: 2, Handle: b.describeCluster},
		{Key: protocol.DescribeProducers, Min: 0, Max: 0, Handle: b.describeProducers},
		{Key: protocol.DescribeTransactions, Min: 0, Max: 0, Handle: b.describeTransactions},
		{Key: protocol.ListTransactions, Min: 0, Max: 2, Handle: b.listTransactions},
		{Key: protocol.ConsumerGroupHeartbeat, Min: 0, Max: 1, MaxBytes: protocol.WideBytes, Handle: b.consumerGroupHeartbeat},
		{Key: protocol.ConsumerGroupDescribe, Min: 0, Max: 1, Handle: b.consumerGroupDescribe},
		{Key: protocol.ListConfigResources, Min: 0, Max: 1, Handle: b.listConfigResources},
		{Key: protocol.DescribeTopicPartitions, Min: 0, Max: 0, Handle: b.describeTopicPartitions},
	}
}
