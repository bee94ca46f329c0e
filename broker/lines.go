package broker

import (
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"
)

var errStopping = errors.New("the broker is stopping")

// lines writes at most one line a second of each text, so that a condition that
// lasts does not fill the operator's disk as well.
type lines struct {
	mu   sync.Mutex
	last map[string]time.Time // guarded by mu; by text, of which there are few
}

func (l *lines) warn(logger *zap.Logger, text string, fields ...zap.Field) {
	now := time.Now()
	l.mu.Lock()
	if l.last == nil {
		l.last = make(map[string]time.Time)
	}
	silent := now.Sub(l.last[text]) < time.Second
	if !silent {
		l.last[text] = now
	}
	l.mu.Unlock()
	if !silent {
		logger.Warn(text, fields...)
	}
}

// because is why something failed, in one line. zap.Error would add the stacks
// that some libraries put into their errors.
func because(err error) zap.Field { return zap.String("error", err.Error()) }
