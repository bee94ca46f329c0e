package commitlog

import "sync/atomic"

// aheadBytes is how much of a segment is read into memory ahead of who reads it
// from front to back. The kernel does that by itself only for reads that follow
// each other without a gap; a consumer of one partition leaves out the others.
const aheadBytes = 8 << 20

// ahead follows the reads of a segment.
type ahead struct {
	// asked is the byte up to which reading ahead was asked for, or where the
	// newest read ended that did not follow another.
	asked atomic.Int64
}

// next notes a read of the bytes from at to end, and returns which part of the
// file it is time to ask for; bytes is 0 for none. Of readers in different places
// at the same time only some are recognised, which costs them speed and no more.
func (a *ahead) next(at, end int64) (from, bytes int64) {
	asked := a.asked.Load()
	if at < asked-2*aheadBytes || at > asked+aheadBytes {
		a.asked.CompareAndSwap(asked, end)
		return 0, 0
	}
	if end+aheadBytes/2 <= asked {
		return 0, 0
	}
	from = max(asked, end)
	if !a.asked.CompareAndSwap(asked, from+aheadBytes) {
		return 0, 0 // another reader asks
	}
	return from, aheadBytes
}
