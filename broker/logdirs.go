package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/catalog"
	"github.com/sluicemq/sluice/protocol"
)

// describeLogDirs answers DescribeLogDirs: the one data folder, with the
// bytes of each partition's record batches.
func (b *Broker) describeLogDirs(_ context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.DescribeLogDirsRequest)
	response := request.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir, dir.TotalBytes, dir.UsableBytes = b.dataDir, -1, -1
	if free, total, ok := b.log.Space(); ok {
		dir.TotalBytes, dir.UsableBytes = int64(total), int64(free)
	}
	add := func(topic *catalog.Topic, wanted func(int32) bool) {
		out := kmsg.NewDescribeLogDirsResponseDirTopic()
		out.Topic = topic.Name()
		for index, p := range topic.All() {
			if !wanted(index) {
				continue
			}
			size, err := b.log.Size(p)
			if err != nil {
				continue // deleted meanwhile
			}
			partition := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
			partition.Partition, partition.Size = index, size
			out.Partitions = append(out.Partitions, partition)
		}
		if len(out.Partitions) > 0 {
			dir.Topics = append(dir.Topics, out)
		}
	}
	if request.Topics == nil {
		for topic := range b.catalog.Topics("") {
			add(topic, func(int32) bool { return true })
		}
	}
	for _, named := range gather(len(request.Topics),
		func(t int) topicKey { return topicKey{name: request.Topics[t].Topic} },
		func(t int) int { return len(request.Topics[t].Partitions) },
		func(t, p int) int32 { return request.Topics[t].Partitions[p] }) {
		topic := b.catalog.Topic(request.Topics[named.topic].Topic)
		if topic == nil {
			continue
		}
		wanted := make(map[int32]bool, len(named.partitions))
		for _, p := range named.partitions {
			wanted[p.index] = true
		}
		add(topic, func(index int32) bool { return wanted[index] })
	}
	response.Dirs = append(response.Dirs, dir)
	return protocol.Answer(response)
}
