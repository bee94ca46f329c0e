package conn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/sluicemq/sluice/protocol"
)

// closeWait bounds how long Close waits for handlers that were cancelled.
const closeWait = 5 * time.Second

// Server serves connections. Its methods are safe for concurrent use.
type Server struct {
	options   Options
	log       *zap.Logger
	lines     lines
	listeners []listener
	routes    *protocol.Routes // set by Serve
	budget    budget
	pool      pool
	stats     Stats
	nextID    atomic.Uint64

	// decoding is held while a large request is decoded, which may take
	// protocol.DecodeFactor times its size before it is found out to be hostile.
	decoding sync.Mutex

	ctx    context.Context // of all handlers
	cancel context.CancelFunc
	stop   chan struct{}  // closed when no connection is accepted any more
	live   sync.WaitGroup // accept loops, and readers and writers of connections

	mu       sync.Mutex // guards what follows
	serving  bool
	stopping bool
	open     map[*connection]struct{}
	perIP    map[netip.Addr]int
}

type listener struct {
	Listener
	socket net.Listener
}

// Open checks the options and binds the listeners, but accepts nothing yet: so
// addresses are known, and in use, before there is something to serve. The
// caller must call Serve or Close.
func Open(o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		options: o,
		log:     o.Log,
		budget:  budget{limit: o.QueuedBytes},
		stop:    make(chan struct{}),
		open:    make(map[*connection]struct{}),
		perIP:   make(map[netip.Addr]int),
	}
	s.lines.log = o.Log
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for _, l := range o.Listeners {
		socket, err := listen(s.ctx, l.Address)
		if err != nil {
			s.closeListeners()
			s.cancel()
			return nil, fmt.Errorf("listen at %s (listener %s): %w", l.Address, l.Name, err)
		}
		s.listeners = append(s.listeners, listener{l, socket})
	}
	return s, nil
}

// listen binds a TCP address. Sockets have TCP_NODELAY and keepalive, as is
// Go's default.
func listen(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	// Go listens with Multipath TCP where it can. Kafka's clients do not speak
	// it, and a plain socket has the shorter way through the kernel.
	config.SetMultipathTCP(false)
	return config.Listen(ctx, "tcp", address)
}

// Addr returns the address that the named listener is bound to, or nil if
// there is no such listener.
func (s *Server) Addr(name string) net.Addr {
	for _, l := range s.listeners {
		if l.Name == name {
			return l.socket.Addr()
		}
	}
	return nil
}

// Serve starts to accept connections and to serve them by the routes. It
// returns at once. It is called once; a later call changes nothing.
func (s *Server) Serve(routes *protocol.Routes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serving || s.stopping {
		return
	}
	s.serving, s.routes = true, routes
	for _, l := range s.listeners {
		s.log.Info("listening", zap.String("listener", l.Name), zap.Stringer("address", l.socket.Addr()))
		s.live.Add(1)
		go s.acceptLoop(l)
	}
}

// Stats returns the counters of the server. They change while it serves.
func (s *Server) Stats() *Stats { return &s.stats }

// QueuedBytes returns the bytes in flight that count against the budget, and
// those of the one request that went past it.
func (s *Server) QueuedBytes() (counted, past int64) { return s.budget.inUse() }

// Shutdown stops the server with grace: it accepts no connection, reads no
// further request, lets pending ones be answered, and closes each connection
// that has no more of them. When ctx ends before that, it does what Close does,
// and returns the error of ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	for _, c := range s.stopAccepting() {
		c.drain()
	}
	select {
	case <-s.ended():
		s.cancel()
		return nil
	case <-ctx.Done():
		return errors.Join(ctx.Err(), s.Close())
	}
}

// Close stops the server at once: connections are closed, contexts of handlers
// are cancelled. It waits for the handlers to resolve what is pending, 5
// seconds at most, and returns an error if some did not.
func (s *Server) Close() error {
	open := s.stopAccepting()
	s.cancel()
	for _, c := range open {
		c.abort()
	}
	patience := time.NewTimer(closeWait)
	defer patience.Stop()
	select {
	case <-s.ended():
		return nil
	case <-patience.C:
		s.mu.Lock()
		defer s.mu.Unlock()
		return fmt.Errorf("conn: %d connections have requests whose handlers do not end", len(s.open))
	}
}

// stopAccepting closes the listeners and returns the open connections, to
// which no other can be added afterwards.
func (s *Server) stopAccepting() []*connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopping {
		s.stopping = true
		close(s.stop)
		s.closeListeners()
	}
	open := make([]*connection, 0, len(s.open))
	for c := range s.open {
		open = append(open, c)
	}
	return open
}

func (s *Server) closeListeners() {
	for _, l := range s.listeners {
		l.socket.Close()
	}
}

// ended returns a channel that is closed when all goroutines of the server
// have ended. The goroutine behind it ends with them.
func (s *Server) ended() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		s.live.Wait()
		close(done)
	}()
	return done
}
