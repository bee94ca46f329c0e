package log_test

import (
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/sluicemq/sluice/log"
	"github.com/sluicemq/sluice/log/apply"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol/batch"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// op is one entry that a workload proposes.
type op struct {
	kind      entry.Type
	partition entry.Partition
	payload   []byte
	moves     []apply.LogStart // of TypeLogStart
}

// model is what the engine must look like after a row of ops: the oracle of the
// tests of crashes, faults and settings.
type model struct {
	parts map[entry.Partition]*modelPartition
}

type modelPartition struct {
	start, end entry.Offset
	batches    []modelBatch
	producers  map[int64]*modelProducer
}

type modelBatch struct {
	base, end entry.Offset
	time      entry.Time // append time, -1 without
	sum       uint32     // of all but the head
	size      int
	times     []entry.Time // of its records
}

type modelProducer struct {
	last   int32
	recent []modelSent // newest last, at most five
}

type modelSent struct {
	first, last int32
	base        entry.Offset
}

func newModel(ops []op) *model {
	m := &model{parts: map[entry.Partition]*modelPartition{}}
	for i := range ops {
		m.apply(&ops[i])
	}
	return m
}

// expected is the answer that an op must get.
type expected struct {
	code   kerr.Code
	offset entry.Offset
	time   entry.Time
}

func (m *model) apply(o *op) expected {
	p := m.parts[o.partition]
	switch o.kind {
	case entry.TypeCreateTopic:
		if p != nil {
			return expected{code: kerr.InvalidTopic}
		}
		m.parts[o.partition] = &modelPartition{producers: map[int64]*modelProducer{}}
	case entry.TypeDeleteTopic:
		if p == nil {
			return expected{code: kerr.InvalidTopic}
		}
		delete(m.parts, o.partition)
	case entry.TypeLogStart:
		for _, move := range o.moves {
			if p := m.parts[move.Partition]; p != nil {
				p.start = max(p.start, min(move.Offset, p.end))
			}
		}
	case entry.TypeProduce:
		if p == nil {
			return expected{code: kerr.UnknownTopicOrPartition}
		}
		return p.produce(o.payload)
	}
	return expected{}
}

func (p *modelPartition) produce(payload []byte) expected {
	head := batch.Header(payload)
	time := entry.Time(-1)
	if head.Attributes().Has(batch.LogAppendTime) {
		time = entry.Time(head.MaxTimestamp())
	}
	id, first, last := head.ProducerID(), head.BaseSequence(), head.LastSequence()
	sent := p.producers[id]
	if id >= 0 && sent != nil {
		for _, s := range sent.recent {
			if s.first == first && s.last == last {
				return expected{offset: s.base, time: time}
			}
		}
		if first != sent.last+1 {
			return expected{code: kerr.OutOfOrderSequenceNumber}
		}
	}
	times, err := recordTimes(payload)
	if err != nil {
		panic(err)
	}
	base := p.end
	p.end += entry.Offset(head.LastOffsetDelta()) + 1
	p.batches = append(p.batches, modelBatch{
		base: base, end: p.end, time: time, sum: crc32.ChecksumIEEE(payload[16:]), size: len(payload), times: times,
	})
	if id >= 0 {
		if sent == nil {
			sent = &modelProducer{}
			p.producers[id] = sent
		}
		sent.last = last
		sent.recent = append(sent.recent, modelSent{first, last, base})
		if len(sent.recent) > 5 {
			sent.recent = sent.recent[1:]
		}
	}
	return expected{offset: base, time: time}
}

var codecs = batch.NewCodecs(batch.Limits{})

func recordTimes(payload []byte) (times []entry.Time, err error) {
	it := codecs.Records(payload)
	defer it.Close()
	for it.Next() {
		times = append(times, entry.Time(it.Record().Timestamp))
	}
	return times, it.Err()
}

// each calls visit for the records that can be read, until it returns false.
func (p *modelPartition) each(visit func(log.Found) bool) {
	for _, b := range p.batches {
		for i, t := range b.times {
			if offset := b.base + entry.Offset(i); offset >= p.start && !visit(log.Found{Offset: offset, Time: t}) {
				return
			}
		}
	}
}

func (p *modelPartition) maxTime() log.Found {
	best := log.Found{Offset: -1, Time: -1}
	p.each(func(f log.Found) bool {
		if f.Time > best.Time {
			best = f
		}
		return true
	})
	return best
}

func (p *modelPartition) findTime(t entry.Time) log.Found {
	found := log.Found{Offset: -1, Time: -1}
	p.each(func(f log.Found) bool {
		if f.Time >= t {
			found = f
		}
		return found.Offset < 0
	})
	return found
}

// someTimes returns times around those of some records.
func (p *modelPartition) someTimes() []entry.Time {
	times := []entry.Time{0, 1 << 40}
	n := 0
	p.each(func(f log.Found) bool {
		if n++; n%7 == 1 {
			times = append(times, f.Time, f.Time+1)
		}
		return len(times) < 40
	})
	return times
}

// String is what a reader sees of all partitions.
func (m *model) String() string {
	var b strings.Builder
	for _, number := range slices.Sorted(maps.Keys(m.parts)) {
		p := m.parts[number]
		size := 0
		var row strings.Builder
		for _, one := range p.batches {
			if one.end > p.start {
				fmt.Fprintf(&row, " %d:%08x", one.base, one.sum)
				size += one.size
			}
		}
		fmt.Fprintf(&b, "%d [%d,%d) %d bytes%s\n", number, p.start, p.end, size, row.String())
	}
	return b.String()
}

// look returns what a reader sees of partitions, in the words of model.String.
// Each is read in pieces of odd sizes, and once more from the middle.
func look(l *log.Log, upTo entry.Partition, rng *rand.Rand) (string, error) {
	var b strings.Builder
	var batches log.Batches
	defer batches.Release()
	for p := entry.Partition(1); p <= upTo; p++ {
		start, end, ok := l.Bounds(p)
		if !ok {
			if _, err := l.Read(p, 0, 1, 1, true, &batches); kerr.Of(err) != kerr.UnknownTopicOrPartition {
				return "", fmt.Errorf("partition %d has no bounds, but reading it gives %v", p, err)
			}
			continue
		}
		size, err := l.Size(p)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%d [%d,%d) %d bytes", p, start, end, size)
		for next := start; next < end; {
			limit := 1 + rng.IntN(40_000)
			added, err := l.Read(p, next, end, limit, true, &batches)
			if err != nil || added == 0 {
				return "", fmt.Errorf("read partition %d [%d,%d) from %d: %d bytes, %w", p, start, end, next, added, err)
			}
			if added > limit && len(batches.Pieces) > 1 {
				return "", fmt.Errorf("read partition %d from %d: %d bytes, want at most %d", p, next, added, limit)
			}
			for _, piece := range batches.Pieces {
				for len(piece) > 0 {
					head, rest, err := batch.Split(piece)
					if err != nil {
						return "", fmt.Errorf("read partition %d from %d: %w", p, next, err)
					}
					if !head.ChecksumFits() || head.LeaderEpoch() != log.LeaderEpoch {
						return "", fmt.Errorf("partition %d: batch at %d has a bad head", p, head.BaseOffset())
					}
					if base := entry.Offset(head.BaseOffset()); base > next || entry.Offset(head.LastOffset()) < next {
						return "", fmt.Errorf("partition %d: batch of %d to %d follows %d", p, base, head.LastOffset(), next-1)
					}
					fmt.Fprintf(&b, " %d:%08x", head.BaseOffset(), crc32.ChecksumIEEE(head[16:]))
					next = entry.Offset(head.LastOffset()) + 1
					piece = rest
				}
			}
			batches.Release()
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
}

// generator makes workloads. What it makes depends on its seed alone.
type generator struct {
	rng       *rand.Rand
	partition entry.Partition // the newest one
	live      []entry.Partition
	next      map[[2]int64]int32 // partition and producer → next sequence
	sent      map[[2]int64][]byte
	codecs    *batch.Codecs
	count     int
	largest   int // records in bytes
}

func newGenerator(seed uint64) *generator {
	return &generator{
		rng: rand.New(rand.NewPCG(seed, 77)), codecs: batch.NewCodecs(batch.Limits{}),
		next: map[[2]int64]int32{}, sent: map[[2]int64][]byte{}, largest: 20_000,
	}
}

// ops returns the next n ops.
func (g *generator) ops(n int) []op {
	ops := make([]op, 0, n)
	for range n {
		ops = append(ops, g.op())
	}
	return ops
}

func (g *generator) op() op {
	g.count++
	roll := g.rng.IntN(100)
	switch {
	case len(g.live) < 2 || roll < 3 && len(g.live) < 12:
		g.partition++
		g.live = append(g.live, g.partition)
		return op{kind: entry.TypeCreateTopic, partition: g.partition}
	case roll < 6:
		i := g.rng.IntN(len(g.live))
		p := g.live[i]
		g.live = slices.Delete(g.live, i, i+1)
		return op{kind: entry.TypeDeleteTopic, partition: p}
	case roll < 7: // a partition that is gone, or not there yet
		return op{kind: entry.TypeProduce, partition: g.partition + entry.Partition(g.rng.IntN(2)), payload: g.records(nil)}
	case roll < 20:
		o := op{kind: entry.TypeLogStart}
		for range 1 + g.rng.IntN(3) {
			// Far in front of and behind the end, too: it is not known here.
			o.moves = append(o.moves, apply.LogStart{
				Partition: entry.Partition(1 + g.rng.IntN(int(g.partition)+1)),
				Offset:    entry.Offset(g.rng.IntN(g.count*2)) - 5,
			})
		}
		o.payload = apply.EncodeLogStarts(o.moves)
		return o
	}
	p := g.live[g.rng.IntN(len(g.live))]
	if g.rng.IntN(3) > 0 {
		return op{kind: entry.TypeProduce, partition: p, payload: g.records(nil)}
	}
	id := int64(g.rng.IntN(3))
	key := [2]int64{int64(p), id}
	if again := g.sent[key]; again != nil && g.rng.IntN(4) == 0 {
		return op{kind: entry.TypeProduce, partition: p, payload: slices.Clone(again)}
	}
	from := &batch.Producer{ID: id, Sequence: g.next[key]}
	if g.rng.IntN(10) == 0 {
		from.Sequence += 3 // out of order
	}
	payload := g.records(from)
	if from.Sequence == g.next[key] {
		g.next[key] += batch.Header(payload).LastOffsetDelta() + 1
		g.sent[key] = slices.Clone(payload)
	}
	return op{kind: entry.TypeProduce, partition: p, payload: payload}
}

func (g *generator) records(from *batch.Producer) []byte {
	var b batch.Builder
	for i := range 1 + g.rng.IntN(4) {
		value := make([]byte, 1+g.rng.IntN(g.largest)/(1+g.rng.IntN(12)))
		for k := range value {
			value[k] = byte(g.count + i + k*k%251)
		}
		b.Add(&batch.Record{Timestamp: int64(g.count*10 - g.rng.IntN(50)), Value: value})
	}
	o := batch.Options{Producer: from, Codec: batch.Codec(g.rng.IntN(8))}
	if o.Codec > batch.Zstd {
		o.Codec = batch.None
	}
	if g.rng.IntN(5) == 0 {
		o.Attributes = batch.LogAppendTime
	}
	payload, err := b.Build(nil, g.codecs, o)
	if err != nil {
		panic(err)
	}
	return payload
}
