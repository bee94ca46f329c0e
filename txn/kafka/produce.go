package kafka

import (
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// Judge says whether a transactional batch of a producer may be appended to a
// partition. With adds set the partition need not have been added to the
// transaction, nor a transaction be open. It changes nothing.
//
// Refusals are INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_EPOCH (also for a
// higher epoch, which nobody has) and INVALID_TXN_STATE.
func (m *Machine) Judge(p entry.Partition, producerID int64, epoch int16, adds bool) error {
	t := m.byProducer[producerID]
	switch {
	case t == nil:
		return kerr.New(kerr.InvalidProducerIDMapping, "producer id %d has no transactional id", producerID)
	case t.epoch != epoch || epoch > lastEpoch:
		return kerr.New(kerr.InvalidProducerEpoch, "producer id %d has epoch %d, the batch %d", producerID, t.epoch, epoch)
	case adds:
		return nil
	}
	if _, ok := t.partitions[p]; !ok { // as when none is open
		return t.notAdded()
	}
	return nil
}

// Plain says whether a batch that is in no transaction may be appended to a
// partition: not while its producer has one open there.
func (m *Machine) Plain(p entry.Partition, producerID int64) error {
	if m.opened == 0 {
		return nil
	}
	if t := m.byProducer[producerID]; t != nil && t.state == Ongoing {
		if first, ok := t.partitions[p]; ok && first != noOffset {
			return kerr.New(kerr.InvalidTxnState, "producer id %d has a transaction open in the partition, and the batch is in none", producerID)
		}
	}
	return nil
}

// Appended is told of a transactional batch that Judge let pass and that is about
// to be put into a partition at an offset. Only a producer's first batch in a
// partition changes something.
func (m *Machine) Appended(p entry.Partition, producerID int64, base entry.Offset, now entry.Time) {
	t := m.byProducer[producerID]
	if t == nil {
		return // refused by Judge
	}
	if first, ok := t.partitions[p]; ok && first != noOffset {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open(t, now)
	t.partitions[p] = base
	t.updated = now
	m.begin(p, producerID, base)
	m.save(t)
}
