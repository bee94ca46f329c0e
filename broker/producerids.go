package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol"
	"github.com/sluicemq/sluice/protocol/kerr"
	"github.com/sluicemq/sluice/txn/kafka"
)

// initProducerID answers InitProducerId: for idempotent producers (T-2, I-11) with a
// new id and epoch 0, for transactional ids as their transactions say.
func (b *Broker) initProducerID(ctx context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.InitProducerIDRequest)
	response := request.ResponseKind().(*kmsg.InitProducerIDResponse)
	response.ProducerID, response.ProducerEpoch = -1, -1
	var producer kafka.Producer
	err := error(kerr.New(kerr.InvalidRequest, "producer id and epoch must be given both or neither"))
	switch {
	case (request.ProducerID < 0) != (request.ProducerEpoch < 0):
	case request.TransactionalID != nil:
		producer, err = b.initTransactions(ctx, request)
	default:
		producer.ID, err = b.newProducerID(ctx)
	}
	if err != nil {
		response.ErrorCode = fencedCode(err, c.Version, 4)
	} else {
		response.ProducerID, response.ProducerEpoch = producer.ID, producer.Epoch
	}
	return protocol.Answer(response)
}

func (b *Broker) newProducerID(ctx context.Context) (int64, error) {
	result, err := b.doOne(ctx, entry.TypeAllocateProducerID, nil)
	if err != nil {
		return -1, err
	}
	id, ok := result.Value.(int64)
	if !ok {
		return -1, kerr.New(kerr.UnknownServerError, "no producer id was handed out")
	}
	return id, nil
}
