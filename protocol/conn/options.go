package conn

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// Listener is one address to serve at.
type Listener struct {
	Name    string // unique; shown in log lines and ConnInfo, "PLAINTEXT" for one
	Address string // host:port; with port 0 the system chooses
}

// Options configures a Server. Zero values mean the default named, and where
// none is named, no limit.
type Options struct {
	Listeners []Listener

	// MaxConnections and MaxConnectionsPerIP (max.connections,
	// max.connections.per.ip) bound the connections that are open. One too many is
	// closed as soon as it was accepted: left waiting for its turn, as Kafka does
	// with max.connections, a client could only tell by its time-out.
	MaxConnections      int
	MaxConnectionsPerIP int

	// MaxRequestBytes (socket.request.max.bytes) bounds every request frame, and
	// is the only bound for Produce. Default 100 MiB.
	MaxRequestBytes int
	// QueuedBytes (queued.max.request.bytes) is the budget of bytes in flight, see
	// the package documentation. Default 128 MiB.
	QueuedBytes int64
	// MaxPending bounds the requests of one connection that wait for their
	// response. Default 64.
	MaxPending int

	// IdleTimeout (connections.max.idle.ms) closes connections on which nothing
	// happens and nothing is pending. Default 10 minutes.
	IdleTimeout time.Duration
	// FrameTimeout is how long each MiB of a frame that has begun may take to
	// arrive. Default 30 s.
	FrameTimeout time.Duration
	// WriteTimeout is how long a client may take to read on (at least 16 KiB, or
	// what is left). Default 30 s.
	WriteTimeout time.Duration

	// Log takes one line for each thing that went wrong. Default: none.
	Log *zap.Logger
}

// Defaults of Options.
const (
	DefaultMaxRequestBytes = 100 << 20
	DefaultQueuedBytes     = 128 << 20
	DefaultMaxPending      = 64
	DefaultIdleTimeout     = 10 * time.Minute
	DefaultFrameTimeout    = 30 * time.Second
	DefaultWriteTimeout    = 30 * time.Second
)

// withDefaults returns o with defaults filled in, or an error that names all
// fields that make no sense.
func (o Options) withDefaults() (Options, error) {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("conn: "+format, args...))
		}
	}
	check(o.MaxConnections >= 0, "MaxConnections is %d", o.MaxConnections)
	check(o.MaxConnectionsPerIP >= 0, "MaxConnectionsPerIP is %d", o.MaxConnectionsPerIP)
	check(o.MaxRequestBytes >= 0, "MaxRequestBytes is %d", o.MaxRequestBytes)
	check(o.QueuedBytes >= 0, "QueuedBytes is %d", o.QueuedBytes)
	check(o.MaxPending >= 0, "MaxPending is %d", o.MaxPending)
	check(o.IdleTimeout >= 0, "IdleTimeout is %v", o.IdleTimeout)
	check(o.FrameTimeout >= 0, "FrameTimeout is %v", o.FrameTimeout)
	check(o.WriteTimeout >= 0, "WriteTimeout is %v", o.WriteTimeout)
	names := make(map[string]bool)
	for _, l := range o.Listeners {
		check(l.Name != "" && !names[l.Name], "listener name %q is empty or used twice", l.Name)
		names[l.Name] = true
	}

	o.MaxRequestBytes = or(o.MaxRequestBytes, DefaultMaxRequestBytes)
	o.QueuedBytes = or(o.QueuedBytes, DefaultQueuedBytes)
	o.MaxPending = or(o.MaxPending, DefaultMaxPending)
	o.IdleTimeout = or(o.IdleTimeout, DefaultIdleTimeout)
	o.FrameTimeout = or(o.FrameTimeout, DefaultFrameTimeout)
	o.WriteTimeout = or(o.WriteTimeout, DefaultWriteTimeout)
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return o, errors.Join(errs...)
}

func or[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}
