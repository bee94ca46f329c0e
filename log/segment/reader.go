package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/sluicemq/sluice/log/entry"
)

// readBytes is how much a Reader asks of the file at a time.
const readBytes = 1 << 20

// Reader reads the entries of one segment in order and checks each of them
// completely. It is used like this: while Fill returns true, call Next until it
// returns false; then Err says how it ended.
//
// All entries that Next returned since the last Fill are valid together, which
// lets a caller handle them in groups. A Reader allocates nothing per entry. It
// is not safe for concurrent use.
type Reader struct {
	file io.ReaderAt
	name string

	number uint32
	at     int64 // where the next entry begins
	limit  int64 // where entries end at the latest
	tail   Tail

	buf   []byte // grows to the largest entry
	begin int    // of the next entry in buf
	end   int    // of what was read in buf
	eof   bool   // the file has nothing behind buf[:end]
	err   error
}

// NewReader returns a Reader of the entries in the segment with the number from
// byte at on, which is where an entry begins or the segment ends. prev is the
// tail that the predecessor of that entry left. Entries end at byte limit at the
// latest. The name is for error messages.
func NewReader(file io.ReaderAt, name string, number uint32, at, limit int64, prev Tail) *Reader {
	return &Reader{
		file: file, name: name, number: number, at: at, limit: min(limit, MaxBytes), tail: prev,
		buf: make([]byte, min(readBytes, max(limit-at, EntryHeaderBytes))),
	}
}

// At returns the byte at which the next entry begins, or should.
func (r *Reader) At() int64 { return r.at }

// Tail returns the tail that the newest entry left.
func (r *Reader) Tail() Tail { return r.tail }

// Err returns why there is no further entry: nil where the segment ends cleanly
// (nothing but zeroes where a header could be, or no room for one), a
// DamageError where bytes are not a valid next entry, or an error of reading.
func (r *Reader) Err() error {
	if errors.Is(r.err, io.EOF) {
		return nil
	}
	return r.err
}

// Fill reads on until at least one entry is in memory, and makes the entries
// that were returned before invalid. It returns false when there is none.
func (r *Reader) Fill() bool {
	if r.err != nil {
		return false
	}
	r.end = copy(r.buf, r.buf[r.begin:r.end])
	r.begin = 0
	if !r.want(EntryHeaderBytes) {
		return false
	}
	if r.end < EntryHeaderBytes {
		if r.at+EntryHeaderBytes <= r.limit && !Blank(r.buf[:r.end]) {
			return r.damage(0, ErrShort, fmt.Sprintf("file ends after %d bytes of an entry header", r.end))
		}
		return r.ended()
	}
	h, ok := r.header()
	if !ok {
		return false
	}
	// The checksum was right, so the length is what was written.
	need := EntryHeaderBytes + int64(h.PayloadBytes)
	if r.at+need > r.limit {
		return r.damage(entryLengthAt, ErrShort,
			fmt.Sprintf("payload of %d bytes goes past the end of the segment at %d", h.PayloadBytes, r.limit))
	}
	if !r.want(need) {
		return false
	}
	if int64(r.end) < need {
		return r.damage(EntryHeaderBytes, ErrShort,
			fmt.Sprintf("file ends %d bytes before the payload does", need-int64(r.end)))
	}
	return true
}

// want reads until n bytes are in buf or the file ends. It returns false after
// an error of reading.
func (r *Reader) want(n int64) bool {
	if n > int64(len(r.buf)) {
		size, err := fileSize(r.file)
		if err == nil && r.at+n > size && size >= 0 {
			n = max(size-r.at, 0) // a file that is too short must not cost memory
		}
		if n > int64(len(r.buf)) {
			grown := make([]byte, n)
			copy(grown, r.buf[:r.end])
			r.buf = grown
		}
	}
	for int64(r.end) < n && !r.eof {
		from := r.at + int64(r.end)
		room := min(int64(len(r.buf)), max(r.limit-r.at, 0))
		if int64(r.end) >= room {
			r.eof = true
			break
		}
		got, err := r.file.ReadAt(r.buf[r.end:room], from)
		r.end += got
		switch {
		case errors.Is(err, io.EOF):
			r.eof = true
		case err != nil:
			r.err = fmt.Errorf("read %s at byte %d: %w", r.name, from, err)
			return false
		}
	}
	return true
}

// fileSize returns the length of the file, or -1 when it cannot be told.
func fileSize(file io.ReaderAt) (int64, error) {
	if s, ok := file.(interface{ Size() (int64, error) }); ok {
		return s.Size()
	}
	return -1, nil
}

// header checks the header at buf[begin:]. It returns false, with err set or at
// the clean end, when there is no valid one.
func (r *Reader) header() (EntryHeader, bool) {
	src := r.buf[r.begin : r.begin+EntryHeaderBytes]
	if binary.LittleEndian.Uint32(src[entryMagicAt:]) == 0 && Blank(src) {
		return EntryHeader{}, r.ended()
	}
	h, err := ParseEntryHeader(src, r.tail)
	if err != nil {
		var d *DamageError
		if errors.As(err, &d) {
			d.File, d.At = r.name, d.At+r.at
		}
		r.err = err
		return EntryHeader{}, false
	}
	return h, true
}

// ended notes the clean end.
func (r *Reader) ended() bool {
	r.eof = true
	r.begin, r.end = 0, 0
	r.err = io.EOF
	return false
}

func (r *Reader) damage(at int64, kind error, detail string) bool {
	r.err = &DamageError{
		File: r.name, At: r.at + at, Index: r.tail.Index + 1, Kind: kind, Detail: detail,
	}
	return false
}

// Next returns the next entry in memory and where it is. It returns false when
// Fill must be called. The payload points into the Reader's memory; the caller
// may change it.
func (r *Reader) Next(e *entry.Entry) (entry.Pos, bool) {
	if r.err != nil || r.end-r.begin < EntryHeaderBytes {
		return 0, false
	}
	h, ok := r.header()
	if !ok {
		return 0, false
	}
	need := EntryHeaderBytes + int64(h.PayloadBytes)
	if int64(r.end-r.begin) < need {
		return 0, false
	}
	payload := r.buf[r.begin+EntryHeaderBytes : r.begin+int(need) : r.begin+int(need)]
	if got := Checksum(payload); got != h.PayloadSum {
		r.damage(EntryHeaderBytes, ErrChecksum,
			fmt.Sprintf("payload has %#08x, says %#08x", got, h.PayloadSum))
		return 0, false
	}
	*e = h.Entry
	e.Payload = payload
	pos := entry.MakePos(r.number, uint32(r.at))
	r.begin += int(need)
	r.at += need
	r.tail = h.Tail()
	return pos, true
}
