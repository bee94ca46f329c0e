package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// initProducerID answers InitProducerId for idempotent producers (T-2, I-11): a
// new id with epoch 0. Transactional ids are refused as the version of Kafka
// before transactions would.
func (b *Broker) initProducerID(ctx context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.InitProducerIDRequest)
	response := request.ResponseKind().(*kmsg.InitProducerIDResponse)
	response.ProducerID, response.ProducerEpoch = -1, -1
	id, err := b.newProducerID(ctx, request)
	if err != nil {
		response.ErrorCode = kerr.Of(err).Int16()
	} else {
		response.ProducerID, response.ProducerEpoch = id, 0
	}
	return protocol.Answer(response)
}

func (b *Broker) newProducerID(ctx context.Context, request *kmsg.InitProducerIDRequest) (int64, error) {
	if request.TransactionalID != nil {
		if *request.TransactionalID == "" {
			return -1, kerr.New(kerr.InvalidRequest, "the transactional id is empty")
		}
		return -1, kerr.New(kerr.UnsupportedVersion, "transactions are not served by this version")
	}
	if (request.ProducerID < 0) != (request.ProducerEpoch < 0) {
		return -1, kerr.New(kerr.InvalidRequest, "producer id and epoch must be given both or neither")
	}
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
