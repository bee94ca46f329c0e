package apply

import (
	"encoding/binary"
	"fmt"

	"github.com/sluicemq/sluice/log/entry"
)

// LogStart asks for a partition's log start offset to move forward.
type LogStart struct {
	Partition entry.Partition
	Offset    entry.Offset
}

const logStartSize = 16

// EncodeLogStarts returns the payload of a TypeLogStart entry: 16 bytes a
// partition (number, offset; little endian).
func EncodeLogStarts(moves []LogStart) []byte {
	payload := make([]byte, 0, len(moves)*logStartSize)
	for _, m := range moves {
		payload = binary.LittleEndian.AppendUint64(payload, uint64(m.Partition))
		payload = binary.LittleEndian.AppendUint64(payload, uint64(m.Offset))
	}
	return payload
}

// DecodeLogStarts reads the payload of a TypeLogStart entry.
func DecodeLogStarts(payload []byte) ([]LogStart, error) {
	if len(payload)%logStartSize != 0 {
		return nil, fmt.Errorf("log start entry of %d bytes: not a multiple of %d", len(payload), logStartSize)
	}
	moves := make([]LogStart, 0, len(payload)/logStartSize)
	for ; len(payload) > 0; payload = payload[logStartSize:] {
		moves = append(moves, LogStart{
			Partition: entry.Partition(binary.LittleEndian.Uint64(payload)),
			Offset:    entry.Offset(binary.LittleEndian.Uint64(payload[8:])),
		})
	}
	return moves, nil
}

// logStart moves log start offsets forward, never backward and never past the
// end. A partition that is gone is passed over.
func (l *Loop) logStart(e *entry.Entry) entry.Result {
	moves, err := DecodeLogStarts(e.Payload)
	if err != nil {
		return entry.Result{Err: err}
	}
	for _, m := range moves {
		queue := l.options.Queues.Get(m.Partition)
		if queue == nil {
			continue
		}
		start, end := queue.Bounds()
		if to := min(m.Offset, end); to > start {
			queue.SetStart(to)
			l.saveBounds(m.Partition, to, end)
			l.options.Judge.LogStart(m.Partition, to, l.batch)
			l.options.Hub.Notify(m.Partition)
		}
	}
	return entry.Result{}
}
