package batch

// FindTimestamp returns the first record of the batch, in offset order, whose
// timestamp is ts or later: its offset delta and its own timestamp. found is
// false if there is none. It looks at the records and not at the header, whose
// max timestamp is the producer's word.
func (c *Codecs) FindTimestamp(b []byte, ts int64) (delta int32, timestamp int64, found bool, err error) {
	it := c.Records(b)
	defer it.Close()
	for it.Next() {
		if r := it.Record(); r.Timestamp >= ts {
			return r.OffsetDelta, r.Timestamp, true, nil
		}
	}
	return -1, NoTimestamp, false, it.Err()
}

// MaxTimestampRecord returns the record with the largest timestamp, the first of
// them if there are several: its offset delta and its timestamp. found is false
// if no record has a timestamp.
func (c *Codecs) MaxTimestampRecord(b []byte) (delta int32, timestamp int64, found bool, err error) {
	it := c.Records(b)
	defer it.Close()
	delta, timestamp = -1, NoTimestamp
	for it.Next() {
		if r := it.Record(); r.Timestamp > timestamp {
			delta, timestamp, found = r.OffsetDelta, r.Timestamp, true
		}
	}
	if err := it.Err(); err != nil {
		return -1, NoTimestamp, false, err
	}
	return delta, timestamp, found, nil
}
