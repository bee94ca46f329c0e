package kafka

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// Marker is what the control batch at the head of an entry says.
type Marker struct {
	ProducerID int64
	Epoch      int16
	Commit     bool
}

// Tx is what applying an entry may change beside the transactions themselves.
type Tx interface {
	entry.Writer
	// ProducerID hands out a producer id that was never handed out.
	ProducerID() int64
	// CheckMarker says whether the entry's marker may be put into a partition; with
	// newer set its epoch must be above that of the producer there.
	CheckMarker(p entry.Partition, newer bool) error
	// AppendMarker puts the marker into a partition and returns its offset; ok is
	// false if the partition is gone.
	AppendMarker(p entry.Partition) (at entry.Offset, ok bool)
	// CommitOffsets makes offsets of a group visible.
	CommitOffsets(group string, offsets []PendingOffset)
	// Notify wakes who waits for a partition. It comes after all changes.
	Notify(p entry.Partition)
}

// Machine holds all transactions. See the package's text for who may call which
// method.
type Machine struct {
	// The fields above mu belong to the apply loop alone.

	unsaved []*transaction // changed since the last checkpoint
	gone    []string       // saved ids that were forgotten since then
	opened  int            // sum of the open transactions of all partitions

	// unstable counts the partitions with open transactions, so that readers of a
	// broker without any need no lock.
	unstable atomic.Int64

	mu         sync.RWMutex // taken by the apply loop for changes of what stands below
	byID       map[string]*transaction
	byProducer map[int64]*transaction
	ongoing    map[*transaction]struct{}
	byGroup    map[string]map[*transaction]struct{} // open transactions with offsets of the group
	partitions map[entry.Partition]*partition
}

// New returns a machine that knows no transaction.
func New() *Machine {
	return &Machine{
		byID:       make(map[string]*transaction),
		byProducer: make(map[int64]*transaction),
		ongoing:    make(map[*transaction]struct{}),
		byGroup:    make(map[string]map[*transaction]struct{}),
		partitions: make(map[entry.Partition]*partition),
	}
}

// Types lists the entry types that Apply applies.
func (m *Machine) Types() []entry.Type {
	return []entry.Type{entry.TypeInitTransactions, entry.TypeEndTransaction, entry.TypeAddToTransaction,
		entry.TypeWriteMarkers, entry.TypeExpireTransactions}
}

// HasMarker reports whether the payload of entries of a type begins with a control
// batch, which Apply is given apart.
func HasMarker(t entry.Type) bool {
	return t == entry.TypeInitTransactions || t == entry.TypeEndTransaction || t == entry.TypeWriteMarkers
}

// Producer is a producer id with its epoch, and the Result.Value of the entries
// that hand one out or raise it.
type Producer struct {
	ID    int64
	Epoch int16
}

// Apply applies an entry of one of Types; its payload is what follows the control
// batch, of which mark is told. A Result with a kerr error is a refusal that
// changed nothing, any other error means that the entry cannot be read.
//
// The Value of TypeInitTransactions is a Producer, and of TypeEndTransaction the
// Producer that is in charge now, or nil where a time-out came too late. That of
// TypeWriteMarkers is a []kerr.Code, one for each partition, and that of
// TypeExpireTransactions the number of ids that were forgotten.
func (m *Machine) Apply(e *entry.Entry, mark Marker, tx Tx) entry.Result {
	var value any
	var err error
	switch e.Type {
	case entry.TypeInitTransactions:
		value, err = m.applyInit(e, mark, tx)
	case entry.TypeEndTransaction:
		value, err = m.applyEnd(e, mark, tx)
	case entry.TypeAddToTransaction:
		err = m.applyAdd(e)
	case entry.TypeWriteMarkers:
		value, err = m.applyMarkers(e, mark, tx)
	case entry.TypeExpireTransactions:
		value, err = m.applyExpire(e)
	default:
		err = fmt.Errorf("type %v is not one of transactions", e.Type)
	}
	if err != nil && kerr.Of(err) == kerr.UnknownServerError {
		err = fmt.Errorf("apply entry %d (%v): %w", e.Index, e.Type, err)
	}
	return entry.Result{Value: value, Err: err}
}

func (m *Machine) applyInit(e *entry.Entry, mark Marker, tx Tx) (any, error) {
	q, err := decodeInit(e.Payload)
	if err != nil {
		return nil, err
	}
	t := m.byID[q.ID]
	if t == nil {
		t = &transaction{id: q.ID, producerID: tx.ProducerID(), before: noEpoch, beforeProducer: noProducer}
		m.mu.Lock()
		m.byID[q.ID], m.byProducer[t.producerID] = t, t
		m.restart(t, q, e.Time)
		m.mu.Unlock()
		return t.producer(), nil
	}
	how, err := t.judgeInit(q)
	if err != nil {
		return nil, err
	}
	if how == repeat && t.epoch <= lastEpoch {
		return t.producer(), nil
	}
	was := t.producer()
	if how == repeat { // a time-out took the last epoch
		was = Producer{q.ProducerID, q.Epoch}
	}
	if t.state == Ongoing {
		if mark != (Marker{ProducerID: t.producerID, Epoch: t.epoch + 1}) {
			return nil, kerr.New(kerr.ConcurrentTransactions, "the transaction of %q changed meanwhile", t.id)
		}
		m.finish(e, t, false, tx)
		m.mu.Lock()
		t.epoch++
		m.mu.Unlock()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case t.exhausted():
		m.rotate(t, tx.ProducerID())
	case how == renew || t.epoch == was.Epoch:
		t.epoch++
	}
	t.before, t.beforeProducer = noEpoch, noProducer
	if how != renew {
		t.before, t.beforeProducer = was.Epoch, was.ID
	}
	m.restart(t, q, e.Time)
	return t.producer(), nil
}

// restart puts a transactional id at the beginning. The lock is held.
func (m *Machine) restart(t *transaction, q *Init, now entry.Time) {
	t.state, t.timeoutMs, t.started, t.updated = Empty, q.TimeoutMs, never, now
	m.save(t)
}

// rotate gives a transactional id another producer id. The lock is held.
func (m *Machine) rotate(t *transaction, producerID int64) {
	delete(m.byProducer, t.producerID)
	t.producerID, t.epoch = producerID, 0
	m.byProducer[producerID] = t
}

func (t *transaction) producer() Producer { return Producer{t.producerID, t.epoch} }

func (m *Machine) applyEnd(e *entry.Entry, mark Marker, tx Tx) (any, error) {
	q, err := decodeEnd(e.Payload)
	if err != nil {
		return nil, err
	}
	if mark != q.Marker() {
		return nil, fmt.Errorf("%w: the control batch is %+v, for an end of producer id %d, epoch %d", ErrCorrupt, mark, q.ProducerID, q.Epoch)
	}
	t := m.byID[q.ID]
	what := finish
	if q.TimedOut {
		if t == nil || t.producer() != (Producer{q.ProducerID, q.Epoch}) || t.state != Ongoing || t.started != q.Started {
			return nil, nil
		}
	} else if what, err = t.judgeEnd(q); err != nil {
		return nil, err
	}
	switch what {
	case again:
		return t.producer(), nil
	case finish:
		m.finish(e, t, q.Commit, tx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if what == raise {
		t.state, t.updated = CompleteAbort, e.Time
	}
	if q.Newer || q.TimedOut {
		t.before, t.beforeProducer = t.epoch, t.producerID
		if q.Newer && t.exhausted() {
			m.rotate(t, tx.ProducerID())
		} else {
			t.epoch++
		}
	}
	m.save(t)
	return t.producer(), nil
}

// finish ends the open transaction of t with the marker of the entry. Readers see
// all of it at once, and are woken behind that.
func (m *Machine) finish(e *entry.Entry, t *transaction, commit bool, tx Tx) {
	type marked struct {
		p  entry.Partition
		at entry.Offset
	}
	parts := t.sortedPartitions()
	put := make([]marked, 0, len(parts))
	for _, p := range parts {
		if at, ok := tx.AppendMarker(p); ok {
			put = append(put, marked{p, at})
		}
	}
	groups := t.sortedGroups()
	offsets := t.groups
	m.mu.Lock()
	for _, at := range put {
		if a, ok := m.end(at.p, t.producerID, commit, at.at); ok {
			tx.Set(abortedKey(at.p, a.last), a.appendValue(nil))
		}
	}
	delete(m.ongoing, t)
	for _, g := range groups {
		m.leave(t, g)
	}
	t.state, t.updated = ended(commit), e.Time
	t.partitions, t.groups = nil, nil
	m.save(t)
	m.mu.Unlock()
	for _, g := range groups {
		if commit {
			m.commitOffsets(g, offsets[g], tx)
		}
	}
	for _, at := range put {
		tx.Notify(at.p)
	}
}

func (m *Machine) applyAdd(e *entry.Entry) error {
	q, err := decodeAdd(e.Payload)
	if err != nil {
		return err
	}
	t := m.byID[q.ID]
	if err := t.check(q.ID, q.ProducerID, q.Epoch); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open(t, e.Time)
	for _, p := range q.Partitions {
		if _, ok := t.partitions[p]; !ok {
			t.partitions[p] = noOffset
		}
	}
	for _, g := range q.Groups {
		if _, ok := t.groups[g]; !ok {
			t.groups[g] = nil
		}
	}
	t.updated = e.Time
	m.save(t)
	return nil
}

// open begins a transaction if none is open. The lock is held.
func (m *Machine) open(t *transaction, now entry.Time) {
	if t.state == Ongoing {
		return
	}
	t.state, t.started, t.updated = Ongoing, now, now
	t.partitions = make(map[entry.Partition]entry.Offset)
	t.groups = make(map[string]map[offsetKey]*pending)
	m.ongoing[t] = struct{}{}
	m.save(t)
}

// applyMarkers puts a marker into partitions. What is open of the producer there
// ends, whatever its transaction is: that goes on, and may come back.
func (m *Machine) applyMarkers(e *entry.Entry, mark Marker, tx Tx) (any, error) {
	q, err := decodeMarkers(e.Payload)
	if err != nil {
		return nil, err
	}
	codes := make([]kerr.Code, len(q.Partitions))
	for i, p := range q.Partitions {
		if err := tx.CheckMarker(p, q.Newer); err != nil {
			codes[i] = kerr.Of(err)
			continue
		}
		at, ok := tx.AppendMarker(p)
		if !ok {
			codes[i] = kerr.UnknownTopicOrPartition
			continue
		}
		m.mu.Lock()
		if a, ok := m.end(p, mark.ProducerID, mark.Commit, at); ok {
			tx.Set(abortedKey(p, a.last), a.appendValue(nil))
		}
		if t := m.byProducer[mark.ProducerID]; t != nil && t.state == Ongoing {
			if _, in := t.partitions[p]; in {
				t.partitions[p] = noOffset
				m.save(t)
			}
		}
		m.mu.Unlock()
		tx.Notify(p)
	}
	return codes, nil
}

// applyExpire forgets those of the ids that are idle for long.
func (m *Machine) applyExpire(e *entry.Entry) (any, error) {
	q, err := decodeExpire(e.Payload)
	if err != nil {
		return nil, err
	}
	n := 0
	for _, id := range q.IDs {
		t := m.byID[id]
		if t == nil || !t.idle(e.Time, q.ExpirationMs) {
			continue
		}
		m.mu.Lock()
		delete(m.byID, id)
		delete(m.byProducer, t.producerID)
		m.mu.Unlock()
		if t.saved {
			m.gone = append(m.gone, id)
		}
		t.saved, t.unsaved = false, false
		n++
	}
	return n, nil
}

// idle reports whether nothing happened to a transactional id for long.
func (t *transaction) idle(now entry.Time, expirationMs int64) bool {
	return t.state != Ongoing && int64(now-t.updated) >= expirationMs
}

// save makes the next checkpoint write t.
func (m *Machine) save(t *transaction) {
	if !t.unsaved {
		t.unsaved = true
		m.unsaved = append(m.unsaved, t)
	}
}
