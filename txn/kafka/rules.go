package kafka

import (
	"github.com/sluicemq/sluice/protocol/kerr"
)

// The rules that say what a request may do to a transactional id, apart from
// doing it. They change nothing.

func unknownMapping(id string, producerID int64) error {
	return kerr.New(kerr.InvalidProducerIDMapping, "transactional id %q does not have producer id %d", id, producerID)
}

func (t *transaction) fenced(epoch int16) error {
	return kerr.New(kerr.ProducerFenced, "transactional id %q has epoch %d, the request %d", t.id, t.epoch, epoch)
}

// check refuses a request of a producer that is not the one in charge. t may be nil.
func (t *transaction) check(id string, producerID int64, epoch int16) error {
	switch {
	case t == nil || t.producerID != producerID:
		return unknownMapping(id, producerID)
	case t.epoch != epoch || epoch > lastEpoch: // one above was given to nobody
		return t.fenced(epoch)
	}
	return nil
}

// had reports whether that is what the producer had before its own doing, or a
// time-out, raised the epoch.
func (t *transaction) had(producerID int64, epoch int16) bool {
	return t.before != noEpoch && t.before == epoch && t.beforeProducer == producerID
}

// verdict is what becomes of a request that ends a transaction.
type verdict uint8

const (
	refuse verdict = iota // with the error
	again                 // it was done before: the answer is that of then
	finish                // end the open transaction
	raise                 // nothing is open: raise the epoch
)

// judgeEnd is the table of EndTxn. t may be nil.
func (t *transaction) judgeEnd(q *End) (verdict, error) {
	if q.Newer {
		return t.judgeNewerEnd(q)
	}
	if err := t.check(q.ID, q.ProducerID, q.Epoch); err != nil {
		return refuse, err
	}
	switch {
	case t.state == Ongoing:
		return finish, nil
	case t.state == ended(q.Commit):
		return again, nil
	}
	return refuse, t.wrongState(q.Commit)
}

func (t *transaction) judgeNewerEnd(q *End) (verdict, error) {
	if t == nil {
		return refuse, unknownMapping(q.ID, q.ProducerID)
	}
	// The answer that raised the epoch was lost.
	repeated := t.had(q.ProducerID, q.Epoch)
	switch {
	case repeated && (t.state == Empty || t.state == Ongoing):
		return refuse, t.fenced(q.Epoch)
	case repeated && t.state == ended(q.Commit):
		return again, nil
	case repeated:
		return refuse, t.wrongState(q.Commit)
	}
	if err := t.check(q.ID, q.ProducerID, q.Epoch); err != nil {
		return refuse, err
	}
	switch {
	case t.state == Ongoing:
		return finish, nil
	case !q.Commit:
		return raise, nil
	}
	return refuse, t.wrongState(true)
}

func (t *transaction) notAdded() error {
	return kerr.New(kerr.InvalidTxnState, "not in the transaction of %q, which is %v", t.id, t.state)
}

func (t *transaction) wrongState(commit bool) error {
	what := "aborted"
	if commit {
		what = "committed"
	}
	return kerr.New(kerr.InvalidTxnState, "the transaction of %q is %v and cannot be %s", t.id, t.state, what)
}

// resumption is what becomes of a request for a producer id.
type resumption uint8

const (
	renew  resumption = iota // a new instance: others are fenced
	resume                   // the producer goes on after an error
	repeat                   // it did, but the answer was lost
)

// judgeInit is the table of InitProducerId for a transactional id that is known.
func (t *transaction) judgeInit(q *Init) (resumption, error) {
	if q.ProducerID == noProducer {
		return renew, nil
	}
	switch {
	case q.ProducerID == t.producerID && q.Epoch == t.epoch:
		return resume, nil
	case t.had(q.ProducerID, q.Epoch):
		if t.state == Ongoing {
			return resume, nil // it says that nothing of its own is open
		}
		return repeat, nil
	}
	return 0, t.fenced(q.Epoch)
}
