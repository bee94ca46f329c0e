package conn

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

// kind is what went wrong, for limiting log lines and for counting.
type kind uint8

const (
	kindSize    kind = iota // frame too large or too small
	kindKey                 // API that is not served
	kindVersion             // version that is not served
	kindHeader              // header does not parse
	kindBody                // body does not parse
	kindSlow                // began a frame and did not go on
	kindStalled             // does not read its responses
	kindHandler             // the handler asked for it
	kindBug                 // panic, or a response that cannot be sent
	kindLimit               // too many connections
	kindAccept              // accepting fails
	nKinds
)

var kindNames = [nKinds]string{
	kindSize:    "frame-size",
	kindKey:     "unknown-api",
	kindVersion: "unsupported-version",
	kindHeader:  "malformed-header",
	kindBody:    "malformed-body",
	kindSlow:    "slow-request",
	kindStalled: "slow-reader",
	kindHandler: "handler",
	kindBug:     "bug",
	kindLimit:   "connection-limit",
	kindAccept:  "accept",
}

// String returns the name that log lines and metrics show.
func (k kind) String() string { return kindNames[k] }

// linesEvery is how often a line of one kind is written.
const linesEvery = time.Second

// lines writes log lines, at most one a second of each kind. A line says how
// many before it were left out.
type lines struct {
	log *zap.Logger

	mu    sync.Mutex // guards what follows
	kinds [nKinds]struct {
		last    time.Time
		leftOut int
	}
}

// may reports whether a line of kind k may be written, and how many could not
// be since the last one.
func (l *lines) may(k kind, now time.Time) (leftOut int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := &l.kinds[k]
	if !state.last.IsZero() && now.Sub(state.last) < linesEvery {
		state.leftOut++
		return 0, false
	}
	leftOut = state.leftOut
	state.last, state.leftOut = now, 0
	return leftOut, true
}

// warn writes a line about something that a peer or the system did wrong.
func (l *lines) warn(k kind, message string, fields ...zap.Field) {
	if leftOut, ok := l.may(k, time.Now()); ok {
		l.log.Warn(message, append(fields, zap.Stringer("kind", k), zap.Int("left_out", leftOut))...)
	}
}

// bug writes a line about something that Sluice did wrong.
func (l *lines) bug(message string, fields ...zap.Field) {
	if leftOut, ok := l.may(kindBug, time.Now()); ok {
		l.log.Error(message, append(fields, zap.Stringer("kind", kindBug), zap.Int("left_out", leftOut))...)
	}
}
