package consumequeue

import (
	"fmt"
	"math"
	"runtime/debug"
)

// Verify checks every byte of the file that Open did not: the checksums of the
// entries, and that the entries and the directory say the same.
func (f *File) Verify() (err error) {
	defer f.guard(debug.SetPanicOnFault(true), &err)
	for block := range f.at.blocks {
		if err := f.checkBlock(block); err != nil {
			return err
		}
	}
	for slot := range uint32(f.head.partitions) {
		if err := f.verifyPartition(f.dir(slot)); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

func (f *File) verifyPartition(d dirEntry) error {
	var before Entry
	sum := dirEntry{partition: d.partition, first: d.first, count: d.count, max: math.MinInt64}
	for i := range d.count {
		e, err := f.entry(uint64(d.first) + uint64(i))
		if err != nil {
			return err
		}
		switch {
		case e.Count == 0 || e.End() < e.BaseOffset:
			return fmt.Errorf("%w: batch at offset %d of partition %d covers %d offsets", ErrStructure, e.BaseOffset, d.partition, e.Count)
		case e.At >= f.head.End:
			return fmt.Errorf("%w: batch at offset %d of partition %d is at byte %d, behind the end %d", ErrStructure, e.BaseOffset, d.partition, e.At, f.head.End)
		case i > 0 && (e.BaseOffset < before.End() || e.At <= before.At):
			return fmt.Errorf("%w: batch at offset %d of partition %d is not behind its predecessor", ErrStructure, e.BaseOffset, d.partition)
		case i == 0:
			sum.base = e.BaseOffset
		}
		sum.end = e.End()
		sum.bytes += int64(e.Size)
		sum.max = max(sum.max, e.MaxTimestamp)
		before = e
	}
	if sum != d {
		return fmt.Errorf("%w: directory and entries of partition %d differ", ErrStructure, d.partition)
	}
	return nil
}
