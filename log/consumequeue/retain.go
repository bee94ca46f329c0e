package consumequeue

import "github.com/sluicemq/sluice/log/entry"

// Size returns the bytes of the partition's batches, from the one that holds
// the start offset on. Batches count as a whole.
func (q *Queue) Size() (int64, error) {
	for {
		q.mu.Lock()
		start, total := q.start, q.bytes
		q.mu.Unlock()
		below, err := q.bytesBelow(start)
		if err != nil {
			return 0, err
		}
		if again, _ := q.Bounds(); again == start {
			return total - below, nil
		}
		// The start moved while we counted, and what lay below it may have been
		// counted twice or not at all.
	}
}

// bytesBelow returns the bytes of the batches wholly below start that q.bytes
// still has: in tails, and in the file in which the start lies.
func (q *Queue) bytesBelow(start entry.Offset) (below int64, err error) {
	from := entry.Offset(0)
	for {
		var src source
		q.mu.Lock()
		ok := q.sourceOf(from, &src) && src.first < start
		q.mu.Unlock()
		if !ok {
			src.release()
			return below, nil
		}
		_, err := src.visit(from, func(src *source, _ entry.Offset) (bool, error) {
			if src.end <= start {
				below += src.bytes
				return true, nil
			}
			for i := range src.count {
				e, err := src.at(i)
				if err != nil {
					return false, err
				}
				if e.End() > start {
					break
				}
				below += int64(e.Size)
			}
			return true, nil
		})
		src.release()
		if err != nil {
			return 0, err
		}
		from = src.next
	}
}

// Retention is how much of a partition is kept. Below 0 means without limit.
type Retention struct {
	Ms    int64 // Kafka's retention.ms
	Bytes int64 // Kafka's retention.bytes
}

// expired reports whether the oldest batches of a partition are to go: their
// largest timestamp is older than Ms, or what remains without them is still
// Bytes or more. Size is that of the partition with them. Latest below 0 means
// that their age is not known.
func (r Retention) expired(now, latest entry.Time, bytes, size int64) bool {
	if r.Ms >= 0 && latest >= 0 && latest < now-entry.Time(r.Ms) {
		return true
	}
	return r.Bytes >= 0 && size-bytes >= r.Bytes
}

// Retain returns the start offset that the partition is to have at the time now:
// that of the first batch that stays. It changes nothing. Batches go one by one,
// oldest first, up to the first that stays, as segments do in Kafka; so a batch
// with a timestamp in the future keeps all behind it. A batch whose records have
// no timestamps is as old as the last entry of its segment, and stays until the
// segment is sealed.
func (q *Queue) Retain(now entry.Time, r Retention) (entry.Offset, error) {
	start, _ := q.Bounds()
	var size int64
	if r.Bytes >= 0 {
		var err error
		if size, err = q.Size(); err != nil {
			return start, err
		}
	} else if r.Ms < 0 {
		return start, nil
	}
	err := q.sources(start, func(src *source, from entry.Offset) (more bool, err error) {
		untimed := entry.Time(-1)
		if src.sealed {
			untimed = src.file.head.LastTime
		}
		// All at once, where one look at the directory can tell.
		if src.sealed && src.first >= from && src.max >= 0 && r.expired(now, max(src.max, untimed), src.bytes, size) {
			start = src.end
			size -= src.bytes
			return true, nil
		}
		i, err := src.search(from)
		for ; err == nil && i < src.count; i++ {
			var e Entry
			if e, err = src.at(i); err != nil {
				break
			}
			latest := e.MaxTimestamp
			if latest < 0 {
				latest = untimed
			}
			if !r.expired(now, latest, int64(e.Size), size) {
				return false, nil
			}
			start = e.End()
			size -= int64(e.Size)
		}
		return true, err
	})
	return start, err
}
