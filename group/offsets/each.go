package offsets

import "github.com/sluicemq/sluice/log/entry"

// Each calls visit for each offset of a commit, of which only the head was read. It
// may be called again. The error means that the payload cannot be read; then visit
// may have been called for some of it.
func (c *Commit) Each(visit func(topic entry.TopicID, o Offset)) error {
	r := c.rest
	for n := r.Count("the number of topics", leastTopic); n > 0 && r.Err() == nil; n-- {
		id := r.TopicID()
		for count := r.Count("the number of partitions", leastOffset); count > 0; count-- {
			o := readOne(&r)
			if r.Err() != nil {
				break
			}
			visit(id, Offset{Partition: o.index, Offset: o.offset, LeaderEpoch: o.epoch, Metadata: string(o.metadata)})
		}
	}
	return r.Done()
}
