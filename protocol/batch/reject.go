package batch

import (
	"fmt"

	"github.com/sluicemq/sluice/protocol/kerr"
)

// maxRecordErrors is how many records a RecordsError names, so that a large batch
// cannot ask for a larger response.
const maxRecordErrors = 1000

// RecordError says what is wrong with one record of a batch.
type RecordError struct {
	Index   int32 // in the batch, from 0
	Message string
}

// RecordsError refuses a batch because of some of its records. Produce responses
// from version 8 on list them; their error message is that of the refusal, which
// the error wraps: kerr.Of gives its code, kerr.Message the summary.
type RecordsError struct {
	Records []RecordError // the first of them, in order
	Total   int           // how many there are

	refusal *kerr.Error
}

// Error returns the summary.
func (e *RecordsError) Error() string { return e.refusal.Error() }

// Unwrap returns the refusal, a *kerr.Error.
func (e *RecordsError) Unwrap() error { return e.refusal }

// add puts down what is wrong with a record. The first call makes e.
func (e *RecordsError) add(index int32, code kerr.Code, format string, args ...any) *RecordsError {
	if e == nil {
		e = &RecordsError{refusal: &kerr.Error{Code: code}}
	}
	e.Total++
	if code == kerr.InvalidTimestamp {
		e.refusal.Code = code // one bad timestamp decides, as in Kafka
	}
	if len(e.Records) < maxRecordErrors {
		e.Records = append(e.Records, RecordError{index, fmt.Sprintf(format, args...)})
	}
	return e
}

// finish writes the summary.
func (e *RecordsError) finish() error {
	first := e.Records[0]
	e.refusal.Message = fmt.Sprintf("%d records of the batch are refused; record %d %s",
		e.Total, first.Index, first.Message)
	if e.Total == 1 {
		e.refusal.Message = fmt.Sprintf("record %d of the batch %s", first.Index, first.Message)
	}
	return e
}
